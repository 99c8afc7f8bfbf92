//! Properties of the filter over hostile input, with another parser as a witness.

use proptest::prelude::*;

use super::*;
use crate::terminal::table::{find_csi, find_mode};

/// Looks at output as a terminal would, and remembers what must not be there.
#[derive(Default)]
struct Oracle {
    forbidden: Vec<String>,
}

impl vte::Perform for Oracle {
    fn execute(&mut self, byte: u8) {
        if !matches!(byte, 0x07..=0x0a | 0x0d..=0x0f) {
            self.forbidden.push(format!("control {byte:#x}"));
        }
    }

    fn hook(&mut self, _: &vte::Params, inter: &[u8], _: bool, last: char) {
        if (inter, last) != (b"+", 'q') {
            self.forbidden.push(format!("device {inter:?} {last}"));
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        let listed: [&[u8]; 15] = [
            b"0", b"1", b"2", b"4", b"8", b"9", b"10", b"11", b"12", b"104", b"110", b"111", b"112", b"133",
            b"9",
        ];
        let notification = params[0] == b"9" && params.get(1) != Some(&&b"4"[..]);
        if !listed.contains(&params[0]) || notification {
            self.forbidden.push(format!("osc {}", params[0].escape_ascii()));
        }
    }

    fn csi_dispatch(&mut self, params: &vte::Params, inter: &[u8], ignore: bool, action: char) {
        let (prefix, inter) = match *inter {
            [] => (0, 0),
            [byte @ b'<'..=b'?'] => (byte, 0),
            [byte] => (0, byte),
            [prefix, inter] => (prefix, inter),
            _ => (b'!', b'!'),
        };
        let first = params.iter().next().map_or(0, |subs| subs[0]);
        let window = action == 't' && !matches!(first, 14 | 16 | 18 | 22 | 23);
        let mode = matches!(action, 'h' | 'l') && params.iter().any(|mode| find_mode(mode[0]).is_none());
        if ignore || window || mode || find_csi(prefix, inter, action as u8).is_none() {
            self.forbidden.push(format!("csi {prefix} {inter} {action}"));
        }
    }

    fn esc_dispatch(&mut self, inter: &[u8], _: bool, byte: u8) {
        if !matches!((inter, byte), ([], b'7' | b'8' | b'D' | b'E' | b'M' | b'H' | b'=' | b'>' | b'\\'))
            && !matches!((inter, byte), ([b'('..=b'+'], b'B' | b'0' | b'A'))
        {
            self.forbidden.push(format!("esc {inter:?} {byte}"));
        }
    }
}

fn forbidden(out: &[u8]) -> Vec<String> {
    let mut oracle = Oracle::default();
    vte::Parser::new().advance(&mut oracle, out);
    oracle.forbidden
}

#[test]
fn the_oracle_sees_what_is_forbidden() {
    for input in
        ["\x1b]52;c;aGk=\x07", "\x1b[21t", "\x1bPtmux;x\x1b\\", "\x05", "\x1bc", "\x1b[?69h", "\x1b]9;x\x07"]
    {
        assert!(!forbidden(input.as_bytes()).is_empty(), "{input:?}");
    }
}

/// Pieces that are likely to confuse, in any order.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\x1b".to_vec()),
        Just(b"\x1b]".to_vec()),
        Just(b"\x1b[".to_vec()),
        Just(b"\x1b[?".to_vec()),
        Just(b"\x1bP".to_vec()),
        Just(b"\x1b_G".to_vec()),
        Just(b"\x1b\\".to_vec()),
        Just(b"52;c;aGk=".to_vec()),
        Just(b"8;;http://a".to_vec()),
        Just(b"0;title".to_vec()),
        Just(b"+q544e".to_vec()),
        Just("✳é".as_bytes().to_vec()),
        prop::sample::select(
            b"\x00\x05\x07\x08\x0e\x18\x1a\x1b\x7f\x80\x84\x90\x9b\x9c\x9d\xc2\xe2\xf0\xff;:?>0129mhltcq$! "
                .to_vec()
        )
        .prop_map(|byte| vec![byte]),
        any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_forbidden_comes_out(input in hostile()) {
        let out = whole(&input);
        prop_assert_eq!(forbidden(&out), Vec::<String>::new(), "{}", out.escape_ascii());
        let text = String::from_utf8(out).expect("UTF-8");
        let c1 = text.contains(|c| matches!(c, '\u{80}'..='\u{9f}'));
        prop_assert!(!c1);
    }

    #[test]
    fn cuts_change_nothing(input in hostile(), size in 1_usize..9) {
        for classes in [Classes::default(), everything()] {
            prop_assert_eq!(filtered(classes, [&input[..]]), filtered(classes, input.chunks(size)));
        }
    }

    #[test]
    fn what_passed_passes_again(input in hostile()) {
        let once = whole(&input);
        let twice = whole(&once);
        prop_assert_eq!(once.escape_ascii().to_string(), twice.escape_ascii().to_string());
    }

    #[test]
    fn switching_off_leaves_nothing_on(input in hostile()) {
        let mut filter = Filter::new(Classes::default());
        let mut out = Vec::new();
        filter.push(&input, &mut out);
        let off = filter.modes().off();
        prop_assert_eq!(forbidden(&off), Vec::<String>::new());
        let mut again = Filter::new(Classes::default());
        again.push(&out, &mut Vec::new());
        again.push(&off, &mut Vec::new());
        prop_assert!(!again.modes().any(), "{:?}", again.modes());
    }

    #[test]
    fn switching_on_brings_the_same_modes_back(input in hostile()) {
        let mut filter = Filter::new(Classes::default());
        filter.push(&input, &mut Vec::new());
        let mut again = Filter::new(Classes::default());
        again.push(&filter.modes().on(), &mut Vec::new());
        prop_assert_eq!(filter.modes().off(), again.modes().off());
    }
}

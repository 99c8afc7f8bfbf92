//! Properties of the filter over hostile input, with other parsers as witnesses.

use proptest::prelude::*;

use super::oracle::forbidden;
use super::*;

#[test]
fn the_oracle_sees_what_is_forbidden() {
    for input in [
        "\x1b]52;c;aGk=\x07",
        "\x1b]52;c;?\x07",
        "\x1b[21t",
        "\x1b[8;9;9t",
        "\x1bPtmux;x\x1b\\",
        "\x1bP$qm\x1b\\",
        "\x05",
        "\x1bc",
        "\x1b[?69h",
        "\x1b]9;x\x07",
        "\x1b]7;file:///\x07",
        "\x1b[5i",
        "\x1b[1;1;1;1;1T",
        "\u{9d}",
        "\x7f",
    ] {
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
        prop_assert_eq!(filter.modes().on(), again.modes().on());
    }
}

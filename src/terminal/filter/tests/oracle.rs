//! Witnesses that are not ours: parsers of other terminals read the filter's output and note what must not be there.
//!
//! What is allowed is written down here once more, from the requirements and not from the filter's own table, so that a
//! wrong row there is noticed. The fuzzer compiles this file too.

/// What vte (alacritty's parser) and vt100 see in `output` that the default classes must not let pass.
pub fn forbidden(output: &[u8]) -> Vec<String> {
    let mut witness = Witness::default();
    vte::Parser::new().advance(&mut witness, output);
    let mut terminal = vt100::Parser::new_with_callbacks(24, 80, 0, witness);
    terminal.process(output);
    let mut forbidden = std::mem::take(&mut terminal.callbacks_mut().forbidden);
    match std::str::from_utf8(output) {
        Ok(text) if text.contains(|c| matches!(c, '\u{80}'..='\u{9f}' | '\u{7f}')) => {
            forbidden.push("a C1 control or DEL".to_owned());
        }
        Ok(_) => {}
        Err(error) => forbidden.push(error.to_string()),
    }
    forbidden
}

/// Private modes of TERM-2.
pub fn is_listed_mode(mode: u16) -> bool {
    matches!(
        mode,
        1 | 7 | 12 | 25 | 47 | 1000..=1007 | 1015 | 1016 | 1047..=1049 | 2004 | 2026 | 2027 | 2031
    )
}

/// Operating system commands of TERM-2; OSC 9 is progress alone.
pub fn is_listed_command(params: &[&[u8]]) -> bool {
    match params.first().copied().unwrap_or_default() {
        b"9" => params.get(1) == Some(&&b"4"[..]),
        number => {
            [&b"0"[..], b"1", b"2", b"4", b"8", b"10", b"11", b"12", b"104", b"110", b"111", b"112", b"133"]
                .contains(&number)
        }
    }
}

/// Control sequences of TERM-2 by prefix or intermediate, final byte and parameters.
pub fn is_listed_sequence(inter: &[u8], last: char, params: &[u16]) -> bool {
    let first = params.first().copied().unwrap_or(0);
    match (inter, last) {
        (b"?", 'h' | 'l') => params.iter().all(|mode| is_listed_mode(*mode)),
        (b"", 't') => matches!(first, 14 | 16 | 18 | 22 | 23),
        (b"", 'c') | (b">", 'c' | 'q') => first == 0,
        (b"", 'n') => matches!(first, 5 | 6),
        (b"", 's') => params.len() <= 1,
        (b"", 'T') => params.len() <= 1,
        (b">", 'm') => first == 4,
        (
            b"",
            'A'..='H'
            | 'J'..='M'
            | 'P'
            | 'S'
            | 'X'
            | 'Z'
            | 'I'
            | '@'
            | '`'
            | 'a'
            | 'b'
            | 'd'
            | 'e'
            | 'f'
            | 'm'
            | 'r'
            | 'u',
        )
        | (b"?", 'u' | 'm')
        | (b">" | b"<" | b"=", 'u')
        | (b"$" | b"?$", 'p')
        | (b" ", 'q')
        | (b"!", 'p') => true,
        _ => false,
    }
}

/// Looks at output as a terminal would.
#[derive(Default)]
struct Witness {
    forbidden: Vec<String>,
}

impl vte::Perform for Witness {
    fn execute(&mut self, byte: u8) {
        if !matches!(byte, 0x07..=0x0a | 0x0d..=0x0f) {
            self.forbidden.push(format!("control {byte:#x}"));
        }
    }

    fn hook(&mut self, params: &vte::Params, inter: &[u8], _: bool, last: char) {
        if (inter, last) != (b"+", 'q') || params.iter().any(|subs| subs != [0]) {
            self.forbidden.push(format!("device {inter:?} {last}"));
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        if !is_listed_command(params) {
            self.forbidden.push(format!("osc {}", params.concat().escape_ascii()));
        }
    }

    fn csi_dispatch(&mut self, params: &vte::Params, inter: &[u8], ignore: bool, last: char) {
        let firsts: Vec<u16> = params.iter().map(|subs| subs[0]).collect();
        let subs = last != 'm' && params.iter().any(|subs| subs.len() > 1);
        if ignore || subs || !is_listed_sequence(inter, last, &firsts) {
            self.forbidden.push(format!("csi {inter:?} {firsts:?} {last}"));
        }
    }

    fn esc_dispatch(&mut self, inter: &[u8], _: bool, byte: u8) {
        let plain =
            inter.is_empty() && matches!(byte, b'7' | b'8' | b'D' | b'E' | b'M' | b'=' | b'>' | b'\\');
        let set = matches!(inter, [b'('..=b'+']) && matches!(byte, b'B' | b'0' | b'A');
        if !plain && !set {
            self.forbidden.push(format!("esc {inter:?} {byte}"));
        }
    }
}

impl vt100::Callbacks for Witness {
    fn resize(&mut self, _: &mut vt100::Screen, size: (u16, u16)) {
        self.forbidden.push(format!("vt100: resize {size:?}"));
    }

    fn visual_bell(&mut self, _: &mut vt100::Screen) {
        self.forbidden.push("vt100: visual bell".to_owned());
    }

    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], data: &[u8]) {
        self.forbidden.push(format!("vt100: copy {}", data.escape_ascii()));
    }

    fn paste_from_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8]) {
        self.forbidden.push("vt100: paste".to_owned());
    }

    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.title(title);
    }

    fn set_window_icon_name(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.title(title);
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, params: &[&[u8]]) {
        if !is_listed_command(params) {
            self.forbidden.push(format!("vt100: osc {}", params.concat().escape_ascii()));
        }
    }

    fn unhandled_csi(
        &mut self,
        _: &mut vt100::Screen,
        one: Option<u8>,
        two: Option<u8>,
        params: &[&[u16]],
        last: char,
    ) {
        let inter: Vec<u8> = one.into_iter().chain(two).collect();
        let firsts: Vec<u16> = params.iter().filter_map(|subs| subs.first().copied()).collect();
        if !is_listed_sequence(&inter, last, &firsts) {
            self.forbidden.push(format!("vt100: csi {inter:?} {firsts:?} {last}"));
        }
    }
}

impl Witness {
    fn title(&mut self, title: &[u8]) {
        let text = String::from_utf8_lossy(title);
        if text.chars().count() > 256 || text.contains(char::is_control) {
            self.forbidden.push(format!("a title: {}", title.escape_ascii()));
        }
    }
}

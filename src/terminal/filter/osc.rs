//! Operating system commands: each form that passes is taken apart, checked and written anew.

use super::params::{parse_number, write_number};
use super::tracker::{Reach, Tracker};
use crate::sanitize::deceives;
use crate::terminal::class::Class;
use crate::terminal::table::{LINK_SCHEMES, OSC, OSC_CLASSES, OscForm};

/// Characters of a title.
const TITLE_CHARACTERS: usize = 256;
/// Characters of each part of a notification.
const NOTIFICATION_CHARACTERS: usize = 256;
/// Bytes of a hyperlink's identifier.
const LINK_ID: usize = 250;
/// Stands before every notification.
const NAME: &str = "ai-jail: ";

/// How a string was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Bell,
    StringTerminator,
}

impl End {
    /// Writes the terminator. An answer has the one of its query, so it is kept.
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Bell => out.push(0x07),
            Self::StringTerminator => out.extend_from_slice(b"\x1b\\"),
        }
    }
}

/// Whether a string had room for all that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    Whole,
    Overflowed,
}

impl Tracker {
    /// Writes an operating system command if it passes. `text` is what stood between introducer and
    /// terminator: UTF-8 without any control character.
    pub(super) fn system_command(&mut self, text: &[u8], fill: Fill, end: End, out: &mut Vec<u8>) {
        let (number, rest) = match text.iter().position(|byte| *byte == b';') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let Some(number) = parse_number(number) else { return self.dropped(Class::Unlisted) };
        let Some(row) = OSC.iter().find(|row| row.number == number) else {
            let class = OSC_CLASSES.iter().find(|(listed, _)| *listed == number);
            return self.dropped(class.map_or(Class::Unlisted, |(_, class)| *class));
        };
        if fill == Fill::Overflowed && row.form != OscForm::Title {
            return self.dropped(Class::Malformed);
        }
        let rest = rest.unwrap_or_default();
        let class = match row.form {
            OscForm::ProgressOrNotification if !rest.starts_with(b"4;") && rest != b"4" => {
                Class::Notification
            }
            _ => row.class,
        };
        let picture = !matches!(row.form, OscForm::Palette | OscForm::Dynamic | OscForm::KittyNotification);
        if !self.classes.allows(class) || (self.reach == Reach::PictureOnly && !picture) {
            return self.dropped(class);
        }
        let body = match row.form {
            OscForm::Title => Some(printable(rest, TITLE_CHARACTERS)),
            OscForm::Palette => self.palette(rest),
            OscForm::Dynamic => self.dynamic(number, rest),
            OscForm::ResetPalette => self.reset_palette(rest),
            OscForm::ResetDynamic => rest.is_empty().then(|| {
                self.modes.reset_dynamic(number - 100);
                Vec::new()
            }),
            OscForm::Link => Some(self.link(rest)),
            OscForm::ProgressOrNotification if class == Class::Progress => self.progress(rest),
            OscForm::ProgressOrNotification => Some(named(rest)),
            OscForm::KittyNotification => kitty_notification(rest),
            OscForm::UrxvtNotification => urxvt_notification(rest),
            OscForm::ShellMark => is_shell_mark(rest).then(|| rest.to_vec()),
            OscForm::Cwd => is_file_url(rest).then(|| rest.to_vec()),
            OscForm::Clipboard => self.copies.of(rest),
        };
        let Some(body) = body else {
            return self.dropped(if class == Class::ClipboardWrite { Class::Clipboard } else { class });
        };
        out.extend_from_slice(b"\x1b]");
        write_number(number, out);
        if !(body.is_empty() && matches!(row.form, OscForm::ResetDynamic | OscForm::ResetPalette)) {
            out.push(b';');
            out.extend_from_slice(&body);
        }
        end.write(out);
    }

    fn palette(&mut self, rest: &[u8]) -> Option<Vec<u8>> {
        let parts: Vec<_> = rest.split(|byte| *byte == b';').collect();
        let pairs: Vec<_> = parts.chunks(2).collect();
        let valid = |pair: &&[&[u8]]| {
            matches!(pair, [index, spec]
                if parse_number(index).is_some_and(|index| index < 256) && is_colour_or_query(spec))
        };
        if !pairs.iter().all(valid) {
            return None;
        }
        for pair in pairs {
            let [index, spec] = pair else { continue };
            match parse_number(index) {
                Some(_) if *spec == b"?" => self.queries.asked(),
                Some(index) => self.modes.set_palette(index, spec),
                None => {}
            }
        }
        Some(rest.to_vec())
    }

    /// Several colours are those of the following commands; beyond 12 there is no row.
    fn dynamic(&mut self, number: u16, rest: &[u8]) -> Option<Vec<u8>> {
        let specs: Vec<_> = rest.split(|byte| *byte == b';').collect();
        if specs.len() > usize::from(13 - number) || !specs.iter().all(|spec| is_colour_or_query(spec)) {
            return None;
        }
        for (number, spec) in (number..).zip(specs) {
            if spec == b"?" {
                self.queries.asked();
            } else {
                self.modes.set_dynamic(number, spec);
            }
        }
        Some(rest.to_vec())
    }

    fn reset_palette(&mut self, rest: &[u8]) -> Option<Vec<u8>> {
        if rest.is_empty() {
            self.modes.reset_palette(None);
            return Some(Vec::new());
        }
        let indices: Option<Vec<_>> = rest
            .split(|byte| *byte == b';')
            .map(|index| parse_number(index).filter(|index| *index < 256))
            .collect();
        for index in indices? {
            self.modes.reset_palette(Some(index));
        }
        Some(rest.to_vec())
    }

    /// A link that does not pass ends the one before, so that its text is never under a foreign target.
    fn link(&mut self, rest: &[u8]) -> Vec<u8> {
        let link = canonical_link(rest);
        if link.is_none() && rest != b";" {
            self.dropped(Class::Hyperlink);
        }
        self.modes.set_link(link.as_deref());
        link.unwrap_or_else(|| b";".to_vec())
    }

    fn progress(&mut self, rest: &[u8]) -> Option<Vec<u8>> {
        let mut parts = rest.split(|byte| *byte == b';').skip(1);
        let state = match parts.next() {
            None | Some(b"") => 0,
            Some(state) => parse_number(state).filter(|state| *state <= 4)?,
        };
        let percent = match parts.next() {
            None | Some(b"") => None,
            Some(percent) => Some(parse_number(percent)?.min(100)),
        };
        if parts.any(|part| !part.is_empty()) {
            return None;
        }
        self.modes.set_progress(state, percent.unwrap_or(0));
        let mut body = format!("4;{state}");
        if let Some(percent) = percent {
            body.push_str(&format!(";{percent}"));
        }
        if rest.ends_with(b";") {
            body.push(';');
        }
        Some(body.into_bytes())
    }
}

/// The printable characters of `text`, at most `most`: none that is invisible or changes the direction of writing, but for
/// what joins and colours pictographs.
fn printable(text: &[u8], most: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut out = String::new();
    let mut last = None;
    let mut count = 0;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next()
        && count < most
    {
        let passes = match character {
            EMOJI_STYLE => last.is_some_and(is_pictograph),
            JOINER => {
                last.is_some_and(|last| last == EMOJI_STYLE || is_pictograph(last))
                    && count + 1 < most
                    && characters.peek().copied().is_some_and(is_pictograph)
            }
            _ => !character.is_control() && !deceives(character),
        };
        if passes {
            out.push(character);
            last = Some(character);
            count += 1;
        }
    }
    out.into_bytes()
}

/// Asks for the coloured form of the pictograph before it.
const EMOJI_STYLE: char = '\u{fe0f}';
/// Makes one picture of two.
const JOINER: char = '\u{200d}';

fn is_pictograph(character: char) -> bool {
    matches!(character, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

fn named(text: &[u8]) -> Vec<u8> {
    let mut body = NAME.as_bytes().to_vec();
    body.extend_from_slice(&printable(text, NOTIFICATION_CHARACTERS));
    body
}

fn is_colour_or_query(spec: &[u8]) -> bool {
    let hex = |part: &[u8]| (1..=4).contains(&part.len()) && part.iter().all(u8::is_ascii_hexdigit);
    let channels = |rest: &[u8], count| {
        rest.split(|byte| *byte == b'/').count() == count && rest.split(|byte| *byte == b'/').all(hex)
    };
    if spec == b"?" {
        return true;
    }
    if let Some(digits) = spec.strip_prefix(b"#") {
        return matches!(digits.len(), 3 | 6 | 9 | 12) && digits.iter().all(u8::is_ascii_hexdigit);
    }
    if let Some(rest) = spec.strip_prefix(b"rgb:") {
        return channels(rest, 3);
    }
    if let Some(rest) = spec.strip_prefix(b"rgba:") {
        return channels(rest, 4);
    }
    (1..=32).contains(&spec.len()) && spec.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ')
}

/// `id=...;TARGET` of a link that passes, otherwise nothing.
fn canonical_link(rest: &[u8]) -> Option<Vec<u8>> {
    let at = rest.iter().position(|byte| *byte == b';')?;
    let (options, target) = (&rest[..at], &rest[at + 1..]);
    let scheme = LINK_SCHEMES.iter().any(|(scheme, _)| {
        target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    });
    if !scheme || !target.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let id = options
        .split(|byte| *byte == b':')
        .find(|option| option.starts_with(b"id="))
        .filter(|option| option.len() <= LINK_ID && option.iter().all(u8::is_ascii_graphic));
    let mut link = id.unwrap_or_default().to_vec();
    link.push(b';');
    link.extend_from_slice(target);
    Some(link)
}

/// kitty's notification: metadata without actions, a named title.
fn kitty_notification(rest: &[u8]) -> Option<Vec<u8>> {
    let at = rest.iter().position(|byte| *byte == b';')?;
    let (metadata, payload) = (&rest[..at], &rest[at + 1..]);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+');
    let mut is_title = true;
    for option in metadata.split(|byte| *byte == b':').filter(|option| !option.is_empty()) {
        match option {
            [b'i' | b'd' | b'u' | b'o', b'=', value @ ..] if value.iter().all(token) => {}
            b"p=title" => {}
            b"p=body" => is_title = false,
            _ => return None,
        }
    }
    let mut body = metadata.to_vec();
    body.push(b';');
    body.extend(if is_title { named(payload) } else { printable(payload, NOTIFICATION_CHARACTERS) });
    Some(body)
}

fn urxvt_notification(rest: &[u8]) -> Option<Vec<u8>> {
    let text = rest.strip_prefix(b"notify;")?;
    let (title, message) = match text.iter().position(|byte| *byte == b';') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    let mut body = b"notify;".to_vec();
    body.extend(named(title));
    body.push(b';');
    body.extend(printable(message, NOTIFICATION_CHARACTERS));
    Some(body)
}

/// A letter, then options that neither carry a command line nor make clicks send keys.
fn is_shell_mark(rest: &[u8]) -> bool {
    let mut parts = rest.split(|byte| *byte == b';');
    if !matches!(parts.next(), Some(b"A" | b"B" | b"C" | b"D" | b"P" | b"N" | b"L")) {
        return false;
    }
    parts.all(|part| match part {
        [b'k', b'=', b'i' | b'c' | b's' | b'r'] => true,
        [b'a', b'i', b'd', b'=', id @ ..] => id.len() <= 32 && id.iter().all(u8::is_ascii_alphanumeric),
        part => part.is_empty() || parse_number(part).is_some(),
    })
}

fn is_file_url(rest: &[u8]) -> bool {
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._~%-+@:".contains(byte);
    rest.strip_prefix(b"file://").is_some_and(|rest| rest.len() <= 4096 && rest.iter().all(safe))
}

//! Device control strings and application program commands: sixel, XTGETTCAP, inline kitty graphics.

use super::tracker::{Reach, Tracker};
use crate::terminal::class::Class;
use crate::terminal::table::CAPABILITIES;

/// Keys of kitty's graphics protocol that pass. `t` (where the data is), `S`, `O` (files and shared memory)
/// pass with the one value that means "inline", or not at all.
const GRAPHICS_KEYS: &[u8] = b"aqfsvmioIpxywhXYcrCUzPQHVd";

impl Tracker {
    /// Writes an XTGETTCAP request with those of the names that are listed.
    pub(super) fn capability_query(&mut self, names: &[u8], out: &mut Vec<u8>) {
        let listed: Vec<_> = names
            .split(|byte| *byte == b';')
            .filter(|name| CAPABILITIES.iter().any(|(hex, _)| name.eq_ignore_ascii_case(hex.as_bytes())))
            .collect();
        if listed.len() < names.split(|byte| *byte == b';').count() {
            self.dropped(Class::Query);
        }
        if listed.is_empty() || self.reach == Reach::PictureOnly {
            return;
        }
        out.extend_from_slice(b"\x1bP+q");
        out.extend_from_slice(&listed.join(&b';'));
        out.extend_from_slice(b"\x1b\\");
        self.queries.asked();
    }

    /// Whether a graphics command passes, by its control data: `G` and comma-separated `key=value`.
    pub(super) fn admits_graphics(&mut self, control: &[u8]) -> bool {
        let Some(pairs) = control.strip_prefix(b"G") else {
            self.dropped(Class::Unlisted);
            return false;
        };
        if !self.classes.allows(Class::Image) {
            self.dropped(Class::Image);
            return false;
        }
        let passes = |pair: &[u8]| match *pair {
            [] => true,
            [b't', b'=', value] => value == b'd',
            [key, b'=', ref value @ ..] => {
                GRAPHICS_KEYS.contains(&key)
                    && (1..=11).contains(&value.len())
                    && value.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            }
            _ => false,
        };
        if !pairs.split(|byte| *byte == b',').all(passes) {
            self.dropped(Class::RemoteControl);
            return false;
        }
        // A command about an image with a name is answered too, unless it asks for silence.
        let has = |start: &[u8]| pairs.split(|byte| *byte == b',').any(|pair| pair.starts_with(start));
        if has(b"a=q") || ((has(b"i=") || has(b"I=")) && !has(b"q=2")) {
            if self.reach == Reach::PictureOnly {
                self.dropped(Class::Query);
                return false;
            }
            self.queries.asked();
        }
        true
    }
}

/// The class of a device control string that does not pass, by its first final byte.
pub(super) fn class_of(prefix: u8, inter: u8, last: u8) -> Class {
    match (prefix, inter, last) {
        (_, b'$', _) | (_, b'+', b'q') => Class::Query,
        (_, b'+', _) => Class::Media,
        (_, 0, b't') => Class::Passthrough,
        (_, 0, b'@') => Class::RemoteControl,
        (_, 0, b'|') => Class::Media,
        (_, 0, b'q') => Class::Image,
        _ => Class::Unlisted,
    }
}

/// Whether a byte may stand in an image's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    Sixel,
    Base64,
}

impl Data {
    pub(super) fn admits(self, byte: u8) -> bool {
        match self {
            Self::Sixel => matches!(byte, b' '..=b'~' | b'\n' | b'\r'),
            Self::Base64 => byte.is_ascii_alphanumeric() || b"+/=".contains(&byte),
        }
    }
}

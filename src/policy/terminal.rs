//! What passes to the user's terminal.

use crate::config::settings::{TerminalFilter, TerminalSettings};
use crate::terminal::Classes;

/// The classes of sequences that pass.
pub fn classes(settings: &TerminalSettings) -> Classes {
    if settings.filter.value == TerminalFilter::DangerOff {
        return Classes::danger_unfiltered();
    }
    settings.passes.iter().fold(Classes::default(), |classes, (class, passes)| match passes.value {
        true => classes.allow(*class),
        false => classes.deny(*class),
    })
}

/// What the user should know at each launch when the filter is off.
pub fn weaker(settings: &TerminalSettings) -> Option<String> {
    (settings.filter.value == TerminalFilter::DangerOff).then(|| {
        format!(
            "the terminal filter is off ({}): what the command writes can set your clipboard, and make your terminal type \
             for you",
            settings.filter.origin
        )
    })
}

//! What passes to the user's terminal. Whatever has no row here is dropped.
//!
//! The behaviour behind the rows is that of ECMA-48, of xterm's "Control Sequences" and of kitty's protocol
//! documents. Every answer that a passing query provokes has a form fixed by the terminal, without bytes of the
//! jail's choice.

mod control;
mod escapes;
mod private_modes;
mod strings;

pub use self::control::{Args, CSI, CsiRow, Effect, WINDOW, WindowOp, WindowRow, find_csi};
pub use self::escapes::{ESC, EscEffect, EscRow, find_esc};
pub use self::private_modes::{Initially, MODES, ModeRow, find_mode};
pub use self::strings::{CAPABILITIES, LINK_SCHEMES, OSC, OSC_CLASSES, OscForm, OscRow};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_gives_its_reasons() {
        let reasons = CSI
            .iter()
            .map(|row| (row.safe, row.used_by))
            .chain(MODES.iter().map(|row| (row.safe, row.used_by)))
            .chain(WINDOW.iter().map(|row| (row.safe, row.used_by)))
            .chain(ESC.iter().map(|row| (row.safe, row.used_by)))
            .chain(OSC.iter().map(|row| (row.safe, row.used_by)))
            .chain(LINK_SCHEMES.iter().copied())
            .chain(CAPABILITIES.iter().copied());
        for (safe, used_by) in reasons {
            assert!(!safe.is_empty() && !used_by.is_empty());
        }
    }

    #[test]
    fn no_sequence_has_two_rows() {
        for (index, row) in CSI.iter().enumerate() {
            let found = find_csi(row.prefix, row.inter, row.last).expect("a row");
            assert!(std::ptr::eq(found, &CSI[index]), "{row:?}");
        }
        for (index, row) in MODES.iter().enumerate() {
            assert_eq!(find_mode(row.number), Some(index));
        }
    }

    #[test]
    fn what_reports_bytes_of_the_jail_has_no_row() {
        for number in [20, 21, 1, 2, 3, 4, 8, 9, 10] {
            assert!(WINDOW.iter().all(|row| row.number != number), "{number}");
        }
        for (prefix, inter, last) in
            [(0, 0, b'i'), (b'?', 0, b'i'), (0, b'*', b'y'), (0, 0, b'x'), (0, 0, b'h'), (b'=', 0, b'c')]
        {
            assert!(find_csi(prefix, inter, last).is_none());
        }
        for mode in [2, 3, 5, 40, 66, 69, 80, 95, 1034, 1070, 9001, 5522, 2048] {
            assert!(find_mode(mode).is_none(), "{mode}");
        }
    }
}

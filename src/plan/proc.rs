//! What becomes of the entries of `/proc` that concern the whole machine.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::plan::operation::{DoorOp, Veil};
use crate::presets::preset;

/// `presets/proc.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    entry: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    names: Vec<String>,
    hold: Hold,
    r#for: Whom,
    /// For the reader of the table, and so that no row is without one.
    #[cfg_attr(not(test), expect(dead_code, reason = "a row without a reason does not parse"))]
    reason: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hold {
    ReadOnly,
    Hidden,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Whom {
    Everyone,
    Root,
}

#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("proc")).expect("proc.toml parses"));

/// The operations at the held door for a jail of the user `uid`; entries that this kernel lacks are passed over.
pub fn operations(uid: u32) -> Vec<DoorOp> {
    let rows = TABLE.entry.iter().filter(|row| uid == 0 || row.r#for == Whom::Everyone);
    let rows = rows.flat_map(|row| row.names.iter().map(move |name| (name, row.hold)));
    rows.map(|(name, hold)| match hold {
        Hold::ReadOnly => DoorOp::Seal { root: "/proc".into(), below: name.into() },
        Hold::Hidden => {
            DoorOp::Hide { root: "/proc".into(), below: name.into(), veil: Veil::Empty, holes: Vec::new() }
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_reason_and_each_name_stands_once() {
        let mut names: Vec<_> = TABLE.entry.iter().flat_map(|row| &row.names).collect();
        assert!(TABLE.entry.iter().all(|row| row.reason.len() > 8));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(operations(0).len(), count);
        assert!(operations(1000).len() < count && operations(1000).len() > 1);
    }
}

//! The keys of a configuration file, as data: which exist, which are documented but not in this version, and what
//! a project that is not trusted may do with them.

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its table; empty for the top level.
    pub table: &'static str,
    /// Its name in the table.
    pub name: &'static str,
    /// What becomes of it.
    pub status: Status,
}

/// Whether a key can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It can.
    Here(FromProject),
    /// It is documented for a later version: refused, because ignoring it would silently not hold.
    Later,
}

/// What the file of a project that is not trusted may do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromProject {
    /// Make the value stricter; a looser one is ignored with a warning.
    Tightens,
    /// Nothing yet: every value of it gives the jail more. A trusted project may.
    Loosens,
    /// Nothing ever, trusted or not, but for the strict value.
    Never,
}

use FromProject::{Loosens, Never, Tightens};
use Status::{Here, Later};

/// Every table that exists or is documented.
pub const TABLES: &[(&str, Availability)] = &[
    ("filesystem", Availability::Here),
    ("home", Availability::Here),
    ("environment", Availability::Here),
    ("network", Availability::Here),
    ("limits", Availability::Here),
    ("grants", Availability::Here),
    ("terminal", Availability::Here),
    ("log", Availability::Here),
    ("agents", Availability::Here),
    ("secrets", Availability::Later),
    ("profiles", Availability::Later),
    ("managed", Availability::Later),
];

/// Whether a whole table can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Here,
    /// It is documented for a later version, so it is refused.
    Later,
}

/// Every key that exists or is documented.
pub const KEYS: &[Key] = &[
    key("", "profile", Here(Tightens)),
    key("", "weaker_nested", Here(Never)),
    key("filesystem", "read_only", Here(Loosens)),
    key("filesystem", "read_write", Here(Loosens)),
    key("filesystem", "protect", Here(Never)),
    key("filesystem", "deny", Here(Tightens)),
    key("filesystem", "mask", Here(Tightens)),
    key("filesystem", "unmask", Here(Loosens)),
    key("home", "mode", Here(Tightens)),
    key("home", "state", Here(Tightens)),
    key("home", "toolchains", Here(Tightens)),
    key("home", "caches", Here(Tightens)),
    key("environment", "inherit", Here(Tightens)),
    key("environment", "ignore_default_excludes", Here(Tightens)),
    key("environment", "exclude", Here(Tightens)),
    key("environment", "include_only", Here(Tightens)),
    key("environment", "set", Here(Loosens)),
    key("environment", "pass", Here(Never)),
    key("network", "mode", Here(Tightens)),
    key("network", "allow", Here(Loosens)),
    key("network", "deny", Here(Tightens)),
    key("network", "allow_private", Here(Never)),
    key("network", "resolve", Here(Never)),
    key("network", "agent_hosts", Here(Tightens)),
    key("network", "toolchain_hosts", Here(Tightens)),
    key("network", "inspect", Later),
    key("network", "ech", Later),
    key("network", "forward", Here(Never)),
    key("network", "publish", Here(Never)),
    key("network", "upstream_proxy", Here(Never)),
    key("network", "http", Later),
    key("limits", "memory", Here(Tightens)),
    key("limits", "pids", Here(Tightens)),
    key("limits", "cpu", Here(Tightens)),
    key("limits", "files", Here(Tightens)),
    key("limits", "time", Here(Tightens)),
    key("grants", "ssh_agent", Here(Never)),
    key("grants", "docker", Here(Never)),
    key("grants", "dbus", Here(Never)),
    key("grants", "wayland", Here(Never)),
    key("grants", "x11", Here(Never)),
    key("grants", "audio", Here(Never)),
    key("grants", "gpu", Here(Never)),
    key("grants", "kvm", Here(Never)),
    key("grants", "sockets", Here(Never)),
    key("terminal", "filter", Here(Never)),
    key("terminal", "title", Here(Tightens)),
    key("terminal", "hyperlinks", Here(Tightens)),
    key("terminal", "colours", Here(Tightens)),
    key("terminal", "progress", Here(Tightens)),
    key("terminal", "shell_marks", Here(Tightens)),
    key("terminal", "notifications", Here(Tightens)),
    key("terminal", "images", Here(Tightens)),
    key("terminal", "cwd", Here(Tightens)),
    key("terminal", "clipboard_write", Here(Never)),
    key("log", "required", Here(Tightens)),
    key("log", "summary", Here(Tightens)),
];

/// The keys of `table`, in the order of the documentation.
pub fn keys_of(table: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.table == table)
}

const fn key(table: &'static str, name: &'static str, status: Status) -> Key {
    Key { table, name, status }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Class;

    #[test]
    fn every_class_that_can_be_switched_has_its_key() {
        let keys: Vec<_> = keys_of("terminal").map(|key| key.name).filter(|name| *name != "filter").collect();
        assert_eq!(keys, Class::SWITCHES.map(|(key, _)| key));
    }

    #[test]
    fn every_key_is_listed_once_and_its_table_exists() {
        for (at, key) in KEYS.iter().enumerate() {
            assert!(
                key.table.is_empty() || TABLES.contains(&(key.table, Availability::Here)),
                "{}.{}",
                key.table,
                key.name
            );
            assert!(!KEYS[..at].iter().any(|other| (other.table, other.name) == (key.table, key.name)));
        }
    }
}

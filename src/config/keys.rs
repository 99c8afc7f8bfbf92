//! The keys of a configuration file, as data: which exist, which tables are documented but not in this version, and
//! what a project that is not trusted may do with them.

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its table; empty for the top level.
    pub table: &'static str,
    /// Its name in the table.
    pub name: &'static str,
    /// What a project may do with it.
    pub project: FromProject,
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
    ("secrets", Availability::Here),
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

/// Every key.
pub const KEYS: &[Key] = &[
    key("", "profile", Tightens),
    key("", "weaker_nested", Never),
    key("filesystem", "read_only", Loosens),
    key("filesystem", "read_write", Loosens),
    key("filesystem", "protect", Never),
    key("filesystem", "deny", Tightens),
    key("filesystem", "mask", Tightens),
    key("filesystem", "unmask", Loosens),
    key("home", "mode", Tightens),
    key("home", "state", Tightens),
    key("home", "toolchains", Tightens),
    key("home", "caches", Tightens),
    key("environment", "inherit", Tightens),
    key("environment", "ignore_default_excludes", Tightens),
    key("environment", "exclude", Tightens),
    key("environment", "include_only", Tightens),
    key("environment", "set", Loosens),
    key("environment", "pass", Never),
    key("network", "mode", Tightens),
    key("network", "allow", Loosens),
    key("network", "deny", Tightens),
    key("network", "allow_private", Never),
    key("network", "resolve", Never),
    key("network", "agent_hosts", Tightens),
    key("network", "toolchain_hosts", Tightens),
    key("network", "inspect", Never),
    key("network", "ech", Tightens),
    key("network", "forward", Never),
    key("network", "publish", Never),
    key("network", "upstream_proxy", Never),
    key("network", "http", Tightens),
    // Every other name of the table is that of a variable.
    key("secrets", "files", Never),
    key("limits", "memory", Tightens),
    key("limits", "pids", Tightens),
    key("limits", "cpu", Tightens),
    key("limits", "files", Tightens),
    key("limits", "time", Tightens),
    key("grants", "ssh_agent", Never),
    key("grants", "docker", Never),
    key("grants", "dbus", Never),
    key("grants", "wayland", Never),
    key("grants", "x11", Never),
    key("grants", "audio", Never),
    key("grants", "gpu", Never),
    key("grants", "kvm", Never),
    key("grants", "sockets", Never),
    key("terminal", "filter", Never),
    key("terminal", "title", Tightens),
    key("terminal", "hyperlinks", Tightens),
    key("terminal", "colours", Tightens),
    key("terminal", "progress", Tightens),
    key("terminal", "shell_marks", Tightens),
    key("terminal", "notifications", Tightens),
    key("terminal", "images", Tightens),
    key("terminal", "cwd", Tightens),
    key("terminal", "clipboard_write", Never),
    key("log", "required", Tightens),
    key("log", "summary", Tightens),
];

/// The keys of `table`, in the order of the documentation.
pub fn keys_of(table: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.table == table)
}

const fn key(table: &'static str, name: &'static str, project: FromProject) -> Key {
    Key { table, name, project }
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

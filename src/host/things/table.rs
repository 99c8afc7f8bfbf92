//! The table of what can be granted of the host: `presets/grants.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::config::settings::Thing;
use crate::config::words::Word as _;
use crate::presets::preset;

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// One row for each thing.
    pub grant: Vec<Row>,
}

/// What one grant is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name.
    pub name: Thing,
    /// What it opens, for the user, in one line.
    pub opens: String,
    /// What to do when it is not there.
    pub absent: String,
    /// Sockets.
    #[serde(default)]
    pub sockets: Vec<SocketRow>,
    /// Files that are shown as copies.
    #[serde(default)]
    pub files: Vec<FileRow>,
    /// Names below `/dev`, with `*` in the last component.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Whether the devices' own directories of `/sys` are shown.
    #[serde(default)]
    pub sys: bool,
    /// Directories that are shown where they exist.
    #[serde(default)]
    pub shown: Vec<String>,
}

/// A socket.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketRow {
    /// Where it is looked for.
    pub from: Vec<Place>,
    /// Whether the grant is one without it too.
    #[serde(default)]
    pub optional: bool,
    /// Where the jail finds it.
    pub inside: String,
    /// The variable that tells programs.
    pub variable: Option<String>,
    /// Its value, `{}` being the place inside.
    pub value: Option<String>,
}

/// A file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRow {
    /// Where it is looked for.
    pub from: Vec<Place>,
    /// What of it is shown.
    pub form: FileForm,
    /// Where the jail finds it.
    pub inside: String,
    /// The variable that tells programs.
    pub variable: Option<String>,
    /// Its value, `{}` being the place inside.
    pub value: Option<String>,
}

/// One place to look at.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Place {
    /// A variable of the launcher's.
    Variable {
        /// Its name.
        variable: String,
        /// How it names a path.
        form: Form,
    },
    /// A path.
    Path {
        /// With `$RUNTIME` or `$HOME` at its beginning.
        path: String,
    },
}

/// How the value of a variable names a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// It is its absolute path.
    Path,
    /// `unix://PATH`.
    Url,
    /// Addresses of D-Bus.
    Dbus,
    /// A display of X11.
    Display,
    /// A name in the runtime directory, or a path.
    Wayland,
    /// A server of PulseAudio.
    Pulse,
}

/// What of a file is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileForm {
    /// All of it, if it is text.
    Text,
    /// All of it.
    Bytes,
    /// The cookie of the display that is granted, and no other.
    X11Cookie,
}

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("grants")).expect("grants.toml parses"));

impl Table {
    /// The row of `thing`; every one has its own, which a test says.
    pub fn row(&self, thing: Thing) -> Option<&Row> {
        self.grant.iter().find(|row| row.name == thing)
    }
}

/// The grant that tells programs by the variable `name`, or finds its thing by it.
pub fn grant_of(name: &str) -> Option<&'static str> {
    let row = TABLE.grant.iter().find(|row| {
        row.sockets.iter().any(|socket| {
            socket.variable.as_deref() == Some(name)
                || socket
                    .from
                    .iter()
                    .any(|place| matches!(place, Place::Variable { variable, .. } if variable == name))
        })
    })?;
    Some(row.name.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thing_has_one_row_that_says_what_it_opens_and_opens_something() {
        assert_eq!(TABLE.grant.len(), Thing::WORDS.len());
        for (word, thing) in Thing::WORDS {
            let row = TABLE.row(*thing).unwrap_or_else(|| panic!("{word} has no row"));
            assert!(row.opens.len() > 20 && row.absent.len() > 20 && !row.opens.contains('\n'), "{word}");
            assert!(!row.sockets.is_empty() || !row.devices.is_empty(), "{word}");
            let variables = row.sockets.iter().map(|row| (&row.variable, &row.value));
            let variables = variables.chain(row.files.iter().map(|row| (&row.variable, &row.value)));
            for (variable, value) in variables {
                assert_eq!(variable.is_some(), value.is_some(), "{word}");
            }
            for path in
                row.sockets.iter().map(|row| &row.inside).chain(row.files.iter().map(|row| &row.inside))
            {
                assert!(
                    ["/", "$RUNTIME/", "$HOME/"].iter().any(|base| path.starts_with(base)),
                    "{word}: {path}"
                );
            }
            for device in &row.devices {
                assert!(!device.starts_with('/') && !device.contains(".."), "{word}: {device}");
            }
            for shown in &row.shown {
                assert!(shown.starts_with("/sys/"), "{word}: {shown}");
            }
        }
    }

    #[test]
    fn what_equals_the_user_or_root_says_so() {
        for (thing, word) in
            [(Thing::Docker, "root"), (Thing::X11, "keystrokes"), (Thing::Dbus, "outside the jail")]
        {
            assert!(TABLE.row(thing).unwrap().opens.contains(word), "{thing:?}");
        }
    }
}

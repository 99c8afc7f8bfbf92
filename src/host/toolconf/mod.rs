//! Registries, mirrors and TLS roots of the user's and the system's tool configuration, without their credentials.
//!
//! What came from a variable goes on as a variable, what came from a file as a file of the private home: so a project's
//! own configuration ranks inside as it does outside. A proxy is not carried: inside there is only the jail's own.

mod cargo;
mod clean;
pub mod defaults;
mod rows;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::ini::{self, Entry};
use super::needs::Needs;
use super::{Host, command, read_text};
use rows::{NPM, PIP, Row, VARIABLES, Value};

/// What is carried of the tools' configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolConfig {
    /// Variables for the jail.
    pub env: Vec<(String, OsString)>,
    /// Files for the private home: the path relative to it, and the text.
    pub files: Vec<(PathBuf, String)>,
    /// Existing files and directories that the settings name and that no jail shows anyway, free of symlinks: TLS roots,
    /// directories of packages. To be mounted read-only.
    pub mounts: Vec<PathBuf>,
    /// The files of TLS roots among the settings.
    pub roots: Vec<PathBuf>,
    /// The hosts of the registries that the settings name, in lower case, with `:PORT` when the URL has one; each once.
    pub registries: Vec<String>,
    /// Which settings were left out because a login in them cannot be told from the rest.
    pub warnings: Vec<String>,
}

impl ToolConfig {
    /// Reads the variables and files of pip, uv, npm, go and cargo, of the user and the system, never the project's.
    pub fn read(host: &Host, project: &Path) -> Self {
        let mut gather = Gather { config: Self::default(), bounds: Needs::new(host, project) };
        gather.variables(host);
        gather.go(host);
        gather.npm(host);
        gather.pip(host);
        gather.cargo(host);
        let mut config = gather.config;
        config.registries.sort();
        config.registries.dedup();
        config.mounts.sort();
        config.mounts.dedup();
        config.roots.sort();
        config.roots.dedup();
        config.warnings.sort();
        config.warnings.dedup();
        config
    }
}

/// The configuration while it grows.
struct Gather<'a> {
    config: ToolConfig,
    bounds: Needs<'a>,
}

impl Gather<'_> {
    fn variables(&mut self, host: &Host) {
        for (name, value) in &host.environment.vars {
            let (Some(name), Some(text)) = (name.to_str(), value.to_str().filter(|text| !text.is_empty()))
            else {
                continue;
            };
            if let Some(row) = VARIABLES.iter().find(|row| row.names(name))
                && let Some(value) = self.clean_or_warn(name, row.value, text)
            {
                self.config.env.push((name.to_owned(), value.into()));
            }
        }
    }

    /// `go env -w` writes lines of `NAME=value`; a variable of the environment ranks above them.
    fn go(&mut self, host: &Host) {
        let file = match host.environment.var("GOENV") {
            Some(value) if value == "off" => return,
            Some(path) => PathBuf::from(path),
            None => host.xdg("XDG_CONFIG_HOME", ".config").join("go/env"),
        };
        let text = self.text(&file).unwrap_or_default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let known = VARIABLES.iter().find(|row| name.starts_with("GO") && row.key == name);
            let Some(row) = known.filter(|_| host.environment.var(name).is_none()) else { continue };
            if let Some(value) = self.clean_or_warn(name, row.value, value.trim()) {
                self.config.env.push((name.to_owned(), value.into()));
            }
        }
    }

    fn npm(&mut self, host: &Host) {
        let variable = |name: &str| {
            host.environment
                .var(name)
                .or_else(|| host.environment.var(&name.to_ascii_uppercase()))
                .map(PathBuf::from)
        };
        let user = variable("npm_config_userconfig").unwrap_or_else(|| host.user.home.join(".npmrc"));
        let user = ini::plain(&self.text(&user).unwrap_or_default());
        let prefix = variable("npm_config_prefix")
            .or_else(|| {
                user.iter().rfind(|entry| entry.key == "prefix").map(|entry| PathBuf::from(&entry.value))
            })
            .or_else(|| self.node_prefix(host));
        let global = variable("npm_config_globalconfig").or_else(|| Some(prefix?.join("etc/npmrc")));
        let mut settings = BTreeMap::new();
        let global = global.and_then(|file| self.text(&file)).unwrap_or_default();
        for entry in ini::plain(&global).into_iter().chain(user) {
            if let Some((key, value)) = self.allowed(NPM, &entry) {
                settings.insert(key, value);
            }
        }
        let lines = settings.iter().fold(String::new(), |mut text, (key, value)| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key}={value}");
            text
        });
        self.file(".npmrc", lines);
    }

    /// npm's default: where node is, without `bin`.
    fn node_prefix(&self, host: &Host) -> Option<PathBuf> {
        let node = command::on_path(host, self.bounds.project(), OsStr::new("node")).ok()?;
        Some(host.real(&node)?.parent()?.parent()?.to_path_buf())
    }

    fn pip(&mut self, host: &Host) {
        let named = host.environment.var("PIP_CONFIG_FILE").map(PathBuf::from);
        let mut files = vec![
            host.at("/etc/xdg/pip/pip.conf"),
            host.at("/etc/pip.conf"),
            host.user.home.join(".pip/pip.conf"),
            host.xdg("XDG_CONFIG_HOME", ".config").join("pip/pip.conf"),
        ];
        match named {
            // pip's own way to say that no file counts.
            Some(path) if path == Path::new("/dev/null") => return,
            Some(path) => files.push(path),
            None => {}
        }
        let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let texts: Vec<String> = files.iter().filter_map(|file| self.text(file)).collect();
        for entry in texts.iter().flat_map(|text| ini::plain(text)) {
            if let Some((key, value)) = self.allowed(PIP, &entry)
                && !entry.section.is_empty()
            {
                sections.entry(entry.section).or_default().insert(key, value);
            }
        }
        let mut text = String::new();
        for (section, settings) in sections {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[{section}]");
            for (key, value) in settings {
                let _ = writeln!(text, "{key} = {}", value.replace('\n', "\n    "));
            }
        }
        self.file(".config/pip/pip.conf", text);
    }

    fn cargo(&mut self, host: &Host) {
        let home = host.environment.var("CARGO_HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let home = home.unwrap_or_else(|| host.user.home.join(".cargo"));
        // The name without an ending is the older one, and the one that counts when both are there.
        let text = ["config", "config.toml"].iter().find_map(|name| self.text(&home.join(name)));
        if let Some(text) = text.and_then(|text| cargo::filtered(&text, self)) {
            self.file(".cargo/config.toml", text);
        }
    }

    /// A file of the user's or the system's. One that lies in the project is somebody else's word, however it is reached.
    fn text(&self, file: &Path) -> Option<String> {
        let real = self.bounds.host().real(file)?;
        if real.starts_with(self.bounds.project()) { None } else { read_text(&real) }
    }

    fn allowed(&mut self, rows: &[Row], entry: &Entry) -> Option<(String, String)> {
        // Both spell a dash as they like; the name of a scope is a name.
        let key = if entry.key.starts_with('@') { entry.key.clone() } else { entry.key.replace('_', "-") };
        let row = rows.iter().find(|row| row.names(&key))?;
        let value = self.clean_or_warn(&key, row.value, &entry.value)?;
        Some((key, value))
    }

    fn clean_or_warn(&mut self, name: &str, kind: Value, text: &str) -> Option<String> {
        let clean = self.clean(kind, text);
        if clean.is_none() && text.contains('@') {
            self.config
                .warnings
                .push(format!("{name} is not carried: where the login in its value ends cannot be told"));
        }
        clean
    }

    fn file(&mut self, path: &str, text: String) {
        if !text.is_empty() {
            self.config.files.push((path.into(), text));
        }
    }
}

#[cfg(test)]
mod tests;

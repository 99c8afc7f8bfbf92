//! Files of the tree that settings name: git's, and those of agents and editors.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::Hold;
use super::finder::Finder;
use super::table::{TABLE, Value};
use crate::host::ini;

/// How many files of git settings include each other, as git has it.
const INCLUDE_LIMIT: usize = 10;

impl Finder<'_> {
    /// Protects what the git settings in `file`, an absolute path, name in the tree. Relative commands are looked for in
    /// the work tree `below`.
    pub(super) fn git_settings(&mut self, file: &Path, below: &Path, depth: usize) {
        if !self.settings_seen.insert((file.to_path_buf(), below.to_path_buf())) {
            return;
        }
        let Some(text) = self.text(file) else { return };
        let entries = ini::git(&text);
        let directory = file.parent().unwrap_or(file);
        let mut work_trees = vec![self.at(below)];
        // A submodule's settings say where its work tree is.
        if let Some(named) = entries.iter().rfind(|entry| entry.name() == "core.worktree") {
            work_trees.push(directory.join(&named.value));
        }
        for entry in &entries {
            let Some(row) = TABLE.git_setting(entry) else { continue };
            match row.value {
                Value::Include => {
                    let included = self.path(directory, &entry.value);
                    self.named(&included, &row.reason);
                    if depth < INCLUDE_LIMIT {
                        self.git_settings(&included, below, depth + 1);
                    } else {
                        self.incomplete(|| "its git settings include each other too deep".to_owned());
                    }
                }
                Value::Path => {
                    for work_tree in &work_trees {
                        self.named(&self.path(work_tree, &entry.value), &row.reason);
                    }
                }
                Value::Hooks => {
                    for work_tree in &work_trees {
                        self.hooks_path(&self.path(work_tree, &entry.value), &row.reason);
                    }
                }
                // An alias is a command of git's own unless it says otherwise.
                Value::Command if entry.section == "alias" && !entry.value.starts_with('!') => {}
                Value::Command => {
                    for work_tree in &work_trees {
                        for (index, word) in words(&entry.value).iter().enumerate() {
                            // A program without a slash is looked for in PATH; what follows may be mere data.
                            let which = if index == 0 { Script::Any } else { Script::Runnable };
                            if index > 0 || word.contains('/') {
                                self.script(&self.path(work_tree, word), &row.reason, which);
                            }
                        }
                    }
                }
            }
        }
    }

    /// `core.hooksPath`: a directory of the tree is read-only as a whole. When it holds the tree, or is the work tree, that
    /// cannot be, and the hooks that are there are.
    fn hooks_path(&mut self, path: &Path, reason: &str) {
        let Ok(end) = path.canonicalize() else { return };
        let Some(below) = self.below(&end) else { return };
        if below.as_os_str().is_empty() || end.join(".git").symlink_metadata().is_ok() {
            self.named_as(path, Hold::Pinned, reason);
            for hook in &TABLE.hooks.names {
                self.place(&below, Path::new(hook), reason);
            }
        } else {
            self.named(path, reason);
        }
        self.hooks_in(&below);
    }

    /// Protects the scripts that `file`, settings of an agent or an editor in the directory `below`, names.
    pub(super) fn named_scripts(&mut self, below: &Path, file: &Path) {
        let base = self.at(below);
        self.scripts_of(&base.join(file), &base);
    }

    /// The same for absolute paths: settings that count in the directory `base`, which may hold the tree.
    pub(super) fn scripts_of(&mut self, path: &Path, base: &Path) {
        if !self.settings_seen.insert((path.to_path_buf(), base.to_path_buf())) {
            return;
        }
        let Some(text) = self.text(path) else { return };
        let mut commands = Vec::new();
        match parse(&text, path) {
            Some(value) => collect(&value, false, &mut commands),
            // Comments and trailing commas: every string counts.
            None => commands.extend(strings(&text)),
        }
        let own = path.parent().unwrap_or(path);
        for word in commands.iter().flat_map(|command| words(command)) {
            for base in [base, self.scope.root, own] {
                self.script(&self.path(base, &word), &TABLE.named_scripts.reason, Script::Runnable);
            }
        }
    }

    /// Protects one file that a command names, if it is one.
    fn script(&mut self, path: &Path, reason: &str, which: Script) {
        let Ok(metadata) = path.metadata() else { return };
        if metadata.is_file()
            && (which == Script::Any || metadata.permissions().mode() & 0o111 != 0 || has_extension(path))
        {
            self.named(path, reason);
        }
    }

    /// A path as a shell or git would read it: `~/` is the home, and a variable in front is the project.
    fn path(&self, base: &Path, word: &str) -> PathBuf {
        if let Some(rest) = word.strip_prefix("~/") {
            return self.scope.home.join(rest);
        }
        match word.strip_prefix('$').and_then(|rest| rest.split_once('/')) {
            Some((_, rest)) => base.join(rest.trim_start_matches('/')),
            None => base.join(word),
        }
    }
}

/// Which files a word may name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    /// Every regular file.
    Any,
    /// What is executable, or a script by its name.
    Runnable,
}

fn has_extension(path: &Path) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| TABLE.named_scripts.extensions.iter().any(|known| known == extension))
}

fn parse(text: &str, path: &Path) -> Option<Json> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        return toml::from_str(text).ok();
    }
    serde_json::from_str(text).ok()
}

/// The strings below the keys that name commands.
fn collect(value: &Json, counts: bool, commands: &mut Vec<String>) {
    match value {
        Json::String(text) if counts => commands.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| collect(item, counts, commands)),
        Json::Object(fields) => {
            for (key, value) in fields {
                let counts = counts || TABLE.named_scripts.keys.contains(&key.to_ascii_lowercase());
                collect(value, counts, commands);
            }
        }
        _ => {}
    }
}

/// Everything between double quotes, escapes undone.
fn strings(text: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut chars = text.chars();
    while chars.by_ref().any(|c| c == '"') {
        let mut string = String::new();
        while let Some(c) = chars.next().filter(|c| *c != '"' && *c != '\n') {
            string.extend(if c == '\\' { chars.next() } else { Some(c) });
        }
        strings.push(string);
    }
    strings
}

/// The words of a command that may be paths: as a shell splits them, and quoted ones split again, for a shell in a shell.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.trim_start_matches('!').chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if separates(c) => words.push(String::new()),
            (_, c) => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    let parts: Vec<String> = words
        .iter()
        .filter(|word| word.contains(separates))
        .flat_map(|word| word.split(|c| separates(c) || c == '"' || c == '\'').map(str::to_owned))
        .collect();
    words.extend(parts);
    words.retain(|word| !word.is_empty());
    words
}

fn separates(c: char) -> bool {
    c.is_whitespace() || ";&|()<>=`,".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_command_are_those_of_a_shell() {
        for (command, expected) in [
            ("./a.sh", vec!["./a.sh"]),
            ("!./a.sh x", vec!["./a.sh", "x"]),
            ("\"$CLAUDE_PROJECT_DIR\"/a.sh", vec!["$CLAUDE_PROJECT_DIR/a.sh"]),
            ("'with blank.sh'", vec!["with blank.sh", "with", "blank.sh"]),
            ("X=1 sh -c './a.sh;b'", vec!["X", "1", "sh", "-c", "./a.sh;b", "./a.sh", "b"]),
            ("cat<in|./b>out", vec!["cat", "in", "./b", "out"]),
            ("\"open", vec!["open"]),
            ("", vec![]),
        ] {
            assert_eq!(words(command), expected, "{command:?}");
        }
    }

    #[test]
    fn strings_are_found_where_the_text_is_no_json() {
        assert_eq!(strings("{ // c\n \"command\": \"./a\\\"b\", }"), ["command", "./a\"b"]);
        assert_eq!(strings("\"open"), ["open"]);
    }

    #[test]
    fn strings_count_below_keys_of_commands_only() {
        let value = serde_json::json!({"permissions": {"allow": ["./no.sh"]}, "hooks": {"Stop": [{"x": "./a.sh"}]},
            "mcpServers": {"m": {"Command": "node", "args": ["./b.js"], "env": {"A": "./no"}}}});
        let mut commands = Vec::new();
        collect(&value, false, &mut commands);
        commands.sort();
        assert_eq!(commands, ["./a.sh", "./b.js", "node"]);
    }
}

//! Git data that appeared while a jail ran: what of it is legitimate, and what runs programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::host::ini;

use super::quarantine::Quarantine;

/// What to do about a protected path that appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is what git makes by itself.
    Keep,
    /// It goes to the quarantine as a whole.
    HoldBack,
    /// The hooks of a new repository: all but git's samples.
    Hooks,
    /// The configuration of a new repository: what runs programs.
    Config,
}

/// No configuration of git's is longer (bytes).
const CONFIG_LIMIT: u64 = 1 << 20;

/// Keys of a repository's own configuration that run nothing and lead nowhere but to a remote, as patterns with `*`.
const HARMLESS: [&str; 24] = [
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "core.sharedrepository",
    "core.compression",
    "extensions.objectformat",
    "extensions.refstorage",
    "extensions.partialclone",
    "remote.*.fetch",
    "remote.*.url",
    "remote.*.tagopt",
    "remote.*.promisor",
    "remote.*.partialclonefilter",
    "branch.*.remote",
    "branch.*.merge",
    "branch.*.rebase",
    "user.name",
    "user.email",
];

/// Judges the protected path `below` in the tree at `root`.
pub fn judge(root: &Path, below: &Path, in_new_repository: bool) -> Verdict {
    let name = below.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parent = below.parent().unwrap_or(Path::new(""));
    let is_link = root.join(below).is_symlink();
    if is_link {
        return Verdict::HoldBack;
    }
    if name == ".git" {
        return if leads_into_own_git_directory(root, below) { Verdict::Keep } else { Verdict::HoldBack };
    }
    if in_git_directory(root, parent) {
        let in_worktree = parent.parent().and_then(Path::file_name).is_some_and(|name| name == "worktrees");
        return match name {
            "hooks" if in_new_repository => Verdict::Hooks,
            "config" if in_new_repository => Verdict::Config,
            "commondir" if in_worktree && says(root, below, "../..") => Verdict::Keep,
            "gitdir" if in_worktree => Verdict::Keep,
            _ => Verdict::HoldBack,
        };
    }
    Verdict::HoldBack
}

/// Holds back every hook but git's samples, which nothing runs.
pub fn hold_back_hooks(root: &Path, hooks: &Path, quarantine: &mut Quarantine) {
    let Ok(entries) = fs::read_dir(root.join(hooks)) else {
        // What cannot be listed can still be run by its name.
        quarantine.hold_back(root, hooks);
        return;
    };
    for entry in entries.flatten() {
        let sample = Path::new(&entry.file_name()).extension().is_some_and(|extension| extension == "sample");
        if !(sample && entry.file_type().is_ok_and(|kind| kind.is_file())) {
            quarantine.hold_back(root, &hooks.join(entry.file_name()));
        }
    }
}

/// Holds back a configuration that says more than what is harmless, and leaves the harmless part in its place.
pub fn hold_back_config(root: &Path, config: &Path, quarantine: &mut Quarantine) {
    let place = root.join(config);
    let small =
        place.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= CONFIG_LIMIT);
    let text = if small { fs::read_to_string(&place).ok() } else { None };
    let entries = text.as_deref().map(ini::git).unwrap_or_default();
    let (harmless, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_harmless);
    if text.is_some() && others.is_empty() {
        return;
    }
    if quarantine.hold_back(root, config) {
        quarantine.replace(root, config, &written(&harmless));
    }
}

/// The settings in a git configuration that are not harmless, with their values.
pub fn running(text: &str) -> BTreeSet<(String, String)> {
    let entries = ini::git(text).into_iter().filter(|entry| !is_harmless(entry));
    entries.map(|entry| (entry.name(), entry.value)).collect()
}

fn is_harmless(entry: &ini::Entry) -> bool {
    let name = entry.name();
    let transport_runs = name.ends_with(".url") && entry.value.contains("::");
    !transport_runs && HARMLESS.iter().any(|pattern| crate::policy::env::matches(pattern, &name))
}

fn written(entries: &[ini::Entry]) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut text = String::new();
    for entry in entries {
        match &entry.subsection {
            Some(subsection) => text.push_str(&format!("[{} \"{}\"]\n", entry.section, quoted(subsection))),
            None => text.push_str(&format!("[{}]\n", entry.section)),
        }
        text.push_str(&format!("\t{} = \"{}\"\n", entry.key, quoted(&entry.value)));
    }
    text
}

/// Whether a `.git` file names a directory of the git directory that the tree itself has.
fn leads_into_own_git_directory(root: &Path, below: &Path) -> bool {
    let place = root.join(below);
    let Ok(text) = fs::read_to_string(&place) else { return false };
    let Some(target) = text.trim_end().strip_prefix("gitdir: ") else { return false };
    let target = place.parent().unwrap_or(root).join(target);
    let own = [root.join(".git/worktrees"), root.join(".git/modules")];
    let Some(target) = resolved(&target) else { return false };
    own.iter().filter_map(|own| own.canonicalize().ok()).any(|own| target.starts_with(own))
}

/// A path without symlinks. Git writes the file before it makes the last directory that it leads to.
fn resolved(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)))
}

/// Whether `below` is a git directory, or lies in one.
pub fn in_git_directory(root: &Path, below: &Path) -> bool {
    let has = |name: &str| root.join(below).join(name).symlink_metadata().is_ok();
    has("HEAD") || has("objects") || below.components().any(|part| part.as_os_str() == ".git")
}

fn says(root: &Path, below: &Path, wanted: &str) -> bool {
    let place: PathBuf = root.join(below);
    place.metadata().is_ok_and(|metadata| metadata.len() < 4096)
        && fs::read_to_string(place).is_ok_and(|text| text.trim_end() == wanted)
}

//! Which sources and places a grant cannot have.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::config::settings::GrantSpec;
use crate::error::Result;
use crate::host::protected;
use crate::policy::Grant;
use crate::policy::origin::Sourced;

use super::{Bounds, links, refused, shown};

/// What the jail has of its own, made by ai-jail: nothing is granted there or below.
pub(in crate::host) const RESERVED: [&str; 5] =
    ["/proc", "/sys", "/run/ai-jail", "/run/ai-jail-settings", "/run/.ai-jail-staging"];
/// The same, but below them there is room.
const OWN_ROOTS: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/etc"];
/// Host places that show processes, devices and everybody's sockets.
const KERNELS: [&str; 3] = ["/proc", "/dev", "/sys"];
/// The files that are made for the jail.
const MADE: [&str; 7] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/machine-id",
];

impl Bounds<'_> {
    /// Whether `source`, resolved, may be shown at all.
    pub(super) fn source(&self, spec: &Sourced<GrantSpec>, source: &Path) -> Result<()> {
        let refuse = |why: &str, hint: &str| Err(refused(spec, why, hint));
        if source == Path::new("/") {
            return refuse(
                "that would be every file of this machine",
                "name the directories that are needed",
            );
        }
        if self.host.user.home_real.starts_with(source) {
            return refuse(
                "it holds your whole home directory with every credential in it",
                "name the directories that are needed",
            );
        }
        let runtime = source.parent() == Some(Path::new("/run/user"));
        if runtime
            || ["/run", "/run/user"].iter().any(|place| source == Path::new(place))
            || KERNELS.iter().any(|place| source.starts_with(place))
        {
            return refuse(
                "it shows processes, devices or sockets of this machine",
                "grant regular files and directories only",
            );
        }
        if let Some(own) = self.own.iter().find(|own| source.starts_with(own)) {
            let why = format!("{} is ai-jail's own: settings, homes and logs that no jail sees", shown(own));
            return refuse(&why, "copy what is needed to another place");
        }
        Ok(())
    }

    /// Whether every grant has a place in the jail.
    pub(super) fn places(&self, grants: &[Grant]) -> Result<()> {
        for grant in grants {
            self.place(grant, grants)?;
        }
        Ok(())
    }

    fn place(&self, grant: &Grant, grants: &[Grant]) -> Result<()> {
        let refuse = |why: String| {
            let spec = GrantSpec { source: grant.source.clone(), dest: grant.dest.clone() };
            Err(refused(
                &Sourced::new(spec, grant.origin.clone()),
                &why,
                "choose another place with PATH:DEST",
            ))
        };
        let (dest, elsewhere) = (&grant.dest, grant.dest != grant.source);
        let home = &self.host.user.home_real;
        if dest == Path::new("/")
            || RESERVED
                .iter()
                .chain(&KERNELS)
                .any(|place| dest.starts_with(place) || Path::new(place).starts_with(dest))
            || OWN_ROOTS.iter().any(|place| Path::new(place).starts_with(dest))
            || MADE.iter().any(|place| dest.starts_with(place))
        {
            return refuse(format!("the jail has its own at {}", shown(dest)));
        }
        if home.starts_with(dest) {
            return refuse(format!("the private home is at {}, and cannot lie in a grant", shown(home)));
        }
        if elsewhere && self.project.root.starts_with(dest) {
            return refuse(format!("the project is at {}", shown(&self.project.root)));
        }
        let systems =
            self.system.iter().any(|mount| dest.starts_with(&mount.dest) || mount.dest.starts_with(dest));
        if elsewhere && systems {
            return refuse(format!("the system is shown at {}", shown(dest)));
        }
        self.mount_point(grant, grants).map_or(Ok(()), refuse)
    }

    /// Why there is no mount point for a grant that lies in the project or another grant; nothing is made there.
    fn mount_point(&self, grant: &Grant, grants: &[Grant]) -> Option<String> {
        let project = (self.project.root.as_path(), self.project.root.as_path());
        let (outer_source, outer_dest) = grants
            .iter()
            .map(|outer| (outer.source.as_path(), outer.dest.as_path()))
            .chain([project])
            .filter(|(_, dest)| *dest != grant.dest && grant.dest.starts_with(dest))
            .max_by_key(|(_, dest)| dest.components().count())?;
        let below = grant.dest.strip_prefix(outer_dest).ok()?;
        let place = outer_source.join(below);
        if place == grant.source {
            return None;
        }
        match links::follow(&place) {
            Err(_) => Some(format!(
                "there is no {} to show it at, and nothing is made in {}",
                shown(below),
                shown(outer_dest)
            )),
            Ok(route) if !route.links.is_empty() => {
                Some(format!("{} is reached through a symlink", shown(&grant.dest)))
            }
            Ok(route) if route.end.is_dir() != grant.source.is_dir() => {
                Some(format!("{} is a directory, or a file, and what is granted is not", shown(&grant.dest)))
            }
            Ok(_) => None,
        }
    }
}

/// The protected path that `path` is or lies in, by the names on its way alone: what counts in a tree counts for a tree that
/// begins further down as well. Working copies that agents keep below their own directories are none.
pub(in crate::host) fn protected_part(path: &Path, home: &Path) -> Option<PathBuf> {
    let parts: Vec<&OsStr> = path.iter().collect();
    // A home may have any name.
    let begin = if path.starts_with(home) { home.iter().count() } else { 1 };
    let held = |start: usize, name: &Path| {
        let names: Vec<&OsStr> = name.iter().collect();
        let end = start + names.len();
        parts.get(start..end) == Some(names.as_slice())
            && parts.get(end).is_none_or(|next| *next != "worktrees" || name == Path::new(".git"))
    };
    for start in begin..parts.len() {
        let table = protected::TABLE.path.iter().flat_map(|row| &row.names).map(Path::new);
        if let Some(name) = table.chain([Path::new(".git")]).find(|name| held(start, name)) {
            return parts.get(..start + name.iter().count()).map(|found| found.iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_protected_by_any_name_on_its_way() {
        let home = Path::new("/h/.git/ann");
        for (path, want) in [
            ("/h/.git/ann/p", None),
            ("/h/.git/ann/p/.git", Some("/h/.git/ann/p/.git")),
            ("/h/.git/ann/p/.git/hooks/x", Some("/h/.git/ann/p/.git")),
            ("/h/.git/ann/p/.git/worktrees/w", Some("/h/.git/ann/p/.git")),
            ("/srv/p/.git", Some("/srv/p/.git")),
            ("/h/.git/ann/.claude", None),
            ("/h/.git/ann/.claude/settings.json", Some("/h/.git/ann/.claude/settings.json")),
            ("/h/.git/ann/.claude/hooks/a/b", Some("/h/.git/ann/.claude/hooks")),
            ("/h/.git/ann/.config/fish/conf.d", Some("/h/.git/ann/.config/fish")),
            ("/h/.git/ann/.bashrc", Some("/h/.git/ann/.bashrc")),
            ("/h/.git/ann/.codex/worktrees/1/p", None),
            ("/h/.git/ann/.codex/skills", Some("/h/.git/ann/.codex")),
            ("/h/.git/ann/.github/workflows", None),
        ] {
            let found = protected_part(Path::new(path), home);
            assert_eq!(found.as_deref(), want.map(Path::new), "{path}");
        }
    }
}

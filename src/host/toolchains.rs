//! Toolchains that are installed below the home, or elsewhere off the system: what of them a jail is shown.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::needs::Needs;
use super::system::{MountKind, SystemMount};
use super::{Host, links};
use crate::error::{Error, Kind, Result};
use crate::presets::preset;

static PRESET: &str = preset!("toolchains");

/// A row of `presets/toolchains.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolchainRow {
    /// Its name.
    pub name: String,
    /// Where it may be: `~/...` or `$NAME`; the first that exists counts.
    pub roots: Vec<String>,
    /// Parts of the root that are shown.
    pub mount: Vec<String>,
    /// Variables of the launcher's that are carried.
    #[serde(default)]
    pub env: Vec<String>,
    /// Where it keeps downloads, relative to the home.
    #[serde(default)]
    pub caches: Vec<String>,
    /// Why it is shown, and what of it is not.
    pub reason: String,
}

/// A toolchain that this machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The row's name, or `PATH` for directories that only PATH names.
    pub name: String,
    /// What is shown read-only, and symlinks that lead to it. Never the home as a whole, nor a place of credentials.
    pub mounts: Vec<SystemMount>,
    /// Variables to carry.
    pub env: Vec<(String, OsString)>,
    /// Where it keeps downloads, relative to the home.
    pub caches: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    toolchain: Vec<ToolchainRow>,
}

/// The rows of the table.
///
/// # Errors
/// Never for the table that is compiled in, which a test reads.
pub fn rows() -> Result<Vec<ToolchainRow>> {
    let table: Table = serde_json::from_str(PRESET)
        .map_err(|error| Error::new(Kind::Setup, "the toolchain preset cannot be read").because(error))?;
    Ok(table.toolchain)
}

/// The toolchains of this machine: those of the table, then what else PATH leads to outside the system and the project.
///
/// # Errors
/// As [`rows`].
pub fn detect(host: &Host, project: &Path) -> Result<Vec<Toolchain>> {
    let bounds = Needs::new(host, project);
    let mut found: Vec<Toolchain> = rows()?.iter().filter_map(|row| row.detect(host, &bounds)).collect();
    let path = off_the_table(host, project, &bounds, &found);
    if !path.is_empty() {
        found.push(Toolchain { name: "PATH".into(), mounts: path, env: Vec::new(), caches: Vec::new() });
    }
    Ok(found)
}

impl ToolchainRow {
    fn detect(&self, host: &Host, bounds: &Needs<'_>) -> Option<Toolchain> {
        let root = self.roots.iter().filter_map(|root| place(host, root)).find(|root| root.is_dir())?;
        let mounts: Vec<SystemMount> = self
            .mount
            .iter()
            .filter_map(|part| shown(bounds, &if part == "." { root.clone() } else { root.join(part) }))
            .collect();
        let carried = |name: &String| Some((name.clone(), host.environment.var(name)?.to_owned()));
        let env: Vec<_> = self.env.iter().filter_map(carried).collect();
        if mounts.is_empty() && env.is_empty() {
            return None;
        }
        let caches = self.caches.iter().map(PathBuf::from).collect();
        Some(Toolchain { name: self.name.clone(), mounts, env, caches })
    }
}

/// Where a root is: `$NAME` needs an absolute value.
fn place(host: &Host, root: &str) -> Option<PathBuf> {
    match (root.strip_prefix('$'), root.strip_prefix("~/")) {
        (Some(name), _) => host.environment.var(name).map(PathBuf::from).filter(|path| path.is_absolute()),
        (None, Some(rest)) => Some(host.user.home_real.join(rest)),
        (None, None) => None,
    }
}

/// A bind of what exists, at its own path, unless every jail shows it anyway or none may.
fn shown(bounds: &Needs<'_>, path: &Path) -> Option<SystemMount> {
    let source = path.canonicalize().ok()?;
    // A path through a symlink above is the same place; a link at the end is shown as what it leads to.
    let dest = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    if !bounds.foreign(&dest) {
        return None;
    }
    if !bounds.foreign(&source) {
        // A link into the system or the project, which are there anyway.
        let kind = MountKind::Symlink(source.clone());
        return (!bounds.holds_home(&source)).then_some(SystemMount { source: dest.clone(), dest, kind });
    }
    let allowed = if source.is_dir() { bounds.may_show(&source) } else { !bounds.credential(&source) };
    allowed.then_some(SystemMount { source, dest, kind: MountKind::Bind })
}

/// Entries of PATH that nothing shows yet, and the symlinks on their way.
fn off_the_table(host: &Host, project: &Path, bounds: &Needs<'_>, found: &[Toolchain]) -> Vec<SystemMount> {
    let mut mounts: Vec<SystemMount> = Vec::new();
    let covered = |mounts: &[SystemMount], path: &Path| {
        found.iter().flat_map(|known| &known.mounts).chain(mounts).any(|mount| path.starts_with(&mount.dest))
    };
    for entry in host.environment.path_entries() {
        let Ok(route) = links::follow(&entry) else { continue };
        // Drives of Windows and snaps: nothing there runs in a jail.
        let useless =
            ["/mnt", "/snap", "/var/lib/snapd"].iter().any(|place| route.end.starts_with(host.at(place)));
        if useless
            || route.end.starts_with(project)
            || !fs::metadata(&route.end).is_ok_and(|meta| meta.is_dir())
        {
            continue;
        }
        if bounds.foreign(&route.end) && !covered(&mounts, &route.end) {
            let Some(dir) = bounds.program_directory(&route.end) else { continue };
            mounts.push(SystemMount::bind(dir));
        }
        for link in route.links {
            if bounds.foreign(&link.path) && !covered(&mounts, &link.path) {
                let kind = MountKind::Symlink(link.target);
                mounts.push(SystemMount { source: link.path.clone(), dest: link.path, kind });
            }
        }
    }
    mounts
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::host::tests::machine;

    fn setting(dirs: &[&str]) -> (tempfile::TempDir, Host, PathBuf) {
        let (dir, host) = machine();
        for name in dirs {
            fs::create_dir_all(host.user.home.join(name)).unwrap();
        }
        let project = host.user.home.join("p");
        fs::create_dir_all(&project).unwrap();
        (dir, host, project)
    }

    fn shown_below_home(host: &Host, project: &Path) -> Vec<String> {
        let found = detect(host, project).unwrap();
        let mut shown: Vec<String> = found
            .iter()
            .flat_map(|toolchain| &toolchain.mounts)
            .map(|mount| {
                mount.dest.strip_prefix(&host.user.home).unwrap_or(&mount.dest).to_str().unwrap().to_owned()
            })
            .collect();
        shown.sort();
        shown
    }

    #[test]
    fn every_row_is_whole() {
        let rows = rows().unwrap();
        for row in &rows {
            assert!(!row.reason.is_empty() && !row.roots.is_empty() && !row.mount.is_empty(), "{}", row.name);
            for root in &row.roots {
                assert!(root.starts_with("~/") || root.starts_with('$'), "{root}");
                assert!(!root.ends_with('/') && root.len() > 2, "{root}");
            }
            for part in row.mount.iter().chain(&row.caches) {
                assert!(
                    !part.starts_with('/') && !part.contains("..") && !part.contains("credential"),
                    "{part}"
                );
            }
        }
        let mut names: Vec<_> = rows.iter().map(|row| &row.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), rows.len());
    }

    #[test]
    fn only_the_named_parts_are_shown() {
        for (dirs, want) in [
            (vec![".cargo/bin", ".cargo/registry", ".rustup"], vec![".cargo/bin", ".rustup"]),
            (vec![".local/share/uv/python", ".local/share/uv/credentials"], vec![".local/share/uv/python"]),
            (vec![".local/bin", ".local/lib", ".local/share/secret"], vec![".local/bin", ".local/lib"]),
            (vec![".bun/bin", ".bun/install/cache"], vec![".bun/bin"]),
            (vec!["go/bin", "go/src"], vec!["go/bin"]),
            (vec![".nvm"], vec![".nvm"]),
            (vec![".config/composer/vendor"], vec![".config/composer/vendor"]),
            (vec![], vec![]),
        ] {
            let (_dir, host, project) = setting(&dirs);
            assert_eq!(shown_below_home(&host, &project), want, "{dirs:?}");
        }
    }

    #[test]
    fn variables_point_elsewhere_and_are_carried() {
        let (_dir, mut host, project) = setting(&["elsewhere/rustup", ".rustup"]);
        let place = host.user.home.join("elsewhere/rustup");
        host.environment.vars.insert("RUSTUP_HOME".into(), place.clone().into());
        host.environment.vars.insert("CARGO_HOME".into(), host.user.home.join("none").into());
        let found = detect(&host, &project).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].mounts[0].source, place);
        assert_eq!(found[0].env, [("RUSTUP_HOME".to_owned(), place.into_os_string())]);
    }

    #[test]
    fn a_variable_cannot_open_what_must_stay_closed() {
        let (_dir, mut host, project) = setting(&[".ssh", ".config/gh", "p/venv", "p/sub"]);
        let home = host.user.home.clone();
        for value in [
            &home,
            home.parent().unwrap(),
            &home.join(".ssh"),
            &home.join(".config"),
            Path::new("relative"),
            &home.join("p/venv"),
        ] {
            host.environment.vars.insert("JAVA_HOME".into(), value.into());
            assert_eq!(shown_below_home(&host, &project), Vec::<String>::new(), "{}", value.display());
        }
    }

    #[test]
    fn a_root_that_is_a_link_is_shown_at_the_links_place() {
        let (_dir, host, project) = setting(&["data/nvm"]);
        symlink("data/nvm", host.user.home.join(".nvm")).unwrap();
        let found = detect(&host, &project).unwrap();
        let mount = &found[0].mounts[0];
        assert_eq!(
            (&mount.source, &mount.dest),
            (&host.user.home.join("data/nvm"), &host.user.home.join(".nvm"))
        );
    }

    #[test]
    fn a_root_that_leads_into_the_system_is_shown_as_a_link() {
        let (_dir, host, project) = setting(&[]);
        fs::create_dir_all(host.at("/opt/nvm")).unwrap();
        symlink(host.at("/opt/nvm"), host.user.home.join(".nvm")).unwrap();
        let found = detect(&host, &project).unwrap();
        assert_eq!(found[0].mounts[0].kind, MountKind::Symlink(host.at("/opt/nvm")));
    }

    #[test]
    fn a_link_to_a_place_of_credentials_is_not_shown() {
        let (_dir, host, project) = setting(&[".ssh"]);
        symlink(".ssh", host.user.home.join(".nvm")).unwrap();
        symlink("/", host.user.home.join("bin")).unwrap();
        assert_eq!(shown_below_home(&host, &project), Vec::<String>::new());
    }

    #[test]
    fn what_path_leads_to_is_shown() {
        let dirs = ["tools/x/bin", "tools/x/lib", "y", ".cargo/bin", "p/bin", "real/bin"];
        let (_dir, mut host, project) = setting(&dirs);
        let home = host.user.home.clone();
        symlink(home.join("real"), home.join("current")).unwrap();
        fs::create_dir_all(host.at("/usr/bin")).unwrap();
        fs::create_dir_all(host.at("/mnt/c/bin")).unwrap();
        let entries =
            ["tools/x/bin", "y", ".cargo/bin", "p/bin", "current/bin", "gone"].map(|dir| home.join(dir));
        let entries = entries.into_iter().chain([home.clone(), host.at("/usr/bin"), host.at("/mnt/c/bin")]);
        host.environment.vars.insert("PATH".into(), std::env::join_paths(entries).unwrap());
        assert_eq!(shown_below_home(&host, &project), [".cargo/bin", "current", "real/bin", "tools/x", "y"]);
    }
}

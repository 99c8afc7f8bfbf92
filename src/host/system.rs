//! The system directories and the entries of `/etc` that a jail sees, as far as this machine has them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::links;
use crate::presets::preset;

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("system")).expect("system.toml parses"));

/// How a path of the system is made in the jail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountKind {
    /// A read-only bind of the source.
    Bind,
    /// A symlink that says this, as the host has it.
    Symlink(PathBuf),
}

/// One thing that is shown read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemMount {
    /// The host path that is bound, free of symlinks; for a symlink the link itself.
    pub source: PathBuf,
    /// The path in the jail, absolute. No component before the last is a symlink on the host.
    pub dest: PathBuf,
    /// Bind or symlink.
    pub kind: MountKind,
}

/// How a row of the table is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Show {
    /// As the host has it: a directory is bound, a symlink is made anew.
    AsIs,
    /// Only when it is a symlink, which is made anew.
    LinkOnly,
    /// Its contents: a symlink is resolved and its end is bound at the row's own path.
    Resolved,
}

/// A row of `presets/system.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemRow {
    /// An absolute path; the last component may end in `*`.
    pub path: String,
    /// How it is shown.
    pub show: Show,
    /// Whether `lockdown`, which has a minimal system, leaves it out.
    #[serde(default)]
    pub extra: bool,
    /// Why a jail needs it.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mount: Vec<SystemRow>,
}

/// How much of the system is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Every row.
    Whole,
    /// Only what nearly every program needs (`lockdown`).
    Minimal,
}

/// The rows of the table.
pub fn rows() -> &'static [SystemRow] {
    &TABLE.mount
}

/// What of the table exists below `root` (which is `/` but in tests), in the order in which it is to be mounted: a parent
/// comes before what lies below it.
pub fn mounts(root: &Path, extent: Extent) -> Vec<SystemMount> {
    let wanted = rows().iter().filter(|row| extent == Extent::Whole || !row.extra);
    let mut parents = Parents::default();
    let mut listings = Listings::default();
    let mut mounts = Vec::new();
    for row in wanted {
        let paths = expand(root, &row.path, &mut listings);
        mounts.extend(paths.iter().filter_map(|path| show(root, path, row.show, &mut parents)));
    }
    merge(mounts)
}

/// Joins lists of mounts into one: sorted so that parents come first, each destination once (the first that was given), and
/// without what a bind of a parent shows anyway.
pub fn merge(mounts: impl IntoIterator<Item = SystemMount>) -> Vec<SystemMount> {
    let mut sorted: Vec<SystemMount> = mounts.into_iter().collect();
    sorted.sort_by(|a, b| a.dest.cmp(&b.dest));
    let mut merged: Vec<SystemMount> = Vec::new();
    // Where the mounts are whose destinations hold the last one: what is sorted by component leaves a directory for good.
    let mut above: Vec<usize> = Vec::new();
    for mount in sorted {
        while above.last().is_some_and(|&last| !mount.dest.starts_with(&merged[last].dest)) {
            above.pop();
        }
        let mut holders = above.iter().map(|&holder| &merged[holder]);
        if !holders.any(|known| known.dest == mount.dest || known.shows(&mount)) {
            above.push(merged.len());
            merged.push(mount);
        }
    }
    merged
}

impl SystemMount {
    /// A read-only bind of a path at its own place.
    pub fn bind(path: PathBuf) -> Self {
        Self { source: path.clone(), dest: path, kind: MountKind::Bind }
    }

    /// Whether this bind shows the source of `other` at the destination of `other`.
    fn shows(&self, other: &Self) -> bool {
        let below = other.dest.strip_prefix(&self.dest);
        self.kind == MountKind::Bind && below.is_ok_and(|below| self.source.join(below) == other.source)
    }
}

/// Directories whose symlinks were followed before: most rows share theirs.
#[derive(Default)]
struct Parents(HashMap<PathBuf, Option<PathBuf>>);

impl Parents {
    /// `path`, which is no symlink itself, without those on its way.
    fn resolve(&mut self, path: &Path) -> Option<PathBuf> {
        let (parent, name) = (path.parent()?, path.file_name()?);
        let followed = self.0.entry(parent.to_path_buf());
        let real = followed.or_insert_with(|| links::follow(parent).ok().map(|route| route.end));
        real.as_ref().map(|real| real.join(name))
    }
}

fn show(root: &Path, path: &Path, show: Show, parents: &mut Parents) -> Option<SystemMount> {
    let host = super::below(root, path);
    let meta = fs::symlink_metadata(&host).ok()?;
    if meta.is_symlink() && show != Show::Resolved {
        let target = fs::read_link(&host).ok()?;
        return Some(SystemMount {
            source: host,
            dest: path.to_path_buf(),
            kind: MountKind::Symlink(target),
        });
    }
    if show == Show::LinkOnly {
        return None;
    }
    let (source, meta) = if meta.is_symlink() {
        let source = links::follow(&host).ok()?.end;
        let meta = fs::symlink_metadata(&source).ok()?;
        (source, meta)
    } else {
        (parents.resolve(&host)?, meta)
    };
    let dest = path.to_path_buf();
    (meta.is_dir() || meta.is_file()).then_some(SystemMount { source, dest, kind: MountKind::Bind })
}

/// Names in directories that were listed before: most patterns share theirs.
#[derive(Default)]
struct Listings(HashMap<PathBuf, Vec<String>>);

impl Listings {
    fn names(&mut self, dir: &Path) -> &[String] {
        let list = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten();
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
        };
        self.0.entry(dir.to_path_buf()).or_insert_with(|| list(dir))
    }
}

/// The paths that a row names: itself, or what its `*` matches.
fn expand(root: &Path, pattern: &str, listings: &mut Listings) -> Vec<PathBuf> {
    let Some(prefix) = pattern.strip_suffix('*') else { return vec![PathBuf::from(pattern)] };
    let (dir, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    let place = super::below(root, Path::new(if dir.is_empty() { "/" } else { dir }));
    let names = listings.names(&place).iter().filter(|name| name.starts_with(start));
    let mut paths: Vec<_> = names.map(|name| PathBuf::from(format!("{dir}/{name}"))).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::host::tests::machine;

    fn names(mounts: &[SystemMount]) -> Vec<&str> {
        mounts.iter().map(|mount| mount.dest.to_str().unwrap()).collect()
    }

    #[test]
    fn every_row_is_absolute_and_has_a_reason() {
        let rows = rows();
        for row in rows {
            assert!(
                row.path.starts_with('/') && !row.path.ends_with('/') && !row.path.contains(".."),
                "{}",
                row.path
            );
            assert!(!row.reason.is_empty(), "{}", row.path);
        }
        let mut paths: Vec<_> = rows.iter().map(|row| &row.path).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), rows.len());
    }

    #[test]
    fn secrets_of_the_system_and_files_that_are_made_are_in_no_row() {
        for secret in [
            "/etc/shadow",
            "/etc/gshadow",
            "/etc/sudoers",
            "/etc/ssh",
            "/etc/ssl/private",
            "/etc/pki/tls/private",
            "/etc/krb5.keytab",
            "/etc/NetworkManager",
            "/etc/wireguard",
            "/etc/security",
            "/etc/apt",
            "/etc/docker",
            "/etc/kubernetes",
            "/etc/ai-jail",
            "/etc/passwd",
            "/etc/group",
            "/etc/hosts",
            "/etc/nsswitch.conf",
            "/etc/resolv.conf",
            "/etc/machine-id",
            "/etc/gitconfig",
            "/etc/npmrc",
            "/etc/pip.conf",
            "/etc/maven/settings.xml",
            "/etc/nix/nix.conf",
            "/library",
            "/etc",
            "/var",
            "/run",
            "/proc",
            "/sys",
            "/root",
            "/home/ann",
            "/etc/environment",
            "/etc/profile.d",
        ] {
            for row in rows() {
                let covers = match row.path.strip_suffix('*') {
                    Some(start) => secret.starts_with(start),
                    None => Path::new(secret).starts_with(&row.path) && row.show != Show::LinkOnly,
                };
                assert!(!covers, "{} shows {secret}", row.path);
            }
        }
    }

    #[test]
    fn the_root_directories_are_shown_as_the_host_has_them() {
        let (_dir, host) = machine();
        for dir in ["usr/bin", "usr/lib64", "lib32", "opt/x", "var/home"] {
            fs::create_dir_all(host.root.join(dir)).unwrap();
        }
        symlink("usr/bin", host.at("/bin")).unwrap();
        symlink("usr/lib64", host.at("/lib64")).unwrap();
        let mounts = mounts(&host.root, Extent::Whole);
        assert_eq!(names(&mounts), ["/bin", "/lib32", "/lib64", "/opt", "/usr"]);
        assert_eq!(mounts[0].kind, MountKind::Symlink("usr/bin".into()));
        assert_eq!((&mounts[1].kind, &mounts[1].source), (&MountKind::Bind, &host.at("/lib32")));
        assert_eq!(mounts[2].kind, MountKind::Symlink("usr/lib64".into()));
    }

    #[test]
    fn merging_keeps_what_no_bind_of_a_parent_shows() {
        let bind = |source: &str, dest: &str| SystemMount {
            source: source.into(),
            dest: dest.into(),
            kind: MountKind::Bind,
        };
        let link = |dest: &str| SystemMount {
            source: dest.into(),
            dest: dest.into(),
            kind: MountKind::Symlink("x".into()),
        };
        let merged = merge([
            bind("/h/.npm/lib", "/h/.npm/lib"),
            link("/h/.npm/bin/codex"),
            bind("/h/.npm/bin", "/h/.npm/bin"),
            bind("/data", "/h/.npm/bin/data"),
            link("/h/.npm/binary"),
            bind("/h/.npm/lib", "/h/.npm/lib"),
        ]);
        assert_eq!(names(&merged), ["/h/.npm/bin", "/h/.npm/bin/data", "/h/.npm/binary", "/h/.npm/lib"]);
    }

    #[test]
    fn a_linked_home_is_a_link_and_a_real_one_is_left_out() {
        let (_dir, host) = machine();
        assert!(mounts(&host.root, Extent::Whole).iter().all(|mount| mount.dest != Path::new("/home")));
        fs::rename(host.at("/home"), host.at("/var-home")).unwrap();
        symlink("var/home", host.at("/home")).unwrap();
        let mounts = mounts(&host.root, Extent::Whole);
        assert_eq!(names(&mounts), ["/home"]);
        assert_eq!(mounts[0].kind, MountKind::Symlink("var/home".into()));
    }

    #[test]
    fn links_of_etc_are_resolved_and_dangling_ones_left_out() {
        let (_dir, host) = machine();
        fs::create_dir_all(host.at("/nix/store/abc")).unwrap();
        fs::write(host.at("/nix/store/abc/services"), "").unwrap();
        symlink(host.at("/nix/store/abc/services"), host.at("/etc/services")).unwrap();
        symlink("/nowhere", host.at("/etc/protocols")).unwrap();
        symlink("../usr/share/zoneinfo/UTC", host.at("/etc/localtime")).unwrap();
        let mounts = mounts(&host.root, Extent::Whole);
        assert_eq!(names(&mounts), ["/etc/localtime", "/etc/services", "/nix/store"]);
        assert_eq!(mounts[1].source, host.at("/nix/store/abc/services"));
        assert_eq!(mounts[0].kind, MountKind::Symlink("../usr/share/zoneinfo/UTC".into()));
    }

    #[test]
    fn the_minimal_system_leaves_extras_out_and_keeps_what_programs_start_by() {
        let (_dir, host) = machine();
        for dir in ["usr", "opt", "etc/fonts", "etc/ssl/certs", "etc/python3"] {
            fs::create_dir_all(host.root.join(dir)).unwrap();
        }
        fs::write(host.at("/etc/ld.so.cache"), "").unwrap();
        let minimal = mounts(&host.root, Extent::Minimal);
        assert_eq!(names(&minimal), ["/etc/ld.so.cache", "/etc/ssl/certs", "/opt", "/usr"]);
        let whole = mounts(&host.root, Extent::Whole);
        assert_eq!(whole.len(), minimal.len() + 2);
    }
}

//! Which places below a home hold credentials, and what is covered where one would be shown.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::Host;
use crate::policy::{Cover, CoverKind};
use crate::presets::preset;

/// `presets/credentials.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The rows.
    pub place: Vec<Place>,
}

/// One row of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Relative to the home.
    pub paths: Vec<String>,
    /// What is kept there.
    pub reason: String,
    /// Whether programs are installed below such a place as well.
    #[serde(default)]
    pub programs: bool,
}

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("credentials")).expect("credentials.toml parses"));

/// What has to be covered in any of `shown` (resolved directories of the host): the places of credentials that lie in one,
/// and what they lead to, as far as they exist.
pub(super) fn covers(host: &Host, shown: &[&Path]) -> Vec<Cover> {
    let home = &host.user.home_real;
    let mut covers = Vec::new();
    for row in &TABLE.place {
        for path in &row.paths {
            let place = home.join(path);
            if place.symlink_metadata().is_err() {
                continue;
            }
            let within = |path: &Path| shown.iter().any(|tree| path.starts_with(tree));
            let cover = |path| Cover { path, kind: CoverKind::Credential, reason: row.reason.clone() };
            // A symlink on the way or at the end: what it leads to may be shown under its own name, also where the symlink
            // is not shown itself, as with a directory of dotfiles.
            if let Some(real) = host.real(&place)
                && real != place
                && !home.starts_with(&real)
                && (within(&place) || within(&real))
            {
                covers.push(cover(real));
            }
            if within(&place) {
                covers.push(cover(place));
            }
        }
    }
    covers
}

/// The place of credentials that `dir`, a resolved directory, is or lies in, by its own name or by what it leads to. Where
/// programs are installed as well, only the place itself is one.
pub(super) fn place_of<'a>(host: &Host, dir: &Path) -> Option<&'a Place> {
    let home = &host.user.home_real;
    TABLE.place.iter().find(|row| {
        let holds = |place: &Path| dir == place || (!row.programs && dir.starts_with(place));
        row.paths.iter().map(|path| home.join(path)).any(|place| {
            // One that leads to the home itself, or above, makes no place of all that is there.
            holds(&place) || host.real(&place).is_some_and(|real| !home.starts_with(&real) && holds(&real))
        })
    })
}

/// ai-jail's own directories, existing or not, free of symlinks: what the launcher's environment names, and where they are
/// without it, since the next launch may not have the same environment.
pub(super) fn own(host: &Host) -> Vec<PathBuf> {
    let mut own = Vec::new();
    for (name, fallback) in [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
    ] {
        for base in [host.xdg(name, fallback), host.user.home_real.join(fallback)] {
            let place = resolved(host, &base.join("ai-jail"));
            if !own.contains(&place) {
                own.push(place);
            }
        }
    }
    own
}

/// A path with the symlinks of its existing part resolved.
fn resolved(host: &Host, path: &Path) -> PathBuf {
    for existing in path.ancestors() {
        if let (Some(real), Ok(rest)) = (host.real(existing), path.strip_prefix(existing)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_path_buf()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::host::tests::machine;

    #[test]
    fn every_credential_place_is_a_plain_path_with_a_reason() {
        for row in &TABLE.place {
            assert!(row.reason.len() > 8, "{row:?}");
            for path in &row.paths {
                assert!(
                    Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_))),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn what_exists_in_a_shown_tree_is_covered_with_what_it_leads_to() {
        let (_dir, host) = machine();
        let home = host.user.home.clone();
        for dir in [".ssh", "real-aws", ".config/gh", "dotfiles/kube"] {
            fs::create_dir_all(home.join(dir)).unwrap();
        }
        symlink("dotfiles/kube", home.join(".kube")).unwrap();
        symlink("real-aws", home.join(".aws")).unwrap();
        let covered = |shown: &Path| {
            let mut paths: Vec<_> = covers(&host, &[shown]).into_iter().map(|cover| cover.path).collect();
            paths.sort();
            paths
        };
        let want =
            [".aws", ".config/gh", ".kube", ".ssh", "dotfiles/kube", "real-aws"].map(|path| home.join(path));
        assert_eq!(covered(&home), want);
        assert_eq!(covered(&home.join("dotfiles")), [home.join("dotfiles/kube")]);
        assert_eq!(covered(&home.join(".config")), [home.join(".config/gh")]);
        assert_eq!(covered(&home.join("src")), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_directory_in_a_place_of_credentials_is_recognised_by_both_its_names() {
        let (_dir, host) = machine();
        let home = host.user.home.clone();
        for dir in [".ssh/keys", "real-aws", "src", "dotfiles/kube"] {
            fs::create_dir_all(home.join(dir)).unwrap();
        }
        symlink("real-aws", home.join(".aws")).unwrap();
        symlink("dotfiles/kube", home.join(".kube")).unwrap();
        symlink(".", home.join(".gnupg")).unwrap();
        for (dir, expected) in [
            (".ssh", true),
            (".ssh/keys", true),
            ("real-aws", true),
            ("dotfiles/kube", true),
            ("dotfiles", false),
            ("src", false),
            ("", false),
        ] {
            assert_eq!(place_of(&host, &home.join(dir)).is_some(), expected, "{dir}");
        }
    }

    #[test]
    fn our_own_directories_are_known_by_their_real_paths() {
        let (_dir, mut host) = machine();
        let home = host.user.home.clone();
        fs::create_dir_all(home.join("real")).unwrap();
        symlink("real", home.join(".config")).unwrap();
        host.environment.vars.insert("XDG_STATE_HOME".into(), home.join("s").into());
        let want = ["real/ai-jail", ".local/share/ai-jail", "s/ai-jail", ".local/state/ai-jail"]
            .map(|path| home.join(path));
        assert_eq!(own(&host), want);
    }
}

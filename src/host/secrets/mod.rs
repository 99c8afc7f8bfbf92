//! The files of a project that hold secrets (FS-10): what the table names, what their contents say, and whether git tracks
//! them (FS-16).

pub mod content;
pub mod table;
pub mod tracked;

use std::path::PathBuf;

pub use self::table::{CATALOGUE, Catalogue, Row, TABLE, Table};
pub use self::tracked::Tracked;

use self::tracked::tracked;
use super::Host;
use super::project::Project;
use crate::guard::masked::{self, Masked};

/// A file that holds secrets, as a walk finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Below the root of the tree.
    pub below: PathBuf,
    /// What is in it.
    pub reason: &'static str,
}

/// The same with what git and earlier sessions know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// On the host.
    pub path: PathBuf,
    /// Below the project.
    pub below: PathBuf,
    /// What is in it.
    pub reason: &'static str,
    /// What git knows.
    pub tracked: Tracked,
    /// Whether an earlier session masked it.
    pub masked_before: bool,
}

/// Looks up what git and earlier sessions know of the project's secrets.
pub(super) fn known(
    host: &Host,
    project: &Project,
    secrets: Vec<Secret>,
    warnings: &mut Vec<String>,
) -> Vec<SecretFile> {
    if secrets.is_empty() {
        return Vec::new();
    }
    let paths: Vec<PathBuf> = secrets.iter().map(|secret| secret.below.clone()).collect();
    let tracked = tracked(&project.root, project.git.as_ref(), &paths, warnings);
    // Only what git has with other contents is doubtful.
    let before = if tracked.contains(&Tracked::Other) {
        masked::read(&host.xdg("XDG_STATE_HOME", ".local/state").join("ai-jail"), &project.root)
    } else {
        Ok(Vec::new())
    };
    if let Err(error) = &before {
        warnings.push(format!(
            "{error}; until then every secrets file that git has with other contents is masked"
        ));
    }
    let files = secrets.into_iter().zip(tracked).map(|(secret, tracked)| {
        let path = project.root.join(&secret.below);
        let masked_before = match &before {
            Ok(before) => Masked::at(&path).is_some_and(|now| before.iter().any(|old| old.is(&now))),
            // What cannot be known is taken for masked.
            Err(_) => true,
        };
        SecretFile { path, below: secret.below, reason: secret.reason, tracked, masked_before }
    });
    files.collect()
}

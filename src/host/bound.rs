//! The files that the user names as secrets, or for their values: where they are, and that they are covered like what is
//! denied and masked.

use crate::config::secrets::FileEntry;
use crate::config::settings::{NetworkMode, Settings};
use crate::error::{Error, Kind, Result};
use crate::policy::SecretPlace;
use crate::policy::bindings::SecretMode;
use crate::policy::glob::Glob;
use crate::policy::origin::Sourced;
use crate::sanitize::escape;

/// What is denied and what is masked, these files among it.
pub(super) struct Globs {
    pub(super) deny: Vec<Sourced<Glob>>,
    pub(super) mask: Vec<Sourced<Glob>>,
}

/// The globs of the settings, and one for each of the files: on top of a masked one its copy is shown.
///
/// # Errors
/// When a path is none that can be covered.
pub(super) fn globs(settings: &Settings) -> Result<Globs> {
    let mut globs = Globs { deny: settings.deny_files.clone(), mask: settings.mask_files.clone() };
    for (path, entry) in &settings.secret_files {
        let Some(glob) = Glob::of_path(path) else {
            return Err(Error::new(Kind::Config, format!("{} cannot be a file with secrets", escape(path)))
                .because("it is no plain absolute path")
                .hint("write the path without .."));
        };
        let glob = Sourced::new(glob, entry.origin.clone());
        if is_denied(settings, entry) { globs.deny.push(glob) } else { globs.mask.push(glob) }
    }
    // Files that give values hold the real ones.
    for file in &settings.env_files {
        // It is no symlink itself: what is one was refused when it was read.
        let parent = file.value.parent().and_then(|parent| parent.canonicalize().ok());
        let place = parent.zip(file.value.file_name()).map(|(parent, name)| parent.join(name));
        let Some(glob) = place.as_deref().and_then(Glob::of_path) else {
            return Err(Error::new(
                Kind::Config,
                format!("{} cannot be a file of --env-file", escape(&file.value)),
            )
            .because("it has no place where it could be kept from the jail")
            .hint("name a file that is there, in fewer directories"));
        };
        globs.mask.push(Sourced::new(glob, file.origin.clone()));
    }
    Ok(globs)
}

/// Where the files are. One that is missing is refused when it is read.
pub(super) fn places(settings: &Settings) -> Vec<SecretPlace> {
    let places = settings.secret_files.keys().filter_map(|named| {
        let real = named.canonicalize().ok()?;
        let parent = named.parent()?.canonicalize().ok()?;
        Some(SecretPlace { place: parent.join(named.file_name()?), named: named.clone(), real })
    });
    places.collect()
}

/// With an open network nobody can put the real value in.
fn is_denied(settings: &Settings, entry: &FileEntry) -> bool {
    entry.mode == Some(SecretMode::Deny) || settings.network.value == NetworkMode::Open
}

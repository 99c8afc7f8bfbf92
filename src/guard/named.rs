//! What the last session of a project denied or masked by its name, and found (FS-7).
//!
//! When such a path is missing at the next launch, something may have moved it where the name no longer covers it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Kind, Result};
use crate::policy::Asked;
use crate::sanitize::escape;

/// No memory of a project is longer (bytes).
const LIMIT: u64 = 8 << 20;

/// The entries of one project that were found in its last session.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Remembered {
    #[serde(with = "crate::plan::raw::list")]
    entries: Vec<PathBuf>,
}

/// The memory of one project.
#[derive(Debug)]
pub struct Named {
    file: PathBuf,
    project: PathBuf,
}

impl Named {
    /// That of `project`; `state` is ai-jail's own state directory.
    pub fn of(state: &Path, project: &Path) -> Self {
        let name: String = Sha256::digest(project.as_os_str().as_bytes())
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self { file: state.join("named").join(format!("{name}.json")), project: project.to_path_buf() }
    }

    /// Whether everything that was found in the last session is there.
    ///
    /// # Errors
    /// The first that is missing, or that the memory cannot be read.
    pub fn check(&self, asked: &[Asked]) -> Result<()> {
        let literals = || asked.iter().filter(|asked| asked.literal.is_some());
        if literals().all(|asked| asked.is_found) {
            return Ok(());
        }
        let known: BTreeSet<OsString> =
            self.read()?.entries.into_iter().map(PathBuf::into_os_string).collect();
        let Some(missing) = literals().find(|asked| !asked.is_found && known.contains(&asked.text)) else {
            return Ok(());
        };
        let path = missing.literal.as_deref().unwrap_or(Path::new(""));
        Err(Error::new(Kind::Refused, format!("{} is missing", escape(path)))
            .because(format!(
                "it is {}, was there in the last session in {}, and may now have a name that is not covered",
                missing.reason(),
                escape(&self.project)
            ))
            .hint("put it back, or take the entry out"))
    }

    /// Remembers what was found, for the next launch.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn remember(&self, asked: &[Asked]) -> std::io::Result<()> {
        let found = asked.iter().filter(|asked| asked.literal.is_some() && asked.is_found);
        let entries: Vec<PathBuf> = found.map(|asked| PathBuf::from(&asked.text)).collect();
        if entries.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let json = serde_json::to_vec(&Remembered { entries }).map_err(std::io::Error::other)?;
        if let Some(directory) = self.file.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        // Nobody reads half of it, and two sessions do not mix theirs.
        let new = self.file.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&new);
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&json)?;
        fs::rename(&new, &self.file)
    }

    fn read(&self) -> Result<Remembered> {
        let failed = |why: String| {
            Error::new(Kind::Setup, format!("{} cannot be read", escape(&self.file)))
                .because(why)
                .hint("it says what was denied by its name in the last session; remove it to begin anew")
        };
        let bytes = match fs::read(&self.file) {
            Ok(bytes) if bytes.len() as u64 > LIMIT => return Err(failed("it is too long".to_owned())),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Remembered::default()),
            Err(error) => return Err(failed(error.to_string())),
        };
        serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::plan::operation::Veil;
    use crate::policy::glob::Glob;
    use crate::policy::origin::Origin;

    fn asked(text: &OsStr, is_found: bool) -> Asked {
        let glob = Glob::parse(text, Path::new("/h")).unwrap();
        Asked {
            matches: glob.below(Path::new("/p"), 0),
            literal: glob.literal().map(|path| Path::new("/p").join(path)),
            text: text.to_owned(),
            veil: Veil::Closed,
            origin: Origin::flag("--deny"),
            is_found,
        }
    }

    #[test]
    fn what_was_found_once_and_is_missing_is_refused_until_it_is_no_longer_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let named = Named::of(dir.path(), Path::new("/p"));
        let odd = OsStr::from_bytes(b"a\xff\nb");
        let all = |found| vec![asked(OsStr::new("x"), found), asked(OsStr::new("**/y"), found)];
        named.check(&all(false)).unwrap();
        named.remember(&all(true)).unwrap();
        let error = named.check(&all(false)).unwrap_err().to_string();
        assert!(error.contains("/p/x is missing") && error.contains("put it back"), "{error}");
        named.check(&all(true)).unwrap();
        Named::of(dir.path(), Path::new("/q")).check(&all(false)).unwrap();
        named.remember(&[asked(odd, true)]).unwrap();
        named.check(&all(false)).unwrap();
        named.remember(&[]).unwrap();
        named.check(&[asked(odd, false)]).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("named")).unwrap().count(), 0);
    }

    #[test]
    fn a_memory_that_cannot_be_read_refuses() {
        let dir = tempfile::tempdir().unwrap();
        let named = Named::of(dir.path(), Path::new("/p"));
        fs::create_dir(dir.path().join("named")).unwrap();
        fs::write(&named.file, "{").unwrap();
        assert!(named.check(&[asked(OsStr::new("x"), false)]).is_err());
        assert!(named.check(&[asked(OsStr::new("x"), true)]).is_ok());
    }
}

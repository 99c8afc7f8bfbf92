//! Reading the configuration files: the one part of this room that touches the file system.

use std::fs::{self, File as OpenFile};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::command_line::EnvScalars;
use super::merge::choose_profile;
use super::schema::{self, File};
use super::settings::Profile;
use super::values::Base;
use crate::cli::RunOptions;
use crate::error::{Error, Kind, Result};
use crate::policy::origin::Layer;
use crate::sanitize::escape;

/// The largest configuration file that is read, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// Where the files are.
#[derive(Debug, Clone, Copy)]
pub struct Paths<'a> {
    /// The user's file; it need not exist. `None` when there is no such place.
    pub user: Option<&'a Path>,
    /// The directory of the project, where `.ai-jail.toml` or `.ai-jail/config.toml` may lie.
    pub project: Option<&'a Path>,
    /// The managed file.
    pub managed: &'a Path,
    /// What `~` means.
    pub home: &'a Path,
}

/// The files that exist.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The user's.
    pub user: Option<File>,
    /// The project's; never read in lockdown.
    pub project: Option<File>,
}

/// Reads the files. The project's is not read when the command line, the environment or the user's file chose the
/// profile `lockdown`.
///
/// Fails when a managed file exists (this version cannot enforce one), when a file cannot be read, is larger than
/// [`MAX_BYTES`] or not UTF-8, when the project's is no regular file or reached through a symbolic link, when the
/// project has both of its files, and when a file does not parse.
pub fn load(paths: &Paths<'_>, options: &RunOptions, env: &EnvScalars) -> Result<Files> {
    refuse_managed(paths.managed)?;
    let user = match paths.user {
        Some(path) => user_file(path, paths.home)?,
        None => None,
    };
    let chosen = choose_profile(options, env, user.as_ref());
    let project = match paths.project {
        Some(directory) if chosen.value != Profile::Lockdown => project_file(directory, paths.home)?,
        _ => None,
    };
    Ok(Files { user, project })
}

fn refuse_managed(path: &Path) -> Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    };
    let error = Error::new(Kind::Config, format!("the managed file {} cannot be honoured", escape(path)));
    Err(match found {
        Ok(()) => error
            .because("managed policy is not supported by this version, and ignoring the file would silently not hold")
            .hint("ask whoever manages this machine for a version that supports it"),
        Err(reason) => error.because(reason),
    })
}

fn user_file(path: &Path, home: &Path) -> Result<Option<File>> {
    // A user may keep the file behind a symbolic link of their own.
    match openat(CWD, path, READ, Mode::empty()) {
        Ok(fd) => {
            let text = text_of(fd.into(), path)?;
            schema::parse(&text, path, Layer::User, Base { relative: None, home }).map(Some)
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(unreadable(path).because(errno)),
    }
}

fn project_file(directory: &Path, home: &Path) -> Result<Option<File>> {
    let anchor = openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| unreadable(directory).because(errno))?;
    let mut found = None;
    for name in PROJECT_FILES {
        let path = directory.join(name);
        if let Some(open) = open_beneath(anchor.as_fd(), name, &path)? {
            if let Some((first, _)) = &found {
                return Err(Error::new(Kind::Config, format!("{} is one file too many", escape(&path)))
                    .because(format!("there is {} as well", escape(first)))
                    .hint("keep one of them"));
            }
            found = Some((path, open));
        }
    }
    let Some((path, open)) = found else { return Ok(None) };
    let text = text_of(open, &path)?;
    schema::parse(&text, &path, Layer::Project, Base { relative: Some(directory), home }).map(Some)
}

fn open_beneath(anchor: impl AsFd, name: &str, path: &Path) -> Result<Option<OpenFile>> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(anchor, name, READ, Mode::empty(), resolve) {
        Ok(fd) => Ok(Some(fd.into())),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::LOOP | Errno::XDEV) => Err(unreadable(path)
            .because("a project's configuration may not be reached through a symbolic link")
            .hint("make it a file of its own, or use --lockdown, which does not read it")),
        Err(errno) => Err(unreadable(path).because(errno)),
    }
}

fn text_of(open: OpenFile, path: &Path) -> Result<String> {
    let metadata = open.metadata().map_err(|error| unreadable(path).because(error))?;
    if !metadata.is_file() {
        return Err(unreadable(path).because("it is no regular file"));
    }
    let mut bytes = Vec::new();
    open.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path).because(error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(path).because("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| unreadable(path).because("it is not UTF-8"))
}

fn unreadable(path: &Path) -> Error {
    Error::new(Kind::Config, format!("cannot read {}", escape(path)))
}

/// Opening a FIFO must not wait, nor a terminal become ours.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

const PROJECT_FILES: [&str; 2] = [".ai-jail.toml", ".ai-jail/config.toml"];

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Tree {
        root: tempfile::TempDir,
    }

    impl Tree {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join("project/.ai-jail")).unwrap();
            Self { root }
        }

        fn write(&self, name: &str, text: impl AsRef<[u8]>) {
            fs::write(self.root.path().join(name), text).unwrap();
        }

        fn load_with(&self, options: &RunOptions) -> Result<Files> {
            let at = |name: &str| self.root.path().join(name);
            let paths = Paths {
                user: Some(&at("user.toml")),
                project: Some(&at("project")),
                managed: &at("managed.toml"),
                home: Path::new("/home/me"),
            };
            load(&paths, options, &EnvScalars::default())
        }

        fn load(&self) -> Result<Files> {
            self.load_with(&RunOptions::default())
        }

        fn reason(&self) -> String {
            let text = self.load().unwrap_err().to_string();
            text.replace(&self.root.path().display().to_string(), "ROOT")
        }
    }

    #[test]
    fn no_file_at_all_is_fine() {
        let files = Tree::new().load().unwrap();
        assert!(files.user.is_none() && files.project.is_none());
    }

    #[test]
    fn both_files_are_read_and_values_remember_their_lines() {
        let tree = Tree::new();
        tree.write("user.toml", "\n\nprofile = \"read-only\"\n");
        tree.write("project/.ai-jail/config.toml", "[network]\nmode = \"off\"\n");
        let files = tree.load().unwrap();
        let profile = files.user.unwrap().profile.unwrap();
        assert_eq!(profile.origin.place, Some((tree.root.path().join("user.toml"), 3)));
        let network = files.project.unwrap().tables.network.unwrap();
        assert_eq!(network.origin.layer, Layer::Project);
        assert_eq!(network.origin.place.unwrap().1, 2);
    }

    #[test]
    fn lockdown_does_not_read_the_project_file() {
        let tree = Tree::new();
        tree.write("project/.ai-jail.toml", "this is not toml");
        assert!(tree.load().is_err());
        let options = RunOptions { lockdown: true, ..RunOptions::default() };
        assert!(tree.load_with(&options).unwrap().project.is_none());
        tree.write("user.toml", "profile = \"lockdown\"");
        assert!(tree.load().unwrap().project.is_none());
    }

    #[test]
    fn a_project_file_that_is_a_link_out_is_refused() {
        let tree = Tree::new();
        tree.write("secret", "profile = \"strict\"");
        symlink("../secret", tree.root.path().join("project/.ai-jail.toml")).unwrap();
        assert_eq!(
            tree.reason(),
            "cannot read ROOT/project/.ai-jail.toml; a project's configuration may not be reached through a symbolic \
             link; make it a file of its own, or use --lockdown, which does not read it"
        );
        fs::remove_file(tree.root.path().join("project/.ai-jail.toml")).unwrap();
        fs::remove_dir(tree.root.path().join("project/.ai-jail")).unwrap();
        fs::create_dir(tree.root.path().join("elsewhere")).unwrap();
        tree.write("elsewhere/config.toml", "");
        symlink("../elsewhere", tree.root.path().join("project/.ai-jail")).unwrap();
        assert!(tree.reason().contains("symbolic link"));
    }

    #[test]
    fn a_project_file_that_is_a_fifo_or_a_directory_is_refused_at_once() {
        let tree = Tree::new();
        let path = tree.root.path().join("project/.ai-jail.toml");
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(tree.reason(), "cannot read ROOT/project/.ai-jail.toml; it is no regular file");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(tree.reason(), "cannot read ROOT/project/.ai-jail.toml; it is no regular file");
    }

    #[test]
    fn size_encoding_and_number_of_files_are_bounded() {
        let tree = Tree::new();
        tree.write("user.toml", vec![b'#'; MAX_BYTES as usize + 1]);
        assert_eq!(tree.reason(), "cannot read ROOT/user.toml; it is larger than 1 MiB");
        tree.write("user.toml", b"# \xff");
        assert_eq!(tree.reason(), "cannot read ROOT/user.toml; it is not UTF-8");
        tree.write("user.toml", "");
        tree.write("project/.ai-jail.toml", "");
        tree.write("project/.ai-jail/config.toml", "");
        assert_eq!(
            tree.reason(),
            "ROOT/project/.ai-jail/config.toml is one file too many; there is ROOT/project/.ai-jail.toml as well; \
             keep one of them"
        );
    }

    #[test]
    fn a_managed_file_is_never_ignored() {
        let tree = Tree::new();
        tree.write("managed.toml", "");
        assert_eq!(
            tree.reason(),
            "the managed file ROOT/managed.toml cannot be honoured; managed policy is not supported by this version, \
             and ignoring the file would silently not hold; ask whoever manages this machine for a version that \
             supports it"
        );
        fs::remove_file(tree.root.path().join("managed.toml")).unwrap();
        symlink("nowhere", tree.root.path().join("managed.toml")).unwrap();
        assert!(tree.load().is_err());
    }
}

//! An agent's state in the user's real home: what the jail is given of it with `--state shared`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};

use super::Host;
use super::agents::{Agent, AgentState, StateKind};
use super::sources::Sources;
use crate::config::settings::{Profile, Settings, StateMode};
use crate::error::{Error, Kind, Result};
use crate::plan::operation::Access;
use crate::policy::files::Shape;
use crate::policy::origin::Layer;
use crate::sanitize::escape;

/// No file of which the jail gets a copy is longer (bytes).
const MAX_COPY: u64 = 16 << 20;

/// What there is of an agent's state in the real home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostState {
    /// Directories and files that the jail gets as they are.
    pub shown: Vec<Shown>,
    /// Files that it gets a copy of.
    pub copies: Vec<Copied>,
    /// Directories in what is shown, below the home, for which each project has its own.
    pub own: Vec<PathBuf>,
}

/// One directory or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Below the home.
    pub path: PathBuf,
    /// On the host, free of symlinks.
    pub source: PathBuf,
    /// What it is.
    pub shape: Shape,
    /// Read-only when it is executable as a whole.
    pub access: Access,
    /// Its executable parts, whether they exist or not.
    pub parts: Vec<String>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Below the home.
    pub path: PathBuf,
    /// Its bytes as they are now.
    pub content: Vec<u8>,
}

impl HostState {
    /// Reads it, and holds in `sources` what will be mounted. Empty unless `settings` want it.
    ///
    /// # Errors
    /// When a part of it is a symlink or reached through one, is of another kind than it should be, or cannot be looked at.
    pub fn read(
        host: &Host,
        settings: &Settings,
        project: &Path,
        agent: Option<&Agent>,
        sources: &mut Sources,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let mut found = Self::default();
        let Some(agent) = agent.filter(|_| settings.state.value == StateMode::Shared) else {
            return Ok(found);
        };
        if settings.profile.value == Profile::Devbox {
            return Ok(found);
        }
        let home = &host.user.home_real;
        if home.starts_with(project) {
            warnings.push(format!(
                "the project holds your home, so {}'s state is hidden there and not shared ({})",
                agent.title, settings.state.origin
            ));
            return Ok(found);
        }
        for state in &agent.state {
            found.add(home, state, sources)?;
        }
        for shown in &found.shown {
            sources.hold(&shown.source)?;
        }
        let line = if found.shown.is_empty() {
            format!(
                "{} has no state in your home that could be shared ({}): what it makes is kept in the private home",
                agent.title, settings.state.origin
            )
        } else {
            found.meaning(agent, settings)
        };
        warnings.push(line);
        Ok(found)
    }

    fn add(&mut self, home: &Path, state: &AgentState, sources: &mut Sources) -> Result<()> {
        let path = Path::new(&state.path);
        let Some(kind) = plain(home, path)? else { return Ok(()) };
        let (wanted, shape) = match state.kind {
            StateKind::Dir => (FileType::Directory, Shape::Directory),
            StateKind::File => (FileType::RegularFile, Shape::File),
        };
        if kind != wanted {
            let what = if shape == Shape::Directory { "a directory" } else { "a regular file" };
            return Err(refused(&home.join(path), &format!("it is not {what}")));
        }
        if shape == Shape::File && state.is_executable() {
            return self.copy(home, path);
        }
        let access = if state.is_executable() { Access::ReadOnly } else { Access::Writable };
        let parts = if state.is_executable() { Vec::new() } else { state.exec.clone() };
        let source = home.join(path);
        sources.hold(&source)?;
        self.shown.push(Shown { path: path.to_path_buf(), source, shape, access, parts });
        for part in &state.mixed {
            let below = path.join(part);
            match plain(home, &below)? {
                Some(FileType::RegularFile) => self.copy(home, &below)?,
                Some(_) => return Err(refused(&home.join(below), "it is not a regular file")),
                None => {}
            }
        }
        for part in &state.transient {
            let below = path.join(part);
            if plain(home, &below)? == Some(FileType::Directory) {
                self.own.push(below);
            }
        }
        Ok(())
    }

    fn copy(&mut self, home: &Path, path: &Path) -> Result<()> {
        let place = home.join(path);
        let fail = |why: String| refused(&place, &why);
        let file = openat2(
            rustix::fs::CWD,
            &place,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
        .map_err(|error| fail(said(error)))?;
        let mut content = Vec::new();
        let read = File::from(file).take(MAX_COPY + 1).read_to_end(&mut content);
        read.map_err(|error| fail(error.kind().to_string()))?;
        if content.len() as u64 > MAX_COPY {
            return Err(fail(format!("it is larger than {} MiB, of which no copy is made", MAX_COPY >> 20)));
        }
        self.copies.push(Copied { path: path.to_path_buf(), content });
        Ok(())
    }

    /// The line that says what sharing means.
    fn meaning(&self, agent: &Agent, settings: &Settings) -> String {
        let list = |paths: Vec<&Path>| {
            let shown: Vec<String> =
                paths.into_iter().map(|path| format!("~/{}", escape(path.as_os_str()))).collect();
            shown.join(", ")
        };
        let writable = self.shown.iter().filter(|shown| shown.access == Access::Writable);
        let whole = self.shown.iter().filter(|shown| shown.access == Access::ReadOnly);
        let mut line = format!(
            "{} works on your own state ({}): it reads and changes the login and every session in {}",
            agent.title,
            settings.state.origin,
            list(writable.map(|shown| shown.path.as_path()).collect())
        );
        line.push_str("; what of it is run (settings, hooks, commands and the like) is read-only");
        let whole = list(whole.map(|shown| shown.path.as_path()).collect());
        if !whole.is_empty() {
            line.push_str(&format!(", {whole} as a whole"));
        }
        let copies = list(self.copies.iter().map(|copy| copy.path.as_path()).collect());
        if !copies.is_empty() {
            line.push_str(&format!("; {copies} inside is a copy, whose changes are not kept"));
        }
        line
    }
}

/// One line for the first run of an agent that is logged in outside, when nobody said where its state is to be.
pub(super) fn login_hint(host: &Host, settings: &Settings, agent: &Agent) -> Option<String> {
    let unasked = settings.state.value == StateMode::Jail && settings.state.origin.layer == Layer::BuiltIn;
    if !unasked || settings.profile.value == Profile::Devbox {
        return None;
    }
    let store = host.xdg("XDG_DATA_HOME", ".local/share").join("ai-jail/state").join(&agent.name.0);
    if store.symlink_metadata().is_ok() {
        return None;
    }
    let logins = agent
        .state
        .iter()
        .flat_map(|state| state.secrets.iter().map(move |secret| Path::new(&state.path).join(secret)));
    // What the jail has a fake of, or what is kept out of it, was thought of.
    let is_named = |login: &Path| {
        let places = [&host.user.home, &host.user.home_real].map(|home| home.join(login));
        places.iter().any(|place| settings.secret_files.contains_key(place))
    };
    let login = logins
        .into_iter()
        .find(|login| host.user.home_real.join(login).is_file())
        .filter(|login| !is_named(login))?;
    Some(format!(
        "{} is logged in outside (~/{}), and not in the jail: log in once inside, which holds for all projects, or \
         give the jail your own state with --state shared; a file with a key that lasts can be a fake inside, by \
         [[agents.{}.secrets.files]]",
        agent.title,
        escape(login.as_os_str()),
        agent.name.0
    ))
}

/// What `path` below the home is; `None` when there is nothing.
///
/// # Errors
/// When it is, or is reached through, a symlink, or cannot be looked at.
fn plain(home: &Path, path: &Path) -> Result<Option<FileType>> {
    let mut place = home.to_path_buf();
    let mut kind = FileType::Directory;
    for part in path.iter() {
        place.push(part);
        kind = match rustix::fs::lstat(&place) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(refused(&home.join(path), &said(error))),
        };
        if kind == FileType::Symlink {
            let why = if place == home.join(path) {
                "it is a symlink".to_owned()
            } else {
                format!("it is reached through the symlink {}", escape(place.as_os_str()))
            };
            return Err(refused(&home.join(path), &why));
        }
    }
    Ok(Some(kind))
}

/// An error number in words.
fn said(error: rustix::io::Errno) -> String {
    match error {
        rustix::io::Errno::ACCESS => "you may not look into it (`chmod u+rwx` changes that)".to_owned(),
        other => std::io::Error::from(other).kind().to_string(),
    }
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new(Kind::Refused, format!("{} cannot be shared with the jail", escape(path.as_os_str())))
        .because(why)
        .hint(
            "leave out --state shared (the jail then keeps a state of its own), or put the real thing there",
        )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::host::tests::machine;

    const AGENT: &str = r#"
name = "x"
title = "X"
commands = ["x"]
sandboxed = {}
[[state]]
path = ".x"
kind = "dir"
exec = ["set.toml", "hooks", "snap"]
mixed = ["set.toml"]
transient = ["snap"]
[[state]]
path = ".config/x"
kind = "dir"
exec = ["."]
[[state]]
path = ".x.json"
kind = "file"
exec = ["."]
"#;

    fn added(host: &Host) -> Result<HostState> {
        let agent = super::super::agents::parse(AGENT).unwrap();
        let mut found = HostState::default();
        let mut sources = Sources::default();
        for state in &agent.state {
            found.add(&host.user.home_real, state, &mut sources)?;
        }
        Ok(found)
    }

    #[test]
    fn what_is_there_is_shown_copied_or_made_anew() {
        let (_dir, host) = machine();
        let home = host.user.home.clone();
        assert_eq!(added(&host).unwrap(), HostState::default());
        fs::create_dir_all(home.join(".x/snap")).unwrap();
        fs::create_dir_all(home.join(".config/x")).unwrap();
        fs::write(home.join(".x/set.toml"), "a = 1").unwrap();
        fs::write(home.join(".x.json"), "{}").unwrap();
        let found = added(&host).unwrap();
        let shown: Vec<_> =
            found.shown.iter().map(|shown| (shown.path.to_str().unwrap(), shown.access)).collect();
        assert_eq!(shown, [(".x", Access::Writable), (".config/x", Access::ReadOnly)]);
        assert_eq!(found.shown[0].parts, ["set.toml", "hooks", "snap"]);
        let copies: Vec<_> = found.copies.iter().map(|copy| copy.path.to_str().unwrap()).collect();
        assert_eq!(copies, [".x/set.toml", ".x.json"]);
        assert_eq!(found.own, [Path::new(".x/snap")]);
    }

    #[test]
    fn a_symlink_in_any_place_and_a_thing_of_another_kind_are_refused() {
        for (link, target) in [
            (".x", "elsewhere"),
            (".x", "nowhere"),
            (".config", "elsewhere"),
            (".x.json", "elsewhere/file"),
            (".x/set.toml", "../elsewhere/file"),
            (".x/snap", "../elsewhere"),
        ] {
            let (_dir, host) = machine();
            let home = host.user.home.clone();
            fs::create_dir_all(home.join("elsewhere/x")).unwrap();
            fs::write(home.join("elsewhere/file"), "{}").unwrap();
            if link.starts_with(".x/") {
                fs::create_dir(home.join(".x")).unwrap();
            }
            assert!(added(&host).is_ok(), "control");
            symlink(target, home.join(link)).unwrap();
            let error = added(&host).expect_err(link);
            assert_eq!(error.kind(), Kind::Refused);
            assert!(error.to_string().contains("symlink"), "{error}");
        }
        for (file, directory) in [(".x", ""), ("", ".x.json")] {
            let (_dir, host) = machine();
            if !file.is_empty() {
                fs::write(host.user.home.join(file), "").unwrap();
            }
            fs::create_dir_all(host.user.home.join(directory)).unwrap();
            assert!(added(&host).is_err(), "{file}{directory}");
        }
    }

    #[test]
    fn no_copy_is_made_of_what_is_too_large() {
        let (_dir, host) = machine();
        let file = File::create(host.user.home.join(".x.json")).unwrap();
        file.set_len(MAX_COPY).unwrap();
        assert!(added(&host).is_ok());
        file.set_len(MAX_COPY + 1).unwrap();
        assert!(added(&host).unwrap_err().to_string().contains("16 MiB"));
    }
}

//! The command: found as the shell would find it, and what it needs to start.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::agents::{self, Agent};
use super::needs::{Needs, Reach};
use super::system::SystemMount;
use super::{Host, links};
use crate::error::{Error, Kind, Result};

/// The command that is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The path by which it is started inside, as it was found: absolute, its own last component not resolved.
    pub program: PathBuf,
    /// Every symlink on the way, in order, and at last the file itself.
    pub chain: Vec<PathBuf>,
    /// The agent that it is, by the user's presets or the compiled-in ones. Never one for a path, nor for a file of the
    /// project.
    pub agent: Option<Agent>,
    /// What must be there for it to start and is neither of the system nor of the project: binds of files and
    /// directories, and symlinks, parents first. Never the home as a whole, nor a place of credentials.
    pub needs: Vec<SystemMount>,
    /// How much may be shown around it: whether it was found by its name or given by its path.
    pub reach: Reach,
}

impl Command {
    /// Finds `command`. A name without a slash is looked for on the launcher's `PATH`, without the entries that are empty,
    /// relative or inside the project; anything else is a path, relative to the current directory.
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::NotExecutable`], or [`Kind::Refused`] for programs that cannot run in a jail (snaps)
    /// or lie in a place of credentials; [`Kind::Config`] for a preset of the user's that is none.
    pub fn find(host: &Host, project: &Path, command: &OsStr) -> Result<Self> {
        let by_name = !command.as_bytes().contains(&b'/');
        let program = if by_name { on_path(host, project, command)? } else { by_path(host, command)? };
        let route = links::follow(&program).map_err(|errno| {
            Error::new(Kind::NotFound, format!("cannot find {}", shown(command))).because(errno)
        })?;
        let mut chain: Vec<PathBuf> = route.links.into_iter().map(|link| link.path).collect();
        chain.push(route.end);
        if chain.iter().chain([&program]).any(|path| of_snap(host, path)) {
            return Err(Error::new(Kind::Refused, format!("{} is a snap", shown(command)))
                .because(
                    "a snap is started by a setuid program, which no jail without new privileges can run",
                )
                .hint("install it from its maker or from the distribution instead"));
        }
        let inside = chain.iter().any(|path| path.starts_with(project));
        let agent = match command.to_str().filter(|_| by_name && !inside) {
            Some(name) => agents::find(host, name)?,
            None => None,
        };
        let reach = if by_name { Reach::Directory } else { Reach::File };
        let needs = Needs::of(host, project, &[], &program, reach)?;
        Ok(Self { program, chain, agent, needs, reach })
    }

    /// What it needs where a jail writes `trees` beside the project: a file there chooses as little as one of the project.
    ///
    /// # Errors
    /// As [`Command::find`].
    pub fn needs_beside(&self, host: &Host, project: &Path, trees: &[&Path]) -> Result<Vec<SystemMount>> {
        Needs::of(host, project, trees, &self.program, self.reach)
    }
}

/// `PATH` for the jail: of the launcher's entries those that are directories, lie outside `project`, and are visible
/// inside, which means below one of `visible` (paths in the jail that show the same as on the host), with every symlink on
/// their way.
pub fn path_inside(host: &Host, project: &Path, visible: &[PathBuf]) -> Vec<PathBuf> {
    let shows = |path: &Path| visible.iter().any(|shown| path.starts_with(shown));
    let entries = host.environment.path_entries().into_iter();
    entries
        .filter(|entry| {
            let Ok(route) = links::follow(entry) else { return false };
            let within = entry.starts_with(project) || route.end.starts_with(project);
            !within
                && route.end.is_dir()
                && shows(&route.end)
                && route.links.iter().all(|link| shows(&link.path))
        })
        .collect()
}

/// The first executable file called `name` on the launcher's `PATH`, as a shell has it.
pub fn on_path(host: &Host, project: &Path, name: &OsStr) -> Result<PathBuf> {
    let mut unusable: Option<PathBuf> = None;
    for entry in host.environment.path_entries() {
        if name.is_empty() || entry.starts_with(project) {
            continue;
        }
        let candidate = entry.join(name);
        if !candidate.is_file() || host.real(&entry).is_some_and(|real| real.starts_with(project)) {
            continue;
        }
        if executable(&candidate) {
            return Ok(candidate);
        }
        unusable.get_or_insert(candidate);
    }
    if let Some(path) = unusable {
        return Err(not_executable(&path));
    }
    let error = Error::new(Kind::NotFound, format!("{} was not found", shown(name)));
    let error = error.because("no directory of PATH outside the project has it");
    Err(if host.cwd.as_ref().is_some_and(|cwd| cwd.join(name).is_file()) && !name.is_empty() {
        error.hint(format!("run a program of the project by its path: ./{}", shown(name)))
    } else {
        error.hint("install it, or give its path")
    })
}

fn by_path(host: &Host, command: &OsStr) -> Result<PathBuf> {
    let missing =
        |why: String| Error::new(Kind::NotFound, format!("{} was not found", shown(command))).because(why);
    let path = Path::new(command);
    let path = match &host.cwd {
        _ if path.is_absolute() => path.to_path_buf(),
        Some(cwd) => cwd.join(path),
        None => return Err(missing("it is relative, and the current directory is gone".into())),
    };
    if let Err(errno) = path.metadata() {
        return Err(missing(errno.to_string()));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(not_executable(&path));
    };
    let real = parent.canonicalize().map_err(|errno| missing(errno.to_string()))?.join(name);
    if real.is_file() && executable(&real) { Ok(real) } else { Err(not_executable(&real)) }
}

fn not_executable(path: &Path) -> Error {
    let why = if path.is_dir() { "it is a directory" } else { "it has no executable bit for you" };
    Error::new(Kind::NotExecutable, format!("{} cannot be executed", path.display())).because(why)
}

pub(super) fn executable(path: &Path) -> bool {
    rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

fn of_snap(host: &Host, path: &Path) -> bool {
    ["/snap", "/var/lib/snapd"].iter().any(|place| path.starts_with(host.at(place)))
        || path == host.at("/usr/bin/snap")
}

fn shown(command: &OsStr) -> impl std::fmt::Display + '_ {
    let command = if command.is_empty() { OsStr::new("''") } else { command };
    Path::new(command).display()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::host::system::MountKind;
    use crate::host::tests::machine;

    fn program(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A host with PATH `~/.local/bin:/usr/bin` and the project `~/p`, which is the current directory.
    fn setting() -> (tempfile::TempDir, Host, PathBuf) {
        let (dir, mut host) = machine();
        let project = host.user.home.join("p");
        fs::create_dir_all(&project).unwrap();
        let path = std::env::join_paths([host.user.home.join(".local/bin"), host.at("/usr/bin")]).unwrap();
        host.environment.vars.insert("PATH".into(), path);
        host.cwd = Some(project.clone());
        program(&host.at("/usr/bin/node"), "\x7fELF");
        (dir, host, project)
    }

    fn find(host: &Host, project: &Path, command: &str) -> Result<Command> {
        Command::find(host, project, OsStr::new(command))
    }

    #[test]
    fn a_program_of_the_system_needs_nothing() {
        let (_dir, host, project) = setting();
        let found = find(&host, &project, "node").unwrap();
        assert_eq!(found.program, host.at("/usr/bin/node"));
        assert_eq!((found.agent, found.needs), (None, vec![]));
    }

    #[test]
    fn an_agent_is_one_by_its_name_on_path_alone() {
        let (_dir, host, project) = setting();
        program(&host.user.home.join(".local/bin/claude"), "\x7fELF");
        program(&project.join("claude"), "\x7fELF");
        assert_eq!(find(&host, &project, "claude").unwrap().agent.as_ref(), agents::for_command("claude"));
        assert_eq!(find(&host, &project, "./claude").unwrap().agent, None);
        let absolute = host.user.home.join(".local/bin/claude");
        assert_eq!(find(&host, &project, absolute.to_str().unwrap()).unwrap().agent, None);
    }

    #[test]
    fn a_project_cannot_provide_the_agent() {
        let (_dir, mut host, project) = setting();
        program(&project.join("bin/claude"), "\x7fELF");
        fs::create_dir_all(host.user.home.join("links")).unwrap();
        symlink(project.join("bin"), host.user.home.join("links/bin")).unwrap();
        for entries in [
            vec![project.join("bin")],
            vec![host.user.home.join("links/bin")],
            vec![PathBuf::from("."), PathBuf::from("bin"), PathBuf::new()],
        ] {
            host.environment.vars.insert("PATH".into(), std::env::join_paths(&entries).unwrap());
            let error = find(&host, &project, "claude").unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound, "{entries:?}");
        }
        // A link outside that ends in the project runs, but is no agent.
        let place = host.user.home.join(".local/bin");
        fs::create_dir_all(&place).unwrap();
        symlink(project.join("bin/claude"), place.join("claude")).unwrap();
        host.environment.vars.insert("PATH".into(), place.into());
        assert_eq!(find(&host, &project, "claude").unwrap().agent, None);
    }

    #[test]
    fn errors_are_those_of_a_shell() {
        let (_dir, host, project) = setting();
        fs::create_dir_all(host.user.home.join(".local/bin/dir")).unwrap();
        fs::write(host.user.home.join(".local/bin/data"), "").unwrap();
        fs::write(project.join("data"), "").unwrap();
        for (command, kind) in [
            ("nothing", Kind::NotFound),
            ("", Kind::NotFound),
            ("./nothing", Kind::NotFound),
            ("/nonexistent/x", Kind::NotFound),
            ("dir", Kind::NotFound),
            ("data", Kind::NotExecutable),
            ("./data", Kind::NotExecutable),
            ("./", Kind::NotExecutable),
            ("/", Kind::NotExecutable),
        ] {
            assert_eq!(find(&host, &project, command).unwrap_err().kind(), kind, "{command:?}");
        }
        program(&project.join("tool"), "");
        let error = find(&host, &project, "tool").unwrap_err();
        assert!(error.to_string().contains("./tool"), "{error}");
    }

    #[test]
    fn snaps_are_refused() {
        let (_dir, mut host, project) = setting();
        program(&host.at("/usr/bin/snap"), "\x7fELF");
        fs::create_dir_all(host.at("/snap/bin")).unwrap();
        symlink(host.at("/usr/bin/snap"), host.at("/snap/bin/codex")).unwrap();
        host.environment.vars.insert("PATH".into(), host.at("/snap/bin").into());
        let error = find(&host, &project, "codex").unwrap_err();
        assert_eq!(error.kind(), Kind::Refused);
    }

    #[test]
    fn the_chain_names_every_link() {
        let (_dir, host, project) = setting();
        let home = &host.user.home;
        program(&home.join("tools/v1/claude"), "\x7fELF");
        fs::create_dir_all(home.join(".local/bin")).unwrap();
        symlink("v1", home.join("tools/current")).unwrap();
        symlink(home.join("tools/current/claude"), home.join(".local/bin/claude")).unwrap();
        let found = find(&host, &project, "claude").unwrap();
        let chain =
            [home.join(".local/bin/claude"), home.join("tools/current"), home.join("tools/v1/claude")];
        assert_eq!(found.chain, chain);
        assert_eq!(found.program, chain[0]);
        let kinds: Vec<_> = found.needs.iter().map(|need| (need.dest.clone(), need.kind.clone())).collect();
        assert_eq!(
            kinds,
            [
                (home.join(".local/bin/claude"), MountKind::Symlink(home.join("tools/current/claude"))),
                (home.join("tools/current"), MountKind::Symlink("v1".into())),
                (home.join("tools/v1"), MountKind::Bind),
            ]
        );
    }

    #[test]
    fn path_inside_holds_only_what_is_visible() {
        let (_dir, mut host, project) = setting();
        let home = host.user.home.clone();
        for dir in ["p/bin", ".cargo/bin", "hidden/bin"] {
            fs::create_dir_all(home.join(dir)).unwrap();
        }
        symlink(host.at("/usr/bin"), host.at("/bin")).unwrap();
        symlink(home.join("p/bin"), home.join("tools")).unwrap();
        let entries = [
            home.join(".cargo/bin"),
            home.join("hidden/bin"),
            home.join("p/bin"),
            home.join("tools"),
            host.at("/usr/bin"),
            host.at("/bin"),
            host.at("/usr/gone"),
        ];
        host.environment.vars.insert("PATH".into(), std::env::join_paths(&entries).unwrap());
        let usr = [host.at("/usr"), home.join(".cargo/bin"), project.clone(), home.join("tools")];
        assert_eq!(path_inside(&host, &project, &usr), [home.join(".cargo/bin"), host.at("/usr/bin")]);
        let bin = [host.at("/usr"), host.at("/bin")];
        assert_eq!(path_inside(&host, &project, &bin), [host.at("/usr/bin"), host.at("/bin")]);
    }
}

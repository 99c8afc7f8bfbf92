//! What a program outside the system needs to start: as little of the home as will do.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::command::{executable, on_path};
use super::system::{MountKind, SystemMount, merge};
use super::{Host, credentials, links, read_head};
use crate::error::{Error, Kind, Result};

/// An interpreter may be a script as well; the kernel stops after five.
const MAX_DEPTH: usize = 5;

/// As much of a script's first line as the kernel reads.
const SHEBANG: u64 = 256;

/// What every jail shows of the system, so that programs there need nothing.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
    "/etc",
    "/var/usrlocal",
    "/home/linuxbrew/.linuxbrew",
];

/// What is never shown as a directory of programs.
const KERNELS: [&str; 5] = ["/proc", "/sys", "/dev", "/run/user", "/boot"];

/// The parts of a version of a runtime that its programs need; what is beside them stays out (settings, keys).
const PARTS: [&str; 6] = ["bin", "lib", "lib64", "libexec", "share", "include"];

/// How much may be shown around a program that is of no package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The directory it lies in: the user's PATH leads there.
    Directory,
    /// The file alone: somebody wrote its path.
    File,
}

/// A place of credentials on this machine.
struct Place {
    path: PathBuf,
    programs: bool,
}

/// The set while it grows.
pub(super) struct Needs<'a> {
    host: &'a Host,
    /// The project, then other trees that a jail writes.
    written: Vec<&'a Path>,
    credentials: Vec<Place>,
    mounts: Vec<SystemMount>,
}

impl<'a> Needs<'a> {
    /// What `program` needs, its interpreters included; parents come first. `more` are trees beside the project that a jail
    /// writes.
    pub(super) fn of(
        host: &'a Host,
        project: &'a Path,
        more: &[&'a Path],
        program: &Path,
        reach: Reach,
    ) -> Result<Vec<SystemMount>> {
        let mut needs = Self::new(host, project);
        needs.written.extend(more);
        needs.add_program(program, reach, 0)?;
        Ok(merge(needs.mounts))
    }

    /// Nothing yet.
    pub(super) fn new(host: &'a Host, project: &'a Path) -> Self {
        let home = &host.user.home_real;
        let places = credentials::TABLE.place.iter();
        let credentials = places
            .flat_map(|row| {
                row.paths.iter().map(|path| Place { path: home.join(path), programs: row.programs })
            })
            .collect();
        Self { host, written: vec![project], credentials, mounts: Vec::new() }
    }

    /// The machine.
    pub(super) fn host(&self) -> &'a Host {
        self.host
    }

    /// The project.
    pub(super) fn project(&self) -> &'a Path {
        self.written.first().copied().unwrap_or(Path::new("/"))
    }

    /// What makes a directory of programs whole: the parts of the version it belongs to, or itself; nothing when it may not
    /// be shown.
    pub(super) fn program_directory(&self, bin: &Path) -> Vec<PathBuf> {
        match prefix_of(bin).filter(|prefix| self.may_show_program(prefix)) {
            Some(prefix) => parts(prefix),
            None if self.may_show_program(bin) => vec![bin.to_path_buf()],
            None => Vec::new(),
        }
    }

    fn add_program(&mut self, program: &Path, reach: Reach, depth: usize) -> Result<()> {
        let route = links::follow(program).map_err(|errno| {
            Error::new(Kind::NotFound, format!("cannot find {}", program.display())).because(errno)
        })?;
        let mut led = self.is_written(program);
        for link in route.links {
            led |= self.is_written(&link.path);
            if !led && self.foreign(&link.path) {
                let kind = MountKind::Symlink(link.target);
                self.mounts.push(SystemMount { source: link.path.clone(), dest: link.path, kind });
            }
        }
        if led || self.is_written(&route.end) {
            // A jail may have written it: it chooses nothing that is shown, but a program that the user's PATH has.
            return match self.interpreter(&route.end).filter(|_| self.is_written(&route.end)) {
                Some((interpreter, Reach::Directory)) if depth < MAX_DEPTH => {
                    self.add_program(&interpreter, Reach::Directory, depth + 1)
                }
                _ => Ok(()),
            };
        }
        if self.foreign(&route.end) {
            let binds = self.smallest(&route.end, reach)?;
            self.mounts.extend(binds.into_iter().map(SystemMount::bind));
        }
        match self.interpreter(&route.end) {
            Some((interpreter, reach)) if depth < MAX_DEPTH => {
                self.add_program(&interpreter, reach, depth + 1)
            }
            _ => Ok(()),
        }
    }

    fn is_written(&self, path: &Path) -> bool {
        self.written.iter().any(|tree| path.starts_with(tree))
    }

    /// Whether a path is neither of the system, nor of a tree that is shown anyway, nor on the way to the home.
    pub(super) fn foreign(&self, path: &Path) -> bool {
        let system = SYSTEM.iter().any(|place| path.starts_with(self.host.at(place)));
        !system && !self.holds_home(path) && !self.is_written(path)
    }

    /// Whether a path is the home or an ancestor of it.
    pub(super) fn holds_home(&self, path: &Path) -> bool {
        [&self.host.user.home, &self.host.user.home_real].iter().any(|home| home.starts_with(path))
    }

    /// The smallest directories that make `file` whole, or the file itself.
    fn smallest(&self, file: &Path, reach: Reach) -> Result<Vec<PathBuf>> {
        let package = [package_tree(file), virtual_environment(file)];
        let may = |dir: &&Path| self.may_show_program(dir);
        if let Some(dir) = package.into_iter().flatten().find(may) {
            return Ok(vec![dir.to_path_buf()]);
        }
        if let Some(prefix) = prefix(file).filter(may) {
            return Ok(parts(prefix));
        }
        let beside = file
            .parent()
            .filter(|dir| reach == Reach::Directory || dir.file_name() == Some(OsStr::new("bin")));
        if let Some(dir) = [version(file), beside].into_iter().flatten().find(may) {
            return Ok(vec![dir.to_path_buf()]);
        }
        if !self.holds_credentials(file, true) {
            return Ok(vec![file.to_path_buf()]);
        }
        Err(Error::new(Kind::Refused, format!("{} cannot be shown in the jail", file.display()))
            .because("it lies in a place of credentials")
            .hint("install the program elsewhere"))
    }

    /// Whether a directory holds neither too much nor what must stay hidden, and only its owner writes there.
    pub(super) fn may_show(&self, dir: &Path) -> bool {
        self.within_bounds(dir) && !self.credential(dir)
    }

    /// The same for the directory of a program, which may lie below a place where programs are kept beside credentials.
    fn may_show_program(&self, dir: &Path) -> bool {
        self.within_bounds(dir) && !self.holds_credentials(dir, true)
    }

    fn within_bounds(&self, dir: &Path) -> bool {
        let home = &self.host.user.home_real;
        let shared = |dir: &Path| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o002 != 0);
        let too_much = home.starts_with(dir) || *dir == home.join(".local") || *dir == home.join(".config");
        !too_much
            && dir.components().count() > 2
            && !self.written.iter().any(|tree| tree.starts_with(dir))
            && !KERNELS.iter().any(|place| dir.starts_with(self.host.at(place)))
            && !shared(dir)
    }

    /// Whether a path holds, is, or lies in a place of credentials.
    pub(super) fn credential(&self, path: &Path) -> bool {
        self.holds_credentials(path, false)
    }

    fn holds_credentials(&self, path: &Path, program: bool) -> bool {
        self.credentials.iter().any(|place| {
            let inside =
                path.starts_with(&place.path) && (path == place.path || !(program && place.programs));
            inside || (place.path.starts_with(path) && place.path.symlink_metadata().is_ok())
        })
    }

    /// The program that a script's first line names, and how it names it; `env` is looked through.
    fn interpreter(&self, file: &Path) -> Option<(PathBuf, Reach)> {
        let head = read_head(file, SHEBANG)?;
        let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let mut words =
            line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty());
        let interpreter = Path::new(OsStr::from_bytes(words.next()?));
        if interpreter.file_name() != Some(OsStr::new("env")) {
            // What cannot be executed is no interpreter, whoever says so.
            let usable = interpreter.is_absolute() && interpreter.is_file() && executable(interpreter);
            return usable.then(|| (interpreter.to_path_buf(), Reach::File));
        }
        let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
        if name.contains(&b'/') {
            return None;
        }
        Some((on_path(self.host, self.project(), OsStr::from_bytes(name)).ok()?, Reach::Directory))
    }
}

/// The outermost `node_modules`: packages find each other there.
fn package_tree(file: &Path) -> Option<&Path> {
    file.ancestors().skip(1).filter(|dir| dir.file_name() == Some(OsStr::new("node_modules"))).last()
}

/// The root of a Python virtual environment.
fn virtual_environment(file: &Path) -> Option<&Path> {
    file.ancestors().skip(1).take(3).find(|dir| dir.join("pyvenv.cfg").is_file())
}

/// One version of a runtime: a directory with `bin` and `lib` side by side.
fn prefix(file: &Path) -> Option<&Path> {
    prefix_of(file.parent()?)
}

fn prefix_of(bin: &Path) -> Option<&Path> {
    let named = bin.file_name() == Some(OsStr::new("bin"));
    bin.parent().filter(|prefix| named && prefix.join("lib").is_dir())
}

/// The parts of a version that exist.
fn parts(prefix: &Path) -> Vec<PathBuf> {
    PARTS.iter().map(|part| prefix.join(part)).filter(|part| part.is_dir()).collect()
}

/// The version that a program belongs to, where versions lie side by side; all of them when each is one file.
fn version(file: &Path) -> Option<&Path> {
    let dirs: Vec<&Path> = file.ancestors().skip(1).take(4).collect();
    let all = dirs.iter().position(|dir| dir.file_name() == Some(OsStr::new("versions")))?;
    dirs.get(all.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests;

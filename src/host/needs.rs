//! What a program outside the system needs to start: as little of the home as will do.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::command::on_path;
use super::system::{MountKind, SystemMount, merge};
use super::{Host, links, read_head};
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

/// Places below the home that hold credentials: none of them is ever mounted, nor anything that contains one.
const CREDENTIALS: [(&str, &str); 32] = [
    (".ssh", "private keys"),
    (".gnupg", "private keys"),
    (".pki", "certificates with keys"),
    (".aws", "access keys"),
    (".azure", "tokens"),
    (".config/gcloud", "tokens"),
    (".oci", "keys"),
    (".kube", "cluster certificates and tokens"),
    (".docker", "registry passwords"),
    (".config/containers", "registry passwords"),
    (".netrc", "passwords"),
    (".npmrc", "registry tokens"),
    (".yarnrc.yml", "registry tokens"),
    (".pypirc", "registry passwords"),
    (".cargo/credentials", "registry tokens"),
    (".cargo/credentials.toml", "registry tokens"),
    (".gem/credentials", "registry tokens"),
    (".m2/settings.xml", "repository passwords"),
    (".gradle/gradle.properties", "repository passwords"),
    (".local/share/uv/credentials", "index passwords"),
    (".git-credentials", "passwords"),
    (".config/git/credentials", "passwords"),
    (".config/gh", "tokens"),
    (".config/glab-cli", "tokens"),
    (".config/op", "a password manager"),
    (".password-store", "a password manager"),
    (".local/share/keyrings", "the desktop's passwords"),
    (".mozilla", "cookies and passwords"),
    (".config/google-chrome", "cookies and passwords"),
    (".config/chromium", "cookies and passwords"),
    (".terraform.d", "tokens"),
    (".vault-token", "a token"),
];

/// The set while it grows.
pub(super) struct Needs<'a> {
    host: &'a Host,
    project: &'a Path,
    mounts: Vec<SystemMount>,
}

impl<'a> Needs<'a> {
    /// What `program` needs, its interpreters included; parents come first.
    pub(super) fn of(host: &'a Host, project: &'a Path, program: &Path) -> Result<Vec<SystemMount>> {
        let mut needs = Self::new(host, project);
        needs.add_program(program, 0)?;
        Ok(merge(needs.mounts))
    }

    /// Nothing yet.
    pub(super) fn new(host: &'a Host, project: &'a Path) -> Self {
        Self { host, project, mounts: Vec::new() }
    }

    /// The project.
    pub(super) fn project(&self) -> &Path {
        self.project
    }

    /// What makes a directory of programs whole: the version it belongs to, or itself; `None` when it may not be shown.
    pub(super) fn program_directory(&self, bin: &Path) -> Option<PathBuf> {
        let version = prefix_of(bin).filter(|dir| self.may_show(dir));
        version.or_else(|| self.may_show(bin).then_some(bin)).map(Path::to_path_buf)
    }

    fn add_program(&mut self, program: &Path, depth: usize) -> Result<()> {
        let route = links::follow(program).map_err(|errno| {
            Error::new(Kind::NotFound, format!("cannot find {}", program.display())).because(errno)
        })?;
        for link in route.links {
            if self.foreign(&link.path) {
                let kind = MountKind::Symlink(link.target);
                self.mounts.push(SystemMount { source: link.path.clone(), dest: link.path, kind });
            }
        }
        if self.foreign(&route.end) {
            let bind = self.smallest(&route.end)?;
            self.mounts.push(SystemMount::bind(bind));
        }
        match self.interpreter(&route.end) {
            Some(interpreter) if depth < MAX_DEPTH => self.add_program(&interpreter, depth + 1),
            _ => Ok(()),
        }
    }

    /// Whether a path is neither of the system, nor of the project, nor on the way to the home.
    pub(super) fn foreign(&self, path: &Path) -> bool {
        let system = SYSTEM.iter().any(|place| path.starts_with(self.host.at(place)));
        !system && !self.holds_home(path) && !path.starts_with(self.project)
    }

    /// Whether a path is the home or an ancestor of it.
    pub(super) fn holds_home(&self, path: &Path) -> bool {
        [&self.host.user.home, &self.host.user.home_real].iter().any(|home| home.starts_with(path))
    }

    /// The smallest directory that makes `file` whole, or the file itself.
    fn smallest(&self, file: &Path) -> Result<PathBuf> {
        let candidates = [package_tree(file), virtual_environment(file), prefix(file), file.parent()];
        if let Some(dir) = candidates.into_iter().flatten().find(|dir| self.may_show(dir)) {
            return Ok(dir.to_path_buf());
        }
        if !self.credential(file) {
            return Ok(file.to_path_buf());
        }
        Err(Error::new(Kind::Refused, format!("{} cannot be shown in the jail", file.display()))
            .because("it lies in a place of credentials")
            .hint("install the program elsewhere"))
    }

    /// Whether a directory holds neither too much nor what must stay hidden, and only its owner writes there.
    pub(super) fn may_show(&self, dir: &Path) -> bool {
        let home = &self.host.user.home_real;
        let shared = |dir: &Path| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o002 != 0);
        let too_much = home.starts_with(dir) || *dir == home.join(".local") || *dir == home.join(".config");
        !too_much
            && dir.components().count() > 2
            && !self.project.starts_with(dir)
            && !self.credential(dir)
            && !shared(dir)
    }

    /// Whether a path holds, is, or lies in a place of credentials.
    pub(super) fn credential(&self, path: &Path) -> bool {
        CREDENTIALS.iter().map(|(place, _)| self.host.user.home_real.join(place)).any(|place| {
            path.starts_with(&place) || (place.starts_with(path) && place.symlink_metadata().is_ok())
        })
    }

    /// The program that a script's first line names; `env` is looked through.
    fn interpreter(&self, file: &Path) -> Option<PathBuf> {
        let head = read_head(file, SHEBANG)?;
        let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let mut words =
            line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty());
        let interpreter = Path::new(OsStr::from_bytes(words.next()?));
        if interpreter.file_name() != Some(OsStr::new("env")) {
            return interpreter.is_absolute().then(|| interpreter.to_path_buf()).filter(|path| path.exists());
        }
        let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?;
        on_path(self.host, self.project, OsStr::from_bytes(name)).ok()
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::host::tests::machine;

    struct Setting {
        _dir: tempfile::TempDir,
        host: Host,
        project: PathBuf,
    }

    impl Setting {
        fn new() -> Self {
            let (dir, mut host) = machine();
            let project = host.user.home.join("p");
            fs::create_dir_all(&project).unwrap();
            let entries = [".nvm/versions/node/v20/bin", ".local/bin"].map(|dir| host.user.home.join(dir));
            let path = std::env::join_paths(entries.into_iter().chain([host.at("/usr/bin")])).unwrap();
            host.environment.vars.insert("PATH".into(), path);
            Self { _dir: dir, host, project }
        }

        fn home(&self, path: &str) -> PathBuf {
            self.host.user.home.join(path)
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.home(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }

        fn link(&self, path: &str, target: &str) {
            fs::create_dir_all(self.home(path).parent().unwrap()).unwrap();
            symlink(target, self.home(path)).unwrap();
        }

        /// The needs relative to the home.
        fn needs(&self, program: &str) -> Vec<String> {
            let needs = Needs::of(&self.host, &self.project, &self.home(program)).unwrap();
            let name = |need: SystemMount| {
                need.dest.strip_prefix(self.home("")).unwrap().to_str().unwrap().to_owned()
            };
            needs.into_iter().map(name).collect()
        }
    }

    #[test]
    fn a_native_install_needs_its_versions_directory_and_the_link() {
        let s = Setting::new();
        s.file(".local/share/claude/versions/2.1.0", "\x7fELF");
        s.link(".local/bin/claude", "../share/claude/versions/2.1.0");
        assert_eq!(s.needs(".local/bin/claude"), [".local/bin/claude", ".local/share/claude/versions"]);
    }

    #[test]
    fn a_node_package_needs_its_tree_and_node() {
        let s = Setting::new();
        let root = ".nvm/versions/node/v20";
        s.file(&format!("{root}/bin/node"), "\x7fELF");
        s.file(
            &format!("{root}/lib/node_modules/@openai/codex/node_modules/x/cli.js"),
            "#!/usr/bin/env -S node --flag\n",
        );
        s.link(&format!("{root}/bin/codex"), "../lib/node_modules/@openai/codex/node_modules/x/cli.js");
        assert_eq!(s.needs(&format!("{root}/bin/codex")), [root]);
        s.file(".npm-global/lib/node_modules/g/cli.js", "#!/usr/bin/env node\n");
        s.link(".npm-global/bin/g", "../lib/node_modules/g/cli.js");
        assert_eq!(s.needs(".npm-global/bin/g"), [".npm-global/bin/g", ".npm-global/lib/node_modules", root]);
    }

    #[test]
    fn a_virtual_environment_needs_itself_and_its_python() {
        let s = Setting::new();
        s.file(".local/share/uv/python/cpython-3.12/bin/python3.12", "\x7fELF");
        s.file(".local/share/uv/python/cpython-3.12/lib/os.py", "");
        s.file(".local/share/uv/tools/aider/pyvenv.cfg", "");
        let python = s.home(".local/share/uv/tools/aider/bin/python");
        s.file(".local/share/uv/tools/aider/bin/aider", &format!("#!{}\n", python.display()));
        s.link(".local/share/uv/tools/aider/bin/python", "../../../python/cpython-3.12/bin/python3.12");
        s.link(".local/bin/aider", "../share/uv/tools/aider/bin/aider");
        assert_eq!(
            s.needs(".local/bin/aider"),
            [".local/bin/aider", ".local/share/uv/python/cpython-3.12", ".local/share/uv/tools/aider"]
        );
    }

    #[test]
    fn places_that_hold_too_much_are_never_mounted_whole() {
        let s = Setting::new();
        for dir in ["lib", ".local/lib", ".cargo/lib", "tools/shared"] {
            fs::create_dir_all(s.home(dir)).unwrap();
        }
        fs::set_permissions(s.home("tools/shared"), PermissionsExt::from_mode(0o777)).unwrap();
        s.file(".cargo/credentials.toml", "");
        for (program, want) in [
            ("run.sh", "run.sh"),
            ("bin/x", "bin"),
            (".local/bin/x", ".local/bin"),
            (".local/x", ".local/x"),
            (".config/x", ".config/x"),
            (".cargo/bin/x", ".cargo/bin"),
            (".cargo/x", ".cargo/x"),
            ("tools/shared/x", "tools/shared/x"),
        ] {
            s.file(program, "\x7fELF");
            assert_eq!(s.needs(program), [want], "{program}");
        }
    }

    #[test]
    fn no_place_of_credentials_and_nothing_above_one_may_be_shown() {
        let s = Setting::new();
        let bounds = Needs::new(&s.host, &s.project);
        for (place, kind) in CREDENTIALS {
            assert!(!kind.is_empty());
            fs::create_dir_all(s.home(place)).unwrap();
            for path in
                [s.home(place), s.home(place).join("below"), s.home(place).parent().unwrap().to_path_buf()]
            {
                assert!(bounds.credential(&path), "{}", path.display());
                assert!(!bounds.may_show(&path), "{}", path.display());
            }
        }
    }

    #[test]
    fn a_program_among_credentials_is_refused() {
        let s = Setting::new();
        s.file(".ssh/tool", "\x7fELF");
        let error = Needs::of(&s.host, &s.project, &s.home(".ssh/tool")).unwrap_err();
        assert_eq!(error.kind(), Kind::Refused);
    }

    #[test]
    fn a_program_of_the_project_needs_its_interpreter_alone() {
        let s = Setting::new();
        s.file(".local/bin/tool", "\x7fELF");
        s.file("p/run", "#!/usr/bin/env tool\n");
        assert_eq!(s.needs("p/run"), [".local/bin"]);
        // Beside the project nothing is mounted that holds it.
        s.file("beside", "\x7fELF");
        assert_eq!(s.needs("beside"), ["beside"]);
    }

    #[test]
    fn scripts_that_name_each_other_end() {
        let s = Setting::new();
        let (a, b) = (s.home("t/a"), s.home("t/b"));
        s.file("t/a", &format!("#!{}\n", b.display()));
        s.file("t/b", &format!("#!{}\n", a.display()));
        assert_eq!(s.needs("t/a"), ["t"]);
    }
}

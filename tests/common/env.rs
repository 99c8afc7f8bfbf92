//! The hermetic environment of one test.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::run::{DEADLINE, Output, Running, output_of, start};
use super::{Answer, probe_path};

/// Where the system keeps its programs. The administrator's ones are needed by controls that root makes.
pub const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An ordinary user's ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A home, XDG directories and a project of its own, in a temporary directory that is removed afterwards.
#[derive(Debug)]
pub struct TestEnv {
    root: tempfile::TempDir,
    ids: Option<Ids>,
    path: String,
    extra: Vec<(String, String)>,
}

impl TestEnv {
    /// An environment for the user that runs the tests.
    pub fn new() -> Self {
        Self::build("project", None)
    }

    /// The same, the project directory having this name.
    pub fn with_project_name(name: impl AsRef<Path>) -> Self {
        Self::build(name, None)
    }

    /// An environment for an ordinary user: the one that runs the tests, or, when that is root, another one.
    /// `None` when there is nobody else.
    pub fn ordinary() -> Option<Self> {
        if rustix::process::getuid().is_root() {
            Some(Self::build("project", Some(ordinary_user()?)))
        } else {
            Some(Self::new())
        }
    }

    fn build(project: impl AsRef<Path>, ids: Option<Ids>) -> Self {
        let root = tempfile::Builder::new()
            .prefix("ai-jail-test-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a temporary directory");
        let env = Self { root, ids, path: SYSTEM_PATH.into(), extra: Vec::new() };
        let project = env.root.path().join(project);
        for directory in [&env.home(), &project, &env.home().join(".config"), &env.run_dir()] {
            fs::DirBuilder::new().mode(0o700).recursive(true).create(directory).expect("mkdir");
        }
        std::os::unix::fs::symlink(&project, env.root.path().join(".project")).expect("symlink");
        env.give_away(env.root.path());
        for directory in [&env.home(), &project, &env.home().join(".config"), &env.run_dir()] {
            env.give_away(directory);
        }
        env
    }

    /// Adds a variable to the launcher's environment.
    #[must_use]
    pub fn var(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.extra.push((name.into(), value.as_ref().to_str().expect("UTF-8").into()));
        self
    }

    /// Replaces the launcher's PATH.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }

    /// The directory that holds everything of this test.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The launcher's HOME.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// XDG_RUNTIME_DIR.
    pub fn run_dir(&self) -> PathBuf {
        self.root.path().join("run")
    }

    /// The project.
    pub fn project(&self) -> PathBuf {
        fs::read_link(self.root.path().join(".project")).expect("the project")
    }

    /// The directory of the user's config.
    pub fn config_dir(&self) -> PathBuf {
        self.home().join(".config/ai-jail")
    }

    /// Writes a file (a relative path is in the project) with its parents, owned by the environment's user.
    /// Returns its path.
    pub fn file(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.project().join(path);
        self.dir(file.parent().expect("a parent"));
        fs::write(&file, content).expect("write");
        self.give_away(&file);
        file
    }

    /// Makes a directory (a relative path is in the project) with its parents.
    pub fn dir(&self, path: impl AsRef<Path>) -> PathBuf {
        let directory = self.project().join(path);
        let mut made = Vec::new();
        let mut at = directory.as_path();
        while !at.exists() {
            made.push(at.to_path_buf());
            at = at.parent().expect("a parent");
        }
        for one in made.iter().rev() {
            fs::create_dir(one).expect("mkdir");
            self.give_away(one);
        }
        directory
    }

    /// Writes an executable shell script.
    pub fn script(&self, path: impl AsRef<Path>, body: &str) -> PathBuf {
        let text = self.file(".script", format!("#!/bin/sh\n{body}\n"));
        let file = self.project().join(path);
        self.dir(file.parent().expect("a parent"));
        copy_executable(&text, &file);
        fs::remove_file(text).expect("remove");
        self.give_away(&file);
        file
    }

    /// Writes the user's `config.toml`.
    pub fn config(&self, text: &str) -> PathBuf {
        self.file(self.config_dir().join("config.toml"), text)
    }

    /// `program` in this environment, outside any jail, with the project as its directory.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let home = self.home();
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &home)
            .env("USER", "tester")
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env("XDG_DATA_HOME", home.join(".local/share"))
            .env("XDG_STATE_HOME", home.join(".local/state"))
            .env("XDG_CACHE_HOME", home.join(".cache"))
            .env("XDG_RUNTIME_DIR", self.run_dir())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(self.extra.iter().map(|(name, value)| (name, value)))
            .current_dir(self.project())
            .stdin(Stdio::null());
        if let Some(ids) = self.ids {
            command.uid(ids.uid).gid(ids.gid);
        }
        command
    }

    /// The launcher with these arguments.
    pub fn launcher<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_ai-jail"));
        command.args(args);
        command
    }

    /// Runs the launcher with these arguments to its end.
    pub fn jail<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        output_of(&mut self.launcher(args), DEADLINE)
    }

    /// Runs the launcher within another deadline.
    pub fn jail_within<S: AsRef<OsStr>>(
        &self,
        deadline: Duration,
        args: impl IntoIterator<Item = S>,
    ) -> Output {
        output_of(&mut self.launcher(args), deadline)
    }

    /// Starts the launcher and lets it run.
    pub fn jail_running<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        start(&mut self.launcher(args))
    }

    /// Runs a shell script in a jail of the default profile.
    pub fn inside(&self, script: &str) -> Output {
        self.jail(["--", "sh", "-c", script])
    }

    /// Runs the same script as the same user without a jail: the control.
    pub fn outside(&self, script: &str) -> Output {
        self.shell_in(&self.project(), script)
    }

    /// Runs a script outside, in another directory.
    pub fn shell_in(&self, directory: &Path, script: &str) -> Output {
        output_of(self.command("sh").args(["-c", script]).current_dir(directory), DEADLINE)
    }

    /// Puts the probe into the project and returns its path.
    pub fn probe(&self) -> PathBuf {
        let copy = self.project().join("probe");
        if !copy.exists() {
            let probe = probe_path().expect("the probe: run `cargo build --examples` first");
            copy_executable(&probe, &copy);
            self.give_away(&copy);
        }
        copy
    }

    /// What the probe answers outside.
    pub fn probe_outside<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Answer {
        Answer::read(&output_of(self.command(self.probe()).args(args), DEADLINE))
    }

    /// What the probe answers in a jail of the default profile.
    pub fn probe_inside<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Answer {
        self.probe_with(&[], args)
    }

    /// What the probe answers in a jail started with `flags`.
    pub fn probe_with<S: AsRef<OsStr>>(&self, flags: &[&str], args: impl IntoIterator<Item = S>) -> Answer {
        let mut command = self.launcher(flags);
        command.arg("--").arg(self.probe()).args(args);
        Answer::read(&output_of(&mut command, DEADLINE))
    }

    /// Makes the environment's user the owner of `path`.
    pub fn give_away(&self, path: &Path) {
        if let Some(ids) = self.ids {
            std::os::unix::fs::lchown(path, Some(ids.uid), Some(ids.gid)).expect("chown");
        }
    }

    /// The uid that the environment's processes have.
    pub fn uid(&self) -> u32 {
        self.ids.map_or_else(|| rustix::process::getuid().as_raw(), |ids| ids.uid)
    }
}

impl Drop for TestEnv {
    /// The directory goes with its `TempDir`; what a test made inaccessible is opened before.
    fn drop(&mut self) {
        if fs::remove_dir_all(self.root.path()).is_err() {
            let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(self.root.path()).output();
        }
    }
}

/// A path as the text that arguments are made of.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A service outside whose socket lies at `place` and belongs to the environment's user.
pub fn service(env: &TestEnv, place: &Path) -> UnixListener {
    env.dir(place.parent().expect("a parent"));
    let listener = UnixListener::bind(place).expect("bind");
    env.give_away(place);
    listener
}

/// Copies a program by another process: a descriptor that is open for writing here, and inherited by whatever
/// another test forks at this moment, would make the kernel answer "text file busy" to whoever starts the copy.
fn copy_executable(from: &Path, to: &Path) {
    let copied = Command::new("install").args(["-m", "0755"]).arg(from).arg(to).output().expect("install");
    assert!(copied.status.success(), "cannot copy {}: {copied:?}", from.display());
}

/// The ordinary user that root may run tests as: `AI_JAIL_TEST_USER`, or the first of the machine's users.
pub fn ordinary_user() -> Option<Ids> {
    let wanted = std::env::var("AI_JAIL_TEST_USER").ok();
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (uid, gid) = (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        let ordinary = (1000..60_000).contains(&uid);
        let chosen = wanted.as_deref().map_or(ordinary, |name| name == fields[0]);
        (chosen && uid != 0).then_some(Ids { uid, gid })
    })
}

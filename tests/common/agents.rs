//! Real agents from their npm packages, installed once into a cache that every user may read, and copied into
//! the home of each test with the layout of `npm install -g --prefix ~/.local`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::{Feature, TestEnv, missing, output_of};

/// The agents that the tests start. Their versions are not pinned: the jail has to work with what people get.
const PACKAGES: [&str; 2] = ["@anthropic-ai/claude-code", "@openai/codex"];

/// Downloads of several hundred megabytes take their time.
const INSTALL_DEADLINE: Duration = Duration::from_secs(600);

/// The cached install.
#[derive(Debug)]
pub struct AgentInstall {
    prefix: PathBuf,
}

/// The cached install, made by the first test that asks. `None`, with the reason printed, when the registry
/// cannot be reached; under CI that is a failure.
pub fn agents(claim: &str) -> Option<&'static AgentInstall> {
    static INSTALL: OnceLock<Result<AgentInstall, String>> = OnceLock::new();
    match INSTALL.get_or_init(install) {
        Ok(install) => Some(install),
        Err(why) => {
            missing(Feature::Registry, claim, why);
            None
        }
    }
}

impl AgentInstall {
    /// Puts one package and the link of its command into `~/.local` of the environment.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn copy_into(&self, env: &TestEnv, command: &str, package: &str) {
        let local = env.home().join(".local");
        let relative = Path::new("lib/node_modules").join(package);
        let to = env.dir(local.join(&relative).parent().expect("a parent"));
        let bin = env.dir(local.join("bin"));
        // Hard links where they are possible, since the packages are large.
        let from = self.prefix.join(&relative);
        if !copy(&from, &to, &["-a", "-l"]) {
            let _ = std::fs::remove_dir_all(local.join(&relative));
            assert!(copy(&from, &to, &["-R", "-P"]), "cannot copy {}", from.display());
        }
        assert!(copy(&self.prefix.join("bin").join(command), &bin, &["-P"]), "cannot copy {command}");
    }
}

fn copy(from: &Path, to: &Path, flags: &[&str]) -> bool {
    let status = Command::new("cp").args(flags).arg(from).arg(to).output();
    status.is_ok_and(|output| output.status.success())
}

fn install() -> Result<AgentInstall, String> {
    let cache = match std::env::var_os("AI_JAIL_TEST_CACHE") {
        Some(directory) => PathBuf::from(directory),
        None => target_directory().join("test-agents"),
    };
    let prefix = cache.join("local");
    let complete = cache.join("complete");
    if complete.is_file() {
        return Ok(AgentInstall { prefix });
    }
    std::fs::create_dir_all(&cache).map_err(|error| format!("cannot make {}: {error}", cache.display()))?;
    // Two test binaries may want this at once: the loser of the race waits for the lock.
    let lock = std::fs::File::create(cache.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if complete.is_file() {
        return Ok(AgentInstall { prefix });
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "-g", "--no-audit", "--no-fund", "--foreground-scripts", "--prefix"])
        .arg(&prefix)
        .args(PACKAGES)
        .env("npm_config_cache", cache.join("npm"))
        .stdin(std::process::Stdio::null());
    let output = output_of(&mut npm, INSTALL_DEADLINE);
    if !output.success() {
        return Err(format!("npm install failed: {}", output.stderr.trim()));
    }
    let _ = std::fs::remove_dir_all(cache.join("npm"));
    let _ = Command::new("chmod").args(["-R", "a+rX"]).arg(&cache).status();
    std::fs::write(&complete, "").map_err(|error| error.to_string())?;
    Ok(AgentInstall { prefix })
}

fn target_directory() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    test.ancestors().nth(3).expect("target").to_path_buf()
}

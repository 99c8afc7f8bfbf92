//! Jails as several tests need them: one that is refused, one that waits for the test, and what they log.

use std::fs;

use super::TestEnv;
use super::run::{DEADLINE, Output, Running};

impl TestEnv {
    /// Asserts that a launch of `command` with `flags` is refused with one sentence of ours that holds `says`, before
    /// bubblewrap is started.
    #[track_caller]
    pub fn refused_saying(&self, flags: &[&str], command: &[&str], says: &str) {
        let output = self.jail([flags, &["--"], command].concat());
        let message = output.refused();
        assert!(message.contains(says), "{flags:?} should say {says:?}: {message}");
        for raw in ["os error", "bwrap:", "doctor"] {
            assert!(!message.contains(raw), "{flags:?} says {raw:?}: {message}");
        }
        assert_eq!(message.lines().count(), 1, "{flags:?}: {message}");
    }

    /// Starts a jail that runs the script `before`, waits for the file `go` in the project, which the jail must see,
    /// and then runs the script `after`. Returns when it waits.
    #[track_caller]
    pub fn jail_waiting(&self, flags: &[&str], before: &str, after: &str) -> Running {
        let go = self.project().join("go");
        let script =
            format!("{before}\necho begun\nwhile [ ! -e '{}' ]; do sleep 0.02; done\n{after}", go.display());
        let mut running = self.jail_running([flags, &["--", "sh", "-c", &script]].concat());
        running.take("begun\n");
        running
    }

    /// Lets a jail that waits go on, to its end.
    pub fn let_go(&self, running: Running) -> Output {
        self.file("go", "");
        running.finish(DEADLINE)
    }

    /// All that the jails of this environment have logged.
    ///
    /// # Panics
    /// When there is no log.
    #[track_caller]
    pub fn log(&self) -> String {
        let directory = self.home().join(".local/state/ai-jail/log");
        let files = fs::read_dir(directory).expect("the log's directory");
        let log: String =
            files.map(|file| fs::read_to_string(file.expect("an entry").path()).expect("text")).collect();
        assert!(!log.is_empty(), "nothing is logged");
        log
    }
}

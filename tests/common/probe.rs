//! The probe, a small program that makes one attempt and prints one line of JSON about it.

use std::path::PathBuf;

use super::Output;

/// What the probe found.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Whether the attempt succeeded.
    pub ok: bool,
    /// The errno of the failure, 0 when there is none.
    pub errno: i32,
    /// The rest of the line.
    pub value: serde_json::Value,
    /// The process, for messages and for attempts that end by a signal.
    pub output: Output,
}

impl Answer {
    /// Reads the last line that the probe printed. A probe that was killed gives `ok: false` and errno 0.
    pub fn read(output: &Output) -> Self {
        let value: serde_json::Value = output
            .stdout
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str(line).ok())
            .unwrap_or(serde_json::Value::Null);
        Self {
            ok: value["ok"].as_bool().unwrap_or(false),
            errno: value["errno"].as_i64().unwrap_or(0) as i32,
            value,
            output: output.clone(),
        }
    }

    /// True when the probe ran and reported.
    pub fn answered(&self) -> bool {
        self.value.is_object()
    }

    /// True when the kernel refused in the way of a filter: EPERM or ENOSYS.
    pub fn filtered(&self) -> bool {
        self.answered() && !self.ok && (self.errno == libc::EPERM || self.errno == libc::ENOSYS)
    }

    /// Asserts that the attempt succeeded (a control).
    #[track_caller]
    pub fn must_work(&self, claim: &str) {
        assert!(self.ok, "control: {claim} should work here: {self:#?}");
    }

    /// Asserts that the probe ran and the attempt failed.
    #[track_caller]
    pub fn must_fail(&self, claim: &str) {
        assert!(self.answered(), "{claim}: the probe did not report: {:#?}", self.output);
        assert!(!self.ok, "{claim}: must not work in the jail: {self:#?}");
    }
}

/// Where Cargo puts the probe: beside the test binary, among the examples. `None` when it was not built.
pub fn probe_path() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let probe = test.parent()?.parent()?.join("examples/probe");
    probe.is_file().then_some(probe)
}

//! Processes with a deadline.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a process may take unless a test says otherwise. Generous: machines that test are loaded.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// What a finished process left.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// Its standard error, likewise.
    pub stderr: String,
    /// True when the deadline passed and the process was killed.
    pub timed_out: bool,
}

impl Output {
    /// The exit status as a shell shows it: 128+N for signal N.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Whether the process ended with status 0 in time.
    pub fn success(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// The standard output of a process that must have succeeded.
    ///
    /// # Panics
    /// When it did not; the message shows everything it said.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert!(self.success(), "the command failed: {self:#?}");
        &self.stdout
    }

    /// Asserts that the launcher refused: status 125 and nothing but its own lines on standard error, exactly
    /// one of which is the error.
    #[track_caller]
    pub fn refused(&self) -> &str {
        assert_eq!(self.code(), 125, "should be refused: {self:#?}");
        assert!(self.stderr.starts_with("ai-jail: "), "says why: {self:#?}");
        assert_eq!(self.stdout, "", "a refused run prints nothing to standard output");
        &self.stderr
    }
}

/// A process that runs while the test goes on. It is killed, by its own id, when the value is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<Receiver<Vec<u8>>>,
    stderr: Option<Receiver<Vec<u8>>>,
    /// What was read of the standard output already.
    read: Vec<u8>,
}

impl Running {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL to this process alone.
    pub fn kill(&mut self) {
        // A process that has ended already is as dead as was asked for.
        let _ = self.child.kill();
    }

    /// Waits until the process has written `text` to its standard output, and takes that out of it.
    ///
    /// # Panics
    /// When the process ends without it, or the deadline passes.
    #[track_caller]
    pub fn take(&mut self, text: &str) {
        let end = Instant::now() + DEADLINE;
        let place = |read: &[u8]| read.windows(text.len()).position(|window| window == text.as_bytes());
        loop {
            if let Some(at) = place(&self.read) {
                self.read.drain(at..at + text.len());
                return;
            }
            let stream = self.stdout.as_ref().expect("not finished");
            let Ok(chunk) = stream.recv_timeout(end.saturating_duration_since(Instant::now())) else { break };
            self.read.extend(chunk);
        }
        self.kill();
        let stream = self.stderr.take().expect("not finished");
        let errors = collect(&stream, Duration::from_secs(1));
        let [read, errors] = [&self.read, &errors].map(|bytes| String::from_utf8_lossy(bytes));
        panic!("{text:?} never came: {read:?} {errors:?}");
    }

    /// Waits for the next line of its standard output, and takes that out of it.
    ///
    /// # Panics
    /// When the process ends without it, or the deadline passes.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(at) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=at).collect();
                return String::from_utf8_lossy(&line[..at]).into_owned();
            }
            let stream = self.stdout.as_ref().expect("not finished");
            match stream.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(chunk) => self.read.extend(chunk),
                Err(_) => panic!("no line came: {:?}", String::from_utf8_lossy(&self.read)),
            }
        }
    }

    /// Waits until the end or the deadline; then kills and says so.
    pub fn finish(mut self, deadline: Duration) -> Output {
        let end = Instant::now() + deadline;
        let mut timed_out = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("waitpid") {
                break status;
            }
            if Instant::now() > end {
                timed_out = true;
                self.kill();
                break self.child.wait().expect("waitpid");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        // A descendant that outlived the process may hold the pipes: then what came so far has to do.
        let rest = Duration::from_secs(5);
        Output {
            status,
            stdout: self.stdout.take().map_or_else(String::new, |stream| {
                let mut bytes = std::mem::take(&mut self.read);
                bytes.extend(collect(&stream, rest));
                String::from_utf8_lossy(&bytes).into_owned()
            }),
            stderr: self.stderr.take().map_or_else(String::new, |stream| {
                String::from_utf8_lossy(&collect(&stream, rest)).into_owned()
            }),
            timed_out,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Starts `command` with captured output.
pub fn start(command: &mut Command) -> Running {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    Running { child, stdout, stderr, read: Vec::new() }
}

/// Runs `command` to its end within `deadline`.
pub fn output_of(command: &mut Command, deadline: Duration) -> Output {
    start(command).finish(deadline)
}

/// Waits until `condition` holds, looking every few milliseconds. Returns whether it did within `deadline`.
pub fn eventually(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + deadline;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn drain(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if send.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receive
}

fn collect(stream: &Receiver<Vec<u8>>, deadline: Duration) -> Vec<u8> {
    let end = Instant::now() + deadline;
    let mut bytes = Vec::new();
    while let Ok(chunk) = stream.recv_timeout(end.saturating_duration_since(Instant::now())) {
        bytes.extend(chunk);
    }
    bytes
}

//! A terminal that the test drives: it types, resizes and reads the screen as a person would.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use super::{TestEnv, eventually};

/// A pseudoterminal with a process that has it as its controlling terminal.
#[derive(Debug)]
pub struct Terminal {
    master: Option<File>,
    slave: File,
    child: Child,
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

struct Seen {
    raw: Vec<u8>,
    screen: vt100::Parser,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.screen.screen().contents())
    }
}

impl Terminal {
    /// Runs the launcher with `args` on a new terminal of 24 lines and 80 columns.
    pub fn jail<S: AsRef<OsStr>>(env: &TestEnv, args: impl IntoIterator<Item = S>) -> Self {
        let mut command = env.command(env.probe());
        command.args(["ctty", "--", env!("CARGO_BIN_EXE_ai-jail")]).args(args);
        Self::spawn(command)
    }

    /// Runs any program of the environment, outside, on a new terminal.
    pub fn outside<S: AsRef<OsStr>>(env: &TestEnv, args: impl IntoIterator<Item = S>) -> Self {
        let mut command = env.command(env.probe());
        command.args(["ctty", "--"]).args(args);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("openpt");
        grantpt(&master).expect("grantpt");
        unlockpt(&master).expect("unlockpt");
        let name = ptsname(&master, Vec::new()).expect("ptsname");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave =
            File::from(rustix::fs::open(name.as_c_str(), flags, 0.into()).expect("open the terminal"));
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("window size");
        let child = command
            .stdin(Stdio::from(slave.try_clone().expect("dup")))
            .stdout(Stdio::from(slave.try_clone().expect("dup")))
            .stderr(Stdio::from(slave.try_clone().expect("dup")))
            .spawn()
            .expect("spawn on a terminal");
        let master = File::from(master);
        let seen = Arc::new(Mutex::new(Seen { raw: Vec::new(), screen: vt100::Parser::new(24, 80, 0) }));
        let stop = Arc::new(AtomicBool::new(false));
        let reader = std::thread::spawn({
            let (from, seen, stop) = (master.try_clone().expect("dup"), Arc::clone(&seen), Arc::clone(&stop));
            move || relay(from, &seen, &stop)
        });
        Self { master: Some(master), slave, child, seen, stop, reader: Some(reader) }
    }

    /// The process on the terminal.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types these bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.master.as_mut().expect("open").write_all(bytes.as_ref()).expect("type");
    }

    /// Changes the window's size; the kernel sends SIGWINCH.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(self.master.as_ref().expect("open"), size).expect("resize");
        self.seen.lock().expect("lock").screen.screen_mut().set_size(rows, columns);
    }

    /// Everything that was written to the terminal, byte for byte.
    pub fn raw(&self) -> Vec<u8> {
        self.seen.lock().expect("lock").raw.clone()
    }

    /// The text on the screen.
    pub fn screen(&self) -> String {
        self.seen.lock().expect("lock").screen.screen().contents()
    }

    /// Waits until `text` was written to the terminal.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_after(0, text);
    }

    /// Waits until `text` was written to the terminal, the first `mark` bytes not counted.
    #[track_caller]
    pub fn wait_after(&self, mark: usize, text: &str) {
        let found = eventually(Duration::from_secs(30), || {
            self.raw()[mark..].windows(text.len()).any(|window| window == text.as_bytes())
        });
        assert!(found, "{text:?} never came; the screen is:\n{}\n", self.screen());
    }

    /// The terminal's modes as the user would find them.
    pub fn modes(&self) -> Termios {
        tcgetattr(self.slave.as_fd()).expect("tcgetattr")
    }

    /// Waits for the end of the process and returns its status as a shell shows it, `None` after the deadline.
    pub fn wait(&mut self, deadline: Duration) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let mut status = None;
        eventually(deadline, || {
            status = self.child.try_wait().expect("waitpid");
            status.is_some()
        });
        status.map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    /// Closes the terminal window: every process on it gets SIGHUP.
    pub fn hang_up(&mut self) {
        // The kernel hangs up when the last descriptor of the master is closed, so the reader must end first.
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader");
        }
        self.master = None;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn relay(mut from: File, seen: &Mutex<Seen>, stop: &AtomicBool) {
    let mut buffer = [0; 4096];
    let tick = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !stop.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(&from, PollFlags::IN)];
        if !rustix::event::poll(&mut ready, Some(&tick)).is_ok_and(|count| count > 0) {
            continue;
        }
        match from.read(&mut buffer) {
            Ok(count @ 1..) => {
                let mut seen = seen.lock().expect("lock");
                seen.raw.extend_from_slice(&buffer[..count]);
                seen.screen.process(&buffer[..count]);
            }
            // EIO: every process on the terminal has closed it; more may come when the test starts another.
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

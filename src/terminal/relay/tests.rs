//! Tests over real pseudo-terminals: the test plays the user's terminal on one side and the jail on the other.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcsetattr, tcsetwinsize};

use super::screen::ready;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// The user's terminal: `screen` is what the user sees and types on, `tty` is what programs have open.
struct User {
    screen: OwnedFd,
    tty: OwnedFd,
}

impl User {
    fn new() -> Self {
        let screen =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        unlockpt(&screen).expect("unlocked");
        let tty = ioctl_tiocgptpeer(&screen, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("its other end");
        let user = Self { screen, tty };
        user.resize(50, 132);
        user
    }

    fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.screen, size).expect("a size");
    }

    fn launch(&self, stop: fn() -> Stop) -> (Relay, OwnedFd) {
        self.launch_with(Sharing::Alone, stop)
    }

    fn launch_with(&self, sharing: Sharing, stop: fn() -> Stop) -> (Relay, OwnedFd) {
        let terminal =
            Terminal::open_on(&[self.tty.as_fd()], sharing, Classes::default()).expect("a terminal");
        let jail = terminal.slave().try_clone_to_owned().expect("a copy");
        (terminal.start_with(stop).expect("a relay"), jail)
    }

    fn type_keys(&self, bytes: &[u8]) {
        assert_eq!(io::write(&self.screen, bytes), Ok(bytes.len()));
    }

    /// What appears until nothing more comes for a while.
    fn seen(&self) -> Vec<u8> {
        read_while(&self.screen, Duration::from_millis(150))
    }

    /// How many typed bytes are left unread: waits for `expected`, and a moment more for who would take some of them.
    fn left(&self, expected: u64) -> u64 {
        let left = || io::ioctl_fionread(&self.tty).expect("a count");
        let deadline = Instant::now() + 5 * SECOND;
        while left() != expected && Instant::now() < deadline {
            std::thread::yield_now();
        }
        std::thread::sleep(SECOND / 10);
        left()
    }

    fn settings(&self) -> String {
        settings(&self.tty)
    }
}

fn never_stop() -> Stop {
    panic!("the launcher must not stop")
}

fn settings(tty: impl AsFd) -> String {
    let termios = tcgetattr(tty).expect("settings");
    format!(
        "{:?} {:?} {:?} {:?} {:?}",
        termios.input_modes,
        termios.output_modes,
        termios.control_modes,
        termios.local_modes,
        termios.special_codes
    )
}

fn read_while(fd: &OwnedFd, patience: Duration) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while ready(fd, PollFlags::IN, Some(Instant::now() + patience)) {
        match io::read(fd, &mut buffer) {
            Ok(count @ 1..) => all.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    all
}

fn read_exactly(fd: &OwnedFd, length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while all.len() < length && ready(fd, PollFlags::IN, Some(Instant::now() + 5 * SECOND)) {
        let count = io::read(fd, &mut buffer).expect("bytes");
        all.extend_from_slice(&buffer[..count]);
    }
    all
}

fn make_raw(tty: &OwnedFd) {
    let mut termios = tcgetattr(tty).expect("settings");
    termios.make_raw();
    tcsetattr(tty, OptionalActions::Now, &termios).expect("raw");
}

fn say(jail: &OwnedFd, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let count = io::write(jail, rest).expect("written");
        rest = &rest[count..];
    }
}

fn size_of(tty: &OwnedFd) -> (u16, u16) {
    let size = tcgetwinsize(tty).expect("a size");
    (size.ws_row, size.ws_col)
}

#[test]
fn the_jail_has_a_terminal_like_the_users() {
    let user = User::new();
    let found = user.settings();
    let (relay, jail) = user.launch(never_stop);
    assert_eq!(size_of(&jail), (50, 132));
    assert_eq!(settings(&jail), found);
    assert_ne!(user.settings(), found, "the user's is raw");
    user.resize(24, 80);
    relay.resized();
    let deadline = Instant::now() + SECOND;
    while size_of(&jail) != (24, 80) && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(size_of(&jail), (24, 80));
    relay.finish();
    assert_eq!(user.settings(), found);
}

#[test]
fn a_shared_terminal_keeps_its_mode_until_the_command_changes_it() {
    let user = User::new();
    let found = user.settings();
    let (relay, jail) = user.launch_with(Sharing::Shared, never_stop);
    assert_eq!(user.settings(), found);
    say(&jail, b"one\ntwo\n");
    assert_eq!(user.seen(), b"one\r\ntwo\r\n", "line ends are made once");
    user.type_keys(b"typed\n");
    assert_eq!(read_exactly(&jail, 6), b"typed\n");
    assert_eq!(user.seen(), b"typed\r\n", "the echo is made once");
    let before = tcgetattr(&jail).expect("settings");
    make_raw(&jail);
    let deadline = Instant::now() + SECOND;
    while user.settings() == found && Instant::now() < deadline {
        std::thread::yield_now();
    }
    user.type_keys(b"x");
    assert_eq!(read_exactly(&jail, 1), b"x", "without a line's end");
    assert_eq!(user.seen(), b"");
    tcsetattr(&jail, OptionalActions::Now, &before).expect("set");
    let deadline = Instant::now() + SECOND;
    while user.settings() != found && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(user.settings(), found);
    make_raw(&jail);
    relay.finish();
    assert_eq!(user.settings(), found);
}

#[test]
fn a_shared_terminal_is_read_one_line_ahead_and_not_while_another_has_it() {
    let user = User::new();
    let (relay, jail) = user.launch_with(Sharing::Shared, never_stop);
    user.type_keys(b"one\n");
    assert_eq!(user.left(0), 0, "one line is read");
    user.type_keys(b"two\nthree\n");
    assert_eq!(user.left(10), 10, "two lines are left to others");
    assert_eq!(read_exactly(&jail, 14), b"one\ntwo\nthree\n");
    let theirs = tcgetattr(&user.tty).expect("settings");
    make_raw(&user.tty);
    std::thread::sleep(SECOND / 5);
    user.type_keys(b"key");
    assert_eq!(user.left(3), 3, "the key is for whoever made it raw");
    let mut keys = [0; 8];
    assert_eq!(io::read(&user.tty, &mut keys), Ok(3));
    tcsetattr(&user.tty, OptionalActions::Now, &theirs).expect("set");
    user.type_keys(b"\x04");
    assert_eq!(io::read(&jail, &mut keys), Ok(0), "the end of the input is told");
    relay.finish();
}

#[test]
fn a_second_terminal_shows_what_is_written_to_it_and_is_asked_nothing() {
    let (user, other) = (User::new(), User::new());
    let found = other.settings();
    let mut terminal =
        Terminal::open_on(&[user.tty.as_fd()], Sharing::Shared, Classes::default()).expect("a terminal");
    terminal.sides[1] = Some(Side::open(other.tty.as_fd()).expect("another"));
    let [jail, second] =
        [2, 1].map(|stream| terminal.slave_for(stream).try_clone_to_owned().expect("a copy"));
    let relay = terminal.start_with(never_stop).expect("a relay");
    say(&jail, b"here\n");
    say(&second, b"there\n\x1b[6n\x1b[?1003h\x1b[31mred");
    assert_eq!(user.seen(), b"here\r\n");
    assert_eq!(other.seen(), b"there\r\n\x1b[31mred");
    say(&second, b" to the end");
    drop((jail, second));
    assert_eq!(relay.finish().drops.total(), 2);
    assert_eq!(other.seen(), b" to the end\x1b[m");
    assert_eq!(other.settings(), found);
}

#[test]
fn input_passes_unchanged_and_at_once() {
    let user = User::new();
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    let begun = Instant::now();
    user.type_keys(b"\x1b");
    assert_eq!(read_exactly(&jail, 1), b"\x1b");
    assert!(begun.elapsed() < SECOND / 5);
    let all: Vec<u8> = (0..=255).collect();
    user.type_keys(&all);
    assert_eq!(read_exactly(&jail, 256), all);
    relay.finish();
}

#[test]
fn ten_megabytes_of_output_pass_byte_for_byte() {
    let user = User::new();
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    let line = "\x1b[38;2;1;2;3mline ✳ 日本語 ▐\x1b[0m 0123456789 abcdefghijklmnopqrstuvwxyz\r\n".as_bytes();
    let want = line.repeat(10 * 1024 * 1024 / line.len());
    let output = want.clone();
    let writer = std::thread::spawn(move || say(&jail, &output));
    let got = read_exactly(&user.screen, want.len());
    writer.join().expect("written");
    assert!(got == want, "{} of {} bytes", got.len(), want.len());
    assert_eq!(relay.finish().drops.total(), 0);
}

#[test]
fn a_reader_that_is_slow_makes_the_jail_wait() {
    let user = User::new();
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    fcntl_setfl(&jail, OFlags::RDWR | OFlags::NONBLOCK).expect("not blocking");
    let mut taken = 0;
    while ready(&jail, PollFlags::OUT, Some(Instant::now() + SECOND / 4)) && taken < 4 << 20 {
        taken += io::write(&jail, &[b'x'; 4096]).unwrap_or(0);
    }
    assert!((4096..512 * 1024).contains(&taken), "{taken} bytes were taken");
    assert_eq!(read_exactly(&user.screen, taken).len(), taken);
    relay.finish();
}

#[test]
fn the_terminal_is_left_as_it_was_found() {
    let user = User::new();
    let found = user.settings();
    let flags = fcntl_getfl(&user.tty).expect("flags");
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    let on = b"\x1b[?1049h\x1b[>1u\x1b[?25l\x1b[?2004h\x1b[1;31m\x1b]0;no end";
    say(&jail, on);
    assert_eq!(user.seen(), b"\x1b[?1049h\x1b[>1u\x1b[?25l\x1b[?2004h\x1b[1;31m");
    assert_eq!(fcntl_getfl(&user.tty), Ok(flags), "the shell's open file description is not touched");
    drop(jail);
    let drops = relay.finish().drops;
    assert_eq!(drops.iter().collect::<Vec<_>>(), [(crate::terminal::Class::Unterminated, 1)]);
    assert_eq!(
        user.seen().escape_ascii().to_string(),
        b"\x1b[<1u\x1b[?1049l\x1b[?2004l\x1b[?25h\x1b[m".escape_ascii().to_string()
    );
    assert_eq!(user.settings(), found);
    assert_eq!(fcntl_getfl(&user.tty), Ok(flags));
}

#[test]
fn a_thread_that_unwinds_puts_the_terminal_back() {
    let user = User::new();
    let found = user.settings();
    let terminal =
        Terminal::open_on(&[user.tty.as_fd()], Sharing::Alone, Classes::default()).expect("a terminal");
    let mut filter = Filter::new(Classes::default());
    filter.push(b"\x1b[?1003h", &mut Vec::new());
    let mut worker = Worker::new(
        (terminal.screen, terminal.pty.master, terminal.pty.slave),
        (Arc::new(Control::new().expect("control")), Arc::new(control::event().expect("an event"))),
        filter,
        Sharing::Alone,
        never_stop,
    );
    worker.take_terminal().expect("taken");
    assert_ne!(user.settings(), found);
    drop(worker);
    assert_eq!(user.settings(), found);
    assert_eq!(user.seen(), b"\x1b[?1003l");
}

#[test]
fn output_of_the_last_moment_is_not_lost() {
    let user = User::new();
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    say(&jail, b"last words");
    drop(jail);
    relay.finish();
    assert_eq!(user.seen(), b"last words");
}

#[test]
fn late_answers_do_not_reach_the_users_shell() {
    let user = User::new();
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    say(&jail, b"\x1b[c");
    assert_eq!(user.seen(), b"\x1b[c");
    drop(jail);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            user.type_keys(b"\x1b[?62;4c");
        });
        relay.finish();
    });
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    make_raw(&user.tty);
    assert_eq!(read_while(&user.tty, SECOND / 10), b"");
}

#[test]
fn what_was_typed_ahead_stays_unless_an_answer_may_be_among_it() {
    for (written, left) in [(&b"text"[..], 4), (b"text\x1b[c", 0)] {
        let user = User::new();
        // Shared, so that all but the first line is left unread.
        let (relay, jail) = user.launch_with(Sharing::Shared, never_stop);
        say(&jail, written);
        user.type_keys(b"one\n");
        assert_eq!(user.left(0), 0, "one line is read");
        user.type_keys(b"two\n");
        assert_eq!(user.left(4), 4, "the other is not");
        drop(jail);
        relay.finish();
        assert_eq!(io::ioctl_fionread(&user.tty), Ok(left), "{written:?}");
    }
}

#[test]
fn a_terminal_that_goes_away_is_reported() {
    let user = User::new();
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    let User { screen, tty } = user;
    drop(screen);
    assert!(ready(relay.hung_up(), PollFlags::IN, Some(Instant::now() + SECOND)));
    // The jail is not blocked by a terminal that is gone.
    say(&jail, &[b'x'; 300_000]);
    drop((jail, tty));
    relay.finish();
}

#[test]
fn a_terminal_that_is_blocked_does_not_keep_the_launcher() {
    let user = User::new();
    let found = user.settings();
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    fcntl_setfl(&jail, OFlags::RDWR | OFlags::NONBLOCK).expect("not blocking");
    while ready(&jail, PollFlags::OUT, Some(Instant::now() + SECOND / 4)) {
        let _: io::Result<usize> = io::write(&jail, &[b'x'; 4096]);
    }
    drop(jail);
    let begun = Instant::now();
    relay.finish();
    assert!(begun.elapsed() < 6 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(user.settings(), found);
}

/// The same cases as for the filter alone, through both terminals and cut where it hurts.
#[test]
fn every_case_of_the_filter_holds_through_the_terminals() {
    let user = User::new();
    let (relay, jail) = user.launch(never_stop);
    make_raw(&jail);
    let mut filter = Filter::new(Classes::default());
    for line in include_str!("../../../tests/cases/terminal/filter.jsonl").lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let bytes = |value: &serde_json::Value| {
            BASE64_STANDARD.decode(value.as_str().expect("text")).expect("base64")
        };
        let input = bytes(&case["in"]);
        for at in [1, 2, input.len() / 2] {
            say(&jail, &input[..at]);
            // Without a pause both pieces would arrive in one.
            std::thread::sleep(Duration::from_millis(1));
            say(&jail, &input[at..]);
            let mut expected = Vec::new();
            filter.push(&input, &mut expected);
            let got = read_exactly(&user.screen, expected.len());
            assert_eq!(
                got.escape_ascii().to_string(),
                expected.escape_ascii().to_string(),
                "{}",
                case["name"]
            );
        }
    }
    relay.finish();
}

static STOPS: AtomicUsize = AtomicUsize::new(0);

fn count_stop() -> Stop {
    STOPS.fetch_add(1, Ordering::SeqCst);
    Stop::Stopped
}

/// A command whose leader stops, as `kill(0, SIGTSTP)` or Ctrl-Z make it: the terminal goes back, the launcher
/// stops; once continued, everything is as before and the command runs on.
#[test]
fn a_command_that_stops_stops_the_launcher() {
    let user = User::new();
    let found = user.settings();
    let (relay, jail) = user.launch(count_stop);
    let io = || Stdio::from(jail.try_clone().expect("a copy"));
    let mut child = Command::new("setsid")
        .args(["--ctty", "--wait", "sh", "-c", "printf '\\033[?25l'; kill -STOP $$; echo back; sleep 60"])
        .stdin(io())
        .stdout(io())
        .stderr(io())
        .process_group(0)
        .spawn()
        .expect("setsid of util-linux");
    let deadline = Instant::now() + 5 * SECOND;
    while STOPS.load(Ordering::SeqCst) == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(STOPS.load(Ordering::SeqCst), 1);
    assert_eq!(user.seen(), b"\x1b[?25l\x1b[?25h");
    assert_eq!(user.settings(), found);
    relay.continued();
    assert_eq!(user.seen(), b"\x1b[?25lback\r\n");
    assert_ne!(user.settings(), found);
    relay.hangup();
    child.wait().expect("it ended");
    drop(jail);
    relay.finish();
    assert_eq!(user.settings(), found);
}

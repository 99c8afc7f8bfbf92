//! The launcher as a job of the user's shell: what the shell and its other jobs find on the terminal.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Termios};

use super::common::{Terminal, TestEnv, children, descendants, eventually, state};

const WAIT: Duration = Duration::from_secs(30);

/// A shell with job control that leaves the terminal as its jobs left it.
fn shell(env: &TestEnv) -> (Terminal, String) {
    let mut shell = Terminal::outside(env, ["sh", "-i"]);
    shell.send(format!("PATH=$PATH:{}\r", jail_directory()));
    shell.send("PS1=prompt'> '\r");
    shell.wait_for("prompt> ");
    let settings = settings(&shell);
    (shell, settings)
}

fn jail_directory() -> String {
    let path = std::path::Path::new(env!("CARGO_BIN_EXE_ai-jail"));
    path.parent().expect("a directory").display().to_string()
}

fn settings(terminal: &Terminal) -> String {
    let Termios { input_modes, output_modes, local_modes, special_codes, .. } = terminal.modes();
    format!("{input_modes:?} {output_modes:?} {local_modes:?} {special_codes:?}")
}

/// The shell works, and the terminal is as it was.
#[track_caller]
fn usable(shell: &mut Terminal, found: &str, claim: &str) {
    assert!(eventually(WAIT, || settings(shell) == found), "{claim}: {}", settings(shell));
    // What is typed before the prompt may be the command's.
    let prompts = |shell: &Terminal| shell.raw().windows(8).rposition(|window| window == b"prompt> ");
    let ends = |shell: &Terminal| prompts(shell).is_some_and(|at| !shell.raw()[at..].contains(&b'\n'));
    assert!(eventually(WAIT, || ends(shell)), "{claim}: no prompt: {}", shell.screen());
    let mark = shell.raw().len();
    shell.send("echo after-$((40+2))\r");
    shell.wait_after(mark, "after-42");
}

fn pid(terminal: &Terminal) -> i32 {
    i32::try_from(terminal.pid()).expect("a pid")
}

/// Waits until a job of the shell has stopped.
#[track_caller]
fn stopped(shell: &Terminal) {
    let stops = || children(pid(shell)).iter().any(|(id, _)| state(*id) == Some('T'));
    assert!(eventually(WAIT, stops), "{:?}", descendants(pid(shell)));
}

/// Waits until a program of this name runs below the shell.
#[track_caller]
fn runs(shell: &Terminal, program: &str) {
    let runs = || descendants(pid(shell)).iter().any(|(_, name)| name == program);
    assert!(eventually(WAIT, runs), "{program}: {:?}", descendants(pid(shell)));
}

/// Waits until the terminal has this mode, or has it no more.
#[track_caller]
fn has_mode(shell: &Terminal, mode: LocalModes, has: bool) {
    let is = || shell.modes().local_modes.contains(mode) == has;
    assert!(eventually(WAIT, is), "{mode:?}: {}", settings(shell));
}

/// Waits until the shell's job has been continued, each process of it.
#[track_caller]
fn continued(shell: &Terminal) {
    let runs = || {
        let job = descendants(pid(shell));
        !job.is_empty() && job.iter().all(|(id, _)| state(*id) != Some('T'))
    };
    assert!(eventually(WAIT, runs), "{:?}", descendants(pid(shell)));
}

/// What a full-screen program does, and what undoes it.
const SWITCHES: &[(&str, &str)] = &[
    ("\x1b[?1049h", "\x1b[?1049l"),
    ("\x1b[?25l", "\x1b[?25h"),
    ("\x1b[?1003h", "\x1b[?1003l"),
    ("\x1b[?2004h", "\x1b[?2004l"),
    ("\x1b[?1004h", "\x1b[?1004l"),
    ("\x1b[>1u", "\x1b[<1u"),
    ("\x1b[31m", "\x1b[m"),
];

fn full_screen() -> String {
    let on: String = SWITCHES.iter().map(|(on, _)| on.replace('\x1b', "\\033")).collect();
    format!("stty raw -echo -isig; printf \"{on}\"; echo u''p; while :; do sleep 1; done")
}

fn is_switched_off(terminal: &Terminal) -> bool {
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    SWITCHES.iter().all(|(on, off)| raw.rfind(on).is_some_and(|on| raw.rfind(off) > Some(on)))
}

fn only_child(pid: i32) -> i32 {
    let found = children(pid);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].0
}

#[test]
fn whoever_is_killed_the_terminal_is_left_usable() {
    let env = TestEnv::new();
    let (mut bare, found) = shell(&env);
    bare.send(format!("sh -c '{}'\r", full_screen()));
    bare.wait_for("up");
    let job = only_child(pid(&bare));
    kill_process(Pid::from_raw(job).expect("a pid"), Signal::KILL).expect("killed");
    std::thread::sleep(Duration::from_millis(300));
    assert!(settings(&bare) != found && !is_switched_off(&bare), "control: nobody else repairs it");

    // How many generations below the shell, and the signal.
    let victims = [
        ("the supervisor", 1, Signal::KILL),
        ("the supervisor, with an alarm", 1, Signal::ALARM),
        ("the supervisor, with a fault", 1, Signal::ILL),
        ("the supervisor, out of time", 1, Signal::XCPU),
        ("the supervisor, asked for", 1, Signal::TERM),
        ("the warden", 2, Signal::KILL),
        ("bubblewrap", 3, Signal::KILL),
        ("bubblewrap's first process inside", 4, Signal::KILL),
        ("the command", 5, Signal::KILL),
    ];
    for (claim, generations, signal) in victims {
        let (mut shell, found) = shell(&env);
        shell.send(format!("ai-jail -q -- sh -c '{}'\r", full_screen()));
        shell.wait_for("up");
        let mut victim = pid(&shell);
        for _ in 0..generations {
            victim = only_child(victim);
        }
        assert!(!shell.modes().local_modes.contains(LocalModes::ICANON), "{claim}: it was raw before");
        kill_process(Pid::from_raw(victim).expect("a pid"), signal).expect("killed");
        assert!(
            eventually(WAIT, || is_switched_off(&shell)),
            "{claim}: {:?}",
            String::from_utf8_lossy(&shell.raw())
        );
        usable(&mut shell, &found, claim);
    }
}

#[test]
fn a_supervisor_killed_while_another_has_the_terminal_changes_nothing_there() {
    let env = TestEnv::new();
    let (mut shell, found) = shell(&env);
    shell.send("ai-jail -q -- sh -c 'printf \"\\033[?25lup\"; read x'\r");
    shell.wait_for("\x1b[?25lup");
    let job = only_child(pid(&shell));
    shell.send("\x1a");
    shell.wait_for("Stopped");
    shell.wait_for("\x1b[?25h");
    let before = shell.raw().windows(6).filter(|window| window == b"\x1b[?25h").count();
    let warden = only_child(job);
    kill_process(Pid::from_raw(job).expect("a pid"), Signal::KILL).expect("killed");
    // The warden ends a moment later.
    assert!(eventually(WAIT, || matches!(state(warden), None | Some('Z'))), "the warden ends");
    usable(&mut shell, &found, "it was stopped");
    let after = shell.raw().windows(6).filter(|window| window == b"\x1b[?25h").count();
    assert_eq!(before, after, "the warden had nothing to put back");
}

#[test]
fn stopped_and_continued_and_started_in_the_background_the_terminal_is_left_usable() {
    let env = TestEnv::new();
    let command = "ai-jail -q -- sh -c 'printf \"\\033[?25l\"; echo u''p; read x; echo got $x'";
    for (claim, start) in [("stopped", command.to_owned()), ("in the background", format!("{command} &"))] {
        let (mut shell, found) = shell(&env);
        shell.send(format!("{start}\r"));
        if claim == "stopped" {
            shell.wait_for("\x1b[?25lup\r\n");
            shell.send("\x1a");
        }
        shell.wait_for("prompt> ");
        if claim != "stopped" {
            stopped(&shell);
            shell.send("\r");
        }
        shell.wait_for("Stopped");
        usable(&mut shell, &found, claim);
        let mark = shell.raw().len();
        shell.send("fg\r");
        shell.wait_after(mark, "\x1b[?25l");
        continued(&shell);
        // What is typed before the launcher has the terminal may be discarded with the shell's settings.
        let taken = || !shell.modes().local_modes.contains(LocalModes::ICANON);
        assert!(eventually(WAIT, taken), "{claim}: {}", settings(&shell));
        shell.send("word\r");
        shell.wait_for("got word");
        assert!(
            eventually(WAIT, || String::from_utf8_lossy(&shell.raw()).rfind("\x1b[?25h")
                > String::from_utf8_lossy(&shell.raw()).rfind("\x1b[?25l")),
            "{claim}"
        );
        assert!(eventually(WAIT, || settings(&shell) == found), "{claim}: {}", settings(&shell));
        shell.send("echo end-$((40+2))\r");
        shell.wait_for("end-42");
    }
}

#[test]
fn the_terminal_is_asked_nothing_from_the_background() {
    let env = TestEnv::new();
    let script =
        "sh -c 'sleep 0.5; printf \"\\033[6n\\033[c\\033[>q\\033]11;?\\007plain\\040text\"; sleep 0.2'";
    let asked = |terminal: &Terminal| {
        let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
        ["\x1b[6n", "\x1b[c", "\x1b[>q", "\x1b]11;?"].iter().any(|query| raw.contains(query))
    };
    let (mut bare, _) = shell(&env);
    bare.send(format!("{script} &\r"));
    bare.wait_for("plain text");
    assert!(asked(&bare), "control: a bare command asks");

    let (mut shell_, _) = shell(&env);
    shell_.send(format!("ai-jail -q -- {script} &\r"));
    stopped(&shell_);
    shell_.send("\r");
    shell_.wait_for("Stopped");
    assert!(!asked(&shell_), "{:?}", String::from_utf8_lossy(&shell_.raw()));
    shell_.send("fg\r");
    shell_.wait_for("\x1b[6n");
    shell_.wait_for("plain text");

    // One that nobody could continue does not stop; its text passes and nothing else.
    let (mut orphan, _) = shell(&env);
    orphan.send(format!("(ai-jail -q -- {script} &)\r"));
    assert!(eventually(WAIT, || orphan.raw().ends_with(b"plain text")), "{}", orphan.screen());
    assert!(!asked(&orphan), "{:?}", String::from_utf8_lossy(&orphan.raw()));
}

#[test]
fn a_pipeline_keeps_the_terminal_in_the_users_mode() {
    let env = TestEnv::new();
    let table = [
        ("output into a pipe", "ai-jail -q sh -c 'echo o''ne >&2; sleep 0.3; echo t''wo >&2' | cat"),
        ("output from a pipe", "echo x | ai-jail -q sh -c 'echo o''ne; sleep 0.3; echo t''wo'"),
        ("output into a file", "ai-jail -q sh -c 'echo o''ne >&2; sleep 0.3; echo t''wo >&2' > file"),
        (
            "two jails in one pipeline",
            "ai-jail -q sh -c 'echo o''ne >&2; sleep 1' | (sleep 0.4; exec ai-jail -q sh -c 'sleep 1; echo t''wo')",
        ),
        ("a bare command beside", "ai-jail -q sh -c 'sleep 0.3' | sh -c 'echo o''ne; sleep 0.1; echo t''wo'"),
    ];
    for (claim, line) in table {
        let (mut shell, found) = shell(&env);
        shell.send(format!("{line}\r"));
        shell.wait_for("one\r\n");
        assert_eq!(settings(&shell), found, "{claim}: while it runs");
        shell.wait_for("two\r\n");
        assert!(!shell.raw().windows(2).any(|pair| pair == b"\r\r"), "{claim}: {}", shell.screen());
        usable(&mut shell, &found, claim);
    }
}

#[test]
fn the_command_of_a_pipeline_may_change_the_terminal_and_read_it() {
    let env = TestEnv::new();
    let (mut shell, found) = shell(&env);
    shell.send("ai-jail -q sh -c 'stty -echo; printf pass: >&2; read x; stty echo; echo g''ot $x; cat' | sed 's/^/> /'\r");
    shell.wait_for("pass:");
    // What `stty` said inside holds outside a moment later.
    has_mode(&shell, LocalModes::ECHO, false);
    shell.send("secret\r");
    shell.send("visible\r");
    shell.wait_for("visible\r\n");
    shell.send("\x04");
    shell.wait_for("> got secret\r\n> visible\r\n");
    let text = String::from_utf8_lossy(&shell.raw()).into_owned();
    assert_eq!(text.matches("secret").count(), 1, "{text:?}");
    usable(&mut shell, &found, "a password was asked for");
    shell.send("seq 1000 | ai-jail -q sh -c 'stty raw -echo < /dev/tty; echo u''p; dd bs=1 count=1 < /dev/tty 2>/dev/null | od -c'\r");
    shell.wait_for("up");
    has_mode(&shell, LocalModes::ICANON, false);
    shell.send("K");
    shell.wait_for("0000000   K");
    usable(&mut shell, &found, "a key was asked for");
}

#[test]
fn interrupt_and_stop_reach_the_whole_pipeline() {
    let env = TestEnv::new();
    let (mut shell, found) = shell(&env);
    let line =
        "ai-jail -q sh -c 'echo u''p >&2; sleep 60' | sh -c 'trap \"echo o''ther; exit\" INT; sleep 61'";
    shell.send(format!("{line}\r"));
    shell.wait_for("up\r\n");
    shell.send("\x1a");
    shell.wait_for("Stopped");
    usable(&mut shell, &found, "it was stopped");
    shell.send("fg\r");
    continued(&shell);
    shell.send("\x03");
    shell.wait_for("other");
    assert!(eventually(WAIT, || children(pid(&shell)).is_empty()));
    assert!(eventually(WAIT, || settings(&shell) == found), "{}", settings(&shell));
}

#[test]
fn an_interrupt_ends_the_loop_or_script_around_the_launcher_too() {
    let env = TestEnv::new();
    let (mut shell, found) = shell(&env);
    for launcher in ["", "ai-jail -q "] {
        for around in ["LOOP", "bash -c 'LOOP'", "sh -c 'LOOP'"] {
            let body =
                format!("for i in 1 2; do echo round-$i-up; {launcher}sleep 30; done; echo all-do''ne");
            let mark = shell.raw().len();
            shell.send(format!("clear; {}\r", around.replace("LOOP", &body)));
            shell.wait_after(mark, "round-1-up\r\n");
            runs(&shell, "sleep");
            shell.send("\x03");
            usable(&mut shell, &found, &format!("{launcher}{around}"));
            let last = String::from_utf8_lossy(&shell.raw()[mark..]).into_owned();
            assert!(
                !last.contains("round-2-up") && !last.contains("all-done"),
                "{launcher}{around}: {last:?}"
            );
        }
    }
    // A command that handles the key itself and goes on to end with that status interrupts nobody.
    shell.send("clear; for i in 1 2; do echo turn-$i-up; ai-jail -q sh -c 'stty -isig; head -c 1 >/dev/null; exit 130'; done\r");
    for turn in ["turn-1-up\r\n", "turn-2-up\r\n"] {
        shell.wait_for(turn);
        runs(&shell, "head");
        shell.send("\x03\r");
    }
    usable(&mut shell, &found, "handled");
}

#[test]
fn two_terminals_stay_two() {
    let env = TestEnv::new();
    let other = Terminal::outside(&env, ["sh", "-c", "tty; sleep 60"]);
    other.wait_for("\r\n");
    let name = String::from_utf8_lossy(&other.raw()).trim().to_owned();
    let (mut shell, found) = shell(&env);
    let contains = |terminal: &Terminal, text: &str| String::from_utf8_lossy(&terminal.raw()).contains(text);
    for (launcher, round) in [("", "1"), ("ai-jail -q ", "2")] {
        shell.send(format!(
            "{launcher}sh -c 'echo h\"\"ere-{round} >&2; printf \"\\033]52;c;aGk=\\007th\"\"ere-{round}\"' > {name}\r"
        ));
        other.wait_for(&format!("there-{round}"));
        shell.wait_for(&format!("here-{round}\r\n"));
        assert!(!contains(&shell, &format!("there-{round}")), "{}", shell.screen());
        usable(&mut shell, &found, launcher);
    }
    for line in ["here-1\r\n", "here-2\r\n"] {
        assert!(!contains(&other, line), "{}", other.screen());
    }
    let raw = String::from_utf8_lossy(&other.raw()).into_owned();
    assert_eq!(raw.matches("]52;").count(), 1, "the bare command's passes, the jail's does not: {raw:?}");
}

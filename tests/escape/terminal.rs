//! The terminal is output only, and is left as it was found.

use std::time::Duration;

use super::common::{Terminal, TestEnv, children, eventually, has_terminal, state};

const WAIT: Duration = Duration::from_secs(30);

/// The one job of a shell: its process.
#[track_caller]
fn only_child(shell: &Terminal) -> i32 {
    let found = children(i32::try_from(shell.pid()).expect("a pid"));
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].0
}

#[test]
fn the_terminal_inside_is_not_the_users() {
    let env = TestEnv::new();
    let script = "for f in /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /dev/tty; do stat -L -c 'is %d:%r' $f; done; tty; echo end";
    let mut outside = Terminal::outside(&env, ["sh", "-c", script]);
    outside.wait(WAIT);
    let mut inside = Terminal::jail(&env, ["-q", "--", "sh", "-c", script]);
    inside.wait_for("end");
    assert_eq!(inside.wait(WAIT), Some(0));
    let terminals = |terminal: &Terminal| {
        String::from_utf8_lossy(&terminal.raw())
            .lines()
            .filter(|line| line.starts_with("is "))
            .take(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (outside, inside) = (terminals(&outside), terminals(&inside));
    assert_eq!((outside.len(), inside.len()), (3, 3), "{outside:?} {inside:?}");
    assert!(inside.iter().all(|line| !outside.contains(line)), "outside {outside:?}, inside {inside:?}");
}

#[test]
fn descriptors_of_the_users_terminal_do_not_enter() {
    let env = TestEnv::new();
    env.probe();
    let mut inside = Terminal::jail(&env, ["-q", "--", "./probe", "fds"]);
    assert_eq!(inside.wait(WAIT), Some(0), "{}", inside.screen());
    inside.wait_for("\"open\"");
    let text = String::from_utf8_lossy(&inside.raw()).into_owned();
    let line = text.lines().find(|line| line.starts_with('{')).expect("a report");
    let report: serde_json::Value = serde_json::from_str(line.trim()).expect("JSON");
    let open = report["open"].as_object().expect("descriptors");
    assert_eq!(open.keys().map(String::as_str).collect::<Vec<_>>(), ["0", "1", "2"], "{report}");
}

#[test]
fn the_clipboard_cannot_be_written_by_any_stream() {
    let env = TestEnv::new();
    let osc52 = "\\033]52;c;aGVsbG8=\\007";
    let split = format!(
        "printf '\\033]5'; sleep 0.1; printf '2;c;aGVsbG8=\\033\\\\'; printf '{osc52}' >&2; printf '{osc52}' > /dev/tty; printf '{osc52}'; printf '\\302\\2355'; printf '2;c;aGVsbG8=\\007'; echo end"
    );
    let found = |terminal: &Terminal| terminal.raw().windows(4).any(|window| window == b"]52;");
    let outside = Terminal::outside(&env, ["sh", "-c", &split]);
    outside.wait_for("end");
    assert!(found(&outside), "control: it passes outside");
    let mut inside = Terminal::jail(&env, ["-q", "--", "sh", "-c", &split]);
    inside.wait_for("end");
    assert_eq!(inside.wait(WAIT), Some(0));
    assert!(!found(&inside), "it came through: {:?}", String::from_utf8_lossy(&inside.raw()));
    let controls = inside.raw().iter().filter(|byte| **byte == 0x1b || (0x80..0xa0).contains(*byte)).count();
    assert_eq!(controls, 0, "{:?}", String::from_utf8_lossy(&inside.raw()));
}

#[test]
fn a_stream_that_is_a_terminal_is_filtered_when_the_others_are_not() {
    let env = TestEnv::new();
    env.probe();
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    for streams in ["</dev/null", "| cat", "2>/dev/null", "</dev/null 2>/dev/null"] {
        let inner = "printf \"\\033]52;c;aGk=\\007\" > /dev/tty; printf \"\\033]52;c;aGk=\\007\" >&2; printf \"\\033]52;c;aGk=\\007\"";
        let script =
            format!("{jail} -q -- sh -c '({inner}) 2>/dev/null; {inner}; true' {streams} | cat -v; echo end");
        let script = if streams == "| cat" { script } else { script.replace(" | cat -v", "") };
        let terminal = Terminal::outside(&env, ["sh", "-c", &script]);
        terminal.wait_for("end");
        let raw = terminal.raw();
        assert!(
            !raw.windows(5).any(|window| window == b"\x1b]52;"),
            "{streams}: {:?}",
            String::from_utf8_lossy(&raw)
        );
    }
}

#[test]
fn the_window_size_is_right_at_the_start_and_after_a_resize() {
    let env = TestEnv::new();
    let script = "stty size; trap 'echo now $(stty size)' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::jail(&env, ["-q", "--", "sh", "-c", script]);
    terminal.wait_for("24 80");
    terminal.wait_for("ready");
    terminal.resize(33, 101);
    terminal.wait_for("now 33 101");
    terminal.send("\x03");
    assert_eq!(terminal.wait(WAIT), Some(130), "Ctrl-C ends the command: {}", terminal.screen());
}

#[test]
fn keys_arrive_and_the_terminal_is_left_as_it_was_found() {
    let env = TestEnv::new();
    for ending in [
        "exit 7",
        "kill -KILL $$",
        "stty raw -echo; printf '\\033[?1049h\\033[?25l\\033[?1000h\\033[?2004h'; kill -SEGV $$",
    ] {
        let script = format!("echo ready; read line; echo got $line; {ending}");
        let mut terminal = Terminal::jail(&env, ["-q", "--", "sh", "-c", &script]);
        terminal.wait_for("ready");
        terminal.send("typed\r");
        terminal.wait_for("got typed");
        assert!(terminal.wait(WAIT).is_some(), "{ending}: the jail ends");
        let modes = terminal.modes();
        assert!(modes.local_modes.contains(rustix::termios::LocalModes::ICANON), "{ending}: cooked mode");
        assert!(modes.local_modes.contains(rustix::termios::LocalModes::ECHO), "{ending}: echo");
        if ending.starts_with("stty") {
            // The reader of the terminal may be behind the end of the process.
            terminal.wait_for("\x1b[?1049l");
            let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
            for (on, off) in [
                ("\x1b[?1049h", "\x1b[?1049l"),
                ("\x1b[?25l", "\x1b[?25h"),
                ("\x1b[?1000h", "\x1b[?1000l"),
                ("\x1b[?2004h", "\x1b[?2004l"),
            ] {
                let (on_at, off_at) = (raw.rfind(on), raw.rfind(off));
                assert!(on_at.is_some() && off_at > on_at, "{on:?} is switched off again: {raw:?}");
            }
        }
    }
}

#[test]
fn ctrl_z_stops_and_fg_continues() {
    let env = TestEnv::new();
    let mut shell = Terminal::outside(&env, ["bash", "--norc", "--noprofile", "-i"]);
    shell.send("PS1='prompt> '\r");
    shell.wait_for("prompt> ");
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    shell.send(format!("{jail} -q -- sh -c 'echo up; read x; echo got $x'\r"));
    shell.wait_for("up\r\n");
    shell.send("\x1a");
    shell.wait_for("Stopped");
    shell.send("fg\r");
    // What is typed before the launcher has the terminal may be discarded with the shell's settings.
    let launcher = only_child(&shell);
    let taken = || {
        let raw = !shell.modes().local_modes.contains(rustix::termios::LocalModes::ICANON);
        has_terminal(launcher) && state(launcher) != Some('T') && raw
    };
    assert!(eventually(WAIT, taken), "{}", shell.screen());
    shell.send("word\r");
    shell.wait_for("got word");
}

/// Waits until `shell` says that its job is `state`. A shell hears of a change a moment after the kernel made it, and its
/// answer before that holds for that moment: it is asked anew.
#[track_caller]
fn wait_for_job(shell: &mut Terminal, state: &str) {
    let said = format!("job [1]+ {state}");
    let found = eventually(WAIT, || {
        shell.send("echo job $(jobs)\r");
        eventually(Duration::from_millis(500), || String::from_utf8_lossy(&shell.raw()).contains(&said))
    });
    assert!(found, "the job is never {state}: {}", shell.screen());
}

#[test]
fn a_launcher_in_the_background_stops_and_goes_on_as_it_is_told() {
    let env = TestEnv::new();
    env.file("count", "i=0; while :; do i=$((i+1)); echo $i > counted; sleep 0.05; done");
    let counted = || std::fs::read_to_string(env.project().join("counted")).unwrap_or_default();
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    for command in ["sh count".to_owned(), format!("{jail} -q -- sh count")] {
        let mut shell = Terminal::outside(&env, ["bash", "--norc", "--noprofile", "-i"]);
        let _ = std::fs::remove_file(env.project().join("counted"));
        shell.send(format!("{command} &\r"));
        assert!(eventually(WAIT, || !counted().is_empty()), "{command}: {}", shell.screen());
        shell.send("kill -TSTP $!\r");
        let job = only_child(&shell);
        assert!(eventually(WAIT, || state(job) == Some('T')), "{command}: {}", shell.screen());
        wait_for_job(&mut shell, "Stopped");
        let before = counted();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(counted(), before, "{command}: it is stopped inside too");
        shell.send("kill -CONT $!\r");
        assert!(eventually(WAIT, || state(job) != Some('T')), "{command}: {}", shell.screen());
        wait_for_job(&mut shell, "Running");
        assert!(eventually(WAIT, || counted() != before), "{command}: it goes on");
        shell.send("kill %1; wait %1; echo ended $?\r");
        shell.wait_for("ended 143");
    }
}

#[test]
fn a_stop_signal_from_inside_stops_nothing_for_good() {
    let env = TestEnv::new();
    let mut shell = Terminal::outside(&env, ["bash", "--norc", "--noprofile", "-i"]);
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    shell.send(format!("{jail} -q -- sh -c 'echo up; kill -TSTP 0; echo resumed'; echo over $?\r"));
    shell.wait_for("up\r\n");
    let launcher = only_child(&shell);
    let over = || String::from_utf8_lossy(&shell.raw()).contains("over ");
    assert!(eventually(WAIT, || state(launcher) == Some('T') || over()), "{}", shell.screen());
    shell.send("\rfg\r");
    shell.wait_for("resumed");
}

const COPY: &str = "printf '\\033]52;c;cm0gLXJmIH4NCg==\\007\\033]52;c;?\\007'; echo end";

#[test]
fn a_copy_that_was_tried_is_said_once_with_the_way_to_allow_it() {
    let env = TestEnv::new();
    let twice = format!("{COPY}; {COPY}");
    let mut terminal = Terminal::jail(&env, ["--", "sh", "-c", &twice]);
    assert_eq!(terminal.wait(WAIT), Some(0));
    terminal.wait_for("stripped 4 terminal sequences");
    let hint = "the command tried to copy to the clipboard; clipboard_write = true in [terminal]";
    terminal.wait_for(hint);
    let text = String::from_utf8_lossy(&terminal.raw()).into_owned();
    assert_eq!(text.matches(hint).count(), 1, "{text}");
}

#[test]
fn what_is_said_at_the_end_begins_a_line() {
    let env = TestEnv::new();
    for (last, want) in [("END", "END\r\nai-jail: "), ("END\\n", "END\r\nai-jail: ")] {
        let mut terminal =
            Terminal::jail(&env, ["-q", "--", "sh", "-c", &format!("{COPY}; printf '{last}'")]);
        assert_eq!(terminal.wait(WAIT), Some(0));
        terminal.wait_for("stripped 2 terminal sequences");
        let text = String::from_utf8_lossy(&terminal.raw()).into_owned();
        assert!(text.contains(want), "{text:?}");
    }
}

#[test]
fn a_copy_that_is_allowed_passes_and_is_shown_escaped_at_the_end() {
    let env = TestEnv::new();
    env.config("[terminal]\nclipboard_write = true\n");
    let mut terminal = Terminal::jail(&env, ["-q", "--", "sh", "-c", COPY]);
    assert_eq!(terminal.wait(WAIT), Some(0));
    terminal.wait_for("ai-jail: copied to the clipboard (10 bytes): \"rm -rf ~\\r\\n\"");
    let raw = terminal.raw();
    let found = |text: &[u8]| raw.windows(text.len()).any(|window| window == text);
    assert!(found(b"\x1b]52;c;cm0gLXJmIH4NCg==\x07"), "the copy passes");
    assert!(!found(b"\x1b]52;c;?"), "the query does not");
    let mut lockdown = Terminal::jail(&env, ["--lockdown", "--", "sh", "-c", COPY]);
    assert_eq!(lockdown.wait(WAIT), Some(0));
    lockdown.wait_for("ignored terminal.clipboard_write (line 2)");
    // The last that is said: all that the command wrote came before.
    lockdown.wait_for("stripped 2 terminal sequences");
    assert!(!String::from_utf8_lossy(&lockdown.raw()).contains("]52;"), "{}", lockdown.screen());
}

#[test]
fn a_project_opens_nothing_of_the_terminal() {
    let env = TestEnv::new();
    env.file(
        ".ai-jail.toml",
        "[terminal]\nfilter = false\nclipboard_write = true\nimages = true\ntitle = false\n",
    );
    let script = format!("printf '\\033]0;named\\007\\033Pq#0~\\033\\\\'; {COPY}");
    let mut terminal = Terminal::jail(&env, ["-q", "--", "sh", "-c", &script]);
    assert_eq!(terminal.wait(WAIT), Some(0));
    terminal.wait_for("ignored terminal.images (line 4)");
    terminal.wait_for("ignored terminal.filter (line 2), terminal.clipboard_write (line 3)");
    terminal.wait_for("stripped 4 terminal sequences");
    let text = String::from_utf8_lossy(&terminal.raw()).into_owned();
    for sequence in ["\x1b]52;", "\x1bP", "\x1b]0;"] {
        assert!(!text.contains(sequence), "{sequence:?}: {text:?}");
    }
}

#[test]
fn a_filter_that_the_user_switched_off_is_said_and_modes_are_put_back() {
    let env = TestEnv::new();
    env.config("[terminal]\nfilter = false\n");
    let script = format!("printf '\\033[?1003h'; {COPY}");
    let mut terminal = Terminal::jail(&env, ["-q", "--", "sh", "-c", &script]);
    assert_eq!(terminal.wait(WAIT), Some(0));
    // The reader of the terminal may be behind.
    terminal.wait_for("warning: the terminal filter is off");
    terminal.wait_for("\x1b]52;c;?\x07");
    terminal.wait_for("\x1b[?1003l");
}

//! tmux as a witness: a real terminal with a clipboard that can be read, modes that can be asked for, and a picture that can
//! be compared.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::common::{Feature, Output, TestEnv, descendants, eventually, output_of};
use super::unique;

const WAIT: Duration = Duration::from_secs(60);
const SEQUENCES: u32 = 2400;

/// A tmux server of its own with one pane of 100 columns and 30 lines.
struct Tmux<'a> {
    env: &'a TestEnv,
    /// Of one server each: the last one may still be on its way out.
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    /// Runs `script` in the pane. `None`, with the reason printed, without tmux.
    fn start(env: &'a TestEnv, claim: &str, script: &str) -> Option<Self> {
        if !Feature::Program("tmux").needed_for(claim) {
            return None;
        }
        let tmux = Self { env, socket: env.run_dir().join(unique("tmux")) };
        let settings = "set -g set-clipboard on\nset -g buffer-limit 9999\nset -g allow-passthrough on\nset -g remain-on-exit on\n\
                        set -g default-terminal tmux-256color\n";
        let settings = env.file(env.home().join("tmux.conf"), settings);
        let settings = settings.to_str().expect("UTF-8");
        tmux.ask(&["-f", settings, "new-session", "-d", "-x", "100", "-y", "30", script]).ok();
        Some(tmux)
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command: Command = self.env.command("tmux");
        output_of(command.arg("-S").arg(&self.socket).args(arguments), WAIT)
    }

    fn show(&self, format: &str) -> String {
        self.ask(&["display-message", "-p", format]).ok().trim_end().to_owned()
    }

    fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"]).ok().to_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat()).ok();
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        let found = eventually(WAIT, || self.screen().contains(text));
        assert!(found, "{text:?} never came; the screen is:\n{}", self.screen());
    }

    /// What was copied into its clipboard.
    fn buffers(&self) -> String {
        self.ask(&["list-buffers", "-F", "#{buffer_sample}"]).ok().to_owned()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}

/// A small generator: the same sequences on every machine.
struct Dice(u64);

impl Dice {
    fn one_of<'a>(&mut self, choices: &[&'a [u8]]) -> &'a [u8] {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        choices[(self.0 >> 20) as usize % choices.len()]
    }
}

/// Attempts to copy `copied-N`, wrapped in whatever could hide it, and to have the title told.
fn hostile_sequences() -> Vec<u8> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut all = Vec::new();
    for number in 0..SEQUENCES {
        all.extend(dice.one_of(&[
            b"",
            b"",
            b"",
            b"\xe2\x9c",
            b"\xf0",
            b"\x1b",
            b"\x1b[",
            b"\x1b[1;",
            b"\x1b%@",
            b"\x1b%G",
            b"\x0e",
            b"\x1bP",
            b"\x1b_",
            b"\x1b^",
            b"\x1bX",
            b"\x1bk",
            b"\x1b]0;",
            b"\x18",
            b"\x1b\\",
            b"\x1bP$q",
            b"\x1b[?",
            b"\x1b]8;;http://a",
        ]));
        let mut inner = dice
            .one_of(&[
                b"\x1b]",
                b"\x1b]",
                b"\x1b]",
                b"\x9d",
                b"\xc2\x9d",
                b"\x1b\0]",
                b"\x1b\x07]",
                b"\x1b\x7f]",
                b"\x1b\x1b]",
                b"\x1b[\x1b]",
                b"\x1b]x\x18\x1b]",
                b"\x1b(\x1b]",
                b"\x9b\x1b]",
            ])
            .to_vec();
        inner.extend(dice.one_of(&[b"52;", b"52;", b"52;", b"052;", b"0052;", b"5\x002;", b"\x0852;"]));
        inner.extend(dice.one_of(&[b"c;", b"c;", b"p;", b"s;", b";", b"c0;", b"cps01234567;"]));
        inner.extend(BASE64_STANDARD.encode(format!("copied-{number}")).bytes());
        inner.extend(dice.one_of(&[
            b"\x07",
            b"\x07",
            b"\x1b\\",
            b"\x1b\\",
            b"\x9c",
            b"\xc2\x9c",
            b"\x18\x07",
            b"\x1b\0\\",
        ]));
        match dice.one_of(&[b"", b"", b"tmux", b"screen"]) {
            b"tmux" => {
                all.extend(b"\x1bPtmux;");
                all.extend(
                    inner.iter().flat_map(|byte| if *byte == 0x1b { vec![0x1b; 2] } else { vec![*byte] }),
                );
                all.extend(b"\x1b\\");
            }
            b"screen" => {
                all.extend(b"\x1bP");
                all.extend(inner);
                all.extend(b"\x1b\\");
            }
            _ => all.extend(inner),
        }
        all.extend(dice.one_of(&[
            b"",
            b"\r\n",
            b"text",
            b"\x1b]2;told-title\x07\x1b[21t",
            b"\x1b[20t",
            b"\x05",
            b"\x1bP$qtold-title\x1b\\",
            b"\x1b]52;c;?\x07",
            b"\x1b[?1;1;1;1;1;1*y",
        ]));
        // A string that was left open ends here, for the control to get through.
        all.extend(dice.one_of(&[b"\x18\x1b\\", b"\x07\x1b\\", b"\x1b\\", b"\n"]));
    }
    all
}

#[test]
fn no_sequence_of_thousands_reaches_the_clipboard_or_has_the_title_told() {
    let claim = "tmux's clipboard stays empty";
    // Reads what the terminal answers until its answer to the last question, so that nothing is on its way any more.
    let attack = "#!/bin/sh\nstty raw -echo; cat sequences; printf '\\030\\033\\\\\\033[c'; \
                  timeout --foreground 3 cat > answers; stty sane\n";
    let env = TestEnv::new();
    env.file("sequences", hostile_sequences());
    env.script("attack", attack);
    {
        let outside = Tmux::start(&env, claim, "./attack; echo over");
        let Some(outside) = outside else { return };
        outside.wait_for("over");
        let copied = outside.buffers().lines().count();
        assert!(copied > 300, "control: {copied} of {SEQUENCES} copies get through outside");
    }
    // tmux tells nothing of a title, but it answers; what came is looked at in both runs.
    let answers = || std::fs::read(env.project().join("answers")).expect("answers");
    assert!(answers().windows(3).any(|window| window == b"\x1b[?"), "control: {}", answers().escape_ascii());

    let jail = env!("CARGO_BIN_EXE_ai-jail");
    let script = format!(
        "{jail} -q -- ./attack; stty raw -echo; timeout --foreground 1 cat > leftover; stty sane; echo over $?"
    );
    let tmux = Tmux::start(&env, claim, &script).expect("tmux");
    tmux.wait_for("over");
    assert_eq!(tmux.buffers(), "", "\n{}", tmux.screen());
    let answers = answers();
    assert!(answers.windows(3).any(|window| window == b"\x1b[?"), "{}", answers.escape_ascii());
    for told in [&b"told-title"[..], b"copied", b"Y29w"] {
        assert!(!answers.windows(told.len()).any(|window| window == told), "{}", answers.escape_ascii());
    }
    let leftover = std::fs::read(env.project().join("leftover")).expect("leftover");
    assert!(leftover.is_empty(), "the shell got {}", leftover.escape_ascii());
    assert_eq!(tmux.show("#{pane_width} #{pane_height} #{pane_in_mode}"), "100 30 0");
    tmux.wait_for("terminal sequences: ");
}

/// Everything that a full-screen program switches on, as tmux tells it.
const MODES: &str = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_cursor_flag} #{keypad_flag} #{wrap_flag} \
                     #{scroll_region_upper}-#{scroll_region_lower} #{origin_flag} #{insert_flag}";

#[test]
fn whichever_process_is_killed_the_shell_is_usable() {
    let env = TestEnv::new();
    let claim = "the shell after a SIGKILL";
    let full_screen = "printf '\\033[?1049h\\033[?25l\\033[?1003h\\033[?1006h\\033[?2004h\\033[?1h\\033=\\033[3;9r\\033[31m\\033[?7l\\033)0\\016'; \
                       stty raw -echo; echo up; sleep 1000";
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    let Some(tmux) = Tmux::start(&env, claim, "exec bash --norc --noprofile -i") else { return };
    tmux.keys(&["PS1='ready> '; clear", "Enter"]);
    tmux.wait_for("ready>");
    let before = tmux.show(MODES);
    env.script("full", &format!("#!/bin/sh\n{full_screen}\n"));
    let shell: i32 = tmux.show("#{pane_pid}").parse().expect("a pid");
    let mut killed = 0;
    for victim in 0.. {
        tmux.keys(&["clear", "Enter"]);
        tmux.keys(&[&format!("{jail} -q -- ./full"), "Enter"]);
        let up = eventually(WAIT, || {
            let modes = tmux.show("#{alternate_on}#{mouse_any_flag}");
            modes == "11" && descendants(shell).iter().any(|(_, name)| name.starts_with("sleep"))
        });
        assert!(up, "victim {victim}: {}", tmux.screen());
        let processes = descendants(shell);
        assert!(processes.len() >= 4, "supervisor, warden, bubblewrap and the command: {processes:?}");
        let Some((pid, name)) = processes.get(victim) else {
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(processes[0].0).expect("a pid"),
                rustix::process::Signal::TERM,
            )
            .expect("the last one ends");
            break;
        };
        let pid = rustix::process::Pid::from_raw(*pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
        tmux.keys(&[]);
        let restored = eventually(WAIT, || tmux.show(MODES) == before);
        assert!(restored, "after the end of {name}: {} instead of {before}", tmux.show(MODES));
        let mut settings = String::new();
        let usable = eventually(WAIT, || {
            tmux.keys(&["-l", &format!("clear; stty -a | grep -o -e '-*icanon' -e '-*echo ' | tr -d '\\n'; echo usable $((40 + {victim}))")]);
            tmux.keys(&["Enter"]);
            std::thread::sleep(Duration::from_millis(300));
            settings = tmux.screen();
            settings.contains(&format!("usable {}", 40 + victim))
        });
        assert!(usable, "after the end of {name}: {settings}");
        assert!(
            settings.contains("icanonecho usable") && !settings.contains("-icanon"),
            "after the end of {name}: {settings}"
        );
        let gone = eventually(WAIT, || descendants(shell).is_empty());
        assert!(gone, "after the end of {name}: {:?}", descendants(shell));
        killed += 1;
    }
    assert!(killed >= 4, "{killed}");
}

#[test]
fn whatever_a_command_leaves_behind_the_shell_is_as_before() {
    let env = TestEnv::new();
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    let Some(tmux) = Tmux::start(&env, "what is put back at exit", "exec bash --norc --noprofile -i") else {
        return;
    };
    tmux.keys(&["PS1='ready> '; clear", "Enter"]);
    tmux.wait_for("ready>");
    let before = tmux.show(MODES);
    let left = [
        r"\033[?25l\033c",
        r"\033[?25l\033[!p",
        r"\033[?25l\033[3;5r\033(0\033[31m\033[?1h\033=\033c",
        r"\033[?1049h\033[?1003h\033[?7l\033[31m\033c",
        r"\033(0\033[31;8m\0337\033(B\033[m\0338",
        r"\033[31;8m\033[?1049hX",
        r"\033[31;8m\033[s\033[m\033[u",
        r"\033[31;8m\033[?1049h\033[m\033[?1049l",
    ];
    for (number, sequence) in left.into_iter().enumerate() {
        env.script("leave", &format!("#!/bin/sh\nprintf '{sequence}'\n"));
        tmux.keys(&[&format!("{jail} -q -- ./leave; clear; echo qqq-plain-$((40 + {number}))"), "Enter"]);
        tmux.wait_for(&format!("qqq-plain-{}", 40 + number));
        assert_eq!(tmux.show(MODES), before, "{sequence}");
        let coloured = tmux.ask(&["capture-pane", "-p", "-e"]).ok().to_owned();
        assert!(!coloured.contains('\x1b') && !coloured.contains('\x0e'), "{sequence}: {coloured:?}");
    }
}

#[test]
fn full_screen_programs_look_the_same_inside() {
    let env = TestEnv::new();
    let claim = "vim and less in tmux";
    let text: String =
        (1..200).map(|line| format!("line {line}: ✳ ▐ 日本語 größe {}\n", "x".repeat(line % 90))).collect();
    env.file("text", text);
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    for (program, command, steps, quit) in [
        (
            "less",
            "less -R text",
            &[&["Space"][..], &["/", "line 77", "Enter"], &["G"], &["b"]][..],
            &["q"][..],
        ),
        (
            "vim",
            "vim -N -u NONE -i NONE text",
            &[&["G"][..], &[":17", "Enter"], &["i", "typed here", "Escape"], &["o", "Escape"]],
            &[":q!", "Enter"],
        ),
    ] {
        if !Feature::Program(program).needed_for(claim) {
            continue;
        }
        let look = |script: &str| {
            let tmux = Tmux::start(&env, claim, script)?;
            tmux.wait_for("line 1:");
            let mut screens = vec![settled(&tmux)];
            for keys in steps {
                tmux.keys(keys);
                screens.push(settled(&tmux));
            }
            tmux.ask(&["resize-window", "-x", "70", "-y", "20"]).ok();
            screens.push(settled(&tmux));
            tmux.keys(quit);
            tmux.wait_for("over 0");
            assert_eq!(tmux.show("#{alternate_on}"), "0");
            Some(screens)
        };
        let Some(outside) = look(&format!("{command}; echo over $?; read x")) else { return };
        let inside = look(&format!("{jail} -q -- {command}; echo over $?; read x")).expect("tmux");
        for (step, (outside, inside)) in outside.iter().zip(&inside).enumerate() {
            assert_eq!(inside, outside, "{program}, step {step}");
        }
        assert!(
            outside.windows(2).all(|pair| pair[0] != pair[1]),
            "every step shows something: {outside:#?}"
        );
    }
}

/// The screen once it stays the same.
fn settled(tmux: &Tmux<'_>) -> String {
    let mut last = String::new();
    let mut same = 0;
    eventually(WAIT, || {
        std::thread::sleep(Duration::from_millis(150));
        let now = tmux.screen();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 3
    });
    last
}

//! The in-jail stage under a real bwrap. This program is the launcher of the stage, and the stage itself.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; clippy does not take a program with its own main for one"
)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use ai_jail::plan::inner::{InnerLandlock, InnerSpec, InnerTerminal, Resource, Rlimit, StageReport};
use ai_jail::plan::seccomp::{Arch, Debuggers, program};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|first| first == "stage") {
        return ExitCode::from(ai_jail::inner::run(&args[1..]));
    }
    if args.iter().any(|arg| arg == "--list") {
        println!("the_stage_under_bwrap: test");
        return ExitCode::SUCCESS;
    }
    if Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_err() {
        let required = std::env::var("AI_JAIL_TEST_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "bwrap"), "bwrap is required");
        println!("skipped: bwrap is not installed");
        return ExitCode::SUCCESS;
    }
    for case in cases() {
        case.check();
        println!("{} ... ok", case.claim);
    }
    ExitCode::SUCCESS
}

/// One launch. The command sees a writable directory as its current one, with a few files (see `Case::check`).
struct Case {
    claim: &'static str,
    /// The program, absolute or in that directory, and its arguments.
    command: &'static [&'static str],
    /// What the launcher says at the door; nothing means that it goes away.
    word: &'static [u8],
    start: Start,
    expect: Expect,
}

/// What is special about the start.
#[derive(PartialEq)]
enum Start {
    Plain,
    WithoutSeccomp,
    WithCapability,
    /// A terminal as the three streams, and a session of its own.
    OnTerminal,
    /// Standard error as a third descriptor.
    ErrorApart,
    /// A limit that is above the hard one.
    TooManyFiles,
}

enum Expect {
    /// It runs, exits with 0 and prints this.
    Output(&'static str),
    /// It runs and exits with this.
    Status(i32),
    /// It does not run: the exit status and a part of the reason.
    Refusal(i32, &'static str),
    /// It does not run, and nobody is told.
    Silence(i32),
}

fn cases() -> Vec<Case> {
    let case = |claim, command, expect| Case { claim, command, word: b"g", start: Start::Plain, expect };
    vec![
        case("the status is the command's", &["/bin/sh", "-c", "exit 7"], Expect::Status(7)),
        case("arguments arrive as they are", &["/bin/echo", "a b", "", "c"], Expect::Output("a b  c\n")),
        case("descriptors above 2 are gone", &["/bin/sh", "-c", "echo /proc/self/fd/*"], {
            // The shell's own listing holds one for the directory.
            Expect::Output("/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n")
        }),
        case(
            "signals are as in a fresh process",
            &["/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"],
            Expect::Output("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"),
        ),
        case(
            "limits and umask are applied",
            &["/bin/sh", "-c", "ulimit -Hc; ulimit -Sc; ulimit -Hn; umask"],
            Expect::Output("0\n0\n256\n0027\n"),
        ),
        case(
            "the command is filtered and fenced",
            &[
                "/bin/sh",
                "-c",
                "grep Seccomp: /proc/self/status; echo x > inside && ! touch /dev/shm/outside 2>/dev/null",
            ],
            Expect::Output("Seccomp:\t2\n"),
        ),
        case("the command cannot signal pid 1", &["/bin/sh", "-c", "kill -0 1 2>/dev/null || echo no"], {
            Expect::Output("no\n")
        }),
        case("a script without #! is refused", &["./plain"], Expect::Refusal(126, "#!")),
        case(
            "a script whose interpreter is missing is refused",
            &["./lost"],
            Expect::Refusal(126, "interpreter"),
        ),
        case("a file without the right to run is refused", &["./data"], Expect::Refusal(126, "denied")),
        case("a missing program is not found", &["./missing"], Expect::Refusal(127, "No such file")),
        Case {
            word: b"x",
            ..case("a wrong word keeps the command from running", RUN, Expect::Refusal(125, "did not say go"))
        },
        Case {
            word: b"gg",
            ..case(
                "a longer word keeps the command from running",
                RUN,
                Expect::Refusal(125, "did not say go"),
            )
        },
        Case {
            word: b"",
            ..case("a launcher that is gone keeps it from running", RUN, Expect::Silence(125))
        },
        Case {
            start: Start::WithoutSeccomp,
            ..case("without a filter nothing runs", RUN, Expect::Refusal(125, "seccomp"))
        },
        Case {
            start: Start::WithCapability,
            ..case("with a capability nothing runs", RUN, Expect::Refusal(125, "capabilit"))
        },
        Case {
            start: Start::TooManyFiles,
            ..case(
                "without a limit that was asked for nothing runs",
                RUN,
                Expect::Refusal(125, "descriptors"),
            )
        },
        Case {
            start: Start::OnTerminal,
            ..case(
                "the command has the foreground of the terminal in a group of its own",
                &[
                    "/bin/sh",
                    "-c",
                    "read _ _ _ _ group _ _ front _ < /proc/self/stat; test $group = $front -a $group = $$",
                ],
                Expect::Status(0),
            )
        },
        Case {
            start: Start::ErrorApart,
            ..case(
                "standard error can be apart",
                &["/bin/sh", "-c", "echo out; echo err >&2"],
                Expect::Output("out\nerr\n"),
            )
        },
    ]
}

/// A command that leaves a mark, which must not be there afterwards.
const RUN: &[&str] = &["/bin/sh", "-c", "echo ran > ran"];

impl Case {
    fn check(&self) {
        let dir = tempfile::tempdir().unwrap();
        for (name, content, mode) in [
            ("plain", "echo ran > ran\n", 0o755),
            ("lost", "#!/nonexistent/interpreter\n", 0o755),
            ("data", "", 0o644),
        ] {
            fs::write(dir.path().join(name), content).unwrap();
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let (said, status, output) = self.launch(dir.path());
        let claim = self.claim;
        let report = StageReport::decode(&said);
        let ran = dir.path().join("ran").exists();
        match self.expect {
            Expect::Output(expected) => {
                assert_eq!((status, output.as_str()), (0, expected), "{claim}: {report:?}")
            }
            Expect::Status(expected) => assert_eq!(status, expected, "{claim}: {report:?} {output}"),
            Expect::Silence(expected) => assert_eq!((status, ran), (expected, false), "{claim}"),
            Expect::Refusal(expected, reason) => {
                let report = report.unwrap_or_else(|| panic!("{claim}: nothing was said: {output}"));
                assert_eq!((status, ran), (expected, false), "{claim}");
                assert_eq!(i32::from(report.exit_code()), expected, "{claim}");
                assert!(report.why().contains(reason), "{claim}: {}", report.why());
            }
        }
        if matches!(self.expect, Expect::Output(_) | Expect::Status(_)) {
            assert!(said.is_empty(), "{claim}: {said:?}");
        }
    }

    /// What was said over the door after the word, the exit status, what was printed.
    fn launch(&self, dir: &Path) -> (Vec<u8>, i32, String) {
        let (outside, door) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let order = sealed("order", &serde_json::to_vec(&self.order(dir)).unwrap());
        let filter = sealed("filter", &program(Arch::native().unwrap(), Debuggers::Allowed).unwrap());
        let (mut printed, print) = std::io::pipe().unwrap();
        let leak = File::open("/").unwrap();
        for fd in [door.as_fd(), order.as_fd(), filter.as_fd(), leak.as_fd(), print.as_fd()] {
            fcntl_setfd(fd, FdFlags::empty()).unwrap();
        }

        let mut command = Command::new(if self.start == Start::OnTerminal { "setsid" } else { "bwrap" });
        let controller = (self.start == Start::OnTerminal).then(|| {
            let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
            grantpt(&controller).unwrap();
            unlockpt(&controller).unwrap();
            let name = ptsname(&controller, Vec::new()).unwrap();
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
            let terminal = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
            command.args(["--ctty", "--wait", "bwrap"]);
            command.stdin(terminal.try_clone().unwrap());
            command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
            controller
        });
        if controller.is_none() {
            command
                .stdin(Stdio::null())
                .stdout(print.try_clone().unwrap())
                .stderr(print.try_clone().unwrap());
        }
        command
            .args(["--unshare-all", "--unshare-user", "--die-with-parent", "--cap-drop", "ALL"])
            .args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"])
            .args([Path::new("--bind"), dir, dir, Path::new("--chdir"), dir]);
        if self.start == Start::WithCapability {
            command.args(["--cap-add", "CAP_NET_RAW"]);
        }
        if self.start != Start::WithoutSeccomp {
            command.args(["--seccomp", &filter.as_raw_fd().to_string()]);
        }
        command.arg("--").arg(std::env::current_exe().unwrap()).arg("stage");
        command.args([door.as_raw_fd(), order.as_raw_fd()].map(|fd| fd.to_string()));
        if self.start == Start::ErrorApart {
            command.arg(print.as_raw_fd().to_string()).stderr(Stdio::null());
        }
        let mut child = command.spawn().unwrap();
        drop((command, door, print));

        let mut byte = [0];
        rustix::net::sockopt::set_socket_timeout(
            &outside,
            rustix::net::sockopt::Timeout::Recv,
            Some(Duration::from_secs(30)),
        )
        .unwrap();
        let (arrived, _) = recv(&outside, &mut byte[..], RecvFlags::empty()).unwrap();
        assert_eq!((arrived, &byte), (1, b"r"), "{}", self.claim);
        let mut said = vec![0; StageReport::MAX_LEN];
        if self.word.is_empty() {
            drop(outside);
            said.clear();
        } else {
            send(&outside, self.word, SendFlags::NOSIGNAL).unwrap();
            let len = recv(&outside, &mut said[..], RecvFlags::empty()).map_or(0, |(len, _)| len);
            said.truncate(len);
        }
        let mut output = String::new();
        printed.read_to_string(&mut output).unwrap();
        let status = child.wait().unwrap().code().unwrap();
        drop(controller);
        (said, status, output)
    }

    fn order(&self, dir: &Path) -> InnerSpec {
        let landlock = match ai_jail::sys::landlock::abi() {
            Some(abi) => InnerLandlock::Enforce { abi, writable: vec![dir.to_owned(), "/dev/null".into()] },
            None => InnerLandlock::Unavailable,
        };
        let files = if self.start == Start::TooManyFiles { u64::MAX - 1 } else { 256 };
        let words = self.command.iter().map(|word| word.as_bytes().to_vec());
        InnerSpec {
            program: dir.join(self.command[0]).into_os_string().into_encoded_bytes(),
            argv: words.collect(),
            cwd: dir.as_os_str().as_encoded_bytes().to_vec(),
            terminal: match self.start {
                Start::OnTerminal => InnerTerminal::Foreground,
                _ => InnerTerminal::None,
            },
            rlimits: vec![
                Rlimit { resource: Resource::Core, limit: 0 },
                Rlimit { resource: Resource::Files, limit: files },
            ],
            landlock,
            umask: 0o027,
            ignored: Vec::new(),
        }
    }
}

/// A file in memory with `content`.
fn sealed(name: &str, content: &[u8]) -> OwnedFd {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC).unwrap();
    let mut file = File::from(fd);
    file.write_all(content).unwrap();
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
    file.into()
}

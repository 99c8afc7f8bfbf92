//! What was typed: clap types only, one file per subcommand.

pub mod completions;
pub mod doctor;
pub mod explain;
pub mod quarantine;
mod reword;
pub mod run;

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

pub use self::completions::CompletionsArgs;
pub use self::doctor::DoctorArgs;
pub use self::explain::ExplainArgs;
pub use self::quarantine::{QuarantineAction, QuarantineArgs};
pub use self::run::{RunArgs, RunOptions};
use crate::error::{Error, Kind, Result};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Run a command in a jail.
    Run(Box<RunArgs>),
    /// Look at the machine.
    Doctor(DoctorArgs),
    /// Explain the policy.
    Explain(Box<ExplainArgs>),
    /// Print a completion script.
    Completions(CompletionsArgs),
    /// Look at what was held back.
    Quarantine(QuarantineArgs),
    /// Print this text to standard output and exit with 0: help or version.
    Print(String),
}

/// Reads the arguments, the program's own name first.
///
/// The first word that is no option is the command, unless it is one of our subcommands and no `--` came before it.
/// Fails with [`Kind::Usage`], in the form of every other error of ours.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation> {
    let args: Vec<OsString> = args.into_iter().collect();
    let run = match RunArgs::try_parse_from(&args) {
        Ok(run) => run,
        Err(error) => return printed(error, &mut command()),
    };
    let at = args.len() - run.command.len();
    let escaped = at > 0 && args[at - 1] == "--";
    let first = run.command.first().and_then(|word| word.to_str()).unwrap_or_default();
    let subcommand = match first {
        _ if escaped => return Ok(Invocation::Run(Box::new(run))),
        "doctor" => parse_as::<DoctorArgs>(only_after(&args, at)?)?.map(Invocation::Doctor),
        "completions" => parse_as::<CompletionsArgs>(only_after(&args, at)?)?.map(Invocation::Completions),
        "quarantine" => parse_as::<QuarantineArgs>(only_after(&args, at)?)?.map(Invocation::Quarantine),
        // Options of a run count before the word and after it.
        "explain" => {
            let words = args[at..at + 1].iter().chain(&args[1.min(at)..at]).chain(&args[at + 1..]);
            parse_as::<ExplainArgs>(words.cloned().collect())?
                .map(|explain| Invocation::Explain(Box::new(explain)))
        }
        _ if LATER_SUBCOMMANDS.contains(&first) => {
            return Err(Error::new(Kind::Usage, format!("this version has no subcommand `{first}` yet"))
                .hint(format!("to run a program of that name: ai-jail -- {first}")));
        }
        _ => return Ok(Invocation::Run(Box::new(run))),
    };
    Ok(match subcommand {
        Parsed::Args(invocation) => invocation,
        Parsed::Print(text) => Invocation::Print(text),
    })
}

/// The whole command line as one clap command, for help, completions and the man page.
pub fn command() -> clap::Command {
    RunArgs::command()
        .subcommand(DoctorArgs::command())
        .subcommand(ExplainArgs::command())
        .subcommand(CompletionsArgs::command())
        .subcommand(QuarantineArgs::command())
        .subcommand_negates_reqs(true)
        .disable_help_subcommand(true)
}

/// Subcommands that are documented for later versions: never taken for a program by mistake.
const LATER_SUBCOMMANDS: &[&str] = &["init", "trust", "import", "log", "ps", "home"];

enum Parsed<T> {
    Args(T),
    Print(String),
}

impl<T> Parsed<T> {
    fn map<U>(self, to: impl FnOnce(T) -> U) -> Parsed<U> {
        match self {
            Self::Args(args) => Parsed::Args(to(args)),
            Self::Print(text) => Parsed::Print(text),
        }
    }
}

fn parse_as<T: Parser>(words: Vec<OsString>) -> Result<Parsed<T>> {
    match T::try_parse_from(words) {
        Ok(args) => Ok(Parsed::Args(args)),
        Err(error) => match printed(error, &mut T::command())? {
            Invocation::Print(text) => Ok(Parsed::Print(text)),
            _ => Err(Error::new(Kind::Usage, "the command line cannot be read")),
        },
    }
}

/// The words from the subcommand on; an option before it would be without effect, so it is refused.
fn only_after(args: &[OsString], at: usize) -> Result<Vec<OsString>> {
    let name: &OsStr = &args[at];
    if at > 1 {
        let name = name.display();
        return Err(Error::new(Kind::Usage, format!("`{name}` takes no options before it"))
            .hint(format!("write ai-jail {name} --help to see its own")));
    }
    Ok(args[at..].to_vec())
}

/// Help and version are texts to print; everything else is an error in our words.
fn printed(error: clap::Error, command: &mut clap::Command) -> Result<Invocation> {
    match error.kind() {
        ErrorKind::DisplayHelp => Ok(Invocation::Print(command.render_help().to_string())),
        ErrorKind::DisplayVersion => Ok(Invocation::Print(error.render().to_string())),
        _ => Err(reword::error(&error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use clap_complete::Shell;

    use super::*;
    use crate::config::settings::{NetworkMode, Profile, Thing};
    use crate::report::Verbosity;

    fn parsed(words: &[&str]) -> Result<Invocation> {
        parse(std::iter::once("ai-jail").chain(words.iter().copied()).map(OsString::from))
    }

    fn run(words: &[&str]) -> RunArgs {
        match parsed(words) {
            Ok(Invocation::Run(run)) => *run,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn the_clap_definition_is_sound() {
        command().debug_assert();
        ExplainArgs::command().debug_assert();
    }

    #[test]
    fn options_end_at_the_command() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["claude"], &["claude"]),
            (
                &["claude", "-p", "hello", "--allow-host", "x"],
                &["claude", "-p", "hello", "--allow-host", "x"],
            ),
            (&["--lockdown", "claude", "--help"], &["claude", "--help"]),
            (&["claude", "--version"], &["claude", "--version"]),
            (&["--", "log"], &["log"]),
            (&["--", "doctor", "--json"], &["doctor", "--json"]),
            (&["-q", "--", "--odd"], &["--odd"]),
            (&["claude", "--", "x"], &["claude", "--", "x"]),
            (&["--ro", "doctor", "x"], &["x"]),
            (&["run", "x"], &["run", "x"]),
            (&["help"], &["help"]),
            (&["claude", "doctor"], &["claude", "doctor"]),
            (&["sh", "-c", "true", ""], &["sh", "-c", "true", ""]),
        ];
        for (words, want) in cases {
            let run = run(words);
            assert_eq!(run.command, want.iter().map(OsString::from).collect::<Vec<_>>(), "{words:?}");
        }
        assert!(run(&["claude", "--allow-host", "x"]).options.allow_host.is_empty());
    }

    #[test]
    fn every_option_reaches_its_field() {
        let run = run(&[
            "--project",
            "/p",
            "--ro",
            "/a",
            "--ro",
            "/b:/c",
            "--rw=/d",
            "--network",
            "off",
            "--allow-host",
            "h",
            "--deny-host",
            "d",
            "--allow-private",
            "p",
            "--resolve",
            "h=1.2.3.4",
            "--grant",
            "docker,ssh-agent",
            "--grant",
            "kvm",
            "--socket",
            "/s",
            "--secret",
            "KEY=a.test,b.test",
            "--secret",
            "TOKEN=c.test",
            "--secret-file",
            "/f=a.test",
            "--env-file=/e",
            "--env",
            "A=b",
            "--env",
            "C",
            "--profile",
            "read-only",
            "--limit",
            "pids=5",
            "--limit",
            "time=1h",
            "--no-summary",
            "--dry-run",
            "--json",
            "-v",
            "x",
        ]);
        assert_eq!(run.options.ro, ["/a", "/b:/c"]);
        assert_eq!(run.options.rw, ["/d"]);
        assert_eq!(run.options.network, Some(NetworkMode::Off));
        assert_eq!(run.options.profile, Some(Profile::ReadOnly));
        assert_eq!(run.options.limit, ["pids=5", "time=1h"]);
        assert_eq!(run.options.secret, ["KEY=a.test,b.test", "TOKEN=c.test"]);
        assert_eq!(
            (run.options.secret_file, run.options.env_file),
            (vec!["/f=a.test".into()], vec!["/e".into()])
        );
        assert_eq!(run.options.env, ["A=b", "C"]);
        assert_eq!(run.options.grant, [Thing::Docker, Thing::SshAgent, Thing::Kvm]);
        assert_eq!(run.options.socket, ["/s"]);
        assert!(run.options.no_summary && run.dry_run && run.json);
        assert_eq!(run.loudness.verbosity(), Verbosity::Verbose);
    }

    #[test]
    fn paths_and_commands_may_be_any_bytes() {
        let raw = OsString::from_vec(b"/a\xff".to_vec());
        let words =
            ["ai-jail".into(), "--ro".into(), raw.clone(), "--project".into(), raw.clone(), raw.clone()];
        let Ok(Invocation::Run(run)) = parse(words) else { panic!() };
        assert_eq!(run.options.ro, std::slice::from_ref(&raw));
        assert_eq!(run.command, [raw]);
        let words =
            ["ai-jail".into(), "--allow-host".into(), OsString::from_vec(b"\xff".to_vec()), "x".into()];
        assert_eq!(parse(words).map_err(|error| error.kind()), Err(Kind::Usage));
    }

    #[test]
    fn subcommands_are_first_words_only() {
        assert_eq!(parsed(&["doctor", "--json"]), Ok(Invocation::Doctor(DoctorArgs { json: true })));
        assert_eq!(
            parsed(&["completions", "fish"]),
            Ok(Invocation::Completions(CompletionsArgs { shell: Shell::Fish }))
        );
        for words in [
            &["--network", "off", "explain", "--json", "/etc", "--allow-host", "h", "--", "codex", "-x"][..],
            &["explain", "/etc", "--network=off", "--json", "--allow-host", "h", "--", "codex", "-x"],
        ] {
            let Ok(Invocation::Explain(explain)) = parsed(words) else { panic!("{words:?}") };
            assert!(explain.json);
            assert_eq!(explain.options.network, Some(NetworkMode::Off));
            assert_eq!(explain.options.allow_host, ["h"]);
            assert_eq!(explain.targets, ["/etc"]);
            assert_eq!(explain.command, ["codex", "-x"]);
        }
    }

    #[test]
    fn help_and_version_are_printed() {
        let cases: &[(&[&str], &str)] = &[
            (&["--version"], concat!("ai-jail ", env!("CARGO_PKG_VERSION"), "\n")),
            (&["-V"], concat!("ai-jail ", env!("CARGO_PKG_VERSION"), "\n")),
            (&["--help"], "ai-jail [OPTIONS] [--] COMMAND [ARGS]..."),
            (&["-h"], "--allow-host <PATTERN>"),
            (&["--help"], "doctor"),
            (&["doctor", "--help"], "ai-jail doctor [OPTIONS]"),
            (&["explain", "--help"], "ai-jail explain [--json]"),
        ];
        for (words, part) in cases {
            match parsed(words) {
                Ok(Invocation::Print(text)) => assert!(text.contains(part), "{words:?}: {text}"),
                other => panic!("{words:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn errors_say_what_why_and_what_to_do() {
        let cases: &[(&[&str], &str)] = &[
            (
                &[],
                "no command to run; for example `ai-jail claude` or `ai-jail --network off -- make test`; \
                 `ai-jail --help` lists everything",
            ),
            (
                &["-q"],
                "no command to run; for example `ai-jail claude` or `ai-jail --network off -- make test`; \
                 `ai-jail --help` lists everything",
            ),
            (&["--netwrk", "off", "x"], "unknown option --netwrk; did you mean --network?"),
            (
                &["--zzz", "x"],
                "unknown option --zzz; `ai-jail --help` lists the options; those of the command follow its name",
            ),
            (
                &["--network", "of", "x"],
                "--network cannot be `of`; it takes one of off, filtered, open; did you mean `off`?",
            ),
            (&["--network", "yes", "x"], "--network cannot be `yes`; it takes one of off, filtered, open"),
            (
                &["--state", "share", "x"],
                "--state cannot be `share`; it takes one of jail, shared, none; did you mean `shared`?",
            ),
            (
                &["--selftest", "x"],
                "--selftest is not supported by this version; ignoring it would silently not hold; leave it out",
            ),
            (&["--network"], "--network <MODE> needs a value; `ai-jail --help` shows its form"),
            (
                &["--network", "off", "--network", "open", "x"],
                "--network <MODE> is given twice; leave one of them out",
            ),
            (
                &["--lockdown", "--profile", "strict", "x"],
                "--lockdown and --profile <NAME> exclude each other; leave one of them out",
            ),
            (&["--json", "x"], "--json goes with --dry-run; add --dry-run, or leave --json out"),
            (
                &["log"],
                "this version has no subcommand `log` yet; to run a program of that name: ai-jail -- log",
            ),
            (
                &["-q", "home", "list"],
                "this version has no subcommand `home` yet; to run a program of that name: ai-jail -- home",
            ),
            (
                &["--lockdown", "doctor"],
                "`doctor` takes no options before it; write ai-jail doctor --help to see its own",
            ),
            (
                &["completions", "fsh"],
                "SHELL cannot be `fsh`; it takes one of bash, elvish, fish, powershell, zsh; did you mean `fish`?",
            ),
            (&["completions"], "SHELL is missing; `--help` shows what is expected"),
            (
                &["--a\x1b[2Jb", "x"],
                "unknown option --a\\x1b[2Jb; `ai-jail --help` lists the options; those of the command follow its name",
            ),
        ];
        for (words, want) in cases {
            match parsed(words) {
                Err(error) => {
                    assert_eq!(error.to_string(), *want, "{words:?}");
                    assert_eq!(error.kind().exit_code(), 125);
                }
                other => panic!("{words:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_later_name_is_refused_and_none_is_run() {
        for name in LATER_SUBCOMMANDS {
            assert_eq!(parsed(&[name]).map_err(|error| error.kind()), Err(Kind::Usage), "{name}");
            assert_eq!(run(&["--", name]).command, [*name]);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_words_make_the_parser_panic(words in proptest::collection::vec(
            "(--)?(ro|rw|allow-host|network|explain|doctor|env|limit|json|-|x|off|=|\\PC{0,3}){1,2}", 0..6
        )) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Ok(Invocation::Run(run)) = parsed(&words) {
                assert!(!run.command.is_empty() && words.ends_with(&run.command.iter().map(|w| w.to_str().unwrap()).collect::<Vec<_>>()));
            }
        }
    }
}

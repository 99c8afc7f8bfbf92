//! clap's errors in our form: what; why; what to do.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::{Error, Kind};
use crate::sanitize::escape;
use crate::secrets::without_tokens;

/// The error for the user, with clap's suggestion kept.
pub(super) fn error(error: &clap::Error) -> Error {
    let arg = text(error, ContextKind::InvalidArg);
    let arg = arg.strip_prefix('<').and_then(|name| name.strip_suffix('>')).unwrap_or(&arg);
    let value = text(error, ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument if LATER_FLAGS.contains(&arg) => {
            Error::new(Kind::Usage, format!("{arg} is not supported by this version"))
                .because("ignoring it would silently not hold")
                .hint("leave it out")
        }
        ErrorKind::UnknownArgument => {
            let unknown = Error::new(Kind::Usage, format!("unknown option {arg}"));
            match text(error, ContextKind::SuggestedArg).as_str() {
                "" => {
                    unknown.hint("`ai-jail --help` lists the options; those of the command follow its name")
                }
                near => unknown.hint(format!("did you mean {near}?")),
            }
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            Error::new(Kind::Usage, format!("{arg} needs a value")).hint("`ai-jail --help` shows its form")
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => invalid_value(error, arg, &value),
        ErrorKind::ArgumentConflict => {
            let prior = text(error, ContextKind::PriorArg);
            let what = if prior == arg {
                format!("{arg} is given twice")
            } else {
                format!("{arg} and {prior} exclude each other")
            };
            Error::new(Kind::Usage, what).hint("leave one of them out")
        }
        ErrorKind::MissingRequiredArgument if arg.contains("--dry-run") => {
            Error::new(Kind::Usage, "--json goes with --dry-run").hint("add --dry-run, or leave --json out")
        }
        ErrorKind::MissingRequiredArgument if arg.contains("COMMAND") => {
            Error::new(Kind::Usage, "no command to run")
                .hint("for example `ai-jail claude` or `ai-jail --network off -- make test`")
                .hint("`ai-jail --help` lists everything")
        }
        ErrorKind::MissingRequiredArgument => {
            Error::new(Kind::Usage, format!("{arg} is missing")).hint("`--help` shows what is expected")
        }
        ErrorKind::TooManyValues | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            Error::new(Kind::Usage, format!("{arg} takes another number of values"))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Error::new(Kind::Usage, "`quarantine` needs a subcommand")
                .hint("write `ai-jail quarantine list`, `restore ID` or `drop ID`")
        }
        ErrorKind::InvalidUtf8 => Error::new(Kind::Usage, "a value is not UTF-8")
            .because("only paths, the command and its arguments may be other bytes"),
        _ => Error::new(Kind::Usage, "the command line cannot be read")
            .because(without_tokens(error.render().to_string().lines().next().unwrap_or_default())),
    }
}

fn invalid_value(error: &clap::Error, arg: &str, value: &str) -> Error {
    let later =
        (arg.starts_with("--state") && value == "shared").then_some("is not supported by this version");
    let what = format!("{arg} cannot be `{value}`", arg = arg.split(' ').next().unwrap_or_default());
    let mut reworded = Error::new(Kind::Usage, what);
    if let Some(later) = later {
        reworded = reworded.because(format!("`{value}` {later}"));
    }
    let valid = text(error, ContextKind::ValidValue);
    if let Some(source) = std::error::Error::source(error) {
        reworded = reworded.because(without_tokens(&source.to_string()));
    } else if !valid.is_empty() {
        reworded = match text(error, ContextKind::SuggestedValue).as_str() {
            near if near.is_empty() || later.is_some() || !close(value, near) => {
                reworded.hint(format!("it takes one of {valid}"))
            }
            near => {
                reworded.because(format!("it takes one of {valid}")).hint(format!("did you mean `{near}`?"))
            }
        };
    }
    reworded
}

/// Whether a suggestion is a slip of the finger away; clap's own measure finds `open` near `none`.
fn close(typed: &str, near: &str) -> bool {
    strsim::osa_distance(typed, near) <= near.chars().count().div_ceil(4)
}

/// Options that are documented for later versions.
const LATER_FLAGS: &[&str] = &["--selftest"];

/// A part of the error, without what looks like the value of a secret: a shell puts it where `$NAME` stands for NAME.
fn text(error: &clap::Error, kind: ContextKind) -> String {
    let text = match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    without_tokens(&escape(&text).to_string())
}

//! `ai-jail explain`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::cli::ExplainArgs;
use crate::config::words::nearest;
use crate::egress::own::addresses;
use crate::error::{Error, Kind, Result};
use crate::guard::watch::most_watches;
use crate::host::Host;
use crate::plan::show;
use crate::policy::explain::{Answer, FAKE, UNSET, Url, UrlError, explain as answer, explain_url, is_path};
use crate::policy::http_rule::is_method;
use crate::report;
use crate::sanitize::escape;
use crate::secrets::{Concealed, without_tokens};
use crate::sys::process::{own_signals, own_umask};

use super::ahead::Ahead;
use super::masking::{attempt, concealed};
use super::prepare::{Prepared, Request, prepare};

/// The command whose run is explained when none is named: it is on every machine and no agent.
const ANY_COMMAND: &str = "sh";

/// How a request is written.
const FORM: &str = "write it as in \"GET https://api.example.com/path\"";

/// Answers, or shows the whole policy. Returns the exit status: 0, also for what is denied.
pub fn explain(arguments: &ExplainArgs) -> Result<u8> {
    super::refuse_nesting()?;
    let any = [OsString::from(ANY_COMMAND)];
    let command = if arguments.command.is_empty() { &any[..] } else { &arguments.command };
    let request =
        Request { options: &arguments.options, command, umask: own_umask(), ignored: own_signals() };
    let host = Host::read()?;
    let prepared = prepare(&host, &request, Ahead::start())?;
    let concealed = concealed(&host, &prepared);
    if arguments.targets.is_empty() {
        attempt(&host, &prepared)?;
        let Prepared { policy, plan, trees, .. } = &prepared;
        let more = trees.first().map_or(&[][..], |tree| tree.more.as_slice());
        let watches = most_watches();
        if arguments.json {
            let mut json = show::json(policy, plan, &concealed);
            json["protection"] = show::protection_json(policy, more, watches);
            return report::output_json(&format!("{json:#}"));
        }
        let text = show::rules(policy, &concealed) + &show::protection(policy, more, watches);
        return report::output(text.as_bytes());
    }
    let targets = with_methods(&arguments.targets);
    let answers =
        targets.iter().map(|target| ask(&host, &prepared, &concealed, target)).collect::<Result<Vec<_>>>()?;
    if answers.iter().any(|answer| answer.verdict == FAKE) {
        attempt(&host, &prepared)?;
    }
    if arguments.json {
        let json = serde_json::to_string_pretty(&answers)
            .map_err(|error| Error::new(Kind::Setup, "cannot write JSON").because(error))?;
        return report::output_json(&concealed.text(&json));
    }
    let width = if std::io::stdout().is_terminal() { WIDTH } else { usize::MAX };
    let lines = answers.iter().map(|answer| text(answer, width));
    report::output(concealed.text(&lines.collect::<String>()).as_bytes())
}

/// The words with each method before a URL joined to it.
fn with_methods(words: &[OsString]) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(method)
                if is_method(&method.to_string_lossy()) && word.to_string_lossy().contains("://") =>
            {
                method.push(" ");
                method.push(word);
            }
            _ => joined.push(word.clone()),
        }
    }
    joined
}

fn ask(host: &Host, prepared: &Prepared, concealed: &Concealed, target: &OsString) -> Result<Answer> {
    let text = target.to_string_lossy();
    if text.is_empty() {
        return Err(Error::new(Kind::Usage, "an empty word is no path, host or variable"));
    }
    if text.contains("://") {
        return match Url::parse(&text) {
            Ok(url) => Ok(explain_url(&prepared.policy, &own()?, &url)),
            Err(error) => Err(Error::new(Kind::Usage, "this URL cannot be explained")
                .because(without_tokens(&error.to_string()))
                .hint(match error {
                    UrlError::Method(_) => FORM,
                    UrlError::Scheme | UrlError::User | UrlError::Authority(_) => {
                        "give the host alone, as in --allow-host"
                    }
                })),
        };
    }
    // A name that exists is a path, whatever else it could be.
    let exists = std::fs::symlink_metadata(target).is_ok();
    if !exists && text.trim().split_once(' ').is_some_and(|(word, _)| is_method(word)) {
        return Err(Error::new(Kind::Usage, "this request cannot be explained")
            .because("it names no host")
            .hint(FORM));
    }
    // A shell puts a value where `$NAME` stands for NAME.
    if !exists && !is_path(&text) && concealed.text(&without_tokens(&text)) != text {
        return Err(Error::new(Kind::Usage, "this holds something like a secret, and cannot be explained")
            .hint("ask about a variable by its name, without a `$`, and treat that secret as seen"));
    }
    if !is_path(&text) && !exists {
        return Ok(set_first(host, prepared, answer(&prepared.policy, &own()?, &text, None)));
    }
    let path = match text.strip_prefix("~/") {
        Some(below) => prepared.policy.home.join(below),
        None => std::path::absolute(target).map_err(|error| {
            Error::new(Kind::Usage, format!("{} is no path", escape(target.as_os_str()))).because(error)
        })?,
    };
    // A path inside is what it is outside, without the symlinks that lead there.
    let resolved: PathBuf =
        match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => path,
        };
    Ok(answer(&prepared.policy, &[], &text, Some(&resolved)))
}

/// An answer about a variable that the jail does not have, where the launcher has none either: no option gives it one before it is
/// set.
fn set_first(host: &Host, prepared: &Prepared, answer: Answer) -> Answer {
    let is_set = host.environment.vars.contains_key(OsStr::new(&answer.asked));
    let policy = &prepared.policy;
    let is_known = policy.left_out.contains_key(&answer.asked)
        || policy.bindings.iter().any(|binding| binding.name == answer.asked);
    // A file of --env-file may have it.
    if answer.verdict != UNSET || is_set || is_known || !policy.settings.env_files.is_empty() {
        return answer;
    }
    let names = host.environment.vars.keys().filter_map(|name| name.to_str());
    let meant = nearest(&answer.asked, names);
    let meant = meant.map_or(String::new(), |near| format!("; did you mean {near}, which is?"));
    Answer {
        because: format!("it is not set here{meant}"),
        hint: answer.hint.map(|hint| format!("set it, then {hint}")),
        ..answer
    }
}

/// The addresses of this machine, which no rule covers by chance.
fn own() -> Result<Vec<IpAddr>> {
    addresses()
        .map_err(|error| Error::new(Kind::Machine, "cannot read this machine's own addresses").because(error))
}

/// An answer on one line, or, where it is longer than `width`, on several: each but the first is indented.
fn text(answer: &Answer, width: usize) -> String {
    let asked = shortened(&answer.asked);
    let hint = answer.hint.as_ref().map_or(String::new(), |hint| format!("; to change it: {hint}"));
    let whole = format!("{asked}: {}; {}{hint}", answer.verdict, answer.because);
    let mut lines = vec![String::new()];
    for part in escape(&whole).to_string().split_inclusive("; ") {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > INDENT.len() && line + part.trim_end().chars().count() > width {
            lines.push(INDENT.to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(part);
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// From this many characters on a line is divided at a terminal, where one part of it ends. Programs read lines.
const WIDTH: usize = 120;
/// Of what was asked so much is repeated.
const ASKED: usize = 160;
const INDENT: &str = "    ";

/// What was asked, without the middle of what nobody reads to its end.
fn shortened(asked: &str) -> String {
    let signs: Vec<char> = asked.chars().collect();
    match signs.len() {
        0..=ASKED => asked.to_owned(),
        count => {
            let part = |range: std::ops::Range<usize>| signs[range].iter().collect::<String>();
            format!("{}...{}", part(0..ASKED - 40), part(count - 37..count))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(asked: &str, because: &str) -> Answer {
        Answer { asked: asked.to_owned(), verdict: "allowed", because: because.to_owned(), hint: None }
    }

    #[test]
    fn a_long_answer_is_divided_where_a_part_ends() {
        let text = |answer: &Answer| text(answer, 160);
        assert_eq!(text(&answer("a.test", "b; c")), "a.test: allowed; b; c\n");
        let (first, second, third) = ("x".repeat(100), "y".repeat(100), "z".repeat(30));
        let long = text(&answer("a.test", &format!("{first}; {second}; {third}")));
        assert_eq!(long, format!("a.test: allowed; {first};\n    {second}; {third}\n"));
        let url = format!("https://a.test/{}/end", "p".repeat(500));
        let long = text(&answer(&url, "b"));
        assert!(long.lines().all(|line| line.len() <= 180), "{long}");
        assert!(long.starts_with("https://a.test/ppp") && long.contains("p/end: allowed"), "{long}");
    }

    #[test]
    fn a_method_belongs_to_the_url_behind_it() {
        let words = ["GET", "https://a.test/", "PATH", "GET", "x"].map(OsString::from);
        assert_eq!(with_methods(&words), ["GET https://a.test/", "PATH", "GET", "x"]);
    }
}

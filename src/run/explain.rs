//! `ai-jail explain`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::cli::ExplainArgs;
use crate::egress::own::addresses;
use crate::error::{Error, Kind, Result};
use crate::guard::watch::most_watches;
use crate::host::Host;
use crate::plan::show;
use crate::policy::explain::{Answer, Url, explain as answer, explain_url, is_path};
use crate::report;
use crate::sanitize::escape;
use crate::sys::process::{own_signals, own_umask};

use super::ahead::Ahead;
use super::masking::concealed;
use super::prepare::{Prepared, Request, prepare};

/// The command whose run is explained when none is named: it is on every machine and no agent.
const ANY_COMMAND: &str = "sh";

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
    let answers =
        arguments.targets.iter().map(|target| ask(&prepared, target)).collect::<Result<Vec<_>>>()?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&answers)
            .map_err(|error| Error::new(Kind::Setup, "cannot write JSON").because(error))?;
        return report::output_json(&concealed.text(&json));
    }
    report::output(concealed.text(&answers.iter().map(line).collect::<String>()).as_bytes())
}

fn ask(prepared: &Prepared, target: &OsString) -> Result<Answer> {
    let text = target.to_string_lossy();
    if text.is_empty() {
        return Err(Error::new(Kind::Usage, "an empty word is no path, host or variable"));
    }
    if text.contains("://") {
        return match Url::parse(&text) {
            Ok(url) => Ok(explain_url(&prepared.policy, &own()?, &url)),
            Err(error) => Err(Error::new(Kind::Usage, "this URL cannot be explained")
                .because(error)
                .hint("give the host alone, as in --allow-host")),
        };
    }
    // A name that exists is a path, whatever else it could be.
    if !is_path(&text) && std::fs::symlink_metadata(target).is_err() {
        return Ok(answer(&prepared.policy, &own()?, &text, None));
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

/// The addresses of this machine, which no rule covers by chance.
fn own() -> Result<Vec<IpAddr>> {
    addresses()
        .map_err(|error| Error::new(Kind::Machine, "cannot read this machine's own addresses").because(error))
}

fn line(answer: &Answer) -> String {
    let hint = answer.hint.as_ref().map_or(String::new(), |hint| format!("; to change it: {hint}"));
    format!(
        "{}: {}; {}{}\n",
        escape(&*answer.asked),
        answer.verdict,
        escape(&*answer.because),
        escape(&*hint)
    )
}

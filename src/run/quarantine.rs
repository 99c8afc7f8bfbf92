//! `ai-jail quarantine`.

use serde_json::json;

use crate::cli::{QuarantineAction, QuarantineArgs};
use crate::error::{Error, Kind, Result};
use crate::guard::quarantine::{Item, discard, list, restore};
use crate::guard::record::Record;
use crate::guard::{Places, sweep_abandoned};
use crate::host::Host;
use crate::report::{self, Reporter, Verbosity};
use crate::sanitize::escape;

/// Lists, brings back or removes. Returns the exit status.
pub fn quarantine(arguments: &QuarantineArgs) -> Result<u8> {
    let host = Host::read()?;
    let places = Places::new(&host.xdg("XDG_STATE_HOME", ".local/state").join("ai-jail"));
    let dir = places.quarantine();
    match &arguments.action {
        QuarantineAction::List { json } => {
            let items = list(&dir);
            let text = if *json { as_json(&items)? } else { items.iter().map(line).collect() };
            report::output(text.as_bytes())
        }
        QuarantineAction::Restore { ids } => {
            // Else the next launch would take what comes back now for what a killed session left.
            for line in sweep_abandoned(&places) {
                Reporter::new(Verbosity::Normal).warn(&line);
            }
            let chosen = named(&list(&dir), ids)?;
            for item in &chosen {
                refuse_while_running(&places, item)?;
            }
            each(chosen, |item| {
                restore(&dir, item)?;
                report::output(format!("{} is back\n", escape(&item.root.join(&item.below))).as_bytes())
            })
        }
        QuarantineAction::Drop { ids } => each(named(&list(&dir), ids)?, |item| {
            discard(&dir, item)?;
            report::output(format!("{} is removed\n", line(item).trim_end()).as_bytes())
        }),
    }
}

/// Does it for every item, also when one fails: then that is said, with how many, and the status is that of an error.
fn each(items: Vec<Item>, mut act: impl FnMut(&Item) -> Result<u8>) -> Result<u8> {
    let mut failed: Option<Error> = None;
    let (mut done, mut left) = (0, 0);
    for item in &items {
        match act(item) {
            Ok(_) => done += 1,
            Err(error) => {
                left += 1;
                if let Some(before) = failed.replace(error) {
                    Reporter::new(Verbosity::Normal).error(&before);
                }
            }
        }
    }
    match failed {
        None => Ok(0),
        Some(error) if items.len() == 1 => Err(error),
        Some(error) => {
            Reporter::new(Verbosity::Normal).error(&error);
            Err(Error::new(Kind::Refused, format!("{left} of {} could not be done", items.len()))
                .because(format!("{done} were done, what failed is said above"))
                .hint("`ai-jail quarantine list` shows what is left"))
        }
    }
}

/// The guard of a running jail would take it away again.
fn refuse_while_running(places: &Places, item: &Item) -> Result<()> {
    let path = item.root.join(&item.below);
    match Record::running_at(&places.sessions(), &path) {
        None => Ok(()),
        Some(session) => {
            Err(Error::new(Kind::Refused, format!("{} cannot be brought back now", escape(&path)))
                .because(format!("the jail {session} runs there, and its guard would take it away again"))
                .hint("bring it back when that session has ended"))
        }
    }
}

/// The things that the words name; one that names none is an error before anything is done.
fn named(items: &[Item], ids: &[String]) -> Result<Vec<Item>> {
    let mut chosen: Vec<Item> = Vec::new();
    for id in ids {
        let mut matching = items.iter().filter(|item| item.session == *id || item.id() == *id).peekable();
        if matching.peek().is_none() {
            return Err(Error::new(
                Kind::Usage,
                format!("nothing in the quarantine is called {}", escape(id)),
            )
            .hint("`ai-jail quarantine list` shows what there is"));
        }
        for item in matching {
            if !chosen.contains(item) {
                chosen.push(item.clone());
            }
        }
    }
    Ok(chosen)
}

fn line(item: &Item) -> String {
    format!("{}  {}\n", item.id(), escape(&item.root.join(&item.below)))
}

fn as_json(items: &[Item]) -> Result<String> {
    let rows: Vec<_> = items
        .iter()
        .map(|item| json!({ "id": item.id(), "session": item.session, "path": item.root.join(&item.below).to_string_lossy() }))
        .collect();
    let text = serde_json::to_string_pretty(&rows)
        .map_err(|error| Error::new(Kind::Setup, "cannot write JSON").because(error))?;
    Ok(crate::sanitize::json(&format!("{text}\n")))
}

//! Taking a layer in that may only tighten: a project's file, and the user's own under `lockdown`. Pure.

use std::cmp::Reverse;
use std::fmt;

use super::keys::{FromProject, KEYS};
use super::merge;
use super::schema::Tables;
use super::settings::{Limits, Settings};
use crate::policy::bindings::SecretMode;
use crate::policy::origin::{Layer, Origin, Sourced};

/// What a layer asked for and may not have.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    origins: Vec<Origin>,
}

impl Ignored {
    /// Remembers that the value of `origin` was ignored.
    pub fn push(&mut self, origin: &Origin) {
        if !self.origins.iter().any(|known| known.what == origin.what) {
            self.origins.push(origin.clone());
        }
    }

    /// The ignored keys that a trusted project could set, and those that no project ever can; each as a list for a
    /// sentence, `None` when empty.
    pub fn by_trust(&self) -> (Option<String>, Option<String>) {
        let (never, loosening): (Vec<&Origin>, Vec<&Origin>) =
            self.origins.iter().partition(|origin| never_from_project(&origin.what));
        (listed(&loosening), listed(&never))
    }

    /// All ignored keys as a list for a sentence; `None` when there are none.
    pub fn all(&self) -> Option<String> {
        listed(&self.origins.iter().collect::<Vec<_>>())
    }
}

/// Takes over from `tables` what makes `settings` stricter, and remembers the rest.
pub(super) fn tighten(settings: &mut Settings, tables: &Tables, ignored: &mut Ignored) {
    for grant in tables.read_only.iter().chain(&tables.read_write) {
        ignored.push(&grant.origin);
    }
    for (thing, on) in &tables.things {
        let granted = settings.things.get(thing).is_some_and(Option::is_some);
        match (on.value, granted) {
            (true, false) => ignored.push(&on.origin),
            (false, true) => merge::grant(settings, *thing, on),
            (true, true) | (false, false) => {}
        }
    }
    for socket in &tables.sockets {
        ignored.push(&socket.origin);
    }
    for pattern in &tables.allow {
        ignored.push(&pattern.origin);
    }
    for host in &tables.allow_private {
        ignored.push(&host.origin);
    }
    if let Some(proxy) = &tables.upstream {
        ignored.push(&proxy.origin);
    }
    for port in tables.forward.iter().chain(&tables.publish) {
        ignored.push(&port.origin);
    }
    tighten_secrets(settings, tables, ignored);
    settings.http.extend(tables.http.iter().cloned());
    stricter(&mut settings.ech, &tables.ech, |ech| *ech, ignored);
    match &tables.inspect {
        // Of a project never, although it is the strict value.
        Some(inspect) if inspect.origin.layer == Layer::Project => {
            if inspect.value != settings.inspect.value {
                ignored.push(&inspect.origin);
            }
        }
        offer => stricter(&mut settings.inspect, offer, |inspect| Reverse(*inspect), ignored),
    }
    for target in tables.resolve.values() {
        ignored.push(&target.origin);
    }
    for variable in tables.env.values() {
        ignored.push(&variable.origin);
    }

    for glob in &tables.unmask_files {
        ignored.push(&glob.origin);
    }
    settings.deny_files.extend(tables.deny_files.iter().cloned());
    settings.mask_files.extend(tables.mask_files.iter().cloned());
    settings.deny.extend(tables.deny.iter().cloned());
    settings.env_exclude.extend(tables.env_exclude.iter().cloned());
    // A second list would be joined to the first, and so keep more names.
    if settings.env_include_only.is_empty() {
        settings.env_include_only.extend(tables.env_include_only.iter().cloned());
    } else if let Some(first) = tables.env_include_only.first() {
        ignored.push(&first.origin);
    }

    let rank_protect = |protect: &_| *protect == super::settings::Protect::DangerOff;
    stricter(&mut settings.protect, &tables.protect, rank_protect, ignored);
    stricter(&mut settings.home, &tables.home, |mode| *mode, ignored);
    stricter(&mut settings.state, &tables.state, |mode| *mode, ignored);
    stricter(&mut settings.toolchains, &tables.toolchains, |on| *on, ignored);
    stricter(&mut settings.caches, &tables.caches, |mode| *mode, ignored);
    stricter(&mut settings.inherit, &tables.inherit, |base| *base, ignored);
    stricter(&mut settings.ignore_default_excludes, &tables.ignore_default_excludes, |on| *on, ignored);
    stricter(&mut settings.network, &tables.network, |mode| *mode, ignored);
    stricter(&mut settings.agent_hosts, &tables.agent_hosts, |on| *on, ignored);
    stricter(&mut settings.toolchain_hosts, &tables.toolchain_hosts, |on| *on, ignored);
    stricter(&mut settings.log_required, &tables.log_required, |on| !*on, ignored);
    stricter(&mut settings.summary, &tables.summary, |on| !*on, ignored);
    stricter(&mut settings.terminal.filter, &tables.terminal_filter, |filter| *filter, ignored);
    for (class, offer) in &tables.terminal {
        if let Some(slot) = settings.terminal.passes.get_mut(class) {
            stricter(slot, &Some(offer.clone()), |passes| *passes, ignored);
        }
    }
    lower_limits(&mut settings.limits, &tables.limits, ignored);
}

/// The user's own `mode = "deny"` makes it stricter; a fake that works somewhere does not, and a project has no say at all.
fn tighten_secrets(settings: &mut Settings, tables: &Tables, ignored: &mut Ignored) {
    let strict = |mode, origin: &Origin| mode == Some(SecretMode::Deny) && origin.layer != Layer::Project;
    for (name, entry) in &tables.secrets {
        if strict(entry.mode, &entry.origin) {
            settings.secrets.insert(name.clone(), entry.clone());
        } else {
            ignored.push(&entry.origin);
        }
    }
    for (path, entry) in &tables.secret_files {
        if strict(entry.mode, &entry.origin) {
            settings.secret_files.insert(path.clone(), entry.clone());
        } else {
            ignored.push(&entry.origin);
        }
    }
}

/// Replaces `slot` by a stricter `offer`; of two values the one of lower `rank` is stricter.
pub(super) fn stricter<T: Clone, R: Ord>(
    slot: &mut Sourced<T>,
    offer: &Option<Sourced<T>>,
    rank: impl Fn(&T) -> R,
    ignored: &mut Ignored,
) {
    let Some(offer) = offer else { return };
    match rank(&offer.value).cmp(&rank(&slot.value)) {
        std::cmp::Ordering::Less => *slot = offer.clone(),
        std::cmp::Ordering::Equal => {}
        std::cmp::Ordering::Greater => ignored.push(&offer.origin),
    }
}

fn lower_limits(limits: &mut Limits, offers: &Limits, ignored: &mut Ignored) {
    lower(&mut limits.memory, &offers.memory, ignored);
    lower(&mut limits.pids, &offers.pids, ignored);
    lower(&mut limits.cpu_percent, &offers.cpu_percent, ignored);
    lower(&mut limits.files, &offers.files, ignored);
    lower(&mut limits.time_seconds, &offers.time_seconds, ignored);
}

fn lower<T: Copy + Ord>(slot: &mut Option<Sourced<T>>, offer: &Option<Sourced<T>>, ignored: &mut Ignored) {
    match slot {
        Some(slot) => stricter(slot, offer, |limit| *limit, ignored),
        None => slot.clone_from(offer),
    }
}

fn never_from_project(dotted: &str) -> bool {
    let (table, name) = dotted.split_once('.').unwrap_or(("", dotted));
    if table == "secrets" {
        return true;
    }
    KEYS.iter().any(|key| key.table == table && key.name == name && key.project == FromProject::Never)
}

fn listed(origins: &[&Origin]) -> Option<String> {
    if origins.is_empty() {
        return None;
    }
    let names: Vec<String> = origins.iter().map(|origin| Entry(origin).to_string()).collect();
    Some(names.join(", "))
}

/// A key with its line: `network.allow (line 3)`.
struct Entry<'a>(&'a Origin);

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.place {
            Some((_, line)) => write!(f, "{} (line {line})", self.0.what),
            None => f.write_str(&self.0.what),
        }
    }
}

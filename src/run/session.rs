//! One session: the jail is held, recorded, started, attended, and what happened is said.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use time::OffsetDateTime;

use crate::audit::{self as event, Counters, Event, Log, SessionId};
use crate::config::settings::{NetworkMode, Profile};
use crate::egress::refusal::Refusal;
use crate::egress::{Door, NetEvent, Observer, SecretEvent, SecretUse, Verdict};
use crate::error::{Error, Kind, Result};
use crate::guard::live::Live;
use crate::guard::named::Named;
use crate::guard::{Guard, Places, left};
use crate::host::Host;
use crate::launch::doors::publish;
use crate::launch::keeper::Keeper;
use crate::launch::start::{Supplies, order};
use crate::launch::supervisor::{End, SetUp, Supervisor, Watching};
use crate::plan::show;
use crate::policy::secrets::lines;
use crate::policy::{NetworkRule, Policy, terminal};
use crate::report::Reporter;
use crate::sanitize::escape;
use crate::terminal::{Class, Report, Terminal};

use super::doctor::cause;
use super::masking::{self, Masking, Revokes};
use super::prepare::Prepared;
use super::start_line::start_line;
use super::{handover, secrets};

/// How much is said at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Summary {
    /// Everything.
    Whole,
    /// Not what was denied, dropped or failed, nor what is handed over: the user wants no summary.
    Needed,
}

/// The logs' directory below ai-jail's state.
const LOG: &str = "log";
/// One session of so many, on average, removes old logs: that reads the whole directory.
const PRUNE_EVERY: u32 = 16;

/// Runs the prepared session. Returns the exit status.
pub(super) fn run(
    keeper: Keeper,
    host: &Host,
    prepared: &Prepared,
    revokes: &mut Revokes,
    reporter: &Reporter,
) -> Result<u8> {
    let Prepared { policy, plan, streams, .. } = prepared;
    let roots: Vec<&Path> = prepared.trees.iter().map(|tree| tree.root.as_path()).collect();
    for line in left::remind(&Places::new(&prepared.state), &roots) {
        reporter.warn(&line);
    }
    let started = Instant::now();
    let published = publish(plan)?;
    // A signal from here on ends the session, and not us alone: what was made for it is revoked.
    let mut supervisor = Supervisor::new(&plan.inner.ignored, published)?;
    let Masking { plan: completed, inspector, warnings, concealed } =
        masking::begin(host, prepared, revokes, reporter.has_details())?;
    let plan = completed.as_ref().unwrap_or(plan);
    // Not before the values are known: a host that is one is not to be repeated.
    for warning in policy.warnings.iter().chain(&warnings) {
        reporter.warn(warning);
    }
    let terminal = Terminal::open(streams, terminal::classes(&policy.settings.terminal))?;
    let supplies = Supplies { data: &prepared.data, covered: &prepared.covered, sources: &prepared.sources };
    let points = order(&keeper, plan, &supplies, streams, terminal.as_ref()).map_err(cause)?;
    // While the jail is built and held: nothing runs before the log is open.
    let session = SessionId::new(OffsetDateTime::now_utc(), std::process::id());
    let mut guard = guard(prepared, &session, reporter)?;
    let record = Arc::new(Record::open(prepared, session, reporter)?);
    record.add(&Event::Start(start_record(policy, prepared)));
    // They were said when it was done.
    for line in &prepared.swept {
        record.add(&note(event::NoteKind::Live, line));
    }
    let masked = secrets::begin(prepared, &record, reporter);
    let mut live = match &guard {
        Some(guard) => live(guard, prepared, &record, reporter)?,
        None => None,
    };
    let held = match supervisor.held(&keeper) {
        Ok(SetUp::Held(held)) => held,
        Ok(SetUp::Ended(number)) => {
            record.end(event::Exit::Signal(number), started, Summary::Whole);
            return Ok(u8::try_from(128 + number).unwrap_or(u8::MAX));
        }
        Err(error) => {
            record.end(event::Exit::Failed, started, Summary::Whole);
            return Err(cause(error));
        }
    };
    for note in &held.notes {
        reporter.warn(note);
        record.add(&self::note(event::NoteKind::Mount, note));
    }
    if let Err(error) = Named::of(&prepared.state, &policy.project).remember(&policy.asked) {
        reporter.warn(&format!(
            "what is denied and masked by its name cannot be remembered ({error}): if it is missing at the next launch, nothing will say so"
        ));
    }
    reporter.start_line(&start_line(policy));
    for line in lines(&policy.secrets, policy.profile.value) {
        reporter.start_line(&line);
    }
    reporter.details(|| show::rules(policy, &concealed));
    if std::process::id().is_multiple_of(PRUNE_EVERY) {
        // Beside the command: the launch does not wait for it.
        let logs = prepared.state.join(LOG);
        std::thread::spawn(move || Log::prune(&logs));
    }
    let watching = Watching { observer: Arc::clone(&record) as Arc<dyn Observer>, inspector };
    guard.iter_mut().for_each(Guard::opens);
    let attended = supervisor.attend(&keeper, plan, held, terminal, watching, live.as_mut());
    // The warden says the end when nothing of the jail is left; after an error it is waited for.
    let keeper = if attended.is_ok() { Some(keeper) } else { None };
    drop(points);
    let masked = masked.finish(prepared);
    let finished = guard.map(|guard| guard.finish(live)).unwrap_or_default();
    let revoked = revokes.run();
    for line in finished.lines.iter().chain(&masked).chain(&revoked) {
        record.add(&note(event::NoteKind::Guard, line));
    }
    for line in &finished.others {
        record.add(&note(event::NoteKind::Live, line));
    }
    handover::report(prepared, finished.handed, &record, reporter);
    let (end, report) = match attended {
        Ok(attended) => attended,
        Err(error) => {
            let summary = record.end(event::Exit::Failed, started, Summary::Whole);
            reporter.summary(&summary);
            return Err(error);
        }
    };
    if report.drops.total() > 0 {
        let dropped: BTreeMap<String, u64> =
            report.drops.iter().map(|(class, count)| (class.name().to_owned(), count)).collect();
        record.add(&Event::Terminal(event::TerminalDrops { dropped }));
    }
    let (status, exit) = match end {
        End::Status(status) if status > 128 => (status, event::Exit::Signal(status - 128)),
        End::Status(status) => (status, event::Exit::Status(u8::try_from(status).unwrap_or(u8::MAX))),
        End::TimedOut => {
            record.add(&note(event::NoteKind::Limit, "the time limit ended the jail"));
            (124, event::Exit::Failed)
        }
    };
    let which = if policy.settings.summary.value { Summary::Whole } else { Summary::Needed };
    let mut summary = record.end(exit, started, which);
    summary.extend(clipboard(&report, policy, which));
    summary.extend(policy.proc_view.weaker().map(str::to_owned));
    if end == End::TimedOut {
        summary.insert(0, "the time limit was reached and the jail was ended (exit status 124)".to_owned());
    }
    if !summary.is_empty() {
        if report.in_line && std::io::stderr().is_terminal() {
            reporter.new_line();
        }
        reporter.summary(&summary);
    }
    if let Some(keeper) = keeper {
        keeper.dismiss();
    }
    let sigint_ignored = plan.inner.ignored.contains(&libc::SIGINT);
    if report.interrupted && status == 128 + libc::SIGINT && !sigint_ignored {
        // The terminal was raw, so that nobody but the command was interrupted: a script or a loop around us goes on
        // unless it gets the signal too, and sees that we died of it.
        crate::sys::process::reset_signal_dispositions(&[]);
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::INT);
    }
    Ok(u8::try_from(status).unwrap_or(u8::MAX))
}

/// What was copied to the clipboard, or how to allow it when it was tried.
fn clipboard(report: &Report, policy: &Policy, which: Summary) -> Option<String> {
    let copies = &report.copies;
    if copies.count() > 0 {
        let times =
            if copies.count() == 1 { String::new() } else { format!(" {} times, last", copies.count()) };
        let more = if copies.excerpt().len() < copies.length() { "..." } else { "" };
        return Some(format!(
            "copied to the clipboard{times} ({} bytes): \"{}{more}\"",
            copies.length(),
            escape(copies.excerpt())
        ));
    }
    let tried = which == Summary::Whole && report.drops.count(Class::ClipboardWrite) > 0;
    // Nothing in a file widens that profile.
    (tried && policy.profile.value != Profile::Lockdown).then(|| {
        "the command tried to copy to the clipboard; clipboard_write = true in [terminal] of your own configuration \
         lets it"
            .to_owned()
    })
}

/// Why a launch with `deny` or `mask` needs the guard.
const LIVE_COVERS: &str = "what is denied or masked could not be covered while the jail runs; leave --deny and --mask out to run without";

/// The guard over what appears in protected places. Without a record of its own a session is swept at its end alone.
fn guard(prepared: &Prepared, session: &SessionId, reporter: &Reporter) -> Result<Option<Guard>> {
    // Sockets are watched for also where nothing is protected.
    let trees = if prepared.policy.protected_off() { &[] } else { prepared.trees.as_slice() };
    match Guard::start(Places::new(&prepared.state), &session.to_string(), trees) {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if !prepared.policy.asked.is_empty() => Err(error.hint(LIVE_COVERS)),
        Err(error) => {
            reporter.warn(&format!(
                "{error}; what appears in protected places is not held back when this session ends: look at `git status` afterwards"
            ));
            Ok(None)
        }
    }
}

/// The guard while the jail runs. Without it what appears is held back at the end.
fn live(
    guard: &Guard,
    prepared: &Prepared,
    record: &Arc<Record>,
    reporter: &Reporter,
) -> Result<Option<Live>> {
    let record = Arc::clone(record);
    let say = Box::new(move |text: &str| record.add(&note(event::NoteKind::Live, text)));
    match guard.live(&prepared.policy, vec![prepared.state.clone(), prepared.data.clone()], say) {
        Ok(live) => Ok(live),
        Err(error) if !prepared.policy.asked.is_empty() => {
            Err(Error::new(Kind::Setup, "the project cannot be watched").because(error).hint(LIVE_COVERS))
        }
        Err(error) => {
            reporter.warn(&format!(
                "the project cannot be watched ({error}): what appears in protected places is held back when the session ends, and what is replaced outside is not protected until then"
            ));
            Ok(None)
        }
    }
}

pub(super) fn note(kind: event::NoteKind, text: &str) -> Event {
    Event::Note(event::Note { kind, path: None, text: text.to_owned() })
}

/// The log and the counters of one session; the doors report to it.
pub(super) struct Record {
    inner: Mutex<Inner>,
}

struct Inner {
    log: Option<Log>,
    counters: Counters,
    /// Why the log could not be written, to be said once.
    broken: Option<Error>,
}

impl Record {
    /// Opens the log. One that cannot be written stops the launch when the policy says so, else it is one warning.
    fn open(prepared: &Prepared, session: SessionId, reporter: &Reporter) -> Result<Self> {
        let log = match Log::open(&prepared.state.join(LOG), session) {
            Ok(log) => Some(log),
            Err(error) if prepared.policy.settings.log_required.value => {
                return Err(error.hint("log.required is set, so nothing runs without a log; log.required = false makes that a warning"));
            }
            Err(error) => {
                reporter.warn(&format!("{error}; this session is not recorded"));
                None
            }
        };
        Ok(Self { inner: Mutex::new(Inner { log, counters: Counters::default(), broken: None }) })
    }

    pub(super) fn add(&self, event: &Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.counters.count(event);
        if let Some(Err(error)) = inner.log.as_mut().map(|log| log.record(event)) {
            inner.log = None;
            inner.broken = Some(error);
        }
    }

    /// Writes the last record and returns the lines of the summary.
    fn end(&self, exit: event::Exit, started: Instant, which: Summary) -> Vec<String> {
        let totals = self.inner.lock().unwrap_or_else(PoisonError::into_inner).counters.totals();
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.add(&Event::End(event::End { exit, duration_ms, totals }));
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = match which {
            Summary::Whole => inner.counters.summary(),
            Summary::Needed => inner.counters.guarded(),
        };
        if let Some(count) = inner.log.as_ref().map(Log::left_out).filter(|count| *count > 0) {
            lines.insert(0, format!("the log of this session is full: {count} records had no room in it"));
        }
        let finished = inner.log.take().map_or(Ok(()), Log::finish);
        if let Some(error) = inner.broken.take().or(finished.err()) {
            lines.insert(0, format!("{error}; the log of this session is not complete"));
        }
        lines
    }
}

impl Observer for Record {
    fn decided(&self, event: NetEvent) {
        let (rule, refusal) = match event.verdict {
            Verdict::Allowed { rule } => (Some(rule), None),
            Verdict::Denied(refusal) => (None, Some(refusal)),
            Verdict::Failed { line } => {
                return self.add(&note(event::NoteKind::Network, line.trim_start_matches("ai-jail: ")));
            }
            // What came of an allowed connection is not a decision.
            Verdict::Closed { .. } => return,
        };
        let door = match event.door {
            Door::Proxy => event::Door::Http,
            Door::Socks => event::Door::Socks,
            Door::Forward => event::Door::Forward,
            Door::Publish => event::Door::Publish,
            Door::Transparent => event::Door::Transparent,
            Door::Resolver => event::Door::Dns,
        };
        let target = event::NetDecision {
            is_beside: event.is_beside,
            ..event::NetDecision::allowed(door, event.host, event.port.unwrap_or(0))
        };
        let decision = match refusal {
            None => event::NetDecision { rule, ..target },
            Some(refusal) => {
                let reason = Some(refusal.reason());
                let Refusal { code, rule, origin, meant, request, .. } = refusal;
                let (request, allow) =
                    request.map_or((None, None), |request| (Some(request.asked), request.allow));
                event::NetDecision {
                    verdict: event::Verdict::Denied,
                    rule,
                    origin: origin.map(|origin| origin.to_string()),
                    code: Some(code.to_owned()),
                    reason,
                    meant: meant.map(|host| host.to_string()),
                    request,
                    allow,
                    ..target
                }
            }
        };
        self.add(&Event::Net(decision));
    }

    fn secret(&self, secret: SecretEvent) {
        let SecretEvent { name, host, port, what } = secret;
        let what = match what {
            SecretUse::Used => event::SecretWhat::Used,
            SecretUse::Stray => event::SecretWhat::Stray,
            SecretUse::Misplaced => event::SecretWhat::Misplaced,
            SecretUse::Scrubbed => event::SecretWhat::Scrubbed,
        };
        self.add(&Event::Secret(event::SecretUse { name, host, port, what, count: 1 }));
    }
}

fn start_record(policy: &Policy, prepared: &Prepared) -> event::Start {
    let (network, hosts) = match &policy.network {
        NetworkRule::Off => (NetworkMode::Off, 0),
        NetworkRule::Filtered(net) => (NetworkMode::Filtered, net.allow.len()),
        NetworkRule::DangerOpen => (NetworkMode::Open, 0),
    };
    event::Start {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        profile: policy.profile.value,
        project: policy.project.to_string_lossy().into_owned(),
        command: policy.program.to_string_lossy().into_owned(),
        network,
        hosts,
        home: policy.home_mode.value,
        state: policy.settings.state.value,
        secrets: masking::names(policy).collect(),
        protections: event::Protections {
            landlock_abi: policy.landlock_abi,
            seccomp: true,
            userns_disabled: true,
            bwrap: prepared.plan.bwrap.to_string_lossy().into_owned(),
        },
    }
}

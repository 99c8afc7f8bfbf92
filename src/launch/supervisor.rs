//! The loop that runs while the command does: the doors, the terminal, signals, the warden.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::egress::inspect::Inspector;
use crate::egress::{Doors, LateBind, Observer, PortDoor, serve};
use crate::error::{Error, Kind, Result};
use crate::guard::channels::Question;
use crate::guard::ground::Cover;
use crate::guard::live::Live;
use crate::plan::inner::StageReport;
use crate::plan::{NetworkPlan, Plan};
use crate::terminal::{Relay, Report, Terminal};

use super::doors::{Late, Wanted, doors};
use super::keeper::Keeper;
use super::protocol::{Reply, Request};
use super::signals::{Meaning, Signals};
use super::start::{HELD, Held, held_by};

/// After the terminal is gone the command has this long to end by itself.
const HANG_UP_GRACE: Duration = Duration::from_secs(3);

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this status: its own, or 128 and the number of the signal.
    Status(i32),
    /// The time that it was given is over.
    TimedOut,
}

/// What became of the jail that was ordered.
pub enum SetUp {
    /// It stands and is held.
    Held(Held),
    /// The launcher got this signal, which ends it.
    Ended(i32),
}

/// Who hears of what happens at the doors, and what reads the traffic with the hosts that need it.
pub struct Watching {
    /// Hears of every decision.
    pub observer: Arc<dyn Observer>,
    /// Without it the hosts that need it cannot be reached.
    pub inspector: Option<Arc<Inspector>>,
}

/// What the loop needs, made while the jail is built.
pub struct Supervisor {
    runtime: Runtime,
    signals: Signals,
    published: Vec<PortDoor>,
}

impl Supervisor {
    /// From here on a signal is handed on and does not end us, in whatever mode the terminal is.
    /// A signal of `ignored` stays ignored.
    /// `published` are the doors of [`publish`].
    pub fn new(ignored: &[i32], published: Vec<PortDoor>) -> Result<Self> {
        raise_open_files();
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
        let context = runtime.enter();
        let signals = Signals::new(ignored).map_err(failed)?;
        drop(context);
        Ok(Self { runtime, signals, published })
    }

    /// Waits until the jail that was ordered is held, or until a signal ends the launch.
    pub fn held(&mut self, keeper: &Keeper) -> Result<SetUp> {
        let signals = &mut self.signals;
        self.runtime.block_on(async {
            let warden = watch(keeper.socket())?;
            let deadline = tokio::time::Instant::now() + HELD;
            loop {
                tokio::select! {
                    biased;
                    what = signals.next() => match what {
                        Meaning::HandOn(number) | Meaning::End(number) => return Ok(SetUp::Ended(number)),
                        Meaning::Suspend => stop(),
                        Meaning::Resized | Meaning::Continued => {}
                    },
                    ready = warden.readable() => {
                        drop(ready.map_err(failed)?);
                        return held_by(keeper.next()?).map(SetUp::Held);
                    }
                    () = tokio::time::sleep_until(deadline) => {
                        return Err(Error::new(Kind::Setup, "the jail was not ready in time"));
                    }
                }
            }
        })
    }

    /// Opens the door and attends until the command has ended. Returns how, and what the terminal filter has to tell.
    ///
    /// The terminal is put back as it was found, whatever happens.
    pub fn attend(
        self,
        keeper: &Keeper,
        plan: &Plan,
        held: Held,
        terminal: Option<Terminal>,
        watching: Watching,
        live: Option<&mut Live>,
    ) -> Result<(End, Report)> {
        let doors = doors(held.listeners, plan, self.published)?;
        let relay = terminal.map(Terminal::start).transpose()?;
        let end = self.runtime.block_on(supervise(
            keeper,
            plan,
            doors,
            relay.as_ref(),
            self.signals,
            watching,
            live,
        ));
        // A lookup that hangs occupies a thread, which dropping the runtime would wait for.
        self.runtime.shutdown_background();
        let report = relay.map(Relay::finish).unwrap_or_default();
        Ok((end?, report))
    }
}

async fn supervise(
    keeper: &Keeper,
    plan: &Plan,
    doors: Option<Doors>,
    relay: Option<&Relay>,
    mut signals: Signals,
    watching: Watching,
    mut live: Option<&mut Live>,
) -> Result<End> {
    let (late, mut wanted) = mpsc::channel(64);
    let mut egress = match (&plan.network, doors) {
        (NetworkPlan::Filtered(policy), Some(doors)) => {
            let late: Arc<dyn LateBind> = Arc::new(Late { wanted: late });
            Some(tokio::spawn(serve(doors, policy.clone(), watching.inspector, late, watching.observer)))
        }
        _ => None,
    };
    let warden = watch(keeper.socket())?;
    // Whoever ignores the hang-up outlives the terminal.
    let attached = relay.filter(|_| !plan.inner.ignored.contains(&libc::SIGHUP));
    let hung_up = attached.map(|relay| watch(relay.hung_up())).transpose()?;
    let mut binding: VecDeque<oneshot::Sender<io::Result<OwnedFd>>> = VecDeque::new();
    let mut connecting: VecDeque<oneshot::Sender<io::Result<OwnedFd>>> = VecDeque::new();
    let watched = live.as_deref().map(Wake::new).transpose()?;
    let mut deadline = plan.time.map(|time| tokio::time::Instant::now() + time);
    let mut settled = Some(tokio::time::Instant::now() + super::SETTLED);
    let mut terminal_gone = false;
    let mut ending = None;
    let kept: Vec<_> = live.iter().map(|live| live.descriptor()).collect();
    keeper.ask(&Request::Go, &kept)?;
    let end = loop {
        tokio::select! {
            ready = warden.readable() => {
                let mut ready = ready.map_err(failed)?;
                let (reply, mut descriptors) = match (keeper.next(), ending) {
                    (Ok(next), _) => next,
                    // It was told to end the jail, did so, and closed its end.
                    (Err(_), Some(end)) => break end,
                    (Err(error), None) => return Err(error),
                };
                // One message may be one of several: ask again until the kernel says otherwise.
                if !more(keeper) {
                    ready.clear_ready();
                }
                match reply {
                    Reply::Started => {}
                    Reply::NotExecuted { errno, found } => return Err(not_executed(plan, &StageReport::NotExecuted { errno, found })),
                    Reply::Failed { what, why } => return Err(Error::new(Kind::Setup, what).because(why)),
                    Reply::Bound(_, made) => {
                        if let Some(sender) = binding.pop_front() {
                            let listener = descriptors.pop().filter(|_| made);
                            let _ = sender.send(listener.ok_or_else(|| io::Error::from(io::ErrorKind::AddrInUse)));
                        }
                    }
                    Reply::Connected(_, begun) => {
                        if let Some(sender) = connecting.pop_front() {
                            let stream = descriptors.pop().filter(|_| begun);
                            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
                            let _ = sender.send(stream.ok_or_else(refused));
                        }
                    }
                    Reply::Covered(answer) => {
                        if let Some(live) = &mut live {
                            cover(keeper, live.answered(&answer));
                        }
                    }
                    Reply::Channel(answer) => {
                        if let Some(live) = &mut live {
                            channels(keeper, live.channel_answered(&answer));
                        }
                    }
                    Reply::Held { .. } => {}
                    Reply::Ended(status) => break ending.unwrap_or(End::Status(status)),
                }
            }
            Some((wanted, sender)) = wanted.recv() => match wanted {
                Wanted::Listener(address) => {
                    binding.push_back(sender);
                    tell(keeper, &Request::Bind(address));
                }
                Wanted::Connection(address) => {
                    connecting.push_back(sender);
                    tell(keeper, &Request::Connect(address));
                }
            },
            () = happened(watched.as_ref(), live.as_deref()) => {
                if let Some(live) = &mut live {
                    cover(keeper, live.turn());
                    channels(keeper, live.channels());
                }
            }
            what = signals.next() => match what {
                // It would have ended a launcher that does not handle it, and left the terminal as it was.
                Meaning::End(number) => {
                    deadline = None;
                    ending = Some(End::Status(128 + number));
                    tell(keeper, &Request::Kill);
                }
                what => act(what, keeper, relay),
            },
            why = doors_failed(egress.as_mut()) => {
                // The command must not go on with doors that nobody attends.
                return Err(Error::new(Kind::Setup, "the jail was ended").because(why));
            }
            () = readable(hung_up.as_ref()), if !terminal_gone => {
                terminal_gone = true;
                tell(keeper, &Request::Signal(libc::SIGHUP));
                deadline = Some(tokio::time::Instant::now() + HANG_UP_GRACE);
            }
            () = until(settled), if settled.is_some() => {
                settled = None;
                crate::sys::memory::settle();
            }
            () = until(deadline), if deadline.is_some() => {
                deadline = None;
                ending = Some(if terminal_gone { End::Status(128 + libc::SIGHUP) } else { End::TimedOut });
                tell(keeper, &Request::Kill);
            }
        }
    };
    if let Some(egress) = egress {
        egress.abort();
    }
    Ok(end)
}

/// Waits for ever, unless the doors give up: then for the reason.
async fn doors_failed(egress: Option<&mut JoinHandle<io::Result<Infallible>>>) -> String {
    match egress {
        None => std::future::pending().await,
        Some(doors) => match doors.await {
            Ok(Ok(never)) => match never {},
            Ok(Err(error)) => error.to_string(),
            Err(error) => format!("the doors to the network failed: {error}"),
        },
    }
}

/// Every connection takes descriptors of the supervisor, never of the jail, which was started before.
fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With the old limit fewer connections are served at once.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Says something to a warden that may have ended meanwhile; its end is seen on its socket.
fn tell(keeper: &Keeper, request: &Request) {
    let _ = keeper.ask(request, &[]);
}

/// Asks the warden to cover what may have lost its mount.
fn cover(keeper: &Keeper, covers: Vec<Cover>) {
    for Cover { root, below, how } in covers {
        tell(keeper, &Request::Cover { root, below, how });
    }
}

/// Asks the warden to cover sockets and FIFOs that the jail did not make.
fn channels(keeper: &Keeper, questions: Vec<Question>) {
    for Question { root, below, object } in questions {
        tell(keeper, &Request::Channel { root, below, object });
    }
}

/// What wakes the loop for the guard.
struct Wake {
    events: AsyncFd<OwnedFd>,
    found: Arc<tokio::sync::Notify>,
}

impl Wake {
    fn new(live: &Live) -> Result<Self> {
        Ok(Self { events: watch(live.descriptor())?, found: live.wake() })
    }

    /// Waits for events in the trees.
    async fn events(&self) {
        while let Ok(mut ready) = self.events.readable().await {
            if is_readable(self.events.get_ref().as_fd()) {
                return;
            }
            ready.clear_ready();
        }
        // Without its descriptor the guard is as good as none; the sweep at the end is not.
        std::future::pending().await
    }
}

/// Waits until the guard has something to do.
async fn happened(wake: Option<&Wake>, live: Option<&Live>) {
    let (Some(wake), Some(live)) = (wake, live) else { return std::future::pending().await };
    if live.is_busy() {
        return tokio::task::yield_now().await;
    }
    if live.is_stalled() {
        return std::future::pending().await;
    }
    tokio::select! {
        () = wake.events() => {}
        () = wake.found.notified() => {}
        () = until(live.due().map(tokio::time::Instant::from_std)) => {}
    }
}

/// What a signal to the launcher means for the jail.
fn act(what: Meaning, keeper: &Keeper, relay: Option<&Relay>) {
    match (what, relay) {
        (Meaning::Resized, Some(relay)) => relay.resized(),
        (Meaning::Resized, None) => {}
        (Meaning::Suspend, Some(relay)) => relay.suspend_request(),
        (Meaning::Suspend, None) => {
            tell(keeper, &Request::Signal(libc::SIGTSTP));
            stop();
        }
        (Meaning::Continued, Some(relay)) => relay.continued(),
        (Meaning::Continued, None) => tell(keeper, &Request::Signal(libc::SIGCONT)),
        (Meaning::HandOn(number) | Meaning::End(number), _) => tell(keeper, &Request::Signal(number)),
    }
}

/// The shell that waits for us must see a stopped job; its SIGCONT comes as a signal to us.
fn stop() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

fn watch(fd: BorrowedFd<'_>) -> Result<AsyncFd<OwnedFd>> {
    fd.try_clone_to_owned().and_then(crate::sys::readiness::readable).map_err(failed)
}

async fn readable(fd: Option<&AsyncFd<OwnedFd>>) {
    match fd {
        Some(fd) => drop(fd.readable().await),
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Whether another message is waiting.
fn more(keeper: &Keeper) -> bool {
    is_readable(keeper.socket())
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut polled = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
    matches!(
        rustix::event::poll(&mut polled, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })),
        Ok(1..)
    )
}

fn not_executed(plan: &Plan, report: &StageReport) -> Error {
    let program = crate::sanitize::escape(OsStr::from_bytes(&plan.inner.program)).to_string();
    let kind = if report.exit_code() == 127 { Kind::NotFound } else { Kind::NotExecutable };
    let error = Error::new(kind, format!("cannot start {program}")).because(report.why());
    match report {
        StageReport::NotExecuted { errno: libc::ENOENT, .. } => {
            error.hint("show its directory to the jail with --ro PATH")
        }
        _ => error,
    }
}

pub(super) fn failed(error: io::Error) -> Error {
    Error::new(Kind::Setup, "the jail's supervisor failed").because(error)
}

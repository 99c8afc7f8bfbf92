//! Watching the trees on the host: inotify on every directory whose names matter.
//!
//! Watches are set on descriptors that were opened beneath the root through no symlink, so that nothing outside is ever
//! watched. Their number and what is remembered of them are bounded; what is not watched is left to the sweep at the end.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use tokio::sync::Notify;

use super::channels::is_channel;
use super::ground::{Ground, Spot};
use super::veils::Progress;
use crate::plan::operation::Veil;

/// No session watches more.
const MAX_WATCHES: usize = 50_000;
/// Where the kernel says how many a user may have.
const KERNEL_LIMIT: &str = "/proc/sys/fs/inotify/max_user_watches";
/// Bytes of events that are read at once.
const BATCH: usize = 16 << 10;
/// New directories that are armed at once.
const ARM_AT_ONCE: usize = 32;
/// What waits to be looked at; what is beyond is found when everything is looked at again.
const MAX_WAITING: usize = 50_000;
/// How long the thread waits for room, where so much was found that nobody has looked at yet.
const NO_ROOM: Duration = Duration::from_millis(10);
/// How long nothing is looked at where not everything can be watched.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How deep directories are followed.
const DEPTH_LIMIT: usize = 64;

/// The watches of a session.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inotify: OwnedFd,
    ground: Arc<Ground>,
    bounds: Bounds,
    state: Mutex<State>,
    stop: AtomicBool,
    is_arming: AtomicBool,
    is_looking: AtomicBool,
    wake: Arc<Notify>,
}

/// What a session watches and remembers at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Directories and files.
    pub(super) watches: usize,
    /// Names that something happened to.
    pub(super) waiting: usize,
}

#[derive(Debug, Default)]
struct State {
    watched: HashMap<i32, Watched>,
    /// Directories that appeared and are to be armed, and whether their names are guarded.
    to_arm: VecDeque<(Spot, bool)>,
    /// Names that something happened to.
    touched: BTreeSet<(Spot, Why)>,
    /// The kernel, or our own bound, allows no more.
    full: bool,
    /// Something had no room in `touched`.
    lost: bool,
}

#[derive(Debug, Clone)]
enum Watched {
    Directory(Patrol),
    /// A file whose contents decide.
    File(Spot),
}

/// A directory that is watched.
#[derive(Debug, Clone)]
struct Patrol {
    spot: Spot,
    /// Whether its names are guarded.
    guarded: bool,
    /// How far the globs have come in it; `None` when nothing is covered anywhere.
    progress: Option<Progress>,
}

/// Whether a directory is watched, or looked at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Eye {
    Watch,
    Look,
}

/// Who looks at a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The loop, which never waits.
    Loop,
    /// The thread, which waits until there is room for what it finds.
    Thread,
}

/// Why a path is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It has a name that is protected.
    Named,
    /// It is, or holds, something that the jail holds.
    Holds,
    /// It is a socket or a FIFO.
    Channel,
    /// It has to be covered by this.
    Covered(Veil),
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Paths that something happened to, or that were found when their directory was armed.
    pub touched: Vec<(Spot, Why)>,
    /// Events were lost: everything is to be looked at again.
    pub lost: bool,
}

/// How many directories a session watches at most: half of what the kernel lets a user watch, and a bound of our own.
pub fn most_watches() -> usize {
    let kernel =
        std::fs::read_to_string(KERNEL_LIMIT).ok().and_then(|text| text.trim().parse::<usize>().ok());
    kernel.map_or(MAX_WATCHES, |limit| (limit / 2).min(MAX_WATCHES))
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// When the kernel gives no inotify descriptor.
    pub fn new(ground: Arc<Ground>) -> std::io::Result<Self> {
        Self::bounded(ground, Bounds { watches: most_watches(), waiting: MAX_WAITING })
    }

    /// The same with bounds of its own.
    pub(super) fn bounded(ground: Arc<Ground>, bounds: Bounds) -> std::io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let shared = Shared {
            inotify,
            ground,
            bounds,
            state: Mutex::default(),
            stop: AtomicBool::new(false),
            is_arming: AtomicBool::new(false),
            is_looking: AtomicBool::new(false),
            wake: Arc::new(Notify::new()),
        };
        Ok(Self { shared: Arc::new(shared), thread: None })
    }

    /// Watches one directory now, without those below it.
    pub fn arm(&self, spot: &Spot) {
        let _ = self.shared.arm(spot, self.shared.ground.is_guarded(spot.tree), Eye::Watch, By::Loop);
    }

    /// Watches all the rest, in a thread of its own. Each directory is looked at once it is watched. Returns false when
    /// that is being done already.
    pub fn arm_rest(&mut self) -> bool {
        if self.shared.is_arming.swap(true, Ordering::AcqRel) {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        self.thread = Some(std::thread::spawn(move || {
            shared.arm_all();
            shared.is_arming.store(false, Ordering::Release);
            shared.wake.notify_one();
            shared.look_again_and_again();
        }));
        true
    }

    /// Watches the contents of a file. Returns whether that is possible.
    pub fn arm_file(&self, spot: &Spot) -> bool {
        self.shared.arm_file(spot).unwrap_or(false)
    }

    /// The descriptor that becomes readable.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.inotify.as_fd()
    }

    /// What tells that something was found while arming.
    pub fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.wake)
    }

    /// Whether there is work that no event will announce.
    pub fn is_busy(&self) -> bool {
        let state = self.shared.state();
        !state.touched.is_empty() || !state.to_arm.is_empty()
    }

    /// Whether the thread is still at work.
    #[cfg(test)]
    pub(super) fn is_arming(&self) -> bool {
        self.shared.is_arming.load(Ordering::Acquire)
    }

    /// Whether some directories are not watched, for there are too many.
    pub fn is_full(&self) -> bool {
        self.shared.state().full
    }

    /// Reads one batch of events and arms some of the directories that appeared. Never waits.
    pub fn read(&self) -> Seen {
        let lost = self.shared.events();
        for _ in 0..ARM_AT_ONCE {
            let next = self.shared.state().to_arm.pop_front();
            let Some((spot, guarded)) = next else { break };
            let below = self.shared.arm(&spot, guarded, Eye::Watch, By::Loop);
            let _ = below.map(|below| self.shared.state().queue(below));
        }
        let mut state = self.shared.state();
        let touched = std::mem::take(&mut state.touched).into_iter().collect();
        Seen { touched, lost: std::mem::take(&mut state.lost) || lost }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends after the directory that it is at.
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl State {
    fn queue(&mut self, spots: Vec<(Spot, bool)>) {
        for spot in spots {
            if self.to_arm.len() < MAX_WAITING {
                self.to_arm.push_back(spot);
            } else {
                self.full = true;
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something happened to a path.
    fn touch(&self, spot: Spot, why: Why, by: By) {
        let is_crowded = || self.state().touched.len() >= self.bounds.waiting / 2;
        while by == By::Thread && is_crowded() && !self.stop.load(Ordering::Relaxed) {
            self.wake.notify_one();
            std::thread::park_timeout(NO_ROOM);
        }
        let mut state = self.state();
        if state.touched.len() < self.bounds.waiting {
            state.touched.insert((spot, why));
        } else {
            state.lost = true;
        }
    }

    /// Watches everything. What cannot be watched is looked at once.
    fn arm_all(&self) {
        let first = self.ground.first().into_iter();
        let mut waiting: Vec<(Spot, bool)> = first
            .map(|spot| (self.ground.is_guarded(spot.tree), spot))
            .map(|(guarded, spot)| (spot, guarded))
            .collect();
        while let Some((spot, guarded)) = waiting.pop() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            waiting.extend(self.arm(&spot, guarded, Eye::Watch, By::Thread).unwrap_or_default());
            if !self.state().touched.is_empty() {
                self.wake.notify_one();
            }
        }
    }

    /// Where not everything can be watched, what has to be covered is looked for until the end.
    fn look_again_and_again(&self) {
        if !self.ground.veils().has_globs()
            || !self.state().full
            || self.is_looking.swap(true, Ordering::AcqRel)
        {
            return;
        }
        loop {
            let mut waiting: Vec<Spot> = self.ground.first();
            while let Some(spot) = waiting.pop() {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let below = self.arm(&spot, false, Eye::Look, By::Thread).unwrap_or_default();
                waiting.extend(below.into_iter().map(|(spot, _)| spot));
            }
            if !self.state().touched.is_empty() {
                self.wake.notify_one();
            }
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Watches a directory if there is room, then looks at what is in it. Returns the directories in it that matter, and
    /// whether their names are guarded.
    fn arm(&self, spot: &Spot, guarded: bool, eye: Eye, by: By) -> Result<Vec<(Spot, bool)>, Errno> {
        let directory = self.open(spot, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)?;
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        let veils = self.ground.veils();
        let progress = (!veils.is_empty()).then(|| veils.progress(&self.ground.path(spot)));
        let patrol = Patrol { spot: spot.clone(), guarded, progress };
        if eye == Eye::Watch {
            self.add(directory.as_fd(), flags, Watched::Directory(patrol.clone()))?;
        }
        let mut below = Vec::new();
        let deep = spot.below.components().count() >= DEPTH_LIMIT;
        for entry in Dir::read_from(&directory)? {
            let Ok(entry) = entry else { break };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.look(&patrol, name, by);
            let place = spot.below.join(name);
            if matches!(entry.file_type(), FileType::Socket | FileType::Fifo) {
                self.touch(Spot { tree: spot.tree, below: place.clone() }, Why::Channel, by);
            }
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => {
                    let path = self.ground.path(&Spot { tree: spot.tree, below: place.clone() });
                    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
                }
                _ => false,
            };
            if is_directory && !deep {
                below.extend(self.enters(&patrol, name));
            }
        }
        Ok(below)
    }

    fn arm_file(&self, spot: &Spot) -> Result<bool, Errno> {
        let file = self.open(spot, OFlags::PATH)?;
        self.add(file.as_fd(), WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE, Watched::File(spot.clone()))
    }

    /// The directory `name` in another one, if something in it matters, and whether its names are guarded.
    fn enters(&self, patrol: &Patrol, name: &OsStr) -> Option<(Spot, bool)> {
        let at = &patrol.spot;
        let guarded = patrol.guarded && self.ground.enters(at, name);
        let covered = |progress| {
            let path = self.ground.path(at).join(name);
            self.ground.veils().enters(progress, &path, name) && !self.ground.is_apart(&path)
        };
        (guarded || patrol.progress.as_ref().is_some_and(covered))
            .then(|| (Spot { tree: at.tree, below: at.below.join(name) }, guarded))
    }

    /// Notes what `name` in a directory touches.
    fn look(&self, patrol: &Patrol, name: &OsStr, by: By) {
        let at = &patrol.spot;
        let touched = if patrol.guarded { self.ground.touched(at, name) } else { Vec::new() };
        let itself = at.below.join(name);
        let path = self.ground.path(&Spot { tree: at.tree, below: itself.clone() });
        let held = self.ground.covered_below(&path).next().is_some();
        let veil =
            patrol.progress.as_ref().and_then(|progress| self.ground.veils().veil(progress, &path, name));
        if touched.is_empty() && !held && veil.is_none() {
            return;
        }
        let covered = veil.map(|veil| (itself.clone(), Why::Covered(veil)));
        let named = touched.into_iter().map(|below| (below, Why::Named));
        for (below, why) in covered.into_iter().chain(named).chain(held.then_some((itself, Why::Holds))) {
            self.touch(Spot { tree: at.tree, below }, why, by);
        }
    }

    /// Adds one watch; false when there is no room for it.
    fn add(&self, object: BorrowedFd<'_>, flags: WatchFlags, what: Watched) -> Result<bool, Errno> {
        // Held over both, so that no event is read before it is known what it is about.
        let mut state = self.state();
        if state.watched.len() >= self.bounds.watches {
            state.full = true;
            return Ok(false);
        }
        match inotify::add_watch(&self.inotify, format!("/proc/self/fd/{}", object.as_raw_fd()), flags) {
            Ok(number) => {
                state.watched.insert(number, what);
                Ok(true)
            }
            Err(Errno::NOSPC | Errno::NOMEM) => {
                state.full = true;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn open(&self, spot: &Spot, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = &self.ground.trees()[spot.tree].root;
        if spot.below.as_os_str().is_empty() {
            return openat(CWD, root, flags, Mode::empty());
        }
        let root = openat(CWD, root, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(&root, &spot.below, flags, Mode::empty(), resolve)
    }

    /// Reads one batch. Returns whether events were lost.
    fn events(&self) -> bool {
        // The kernel keeps what happens, and says when it could not.
        if self.state().touched.len() >= self.bounds.waiting / 2 {
            return false;
        }
        let mut buffer = [MaybeUninit::uninit(); BATCH];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut lost = false;
        // An error is the end of what is there; anything else would come again.
        while let Ok(event) = reader.next() {
            let (number, what) = (event.wd(), event.events());
            let name: Option<OsString> =
                event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
            lost |= what.contains(ReadFlags::QUEUE_OVERFLOW);
            if what.contains(ReadFlags::IGNORED) {
                self.state().watched.remove(&number);
            } else {
                self.event(number, what, name.as_deref());
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        lost
    }

    fn event(&self, number: i32, what: ReadFlags, name: Option<&OsStr>) {
        let watched = self.state().watched.get(&number).cloned();
        match (watched, name) {
            (Some(Watched::File(spot)), _) => self.touch(spot, Why::Named, By::Loop),
            // Of what gets another mode only a directory matters: it may have been closed to us until now.
            (Some(Watched::Directory(_)), Some(_))
                if what.contains(ReadFlags::ATTRIB) && !what.contains(ReadFlags::ISDIR) => {}
            (Some(Watched::Directory(patrol)), Some(name)) => {
                self.look(&patrol, name, By::Loop);
                let came = what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::ATTRIB);
                let spot = Spot { tree: patrol.spot.tree, below: patrol.spot.below.join(name) };
                if came && !what.contains(ReadFlags::ISDIR) && is_channel(&self.ground.path(&spot)) {
                    self.touch(spot, Why::Channel, By::Loop);
                }
                if came && what.contains(ReadFlags::ISDIR) {
                    let entered = self.enters(&patrol, name);
                    self.state().queue(entered.into_iter().collect());
                }
            }
            _ => {}
        }
    }
}

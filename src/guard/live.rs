//! While the jail runs: what appears in protected places is moved away at once, and what is replaced outside is covered
//! again.

mod contents;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;

use crate::launch::protocol::Covered;
use crate::plan::operation::Veil;
use crate::sanitize::escape;

use self::contents::Contents;
use super::channels::{Answer, Channels, Question};
use super::ground::{Cover, Ground, Spot};
use super::quarantine::Quarantine;
use super::repository::{Verdict, judge};
use super::watch::{Watch, Why};

/// After so many moves of one name it is left to the sweep at the end: whoever makes it again and again has the time.
const MAX_MOVES: u32 = 200;
/// Of so many names it is counted.
const MAX_NAMES: usize = 10_000;
/// Questions to the warden that are not answered yet.
const MAX_ASKED: usize = 16;
/// A directory is left alone for so long after it appeared: `git checkout`, `git worktree add` and `tar` make it and then the
/// files in it, and would fail when it were gone in between. Nothing outside runs what is in it as soon as it is there.
const GRACE: Duration = Duration::from_millis(300);
/// The longest, for one that stays empty or gets more and more.
const LONGEST_GRACE: Duration = Duration::from_secs(3);
/// Directories that wait; what is beyond is moved at once.
const MAX_POSTPONED: usize = 1000;
/// Paths that wait for the warden; until there is room again what happens is kept by whoever tells of it.
const MAX_WAITING: usize = 10_000;
/// What is looked at in one turn; the loop goes on in between.
const AT_ONCE: usize = 64;

/// The guard of a running jail. It never waits: whoever holds it calls [`Live::turn`] when there is something.
pub struct Live {
    ground: Arc<Ground>,
    watch: Watch,
    channels: Channels,
    quarantine: Quarantine,
    say: Box<dyn Fn(&str)>,
    touched: VecDeque<(Spot, Why)>,
    moves: HashMap<PathBuf, u32>,
    grace: Duration,
    /// Directories in protected places, and until when each is left alone; the first is due first.
    postponed: VecDeque<(Instant, Spot)>,
    waiting: VecDeque<Wanted>,
    is_waiting: HashSet<Wanted>,
    /// What every question was about, oldest first: answers come in this order.
    asked: VecDeque<Wanted>,
    /// How often a path was covered again.
    covered: BTreeMap<PathBuf, u64>,
    /// How often what is denied, masked or hidden was covered, and which paths.
    veils: u64,
    veiled: BTreeMap<PathBuf, u64>,
    at_launch: Contents,
    /// What the user must see first, by path.
    changed: BTreeMap<PathBuf, String>,
    failed: BTreeMap<PathBuf, String>,
    lost: bool,
    said_full: bool,
}

/// A path that the jail holds, or that has to be covered by something else.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wanted {
    path: PathBuf,
    veil: Option<Veil>,
}

/// What is left to say when the jail has ended.
#[derive(Debug)]
pub struct Ended {
    /// What was held back so far.
    pub quarantine: Quarantine,
    /// Lines for the user, most important first.
    pub lines: Vec<String>,
}

impl Live {
    /// Watches the roots and the git directories, and everything else from a thread. `say` records an event.
    ///
    /// # Errors
    /// When the kernel gives no inotify descriptor.
    pub fn start(
        ground: Ground,
        channels: Channels,
        quarantine: Quarantine,
        say: Box<dyn Fn(&str)>,
    ) -> std::io::Result<Self> {
        let ground = Arc::new(ground);
        let watch = Watch::new(Arc::clone(&ground))?;
        Ok(Self { channels, grace: GRACE, ..Self::with(ground, watch, quarantine, say) })
    }

    fn with(ground: Arc<Ground>, mut watch: Watch, quarantine: Quarantine, say: Box<dyn Fn(&str)>) -> Self {
        for spot in ground.first() {
            watch.arm(&spot);
        }
        let at_launch = Contents::read(ground.covered());
        watch.arm_rest();
        Self {
            ground,
            watch,
            channels: Channels::default(),
            quarantine,
            say,
            touched: VecDeque::new(),
            moves: HashMap::new(),
            grace: Duration::ZERO,
            postponed: VecDeque::new(),
            waiting: VecDeque::new(),
            is_waiting: HashSet::new(),
            asked: VecDeque::new(),
            covered: BTreeMap::new(),
            veils: 0,
            veiled: BTreeMap::new(),
            at_launch,
            changed: BTreeMap::new(),
            failed: BTreeMap::new(),
            lost: false,
            said_full: false,
        }
    }

    /// The descriptor that becomes readable when something happened.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.watch.descriptor()
    }

    /// What tells that the thread found something.
    pub fn wake(&self) -> Arc<Notify> {
        self.watch.wake()
    }

    /// Whether there is work that nothing else will announce.
    pub fn is_busy(&self) -> bool {
        (self.has_room() && (self.watch.is_busy() || !self.touched.is_empty()))
            || self.can_ask()
            || self.channels.is_busy()
            || self.postponed.front().is_some_and(|(due, _)| *due <= Instant::now())
    }

    /// Whether nothing can be done before the warden has answered.
    pub fn is_stalled(&self) -> bool {
        !self.has_room() && !self.can_ask()
    }

    /// When there will be work although nothing happens.
    pub fn due(&self) -> Option<Instant> {
        let postponed = self.postponed.front().map(|(due, _)| *due);
        [self.channels.due(), postponed].into_iter().flatten().min()
    }

    /// What the warden is to be asked about sockets and FIFOs; to be called after [`Live::turn`].
    pub fn channels(&mut self) -> Vec<Question> {
        self.channels.turn()
    }

    /// Takes the answer to the oldest of those questions. Returns what is to be asked next.
    pub fn channel_answered(&mut self, answer: &Answer) -> Vec<Question> {
        self.channels.answered(answer, &self.say)
    }

    /// Does a bounded piece of what is to be done. Returns what the warden is to be asked for.
    pub fn turn(&mut self) -> Vec<Cover> {
        let ground = Arc::clone(&self.ground);
        if self.touched.is_empty() {
            // Else the kernel keeps what happens, and says when it could not.
            let seen = self.watch.read();
            self.lost |= seen.lost;
            self.touched.extend(seen.touched);
        }
        for _ in 0..AT_ONCE {
            if !self.has_room() {
                break;
            }
            let Some((spot, why)) = self.touched.pop_front() else { break };
            let path = self.ground.path(&spot);
            if why == Why::Channel {
                self.channels.found(path);
                continue;
            }
            if let Why::Covered(veil) = why {
                let target = ground.veils().target(&path);
                self.wanted(Wanted { path, veil: Some(veil) });
                target.into_iter().for_each(|target| self.wanted(Wanted { path: target, veil: Some(veil) }));
                continue;
            }
            let held: Vec<PathBuf> = ground.covered_below(&path).cloned().collect();
            for held in held.into_iter().filter(|held| ground.is_known(held)) {
                self.uncovered(held);
            }
            if why == Why::Named && !ground.is_known(&path) && !ground.is_moved(&path) {
                self.appeared(&spot, &path);
            }
        }
        for _ in 0..AT_ONCE {
            if self.postponed.front().is_none_or(|(due, _)| *due > Instant::now()) {
                break;
            }
            let Some((_, spot)) = self.postponed.pop_front() else { break };
            let path = self.ground.path(&spot);
            if ground.is_known(&path) || ground.is_moved(&path) {
                continue;
            }
            if is_being_filled(&path) {
                self.postponed.push_back((Instant::now() + self.grace, spot));
                continue;
            }
            self.judge_and_move(&spot, &path);
        }
        if self.lost && self.watch.arm_rest() {
            self.lost = false;
            (self.say)("too much happened at once in the writable trees: everything is looked at again");
            let all: Vec<PathBuf> = self.ground.covered().cloned().collect();
            all.into_iter().for_each(|path| self.uncovered(path));
        }
        if self.watch.is_full() && !self.said_full {
            self.said_full = true;
            (self.say)(&self.full());
            // From now on what is not watched is looked at again and again, also when everything was watched until now.
            self.watch.arm_rest();
        }
        self.ask()
    }

    /// Takes the answer to the oldest question. Returns what is to be asked next.
    pub fn answered(&mut self, answer: &Covered) -> Vec<Cover> {
        let Some(Wanted { path, veil }) = self.asked.pop_front() else { return Vec::new() };
        if let Some(veil) = veil {
            self.veiled(path, veil, answer);
            return self.ask();
        }
        match answer {
            Covered::Already | Covered::Missing => {}
            Covered::Again => {
                let count = self.covered.entry(path.clone()).or_default();
                *count += 1;
                if *count == 1 {
                    (self.say)(&format!("{} was replaced outside and is covered again", escape(&path)));
                }
                self.check(&path);
            }
            Covered::Failed(why) => {
                let line =
                    format!("{} was replaced outside and cannot be covered again: {why}", escape(&path));
                if self.failed.insert(path, line.clone()).is_none() {
                    (self.say)(&line);
                }
            }
        }
        self.ask()
    }

    /// The jail has ended: looks once more at what was uncovered, and says what is to be said.
    pub fn end(mut self) -> Ended {
        let covered: Vec<PathBuf> = self.covered.keys().cloned().collect();
        for path in covered {
            // A descriptor that was opened in the moment without a cover can be written through until the end.
            self.check(&path);
        }
        for (path, count) in self.covered.iter().filter(|(_, count)| **count > 1) {
            (self.say)(&format!("{} was covered again {count} times", escape(path)));
        }
        if self.veils > 1 {
            (self.say)(&format!(
                "what is denied, masked or hidden was covered {} times while the jail ran",
                self.veils
            ));
        }
        let full = self.watch.is_full().then(|| self.full());
        // Each was recorded when it happened.
        let recorded = &mut Vec::new();
        let mut lines: Vec<String> = super::first(self.changed.into_values(), recorded).into_iter().collect();
        lines.extend(super::first(self.failed.into_values(), recorded));
        lines.extend(self.channels.lines());
        lines.extend(full);
        Ended { quarantine: self.quarantine, lines }
    }

    /// Something that is denied, masked or hidden was looked at by the warden.
    fn veiled(&mut self, path: PathBuf, veil: Veil, answer: &Covered) {
        let shown = escape(&path).to_string();
        let how = match veil {
            Veil::Closed => "denied",
            Veil::Empty => "masked",
        };
        match answer {
            Covered::Already | Covered::Missing => {}
            Covered::Again => {
                self.veils += 1;
                if self.veiled.len() >= MAX_NAMES && !self.veiled.contains_key(&path) {
                    return;
                }
                let what = match self.ground.veils().was_covered(&path) {
                    true => "was replaced outside and is covered again",
                    false => "appeared and is covered",
                };
                let count = self.veiled.entry(path).or_default();
                *count += 1;
                if *count == 1 {
                    (self.say)(&format!("{shown} {what} ({how})"));
                }
            }
            Covered::Failed(why) => {
                let line = format!("{shown} is to be {how} and cannot be covered: {why}");
                let room = self.failed.len() < MAX_NAMES || self.failed.contains_key(&path);
                if room && self.failed.insert(path, line.clone()).is_none() {
                    (self.say)(&line);
                }
            }
        }
    }

    /// Something happened to a path that the jail holds.
    fn uncovered(&mut self, path: PathBuf) {
        self.wanted(Wanted { path, veil: None });
    }

    fn wanted(&mut self, wanted: Wanted) {
        if self.is_waiting.insert(wanted.clone()) {
            self.waiting.push_back(wanted);
        }
    }

    /// What is said when not everything can be watched.
    fn full(&self) -> String {
        match self.ground.veils().has_globs() {
            true => format!("{FULL}; what is denied or masked is looked for in them every second or so"),
            false => FULL.to_owned(),
        }
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING && self.channels.has_room()
    }

    fn can_ask(&self) -> bool {
        !self.waiting.is_empty() && self.asked.len() < MAX_ASKED
    }

    fn ask(&mut self) -> Vec<Cover> {
        let mut questions = Vec::new();
        while self.can_ask()
            && let Some(wanted) = self.waiting.pop_front()
        {
            // From now on it counts anew: the warden looks later than this.
            self.is_waiting.remove(&wanted);
            let Wanted { path, veil } = &wanted;
            let covers = match veil {
                None => self.ground.covers(path).to_vec(),
                Some(veil) => self.ground.veils().covers(path, *veil),
            };
            for cover in covers {
                self.asked.push_back(wanted.clone());
                questions.push(cover);
            }
        }
        questions
    }

    /// A path that was not protected at launch has a name that is.
    fn appeared(&mut self, spot: &Spot, path: &Path) {
        let Ok(metadata) = path.symlink_metadata() else { return };
        let named = |name: &str| spot.below.file_name().is_some_and(|own| own == name);
        if named(".git") && metadata.is_dir() {
            return;
        }
        // What lies in a git directory is run by the next git command.
        let in_git = spot.below.components().any(|part| part.as_os_str() == ".git");
        if metadata.is_dir() && !in_git && !self.grace.is_zero() && self.postponed.len() < MAX_POSTPONED {
            if !self.postponed.iter().any(|(_, known)| known == spot) {
                self.postponed.push_back((Instant::now() + self.grace, spot.clone()));
            }
            return;
        }
        self.judge_and_move(spot, path);
    }

    fn judge_and_move(&mut self, spot: &Spot, path: &Path) {
        let Ok(metadata) = path.symlink_metadata() else { return };
        let named = |name: &str| spot.below.file_name().is_some_and(|own| own == name);
        let root = &self.ground.trees()[spot.tree].root;
        let in_new_repository = self.ground.in_new_repository(spot);
        let verdict = judge(root, &spot.below, in_new_repository);
        // Both are judged by what they say, and git makes them before it writes them.
        let says = metadata.is_file() && (named(".git") || named("commondir"));
        match verdict {
            Verdict::HoldBack if says && metadata.len() == 0 && self.waits_for(spot, path) => {}
            // It was written while it was looked at.
            Verdict::HoldBack if says && metadata.len() == 0 && self.is_kept(spot, in_new_repository) => {}
            Verdict::HoldBack => self.hold_back(spot, path),
            Verdict::Keep if says => {
                // It may be written again.
                let _ = self.watch.arm_file(spot);
            }
            Verdict::Keep | Verdict::Hooks | Verdict::Config => {}
        }
    }

    fn is_kept(&self, spot: &Spot, in_new_repository: bool) -> bool {
        let root = &self.ground.trees()[spot.tree].root;
        matches!(judge(root, &spot.below, in_new_repository), Verdict::Keep) && self.watch.arm_file(spot)
    }

    /// Whether an empty file is watched, and still empty.
    fn waits_for(&self, spot: &Spot, path: &Path) -> bool {
        self.watch.arm_file(spot) && path.symlink_metadata().is_ok_and(|metadata| metadata.len() == 0)
    }

    fn hold_back(&mut self, spot: &Spot, path: &Path) {
        if self.moves.len() >= MAX_NAMES && !self.moves.contains_key(path) {
            return;
        }
        let moves = self.moves.entry(path.to_path_buf()).or_default();
        if *moves >= MAX_MOVES {
            return;
        }
        *moves += 1;
        let shown = escape(path).to_string();
        match self.quarantine.take_now(&self.ground.trees()[spot.tree].root, &spot.below) {
            Ok(()) if *moves == MAX_MOVES => (self.say)(&format!(
                "{shown} was moved away {MAX_MOVES} times: it is left alone until the session ends"
            )),
            Ok(()) if *moves == 1 => {
                (self.say)(&format!("{shown} appeared in a protected place and was moved away"))
            }
            Ok(()) => {}
            // It went away by itself.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                *moves = MAX_MOVES;
                (self.say)(&format!(
                    "{shown} appeared in a protected place and cannot be moved away yet: {error}"
                ));
            }
        }
    }

    fn check(&mut self, path: &Path) {
        let Some(what) = self.at_launch.changed(path) else { return };
        let line = format!("{} was uncovered for a moment and {what}: look at it", escape(path));
        if self.changed.get(path) != Some(&line)
            && (self.changed.len() < MAX_NAMES || self.changed.contains_key(path))
        {
            (self.say)(&line);
            self.changed.insert(path.to_path_buf(), line);
        }
    }
}

/// Whether a directory is younger than [`LONGEST_GRACE`], and empty or given something new a moment ago.
fn is_being_filled(path: &Path) -> bool {
    let Ok(metadata) = path.symlink_metadata() else { return false };
    let age = |time: std::io::Result<SystemTime>| time.ok().and_then(|time| time.elapsed().ok());
    let (Some(made), Some(changed)) = (age(metadata.created()), age(metadata.modified())) else {
        return false;
    };
    let is_empty = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    made < LONGEST_GRACE && (changed < GRACE / 2 || is_empty())
}

const FULL: &str = "the writable trees have more directories than can be watched (fs.inotify.max_user_watches): \
    what appears in the others is held back when the session ends, not at once";

#[cfg(test)]
mod tests;

//! Sockets and FIFOs that appear in the trees while the jail runs (FS-11): a program outside made them, or the jail itself.
//!
//! Whose a socket is, the kernel knows: it lists the bound sockets of a network namespace with the inode of each, and the
//! warden asks it in the jail's (or, when the jail has the host's network, looks which processes of the jail hold it).
//! A FIFO cannot be told apart, so one is covered where only the host can have made it: in trees that the jail cannot write.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, fstat, openat, statx};

use crate::host::protected::{ChannelKind, is_bound};
use crate::plan::operation::Access;
use crate::policy::Policy;
use crate::policy::files::{FileRules, Source};
use crate::sanitize::escape;

/// Questions to the warden that are not answered yet.
const MAX_ASKED: usize = 16;
/// What waits to be looked at.
const MAX_WAITING: usize = 50_000;
/// Questions that wait to be asked.
const MAX_QUESTIONS: usize = 10_000;
/// Paths that are remembered for what is said at the end.
const MAX_NAMES: usize = 10_000;
/// What is looked at in one turn.
const AT_ONCE: usize = 64;
/// A socket has its name a moment before it is bound, so that one without a program is looked at again, after so long.
const AGAIN: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];

/// A path that the warden is to cover if it is not the jail's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The root of the mount that the path is seen through, in the jail.
    pub root: PathBuf,
    /// The path below it.
    pub below: PathBuf,
    /// Which object it must be.
    pub object: Object,
}

/// A socket or a FIFO as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Object {
    /// Its inode.
    pub inode: u64,
    /// The device of its file system, as `mountinfo` and `sock_diag(7)` have it, which `stat(2)` need not.
    pub device: (u32, u32),
    /// What it is.
    pub kind: ChannelKind,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Answer {
    /// It is covered now.
    Covered,
    /// It was covered, or is granted.
    Already,
    /// The jail made it.
    Own,
    /// It is not there any more.
    Missing,
    /// It is covered because nobody can say whose it is, for this reason.
    Unknown(String),
    /// The kernel refused to cover it, for this reason.
    Failed(String),
}

/// Where a path of the host shows in the jail.
#[derive(Debug)]
struct Shown {
    source: PathBuf,
    dest: PathBuf,
    access: Access,
}

/// The sockets and FIFOs of a session. Like the guard it never waits.
#[derive(Debug, Default)]
pub struct Channels {
    shown: Vec<Shown>,
    rules: FileRules,
    /// Sockets that the user named: they stay, also when their program makes them anew.
    named: HashSet<PathBuf>,
    waiting: VecDeque<(PathBuf, usize)>,
    is_waiting: HashSet<PathBuf>,
    /// What is looked at again, and when.
    later: VecDeque<(Instant, PathBuf, usize)>,
    questions: VecDeque<(PathBuf, Question)>,
    /// The path of every question that was asked, oldest first: answers come in this order.
    asked: VecDeque<PathBuf>,
    covered: BTreeMap<PathBuf, u64>,
    failed: BTreeMap<PathBuf, String>,
    is_unknown_said: bool,
    mounts: Mounts,
}

impl Channels {
    /// For the trees that `policy` shows.
    pub fn new(policy: &Policy) -> Self {
        let shown = policy.files.iter().filter_map(|rule| match &rule.source {
            Source::Host(source) => {
                Some(Shown { source: source.clone(), dest: rule.dest.clone(), access: rule.access })
            }
            _ => None,
        });
        let named = policy.files.iter().filter_map(|rule| match &rule.source {
            Source::Socket(path) => Some(path.clone()),
            _ => None,
        });
        Self {
            shown: shown.collect(),
            named: named.collect(),
            rules: policy.files.clone(),
            ..Self::default()
        }
    }

    /// Notes that there is a socket or a FIFO at `path`, on the host. To be called while [`Self::has_room`].
    pub fn found(&mut self, path: PathBuf) {
        if !self.named.contains(&path) && self.is_waiting.insert(path.clone()) {
            self.waiting.push_back((path, 0));
        }
    }

    /// Whether there is work that nothing else will announce.
    pub fn is_busy(&self) -> bool {
        let can_look = !self.waiting.is_empty() && self.questions.len() < MAX_QUESTIONS;
        can_look || (!self.questions.is_empty() && self.asked.len() < MAX_ASKED)
    }

    /// Whether another path can be [`Self::found`].
    pub fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }

    /// When there will be work again.
    pub fn due(&self) -> Option<Instant> {
        self.later.iter().map(|(due, ..)| *due).min()
    }

    /// Does a bounded piece of what is to be done. Returns what the warden is to be asked.
    pub fn turn(&mut self) -> Vec<Question> {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = self.later.drain(..).partition(|(due, ..)| *due <= now);
        self.later = later.into();
        for (_, path, times) in due {
            if self.is_waiting.insert(path.clone()) {
                self.waiting.push_back((path, times));
            }
        }
        for _ in 0..AT_ONCE {
            if self.questions.len() >= MAX_QUESTIONS {
                break;
            }
            let Some((path, times)) = self.waiting.pop_front() else { break };
            self.is_waiting.remove(&path);
            self.look(path, times, now);
        }
        self.ask()
    }

    /// Takes the answer to the oldest question, and says what is new. Returns what is to be asked next.
    pub fn answered(&mut self, answer: &Answer, say: &dyn Fn(&str)) -> Vec<Question> {
        let Some(path) = self.asked.pop_front() else { return Vec::new() };
        match answer {
            Answer::Already | Answer::Own | Answer::Missing => {}
            Answer::Covered | Answer::Unknown(_) => {
                if self.covered.len() < MAX_NAMES || self.covered.contains_key(&path) {
                    let count = self.covered.entry(path.clone()).or_default();
                    *count += 1;
                    if *count == 1 {
                        say(&format!("{} was made by a program outside and is covered", escape(&path)));
                    }
                }
                if let Answer::Unknown(why) = answer
                    && !std::mem::replace(&mut self.is_unknown_said, true)
                {
                    say(&format!(
                        "whose sockets are whose cannot be told: {why}; all that appear are covered"
                    ));
                }
            }
            Answer::Failed(why) => {
                let line = format!(
                    "{} was made by a program outside and cannot be covered: {why}; the jail could talk to it",
                    escape(&path)
                );
                let room = self.failed.len() < MAX_NAMES || self.failed.contains_key(&path);
                if room && self.failed.insert(path, line.clone()).is_none() {
                    say(&line);
                }
            }
        }
        self.ask()
    }

    /// What the user should know at the end, what is worst first.
    pub fn lines(self) -> Vec<String> {
        // Each was recorded when it happened.
        let mut lines: Vec<String> =
            super::first(self.failed.into_values(), &mut Vec::new()).into_iter().collect();
        if let Some(first) = self.covered.keys().next() {
            let shown = escape(first);
            let more = match self.covered.len() {
                1 => String::new(),
                many => format!(" (and {} more)", many - 1),
            };
            let unknown = if self.is_unknown_said { ", perhaps the jail's own," } else { "" };
            lines.push(format!(
                "{shown}{more} appeared while the jail ran and was covered: it leads to a program outside{unknown} that --socket {shown} grants"
            ));
        }
        lines
    }

    fn look(&mut self, path: PathBuf, times: usize, now: Instant) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(object) = openat(CWD, &path, flags, Mode::empty()) else { return };
        let Ok(stat) = fstat(&object) else { return };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => ChannelKind::Socket,
            FileType::Fifo => ChannelKind::Fifo,
            _ => return,
        };
        let places: Vec<(PathBuf, PathBuf)> = self
            .shown
            .iter()
            .filter_map(|shown| {
                let below =
                    path.strip_prefix(&shown.source).ok().filter(|below| !below.as_os_str().is_empty())?;
                let inside = shown.dest.join(below);
                let decides = self.rules.deciding(&inside).is_some_and(|rule| rule.dest == shown.dest);
                decides.then(|| (shown.dest.clone(), below.to_path_buf(), shown.access))
            })
            .map(|(root, below, _)| (root, below))
            .collect();
        let is_writable = self
            .shown
            .iter()
            .any(|shown| shown.access == Access::Writable && path.starts_with(&shown.source));
        match kind {
            ChannelKind::Fifo if is_writable => return,
            ChannelKind::Socket if !is_bound(&object) => {
                if let Some(wait) = AGAIN.get(times).filter(|_| self.later.len() < MAX_WAITING) {
                    self.later.push_back((now + *wait, path, times + 1));
                }
                return;
            }
            _ => {}
        }
        let device = self
            .mounts
            .device(&object)
            .unwrap_or_else(|| (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)));
        let object = Object { inode: stat.st_ino, device, kind };
        let questions =
            places.into_iter().map(|(root, below)| (path.clone(), Question { root, below, object }));
        self.questions.extend(questions);
    }

    fn ask(&mut self) -> Vec<Question> {
        let mut questions = Vec::new();
        while self.asked.len() < MAX_ASKED
            && let Some((path, question)) = self.questions.pop_front()
        {
            self.asked.push_back(path);
            questions.push(question);
        }
        questions
    }
}

/// The devices of file systems as the kernel itself knows them, by mount.
#[derive(Debug, Default)]
struct Mounts {
    known: BTreeMap<u64, (u32, u32)>,
}

impl Mounts {
    /// `None` when the kernel does not tell.
    fn device(&mut self, object: &OwnedFd) -> Option<(u32, u32)> {
        let mount = statx(object, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?.stx_mnt_id;
        if let Some(device) = self.known.get(&mount) {
            return Some(*device);
        }
        self.known = read_mounts(&fs::read_to_string("/proc/self/mountinfo").ok()?);
        self.known.get(&mount).copied()
    }
}

/// Number and device of each line of `mountinfo`.
fn read_mounts(text: &str) -> BTreeMap<u64, (u32, u32)> {
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let number = fields.next()?.parse().ok()?;
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        Some((number, (major.parse().ok()?, minor.parse().ok()?)))
    };
    text.lines().filter_map(line).collect()
}

/// Whether there is a socket or a FIFO at `path`.
pub fn is_channel(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.file_type().is_socket() || metadata.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::policy::files::{FileRule, Shape, Tree};
    use crate::policy::origin::Origin;

    fn channels(root: &Path, access: Access) -> Channels {
        let rule = FileRule {
            dest: "/inside".into(),
            source: Source::Host(root.to_path_buf()),
            shape: Shape::Directory,
            access,
            tree: Tree::Theirs,
            origin: Origin::built_in("test"),
        };
        Channels {
            shown: vec![Shown { source: root.to_path_buf(), dest: "/inside".into(), access }],
            rules: FileRules::new(vec![rule]),
            ..Channels::default()
        }
    }

    #[test]
    fn the_warden_is_asked_about_live_sockets_and_about_fifos_that_only_the_host_can_have_made() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let _live = UnixListener::bind(root.join("live")).unwrap();
        drop(UnixListener::bind(root.join("dead")).unwrap());
        rustix::fs::mkfifoat(CWD, root.join("fifo"), Mode::RUSR).unwrap();
        fs::write(root.join("file"), "").unwrap();
        for (access, expected) in [(Access::Writable, vec!["live"]), (Access::ReadOnly, vec!["fifo", "live"])]
        {
            let mut channels = channels(&root, access);
            for name in ["live", "dead", "fifo", "file", "gone"] {
                channels.found(root.join(name));
            }
            assert!(channels.is_busy());
            let mut asked: Vec<_> =
                channels.turn().into_iter().map(|question| question.below.display().to_string()).collect();
            asked.sort();
            assert_eq!(asked, expected);
            assert!(!channels.is_busy() && channels.due().is_some(), "the dead one is looked at again");
        }
    }

    #[test]
    fn a_socket_that_is_bound_late_is_asked_about_and_one_that_never_is_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        drop(UnixListener::bind(root.join("s")).unwrap());
        let mut channels = channels(&root, Access::Writable);
        channels.found(root.join("s"));
        assert!(channels.turn().is_empty());
        fs::remove_file(root.join("s")).unwrap();
        let _bound = UnixListener::bind(root.join("s")).unwrap();
        let wait = |channels: &Channels| {
            if let Some(due) = channels.due() {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        };
        wait(&channels);
        assert_eq!(channels.turn().len(), 1);
        channels.answered(&Answer::Covered, &|_| {});
        assert!(channels.lines()[0].contains("--socket"));

        let mut channels = self::channels(&root, Access::Writable);
        drop(UnixListener::bind(root.join("t")).unwrap());
        channels.found(root.join("t"));
        for _ in 0..=AGAIN.len() {
            assert!(channels.turn().is_empty());
            wait(&channels);
        }
        assert!(channels.due().is_none() && !channels.is_busy());
    }

    #[test]
    fn much_at_once_waits_for_room() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let _live = UnixListener::bind(root.join("s")).unwrap();
        let mut channels = channels(&root, Access::Writable);
        (0..MAX_WAITING).for_each(|number| channels.found(root.join(number.to_string())));
        assert!(!channels.has_room() && channels.is_busy());
        channels.turn();
        assert!(channels.has_room());
        channels.found(root.join("s"));
        let object = Object { inode: 1, device: (0, 0), kind: ChannelKind::Socket };
        let question = Question { root: "/inside".into(), below: "s".into(), object };
        channels.questions = vec![(root.join("s"), question); MAX_QUESTIONS + MAX_ASKED].into();
        let asked = channels.turn().len();
        assert_eq!((asked, channels.questions.len()), (MAX_ASKED, MAX_QUESTIONS));
        // Nothing more is looked at before one was answered.
        assert!(!channels.is_busy());
        channels.answered(&Answer::Missing, &|_| {});
        assert!(channels.is_busy());
    }

    #[test]
    fn a_named_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let _live = UnixListener::bind(root.join("s")).unwrap();
        let mut channels = channels(&root, Access::Writable);
        channels.named.insert(root.join("s"));
        channels.found(root.join("s"));
        assert!(channels.turn().is_empty());
    }

    #[test]
    fn the_device_of_a_mount_is_read() {
        let text =
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 0:21 / /proc rw shared:1 - proc proc rw\nodd\n";
        assert_eq!(read_mounts(text), BTreeMap::from([(22, (254, 0)), (23, (0, 21))]));
    }
}

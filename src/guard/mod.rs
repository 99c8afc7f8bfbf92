//! What appears in protected places while a jail runs is held back (FS-6).
//!
//! A path that other tools run by themselves and that was absent at launch must not be there after the session. The
//! launch writes down what was protected ([`record`]). While the jail runs, what appears is moved away at once and what is
//! replaced outside is covered again ([`live`], FS-9). When the jail has ended, or at the next launch when the supervisor
//! was killed, the trees are looked at again ([`sweep`]), and what is new goes to the [`quarantine`]: never deleted, and
//! brought back by a command of the user's.

pub mod channels;
mod follow;
pub mod ground;
pub mod handover;
mod held;
mod identity;
pub mod left;
pub mod live;
pub mod masked;
pub mod named;
pub mod quarantine;
pub mod record;
pub mod repository;
pub mod sweep;
pub mod veils;
pub mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::host::handover::Launch;
use crate::policy::{Policy, ProtectedTree};

use self::channels::Channels;
use self::ground::Ground;
use self::handover::HandedOver;
use self::held::Held;
use self::live::{Ended, Live};
use self::quarantine::Quarantine;
use self::record::Record;

/// Lines for the log beside those that are shown.
const MAX_OTHERS: usize = 1000;

/// Where the guard keeps its things: `$XDG_STATE_HOME/ai-jail`.
#[derive(Debug, Clone)]
pub struct Places {
    root: PathBuf,
}

impl Places {
    /// Below `state`, which is ai-jail's own state directory.
    pub fn new(state: &Path) -> Self {
        Self { root: state.to_path_buf() }
    }

    /// The records of running sessions.
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// The list of what could not be held back.
    pub fn left(&self) -> PathBuf {
        self.root.join("left.json")
    }

    /// What was held back.
    pub fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }
}

/// The guard of one session.
#[derive(Debug)]
pub struct Guard {
    places: Places,
    record: Record,
    held: Arc<Held>,
    /// The trees as they were, in the record's order.
    launches: Vec<Launch>,
}

/// What is to be said after a session.
#[derive(Debug, Default)]
pub struct Finished {
    /// One line for each sort of thing that the user should know, most important first.
    pub lines: Vec<String>,
    /// The others of each sort, for the log.
    pub others: Vec<String>,
    /// What is handed over.
    pub handed: HandedOver,
}

impl Guard {
    /// Writes down what is protected in `trees`, so that the next launch can sweep if this one cannot. A guard that is
    /// dropped before [`Self::opens`] leaves nothing behind.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn start(places: Places, session: &str, trees: &[ProtectedTree]) -> Result<Self> {
        let held = Held::new(trees);
        let record = Record::write(&places.sessions(), session, trees, &held)?;
        let launches = trees.iter().map(|tree| Launch::now(&tree.root, &tree.handover_known)).collect();
        Ok(Self { places, record, held: Arc::new(held), launches })
    }

    /// Guards the trees while the jail runs, and keeps covered what is covered; `None` when there is nothing to do. `own` are ai-jail's directories,
    /// `say` records an event. To be called before the door opens.
    ///
    /// # Errors
    /// When the kernel watches nothing for us.
    pub fn live(
        &self,
        policy: &Policy,
        own: Vec<PathBuf>,
        say: Box<dyn Fn(&str)>,
    ) -> std::io::Result<Option<Live>> {
        let ground = Ground::new(&self.record.trees, Arc::clone(&self.held), policy, own);
        if ground.trees().is_empty() {
            return Ok(None);
        }
        Live::start(ground, Channels::new(policy), self.quarantine(), say).map(Some)
    }

    /// The door is about to open: from now on the jail may make something.
    pub fn opens(&mut self) {
        self.record.keep();
    }

    /// Looks at the trees again and holds back what is new. To be called when nothing of the jail is left.
    pub fn finish(mut self, live: Option<Live>) -> Finished {
        let Ended { mut quarantine, mut lines } = match live {
            Some(live) => live.end(),
            None => Ended { quarantine: self.quarantine(), lines: Vec::new() },
        };
        let roots: Vec<_> = self.record.trees.iter().map(|tree| tree.root.as_path()).collect();
        let mut moves = vec![Vec::new(); roots.len()];
        for moved in self.held.moved(&roots) {
            moves[moved.tree].push((moved.from, moved.to));
        }
        for (tree, moves) in self.record.trees.iter_mut().zip(&moves) {
            tree.carry(moves);
            // What there was no descriptor for is looked for as after a kill.
            let root = tree.root.clone();
            tree.objects.retain(|object| !self.held.holds(&root.join(&object.below)));
            follow::follow(tree);
        }
        let launches: Vec<Option<Launch>> = self.launches.into_iter().map(Some).collect();
        let swept = sweep_record(&self.places, &self.record, &launches, &mut quarantine);
        // Few lines are shown: what the user must see first, then where the user's things went.
        let at = lines.len().min(1);
        lines.splice(at..at, swept.lines);
        self.record.remove();
        Finished { lines, others: swept.others, handed: swept.handed }
    }

    fn quarantine(&self) -> Quarantine {
        Quarantine::new(&self.places.quarantine(), &self.record.session)
    }
}

/// Sweeps after sessions whose supervisor was killed. Returns lines for the user, most important first.
pub fn sweep_abandoned(places: &Places) -> Vec<String> {
    let mut lines = Vec::new();
    for mut record in Record::abandoned(&places.sessions()) {
        record.trees.iter_mut().for_each(follow::follow);
        if !record.is_readable {
            lines.push(format!(
                "the session {} was killed and its record cannot be read, so what it made in protected places was not held back; look at `git status` in the project that it ran in",
                record.session
            ));
        }
        let mut quarantine = Quarantine::new(&places.quarantine(), &record.session);
        let launches: Vec<Option<Launch>> =
            record.trees.iter().map(|tree| tree.since.map(Launch::at)).collect();
        let swept = sweep_record(places, &record, &launches, &mut quarantine);
        lines.extend(swept.lines);
        lines.extend(swept.handed.line().map(|line| format!("after a session that was killed: {line}")));
        record.remove();
    }
    lines
}

fn sweep_record(
    places: &Places,
    record: &Record,
    launches: &[Option<Launch>],
    quarantine: &mut Quarantine,
) -> Finished {
    let (mut lines, mut others) = (Vec::new(), Vec::new());
    let (mut operations, mut modes) = (Vec::new(), Vec::new());
    let mut handed = HandedOver::default();
    for (tree, launch) in record.trees.iter().zip(launches) {
        let swept = sweep::sweep(tree, quarantine, launch.as_ref());
        operations.extend(swept.operations);
        modes.extend(swept.modes);
        handed.add(&tree.root, swept.handed);
    }
    // What is not safe is said before where the user's things went.
    let left = quarantine.left().iter().map(|left| {
        format!("{} may hold what other tools run by themselves and was not moved away: {}; look at it before you use the project", left.path, left.why)
    });
    lines.extend(first(left, &mut others));
    if let Err(error) = left::remember(places, quarantine.left()) {
        lines.push(format!(
            "what could not be moved away cannot be written down ({error}), and will not be said again"
        ));
    }
    if let Some((first, rest)) = quarantine.held().split_first() {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        let held = format!(
            "held back {first}{more}: other tools run it by themselves; `ai-jail quarantine list` shows it, `ai-jail quarantine restore {}` brings it back{}",
            record.session,
            if record.trees.iter().any(|tree| tree.root.join(".git").exists()) {
                " (where git tracks it, a commit made meanwhile may have deleted it)"
            } else {
                ""
            }
        );
        lines.push(held);
    }
    lines.extend(first(operations, &mut others));
    lines.extend(first(modes, &mut others));
    Finished { lines, others, handed }
}

/// The first line of one sort, and how many more there are: many of one sort hide nothing of another. The rest goes to
/// `others`, as far as there is room.
fn first(lines: impl IntoIterator<Item = String>, others: &mut Vec<String>) -> Option<String> {
    let mut lines = lines.into_iter();
    let first = lines.next()?;
    let mut more = 0;
    for line in lines {
        more += 1;
        if others.len() < MAX_OTHERS {
            others.push(line);
        }
    }
    Some(if more == 0 { first } else { format!("{first} (and {more} more like it)") })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::new(dir.path());
        fs::create_dir(places.sessions()).unwrap();
        fs::write(places.sessions().join("s.json"), "[{\"root\":").unwrap();
        let lines = sweep_abandoned(&places);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("session s was killed"), "{lines:?}");
        assert_eq!(sweep_abandoned(&places), Vec::<String>::new());
    }

    #[test]
    fn many_things_of_one_sort_are_one_line() {
        let mut others = Vec::new();
        assert_eq!(first(Vec::new(), &mut others), None);
        assert_eq!(first(["a".to_owned()], &mut others).as_deref(), Some("a"));
        let many = (0..3 * MAX_OTHERS).map(|number| number.to_string());
        assert_eq!(first(many, &mut others), Some(format!("0 (and {} more like it)", 3 * MAX_OTHERS - 1)));
        assert_eq!((others.len(), others[0].as_str()), (MAX_OTHERS, "1"));
    }

    #[test]
    fn what_could_not_be_moved_is_said_first_and_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::new(&dir.path().join("state"));
        let record = Record::write(&places.sessions(), "s", &[], &Held::new(&[])).unwrap();
        let mut quarantine = Quarantine::new(&places.quarantine(), "s");
        fs::write(dir.path().join("file"), "x").unwrap();
        assert!(quarantine.hold_back(dir.path(), Path::new("file")));
        for name in ["a", "b", "c"] {
            assert!(!quarantine.hold_back(dir.path(), Path::new(name)));
        }
        let Finished { lines, others, .. } = sweep_record(&places, &record, &[], &mut quarantine);
        assert_eq!((lines.len(), others.len()), (2, 2), "{lines:?}");
        assert!(lines[0].contains("/a may hold") && lines[0].contains("and 2 more"), "{lines:?}");
        assert!(lines[1].starts_with("held back "), "{lines:?}");
    }
}

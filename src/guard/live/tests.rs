//! On temporary trees, without a jail: what is moved, what is asked for.

use std::cell::RefCell;
use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::*;
use crate::guard::record::Tree;
use crate::guard::veils::Veils;
use crate::guard::watch::Bounds;
use crate::plan::operation::{self, Access};
use crate::policy::TreeKind;

/// How long the kernel and the thread may take.
const SOON: Duration = Duration::from_secs(20);

struct Case {
    dir: tempfile::TempDir,
    live: Live,
    said: Rc<RefCell<Vec<String>>>,
    asked: Vec<Cover>,
}

impl Case {
    fn new(before: &[&str], protected: &[&str], limit: usize) -> Self {
        Self::denying(before, protected, &[], limit)
    }

    fn denying(before: &[&str], protected: &[&str], globs: &[&str], limit: usize) -> Self {
        Self::bounded(before, protected, globs, Bounds { watches: limit, waiting: 1000 })
    }

    fn bounded(before: &[&str], protected: &[&str], globs: &[&str], bounds: Bounds) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        fs::create_dir(&root).unwrap();
        before.iter().for_each(|path| write(&root.join(path), "x"));
        let covers = protected.iter().map(|below| {
            let access = if *below == ".git" { Access::Writable } else { Access::ReadOnly };
            let cover =
                Cover { root: "/inside".into(), below: below.into(), how: operation::Cover::Pin(access) };
            (root.join(below), vec![cover])
        });
        let tree = Tree {
            root: root.clone(),
            protected: protected.iter().map(PathBuf::from).collect(),
            kind: TreeKind::Files,
            since: None,
            more: Vec::new(),
            parts: Vec::new(),
            read_only: Vec::new(),
            objects: Vec::new(),
            home: PathBuf::new(),
            own: Vec::new(),
        };
        let ground = Arc::new(Ground::with(
            vec![tree],
            Arc::default(),
            covers.collect(),
            Vec::new(),
            Veils::denying(&root, globs),
        ));
        let watch = Watch::bounded(Arc::clone(&ground), bounds).unwrap();
        let quarantine = Quarantine::new(&dir.path().join("quarantine"), "s");
        let said = Rc::new(RefCell::new(Vec::new()));
        let hears = Rc::clone(&said);
        let say = Box::new(move |text: &str| hears.borrow_mut().push(text.to_owned()));
        let live = Live::with(ground, watch, quarantine, say);
        let mut case = Self { dir, live, said, asked: Vec::new() };
        // The first look at everything is no part of what is tested; as in a jail, all is mounted.
        case.until(|case| !case.live.watch.is_arming() && !case.live.is_busy());
        case.asked.clear();
        case
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn write(&self, below: &str, text: &str) {
        write(&self.root().join(below), text);
    }

    fn has(&self, below: &str) -> bool {
        self.root().join(below).symlink_metadata().is_ok()
    }

    /// One turn; every question is answered by "it has its mount".
    fn turn(&mut self) {
        let mut questions = self.live.turn();
        while !questions.is_empty() {
            let mut next = Vec::new();
            for question in questions {
                self.asked.push(question);
                next.extend(self.live.answered(&Covered::Already));
            }
            questions = next;
        }
    }

    /// What happened before has been seen: the kernel queues events before the call that makes them returns.
    fn settle(&mut self) {
        self.turn();
        while self.live.is_busy() {
            self.turn();
        }
    }

    #[track_caller]
    fn until(&mut self, condition: impl Fn(&Self) -> bool) {
        let end = Instant::now() + SOON;
        while !condition(self) {
            assert!(Instant::now() < end, "it did not come to that; said: {:?}", self.said.borrow());
            self.turn();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn what_matches_is_covered_wherever_it_appears() {
    let globs = ["**/*.pem", "conf/local.yml", "certs/**"];
    let mut case = Case::denying(&["a/b/c", "node_modules/p/x", ".git/HEAD"], &[], &globs, 1000);
    let matching = [
        "x.pem",
        "a/b/y.pem",
        "n/e/w/z.pem",
        "node_modules/p/q/k.pem",
        ".git/k.pem",
        "conf/local.yml",
        "certs/new",
    ];
    for below in matching.iter().chain(&["x.txt", "other/local.yml"]) {
        case.write(below, "x");
    }
    // A directory that is renamed over another place, as git and editors do.
    case.write("elsewhere/deep/m.pem", "x");
    fs::rename(case.root().join("elsewhere"), case.root().join("moved")).unwrap();
    let asked = |case: &Case, below: &str| case.asked.iter().any(|cover| cover.below == Path::new(below));
    case.until(|case| matching.iter().chain(&["moved/deep/m.pem"]).all(|below| asked(case, below)));
    assert!(!asked(&case, "x.txt") && !asked(&case, "other/local.yml"));
    let veil = operation::Cover::Veil(Veil::Closed);
    assert!(case.asked.iter().all(|cover| cover.how == veil && cover.root == Path::new("/inside")));
}

#[test]
fn where_not_everything_can_be_watched_what_matches_is_looked_for_and_that_is_said() {
    let mut case = Case::denying(&["a/b/c", "d/e/f"], &[], &["**/*.pem"], 2);
    case.write("d/e/x.pem", "x");
    case.write("a/b/x.pem", "x");
    case.until(|case| {
        ["d/e/x.pem", "a/b/x.pem"]
            .iter()
            .all(|below| case.asked.iter().any(|cover| cover.below == Path::new(below)))
    });
    assert!(case.said.borrow().iter().any(|said| said.contains("looked for in them")), "{:?}", case.said);
    let lines = case.live.end().lines;
    assert!(
        lines.iter().any(|line| line.contains("max_user_watches") && line.contains("looked for")),
        "{lines:?}"
    );
}

#[test]
fn where_watches_run_out_late_what_matches_is_looked_for_too() {
    let mut case = Case::denying(&["a/x"], &[], &["**/*.pem"], 4);
    assert!(!case.live.watch.is_full());
    for below in ["b", "c", "d", "e/f"] {
        fs::create_dir_all(case.root().join(below)).unwrap();
    }
    case.until(|case| case.live.watch.is_full() && !case.live.is_busy());
    case.write("e/f/x.pem", "x");
    case.until(|case| case.asked.iter().any(|cover| cover.below == Path::new("e/f/x.pem")));
}

#[test]
fn everything_is_looked_at_again_also_where_not_everything_is_watched() {
    let mut case = Case::new(&["a/b/x", "c/d/x"], &[], 2);
    case.until(|case| case.live.said_full && !case.live.watch.is_arming());
    case.settle();
    let planted = ["a/.envrc", "a/b/.envrc", "c/.envrc", "c/d/.envrc", "n/e/w/.envrc"];
    planted.iter().for_each(|below| case.write(below, "x"));
    case.settle();
    assert!(planted.iter().any(|below| case.has(below)));
    case.live.lost = true;
    case.until(|case| planted.iter().all(|below| !case.has(below)));
}

#[test]
fn what_there_is_no_room_for_is_found_when_there_is() {
    let bounds = Bounds { watches: 1000, waiting: 20 };
    let mut case = Case::bounded(&[], &[], &["**/*.pem"], bounds);
    let outside = case.dir.path().join("many");
    let names: Vec<PathBuf> = (0..300).map(|number| format!("many/{number}.pem").into()).collect();
    names.iter().for_each(|name| write(&case.dir.path().join(name), "x"));
    fs::rename(outside, case.root().join("many")).unwrap();
    case.until(|case| names.iter().all(|name| case.asked.iter().any(|cover| cover.below == *name)));
}

#[test]
fn what_appears_is_moved_wherever_it_is_and_nothing_else_is() {
    let mut case = Case::new(&["a/b/c", "node_modules/x"], &[], 1000);
    for below in [".envrc", "a/b/.envrc", "n/e/w/.vscode/tasks.json", ".claude/settings.json"] {
        case.write(below, "x");
    }
    for below in [".claude/notes", "node_modules/p/.envrc", "src/x"] {
        case.write(below, "x");
    }
    case.until(|case| {
        [".envrc", "a/b/.envrc", "n/e/w/.vscode", ".claude/settings.json"]
            .iter()
            .all(|below| !case.has(below))
    });
    for below in [".claude/notes", "node_modules/p/.envrc", "src/x", "n/e/w", "a/b/c"] {
        assert!(case.has(below), "{below}");
    }
    assert_eq!(case.live.end().quarantine.held().len(), 4);
}

#[test]
fn a_directory_that_was_renamed_is_known_by_its_new_name() {
    let mut case = Case::new(&["old/deep/x"], &[], 1000);
    fs::rename(case.root().join("old"), case.root().join("new")).unwrap();
    case.settle();
    case.write("new/deep/.envrc", "x");
    case.until(|case| !case.has("new/deep/.envrc"));
}

#[test]
fn nothing_outside_is_watched_through_a_symlink() {
    let mut case = Case::new(&[], &[], 1000);
    let outside = case.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, case.root().join("link")).unwrap();
    case.write(".envrc", "x");
    case.until(|case| !case.has(".envrc"));
    write(&outside.join(".envrc"), "the user's");
    case.write("sub/.envrc", "x");
    case.until(|case| !case.has("sub/.envrc"));
    assert!(outside.join(".envrc").exists());
}

#[test]
fn a_git_file_is_judged_by_what_it_says_and_again_when_it_says_something_else() {
    let mut case = Case::new(&[".git/HEAD", ".git/objects/x", ".git/worktrees/w/HEAD"], &[".git"], 1000);
    case.write("w/.git", "");
    case.settle();
    assert!(case.has("w/.git"), "git makes it before it writes it");
    case.write("w/.git", &format!("gitdir: {}/.git/worktrees/w\n", case.root().display()));
    case.settle();
    assert!(case.has("w/.git"), "it leads to the project's own");
    case.write("w/.git", "gitdir: /elsewhere\n");
    case.until(|case| !case.has("w/.git"));
}

#[test]
fn a_new_repository_waits_for_the_end() {
    let mut case = Case::new(&[".git/HEAD", ".git/objects/x"], &[".git"], 1000);
    for below in ["new/.git/HEAD", "new/.git/config", "new/.git/hooks/post-commit", ".git/hooks/post-commit"]
    {
        case.write(below, "x");
    }
    case.until(|case| !case.has(".git/hooks"));
    case.settle();
    assert!(case.has("new/.git/config") && case.has("new/.git/hooks/post-commit"));
}

#[test]
fn what_is_replaced_is_asked_for_with_all_that_is_below() {
    let protected = [".envrc", ".git", ".git/config"];
    let mut case = Case::new(&[".envrc", ".git/HEAD", ".git/config"], &protected, 1000);
    let replace = |case: &Case, below: &str| {
        fs::write(case.root().join("n"), "y").unwrap();
        fs::rename(case.root().join("n"), case.root().join(below)).unwrap();
    };
    replace(&case, ".envrc");
    case.until(|case| case.asked.iter().any(|cover| cover.below == Path::new(".envrc")));
    assert!(case.has(".envrc"), "it was there at launch");
    case.asked.clear();
    fs::rename(case.root().join(".git"), case.root().join("o")).unwrap();
    case.write("g/HEAD", "x");
    case.write("g/config", "x");
    fs::rename(case.root().join("g"), case.root().join(".git")).unwrap();
    case.until(|case| {
        [".git", ".git/config"].iter().all(|below| case.asked.iter().any(|c| c.below == Path::new(below)))
    });
    case.settle();
    case.asked.clear();
    replace(&case, ".git/config");
    case.until(|case| case.asked.iter().any(|cover| cover.below == Path::new(".git/config")));
}

#[test]
fn many_replacements_are_few_questions_at_once() {
    let names: Vec<String> = (0..100).map(|number| format!("d{number}/.envrc")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut case = Case::new(&names, &names, 1000);
    for name in &names {
        case.write("n", "y");
        fs::rename(case.root().join("n"), case.root().join(name)).unwrap();
    }
    let (mut open, mut all) = (VecDeque::new(), BTreeMap::new());
    let end = Instant::now() + SOON;
    while all.len() < names.len() {
        assert!(Instant::now() < end, "{} of {}", all.len(), names.len());
        open.extend(case.live.turn());
        assert!(open.len() <= MAX_ASKED);
        if let Some(cover) = open.pop_front() {
            all.insert(cover.below, ());
            open.extend(case.live.answered(&Covered::Again));
        }
    }
}

#[test]
fn a_name_that_comes_again_and_again_is_left_to_the_end() {
    let mut case = Case::new(&[], &[], 1000);
    for _ in 0..MAX_MOVES {
        case.write(".envrc", "x");
        case.until(|case| !case.has(".envrc"));
    }
    case.write(".envrc", "x");
    case.settle();
    assert!(case.has(".envrc"));
    assert!(case.said.borrow().iter().any(|line| line.contains("200 times")));
}

#[test]
fn the_bound_of_watches_is_said_once() {
    let mut case = Case::new(&["a/x", "b/x", "c/x", "d/x"], &[], 3);
    case.write("e/x", "x");
    case.write(".envrc", "x");
    case.until(|case| !case.has(".envrc"));
    assert_eq!(case.said.borrow().iter().filter(|line| *line == FULL).count(), 1);
    assert_eq!(case.live.end().lines, [FULL]);
}

#[test]
fn what_waits_for_the_warden_is_bounded_and_nothing_of_it_is_lost() {
    let bounds = Bounds { watches: 1000, waiting: 2 * MAX_WAITING };
    let mut case = Case::bounded(&[], &[], &["**/*.pem"], bounds);
    let outside = case.dir.path().join("many");
    let count = MAX_WAITING + 100;
    (0..count).for_each(|number| write(&outside.join(format!("{number}.pem")), "x"));
    fs::rename(outside, case.root().join("many")).unwrap();
    let (mut open, mut seen) = (VecDeque::new(), HashSet::new());
    let end = Instant::now() + 10 * SOON;
    while !case.live.is_stalled() {
        assert!(Instant::now() < end, "{} wait", case.live.waiting.len());
        open.extend(case.live.turn());
    }
    assert_eq!((case.live.waiting.len(), case.live.is_busy()), (MAX_WAITING, false));
    while seen.len() < count {
        assert!(Instant::now() < end, "{} of {count}", seen.len());
        while let Some(cover) = open.pop_front() {
            seen.insert(cover.below);
            open.extend(case.live.answered(&Covered::Already));
        }
        open.extend(case.live.turn());
    }
}

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

use super::*;
use crate::audit::directory::{KEPT_FOR, MAX_BYTES, MAX_FILES};
use crate::audit::event::{Door, End, Exit, Totals};

fn session(n: u32) -> SessionId {
    SessionId::new(OffsetDateTime::UNIX_EPOCH, n)
}

fn end() -> Event {
    Event::End(End { exit: Exit::Status(0), duration_ms: 1, totals: Totals::default() })
}

fn net(host: &str) -> Event {
    let target = NetDecision::allowed(Door::Http, host.to_owned(), 443);
    Event::Net(NetDecision { verdict: Verdict::Denied, ..target })
}

fn note(text: &str) -> Event {
    Event::Note(Note { kind: NoteKind::Guard, path: None, text: text.to_owned() })
}

fn lines(dir: &Path, session: &SessionId) -> Vec<String> {
    let text = fs::read_to_string(dir.join(format!("{session}.jsonl"))).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The number of the first line whose `prev` is not the hash of the line before it.
fn broken_at(lines: &[String]) -> Option<usize> {
    let mut prev = "0".repeat(64);
    for (at, line) in lines.iter().enumerate() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        if value["prev"] != prev {
            return Some(at + 1);
        }
        prev = Sha256::digest(line).iter().map(|byte| format!("{byte:02x}")).collect();
    }
    None
}

#[test]
fn a_session_id_sorts_by_time() {
    assert_eq!(session(7).to_string(), "19700101T000000.000000Z-7");
}

#[test]
fn every_line_is_chained_to_the_one_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    for n in 0..5 {
        log.record(&note(&format!("note {n}"))).unwrap();
    }
    log.finish().unwrap();
    let lines = lines(dir.path(), &session(1));
    assert_eq!(lines.len(), 5);
    assert_eq!(broken_at(&lines), None);

    let mut changed = lines.clone();
    changed[1] = changed[1].replace("note 1", "note 9");
    assert_eq!(broken_at(&changed), Some(3));
    let mut shortened = lines.clone();
    shortened.remove(2);
    assert_eq!(broken_at(&shortened), Some(3));
    let mut swapped = lines;
    swapped.swap(0, 1);
    assert_eq!(broken_at(&swapped), Some(1));
}

#[test]
fn a_line_has_time_session_and_event() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    log.record(&end()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&lines(dir.path(), &session(1))[0]).unwrap();
    assert_eq!((&value["event"], &value["session"]), (&"end".into(), &"19700101T000000.000000Z-1".into()));
    let time = value["time"].as_str().unwrap();
    assert!(time.len() >= 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
}

#[test]
fn repeated_decisions_are_one_record_with_a_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    for _ in 0..1_000 {
        log.record(&net("evil.example")).unwrap();
    }
    log.record(&end()).unwrap();
    log.finish().unwrap();
    let counts: Vec<_> = lines(dir.path(), &session(1))
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["count"].as_u64())
        .collect();
    assert_eq!(counts, [Some(1), Some(999), None]);
}

#[test]
fn directory_and_file_are_the_users_alone() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("state/ai-jail/log");
    Log::open(&dir, session(1)).unwrap();
    for (path, mode) in [
        ("state", 0o700),
        ("state/ai-jail/log", 0o700),
        ("state/ai-jail/log/19700101T000000.000000Z-1.jsonl", 0o600),
    ] {
        let got = fs::metadata(root.path().join(path)).unwrap().mode() & 0o7777;
        assert_eq!(got, mode, "{path}");
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    Log::open(&dir, session(2)).unwrap();
    assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700, "a looser directory is closed");
}

#[test]
fn a_planted_link_or_file_is_never_written_to() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("log");
    fs::create_dir(&dir).unwrap();
    let victim = root.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, dir.join(format!("{}.jsonl", session(1)))).unwrap();
    assert_eq!(Log::open(&dir, session(1)).unwrap_err().kind(), Kind::Setup);
    fs::write(dir.join(format!("{}.jsonl", session(2))), "old").unwrap();
    assert!(Log::open(&dir, session(2)).is_err());
    let link = root.path().join("link");
    symlink(&dir, &link).unwrap();
    assert!(Log::open(&link, session(3)).is_err(), "a directory that is a link");
    assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
}

#[test]
fn a_place_where_no_directory_can_be_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "").unwrap();
    let error = Log::open(&root.path().join("file/log"), session(1)).unwrap_err();
    assert_eq!(error.kind(), Kind::Setup);
    assert!(error.to_string().contains("cannot write the audit log in "), "{error}");
}

#[test]
fn a_full_disk_is_an_error_and_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    log.file = File::options().write(true).open("/dev/full").unwrap();
    assert!(log.record(&note("x")).is_err());
    log.file = File::options().write(true).open("/dev/null").unwrap();
    assert!(log.record(&note("x")).is_err(), "the chain is broken");
}

#[test]
fn denials_that_fill_their_room_leave_room_for_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    log.denied = MAX_DENIED_BYTES;
    for n in 0..100 {
        log.record(&net(&format!("{n}.evil.example"))).unwrap();
    }
    let Event::Net(denied) = net("ok.example") else { panic!() };
    log.record(&Event::Net(NetDecision { verdict: Verdict::Allowed, ..denied })).unwrap();
    log.record(&note("after")).unwrap();
    assert_eq!(log.left_out(), 100);
    log.record(&end()).unwrap();
    let lines = lines(dir.path(), &session(1));
    let parts = ["no more denied connections are recorded", "ok.example", "after", "\"event\":\"end\""];
    assert_eq!(lines.len(), parts.len());
    for (line, part) in lines.iter().zip(parts) {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(broken_at(&lines), None);
}

#[test]
fn questions_that_fill_their_room_leave_that_of_connections() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    log.questions = MAX_QUESTION_BYTES;
    let Event::Net(denied) = net("q.example") else { panic!() };
    log.record(&Event::Net(NetDecision { door: Door::Dns, port: 0, ..denied })).unwrap();
    log.record(&net("connection.example")).unwrap();
    let lines = lines(dir.path(), &session(1));
    assert!(
        lines[0].contains("no more denied names are recorded") && lines[1].contains("connection.example")
    );
    assert_eq!((lines.len(), log.left_out()), (2, 1));
}

#[test]
fn requests_that_fill_their_room_leave_that_of_connections() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    let Event::Net(denied) = net("a.example") else { panic!() };
    let request = |n: usize| {
        let path = format!("GET /{n}{}", "\u{1b}".repeat(10_000));
        Event::Net(NetDecision { reason: Some(path.clone()), request: Some(path), ..denied.clone() })
    };
    log.record(&request(0)).unwrap();
    assert!(log.requests > 0 && log.requests < 3_000 && log.denied == 0, "{}", log.requests);
    log.requests = MAX_REQUEST_BYTES;
    log.record(&request(1)).unwrap();
    log.record(&net("connection.example")).unwrap();
    let lines = lines(dir.path(), &session(1));
    assert!(
        lines[1].contains("no more denied requests are recorded") && lines[2].contains("connection.example")
    );
    assert_eq!((lines.len(), log.left_out()), (3, 1));
}

#[test]
fn a_flood_of_denied_names_leaves_a_small_log_with_its_sum() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    for n in 0..40_000 {
        log.record(&net(&format!("{n}.{}.example", "x".repeat(60)))).unwrap();
    }
    log.record(&end()).unwrap();
    assert_eq!(log.left_out(), 0);
    let lines = lines(dir.path(), &session(1));
    let records: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counted = records.iter().filter_map(|record| record["count"].as_u64()).sum::<u64>();
    assert_eq!((counted, records[records.len() - 1]["event"].as_str()), (40_000, Some("end")));
    assert!(log.written < 300_000, "{}", log.written);
}

#[test]
fn a_full_log_says_so_and_takes_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), session(1)).unwrap();
    log.record(&note("before")).unwrap();
    log.written = MAX_SESSION_BYTES;
    for _ in 0..100 {
        log.record(&note("beyond")).unwrap();
    }
    log.record(&end()).unwrap();
    assert_eq!(log.left_out(), 100);
    let lines = lines(dir.path(), &session(1));
    assert_eq!(lines.len(), 3);
    assert!(lines[1].contains("is full") && lines[2].contains("\"event\":\"end\""));
    assert_eq!(broken_at(&lines), None);
}

/// A log of `bytes` zeros that was last written `age` ago.
fn old_log(dir: &Path, name: &str, bytes: u64, age: std::time::Duration) {
    let file = File::create(dir.join(name)).unwrap();
    file.set_len(bytes).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn the_oldest_logs_go_and_those_of_running_sessions_stay() {
    let dir = tempfile::tempdir().unwrap();
    let running = Log::open(dir.path(), session(0)).unwrap();
    for n in 0..MAX_FILES + 10 {
        old_log(dir.path(), &format!("2000-{n:04}.jsonl"), 0, KEPT_FOR * 2);
    }
    fs::write(dir.path().join("other.txt"), "").unwrap();
    Log::prune(dir.path());
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.iter().filter(|name| name.to_str().unwrap().ends_with(".jsonl")).count(), MAX_FILES);
    for kept in
        [format!("{}.jsonl", session(0)), format!("2000-{:04}.jsonl", MAX_FILES + 9), "other.txt".to_owned()]
    {
        assert!(names.iter().any(|name| *name == *kept), "{kept}");
    }
    drop(running);
}

#[test]
fn many_young_logs_stay_and_large_ones_go_by_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..MAX_FILES + 10 {
        old_log(dir.path(), &format!("2000-{n:04}.jsonl"), 0, KEPT_FOR / 2);
    }
    Log::prune(dir.path());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), MAX_FILES + 10);
    for n in 0..3 {
        old_log(dir.path(), &format!("2001-{n}.jsonl"), MAX_BYTES / 2, KEPT_FOR / 2);
    }
    Log::prune(dir.path());
    assert!(!dir.path().join("2001-0.jsonl").exists() && dir.path().join("2001-1.jsonl").exists());
}

//! What the processes of a jail hold, read from outside.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aho_corasick::AhoCorasick;

use super::{Output, Running, descendants};

/// What was found while a jail ran.
#[derive(Debug, Default)]
pub struct Held {
    /// Processes in the jail whose memory was read, by name.
    pub processes: BTreeSet<String>,
    /// Where each of the texts was found: its position in the list, and the place.
    pub found: BTreeSet<(usize, String)>,
    /// The values that a variable had in their environments.
    pub values: BTreeSet<String>,
}

/// Waits for `running` and searches its processes in the jail, again and again, for `texts`: environments, arguments,
/// memory. Takes note of the values of `variable`.
pub fn search_while(running: Running, deadline: Duration, texts: &[&str], variable: &str) -> (Output, Held) {
    let (pid, over) = (running.pid() as i32, Arc::new(AtomicBool::new(false)));
    let searcher = Searcher {
        texts: AhoCorasick::new(texts).expect("texts"),
        variable: format!("{variable}="),
        outside: fs::read_link("/proc/self/ns/pid").expect("our namespace"),
    };
    let ended = Arc::clone(&over);
    let search = std::thread::spawn(move || {
        let mut held = Held::default();
        while !ended.load(Ordering::Relaxed) {
            for (pid, name) in descendants(pid) {
                searcher.search(pid, &name, &mut held);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        held
    });
    let output = running.finish(deadline);
    over.store(true, Ordering::Relaxed);
    (output, search.join().expect("the search"))
}

struct Searcher {
    texts: AhoCorasick,
    variable: String,
    outside: std::path::PathBuf,
}

impl Searcher {
    fn search(&self, pid: i32, name: &str, held: &mut Held) {
        let place = format!("/proc/{pid}");
        let place = Path::new(&place);
        // A process that has ended meanwhile has nothing.
        let Ok(namespace) = fs::read_link(place.join("ns/pid")) else { return };
        if namespace == self.outside {
            return;
        }
        let environ = fs::read(place.join("environ")).unwrap_or_default();
        for text in environ.split(|byte| *byte == 0).map(String::from_utf8_lossy) {
            if let Some(value) = text.strip_prefix(&self.variable) {
                held.values.insert(value.to_owned());
            }
        }
        self.look(&environ, &format!("{name}'s environment"), held);
        self.look(&fs::read(place.join("cmdline")).unwrap_or_default(), &format!("{name}'s arguments"), held);
        let (Ok(maps), Ok(memory)) = (fs::read_to_string(place.join("maps")), File::open(place.join("mem")))
        else {
            return;
        };
        let mut buffer = vec![0; 1 << 20];
        let mut read = false;
        for line in maps.lines().filter(|line| line.contains(" rw") && !line.contains("[v")) {
            let Some((from, to)) = line.split(' ').next().and_then(|range| range.split_once('-')) else {
                continue;
            };
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            let (mut at, end) = (number(from), number(to));
            while at < end {
                // Pieces overlap, so that nothing is missed at their borders.
                let size = buffer.len().min((end - at) as usize);
                let Ok(count @ 1..) = memory.read_at(&mut buffer[..size], at) else { break };
                read = true;
                self.look(&buffer[..count], &format!("{name}'s memory"), held);
                at += (count as u64).saturating_sub(if count == buffer.len() { 4096 } else { 0 });
            }
        }
        if read {
            held.processes.insert(name.to_owned());
        }
    }

    fn look(&self, bytes: &[u8], place: &str, held: &mut Held) {
        for found in self.texts.find_iter(bytes) {
            held.found.insert((found.pattern().as_usize(), place.to_owned()));
        }
    }
}

//! What agents of today wrote to a terminal at start-up, outside and in the jail (`scripts/capture-agents`): nothing that they
//! need is lost.

use std::collections::BTreeSet;

use super::oracle::forbidden;
use super::*;

struct Recording {
    agent: &'static str,
    outside: &'static [u8],
    inside: &'static [u8],
    /// What of the recording outside does not pass, in its order.
    lost: &'static [&'static str],
    /// Whether the jail's recording is the filtered other one to the last byte. codex draws more frames when it starts slower.
    same_bytes: bool,
}

const RECORDINGS: [Recording; 4] = [
    Recording {
        agent: "claude",
        outside: include_bytes!("../../../../tests/cases/terminal/agents/claude.outside.raw"),
        inside: include_bytes!("../../../../tests/cases/terminal/agents/claude.inside.raw"),
        lost: &[],
        same_bytes: true,
    },
    Recording {
        agent: "codex",
        outside: include_bytes!("../../../../tests/cases/terminal/agents/codex.outside.raw"),
        inside: include_bytes!("../../../../tests/cases/terminal/agents/codex.inside.raw"),
        lost: &[],
        same_bytes: false,
    },
    Recording {
        agent: "gemini",
        outside: include_bytes!("../../../../tests/cases/terminal/agents/gemini.outside.raw"),
        inside: include_bytes!("../../../../tests/cases/terminal/agents/gemini.inside.raw"),
        // A wrong form of a query, which no terminal answers.
        lost: &["\x1b[>4;?m"],
        same_bytes: true,
    },
    Recording {
        agent: "opencode",
        outside: include_bytes!("../../../../tests/cases/terminal/agents/opencode.outside.raw"),
        inside: include_bytes!("../../../../tests/cases/terminal/agents/opencode.inside.raw"),
        // Ms: whether the clipboard can be written. Notifications and text sizing: not in use then. OSC 1337.
        lost: &[
            "\x1bP+q4d73\x1b\\",
            "\x1b]99;i=opentui-notifications:p=?;\x1b\\",
            "\x1b]1337;Capabilities\x1b\\",
            "\x1b]66;w=1; \x1b\\",
            "\x1b]66;s=2; \x1b\\",
        ],
        same_bytes: true,
    },
];

#[test]
fn only_what_is_listed_here_is_lost_of_the_recordings() {
    for Recording { agent, outside, lost, .. } in RECORDINGS {
        let mut want = outside.to_vec();
        for gone in lost {
            let gone = gone.as_bytes();
            let at = want.windows(gone.len()).position(|window| window == gone);
            let at = at.unwrap_or_else(|| panic!("{agent} wrote {}", gone.escape_ascii()));
            want.drain(at..at + gone.len());
        }
        let (out, drops) = filtered(Classes::default(), [outside]);
        assert_eq!(out.escape_ascii().to_string(), want.escape_ascii().to_string(), "{agent}");
        assert_eq!(drops.total(), lost.len() as u64, "{agent}: {drops:?}");
        assert_eq!(forbidden(&out), Vec::<String>::new(), "{agent}");
    }
}

#[test]
fn the_jail_shows_what_the_agent_shows_outside() {
    for Recording { agent, outside, inside, same_bytes, .. } in RECORDINGS {
        let out = whole(outside);
        if same_bytes {
            assert_eq!(inside.escape_ascii().to_string(), out.escape_ascii().to_string(), "{agent}");
        }
        assert_eq!(whole(inside).len(), inside.len(), "{agent}: all that came out of the jail passes");
        assert_eq!(screen(inside), screen(outside), "{agent}");
        let missing: Vec<_> = kinds(&out).difference(&kinds(inside)).cloned().collect();
        assert!(missing.is_empty(), "{agent}: {missing:?} never came out of the jail");
    }
}

fn screen(recording: &[u8]) -> String {
    let mut parser = vt100::Parser::new(40, 120, 0);
    parser.process(recording);
    parser.screen().contents()
}

/// The sequences in a recording, each once: with their parameters, but for those that place and colour text.
fn kinds(recording: &[u8]) -> BTreeSet<String> {
    #[derive(Default)]
    struct Kinds(BTreeSet<String>);
    impl vte::Perform for Kinds {
        fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
            self.0.insert(format!("OSC {}", params[0].escape_ascii()));
        }
        fn csi_dispatch(&mut self, params: &vte::Params, inter: &[u8], _: bool, last: char) {
            let numbers: Vec<_> = params.iter().map(|subs| subs[0]).collect();
            let places = matches!(last, 'A'..='H' | 'm' | 'J' | 'K' | 'd');
            let numbers = if places && inter.is_empty() { String::new() } else { format!("{numbers:?}") };
            self.0.insert(format!("CSI {}{numbers}{last}", inter.escape_ascii()));
        }
        fn esc_dispatch(&mut self, inter: &[u8], _: bool, byte: u8) {
            self.0.insert(format!("ESC {}{}", inter.escape_ascii(), char::from(byte)));
        }
        fn hook(&mut self, _: &vte::Params, inter: &[u8], _: bool, last: char) {
            self.0.insert(format!("DCS {}{last}", inter.escape_ascii()));
        }
    }
    let mut kinds = Kinds::default();
    vte::Parser::new().advance(&mut kinds, recording);
    kinds.0
}

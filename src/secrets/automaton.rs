//! Finds any number of texts in a stream, overlapping ones too (Aho and Corasick). Its own, because the texts are secrets:
//! its tables are overwritten when it is dropped, and it tells how much of a stream may still become a match.

use aho_corasick::packed::{self, Searcher};
use zeroize::Zeroize;

/// The state in which nothing has been seen.
pub(super) const START: u32 = 0;
const NONE: u32 = u32::MAX;
/// What the quick search looks for: this much of each text.
const HEAD: usize = 4;

/// A set of texts.
pub(super) struct Automaton {
    nodes: Vec<Node>,
    /// The node after one byte.
    first: [u32; 256],
    /// Finds the heads of the texts many bytes at a time, where the processor can.
    heads: Option<Searcher>,
}

#[derive(Clone, Copy)]
struct Node {
    byte: u8,
    child: u32,
    sibling: u32,
    /// The node of the longest proper suffix.
    suffix: u32,
    depth: u32,
    /// The length of the longest suffix that is a proper prefix of a text.
    open: u32,
    /// The text that ends here.
    text: u32,
    /// The longest proper suffix at which a text ends.
    shorter: u32,
}

/// A text that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Its index.
    pub(super) text: usize,
    /// Where it begins.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
}

impl Automaton {
    /// Takes `texts`; one that is there twice is found as the first of them, an empty one never.
    pub(super) fn new<'t>(texts: impl Iterator<Item = &'t [u8]> + Clone) -> Self {
        let total: usize = texts.clone().map(<[u8]>::len).sum();
        let mut built =
            Self { nodes: Vec::with_capacity(total + 1), first: [START; 256], heads: heads(texts.clone()) };
        built.nodes.push(Node::new(0, 0));
        for (index, text) in texts.enumerate().filter(|(_, text)| !text.is_empty()) {
            let last = text.iter().fold(START, |node, byte| built.grow(node, *byte));
            let node = &mut built.nodes[last as usize];
            if node.text == NONE {
                node.text = index as u32;
            }
        }
        built.link();
        built
    }

    /// The state after `byte` in `state`.
    pub(super) fn step(&self, mut state: u32, byte: u8) -> u32 {
        loop {
            if state == START {
                return self.first[usize::from(byte)];
            }
            if let Some(child) = self.child(state, byte) {
                return child;
            }
            state = self.nodes[state as usize].suffix;
        }
    }

    /// How many of the last bytes may be the beginning of a text.
    pub(super) fn open(&self, state: u32) -> usize {
        self.nodes[state as usize].open as usize
    }

    /// For each state how many of the last bytes may have to change when a text that is open comes to its end. Of a text the first
    /// bytes never have, as many as `alike` says by its index.
    pub(super) fn changing(&self, alike: &[usize]) -> Vec<u32> {
        let length = self.nodes.len();
        // Of the texts that go on behind a node: a child comes behind its parent.
        let mut least = vec![usize::MAX; length];
        for node in (0..length).rev() {
            let mut child = self.nodes[node].child;
            while child != NONE {
                let (at, child_node) = (child as usize, &self.nodes[child as usize]);
                let own = if child_node.text == NONE { usize::MAX } else { alike[child_node.text as usize] };
                least[node] = least[node].min(least[at]).min(own);
                child = child_node.sibling;
            }
        }
        let mut shorter_first: Vec<usize> = (0..length).collect();
        shorter_first.sort_by_key(|node| self.nodes[*node].depth);
        let mut changing = vec![0; length];
        for at in shorter_first {
            let node = &self.nodes[at];
            let own = (node.depth as usize).saturating_sub(least[at]) as u32;
            changing[at] = own.max(changing[node.suffix as usize]);
        }
        changing
    }

    /// The texts that end in `state`, as index and length, the longest first.
    pub(super) fn ends(&self, state: u32) -> impl Iterator<Item = (usize, usize)> {
        let node = &self.nodes[state as usize];
        let first = if node.text == NONE { node.shorter } else { state };
        let mut next = (first != NONE).then_some(first);
        std::iter::from_fn(move || {
            let node = &self.nodes[next? as usize];
            next = (node.shorter != NONE).then_some(node.shorter);
            Some((node.text as usize, node.depth as usize))
        })
    }

    /// From where on `bytes` have to be stepped through in the state [`START`]: no text begins before.
    pub(super) fn skip(&self, bytes: &[u8], from: usize) -> usize {
        let Some(heads) = &self.heads else { return from };
        match heads.find_in(bytes, (from..bytes.len()).into()) {
            Some(found) => found.start(),
            // The beginning of a head may stand at the end.
            None => from.max((bytes.len() + 1).saturating_sub(HEAD)),
        }
    }

    /// All texts in `bytes`, by their ends, of those with one end the shortest first.
    pub(super) fn find_all(&self, bytes: &[u8]) -> Vec<Found> {
        let (mut all, mut state, mut at) = (Vec::new(), START, 0);
        while at < bytes.len() {
            if state == START {
                at = self.skip(bytes, at);
            }
            let Some(byte) = bytes.get(at) else { break };
            state = self.step(state, *byte);
            at += 1;
            let before = all.len();
            all.extend(self.ends(state).map(|(text, length)| Found { text, start: at - length, end: at }));
            all[before..].reverse();
        }
        all
    }

    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let mut child = self.nodes[node as usize].child;
        while child != NONE {
            let node = &self.nodes[child as usize];
            if node.byte == byte {
                return Some(child);
            }
            child = node.sibling;
        }
        None
    }

    fn grow(&mut self, node: u32, byte: u8) -> u32 {
        if let Some(child) = self.child(node, byte) {
            return child;
        }
        let child = self.nodes.len() as u32;
        let parent = &mut self.nodes[node as usize];
        let mut new = Node::new(byte, parent.depth + 1);
        new.sibling = parent.child;
        parent.child = child;
        self.nodes.push(new);
        child
    }

    /// Links each node to its longest suffix, the shorter nodes first.
    fn link(&mut self) {
        for byte in 0..=u8::MAX {
            self.first[usize::from(byte)] = self.child(START, byte).unwrap_or(START);
        }
        let mut queue = vec![START];
        let mut at = 0;
        while let Some(node) = queue.get(at).copied() {
            at += 1;
            let mut child = self.nodes[node as usize].child;
            while child != NONE {
                queue.push(child);
                let byte = self.nodes[child as usize].byte;
                let suffix =
                    if node == START { START } else { self.step(self.nodes[node as usize].suffix, byte) };
                let (text, shorter, open) = {
                    let suffix = &self.nodes[suffix as usize];
                    (suffix.text, suffix.shorter, suffix.open)
                };
                let node = &mut self.nodes[child as usize];
                node.suffix = suffix;
                node.shorter = if text == NONE { shorter } else { suffix };
                node.open = if node.child == NONE { open } else { node.depth };
                child = node.sibling;
            }
        }
    }
}

impl Node {
    fn new(byte: u8, depth: u32) -> Self {
        Self { byte, child: NONE, sibling: NONE, suffix: START, depth, open: 0, text: NONE, shorter: NONE }
    }
}

impl Drop for Automaton {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.byte.zeroize();
        }
    }
}

/// None where the processor has no such instructions, or there are too many different heads.
fn heads<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Option<Searcher> {
    let mut heads: Vec<&[u8]> =
        texts.filter(|text| !text.is_empty()).map(|text| &text[..text.len().min(HEAD)]).collect();
    heads.sort_unstable();
    heads.dedup();
    packed::Config::new().builder().extend(heads).build()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn naive(texts: &[Vec<u8>], bytes: &[u8]) -> Vec<Found> {
        let mut all = Vec::new();
        for end in 1..=bytes.len() {
            for start in (0..end).rev() {
                if let Some(text) = texts.iter().position(|text| *text == bytes[start..end]) {
                    all.push(Found { text, start, end });
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn every_occurrence_is_found(
            texts in vec(vec(b'a'..=b'c', 0..6), 0..6),
            bytes in vec(b'a'..=b'd', 0..80),
        ) {
            let automaton = Automaton::new(texts.iter().map(Vec::as_slice));
            prop_assert_eq!(automaton.find_all(&bytes), naive(&texts, &bytes));
        }

        #[test]
        fn what_is_open_is_the_longest_suffix_that_may_become_a_text(
            texts in vec(vec(b'a'..=b'c', 1..6), 1..6),
            bytes in vec(b'a'..=b'c', 0..40),
        ) {
            let automaton = Automaton::new(texts.iter().map(Vec::as_slice));
            let state = bytes.iter().fold(START, |state, byte| automaton.step(state, *byte));
            let longest = (0..=bytes.len()).rev().find(|length| {
                let suffix = &bytes[bytes.len() - length..];
                *length == 0 || texts.iter().any(|text| text.len() > *length && text.starts_with(suffix))
            });
            prop_assert_eq!(Some(automaton.open(state)), longest);
        }
    }
}

//! Many name patterns, asked at once: exact names, and names that begin or end with one `*`.

use std::collections::HashMap;

/// Something for each pattern. One question is asked for each file of a project: it is answered from the whole name, its
/// last bytes and its beginning.
#[derive(Debug, Clone)]
pub struct NameIndex<T> {
    exact: HashMap<&'static [u8], Vec<T>>,
    endings: Vec<(&'static [u8], T)>,
    /// The endings by their last two bytes.
    last: HashMap<[u8; 2], Vec<usize>>,
    beginnings: Vec<(&'static [u8], T)>,
}

impl<T: Copy> NameIndex<T> {
    /// From patterns. The part beside the `*` has two bytes at least.
    pub fn new(patterns: impl IntoIterator<Item = (&'static str, T)>) -> Self {
        let mut index =
            Self { exact: HashMap::new(), endings: Vec::new(), last: HashMap::new(), beginnings: Vec::new() };
        for (pattern, value) in patterns {
            match pattern.as_bytes() {
                [b'*', ending @ ..] => {
                    if let [.., a, b] = ending {
                        index.last.entry([*a, *b]).or_default().push(index.endings.len());
                    }
                    index.endings.push((ending, value));
                }
                [beginning @ .., b'*'] => index.beginnings.push((beginning, value)),
                name => index.exact.entry(name).or_default().push(value),
            }
        }
        index
    }

    /// What the patterns that `name` matches stand for.
    pub fn of(&self, name: &[u8]) -> Vec<T> {
        let mut found = Vec::new();
        if let [.., a, b] = name
            && let Some(endings) = self.last.get(&[*a, *b])
        {
            let endings = endings.iter().map(|at| &self.endings[*at]);
            found.extend(endings.filter(|(ending, _)| name.ends_with(ending)).map(|(_, value)| *value));
        }
        let beginnings = self.beginnings.iter().filter(|(start, _)| name.starts_with(start));
        found.extend(beginnings.map(|(_, value)| *value));
        found.extend(self.exact.get(name).into_iter().flatten());
        found
    }

    /// The names that are exact.
    pub fn exact(&self) -> impl Iterator<Item = &'static [u8]> {
        self.exact.keys().copied()
    }
}

/// Whether `name` matches one pattern.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [b'*', ending @ ..] => name.ends_with(ending),
        [beginning @ .., b'*'] => name.starts_with(beginning),
        pattern => pattern == name,
    }
}

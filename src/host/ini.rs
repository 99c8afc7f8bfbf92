//! Two small strict readers of `[section]` and `key = value` files. Neither follows an include or expands a variable.

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The section in lower case, without its subsection.
    pub section: String,
    /// The quoted subsection of git's dialect, case kept.
    pub subsection: Option<String>,
    /// The key in lower case.
    pub key: String,
    /// The value; a git key without `=` is `true`.
    pub value: String,
}

impl Entry {
    /// `section.key`, or `section.subsection.key`.
    pub fn name(&self) -> String {
        match &self.subsection {
            Some(subsection) => format!("{}.{subsection}.{}", self.section, self.key),
            None => format!("{}.{}", self.section, self.key),
        }
    }
}

/// Reads git's dialect: quotes, escapes, comments and continued lines.
///
/// Returns what could be read up to the first line that git would not accept: git refuses such a file as a whole, and so
/// nothing that stands behind the fault may count.
pub fn git(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    while let Some(line) = lines.next() {
        let mut rest = line.trim_start();
        if rest.starts_with('[') {
            let Some((header, after)) = git_header(rest) else { break };
            section = Some(header);
            rest = after.trim_start();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let Some((section, subsection)) = &section else { break };
        let key_end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let (key, after) = rest.split_at(key_end);
        if !key.starts_with(|c: char| c.is_ascii_alphabetic()) {
            break;
        }
        let after = after.trim_start();
        let value = match after.strip_prefix('=') {
            Some(raw) => match git_value(raw, &mut lines) {
                Some(value) => value,
                None => break,
            },
            None if after.is_empty() || after.starts_with(['#', ';']) => "true".to_owned(),
            None => break,
        };
        let key = key.to_ascii_lowercase();
        entries.push(Entry { section: section.clone(), subsection: subsection.clone(), key, value });
    }
    entries
}

/// Reads the dialect of pip's and npm's files: no quotes needed, `#` and `;` begin a comment line, keys before the first
/// section belong to the section with an empty name. Indented lines continue a value, joined by a line feed, as pip has it.
pub fn plain(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut section = String::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = bare.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = name.trim().to_ascii_lowercase();
            continue;
        }
        let continues = line.starts_with([' ', '\t']) && !section.is_empty();
        if let (true, Some(last)) = (continues, entries.last_mut().filter(|last| last.section == section)) {
            last.value.push('\n');
            last.value.push_str(bare);
            continue;
        }
        if let Some((key, value)) = bare.split_once('=') {
            let value = value.trim();
            let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            let (key, value) = (key.trim().to_ascii_lowercase(), quoted.unwrap_or(value).to_owned());
            entries.push(Entry { section: section.clone(), subsection: None, key, value });
        }
    }
    entries
}

/// `[name]`, `[name "sub"]` or the old `[name.sub]`, and what stands behind the bracket.
fn git_header(line: &str) -> Option<((String, Option<String>), &str)> {
    let inner = line.strip_prefix('[')?;
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.')?;
    let (name, rest) = inner.split_at(end);
    let name = name.to_ascii_lowercase();
    if let Some(after) = rest.strip_prefix(']') {
        return Some(match name.split_once('.') {
            Some((section, sub)) => ((section.to_owned(), Some(sub.to_owned())), after),
            None => ((name, None), after),
        });
    }
    let quoted = rest.trim_start().strip_prefix('"')?;
    let mut subsection = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some(((name, Some(subsection)), quoted.get(at + 1..)?.strip_prefix(']')?)),
            '\\' => subsection.push(chars.next()?.1),
            c => subsection.push(c),
        }
    }
    None
}

/// The value behind `=`, which may go on in the next lines. `None` for an unknown escape or an open quote.
fn git_value(raw: &str, lines: &mut std::str::Lines<'_>) -> Option<String> {
    let mut value = String::new();
    // Blanks count only when something follows them.
    let mut blanks = String::new();
    let mut quoted = false;
    let mut line = raw.trim_start();
    loop {
        let mut chars = line.chars();
        let mut continued = false;
        while let Some(c) = chars.next() {
            match c {
                ' ' | '\t' if !quoted => {
                    blanks.push(c);
                    continue;
                }
                '#' | ';' if !quoted => break,
                _ => value.push_str(&std::mem::take(&mut blanks)),
            }
            match c {
                '"' => quoted = !quoted,
                '\\' => match chars.next() {
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('b') => value.push('\u{8}'),
                    Some(c @ ('"' | '\\')) => value.push(c),
                    None => continued = true,
                    Some(_) => return None,
                },
                c => value.push(c),
            }
        }
        match (continued, quoted) {
            (true, _) => line = lines.next()?,
            (false, true) => return None,
            (false, false) => return Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_values_are_read_as_git_reads_them() {
        for (text, want) in [
            ("[user]\n\tname = A B # c", vec![("user.name", "A B")]),
            ("[User]\nNAME=\"A # B\"", vec![("user.name", "A # B")]),
            ("[a] b = c", vec![("a.b", "c")]),
            ("[a]\nb", vec![("a.b", "true")]),
            ("[a]\nb = x \\\n  y", vec![("a.b", "x   y")]),
            ("[a]\nb = \"q\\\"\\\\\\n\"", vec![("a.b", "q\"\\\n")]),
            ("[filter \"Lfs\"]\nclean = x", vec![("filter.Lfs.clean", "x")]),
            ("[a.Sub]\nb = 1", vec![("a.sub.b", "1")]),
            ("[a \"x]y\"]\nb = 1", vec![("a.x]y.b", "1")]),
            ("; only\n# comments", vec![]),
        ] {
            let entries = git(text);
            let got: Vec<_> = entries.iter().map(|entry| (entry.name(), entry.value.as_str())).collect();
            let want: Vec<_> = want.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(got, want, "{text:?}");
        }
    }

    #[test]
    fn nothing_behind_a_fault_counts() {
        for fault in ["b = \"open", "b = \\x", "[broken", "1x = y", "b c = d", "[a \"x\"y]"] {
            let text = format!("[a]\ngood = 1\n{fault}\n[user]\nname = x");
            let names: Vec<_> = git(&text).iter().map(Entry::name).collect();
            assert_eq!(names, ["a.good"], "{fault:?}");
        }
        assert!(git("name = without section").is_empty());
    }

    #[test]
    fn plain_files_may_have_no_section_and_continued_values() {
        let entries = plain(
            "registry=https://r.example/\n@s:registry = \"https://s.example/\"\n; c\n[Global]\nfind-links =\n  /a\n  /b\n",
        );
        let got: Vec<_> = entries.iter().map(|e| (e.name(), e.value.as_str())).collect();
        let want = [
            (".registry", "https://r.example/"),
            (".@s:registry", "https://s.example/"),
            ("global.find-links", "\n/a\n/b"),
        ];
        assert_eq!(got, want.map(|(name, value)| (name.to_owned(), value)));
    }
}

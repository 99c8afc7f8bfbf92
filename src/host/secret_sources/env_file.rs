//! Files of `NAME=VALUE` lines that give values of secrets.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zeroize::Zeroizing;

use crate::error::{Error, Kind, Result};

use super::{Bytes, Written, content, open, refused, shown, unread};

/// What others may do to such a file: nothing.
const OTHERS: u32 = 0o077;

/// The variables of a file.
///
/// # Errors
/// When it is not the user's alone, the jail can write it, or a line is none.
pub(super) fn read(path: &Path, written: &Written) -> Result<BTreeMap<String, Bytes>> {
    let hint = "keep it outside the project, as a file of your own with mode 0600 (chmod 600)";
    let refuse = |why: &str| Err(refused(path, why).hint(hint));
    // The directories may be symlinks, the file itself not.
    let parent = path.parent().unwrap_or(Path::new("/"));
    let parent = parent.canonicalize().map_err(|error| unread(path, error))?;
    let Some(name) = path.file_name() else { return refuse("it is not a regular file") };
    let real = parent.join(name);
    // What is not there is nowhere.
    if let Err(error) = real.symlink_metadata() {
        return Err(unread(path, error));
    }
    if written.holds(path) || written.holds(&real) {
        return refuse("it lies where a jail can write");
    }
    let file = match open(&real) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return refuse("it is a symlink"),
        other => other.map_err(|error| unread(path, error))?,
    };
    let metadata = file.metadata().map_err(|error| unread(path, error))?;
    // A directory with that mode could not be entered.
    if !metadata.is_file() {
        return Err(
            refused(path, "it is not a regular file").hint("name a file of your own, outside the project")
        );
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("it belongs to somebody else");
    }
    if metadata.mode() & OTHERS != 0 {
        return refuse(&format!("others may use it (mode {:04o})", metadata.mode() & 0o7777));
    }
    let bytes = content(path, file)?;
    parse(&bytes).map_err(|(line, why)| {
        Error::new(Kind::Refused, format!("{}:{line} cannot be understood", shown(path)))
            .because(why)
            .hint("each line is NAME=VALUE, the value perhaps in quotes")
    })
}

/// The variables of a text, or the number of the line that is none, and why. Neither has a part of the line.
fn parse(text: &[u8]) -> Result<BTreeMap<String, Bytes>, (usize, &'static str)> {
    let mut values = BTreeMap::new();
    // Editors of Windows begin a text so.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let (name, value) = variable(line).map_err(|why| (index + 1, why))?;
        values.insert(name, value);
    }
    Ok(values)
}

fn variable(line: &[u8]) -> Result<(String, Bytes), &'static str> {
    let line = match line.strip_prefix(b"export") {
        Some(rest) if rest.first().is_some_and(u8::is_ascii_whitespace) => rest.trim_ascii_start(),
        _ => line,
    };
    let equals = line.iter().position(|byte| *byte == b'=').ok_or("there is no = in it")?;
    let name = line[..equals].trim_ascii_end();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.first().is_none_or(u8::is_ascii_digit) || !name.iter().all(plain) {
        return Err("what stands before the = is no name of a variable");
    }
    let value = line[equals + 1..].trim_ascii_start();
    let value = match value.first() {
        Some(b'\'') => quoted(&value[1..], b'\'')?,
        Some(b'"') => quoted(&value[1..], b'"')?,
        _ => bare(value),
    };
    Ok((String::from_utf8_lossy(name).into_owned(), value))
}

/// Up to a comment, which begins with a space and a number sign.
fn bare(value: &[u8]) -> Bytes {
    let comment = value.windows(2).position(|pair| pair[0].is_ascii_whitespace() && pair[1] == b'#');
    let value = if value.starts_with(b"#") { &[] } else { &value[..comment.unwrap_or(value.len())] };
    Zeroizing::new(value.trim_ascii_end().to_vec())
}

/// Up to the closing quote. In double quotes a backslash takes a quote, a dollar, a backtick or itself as it is, and `\n`,
/// `\r` and `\t` are what they are in C; nothing is expanded.
fn quoted(text: &[u8], quote: u8) -> Result<Bytes, &'static str> {
    let mut value = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte == quote {
            let rest = bytes.as_slice().trim_ascii_start();
            return if rest.is_empty() || rest.starts_with(b"#") {
                Ok(value)
            } else {
                Err("something stands behind the closing quote")
            };
        }
        if byte != b'\\' || quote == b'\'' {
            value.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => value.push(b'\n'),
            Some(b'r') => value.push(b'\r'),
            Some(b't') => value.push(b'\t'),
            Some(&escaped @ (b'"' | b'\\' | b'$' | b'`')) => value.push(escaped),
            Some(&other) => value.extend([b'\\', other]),
            None => break,
        }
    }
    Err("a quote is not closed on its line")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn lines_are_understood_as_shells_and_their_likes_do() {
        for (line, want) in [
            ("A=b", Some("b")),
            ("A = b", Some("b")),
            ("  export\tA=b  ", Some("b")),
            ("A=", Some("")),
            ("A=#x", Some("")),
            ("A=b#c", Some("b#c")),
            ("A=b # c", Some("b")),
            ("A=b c\r", Some("b c")),
            ("A='b \"$c\\n' # d", Some("b \"$c\\n")),
            ("A=\"b \\\"c\\\" \\$d \\\\ \\x\\n\"", Some("b \"c\" $d \\ \\x\n")),
            ("A=$B", Some("$B")),
            ("A=b=c==", Some("b=c==")),
            ("# comment", None),
            ("", None),
        ] {
            let values = parse(line.as_bytes()).unwrap();
            let got = values.get("A").map(|value| String::from_utf8(value.to_vec()).unwrap());
            assert_eq!(got.as_deref(), want, "{line}");
        }
        let two = parse(b"A=1\nexported=2\nA=3").unwrap();
        assert_eq!((two["A"].as_slice(), two["exported"].as_slice()), (&b"3"[..], &b"2"[..]));
    }

    #[test]
    fn what_is_no_line_is_refused_by_its_number_without_its_text() {
        for line in
            ["SECRET", "=SECRET", "1A=SECRET", "A B=SECRET", "A='SECRET", "A=\"SECRET\\", "A='x'SECRET"]
        {
            let (number, why) = parse(format!("# first\n{line}").as_bytes()).unwrap_err();
            assert!(number == 2 && !why.contains("SECRET"), "{line}: {why}");
        }
    }

    #[test]
    fn only_a_file_of_the_users_own_that_no_jail_writes_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir(top.join("p")).unwrap();
        let written = Written::new([top.join("p")]);
        let make = |name: &str, mode: u32| {
            let path = top.join(name);
            fs::write(&path, "A=SECRET").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        symlink("good", top.join("link")).unwrap();
        symlink(".", top.join("here")).unwrap();
        symlink("p", top.join("q")).unwrap();
        let fifo = top.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        make("p/env", 0o600);
        for (path, why) in [
            (make("good", 0o600), None),
            (make("stricter", 0o400), None),
            (top.join("here/good"), None),
            (make("readable", 0o640), Some("0640")),
            (make("writable", 0o602), Some("0602")),
            (top.join("p/env"), Some("can write")),
            (top.join("q/env"), Some("can write")),
            (top.join("link"), Some("symlink")),
            (fifo, Some("regular")),
            (top.join("p/.."), Some("regular")),
            (top.join("missing"), Some("no such file")),
            (top.join("missing/env"), Some("no such file")),
            (top.join("p/missing"), Some("no such file")),
        ] {
            let got = read(&path, &written);
            match why {
                None => assert_eq!(got.unwrap()["A"].as_slice(), b"SECRET"),
                Some(why) => {
                    let error = got.unwrap_err().to_string();
                    assert!(error.contains(why) && !error.contains("SECRET"), "{}: {error}", path.display());
                }
            }
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(top.join("good"), Some(1), None).unwrap();
            assert!(read(&top.join("good"), &written).unwrap_err().to_string().contains("somebody else"));
        }
    }
}

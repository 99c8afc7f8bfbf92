//! A line of a configuration file, as an error shows it: without what may be the value of a secret.
//!
//! Who writes a value into the file, where its name or its host belongs, gets an error that cites the line; the value is not
//! repeated. What stands behind a key of ours that takes no value is shown, and what stands behind any other key is not.

use super::keys::KEYS;
use super::words::nearest;
use crate::secrets::token_like;

/// Keys whose tables or values may be secret: their strings are never shown.
const SECRET: &[&str] = &["set", "pass", "upstream_proxy", "from", "revoke"];
/// Keys of the tables in `[secrets]` and `[[network.http]]`.
const FIELDS: &[&str] =
    &["hosts", "in", "mode", "path", "extract", "decode", "mask_claims", "host", "allow", "deny"];

/// `line`, which may be no TOML at all, with a `*` for each byte that is not shown: as long as before.
pub(super) fn redacted(line: &str) -> String {
    let mut out = line.as_bytes().to_vec();
    let mut is_shown = true;
    // Where the next key would begin.
    let mut key = 0;
    let mut at = 0;
    while let Some(&byte) = line.as_bytes().get(at) {
        match byte {
            b'"' | b'\'' => {
                let end = closing(line.as_bytes(), at);
                let is_key = line[end..].trim_start_matches(['"', '\'']).trim_start().starts_with('=');
                if !is_shown && !is_key {
                    out[at + 1..end].fill(b'*');
                }
                at = end;
            }
            b'=' => {
                let bare = line[at + 1..].trim_start();
                let name = line[key..at].trim();
                // A list of it has names of variables.
                is_shown = takes_no_secret(name) || name == "pass" && bare.starts_with('[');
                let from = line.len() - bare.len();
                let end = bare.find([',', '}', ']', '#']).map_or(line.len(), |end| from + end);
                let value = line[from..end].trim_end();
                if !is_shown && !value.starts_with(['"', '\'', '[', '{']) && !is_plain(value) {
                    out[from..from + value.len()].fill(b'*');
                    at = from + value.len();
                    continue;
                }
                key = at + 1;
            }
            b'{' | b',' => key = at + 1,
            _ => {}
        }
        at += 1;
    }
    for token in token_like(line.as_bytes()) {
        out[token].fill(b'*');
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether a value without quotes is one of a few words, or a number that is too short to be a secret.
fn is_plain(value: &str) -> bool {
    ["true", "false"].contains(&value) || value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Where the string that begins at `from` ends: its closing quote, or the end of the line.
fn closing(line: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < line.len() && line[at] != line[from] {
        at += if line[at] == b'\\' && line[from] == b'"' { 2 } else { 1 };
    }
    at.min(line.len())
}

/// Whether a key, as it is written, is one of ours that takes no secret, or nearly, or a host.
fn takes_no_secret(key: &str) -> bool {
    if let Some(quoted) = key.strip_suffix(['"', '\'']) {
        return quoted.contains('.');
    }
    let name = key.rsplit('.').next().unwrap_or(key).trim();
    // Variables are seldom written in small letters.
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return false;
    }
    let known = KEYS.iter().map(|key| key.name).chain(FIELDS.iter().chain(SECRET).copied());
    nearest(name, known).is_some_and(|near| !SECRET.contains(&near))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_without_what_may_be_a_value() {
        for (line, want) in [
            ("TOKEN = \"hunter2\"", "TOKEN = \"*******\""),
            (
                "TOKEN = { value = \"hunter2\", hosts = [\"a.test\"] }",
                "TOKEN = { value = \"*******\", hosts = [\"a.test\"] }",
            ),
            ("secrets.TOKEN.value = 'hunter2' # mine", "secrets.TOKEN.value = '*******' # mine"),
            ("TOKEN = hunter2 # mine", "TOKEN = ******* # mine"),
            ("TOKEN = \"hunter2", "TOKEN = \"*******"),
            ("TOKEN = \"\"\"hunter2", "TOKEN = \"\"\"*******"),
            ("TOKEN = \"hun\\\"ter2\" x", "TOKEN = \"*********\" x"),
            ("TOKEN=h\u{fc}nter2", "TOKEN=********"),
            ("from = [\"echo\", \"hunter2\"]", "from = [\"****\", \"*******\"]"),
            ("set = { A = \"hunter2\", B = true }", "set = { A = \"*******\", B = true }"),
            ("upstream_proxy = \"http://me:hunter2@\"", "upstream_proxy = \"******************\""),
            ("hosts = [\"ghp_R3aLvAlUe0123456789abcdef\"]", "hosts = [\"*****************************\"]"),
            ("\"a key\" = \"hunter2\"", "\"a key\" = \"*******\""),
            ("TOKEN = { value = \"hunter2\" }", "TOKEN = { value = \"*******\" }"),
            ("TOKEN = { token = \"hunter2\" }", "TOKEN = { token = \"*******\" }"),
            ("TOKEN = { form = \"hunter2\" }", "TOKEN = { form = \"*******\" }"),
            ("TOKEN = { pass = \"hunter2\" }", "TOKEN = { pass = \"*******\" }"),
            ("pass = [\"A\"]", "pass = [\"A\"]"),
            ("MODE = \"hunter2\"", "MODE = \"*******\""),
            ("profil = \"strict\"", "profil = \"strict\""),
            ("profile = \"worspace\"", "profile = \"worspace\""),
            ("allow = [\"a.test\", \"b test\"] # two", "allow = [\"a.test\", \"b test\"] # two"),
            (
                "resolve = { \"a.test\" = \"x\", 'b.test' = \"y\" }",
                "resolve = { \"a.test\" = \"x\", 'b.test' = \"y\" }",
            ),
            ("extract = '_authToken=\\S+'", "extract = '_authToken=\\S+'"),
            ("    \"~/x/**/y\",", "    \"~/x/**/y\","),
            ("[network.secret]", "[network.secret]"),
            ("", ""),
            ("=", "="),
            ("\"", "\""),
            ("a = \"\\", "a = \"*"),
        ] {
            assert_eq!(redacted(line), want, "{line}");
            assert_eq!(redacted(line).len(), line.len(), "{line}");
        }
    }
}

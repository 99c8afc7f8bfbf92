use serde_json::Value;

use super::*;

const CASES: &str = include_str!("../../../tests/cases/glob.jsonl");

fn glob(text: &str) -> Result<Glob, Refused> {
    Glob::parse(OsStr::new(text), Path::new("/home/a*b"))
}

fn matches(text: &str, path: &str, case: Case) -> bool {
    let below = glob(text).unwrap().below(Path::new("/p"), 0);
    let mut states = below.start();
    for name in Path::new(path).iter() {
        states = below.step(states, name, case);
    }
    below.matched(states)
}

#[test]
fn every_case_of_the_table_holds() {
    let mut count = 0;
    for line in CASES.lines() {
        count += 1;
        let case: Value = serde_json::from_str(line).unwrap();
        let (text, covers) = (case["glob"].as_str().unwrap(), &case["covers"]);
        if covers == "refuse" {
            let refused = glob(text).expect_err(text);
            assert!(!refused.why.is_empty() && !refused.fix.is_empty(), "{text}");
            continue;
        }
        let below = glob(text).unwrap().below(Path::new("/p"), 0);
        for file in case["tree"].as_array().unwrap() {
            let file_path = Path::new("/p").join(file.as_str().unwrap());
            let covered = file_path.ancestors().any(|path| below.matches(path));
            assert_eq!(covered, covers.as_array().unwrap().contains(file), "{text} {file}");
        }
    }
    assert!(count >= 14);
}

#[test]
fn what_is_refused_says_what_to_write() {
    for (text, why, fix) in [
        ("", "empty", "leave the entry out"),
        ("*.{pem,key}", "braces", "write *.pem and *.key as two entries"),
        ("{a,b,c}/x", "braces", "write a/x and b/x and c/x as three entries"),
        ("a{b", "braces", "entry of its own"),
        ("{a,{b,c}}", "braces", "entry of its own"),
        ("x}", "braces", "?"),
        ("a\\*", "backslashes", "[*]"),
        ("a//b", "empty segment", "one slash"),
        ("//a", "empty segment", "one slash"),
        ("./a", "`.`", "without it"),
        ("a/../b", "`..`", "without it"),
        ("~/../x", "`..`", "without it"),
        ("a/", "ends with a slash", "write `a`"),
        ("/", "root", "name what"),
        ("[]a]", "begins with `]`", "?"),
        ("[!]a]", "begins with `]`", "?"),
        ("[]", "begins with `]`", "?"),
        ("k[[:digit:]].key", "not understood", "[0-9]"),
        ("[a[=b=]]", "not understood", "range"),
        ("[abc", "not closed", "`]`"),
        ("[a/b]", "not closed", "`]`"),
        ("[a-", "not closed", "`]`"),
        ("[z-a]", "backwards", "smaller"),
        ("a**b", "whole segment", "*"),
        ("**a/x", "whole segment", "*"),
        ("***", "whole segment", "*"),
        (" a", "white space", "?"),
        ("a\n", "white space", "?"),
        ("a\0b", "NUL", "leave"),
    ] {
        let refused = glob(text).expect_err(text);
        assert!(refused.why.contains(why) && refused.fix.contains(fix), "{text:?}: {refused:?}");
    }
    assert!(glob(&"a/".repeat(200)).is_err() && glob(&"a".repeat(5000)).is_err());
    assert!(
        glob(&["a"; MAX_SEGMENTS].join("/")).is_ok() && glob(&["a"; MAX_SEGMENTS + 1].join("/")).is_err()
    );
}

#[test]
fn names_match_whole_and_within_one_segment() {
    for (text, path, want) in [
        ("*.pem", "a.pem", true),
        ("*.pem", ".pem", true),
        ("*.pem", "d/a.pem", false),
        ("*", ".hidden", true),
        ("a*b*c", "abbc", true),
        ("a*b*c", "abcb", false),
        ("*a*a*a*", "bababab", true),
        ("?", "ü", true),
        ("?", "ab", false),
        ("??", "\u{1f512}x", true),
        ("[a-cü]x", "üx", true),
        ("[!a-c]x", "bx", false),
        ("[^a-c]x", "dx", true),
        ("[a-]", "-", true),
        ("[[]x", "[x", true),
        ("x!y", "x!y", true),
        ("!x", "!x", true),
        ("a]b", "a]b", true),
        ("**", "a", true),
        ("**", "a/b/c", true),
        ("a/**", "a", false),
        ("a/**", "a/b/c", true),
        ("a/**/b", "a/b", true),
        ("a/**/b", "a/x/y/b", true),
        ("a/**/b", "a/x/y/c", false),
        ("**/a/**/b", "x/a/b", true),
        ("**/**/a", "a", true),
        ("~x/y", "~x/y", true),
    ] {
        assert_eq!(matches(text, path, Case::Sensitive), want, "{text} {path}");
    }
    for (text, path, want) in [
        (".env", ".ENV", true),
        ("*.pem", "A.Pem", true),
        ("[a-c].key", "B.KEY", true),
        ("[!a].key", "A.key", false),
        ("straße", "STRAßE", true),
        (".env", ".envx", false),
    ] {
        assert_eq!(matches(text, path, Case::Ignored), want, "{text} {path}");
        assert!(!want || text == path || !matches(text, path, Case::Sensitive), "{text} {path}");
    }
}

#[test]
fn bytes_that_are_no_text_are_matched_as_they_are() {
    let raw = OsStr::from_bytes(b"a\xff*");
    let below = Glob::parse(raw, Path::new("/h")).unwrap().below(Path::new("/p"), 0);
    let is_match = |name: &[u8]| below.matches(&Path::new("/p").join(OsStr::from_bytes(name)));
    assert!(is_match(b"a\xff") && is_match(b"a\xffz\n\x1b") && !is_match(b"a\xfe"));
    assert!(matches("?", "\u{fffd}", Case::Sensitive));
    let one = glob("?").unwrap().below(Path::new("/p"), 0);
    assert!(one.matches(&Path::new("/p").join(OsStr::from_bytes(b"\xff"))));
    assert!(!one.matches(&Path::new("/p").join(OsStr::from_bytes(b"\xff\xff"))));
}

#[test]
fn a_glob_starts_at_the_project_the_home_or_the_root() {
    for (text, anchor, prefix, literal) in [
        ("a/b", Anchor::Project, "a", Some("a/b")),
        ("a", Anchor::Project, "", Some("a")),
        ("a/*/b", Anchor::Project, "a", None),
        ("*", Anchor::Project, "", None),
        ("/data/x", Anchor::Root, "/data", Some("/data/x")),
        ("/data/*.pem", Anchor::Root, "/data", None),
        // What is special in the home's own name is no glob.
        ("~/x", Anchor::Root, "/home/a*b", Some("/home/a*b/x")),
        ("~", Anchor::Root, "/home", Some("/home/a*b")),
        ("~/**/x", Anchor::Root, "/home/a*b", None),
    ] {
        let glob = glob(text).unwrap();
        assert_eq!(
            (glob.anchor(), glob.prefix(), glob.literal()),
            (anchor, prefix.into(), literal.map(PathBuf::from)),
            "{text}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_take_long(
        text in proptest::collection::vec(proptest::sample::select(b"a*?[]!^-/.\xff\xc3\xbc".to_vec()), 0..40),
        name in proptest::collection::vec(proptest::sample::select(b"a*[]-.\xff\xc3\xbc".to_vec()), 1..40),
    ) {
        if let Ok(glob) = Glob::parse(OsStr::from_bytes(&text), Path::new("/h")) {
            let below = glob.below(Path::new("/p"), 0);
            for case in [Case::Sensitive, Case::Ignored] {
                let _ = below.step(below.start(), OsStr::from_bytes(&name), case);
            }
        }
    }

    #[test]
    fn a_name_without_special_characters_matches_itself_alone(a in "[a-c.]{1,4}", b in "[a-c.]{1,4}") {
        if let Ok(glob) = glob(&a) {
            proptest::prop_assert_eq!(glob.below(Path::new("/p"), 0).matches(&Path::new("/p").join(&b)), a == b);
        }
    }
}

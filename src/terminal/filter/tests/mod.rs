//! Tests of the whole filter: the cases and captures of `tests/cases/terminal`, and tables.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::*;

mod agents;
#[expect(clippy::disallowed_methods, reason = "reads the corpus")]
mod corpus;
mod oracle;
mod properties;

const CASES: &str = include_str!("../../../../tests/cases/terminal/filter.jsonl");
const CAPTURES: [(&str, &[u8]); 3] = [
    ("claude", include_bytes!("../../../../tests/cases/terminal/captures/claude.raw")),
    ("codex", include_bytes!("../../../../tests/cases/terminal/captures/codex.raw")),
    ("gemini", include_bytes!("../../../../tests/cases/terminal/captures/gemini.raw")),
];

fn filtered<'a>(classes: Classes, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Drops) {
    let mut filter = Filter::new(classes);
    let mut out = Vec::new();
    for piece in pieces {
        filter.push(piece, &mut out);
    }
    filter.finish(&mut out);
    (out, filter.drops().clone())
}

fn whole(input: &[u8]) -> Vec<u8> {
    filtered(Classes::default(), [input]).0
}

fn everything() -> Classes {
    Class::ALL.into_iter().fold(Classes::default(), Classes::allow)
}

/// The output for every way of cutting that the cases ask for, once it was seen to be the same.
fn however_cut(classes: Classes, input: &[u8]) -> Vec<u8> {
    let (want, drops) = filtered(classes, [input]);
    assert_eq!(filtered(classes, input.chunks(1)), (want.clone(), drops.clone()), "byte by byte");
    for at in 0..=input.len() {
        assert_eq!(
            filtered(classes, [&input[..at], &input[at..]]),
            (want.clone(), drops.clone()),
            "cut at {at}"
        );
    }
    want
}

#[test]
fn every_case_holds_however_the_input_is_cut() {
    for line in CASES.lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let bytes = |value: &serde_json::Value| {
            BASE64_STANDARD.decode(value.as_str().expect("text")).expect("base64")
        };
        let out = however_cut(Classes::default(), &bytes(&case["in"]));
        let name = &case["name"];
        if case["no_controls"] == true {
            let text = String::from_utf8(out).expect("UTF-8");
            assert!(text.starts_with('A'), "{name}: {text:?}");
            assert!(!text.contains(|c| matches!(c, '\x1b' | '\u{80}'..='\u{9f}')), "{name}: {text:?}");
            continue;
        }
        let mut right = vec![bytes(&case["out"])];
        right.extend(case["out_or"].as_array().into_iter().flatten().map(bytes));
        assert!(right.contains(&out), "{name}: {:?}", out.escape_ascii().to_string());
    }
}

#[test]
fn captures_of_agents_pass_unchanged_but_for_what_does_nothing() {
    for (agent, capture) in CAPTURES {
        let out = however_cut_sparsely(capture);
        let mut want = capture.to_vec();
        // A keyboard level is taken back that was never pushed.
        let replaced: [(&[u8], &[u8]); 4] = [
            (b"\x1b[>4;?m", b""),
            (b"\x1b[<u\x1b[>1u", b"\x1b[>1u"),
            (b"\x1b[?25h\x1b[>4m\x1b[<u", b"\x1b[?25h\x1b[>4m"),
            (b"\x1b[<1u\x1b[<u", b"\x1b[<1u"),
        ];
        for (from, to) in replaced {
            while let Some(at) = want.windows(from.len()).position(|window| window == from) {
                want.splice(at..at + from.len(), to.iter().copied());
            }
        }
        let different = out.iter().zip(&want).position(|(a, b)| a != b).unwrap_or(out.len().min(want.len()));
        let around = |bytes: &[u8]| {
            bytes[different.saturating_sub(20)..bytes.len().min(different + 60)].escape_ascii().to_string()
        };
        assert!(out == want, "{agent}:\n got {}\nwant {}", around(&out), around(&want));
    }
}

fn however_cut_sparsely(input: &[u8]) -> Vec<u8> {
    let want = whole(input);
    for size in [1, 2, 3, 7, 61, 4096] {
        assert!(filtered(Classes::default(), input.chunks(size)).0 == want, "pieces of {size}");
    }
    want
}

#[test]
fn a_terminal_that_is_anothers_gets_no_query_and_no_mode() {
    let all = Classes::default().allow(Class::Image).allow(Class::Notification);
    let same = ["text\r\n", "\x1b[1;31mred\x1b[m", "\x1b[2J\x1b[3;4H\x1b[K", "\x1b]0;title\x07", "\x1bM"];
    let none = [
        "\x1b[6n",
        "\x1b[5n",
        "\x1b[c",
        "\x1b[>c",
        "\x1b[>q",
        "\x1b[?u",
        "\x1b[14t",
        "\x1b[18t",
        "\x1b[?2026$p",
        "\x1bP+q544e\x1b\\",
        "\x1b]11;?\x07",
        "\x1b]4;1;?\x07",
        "\x1b_Ga=q,i=1;AAAA\x1b\\",
        "\x1b_Ga=T,i=1;AAAA\x1b\\",
        "\x1b[?1003h",
        "\x1b[?1004h",
        "\x1b[?1049h",
        "\x1b[>1u",
        "\x1b[>4;2m",
        "\x1b=",
    ];
    for (input, passes) in same.into_iter().map(|input| (input, true)).chain(none.map(|input| (input, false)))
    {
        let mut whole = Filter::new(all);
        let mut listed = Vec::new();
        whole.push(input.as_bytes(), &mut listed);
        assert_ne!(listed, b"", "control: {input:?} passes while the terminal is ours");
        let mut out = Vec::new();
        whole.picture_only().push(&listed, &mut out);
        assert_eq!(out, if passes { listed } else { Vec::new() }, "{input:?}");
        let asks = whole.queries().asked_in_all() > 0;
        assert_eq!(asks || whole.modes().any(), !passes, "{input:?} is noticed");
    }
}

#[test]
fn tab_stops_stay_as_they_are() {
    let (out, drops) = filtered(Classes::default(), [&b"a\x1b[3g\x1b[0g\x1bHb\tc"[..]]);
    assert_eq!((out.as_slice(), drops.count(Class::Unlisted)), (&b"ab\tc"[..], 3));
}

#[test]
fn captures_leave_nothing_switched_on() {
    for (agent, capture) in CAPTURES {
        let mut filter = Filter::new(Classes::default());
        filter.push(capture, &mut Vec::new());
        let off = filter.modes().off();
        assert!(off.is_empty(), "{agent}: {}", off.escape_ascii());
    }
}

#[test]
fn sequences_pass_drop_or_are_rewritten() {
    let same: &[&str] = &[
        "\x1b[m",
        "\x1b[4:3m",
        "\x1b[38:2::1:2:3m",
        "\x1b[0;1;4;38;5;200;48;2;1;2;3m",
        "\x1b[;H",
        "\x1b[2J",
        "\x1b[3J",
        "\x1b[1;20r",
        "\x1b[s",
        "\x1b[u",
        "\x1b[?1000;1002;1006h",
        "\x1b[22;0t",
        "\x1b[23;2t",
        "\x1b[22;0;0t",
        "\x1b[23;0;0t",
        "\x1b[14t",
        "\x1b[>c",
        "\x1b[>0q",
        "\x1b[?2026$p",
        "\x1b[>4;2m",
        "\x1b[?4m",
        "\x1b]4;1;#aabbcc;2;?\x1b\\",
        "\x1b]10;?;?\x07",
        "\x1b]12;red\x07",
        "\x1b]104\x07",
        "\x1b]104;1;2\x07",
        "\x1b]110\x1b\\",
        "\x1b]9;4;1;50\x07",
        "\x1b]9;4;0;\x07",
        "\x1b]133;A\x07",
        "\x1b]133;D;1\x1b\\",
        "\x1b(0",
        "\x1b)B",
        "\x1b=",
        "\x1b>",
        "\x0e\x0f",
        "\x1bM",
        "\x1b[5 q",
        "✳ ▐ 日本語 👩‍👩‍👧",
        "\x1b]2;✳ Claude\x07",
        "\x1b]8;id=1;file:///a\x1b\\",
        "\x1bP+q544e;524742\x1b\\",
    ];
    for text in same {
        assert_eq!(
            whole(text.as_bytes()).escape_ascii().to_string(),
            text.as_bytes().escape_ascii().to_string()
        );
    }
    let gone: &[&str] = &[
        "\x1b[20t",
        "\x1b[21t",
        "\x1b[22;3t",
        "\x1b[22;0;1t",
        "\x1b[1;2s",
        "\x1b[?1000s",
        "\x1b[?1000r",
        "\x1b[4h",
        "\x1b[?3h",
        "\x1b[?2J",
        "\x1b[1:2H",
        "\x1b[5i",
        "\x1b[4i",
        "\x1b[?69h",
        "\x1b[>2T",
        "\x1b[1;2;3;4;5T",
        "\x1b[=c",
        "\x1b[x",
        "\x1b[1;1;1;1;1;1*y",
        "\x1b[61\"p",
        "\x1b[1$}",
        "\x1b[1  q",
        "\x1b[1;2?h",
        "\x1b[?1?h",
        "\x1b[>5;1m",
        "\x1b[>64u",
        "\x1b[?0u",
        "\x1bZ",
        "\x1b#8",
        "\x1b%G",
        "\x1b%@",
        "\x1b(K",
        "\x1bN",
        "\x1b~",
        "\x1bl",
        "\x1b F",
        "\x1bktitle\x1b\\",
        "\x1b^x\x1b\\",
        "\x1b]10;?;?;?;?\x07",
        "\x1b]4;256;?\x07",
        "\x1b]4;1\x07",
        "\x1b]13;?\x07",
        "\x1b]133;C;cmdline=x\x07",
        "\x1b]133;A;cl=m\x07",
        "\x1b]9;4;7\x07",
        "\x1b]9;9;/tmp\x07",
        "\x1b]l\x07",
        "\x1b]Lx\x07",
        "\x1b]I;x\x07",
        "\x1b]22;hand\x07",
        "\x1b]66;w=1;x\x07",
        "\x1bP$qm\x1b\\",
        "\x1bP0;1|17/41\x1b\\",
        "\x1bPq#0~\x1b\\",
        "\x1b_Ga=q,i=1;AAAA\x1b\\",
        "\x1bP1000p\x1b\\",
        "\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1m",
    ];
    for text in gone {
        let (out, drops) = filtered(Classes::default(), [text.as_bytes()]);
        assert_eq!((out.escape_ascii().to_string(), drops.total() > 0), (String::new(), true), "{text:?}");
    }
    let rewritten: &[(&str, &str)] = &[
        ("\x1b[01;031m", "\x1b[1;31m"),
        ("\x1b[?25;69;1000h", "\x1b[?25;1000h"),
        ("\x1b[999999999999C", "\x1b[32767C"),
        ("\x1b[65549h\x1b[65550t", ""),
        ("\x1b]0;a\u{202e}b\u{9c}", "\x1b]0;ab\x1b\\"),
        ("\x1b]002;a\x08b\x07", "\x1b]2;ab\x07"),
        ("\x1b]8;x=y:id=q;HTTP://a\x07", "\x1b]8;id=q;HTTP://a\x07"),
        ("\x1b]8;;http://a b\x07", "\x1b]8;;\x07"),
        ("\x1bP+q4d73;544e\x1b\\", "\x1bP+q544e\x1b\\"),
        ("\x1b]9;4\x07", "\x1b]9;4;0\x07"),
        ("\x1b]2;a\x1b[mb", "\x1b[mb"),
        ("\x1b[3\u{e9}m", "\u{e9}m"),
        ("a\0b\x0b\x7f\x0c\x1a", "ab"),
        ("\x1bP\u{2733}x\x1b\\y", "y"),
    ];
    for (text, want) in rewritten {
        assert_eq!(
            whole(text.as_bytes()).escape_ascii().to_string(),
            want.as_bytes().escape_ascii().to_string()
        );
    }
}

#[test]
fn a_title_has_at_most_256_characters() {
    let long = format!("\x1b]0;{}\x07", "é".repeat(9000));
    assert_eq!(whole(long.as_bytes()), format!("\x1b]0;{}\x07", "é".repeat(256)).into_bytes());
}

#[test]
fn bytes_that_are_not_utf8_become_replacement_characters() {
    let cases: &[(&[u8], &str)] = &[
        (b"a\xffb", "a\u{fffd}b"),
        (b"\xe2\x9cA", "\u{fffd}A"),
        (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
        (b"\xed\xa0\x80", "\u{fffd}\u{fffd}"),
        (b"\xf0\x9f\x91", "\u{fffd}"),
        (b"\xf5", "\u{fffd}"),
        (b"\xe2\x1b[m", "\u{fffd}\x1b[m"),
        (b"\x9b31m", "31m"),
        (b"\xc2\x9b31m", "31m"),
    ];
    for (input, want) in cases {
        let out = however_cut(Classes::default(), input);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), *want, "{}", input.escape_ascii());
    }
}

#[test]
fn a_reset_says_what_it_brings_back_to_a_terminal_that_does_not_know_it() {
    let cases = [
        ("\x1b[?25l\x1bc", "\x1b[?25l\x1b[?25h\x1b[!p"),
        ("\x1b[?25l\x1b[!p", "\x1b[?25l\x1b[?25h\x1b[!p"),
        ("\x1b[?7l\x1b[31m\x1b(0\x1b=\x1b[!p", "\x1b[?7l\x1b[31m\x1b(0\x1b=\x1b[?7h\x1b[m\x1b(B\x1b>\x1b[!p"),
        ("\x1b[3;5r\x1b[?1h\x1bc", "\x1b[3;5r\x1b[?1h\x1b[?1l\x1b7\x1b[r\x1b8\x1b[!p"),
        ("\x1b[?1049;1003h\x1b[>1u\x1bc", "\x1b[?1049;1003h\x1b[>1u\x1b[<1u\x1b[?1049l\x1b[?1003l\x1b[!p"),
        ("\x1b[?1003h\x1b[>1u\x1b[!p", "\x1b[?1003h\x1b[>1u\x1b[!p"),
        ("\x1b]4;7;red\x07\x1bc", "\x1b]4;7;red\x07\x1b]104;7\x1b\\\x1b[!p"),
        ("\x1b8\x1bc", "\x1b8\x1b[m\x0f\x1b(B\x1b)B\x1b*B\x1b+B\x1b[?7h\x1b[!p"),
        ("\x1b[22;0t\x1bc\x1b[23;0t", "\x1b[22;0t\x1b[!p\x1b[23;0t"),
        ("\x1bc\x1bc", "\x1b[!p\x1b[!p"),
    ];
    for (input, want) in cases {
        let out = however_cut(Classes::default(), input.as_bytes());
        assert_eq!(out.escape_ascii().to_string(), want.as_bytes().escape_ascii().to_string(), "{input:?}");
        assert_eq!(whole(&out), out, "{input:?}");
    }
}

#[test]
fn the_keyboard_levels_of_the_user_stay() {
    let cases = [
        ("\x1b[<u", ""),
        ("\x1b[<99u", ""),
        ("\x1b[>1u\x1b[<u\x1b[<u", "\x1b[>1u\x1b[<u"),
        ("\x1b[?u\x1b[>5u\x1b[<1u", "\x1b[?u\x1b[>5u\x1b[<1u"),
        ("\x1b[>1u\x1b[>3u\x1b[<99u", "\x1b[>1u\x1b[>3u\x1b[<2u"),
        ("\x1b[>1u\x1b[?1049h\x1b[<u", "\x1b[>1u\x1b[?1049h"),
        ("\x1b[=31;1u", "\x1b[>0u\x1b[=31;1u"),
        ("\x1b[=31;1u\x1b[=1;3u\x1b[<9u", "\x1b[>0u\x1b[=31;1u\x1b[=1;3u\x1b[<1u"),
        ("\x1b[>1u\x1b[=5u", "\x1b[>1u\x1b[=5u"),
    ];
    for (input, want) in cases {
        let out = however_cut(Classes::default(), input.as_bytes());
        assert_eq!(out.escape_ascii().to_string(), want.as_bytes().escape_ascii().to_string(), "{input:?}");
        assert_eq!(whole(&out), out, "{input:?}");
    }
}

#[test]
fn nothing_invisible_stands_in_a_title() {
    let cases = [
        ("a\u{61c}b\u{200b}c\u{ad}d\u{fff9}e\u{e0041}f\u{e0100}g\u{2060}h\u{3164}i", "abcdefghi"),
        ("a\u{200d}b\u{fe0f}c\u{fe00}", "abc"),
        ("❤\u{fe0f}\u{fe0f} ✳ größe 日本語", "❤\u{fe0f} ✳ größe 日本語"),
        ("👩\u{200d}💻 👩🏽\u{200d}❤\u{fe0f}\u{200d}👩", "👩\u{200d}💻 👩🏽\u{200d}❤\u{fe0f}\u{200d}👩"),
        ("👩\u{200d}\u{200d}💻\u{200d}", "👩\u{200d}💻"),
    ];
    for (text, want) in cases {
        for (before, after) in
            [("0;", "0;"), ("2;", "2;"), ("9;", "9;ai-jail: "), ("777;notify;", "777;notify;ai-jail: ")]
        {
            let out = however_cut(everything(), format!("\x1b]{before}{text}\x07").as_bytes());
            let end = if before.starts_with('7') { ";" } else { "" };
            assert_eq!(
                String::from_utf8(out).expect("UTF-8"),
                format!("\x1b]{after}{want}{end}\x07"),
                "{text:?}"
            );
        }
    }
    let long = format!("\x1b]0;{}👩\u{200d}👩\x07", "x".repeat(254));
    assert_eq!(whole(long.as_bytes()), format!("\x1b]0;{}👩👩\x07", "x".repeat(254)).as_bytes());
}

#[test]
fn switched_on_classes_pass_in_their_safe_form() {
    let cases: &[(&str, &str)] = &[
        ("\x1b]9;mail\x07", "\x1b]9;ai-jail: mail\x07"),
        ("\x1b]777;notify;a;b\x07", "\x1b]777;notify;ai-jail: a;b\x07"),
        ("\x1b]99;i=1;hi\x07", "\x1b]99;i=1;ai-jail: hi\x07"),
        ("\x1b]99;a=report;hi\x07", ""),
        ("\x1b]52;c;aGk=\x07", "\x1b]52;c;aGk=\x07"),
        ("\x1b]52;c;?\x07", ""),
        ("\x1b]52;c;\x07", ""),
        ("\x1b]7;file://h/tmp\x07", "\x1b]7;file://h/tmp\x07"),
        ("\x1b]7;file://h/$(id)\x07", ""),
        ("\x1bP0;1q#0;2;0;0;0~\n-\x1b\\x", "\x1bP0;1q#0;2;0;0;0~\n-\x1b\\x"),
        ("\x1bPq#0\x07~\x18x", "\x1bPq#0~\x1b\\x"),
        ("\x1bPq#0~", "\x1bPq#0~\x1b\\"),
        ("\x1b_Ga=T,f=100,m=1;QUJD\x1b\\", "\x1b_Ga=T,f=100,m=1;QUJD\x1b\\"),
        ("\x1b_Ga=d,d=A\x1b\\", "\x1b_Ga=d,d=A\x1b\\"),
        ("\x1b_Gt=f,a=T;L2V0Yw==\x1b\\", ""),
        ("\x1b_Gt=t;L2V0Yw==\x1b\\", ""),
        ("\x1b_Ga=T,t=s;L2V0Yw==\x1b\\", ""),
        ("\x1b]1337;Copy=:aGk=\x07\x1b]5522;type=read\x07", ""),
    ];
    for (input, want) in cases {
        let out = however_cut(everything(), input.as_bytes());
        assert_eq!(out.escape_ascii().to_string(), want.as_bytes().escape_ascii().to_string(), "{input:?}");
    }
}

#[test]
fn drops_are_counted_by_class() {
    let input = b"\x1b]52;c;aGk=\x07\x1b[21t\x05\x9b\x1b]9;x\x07\x1bPtmux;x\x1b\\\x1b[5i\x1b_Gt=s;\x1b\\\x1b]0;no end";
    let (_, drops) = filtered(Classes::default(), [&input[..]]);
    let want = [
        (Class::Notification, 1),
        (Class::Image, 1),
        (Class::ClipboardWrite, 1),
        (Class::Window, 1),
        (Class::Query, 1),
        (Class::Passthrough, 1),
        (Class::Media, 1),
        (Class::C1, 1),
        (Class::Unterminated, 1),
    ];
    assert_eq!(drops.iter().collect::<Vec<_>>(), want);
}

#[test]
fn an_unterminated_string_takes_bounded_memory() {
    for start in ["\x1b]0;", "\x1b]52;c;", "\x1bPtmux;", "\x1bP+q", "\x1b_G", "\x1bX", "\x1b[", "\x1bk"] {
        let mut filter = Filter::new(everything());
        let mut out = Vec::new();
        filter.push(start.as_bytes(), &mut out);
        for _ in 0..256 {
            filter.push(&[b'1'; 4096], &mut out);
        }
        assert!(filter.string.capacity() <= 2 * string::STRING_WITH_CLIPBOARD && out.is_empty(), "{start:?}");
    }
}

#[test]
fn without_the_filter_bytes_pass_and_modes_are_tracked() {
    let mut filter = Filter::new(Classes::danger_unfiltered());
    let mut out = Vec::new();
    filter.push(b"\x1b]52;c;aGk=\x07\x1b[?1003h", &mut out);
    assert_eq!(out, b"\x1b]52;c;aGk=\x07\x1b[?1003h");
    assert_eq!(filter.modes().off(), b"\x1b[?1003l");
    filter.push(b"\x1b[=5u\x1b[?25l\x1b[!p", &mut out);
    assert_eq!(filter.modes().off().escape_ascii().to_string(), r"\x1b[=0;1u\x1b[?1003l\x1b[?25h");
}

#[test]
fn output_that_ends_within_a_line_is_told() {
    for (input, want) in [
        ("", false),
        ("a\r\n", false),
        ("END", true),
        ("a\n\x1b[?25h", false),
        ("é", true),
        ("\x1b]0;t\x07", false),
    ] {
        let mut filter = Filter::new(Classes::default());
        filter.push(input.as_bytes(), &mut Vec::new());
        assert_eq!(filter.is_in_line(), want, "{input:?}");
    }
}

#[test]
fn an_interrupted_image_is_closed_and_its_rest_swallowed() {
    let mut filter = Filter::new(everything());
    let mut out = Vec::new();
    filter.push(b"\x1bPq#0", &mut out);
    filter.interrupt(&mut out);
    filter.push(b"~~~\x1b\\x", &mut out);
    assert_eq!(out, b"\x1bPq#0\x1b\\x");
}

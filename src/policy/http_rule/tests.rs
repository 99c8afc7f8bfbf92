use proptest::prelude::*;

use super::*;
use crate::config::secret_values::http_host;
use crate::egress::decide::tests::policy;

pub(super) fn entry(host: &str, allow: &[&str], deny: &[&str], origin: Origin) -> Sourced<HttpRules> {
    let rules = |texts: &[&str]| texts.iter().map(|text| HttpRule::parse(text).unwrap()).collect();
    let host = match origin.layer {
        Layer::BuiltIn => HostPattern::parse(host).unwrap(),
        _ => http_host(host).unwrap(),
    };
    Sourced::new(HttpRules { host, allow: rules(allow), deny: rules(deny) }, origin)
}

pub(super) fn user() -> Origin {
    Origin { layer: Layer::User, what: "network.http".to_owned(), place: Some(("/c.toml".into(), 3)) }
}

fn project() -> Origin {
    Origin { layer: Layer::Project, ..user() }
}

pub(super) fn with(entries: Vec<Sourced<HttpRules>>) -> NetPolicy {
    NetPolicy { http: entries, ..policy(&["*"], &[]) }
}

/// `free`, the allowing rule, or the code of the denial with the denying rule.
fn answer(net: &NetPolicy, host: &str, request: &str) -> String {
    let (method, path) = request.split_once(' ').unwrap();
    match decide_http(net, &Authority::parse(host.as_bytes()).unwrap(), method, path) {
        HttpDecision::Free => "free".to_owned(),
        HttpDecision::Allowed(rule) => rule.to_string(),
        HttpDecision::Denied(denial) => match &denial.reason {
            HttpReason::Rule { rule, .. } => format!("deny: {rule}"),
            _ => denial.code().to_owned(),
        },
    }
}

#[test]
fn a_request_passes_with_an_allowing_rule_and_no_denying_one() {
    let net = with(vec![
        entry("api.test", &["GET /repos/**", "POST /graphql"], &["DELETE /**", "* /repos/secret/**"], user()),
        entry("api.test", &["POST /pkg.v1.Greeter/*"], &[], user()),
        entry("denied.test", &[], &["DELETE /**", "POST /admin/**"], user()),
        entry("*.wild.test:8443", &["GET /**"], &[], user()),
    ]);
    let cases = [
        ("other.test:443", "DELETE /x", "free"),
        ("api.test:443", "GET /repos/a", "GET /repos/**"),
        ("api.test:443", "GET /repos/a?b=/../..;%2f", "GET /repos/**"),
        ("api.test:80", "GET /repos/a", "GET /repos/**"),
        ("api.test:8443", "GET /x", "http-rule"),
        ("api.test:8443", "GET /repos/secret", "deny: * /repos/secret/**"),
        ("b.api.test:8443", "GET /x", "free"),
        ("a.wild.test:443", "POST /x", "free"),
        ("api.test:443", "POST /graphql", "POST /graphql"),
        ("api.test:443", "POST /graphql/", "POST /graphql"),
        ("api.test:443", "POST /pkg.v1.Greeter/SayHello", "POST /pkg.v1.Greeter/*"),
        ("api.test:443", "POST /pkg.v1.Greeter/Say/Hello", "http-rule"),
        ("api.test:443", "POST /pkg.v1.Admin/Say", "http-rule"),
        ("api.test:443", "GET /user", "http-rule"),
        ("api.test:443", "HEAD /repos/a", "http-rule"),
        ("api.test:443", "get /repos/a", "http-rule"),
        ("api.test:443", "PATCH /repos/a", "http-rule"),
        ("api.test:443", "GET /Repos/a", "http-rule"),
        ("api.test:443", "DELETE /repos/a", "deny: DELETE /**"),
        ("api.test:443", "delete /repos/a", "deny: DELETE /**"),
        ("api.test:443", "DELETE /a%2fb", "deny: DELETE /**"),
        ("api.test:443", "GET /repos/secret/x", "deny: * /repos/secret/**"),
        ("api.test:443", "GET /repos/SECRET", "deny: * /repos/secret/**"),
        ("api.test:443", "GET /repos/%73ecret/x", "deny: * /repos/secret/**"),
        ("api.test:443", "GET //repos//secret", "deny: * /repos/secret/**"),
        ("api.test:443", "GET /repos/a/../secret/x", "deny: * /repos/secret/**"),
        ("api.test:443", "GET /repos/../user", "http-rule"),
        ("api.test:443", "GET /user/../repos/a", "http-rule"),
        ("api.test:443", "GET /repos/a/../b", "GET /repos/**"),
        ("api.test:443", "GET /repos/..%2fuser", "ambiguous-path"),
        ("api.test:443", "GET /repos/%2e%2e/user", "ambiguous-path"),
        ("api.test:443", "GET /repos/..;/user", "ambiguous-path"),
        ("api.test:443", "GET /repos/%252e%252e/user", "ambiguous-path"),
        ("api.test:443", "GET /repos\\..\\user", "ambiguous-path"),
        ("api.test:443", "GET *", "ambiguous-path"),
        ("api.test:443", "GET ", "ambiguous-path"),
        ("api.test:443", "GET ?x", "ambiguous-path"),
        ("denied.test:443", "GET /x", "free"),
        ("denied.test:443", "GET /a%2fb", "free"),
        ("denied.test:443", "DELETE /x", "deny: DELETE /**"),
        ("denied.test:443", "POST /x", "free"),
        ("denied.test:443", "POST /admin", "deny: POST /admin/**"),
        ("denied.test:443", "POST /Admin/x", "deny: POST /admin/**"),
        ("denied.test:443", "POST /x/../admin", "deny: POST /admin/**"),
        ("denied.test:443", "POST /admin/../x", "deny: POST /admin/**"),
        ("denied.test:443", "POST /x%2f..%2fadmin", "ambiguous-path"),
        ("a.wild.test:8443", "GET /x%2fy;z", "GET /**"),
        ("a.wild.test:8443", "POST /x", "http-rule"),
        ("wild.test:8443", "POST /x", "free"),
    ];
    for (host, request, want) in cases {
        assert_eq!(answer(&net, host, request), want, "{request} at {host}");
    }
}

#[test]
fn what_is_denied_is_denied_under_every_name_that_servers_know_it_by() {
    let net = with(vec![
        entry("a.test", &[], &["GET /secret/**", "POST /x.", "PUT /**", "HEAD /head"], user()),
        entry("open.test", &["GET /pub/**"], &[], user()),
    ]);
    let cases = [
        ("a.test:443", "HEAD /secret/x", "deny: GET /secret/**"),
        ("a.test:443", "head /secret/x", "deny: GET /secret/**"),
        ("a.test:443", "HEAD /pub", "free"),
        ("a.test:443", "HEAD /head", "deny: HEAD /head"),
        ("a.test:443", "GET /head", "free"),
        ("a.test:443", "POST /secret/x", "free"),
        ("a.test:443", "GET /secret./x", "deny: GET /secret/**"),
        ("a.test:443", "GET /Secret%20/x", "deny: GET /secret/**"),
        ("a.test:443", "GET /secret.%20.%20", "deny: GET /secret/**"),
        ("a.test:443", "GET /secret%2e", "deny: GET /secret/**"),
        ("a.test:443", "GET /x/../secret.", "deny: GET /secret/**"),
        ("a.test:443", "GET //secret.//x", "deny: GET /secret/**"),
        ("a.test:443", "GET /secret.d/x", "free"),
        ("a.test:443", "GET /%20secret/x", "free"),
        ("a.test:443", "POST /x", "deny: POST /x."),
        ("a.test:443", "POST /x..", "deny: POST /x."),
        ("a.test:443", "GET /.../secret", "ambiguous-path"),
        ("a.test:443", "GET /%20/secret", "ambiguous-path"),
        ("a.test:443", "GET /x/..%20/secret", "ambiguous-path"),
        ("a.test:443", "GET /%C5%BFecret/x", "ambiguous-path"),
        ("a.test:443", "GET /secret/%C5%BF", "deny: GET /secret/**"),
        ("a.test:443", "GET /%e2%84%aa/../x", "ambiguous-path"),
        ("a.test:443", "DELETE /%C5%BFecret/x", "free"),
        ("a.test:443", "PUT /%C5%BF", "deny: PUT /**"),
        ("open.test:443", "GET /pub/%C5%BF/...", "GET /pub/**"),
        ("open.test:443", "GET /pub/a.", "GET /pub/**"),
        ("open.test:443", "GET /pub./a", "http-rule"),
        ("open.test:443", "GET /pub/..%20/a", "ambiguous-path"),
        ("open.test:443", "HEAD /pub/a", "http-rule"),
    ];
    for (host, request, want) in cases {
        assert_eq!(answer(&net, host, request), want, "{request} at {host}");
    }
}

#[test]
fn what_a_denial_advises_is_what_passes_then() {
    // What is to be sent then; nothing where the request itself passes.
    for (request, plainly) in [
        ("POST /user?token=1", ""),
        ("get /pub/a", ""),
        ("Get /", ""),
        ("M2 /x", ""),
        ("GET /a*b/[c]/{d}", ""),
        ("GET /%C3%A9", ""),
        ("GET /...", ""),
        ("GET /a%20b/", ""),
        ("GET /x%2fy", ""),
        ("get /x%2fy", ""),
        ("GET /x;y", ""),
        ("GET /**", ""),
        ("GET /x/../y", "/y"),
        ("GET /x/../../user", "/user"),
        ("GET //z/%2a", "/z/%2A"),
    ] {
        let HttpDecision::Denied(denial) = decided(
            &with(vec![entry("a.test", &["GET /x", "DELETE /**"], &["GET /secret"], user())]),
            request,
        ) else {
            panic!("{request}")
        };
        let hint = denial.hint();
        let Some(rule) = hint.split('"').nth(1) else {
            // A rule denies, so that every path cannot be allowed.
            assert!(hint.starts_with("write the path plainly"), "{request}: {hint}");
            continue;
        };
        let (method, _) = request.split_once(' ').unwrap();
        let then = if plainly.is_empty() { request.to_owned() } else { format!("{method} {plainly}") };
        assert_eq!(
            hint.contains(&format!("write the path plainly, as {plainly}, ")),
            !plainly.is_empty(),
            "{hint}"
        );
        let net = with(vec![entry("a.test", &[rule], &["GET /secret"], user())]);
        assert!(matches!(decided(&net, &then), HttpDecision::Allowed(_)), "{request}: {hint}");
        let exact = !rule.ends_with("/**");
        let other = decided(&net, "GET /somewhere/else");
        assert!(!exact || matches!(other, HttpDecision::Denied(_)), "{request}: {hint}");
    }
}

#[test]
fn every_path_is_advised_only_where_nothing_else_would_do() {
    let reads = || with(vec![entry("a.test", &["GET /repos/**"], &["DELETE /**"], user())]);
    let narrow = || with(vec![entry("a.test", &["GET /repos/**"], &["GET /repos/secret"], user())]);
    let cases = [
        (reads(), "GET /repos/a%2fb", true),
        (reads(), "GET /repos/a;b", true),
        (narrow(), "GET /repos/a%2fb", false),
        (reads(), "GET /repos/%2e%2e/user", false),
        (reads(), "GET /repos//../user", false),
        (reads(), "GET /repos\\user", false),
        (reads(), "PUT /repos\\user", false),
        (reads(), "GET /repos/a/../../user", false),
        (reads(), "GET /user/../repos/a", false),
    ];
    for (net, request, want) in cases {
        let HttpDecision::Denied(denial) = decided(&net, request) else { panic!("{request}") };
        assert_eq!(denial.hint().contains("/**"), want, "{request}: {}", denial.hint());
    }
    let hint = |request: &str| match decided(&reads(), request) {
        HttpDecision::Denied(denial) => denial.hint(),
        HttpDecision::Free | HttpDecision::Allowed(_) => panic!("{request}"),
    };
    assert_eq!(hint("GET /user/../repos/a"), "write the path plainly, as /repos/a");
    let long = format!("GET /{}", "a/".repeat(200));
    assert!(hint(&long).starts_with("allow it with a rule for \"GET\""), "{}", hint(&long));
}

fn decided<'p>(net: &'p NetPolicy, request: &str) -> HttpDecision<'p> {
    let (method, path) = request.split_once(' ').unwrap();
    decide_http(net, &Authority::parse(b"a.test:443").unwrap(), method, path)
}

#[test]
fn a_project_only_narrows_what_the_user_allows() {
    let user_reads = || entry("a.test", &["GET /a/**"], &[], user());
    let cases = [
        (
            vec![user_reads(), entry("a.test", &["GET /a/b", "POST /**"], &[], project())],
            "GET /a/b",
            "GET /a/**",
        ),
        (
            vec![user_reads(), entry("a.test", &["GET /a/b", "POST /**"], &[], project())],
            "GET /a/c",
            "http-rule",
        ),
        (
            vec![user_reads(), entry("a.test", &["GET /a/b", "POST /**"], &[], project())],
            "POST /a/b",
            "http-rule",
        ),
        (vec![user_reads(), entry("a.test", &[], &["GET /a/x"], project())], "GET /a/x", "deny: GET /a/x"),
        (vec![entry("a.test", &["GET /**"], &[], project())], "GET /x", "GET /**"),
        (vec![entry("a.test", &["GET /**"], &[], project())], "POST /x", "http-rule"),
    ];
    for (entries, request, want) in cases {
        assert_eq!(answer(&with(entries), "a.test:443", request), want, "{request}");
    }
}

#[test]
fn a_denial_is_one_line_that_says_what_would_allow_it() {
    let registry = || Origin::built_in("registry of npm");
    let cases = [
        (
            entry("a.test", &["GET /x"], &[], user()),
            "POST /user?token=1",
            "ai-jail: POST /user at a.test:443 is not allowed (no HTTP rule of the host matches); allow it with \"POST /user\" in \
             allow of [[network.http]] for a.test",
        ),
        (
            entry("a.test", &[], &["* /user"], user()),
            "GET /user",
            "ai-jail: GET /user at a.test:443 is denied (by the HTTP rule * /user); remove that rule to allow it",
        ),
        (
            entry("a.test", &["GET /x"], &[], user()),
            "GET /x%2fy",
            "ai-jail: GET /x%2fy at a.test:443 is not allowed (servers read its path in different ways: it holds an encoded slash \
             or backslash); write the path plainly, or allow it with \"GET /**\" in allow of [[network.http]] for a.test",
        ),
        (
            entry("a.test", &["GET /x"], &[], user()),
            "get /pub/a",
            "ai-jail: get /pub/a at a.test:443 is not allowed (no HTTP rule of the host matches); send the method in capitals, or \
             allow it with \"* /pub/a\" in allow of [[network.http]] for a.test",
        ),
        (
            entry("a.test", &[], &["* /user"], user()),
            "GET /%C3%BCser",
            "ai-jail: GET /%C3%BCser at a.test:443 is not allowed (servers read its path in different ways: it holds characters \
             beyond ASCII, some of which servers take for others); write the path plainly: rules deny some paths of this host, \
             and this may be one of them",
        ),
        (
            entry("a.test", &["GET /**", "HEAD /**"], &[], registry()),
            "PUT /pkg",
            "ai-jail: PUT /pkg at a.test:443 is not allowed (a registry of packages is for reading: GET and HEAD); allow it with \
             --allow-host a.test",
        ),
        (
            entry("a.test", &["GET /x"], &[], project()),
            "GET /y",
            "ai-jail: GET /y at a.test:443 is not allowed (no HTTP rule of the project's configuration matches); allow it with \
             \"GET /y\" in allow of [[network.http]] for a.test in the project's configuration",
        ),
    ];
    for (rules, request, want) in cases {
        let net = with(vec![rules]);
        let (method, path) = request.split_once(' ').unwrap();
        let target = Authority::parse(b"a.test:443").unwrap();
        let HttpDecision::Denied(denial) = decide_http(&net, &target, method, path) else {
            panic!("{request}")
        };
        assert_eq!(denial.to_string(), want);
    }
}

#[test]
fn what_was_sent_is_escaped_and_cut_before_it_is_shown() {
    let net = with(vec![entry("a.test", &["GET /x"], &[], user())]);
    let target = Authority::parse(b"a.test:443").unwrap();
    let long = format!("/{}\u{1b}[2J\n\u{202e}", "a".repeat(5000));
    for (method, path) in [("GET", long.as_str()), ("G\r\nX: y", "/\u{1b}[2J\r\nX: y"), (long.as_str(), "/é")]
    {
        let HttpDecision::Denied(denial) = decide_http(&net, &target, method, path) else { panic!() };
        let line = denial.to_string();
        assert!(line.len() < 1000 && !line.contains(['\n', '\r', '\u{1b}', '\u{202e}']), "{line}");
    }
}

#[test]
fn a_bad_rule_is_refused_with_its_reason() {
    let cases = [
        ("GET", "a rule is a method and a path, for example \"GET /repos/**\", or \"* /**\" for everything"),
        ("", "a rule is a method and a path, for example \"GET /repos/**\", or \"* /**\" for everything"),
        (" /x", "a rule is a method and a path, for example \"GET /repos/**\", or \"* /**\" for everything"),
        ("get /x", "methods are in capitals; write GET"),
        ("GET,POST /x", "a method is letters, such as GET or POST, or * for every one"),
        ("GETT /x", "GETT is no method of HTTP; did you mean GET?"),
        ("PROPFINT /x", "PROPFINT is no method of HTTP; did you mean PROPFIND?"),
        ("FROBNICATE /x", "FROBNICATE is no method of HTTP; write * for every method"),
        ("GET* /x", "a method is letters, such as GET or POST, or * for every one"),
        ("GET x", "the path does not begin with a slash; write /PATH, or /** for every path"),
        ("GET /a?b", "a rule is about the path; write it without `?` and what follows"),
        (
            "GET /a /b",
            "the path can be read in more than one way: it holds a byte that no path has; write it plainly",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(HttpRule::parse(text).map_err(|error| error.to_string()), Err(want.to_owned()), "{text}");
    }
    for (text, want) in [
        ("GET /repos/**", "GET /repos/**"),
        ("*  /%41//", "* /A"),
        ("M-SEARCH /", "M-SEARCH /"),
        ("PROPFIND /", "PROPFIND /"),
    ] {
        let rule = HttpRule::parse(text).unwrap();
        assert_eq!(rule.to_string(), want);
        assert_eq!(HttpRule::parse(want), Ok(rule));
    }
}

proptest! {
    /// However a path is written: when it passes, every server that reads it reads one that may pass.
    #[test]
    fn no_spelling_leads_around_the_rules(text in "(/|\\.|\\.\\.|%2[eEfF]|%5c|%25|[ab;\\\\]|secret|open){1,10}") {
        let net = with(vec![entry("a.test", &["GET /open/**"], &["GET /open/secret/**"], user())]);
        let passes = answer(&net, "a.test:443", &format!("GET /{text}")).starts_with("GET");
        if passes {
            let mut decoded = text.replace('\\', "/");
            for _ in 0..3 {
                for (escape, sign) in [("%2e", "."), ("%2E", "."), ("%2f", "/"), ("%2F", "/"), ("%5c", "/"), ("%25", "%")] {
                    decoded = decoded.replace(escape, sign);
                }
            }
            let mut names = Vec::new();
            for name in decoded.split('/').map(|name| name.split(';').next().unwrap()) {
                match name {
                    "" | "." => {}
                    ".." => drop(names.pop()),
                    name => names.push(name),
                }
            }
            prop_assert_eq!(names.first(), Some(&"open"), "{}", text);
            prop_assert!(names.get(1) != Some(&"secret"), "{}", text);
        }
    }

    #[test]
    fn no_request_makes_it_panic(method in "\\PC{0,8}", path in "\\PC{0,40}") {
        let net = with(vec![entry("a.test", &["GET /a/**"], &["* /b"], user())]);
        let target = Authority::parse(b"a.test:443").unwrap();
        let _ = decide_http(&net, &target, &method, &path);
        let _ = HttpRule::parse(&format!("{method} {path}"));
    }
}

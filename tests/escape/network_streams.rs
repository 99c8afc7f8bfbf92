//! What does not end with one answer: events, WebSocket, large bodies, redirects.

use std::fs;

use super::common::servers::{PLAIN, REFUSED, SECURE, WebServer};
use super::common::{DEADLINE, Feature, Running};

/// With the variables of the jail, and without any.
const SETTINGS: &[&str] = &["true", "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy NO_PROXY"];

/// Bytes of a body that is large beside the memory of the doors.
const LARGE: u64 = 64 << 20;

/// Reads one event, asks for the second on another connection, and reads that: an event that is held back never comes.
const EVENTS: &str = "import sys, urllib.request as u
base, name = sys.argv[1:]
events = u.urlopen(base + '/events/' + name, timeout=15)
print(events.readline().decode(), events.readline().decode())
u.urlopen(base + '/go/' + name, timeout=15).read()
print(events.read().decode())";

#[test]
fn events_arrive_when_they_are_sent() {
    let (env, server) = WebServer::new();
    env.file("events.py", EVENTS);
    let read = |base: &str, name: &str| format!("python3 events.py {base} {name}");
    let whole = |text: &str| text.contains("data: one") && text.contains("data: two");
    let outside = server.outside(&env, &read(&format!("https://localhost:{}", server.https), "outside"));
    assert!(whole(outside.ok()), "control: {outside:#?}");
    for (index, setting) in SETTINGS.iter().enumerate() {
        for (scheme, host) in [("http", PLAIN), ("https", SECURE)] {
            let script = read(&format!("{scheme}://{host}"), &format!("{scheme}{index}"));
            let inside = server.jail(&env, &format!("{setting}; {script}"));
            assert!(inside.success() && whole(&inside.stdout), "{setting}, {scheme}: {inside:#?}");
        }
    }
}

#[test]
fn websockets_stay_open_both_ways() {
    let (env, server) = WebServer::new();
    env.file("websocket.py", include_str!("clients/websocket.py"));
    let talk = |url: &str, proxy: &str| format!("python3 websocket.py {url}/websocket {proxy}");
    let echoed = |text: &str| text.contains("echoed first message\nechoed second message\n");
    for (scheme, port) in [("ws", server.http), ("wss", server.https)] {
        let outside = server.outside(&env, &talk(&format!("{scheme}://localhost:{port}"), ""));
        assert!(echoed(outside.ok()), "control: {outside:#?}");
    }
    for url in [format!("ws://{PLAIN}"), format!("wss://{SECURE}")] {
        for proxy in ["", "3128"] {
            let inside = server.jail(&env, &talk(&url, proxy));
            assert!(inside.success() && echoed(&inside.stdout), "{url} {proxy}: {inside:#?}");
        }
    }
    let refused = server.jail(&env, &talk(&format!("wss://{REFUSED}"), "3128"));
    assert!(!refused.success() && refused.stderr.contains("403"), "{refused:#?}");
}

#[test]
fn a_redirect_leads_to_no_host_that_is_not_allowed() {
    let (env, server) = WebServer::new();
    let get = |url: &str, to: &str| format!("curl -sS -L -m 10 '{url}/redirect?{to}'");
    let local = format!("http://localhost:{}", server.http);
    let outside = server.outside(&env, &get(&local, &format!("https://localhost:{}/hello", server.https)));
    assert!(outside.ok().starts_with("hello from localhost"), "control: {outside:#?}");
    for setting in SETTINGS {
        let url = format!("http://{PLAIN}");
        let followed =
            server.jail(&env, &format!("{setting}; {}", get(&url, &format!("https://{SECURE}/hello"))));
        assert!(followed.stdout.contains("hello from web.example.com"), "{setting}: {followed:#?}");
        for to in [
            format!("https://{REFUSED}/hello"),
            format!("http://{REFUSED}/hello"),
            format!("http://127.0.0.1:{}/hello", server.http),
            format!("http://localhost:{}/hello", server.http),
            "http://169.254.169.254/latest/".to_owned(),
        ] {
            let seen = server.seen().len();
            let refused = server.jail(&env, &format!("{setting}; {}", get(&url, &to)));
            assert!(!refused.stdout.contains("hello from"), "{setting}: {to}: {refused:#?}");
            assert_eq!(
                server.seen().len(),
                seen + 1,
                "{setting}: {to}: more than the redirect was asked for"
            );
        }
    }
}

/// The most that the process has had in memory, in KiB.
fn most_memory(jail: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", jail.pid())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn large_bodies_pass_and_are_not_kept() {
    if !Feature::Program("curl").needed_for("large bodies") {
        return;
    }
    let (env, server) = WebServer::new();
    let flags = server.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    // Each way is begun with a small body, so that the doors have what they need for it.
    let ways = |size: u64| {
        let mut script = String::new();
        for url in [format!("http://{PLAIN}"), format!("https://{SECURE}")] {
            script += &format!(
                "curl -sSf {url}/bytes/{size} | wc -c; \
                 head -c {size} /dev/zero | curl -sSf -H Expect: -T - {url}/upload; "
            );
        }
        script
    };
    let stay = "while [ ! -e end ]; do sleep 0.02; done";
    let mut jail = env.jail_waiting(&flags, &ways(1 << 20), &format!("{}{stay}", ways(LARGE)));
    (0..4).for_each(|_| drop(jail.line()));
    let before = most_memory(&jail);
    env.file("go", "");
    let mut output = String::new();
    for _ in 0..4 {
        output += &jail.line();
        output.push('\n');
    }
    let after = most_memory(&jail);
    let wanted = format!("{LARGE}\ngot {LARGE}\n").repeat(2);
    assert_eq!(output, wanted);
    env.file("end", "");
    assert!(after < before + 4096, "the supervisor grew from {before} to {after} KiB");
    jail.finish(DEADLINE).ok();
}

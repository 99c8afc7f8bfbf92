//! The probe: makes one attempt and prints one line of JSON, `{"ok": bool, "errno": number, ...}`.
//!
//! The tests run it outside, where the attempt must succeed, and inside, where it must fail.

#![allow(
    unsafe_code,
    reason = "attempts are raw system calls with bad arguments, which no safe wrapper makes"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a probe that cannot report is a failed test")]

mod calls;
mod features;
mod identity;
mod sockets;
mod table;
mod wrap;

use serde_json::{Value, json};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let report = match args.as_slice() {
        ["calls"] => calls::all(),
        ["int80"] => calls::int80(),
        ["x32"] => calls::x32(),
        ["landlock-abi"] => features::landlock_abi(),
        ["features"] => features::all(),
        ["fds"] => identity::descriptors(),
        ["search-proc", marker] => identity::search_proc(marker),
        ["namespaces"] => identity::namespaces(),
        ["attack", pid] => identity::attack(pid.parse().expect("a pid")),
        ["sleep-child"] => identity::sleep_child(),
        ["keyring-add", name] => identity::keyring_add(name),
        ["keyring-find", name] => identity::keyring_find(name),
        ["sysv", key] => identity::sysv(key.parse().expect("a key")),
        ["sysv-make", key] => identity::sysv_make(key.parse().expect("a key")),
        ["abstract", name] => sockets::connect_abstract(name),
        ["unix", path] => sockets::connect_unix(path),
        ["tcp", target] => sockets::tcp(target),
        ["get", target] => sockets::get(target),
        ["udp", target] => sockets::udp(target),
        ["dns", server, name] => sockets::dns(server, name),
        ["ping", address] => sockets::ping(address),
        ["families"] => sockets::families(),
        ["ctty", "--", command @ ..] => wrap::ctty(command),
        ["leak", path, "--", command @ ..] => wrap::leak(path, command),
        ["without", names, "--", command @ ..] => wrap::without(names, command),
        _ => panic!("unknown attempt: {args:?}"),
    };
    println!("{report}");
}

/// A report about a call that returns -1 and sets errno when it fails.
fn outcome(returned: i64) -> Value {
    let errno = if returned < 0 { errno() } else { 0 };
    json!({"ok": returned >= 0, "errno": errno, "returned": returned})
}

/// A report about an operation of the standard library.
fn result<T>(result: std::io::Result<T>) -> Value {
    match result {
        Ok(_) => json!({"ok": true, "errno": 0}),
        Err(error) => json!({
            "ok": false, "errno": error.raw_os_error().unwrap_or(0), "error": error.to_string(),
        }),
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

//! What tools need from a kernel, which a jail must leave alone.

use serde_json::{Map, Value, json};

use super::outcome;

/// The version of Landlock: `returned`.
pub fn landlock_abi() -> Value {
    const VERSION_FLAG: libc::c_ulong = 1;
    // SAFETY: with the version flag the call takes no pointer.
    outcome(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, VERSION_FLAG) })
}

/// Uses each feature once; `ok` when all work, `failed` names those that do not.
pub fn all() -> Value {
    let mut failed = Map::new();
    for (name, returned) in attempts() {
        if returned < 0 {
            failed.insert(name.to_owned(), json!(super::errno()));
        }
    }
    let thread = std::thread::spawn(|| 42).join();
    if !matches!(thread, Ok(42)) {
        failed.insert("thread".to_owned(), json!(0));
    }
    json!({"ok": failed.is_empty(), "errno": 0, "failed": failed})
}

/// Each attempt runs when it is asked for, so that errno is still its own.
fn attempts() -> impl Iterator<Item = (&'static str, i64)> {
    let calls = [
        // SAFETY: each of these calls takes numbers, or pointers to live values of the right type and size.
        named("epoll", || i64::from(unsafe { libc::epoll_create1(0) })),
        named("memfd", || i64::from(unsafe { libc::memfd_create(c"probe".as_ptr(), 0) })),
        named("inotify", || i64::from(unsafe { libc::inotify_init1(0) })),
        named("eventfd", || i64::from(unsafe { libc::eventfd(0, 0) })),
        named("timerfd", || i64::from(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) })),
        named("signalfd", || {
            let mut set = unsafe { std::mem::zeroed() };
            unsafe { libc::sigemptyset(&mut set) };
            i64::from(unsafe { libc::signalfd(-1, &set, 0) })
        }),
        named("pidfd_open", || unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) }),
        named("statx", || {
            let mut buffer: libc::statx = unsafe { std::mem::zeroed() };
            let flags = libc::STATX_BASIC_STATS;
            i64::from(unsafe { libc::statx(libc::AT_FDCWD, c"/".as_ptr(), 0, flags, &mut buffer) })
        }),
        named("getrandom", || {
            let mut buffer = [0_u8; 8];
            unsafe { libc::getrandom(buffer.as_mut_ptr().cast(), buffer.len(), 0) as i64 }
        }),
        named("personality_query", || i64::from(unsafe { libc::personality(0xffff_ffff) })),
        named("socketpair", || {
            let mut pair = [0; 2];
            i64::from(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) })
        }),
        named("inet", || i64::from(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) })),
        named("netlink_route", || {
            i64::from(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE) })
        }),
        named("fork", || match unsafe { libc::fork() } {
            // SAFETY: the child does nothing but exit.
            0 => unsafe { libc::_exit(0) },
            child => i64::from(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }),
        }),
    ];
    calls.into_iter().map(|(name, call)| (name, call()))
}

fn named(name: &'static str, call: fn() -> i64) -> (&'static str, fn() -> i64) {
    (name, call)
}

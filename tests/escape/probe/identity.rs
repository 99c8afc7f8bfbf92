//! What a process can find out about, or do to, other processes and the machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};

use super::{outcome, result};

/// The open descriptors (without the one that lists them) and what they lead to.
pub fn descriptors() -> Value {
    let mut open = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fd").expect("/proc").flatten() {
        let name = entry.file_name().into_string().expect("a number");
        if let Ok(target) = fs::read_link(entry.path()) {
            open.insert(name, target.to_string_lossy().into_owned());
        }
    }
    // The directory that was just read is gone by now, but its own entry was listed.
    open.retain(|_, target| !target.ends_with("/fd"));
    json!({"ok": true, "errno": 0, "open": open})
}

/// Looks for a marker in the environment, arguments and names of every visible process but this one. `ok` when
/// it was found anywhere; `found` lists the files. It is given backwards, lest the search find its own order.
pub fn search_proc(backwards: &str) -> Value {
    let marker: String = backwards.chars().rev().collect();
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    let mut read = 0;
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid == own || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        for file in ["environ", "cmdline", "comm", "stat"] {
            let path = entry.path().join(file);
            let mut bytes = Vec::new();
            let Ok(mut open) = fs::File::open(&path) else { continue };
            if open.read_to_end(&mut bytes).is_err() {
                continue;
            }
            read += 1;
            if bytes.windows(marker.len()).any(|window| window == marker.as_bytes()) {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    json!({"ok": !found.is_empty(), "errno": 0, "found": found, "read": read})
}

/// The namespaces of this process.
pub fn namespaces() -> Value {
    let names = ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"];
    let links: BTreeMap<_, _> = names
        .into_iter()
        .map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
            (name, link.to_string_lossy().into_owned())
        })
        .collect();
    json!({"ok": true, "errno": 0, "namespaces": links})
}

/// Everything that one process can do to another of the same user: each way by its name.
pub fn attack(pid: i32) -> Value {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let (address, readable) = readable_address(pid);
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 1 };
    let memory = |write: bool| {
        let file = fs::OpenOptions::new().read(true).write(write).open(format!("/proc/{pid}/mem"))?;
        if readable { file.read_at(&mut [0], address).map(|_| ()) } else { Ok(()) }
    };
    // SAFETY: the iovecs and the page list point at live values; the other calls take numbers.
    let (read_vm, pages, attach, descriptor) = unsafe {
        let read_vm = outcome(libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) as i64);
        let (page, mut status) = (address, 0_i32);
        let pages =
            libc::syscall(libc::SYS_move_pages, pid, 1_usize, &raw const page, 0_usize, &raw mut status, 0);
        let pages = outcome(pages);
        let attach = outcome(libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0));
        let pidfd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        (read_vm, pages, attach, outcome(libc::syscall(libc::SYS_pidfd_getfd, pidfd, 0, 0)))
    };
    let mut ways = json!({
        "process_vm_readv": read_vm,
        "move_pages": pages,
        "ptrace": attach,
        "pidfd_getfd": descriptor,
        "mem_read": result(memory(false)),
        "mem_write": result(memory(true)),
    });
    for file in ["root", "cwd", "exe", "fd/0"] {
        ways[file] = result(fs::read_link(format!("/proc/{pid}/{file}")));
    }
    ways["environ"] = result(fs::read(format!("/proc/{pid}/environ")).and_then(|bytes| {
        if bytes.is_empty() { Err(std::io::Error::from_raw_os_error(libc::ENODATA)) } else { Ok(()) }
    }));
    json!({"ok": true, "errno": 0, "ways": ways})
}

/// The first mapped address of a process, when its map may be read.
fn readable_address(pid: i32) -> (u64, bool) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let start = maps.lines().find(|line| line.contains(" r")).and_then(|line| line.split('-').next());
    start.and_then(|hex| u64::from_str_radix(hex, 16).ok()).map_or((4096, false), |address| (address, true))
}

/// Attacks a child of this process: what must go on working for debuggers.
pub fn sleep_child() -> Value {
    let mut child = std::process::Command::new("sleep").arg("30").spawn().expect("sleep");
    // The child has its own program only after exec.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let report = attack(child.id() as i32);
    child.kill().expect("kill");
    child.wait().expect("wait");
    report
}

/// Adds a key to the user's session keyring.
pub fn keyring_add(name: &str) -> Value {
    const USER_KEYRING: i64 = -4;
    let name = std::ffi::CString::new(name).expect("no NUL");
    // SAFETY: the pointers lead to live strings of the given length.
    outcome(unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            name.as_ptr(),
            c"x".as_ptr(),
            1_usize,
            USER_KEYRING,
        )
    })
}

/// Looks for a key in the user's keyring.
pub fn keyring_find(name: &str) -> Value {
    const KEYCTL_SEARCH: i64 = 10;
    const USER_KEYRING: i64 = -4;
    let name = std::ffi::CString::new(name).expect("no NUL");
    // SAFETY: the pointers lead to live strings.
    outcome(unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_SEARCH, USER_KEYRING, c"user".as_ptr(), name.as_ptr(), 0)
    })
}

/// Looks for a System V segment, semaphore set and queue, and a POSIX segment and queue, made by [`sysv_make`].
pub fn sysv(key: i32) -> Value {
    ipc(key, 0, 0)
}

/// Makes them.
pub fn sysv_make(key: i32) -> Value {
    ipc(key, libc::IPC_CREAT | 0o600, libc::O_CREAT)
}

fn ipc(key: i32, system_v: i32, posix: i32) -> Value {
    let name = std::ffi::CString::new(format!("/ai-jail-probe-{key}")).expect("no NUL");
    // SAFETY: the names are live strings; the other arguments are numbers.
    let ways = unsafe {
        json!({
            "shm": outcome(i64::from(libc::shmget(key, 4096, system_v))),
            "sem": outcome(i64::from(libc::semget(key, 1, system_v))),
            "msg": outcome(i64::from(libc::msgget(key, system_v))),
            "posix_shm": outcome(i64::from(libc::shm_open(name.as_ptr(), libc::O_RDWR | posix, 0o600))),
            "posix_queue": outcome(i64::from(libc::mq_open(
                name.as_ptr(), libc::O_RDWR | posix, 0o600, std::ptr::null::<libc::mq_attr>(),
            ))),
        })
    };
    json!({"ok": true, "errno": 0, "ways": ways})
}

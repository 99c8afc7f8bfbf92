//! What a process inherits and hands on: descriptors and signal dispositions.

use std::fs;
use std::io;
use std::os::fd::RawFd;

/// Marks every descriptor above 2 close-on-exec. Needs /proc; fails when that cannot be read.
pub fn close_on_exec_above_stdio() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()).filter(|fd| *fd > 2) else {
            continue;
        };
        // SAFETY: F_SETFD takes no pointer, and changes nothing for those who use the descriptor in this process.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Signals that are kept as the launcher found them, when it found them ignored, for the command: all but those that
/// cannot be ignored, SIGCHLD (with it ignored nobody can wait for a child) and SIGPIPE (the runtime has changed it).
fn is_inheritable(signal: i32) -> bool {
    !matches!(signal, libc::SIGKILL | libc::SIGSTOP | libc::SIGCHLD | libc::SIGPIPE)
}

/// Makes what this process inherited about signals its own: none is blocked, the end of a child is told, and a file that
/// has reached its size limit is an error of the write and not our death. Returns the signals that were ignored and that
/// the command is to ignore too, as it would without us (`nohup`, a shell's background jobs).
pub fn own_signals() -> Vec<i32> {
    let ignored = (1..libc::SIGSYS + 1)
        .filter(|signal| is_inheritable(*signal) && handler(*signal) == libc::SIG_IGN as u64)
        .collect();
    set_handler(libc::SIGCHLD, libc::SIG_DFL as u64);
    set_handler(libc::SIGXFSZ, libc::SIG_IGN as u64);
    // It fails for no set of signals.
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    ignored
}

/// Gives every signal its default disposition, also those that the parent ignored, and then ignores `ignored`. The C library's own call
/// leaves out the two signals that it keeps for itself, and its `posix_spawn` starts programs with just these ignored; so the kernel is
/// asked.
pub fn reset_signal_dispositions(ignored: &[i32]) {
    for signal in 1..=64 {
        let ignore = ignored.contains(&signal) && is_inheritable(signal);
        set_handler(signal, if ignore { libc::SIG_IGN as u64 } else { libc::SIG_DFL as u64 });
    }
}

/// The kernel's `struct sigaction` is of 32 bytes at most on x86_64 and aarch64 and begins with the handler; the rest of
/// ours is zero: no flags, no restorer, an empty mask.
const ACTION: usize = 4;

/// `handler` is SIG_DFL or SIG_IGN.
fn set_handler(signal: i32, handler: u64) {
    let new = [handler, 0, 0, 0_u64];
    let old = std::ptr::null_mut::<u64>();
    // SAFETY: the kernel reads `new`, which is as large as it expects, and writes nothing. No handler of ours is replaced
    // that something could rely on: this is called before any is installed, or last before exec or our death. SIGKILL and SIGSTOP are
    // refused, which changes nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new.as_ptr(), old, size_of::<u64>()) };
}

fn handler(signal: i32) -> u64 {
    let mut old = [0_u64; ACTION];
    let new = std::ptr::null::<u64>();
    // SAFETY: nothing is set, and the kernel writes no more into `old` than its structure, for which there is room.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old.as_mut_ptr(), size_of::<u64>()) };
    old[0]
}

/// Gives this process the file mode creation mask 0077, so that a hostile one does not decide about our own files, and
/// returns the one it had.
pub fn own_umask() -> u32 {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO).bits()
}

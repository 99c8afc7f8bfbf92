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

/// Gives every signal its default disposition, also those that the parent ignored (and SIGPIPE, which Rust ignores).
pub fn reset_signal_dispositions() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: SIG_DFL is no handler of ours. SIGKILL, SIGSTOP and the C library's own signals are refused, which changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

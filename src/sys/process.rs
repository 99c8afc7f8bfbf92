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

/// Gives every signal its default disposition, also those that the parent ignored. The C library's own call leaves out the two
/// signals that it keeps for itself, and its `posix_spawn` starts programs with just these ignored; so the kernel is asked.
pub fn reset_signal_dispositions() {
    // The kernel's `struct sigaction`, of 32 bytes on x86_64 and aarch64: SIG_DFL, no flags, no restorer, an empty mask.
    let default = [0_u64; 4];
    let mask_size = size_of::<u64>();
    for signal in 1..=64 {
        let old = std::ptr::null_mut::<u64>();
        // SAFETY: the kernel reads `default`, which is as large as it expects, and writes nothing. No handler of ours remains that
        // something could rely on. SIGKILL and SIGSTOP are refused, which changes nothing.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), old, mask_size) };
    }
}

/// Gives this process the file mode creation mask 0077, so that a hostile one does not decide about our own files, and
/// returns the one it had.
pub fn own_umask() -> u32 {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO).bits()
}

//! Descriptors by number.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_setfd};

/// Closes every descriptor above 2: whatever started us may have left some open, on anything (`close_range(2)`).
///
/// Must run before anything of this process owns a descriptor above 2; `main` calls it first.
pub fn close_foreign() -> io::Result<()> {
    // SAFETY: closing a descriptor touches no memory; nothing in this process owns one above 2 yet, as documented.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes over the descriptor `number`, which the process that started this one left open on purpose, and makes it
/// close-on-exec. Fails with `EBADF` when there is none.
///
/// Each number may be adopted once; `main` does so for the re-executed stages and nobody else does.
pub fn adopt(number: i32) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the borrow ends with the call, which fails with EBADF for a number that is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: the descriptor is open, and by the contract above nothing else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

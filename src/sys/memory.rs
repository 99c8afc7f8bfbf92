//! The allocator.

/// Gives memory that was freed back to the system. Some allocators do so by themselves, and there this does nothing.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes no pointers and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

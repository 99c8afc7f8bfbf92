//! Asking the kernel for its Landlock version. The `landlock` crate negotiates but does not tell.

/// `LANDLOCK_CREATE_RULESET_VERSION` of linux/landlock.h.
const VERSION: libc::c_uint = 1;

/// The kernel's Landlock ABI (1 or more), or `None` when it has no Landlock or Landlock was not enabled at boot.
pub fn abi() -> Option<i32> {
    // SAFETY: with the version flag the kernel wants a null pointer and a size of zero, and touches no memory.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    i32::try_from(abi).ok().filter(|abi| *abi > 0)
}

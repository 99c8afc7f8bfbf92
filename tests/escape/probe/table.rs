//! The table of calls. `BAD` is an address in the unmapped zero page's neighbourhood.

/// One call that must not pass.
pub struct Call {
    /// Its name, for the report.
    pub name: &'static str,
    /// Its number.
    pub number: libc::c_long,
    /// Arguments that make the kernel answer with an error of its own.
    pub args: [libc::c_long; 6],
    /// The kernel looks at the privilege first, so that only root sees another answer than EPERM outside.
    pub needs_root: bool,
}

const BAD: libc::c_long = 8;
const NO_FD: libc::c_long = -1;
/// A flag bit that no call of the table knows.
const BAD_FLAG: libc::c_long = 1 << 30;
const NEW_USER: libc::c_long = libc::CLONE_NEWUSER as libc::c_long;
const TIOCSTI: libc::c_long = 0x5412;
const TIOCLINUX: libc::c_long = 0x541c;

const fn any(name: &'static str, number: libc::c_long, args: [libc::c_long; 6]) -> Call {
    Call { name, number, args, needs_root: false }
}

const fn root(name: &'static str, number: libc::c_long, args: [libc::c_long; 6]) -> Call {
    Call { name, number, args, needs_root: true }
}

/// Every call, grouped by what it would give away.
pub const TABLE: &[Call] = &[
    // Mounts: another view of the file system.
    any("mount", libc::SYS_mount, [BAD, BAD, BAD, 0, 0, 0]),
    any("umount2", libc::SYS_umount2, [BAD, BAD_FLAG, 0, 0, 0, 0]),
    root("pivot_root", libc::SYS_pivot_root, [BAD, BAD, 0, 0, 0, 0]),
    any("chroot", libc::SYS_chroot, [BAD, 0, 0, 0, 0, 0]),
    any("open_tree", libc::SYS_open_tree, [NO_FD, BAD, BAD_FLAG, 0, 0, 0]),
    root("move_mount", libc::SYS_move_mount, [NO_FD, BAD, NO_FD, BAD, BAD_FLAG, 0]),
    root("fsopen", libc::SYS_fsopen, [BAD, BAD_FLAG, 0, 0, 0, 0]),
    any("fsconfig", libc::SYS_fsconfig, [NO_FD, 0, 0, 0, 0, 0]),
    root("fsmount", libc::SYS_fsmount, [NO_FD, BAD_FLAG, 0, 0, 0, 0]),
    root("fspick", libc::SYS_fspick, [NO_FD, BAD, BAD_FLAG, 0, 0, 0]),
    any("mount_setattr", libc::SYS_mount_setattr, [NO_FD, BAD, BAD_FLAG, BAD, 32, 0]),
    // Namespaces.
    any("setns", libc::SYS_setns, [NO_FD, 0, 0, 0, 0, 0]),
    any("unshare", libc::SYS_unshare, [NEW_USER | BAD_FLAG << 1, 0, 0, 0, 0, 0]),
    any("clone_newuser", libc::SYS_clone, [NEW_USER | libc::CLONE_SIGHAND as libc::c_long, 0, 0, 0, 0, 0]),
    any("clone3", libc::SYS_clone3, [BAD, 0, 0, 0, 0, 0]),
    // The kernel itself.
    root("init_module", libc::SYS_init_module, [BAD, 8, BAD, 0, 0, 0]),
    root("finit_module", libc::SYS_finit_module, [NO_FD, BAD, BAD_FLAG, 0, 0, 0]),
    root("delete_module", libc::SYS_delete_module, [BAD, 0, 0, 0, 0, 0]),
    root("kexec_load", libc::SYS_kexec_load, [0, 17, BAD, BAD_FLAG, 0, 0]),
    root("reboot", libc::SYS_reboot, [0, 0, 0, 0, 0, 0]),
    any("swapon", libc::SYS_swapon, [BAD, BAD_FLAG, 0, 0, 0, 0]),
    root("swapoff", libc::SYS_swapoff, [BAD, 0, 0, 0, 0, 0]),
    root("acct", libc::SYS_acct, [BAD, 0, 0, 0, 0, 0]),
    any("settimeofday", libc::SYS_settimeofday, [BAD, 0, 0, 0, 0, 0]),
    any("clock_settime", libc::SYS_clock_settime, [9999, BAD, 0, 0, 0, 0]),
    any("quotactl", libc::SYS_quotactl, [0x7fff_ff00, BAD, 0, BAD, 0, 0]),
    // Wide and rarely needed kernel surface.
    any("bpf", libc::SYS_bpf, [9999, BAD, 1 << 20, 0, 0, 0]),
    any("perf_event_open", libc::SYS_perf_event_open, [BAD, 0, 0, NO_FD, BAD_FLAG, 0]),
    any("userfaultfd", libc::SYS_userfaultfd, [1 | 0x100, 0, 0, 0, 0, 0]),
    any("io_uring_setup", libc::SYS_io_uring_setup, [1, BAD, 0, 0, 0, 0]),
    any("io_uring_enter", libc::SYS_io_uring_enter, [NO_FD, 1, 1, 0, 0, 0]),
    any("io_uring_register", libc::SYS_io_uring_register, [NO_FD, 0, BAD, 1, 0, 0]),
    any("vmsplice", libc::SYS_vmsplice, [NO_FD, BAD, 1, 0, 0, 0]),
    // Keys, other processes, files by handle.
    any("keyctl", libc::SYS_keyctl, [9999, 0, 0, 0, 0, 0]),
    any("add_key", libc::SYS_add_key, [BAD, BAD, BAD, 8, 0, 0]),
    any("request_key", libc::SYS_request_key, [BAD, BAD, BAD, 0, 0, 0]),
    any("kcmp", libc::SYS_kcmp, [99_999_999, 99_999_999, 0, 0, 0, 0]),
    any("pidfd_getfd", libc::SYS_pidfd_getfd, [NO_FD, 0, 0, 0, 0, 0]),
    any("open_by_handle_at", libc::SYS_open_by_handle_at, [NO_FD, BAD, 0, 0, 0, 0]),
    any("personality", libc::SYS_personality, [0x040_0000, 0, 0, 0, 0, 0]),
    // A terminal's input queue (descriptor 0 is no terminal: ENOTTY when the kernel was reached).
    any("tiocsti", libc::SYS_ioctl, [0, TIOCSTI, BAD, 0, 0, 0]),
    any("tiocsti_high_bits", libc::SYS_ioctl, [0, TIOCSTI | 1 << 32, BAD, 0, 0, 0]),
    any("tioclinux", libc::SYS_ioctl, [0, TIOCLINUX, BAD, 0, 0, 0]),
    any("tioclinux_high_bits", libc::SYS_ioctl, [0, TIOCLINUX | 1 << 32, BAD, 0, 0, 0]),
];

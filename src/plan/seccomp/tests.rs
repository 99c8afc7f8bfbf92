use super::machine::{Call, Ran, run};
use super::table::{Answer, Condition, Table};
use super::{Arch, Debuggers, program};

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const VARIANTS: [(Arch, Debuggers); 4] = [
    (Arch::X86_64, Debuggers::Allowed),
    (Arch::X86_64, Debuggers::Refused),
    (Arch::Aarch64, Debuggers::Allowed),
    (Arch::Aarch64, Debuggers::Refused),
];
/// Set in the upper half of every argument: no comparison may be led astray by it.
const UPPER: u64 = 1 << 32;

fn audit(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 0xc000_003e,
        Arch::Aarch64 => 0xc000_00b7,
    }
}

fn action(arch: Arch, program: &[u8], number: u32, args: [u64; 6]) -> u32 {
    run(program, Call { number, arch: audit(arch), args }).action
}

impl Condition {
    fn holds(&self, args: [u64; 6]) -> bool {
        match *self {
            Self::Masked { arg, mask, eq } => args[usize::from(arg)] as u32 & mask == eq,
            Self::Equal { arg, eq } => args[usize::from(arg)] as u32 == eq,
            Self::Differs { arg, ne } => args[usize::from(arg)] as u32 != ne,
        }
    }
}

/// Every argument is one of these in turn: what the rows compare with, its neighbours, single bits.
fn samples(table: &Table) -> Vec<u64> {
    let mut samples: Vec<u64> = (0..32).map(|bit| 1 << bit).collect();
    for condition in table.refuse.iter().flat_map(|row| row.pass.iter().flatten()) {
        let (Condition::Equal { eq: value, .. }
        | Condition::Differs { ne: value, .. }
        | Condition::Masked { eq: value, .. }) = *condition;
        samples.extend([u64::from(value), u64::from(value.wrapping_add(1))]);
    }
    samples.sort_unstable();
    samples.dedup();
    samples
}

#[test]
fn every_row_answers_as_the_table_says() {
    let table = Table::built_in().unwrap();
    let samples = samples(&table);
    for (arch, debuggers) in VARIANTS {
        let program = program(arch, debuggers).unwrap();
        for call in table.refused(arch, debuggers).unwrap() {
            let refusal = match call.row.answer {
                Answer::Forbidden => EPERM,
                Answer::Absent => ENOSYS,
            };
            let used: Vec<usize> = (0..6)
                .filter(|arg| {
                    call.row.pass.iter().flatten().any(|condition| {
                        let (Condition::Equal { arg: uses, .. }
                        | Condition::Differs { arg: uses, .. }
                        | Condition::Masked { arg: uses, .. }) = *condition;
                        usize::from(uses) == *arg
                    })
                })
                .collect();
            let (mut passed, mut refused) = (false, false);
            let mut position = vec![0; used.len()];
            'all: loop {
                let mut args = [UPPER; 6];
                for (slot, arg) in used.iter().enumerate() {
                    args[*arg] |= samples[position[slot]];
                }
                let passes =
                    call.row.pass.iter().any(|all| all.iter().all(|condition| condition.holds(args)));
                let expected = if passes { ALLOW } else { refusal };
                assert_eq!(action(arch, &program, call.number, args), expected, "{} {args:x?}", call.name);
                passed |= passes;
                refused |= !passes;
                // Counts on like an odometer, until every wheel has turned over.
                for wheel in &mut position {
                    *wheel += 1;
                    if *wheel < samples.len() {
                        continue 'all;
                    }
                    *wheel = 0;
                }
                break;
            }
            assert!(refused, "{}: nothing is refused", call.name);
            assert_eq!(passed, !call.row.pass.is_empty(), "{}: its alternatives never hold", call.name);
        }
    }
}

#[test]
fn what_no_row_names_passes_without_a_look_at_the_arguments() {
    let table = Table::built_in().unwrap();
    for (arch, debuggers) in VARIANTS {
        let program = program(arch, debuggers).unwrap();
        let refused: Vec<u32> =
            table.refused(arch, debuggers).unwrap().iter().map(|call| call.number).collect();
        for number in (0..=table.newest).filter(|number| !refused.contains(number)) {
            let ran = run(&program, Call { number, arch: audit(arch), args: [u64::MAX; 6] });
            assert!(
                matches!(ran, Ran { action: ALLOW, looked_at_arguments: false, .. }),
                "{arch:?} {number}"
            );
        }
    }
}

#[test]
fn known_attacks_are_refused_and_everyday_calls_pass() {
    let newns = 0x0002_0000;
    let newuser = 0x1000_0000;
    let thread = 0x003d_0f00;
    // Name, number on x86_64, arguments, expected.
    let cases: &[(&str, u32, &[u64], u32)] = &[
        ("TIOCSTI", 16, &[0, 0x5412], EPERM),
        ("TIOCSTI above 32 bits", 16, &[0, 0x5412 | UPPER], EPERM),
        ("TIOCLINUX", 16, &[0, 0x541c], EPERM),
        ("TCGETS", 16, &[0, 0x5401], ALLOW),
        ("TIOCGWINSZ", 16, &[0, 0x5413], ALLOW),
        ("TIOCSPGRP", 16, &[0, 0x5410], ALLOW),
        ("FICLONE", 16, &[0, 0x4004_9409], ALLOW),
        ("BTRFS_IOC_SNAP_CREATE_V2", 16, &[0, 0x5000_9417], EPERM),
        ("clone of a thread", 56, &[thread], ALLOW),
        ("fork", 56, &[0x0120_0011], ALLOW),
        ("clone with a mount namespace", 56, &[newns | 17], EPERM),
        ("clone with a user namespace, upper bits", 56, &[newuser | UPPER | 17], EPERM),
        ("clone3", 435, &[0, 88], ENOSYS),
        ("openat2", 437, &[3, 0, 0, 24], ENOSYS),
        ("unshare of files", 272, &[0x400], ALLOW),
        ("unshare of a user namespace", 272, &[newuser], EPERM),
        ("unshare of a time namespace", 272, &[0x80], EPERM),
        ("setns", 308, &[3, 0], EPERM),
        ("AF_UNIX", 41, &[1, 1, 0], ALLOW),
        ("AF_UNIX seqpacket", 41, &[1, 0o2000005, 0], ALLOW),
        ("TCP", 41, &[2, 0o2004001, 6], ALLOW),
        ("UDP over IPv6", 41, &[10, 0o2000002, 17], ALLOW),
        ("unprivileged ping", 41, &[2, 2, 1], ALLOW),
        ("MPTCP", 41, &[2, 1, 262], EPERM),
        ("MPTCP over IPv6, non-blocking", 41, &[10, 0o4001, 262], EPERM),
        ("SCTP", 41, &[2, 1, 132], EPERM),
        ("SCTP by its type alone", 41, &[2, 5, 0], EPERM),
        ("SMC as a protocol", 41, &[2, 1, 256], EPERM),
        ("DCCP", 41, &[2, 6, 0], EPERM),
        ("UDP-Lite", 41, &[2, 2, 136], EPERM),
        ("raw", 41, &[2, 3, 255], EPERM),
        ("raw, close-on-exec, upper bits", 41, &[2, 0o2000003 | UPPER, 1], EPERM),
        ("SOCK_PACKET", 41, &[2, 10, 0], EPERM),
        ("netlink for routes", 41, &[16, 0o2000003, 0], ALLOW),
        ("netlink for netfilter", 41, &[16, 3, 12], EPERM),
        ("AF_PACKET", 41, &[17, 3, 0], EPERM),
        ("AF_ALG", 41, &[38, 5, 0], EPERM),
        ("AF_VSOCK", 41, &[40, 1, 0], EPERM),
        ("a pair of AF_UNIX", 53, &[1, 1, 0], ALLOW),
        ("a pair of AF_TIPC", 53, &[30, 1, 0], EPERM),
        ("chmod 755", 90, &[0, 0o755], ALLOW),
        ("chmod 2755, everyday on directories", 90, &[0, 0o2755], ALLOW),
        ("chmod 4755", 90, &[0, 0o4755], EPERM),
        ("fchmod 4755", 91, &[3, 0o4755], EPERM),
        ("fchmodat 6755", 268, &[3, 0, 0o6755], EPERM),
        ("fchmodat2 4755", 452, &[3, 0, 0o4755, 0], EPERM),
        ("open for reading, garbage as mode", 2, &[0, 0o2000000, 0o4755], ALLOW),
        ("open with O_CREAT and 4755", 2, &[0, 0o101, 0o4755], EPERM),
        ("openat with O_CREAT and 644", 257, &[0, 0, 0o101, 0o644], ALLOW),
        ("openat with O_TMPFILE and 4755", 257, &[0, 0, 0o20200002, 0o4755], EPERM),
        ("openat of a directory, garbage as mode", 257, &[0, 0, 0o200000, u64::MAX], ALLOW),
        ("creat 4755", 85, &[0, 0o4755], EPERM),
        ("mkfifo", 133, &[0, 0o010644, 0], ALLOW),
        ("mknod of a set-user-ID file", 133, &[0, 0o104755, 0], EPERM),
        ("mknodat of a character device", 259, &[3, 0, 0o020666, 0x103], EPERM),
        ("mknodat of a block device", 259, &[3, 0, 0o060666, 0x700], EPERM),
        ("the query of personality", 135, &[0xffff_ffff], ALLOW),
        ("ADDR_NO_RANDOMIZE", 135, &[0x0004_0000], ALLOW),
        ("MMAP_PAGE_ZERO", 135, &[0x0010_0000], EPERM),
        ("READ_IMPLIES_EXEC", 135, &[0x0040_0000], EPERM),
        ("PER_SVR4", 135, &[1], EPERM),
        ("move_pages of the caller", 279, &[0], ALLOW),
        ("move_pages of another", 279, &[7], EPERM),
        ("io_uring_setup", 425, &[8], ENOSYS),
        ("landlock_restrict_self", 446, &[3], ALLOW),
        ("seccomp", 317, &[1], ALLOW),
        ("uretprobe, which only the kernel's own trampoline calls", 335, &[], ALLOW),
        ("map_shadow_stack", 453, &[], ALLOW),
        ("memfd_secret", 447, &[], ALLOW),
        ("an old x32 number without the bit", 520, &[], ENOSYS),
        ("x32 read", 0x4000_0000, &[], ENOSYS),
        ("x32 ptrace", 0x4000_0209, &[], ENOSYS),
        ("a call of the future", 470, &[], ENOSYS),
    ];
    for debuggers in [Debuggers::Allowed, Debuggers::Refused] {
        let program = program(Arch::X86_64, debuggers).unwrap();
        for (name, number, given, expected) in cases {
            let mut args = [0; 6];
            args[..given.len()].copy_from_slice(given);
            assert_eq!(action(Arch::X86_64, &program, *number, args), *expected, "{name}");
        }
    }
}

#[test]
fn debuggers_are_a_matter_of_the_profile() {
    for (debuggers, expected) in [(Debuggers::Allowed, ALLOW), (Debuggers::Refused, EPERM)] {
        for (arch, numbers) in [(Arch::X86_64, [101, 310, 311]), (Arch::Aarch64, [117, 270, 271])] {
            let program = program(arch, debuggers).unwrap();
            for number in numbers {
                assert_eq!(action(arch, &program, number, [0; 6]), expected, "{arch:?} {number}");
            }
        }
    }
}

#[test]
fn other_entries_of_the_kernel_kill() {
    // i386, ARM, and each architecture for the other.
    for (arch, debuggers) in VARIANTS {
        let program = program(arch, debuggers).unwrap();
        for foreign in [0x4000_0003, 0x4000_0028, 0xc000_003e, 0xc000_00b7] {
            if foreign != audit(arch) {
                let call = Call { number: 0, arch: foreign, args: [0; 6] };
                assert_eq!(run(&program, call).action, KILL, "{arch:?} {foreign:#x}");
            }
        }
    }
}

#[test]
fn the_program_stays_short() {
    let table = Table::built_in().unwrap();
    for (arch, debuggers) in VARIANTS {
        let program = program(arch, debuggers).unwrap();
        assert!(program.len() / 8 < 1000, "{}", program.len() / 8);
        for name in ["openat", "ioctl"] {
            let number = table.numbers[name].on(arch).unwrap();
            let Ran { action, steps, .. } = run(&program, Call { number, arch: audit(arch), args: [0; 6] });
            assert_eq!(action, ALLOW);
            assert!(steps < 45, "{name} takes {steps} instructions");
        }
    }
}

#[test]
fn the_table_is_whole() {
    let table = Table::built_in().unwrap();
    for row in &table.refuse {
        assert!(!row.calls.is_empty() && !row.reason.is_empty());
        for name in &row.calls {
            for arch in [Arch::X86_64, Arch::Aarch64] {
                let number = table.numbers[name].on(arch);
                assert_eq!(number.is_some(), row.only.is_none_or(|only| only == arch), "{name} on {arch:?}");
                assert!(number.is_none_or(|number| number <= table.newest), "{name}");
            }
        }
        for condition in row.pass.iter().flatten() {
            if let Condition::Masked { mask, eq, .. } = condition {
                assert_eq!(eq & !mask, 0, "{:?}: a comparison that cannot hold", row.calls);
            }
        }
    }
    for name in table.numbers.keys() {
        assert!(table.refuse.iter().any(|row| row.calls.contains(name)), "{name} has a number but no row");
    }
}

#[test]
fn numbers_are_those_of_the_c_library() {
    let table = Table::built_in().unwrap();
    let Some(arch) = Arch::native() else { panic!("an architecture without a table") };
    macro_rules! oracle {
        ($($name:ident)*) => { [$((stringify!($name).trim_start_matches("SYS_"), libc::$name)),*] };
    }
    let mut known = Vec::from(oracle!(
        SYS_acct SYS_add_key SYS_adjtimex SYS_bpf SYS_chroot SYS_clock_adjtime SYS_clock_settime SYS_clone
        SYS_clone3 SYS_delete_module SYS_fanotify_init SYS_fanotify_mark SYS_fchmod SYS_fchmodat
        SYS_finit_module SYS_fsconfig SYS_fsmount SYS_fsopen SYS_fspick SYS_init_module
        SYS_io_uring_enter SYS_io_uring_register SYS_io_uring_setup SYS_ioctl SYS_kcmp SYS_kexec_load SYS_kexec_file_load
        SYS_keyctl SYS_lookup_dcookie SYS_migrate_pages SYS_mknodat SYS_mount SYS_mount_setattr
        SYS_move_mount SYS_move_pages SYS_nfsservctl SYS_open_by_handle_at SYS_open_tree SYS_openat SYS_openat2
        SYS_perf_event_open SYS_personality SYS_pidfd_getfd SYS_pivot_root SYS_process_madvise
        SYS_process_mrelease SYS_process_vm_readv SYS_process_vm_writev SYS_ptrace SYS_quotactl
        SYS_quotactl_fd SYS_reboot SYS_request_key SYS_setdomainname SYS_sethostname SYS_setns
        SYS_settimeofday SYS_socket SYS_socketpair SYS_swapoff SYS_swapon SYS_syslog SYS_umount2 SYS_unshare
        SYS_userfaultfd SYS_vhangup SYS_vmsplice
    ));
    #[cfg(target_arch = "x86_64")]
    known.extend(oracle!(
        SYS__sysctl SYS_chmod SYS_creat SYS_ioperm SYS_iopl
        SYS_mknod SYS_modify_ldt SYS_open SYS_sysfs SYS_uselib SYS_ustat
    ));
    // Not named for every architecture; all architectures share their numbers.
    known.extend([
        ("fchmodat2", 452),
        ("listmount", 458),
        ("lsm_get_self_attr", 459),
        ("lsm_list_modules", 461),
        ("lsm_set_self_attr", 460),
        ("open_tree_attr", 467),
        ("statmount", 457),
    ]);
    for (name, numbers) in &table.numbers {
        let Some(number) = numbers.on(arch) else { continue };
        let Some((_, expected)) = known.iter().find(|(known, _)| known == name) else {
            panic!("no oracle for {name}");
        };
        assert_eq!(i64::from(number), *expected, "{name}");
    }
}

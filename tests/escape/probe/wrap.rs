//! Circumstances in which a command is started: these replace the probe by the command.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde_json::Value;

use super::result;

/// Runs a command as the leader of a new session whose controlling terminal is descriptor 0.
pub fn ctty(command: &[&str]) -> Value {
    // SAFETY: both calls take numbers only.
    unsafe {
        libc::setsid();
        libc::ioctl(0, libc::TIOCSCTTY, 0);
    }
    exec(command)
}

/// Runs a command with descriptors 3 to 99 open on `path`.
pub fn leak(path: &str, command: &[&str]) -> Value {
    let path = CString::new(path).expect("no NUL");
    // SAFETY: the path is a live string, the descriptors are plain numbers that nothing here owns.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY);
        assert!(fd >= 0, "cannot open what is to be leaked");
        for number in 3..100 {
            libc::dup2(fd, number);
        }
    }
    exec(command)
}

/// Runs a command on a kernel that seems to lack something: `landlock` or `seccomp`, or both with a comma.
pub fn without(names: &str, command: &[&str]) -> Value {
    for name in names.split(',') {
        match name {
            "landlock" => hide(libc::SYS_landlock_create_ruleset, Vec::new(), libc::ENOSYS),
            "seccomp" => {
                let set_seccomp =
                    rule(SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::PR_SET_SECCOMP as u64);
                hide(libc::SYS_prctl, vec![set_seccomp], libc::EINVAL);
                hide(libc::SYS_seccomp, Vec::new(), libc::ENOSYS);
            }
            "userns" => {
                let new_user = libc::CLONE_NEWUSER as u64;
                let rule = || rule(SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(new_user), new_user);
                hide(libc::SYS_unshare, vec![rule()], libc::EPERM);
                hide(libc::SYS_clone, vec![rule()], libc::EPERM);
                hide(libc::SYS_clone3, Vec::new(), libc::ENOSYS);
            }
            other => panic!("unknown feature {other}"),
        }
    }
    exec(command)
}

/// A rule on the first argument.
fn rule(length: SeccompCmpArgLen, operator: SeccompCmpOp, value: u64) -> SeccompRule {
    let condition = SeccompCondition::new(0, length, operator, value).expect("a condition");
    SeccompRule::new(vec![condition]).expect("a rule")
}

/// From here on the call answers with `errno`, in this process and what it starts.
fn hide(call: i64, rules: Vec<SeccompRule>, errno: i32) {
    let arch = std::env::consts::ARCH.try_into().expect("a known architecture");
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, rules)]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        arch,
    );
    let program: BpfProgram = filter.expect("a filter").try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("the filter");
}

fn exec(command: &[&str]) -> Value {
    let (program, args) = command.split_first().expect("a command");
    let error = Command::new(program).args(args).exec();
    result::<()>(Err(error))
}

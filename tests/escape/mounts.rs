//! Files: what is not granted is not there, by whatever name.

use super::common::{DEADLINE, Feature, TestEnv, missing, output_of};
use super::{Attempt, Control, must_not_get_out, run_inside, with_root};

const fn anybody(claim: &'static str, script: &'static str) -> Attempt {
    Attempt { claim, script, control: Control::Anybody }
}

const fn root(claim: &'static str, script: &'static str) -> Attempt {
    Attempt { claim, script, control: Control::Root }
}

/// Ways to a secret in the home, and to a place beside the project.
const FILES: &[Attempt] = &[
    anybody("the secret by its name", "cat \"$HOME/secret\""),
    anybody("beside the project", "cat \"$ROOT/beside/secret\""),
    anybody("a relative way up", "cat ../beside/secret"),
    anybody("by /proc/self/root", "cat \"/proc/self/root$ROOT/beside/secret\""),
    anybody("by /proc/thread-self/root", "cat \"/proc/thread-self/root$ROOT/beside/secret\""),
    anybody(
        "by the root of any process",
        "for p in /proc/[0-9]*; do cat \"$p/root$ROOT/beside/secret\" && exit 0; done 2>/dev/null; exit 1",
    ),
    anybody(
        "by the directory of any process",
        "for p in /proc/[0-9]*; do cat \"$p/cwd/../beside/secret\" && exit 0; done 2>/dev/null; exit 1",
    ),
    anybody(
        "by the descriptors of any process",
        "exec 9<\"$ROOT/beside\"; for f in /proc/[0-9]*/fd/*; do cat \"$f/secret\" && exit 0; done 2>/dev/null; exit 1",
    ),
    anybody("by a symlink made inside", "ln -sfn \"$ROOT/beside\" link1 && cat link1/secret"),
    anybody("by a symlink to the root", "ln -sfn / link2 && cat \"link2$ROOT/beside/secret\""),
    anybody("by a hard link", "ln -f \"$ROOT/beside/secret\" hard && cat hard"),
    anybody("writing beside the project", "echo x > \"$ROOT/beside/written\""),
    anybody("writing through a symlink", "ln -sfn \"$ROOT/beside\" link3 && echo x > link3/written"),
    anybody("a list of what is beside the project", "ls \"$ROOT\" | grep beside"),
    anybody("a list of the home", "ls -a \"$HOME\" | grep secret"),
    anybody("another project in the same directory", "ls \"$ROOT/beside\""),
    anybody("a nested user namespace", "unshare -Ur true"),
    anybody("a nested jail with another view", "bwrap --bind / / --dev /dev true"),
    root("another mount", "mkdir -p mnt && mount -t tmpfs none mnt && umount mnt"),
    root("chroot", "chroot / true"),
    root("a device node", "mknod node c 1 3 && rm node"),
    root("writing to the system", "touch /usr/ai-jail-test && rm /usr/ai-jail-test"),
    root("writing to /etc", "touch /etc/ai-jail-test && rm /etc/ai-jail-test"),
    root("core_pattern", ": >> /proc/sys/kernel/core_pattern"),
    root("the OOM killer's order of all", ": >> /proc/sys/vm/panic_on_oom"),
    root("the host's name", ": >> /proc/sys/kernel/hostname"),
    root("the shadow file", "cat /etc/shadow"),
];

fn with_secrets() -> TestEnv {
    let env = TestEnv::new();
    env.file(env.home().join("secret"), "secret of the home\n");
    env.file(env.root().join("beside/secret"), "secret beside\n");
    env
}

#[test]
fn what_is_not_granted_cannot_be_reached() {
    for profile in ["workspace", "strict"] {
        must_not_get_out(&with_secrets(), &["--profile", profile], FILES);
    }
}

#[test]
fn lockdown_reads_the_project_and_writes_nothing() {
    let env = with_secrets();
    let home = [anybody("the home", "cat \"$HOME/secret\""), anybody("the project", "echo x > written")];
    must_not_get_out(&env, &["--lockdown"], &home);
    env.file("readable", "text\n");
    assert_eq!(run_inside(&env, &["--lockdown"], "cat readable").ok(), "begun\ntext\n");
    assert_eq!(
        run_inside(&env, &["--lockdown"], "echo x > /tmp/t && echo y > ~/h && cat ~/h").ok(),
        "begun\ny\n"
    );
}

#[test]
fn files_of_the_kernel_that_run_programs_cannot_be_written() {
    let env = TestEnv::new();
    let files = "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sysrq-trigger \
                 /sys/kernel/uevent_helper /proc/sys/fs/binfmt_misc/register /sys/fs/cgroup/release_agent \
                 /sys/fs/cgroup/*/release_agent /proc/sys/kernel/hotplug /proc/sys/kernel/poweroff_cmd \
                 /sys/power/state /proc/kcore /dev/mem /dev/kmsg; do (: >> \"$f\") 2>/dev/null && echo \"$f\"; done; true";
    let inside = run_inside(&env, &[], files);
    assert_eq!(inside.ok(), "begun\n", "these can be opened for writing");
    if env.uid() == 0 {
        assert!(env.outside(files).ok().contains("core_pattern"), "control: root can open them outside");
    }
}

#[test]
fn the_temporary_directories_are_the_jails_own() {
    let env = TestEnv::new();
    let name = super::unique("ai-jail-predictable-");
    for directory in ["/tmp", "/var/tmp", "/dev/shm", "/run"] {
        let script = format!("echo x > {directory}/{name} && cat {directory}/{name}");
        run_inside(&env, &[], &script).ok();
        let host = std::path::Path::new(directory).join(&name);
        assert!(!host.exists(), "{directory} is shared with the host");
        if directory != "/run" {
            std::fs::write(&host, "of the host").expect("control: the host's own");
            let output = run_inside(&env, &[], &format!("cat {directory}/{name}"));
            std::fs::remove_file(&host).expect("remove");
            assert!(!output.success(), "{directory} of the host can be read: {output:#?}");
        }
    }
}

#[test]
fn the_device_directory_is_minimal() {
    let allowed = "null zero full random urandom tty ptmx pts shm fd stdin stdout stderr core console"
        .split(' ')
        .collect::<Vec<_>>();
    let env = TestEnv::new();
    let inside = run_inside(&env, &[], "ls /dev");
    for name in inside.ok().lines().skip(1) {
        assert!(allowed.contains(&name), "/dev/{name} is in the jail");
    }
    for needed in ["null", "zero", "urandom", "tty", "ptmx"] {
        assert!(inside.stdout.lines().any(|line| line == needed), "/dev/{needed} is needed");
    }
    run_inside(&env, &[], "echo x > /dev/null && head -c 4 /dev/urandom > r && test $(stat -c %s r) = 4")
        .ok();
}

#[test]
fn nothing_propagates_to_the_host() {
    let env = TestEnv::new();
    let inside = run_inside(&env, &[], "grep -c ' shared:' /proc/self/mountinfo; true");
    assert_eq!(inside.ok(), "begun\n0\n", "shared mounts in the jail");
    if env.outside("grep -q ' shared:' /proc/self/mountinfo").code() != 0 {
        missing(Feature::Kernel("shared-mounts"), "mounts do not propagate", "the host's mounts are private");
    }
}

#[test]
fn the_project_is_mounted_at_its_own_path_whatever_its_name() {
    use std::os::unix::ffi::OsStrExt;
    let names: &[&[u8]] = &[
        b"a b",
        b"new\nline",
        b"--help",
        b"quote'\"",
        b"$(touch x)",
        b"\xff\xfe",
        "unicod\u{e9}".as_bytes(),
        b"a:b",
        b"*",
    ];
    let mut wrong = Vec::new();
    for name in names {
        let env = TestEnv::with_project_name(std::ffi::OsStr::from_bytes(name));
        env.file("in.txt", "in");
        let output = env.inside("cat in.txt && printf out > out.txt");
        if output.stdout != "in"
            || std::fs::read(env.project().join("out.txt")).ok().as_deref() != Some(b"out")
        {
            wrong.push(format!("{}: {output:#?}", name.escape_ascii()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn grants_with_odd_names_are_taken_literally() {
    let env = TestEnv::new();
    for name in ["a b", "--bind", "new\nline", "x;y", "é"] {
        let directory = env.dir(env.root().join("grants").join(name));
        env.file(directory.join("file"), "granted\n");
        let output = env.jail([
            "--ro".as_ref(),
            directory.as_os_str(),
            "--".as_ref(),
            "cat".as_ref(),
            directory.join("file").as_os_str(),
        ]);
        assert_eq!(output.ok(), "granted\n", "{name:?}");
        let write = env.jail([
            "--ro".as_ref(),
            directory.as_os_str(),
            "--".as_ref(),
            "touch".as_ref(),
            directory.join("new").as_os_str(),
        ]);
        assert!(!write.success() && !directory.join("new").exists(), "{name:?} is read-only");
    }
}

#[test]
fn grants_mean_what_they_say() {
    let env = with_secrets();
    let beside = env.root().join("beside");
    let beside = beside.to_str().expect("UTF-8");
    let write = with_root(&env, "echo x > \"$ROOT/beside/new\"");
    let read = with_root(&env, "cat \"$ROOT/beside/secret\"");
    assert_eq!(run_inside(&env, &["--ro", beside], &read).ok(), "begun\nsecret beside\n");
    assert!(!run_inside(&env, &["--ro", beside], &write).success());
    run_inside(&env, &["--rw", beside], &write).ok();
    assert!(env.root().join("beside/new").exists(), "a writable grant is the host's directory");
    let both = ["--rw", beside, "--ro", beside];
    assert!(!run_inside(&env, &both, &write).success(), "on the same path ro beats rw");
}

#[test]
fn a_directory_that_only_can_be_passed_through_is_no_obstacle() {
    let env = TestEnv::new();
    let project = env.dir(env.root().join("narrow/deep/project"));
    output_of(env.command("chmod").arg("0311").arg(env.root().join("narrow")), DEADLINE).ok();
    let mut command = env.launcher(["--", "sh", "-c", "echo works > file && cat file"]);
    let output = output_of(command.current_dir(&project), DEADLINE);
    output_of(env.command("chmod").arg("0755").arg(env.root().join("narrow")), DEADLINE).ok();
    assert_eq!(output.ok(), "works\n");
}

#[test]
fn a_home_behind_a_symlink_is_no_obstacle() {
    let env = TestEnv::new();
    std::os::unix::fs::symlink(env.home(), env.root().join("linked-home")).expect("symlink");
    let linked = env.root().join("linked-home");
    let mut command = env.launcher(["--", "sh", "-c", "echo works > ~/file && cat ~/file"]);
    assert_eq!(output_of(command.env("HOME", linked), DEADLINE).ok(), "works\n");
    assert!(!env.home().join("file").exists(), "the home is private");
}

#[test]
fn a_project_that_is_no_repository_works() {
    let env = TestEnv::new();
    let mut before = listing(&env);
    env.inside("mkdir d && echo x > d/f").ok();
    before.push_str("./d\n./d/f\n");
    assert_eq!(listing(&env), before, "the work and nothing else");
}

fn listing(env: &TestEnv) -> String {
    env.outside("find . | sort").ok().to_owned()
}

//! Other processes, sockets, keys and the identity of the machine.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::common::{Answer, DEADLINE, Feature, TestEnv, eventually, missing, output_of, start};
use super::{run_inside, unique};

/// Variables that lead to something on the host.
const HOST_VARIABLES: &[&str] = &[
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    "DISPLAY",
    "TMUX",
    "STY",
    "KITTY_LISTEN_ON",
    "VSCODE_IPC_HOOK_CLI",
    "VSCODE_GIT_IPC_HANDLE",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GPG_AGENT_INFO",
    "DOCKER_HOST",
    "LD_PRELOAD_X",
    "LD_AUDIT",
    "NODE_OPTIONS",
    "BASH_ENV",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "GIT_EXTERNAL_DIFF",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "DB_PASSWORD",
];

#[test]
fn sockets_of_the_host_cannot_be_reached() {
    let env = TestEnv::new();
    let places = [env.run_dir().join("bus"), env.home().join(".agent.sock"), env.root().join("docker.sock")];
    for place in &places {
        let _listener = UnixListener::bind(place).expect("bind");
        let path = place.to_str().expect("UTF-8");
        env.probe_outside(["unix", path]).must_work(path);
        env.probe_inside(["unix", path]).must_fail(path);
    }
    let find = "find / -type s -not -path '/proc/*' 2>/dev/null; true";
    let control = format!("find '{}' -type s", env.root().display());
    assert_eq!(env.outside(&control).ok().lines().count(), places.len(), "control: they are found outside");
    assert_eq!(run_inside(&env, &[], find).ok(), "begun\n", "socket files in the jail");
}

/// Where the services of a machine listen.
const SERVICES: &[&str] = &[
    "docker.sock",
    "podman/podman.sock",
    "containerd/containerd.sock",
    "crio/crio.sock",
    "libvirt/libvirt-sock",
    "snapd.socket",
    "snapd-snap.socket",
    "lxd/unix.socket",
    "incus/unix.socket",
    "nscd/socket",
    "dbus/system_bus_socket",
    "systemd/private",
    "systemd/journal/socket",
    "udev/control",
    "cups/cups.sock",
    "avahi-daemon/socket",
    "pcscd/pcscd.comm",
    "user/1000/bus",
    "user/1000/systemd/private",
    "user/1000/gnupg/S.gpg-agent",
    "user/1000/keyring/ssh",
];

#[test]
fn services_of_the_machine_cannot_be_reached_in_any_profile() {
    // In a mount namespace of the test's own, a /run in which all of them listen.
    let env = TestEnv::new();
    let run = env.dir(env.root().join("fake-run"));
    let listeners: Vec<_> = SERVICES
        .iter()
        .map(|place| {
            env.dir(run.join(place).parent().expect("a parent"));
            UnixListener::bind(run.join(place)).expect("bind")
        })
        .collect();
    let probe = env.probe();
    let each = SERVICES.iter().map(|place| {
        ["run", "var/run"]
            .map(|base| format!("{} unix /{base}/{place} | grep '\"ok\":true'", probe.display()))
            .join("; ")
    });
    let attempt = format!(
        "({}) | wc -l; find /run /var/run -type s 2>/dev/null | wc -l",
        each.collect::<Vec<_>>().join("; ")
    );
    let with = |command: &str| {
        let script = format!("mount --bind {} /run && {command}", run.display());
        output_of(env.command("unshare").args(["-m", "sh", "-c", &script]), DEADLINE)
    };
    let control = with(&attempt);
    let counts: Vec<usize> = control.stdout.lines().filter_map(|line| line.trim().parse().ok()).collect();
    if !control.success() || counts.first().is_none_or(|count| *count < SERVICES.len()) {
        return missing(Feature::Root, "the machine's services", "they cannot be faked");
    }
    for flags in ["", "--inherit-env all", "--profile strict", "--lockdown", "--profile devbox"] {
        let jail = env!("CARGO_BIN_EXE_ai-jail");
        let inside = with(&format!("{jail} {flags} -- sh -c '{}'", attempt.replace('\'', "'\\''")));
        assert_eq!(inside.ok(), "0\n0\n", "{flags}: {inside:#?}");
    }
    drop(listeners);
}

#[test]
fn abstract_sockets_of_the_host_do_not_exist() {
    let env = TestEnv::new();
    let name = unique("/tmp/.X11-unix/X");
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("bind");
    env.probe_outside(["abstract", &name]).must_work("the abstract socket");
    env.probe_inside(["abstract", &name]).must_fail("the abstract socket");
}

#[test]
fn variables_that_lead_to_the_host_are_not_inherited() {
    let value = unique("value-of-the-host-");
    let env = HOST_VARIABLES.iter().fold(TestEnv::new(), |env, name| env.var(name, &value));
    let control = env.outside("env");
    assert!(
        HOST_VARIABLES.iter().all(|name| control.stdout.contains(&format!("{name}={value}"))),
        "{control:#?}"
    );
    for flags in [&[][..], &["--inherit-env", "all"], &["--lockdown"]] {
        let inside = run_inside(&env, flags, "env");
        assert!(!inside.ok().contains(&value), "{flags:?}: {inside:#?}");
    }
}

#[test]
fn the_launchers_environment_is_nowhere_to_be_found() {
    let marker = unique("marker");
    let backwards: String = marker.chars().rev().collect();
    let env = TestEnv::new().var("ACME_MARKER", &marker);
    let _process = start(env.command("sleep").arg("60"));
    let mut control = env.probe_outside(["search-proc", &backwards]);
    // The other process has the marker only once it has been started for good.
    eventually(DEADLINE, || {
        control = env.probe_outside(["search-proc", &backwards]);
        control.ok
    });
    control.must_work("finding the marker in another process");
    for profile in ["workspace", "strict", "lockdown"] {
        let inside = env.probe_with(&["--profile", profile], ["search-proc", &backwards]);
        inside.must_fail("finding the launcher's environment");
    }
}

#[test]
fn values_that_are_passed_by_name_are_in_no_arguments() {
    let value = unique("value");
    let env = TestEnv::new().var("ACME_VALUE", &value);
    let script = "test -n \"$ACME_VALUE\" && touch started; sleep 5";
    let jail = env.jail_running(["-q", "--env", "ACME_VALUE", "--", "sh", "-c", script]);
    let started = env.project().join("started");
    assert!(eventually(DEADLINE, || started.exists()), "the variable arrives in the jail");
    let with = |file: &str| {
        std::fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .filter_map(|entry| std::fs::read(entry.path().join(file)).ok())
            .filter(|bytes| bytes.windows(value.len()).any(|window| window == value.as_bytes()))
            .count()
    };
    assert!(with("environ") > 0, "control: the search finds it in the launcher's environment");
    assert_eq!(with("cmdline"), 0, "in the arguments of a process");
    drop(jail);
}

#[test]
fn processes_of_the_host_are_not_visible() {
    let env = TestEnv::new();
    let inside = run_inside(&env, &[], "ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm");
    let count: usize =
        inside.ok().lines().nth(1).and_then(|line| line.trim().parse().ok()).expect("a number");
    assert!(count < 10, "{count} processes in a new jail: {inside:#?}");
    let own = env.probe_outside(["namespaces"]).value["namespaces"].clone();
    let inside = env.probe_inside(["namespaces"]).value["namespaces"].clone();
    for name in ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"] {
        assert!(inside[name].as_str().is_some_and(|link| link.contains('[')), "{name}: {inside}");
        assert_ne!(inside[name], own[name], "the {name} namespace is the host's");
    }
}

#[test]
fn pid_1_is_out_of_reach_in_every_profile() {
    let env = TestEnv::new();
    let child = env.probe_outside(["sleep-child"]);
    every_way(&child, |way, ok| assert!(ok, "control: {way} works on a child outside: {child:#?}"));
    for profile in ["workspace", "read-only", "strict", "lockdown"] {
        let inside = env.probe_with(&["--profile", profile], ["attack", "1"]);
        every_way(&inside, |way, ok| assert!(!ok, "{profile}: {way} of pid 1: {inside:#?}"));
    }
}

#[test]
fn debuggers_work_where_the_profile_says_so() {
    let env = TestEnv::new();
    let inside = env.probe_inside(["sleep-child"]);
    for way in ["ptrace", "process_vm_readv", "mem_read", "mem_write"] {
        assert_eq!(inside.value["ways"][way]["ok"], true, "workspace: {way} on a child: {inside:#?}");
    }
    assert_eq!(inside.value["ways"]["pidfd_getfd"]["ok"], false, "pidfd_getfd is refused everywhere");
    for profile in ["strict", "lockdown"] {
        let inside = env.probe_with(&["--profile", profile], ["sleep-child"]);
        for way in ["ptrace", "process_vm_readv", "pidfd_getfd"] {
            assert_eq!(inside.value["ways"][way]["ok"], false, "{profile}: {way}: {inside:#?}");
        }
    }
}

#[test]
fn keys_of_the_user_are_not_readable() {
    let env = TestEnv::new();
    let name = unique("ai-jail-key-");
    if !env.probe_outside(["keyring-add", &name]).ok {
        missing(Feature::Kernel("keys"), "keyrings", "a key cannot be added outside");
        return;
    }
    env.probe_outside(["keyring-find", &name]).must_work("finding the key");
    env.probe_inside(["keyring-find", &name]).must_fail("finding the key");
}

#[test]
fn shared_memory_and_queues_of_the_host_do_not_exist() {
    let env = TestEnv::new();
    let key = (std::process::id() % 1_000_000 + 7_000_000).to_string();
    env.probe_outside(["sysv-make", &key]);
    let outside = env.probe_outside(["sysv", &key]);
    let inside = env.probe_inside(["sysv", &key]);
    let name = format!("/ai-jail-probe-{key}");
    let _ = std::fs::remove_file(format!("/dev/shm{name}"));
    env.outside(&format!("ipcrm -M {key} -S {key} -Q {key}; rm -f /dev/mqueue{name}"));
    every_way(&inside, |way, ok| {
        if outside.value["ways"][way]["ok"] == false {
            missing(Feature::Kernel("sysv-ipc"), way, "it cannot be made outside");
        }
        assert!(!ok, "{way} of the host: {inside:#?}");
    });
}

#[test]
fn the_machine_is_not_recognisable() {
    let env = TestEnv::new();
    let inside = run_inside(
        &env,
        &[],
        "cut -d: -f1 /etc/passwd; echo -; hostname 2>/dev/null || cat /proc/sys/kernel/hostname",
    );
    let (users, hostname) = inside.ok().split_once("-\n").expect("two parts");
    let users: Vec<&str> = users.lines().skip(1).collect();
    let known = ["root", "nobody"];
    let others = users.iter().filter(|user| !known.contains(user)).count();
    assert!(others <= 1, "only this user, root and nobody: {users:?}");
    let host = rustix::system::uname();
    assert_ne!(hostname.trim().as_bytes(), host.nodename().to_bytes(), "the host's name");
    if let Ok(id) = std::fs::read_to_string("/etc/machine-id")
        && !id.trim().is_empty()
    {
        let inside = run_inside(&env, &[], "cat /etc/machine-id");
        assert!(!inside.stdout.contains(id.trim()), "the host's machine-id");
    }
    assert!(!run_inside(&env, &[], "dmesg").success(), "the kernel log");
    let devices = run_inside(&env, &[], "sed -n 's/^ *\\([^ :]*\\):.*/\\1/p' /proc/net/dev");
    assert_eq!(devices.ok(), "begun\nlo\n", "interfaces");
}

fn every_way(answer: &Answer, check: impl Fn(&str, bool)) {
    let ways =
        answer.value["ways"].as_object().unwrap_or_else(|| panic!("the probe did not report: {answer:#?}"));
    for (way, report) in ways {
        check(way, report["ok"] == true);
    }
}

//! Sockets and devices of the host: none is there but those that were named, and those work.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::common::{DEADLINE, Feature, TestEnv, eventually, missing, output_of, service, start, text};
use super::run_inside;

#[test]
fn a_granted_ssh_agent_works_and_no_other_way_leads_to_it() {
    if !Feature::Program("ssh-agent").needed_for("the SSH agent") {
        return;
    }
    let env = TestEnv::new();
    let socket = env.root().join("agent.sock");
    let mut agent = env.command("ssh-agent");
    let _agent = start(agent.args(["-D", "-a", text(&socket)]));
    assert!(eventually(DEADLINE, || UnixStream::connect(&socket).is_ok()), "the agent listens");
    let env = env.var("SSH_AUTH_SOCK", &socket);
    let add = "ssh-keygen -q -t ed25519 -N '' -C marked -f ../key && ssh-add -q ../key && ssh-add -l";
    assert!(env.outside(add).ok().contains("marked"), "control: the agent has the key");
    env.file(env.home().join(".ssh/known_hosts"), "host.test ssh-ed25519 AAAA\n");
    env.file(env.home().join(".ssh/id_ed25519"), "private\n");

    let direct = format!("ssh-add -l || SSH_AUTH_SOCK={} ssh-add -l", socket.display());
    for flags in [&[][..], &["--inherit-env", "all"], &["--profile", "strict"], &["--lockdown"]] {
        let inside = run_inside(&env, flags, &direct);
        assert!(!inside.success() && !inside.stdout.contains("marked"), "{flags:?}: {inside:#?}");
    }
    let script = "ssh-add -l && cat ~/.ssh/known_hosts && ! (echo x >> ~/.ssh/known_hosts) && ls -A ~/.ssh";
    let inside = run_inside(&env, &["--grant", "ssh-agent"], script);
    assert!(inside.ok().contains("marked") && inside.stdout.contains("host.test"), "{inside:#?}");
    assert!(!inside.stdout.contains("id_ed25519") && !inside.stdout.contains("private"), "{inside:#?}");
    assert!(inside.stderr.contains("can use every key in your SSH agent"), "{inside:#?}");
    assert!(!inside.stdout.contains(text(env.root())), "the place outside is not told: {inside:#?}");
}

#[test]
fn the_session_and_the_system_bus_are_not_there_and_a_granted_one_works() {
    if !Feature::Program("dbus-daemon").needed_for("D-Bus")
        || !Feature::Program("dbus-send").needed_for("D-Bus")
    {
        return;
    }
    let env = TestEnv::new();
    let place = env.run_dir().join("bus");
    let address = format!("unix:path={}", place.display());
    // A configuration of its own: the system's may not be there, and knows services that are none of ours.
    let config = env.file(
        env.root().join("bus.conf"),
        format!(
            "<busconfig><type>session</type><listen>{address}</listen><auth>EXTERNAL</auth><policy context=\"default\">\
             <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy>\
             </busconfig>"
        ),
    );
    let mut daemon = env.command("dbus-daemon");
    let _daemon = start(daemon.args(["--nofork", "--config-file", text(&config)]));
    assert!(eventually(DEADLINE, || UnixStream::connect(&place).is_ok()), "the bus listens");
    let env = env.var("DBUS_SESSION_BUS_ADDRESS", &address);
    let ask = "dbus-send --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames";
    assert!(env.outside(ask).ok().contains("org.freedesktop.DBus"), "control");
    let direct = format!("{ask} || DBUS_SESSION_BUS_ADDRESS={address} {ask}");
    let system = "test -e /run/dbus/system_bus_socket || test -e /var/run/dbus/system_bus_socket";
    let units = "systemd-run --user --quiet true";
    let mut attempts = vec![direct.as_str()];
    for (attempt, feature, claim) in [
        (system, Feature::Kernel("system-bus"), "the system bus"),
        (units, Feature::Program("systemd-run"), "units of the user's systemd"),
    ] {
        match env.outside(attempt) {
            control if control.success() => attempts.push(attempt),
            control => {
                missing(feature, claim, &format!("it does not work outside: {}", control.stderr.trim()))
            }
        }
    }
    // The socket of a systemd of the user's, which starts programs outside for whoever reaches it; one is faked.
    let private = env.run_dir().join("systemd/private");
    let _systemd = service(&env, &private);
    env.probe();
    let manager = format!("./probe unix {} | grep '\"ok\":true'", private.display());
    assert!(env.outside(&manager).success(), "control: {manager}");
    attempts.push(&manager);
    for flags in [&[][..], &["--inherit-env", "all"], &["--lockdown"]] {
        for attempt in &attempts {
            let inside = run_inside(&env, flags, attempt);
            assert!(!inside.success(), "{flags:?}: {attempt}: {inside:#?}");
        }
    }
    let inside = run_inside(&env, &["--grant", "dbus"], ask);
    assert!(inside.ok().contains("org.freedesktop.DBus"), "{inside:#?}");
    assert!(inside.stderr.contains("equals your session"), "{inside:#?}");
    // Without the variable it is the one of the runtime directory.
    let plain = env.var("DBUS_SESSION_BUS_ADDRESS", "");
    assert!(run_inside(&plain, &["--grant", "dbus"], ask).ok().contains("org.freedesktop.DBus"));
}

/// A granted socket that is faked: how it is named, where, and what the jail sees of it.
struct Fake {
    thing: &'static str,
    /// Below the directory of the test.
    place: &'static str,
    variable: Option<(&'static str, &'static str)>,
    /// What programs inside find beside it, as a script.
    beside: &'static str,
    /// The socket inside, as a word of the shell.
    inside: &'static str,
    says: &'static str,
}

const FAKES: &[Fake] = &[
    Fake {
        thing: "docker",
        place: "docker.sock",
        variable: Some(("DOCKER_HOST", "unix://ROOT/docker.sock")),
        beside: "test \"$DOCKER_HOST\" = unix:///run/docker.sock",
        inside: "/run/docker.sock",
        says: "equals root on this machine",
    },
    Fake {
        thing: "docker",
        place: "run/podman/podman.sock",
        variable: None,
        beside: "true",
        inside: "${DOCKER_HOST#unix://}",
        says: "equals root on this machine",
    },
    Fake {
        thing: "wayland",
        place: "run/wayland-7",
        variable: Some(("WAYLAND_DISPLAY", "wayland-7")),
        beside: "true",
        inside: "$XDG_RUNTIME_DIR/$WAYLAND_DISPLAY",
        says: "clipboard",
    },
    Fake {
        thing: "audio",
        place: "run/pulse/native",
        variable: None,
        beside: "test \"$(cat $PULSE_COOKIE)\" = the-cookie",
        inside: "${PULSE_SERVER#unix:}",
        says: "microphone",
    },
    Fake {
        thing: "audio",
        place: "run/pipewire-0",
        variable: None,
        beside: "true",
        inside: "$XDG_RUNTIME_DIR/pipewire-0",
        says: "microphone",
    },
];

#[test]
fn a_socket_that_is_named_is_there_says_what_it_opens_and_is_not_there_unnamed() {
    for fake in FAKES {
        let mut env = TestEnv::new();
        let _service = service(&env, &env.root().join(fake.place));
        env.file(env.home().join(".config/pulse/cookie"), "the-cookie");
        if let Some((name, value)) = fake.variable {
            let value = value.replace("ROOT", text(env.root()));
            env = env.var(name, value);
        }
        env.probe();
        let host = env.root().join(fake.place);
        env.probe_outside(["unix", text(&host)]).must_work(fake.place);
        let script = format!(
            "{} && echo inside {} && ./probe unix {} | grep '\"ok\":true'",
            fake.beside, fake.inside, fake.inside
        );
        let granted = run_inside(&env, &["--grant", fake.thing], &script);
        assert!(granted.success(), "{} at {}: {granted:#?}", fake.thing, fake.place);
        assert!(granted.stderr.contains(fake.says), "{}: {granted:#?}", fake.thing);
        let inside = granted.stdout.lines().find_map(|line| line.strip_prefix("inside ")).expect("its place");
        assert!(inside.starts_with('/'), "{granted:#?}");
        for place in [text(&host), inside] {
            let alone = env.probe_inside(["unix", place]);
            alone.must_fail(place);
            assert!(!alone.output.stderr.contains(fake.says), "{alone:#?}");
        }
    }
}

#[test]
fn a_granted_display_comes_with_its_own_cookie_and_no_other() {
    let number = 4_000 + std::process::id() % 50_000;
    let place = PathBuf::from(format!("/tmp/.X11-unix/X{number}"));
    let env = TestEnv::new();
    // The directory is everybody's, as on a machine with X.
    if std::fs::create_dir_all("/tmp/.X11-unix").is_err() {
        return missing(Feature::Root, "X11", "/tmp/.X11-unix cannot be made");
    }
    let _ = std::fs::set_permissions("/tmp/.X11-unix", std::fs::Permissions::from_mode(0o1777));
    let Ok(_listener) = UnixListener::bind(&place) else {
        return missing(Feature::Root, "X11", "/tmp/.X11-unix cannot be written");
    };
    let entry = |number: &str, cookie: &str| {
        let mut bytes = 256_u16.to_be_bytes().to_vec();
        for field in ["host", number, "MIT-MAGIC-COOKIE-1", cookie] {
            bytes.extend((field.len() as u16).to_be_bytes());
            bytes.extend(field.bytes());
        }
        bytes
    };
    let file = [entry("1", "others-cookie"), entry(&number.to_string(), "this-cookie")].concat();
    env.file(env.home().join(".Xauthority"), file);
    let env = env.var("DISPLAY", format!(":{number}.0"));
    let probe = env.probe();
    env.probe_outside(["unix", text(&place)]).must_work("the display");
    let script = format!(
        "cat $XAUTHORITY | tr -d '\\0'; echo $DISPLAY; {} unix /tmp/.X11-unix/X0; ls ~/.Xauthority",
        probe.display()
    );
    let inside = run_inside(&env, &["--grant", "x11"], &script);
    let _ = std::fs::remove_file(&place);
    // Gone with its last socket, unless it was there before.
    let _ = std::fs::remove_dir("/tmp/.X11-unix");
    let out = &inside.stdout;
    assert!(out.contains("this-cookie") && !out.contains("others-cookie"), "{inside:#?}");
    assert!(out.contains(":0\n") && out.contains("\"ok\":true"), "{inside:#?}");
    assert!(inside.stderr.contains("keystrokes"), "{inside:#?}");
}

#[test]
fn a_granted_socket_of_a_path_is_there_under_every_name_that_was_typed() {
    let env = TestEnv::new();
    let place = env.root().join("service/app.sock");
    let _service = service(&env, &place);
    let link = env.root().join("link.sock");
    symlink(&place, &link).expect("symlink");
    let (place, link) = (text(&place), text(&link));
    env.probe_outside(["unix", link]).must_work("the socket");
    env.probe_inside(["unix", place]).must_fail("the socket");
    env.probe_with(&["--socket", place], ["unix", place]).must_work("the granted socket");
    for name in [place, link] {
        env.probe_with(&["--socket", link], ["unix", name]).must_work(name);
    }
    // Nothing else comes along.
    env.file(env.root().join("service/secret"), "secret");
    let inside =
        run_inside(&env, &["--socket", place], &format!("cat {}/service/secret", env.root().display()));
    assert!(!inside.success(), "{inside:#?}");
    let relative = env.probe_with(&["--socket", "../service/app.sock"], ["unix", place]);
    relative.must_work("a relative name");
    assert!(relative.output.stderr.contains("obeys the jail"), "{relative:#?}");
}

#[test]
fn what_cannot_be_granted_is_refused_with_the_reason() {
    let env = TestEnv::new();
    let gone = env.root().join("gone.sock");
    drop(service(&env, &gone));
    std::fs::remove_file(&gone).expect("remove");
    let file = env.file(env.root().join("file"), "");
    let set = [
        ("SSH_AUTH_SOCK", text(&gone)),
        ("DOCKER_HOST", "tcp://192.0.2.1:2375"),
        ("DISPLAY", "localhost:10.0"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/tmp/dbus-x"),
    ];
    let cases: &[(&[&str], &str)] = &[
        (&["--grant", "dokcer"], "did you mean `docker`?"),
        (&["--grant", "docker,ssh-agnet"], "did you mean `ssh-agent`?"),
        (&["--grant", "ssh-agent"], "SSH_AUTH_SOCK is not set; start an agent"),
        (&["--grant", "wayland"], "WAYLAND_DISPLAY is not set"),
        (&["--grant", "x11"], "DISPLAY is not set"),
        (&["--grant", "audio"], "start PipeWire"),
        (&["--socket", "@/tmp/.X11-unix/X0"], "an abstract socket has no path"),
        (&["--socket", text(&file)], "is no socket"),
        (&["--socket", "/dev/null"], "is no socket"),
        (&["--socket", text(&gone)], "there is nothing there"),
        (&["--socket", ""], "the path is empty"),
        (&["--lockdown", "--grant", "kvm"], "does not go with the profile lockdown"),
        (&["--lockdown", "--socket", text(&gone)], "does not go with the profile lockdown"),
    ];
    for (flags, says) in cases {
        env.refused_saying(flags, &["true"], says);
    }
    let env = set.iter().fold(env, |env, (name, value)| env.var(name, value));
    env.refused_saying(&["--grant", "ssh-agent"], &["true"], "there is nothing there");
    env.refused_saying(&["--grant", "docker"], &["true"], "--allow-host");
    env.refused_saying(&["--grant", "x11"], &["true"], "SSH forwards it");
    env.refused_saying(&["--grant", "dbus"], &["true"], "abstract socket");
}

#[test]
fn a_symlink_that_an_agent_may_have_made_grants_nothing() {
    let env = TestEnv::new();
    let place = env.root().join("service/app.sock");
    let _service = service(&env, &place);
    symlink(&place, env.project().join("dev.sock")).expect("symlink");
    let (link, place) = (env.project().join("dev.sock"), text(&place));
    env.probe_outside(["unix", text(&link)]).must_work("the link");
    env.refused_saying(&["--socket", text(&link)], &["true"], "where an agent may have made it");
    env.probe_with(&["--socket", place], ["unix", place]).must_work("what it leads to");
    let env = env.var("SSH_AUTH_SOCK", &link);
    env.refused_saying(&["--grant", "ssh-agent"], &["true"], "where an agent may have made it");
    // A copied file neither: it could be made to lead to a key.
    let env = TestEnv::new();
    let agent = env.root().join("agent.sock");
    let _service = service(&env, &agent);
    env.file(env.home().join(".ssh/id"), "private");
    symlink(env.home().join(".ssh/id"), env.project().join("known_hosts")).expect("symlink");
    symlink(env.project().join("known_hosts"), env.home().join(".ssh/known_hosts")).expect("symlink");
    let env = env.var("SSH_AUTH_SOCK", &agent);
    assert_eq!(env.outside("cat ~/.ssh/known_hosts").ok(), "private", "control");
    env.refused_saying(&["--grant", "ssh-agent"], &["true"], "where an agent may have made it");
}

#[test]
fn only_the_user_grants_things_of_the_machine() {
    let env = TestEnv::new();
    let place = env.root().join("service/app.sock");
    let _service = service(&env, &place);
    let docker = env.root().join("docker.sock");
    let _docker = service(&env, &docker);
    let env = env.var("DOCKER_HOST", format!("unix://{}", docker.display()));
    let keys = format!("[grants]\ndocker = true\nsockets = [\"{}\"]\n", place.display());
    let works = |flags: &[&str]| {
        [&place, Path::new("/run/docker.sock")].map(|path| env.probe_with(flags, ["unix", text(path)]).ok)
    };
    env.file(".ai-jail.toml", &keys);
    assert_eq!(works(&[]), [false, false], "a project's file");
    let output = env.jail(["--", "true"]);
    assert!(
        output.stderr.contains("grants.docker") && output.stderr.contains("may never set"),
        "{output:#?}"
    );
    env.file(".ai-jail.toml", "");
    env.config(&keys);
    assert_eq!(works(&[]), [true, true], "the user's file");
    assert_eq!(works(&["--profile", "strict"]), [false, false], "strict takes them from the command line");
    assert_eq!(works(&["--lockdown"]), [false, false], "lockdown");
    assert_eq!(works(&["--profile", "strict", "--grant", "docker"]), [false, true], "strict");
    // A project may do without.
    env.file(".ai-jail.toml", "[grants]\ndocker = false\n");
    assert_eq!(works(&[]), [true, false], "a project's file that tightens");
}

#[test]
fn a_granted_device_works_as_outside() {
    let version = "import fcntl,os\nprint(fcntl.ioctl(os.open('/dev/kvm',os.O_RDWR),0xAE00))";
    let env = TestEnv::new();
    let script = format!("python3 -c \"{version}\"");
    let outside = env.outside(&script);
    if !outside.success() {
        missing(Feature::Kernel("kvm"), "a granted /dev/kvm", "it cannot be used outside");
        let says = if Path::new("/dev/kvm").exists() {
            "may not be read and written by you"
        } else {
            "there is no /dev/kvm"
        };
        return env.refused_saying(&["--grant", "kvm"], &["true"], says);
    }
    assert_eq!(run_inside(&env, &["--grant", "kvm"], &script).ok(), format!("begun\n{}", outside.ok()));
    let strict = run_inside(&env, &["--profile", "strict", "--grant", "kvm"], &script);
    assert_eq!(strict.ok(), format!("begun\n{}", outside.ok()));
    assert!(!run_inside(&env, &[], &script).success(), "it is not there unnamed");
}

#[test]
fn granted_graphics_devices_come_with_their_description_and_no_other_device() {
    // A machine with a graphics device: in a mount namespace of the test's own, a /dev with one more name.
    let fake = "mount -t tmpfs -o mode=755 dev DEV && cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty DEV \
                && mkdir DEV/dri DEV/pts DEV/shm && mknod -m 666 DEV/dri/renderD128 c 1 5 && mknod -m 666 DEV/dri/card0 c 1 5 \
                && mount --rbind /dev/pts DEV/pts && ln -s pts/ptmx DEV/ptmx && mount --move DEV /dev";
    let env = TestEnv::new();
    let dev = env.dir(env.root().join("dev"));
    let machine = fake.replace("DEV", text(&dev));
    let run = |jail: &str| {
        let script = format!("{machine} && {jail}");
        output_of(env.command("unshare").args(["-m", "sh", "-c", &script]), DEADLINE)
    };
    let count = "head -c 5 /dev/dri/renderD128 | wc -c";
    let control = run(count);
    if control.stdout.trim() != "5" {
        return missing(Feature::Root, "graphics devices", "a device cannot be faked");
    }
    let jail = env!("CARGO_BIN_EXE_ai-jail");
    let inside = run(&format!(
        "{jail} --grant gpu -- sh -c '{count}; ls /dev/dri; readlink -f /sys/dev/char/1:5; ls /sys/dev/char | wc -l'"
    ));
    assert_eq!(inside.ok(), "5\nrenderD128\n/sys/devices/virtual/mem/zero\n1\n", "{inside:#?}");
    assert!(inside.stderr.contains("drivers in the kernel"), "{inside:#?}");
    let alone = run(&format!("{jail} -- sh -c 'ls /dev/dri'"));
    assert!(!alone.success(), "{alone:#?}");
    let none = env.jail(["--grant", "gpu", "--", "true"]);
    if !Path::new("/dev/dri").exists() {
        assert!(none.refused().contains("load the driver"), "{none:#?}");
    }
}

#[test]
fn nothing_of_windows_can_be_started_from_a_jail_under_wsl() {
    // The files that WSL has, in a mount namespace of the test's own; binfmt_misc is the kernel's and is not faked.
    let env = TestEnv::new();
    let (run, mnt) = (env.dir(env.root().join("fake-run")), env.dir(env.root().join("fake-mnt")));
    env.dir(run.join("WSL"));
    env.dir(mnt.join("wslg/runtime-dir"));
    env.dir(mnt.join("c/Windows"));
    env.file(mnt.join("c/Windows/cmd.exe"), "MZ\0");
    let _interop = service(&env, &run.join("WSL/8_interop"));
    let _weston = service(&env, &mnt.join("wslg/runtime-dir/wayland-0"));
    let env =
        env.var("WSL_INTEROP", "/run/WSL/8_interop").var("WSL_DISTRO_NAME", "Debian").var("WSLENV", "X");
    let machine = format!("mount --bind {} /run && mount --bind {} /mnt", run.display(), mnt.display());
    let probe = env.probe();
    let attempts = [
        format!("{} unix /run/WSL/8_interop | grep '\"ok\":true'", probe.display()),
        format!("{} unix /mnt/wslg/runtime-dir/wayland-0 | grep '\"ok\":true'", probe.display()),
        "test -e /mnt/c/Windows/cmd.exe".to_owned(),
        "test -e /proc/sys/fs/binfmt_misc/register || test -e /run/WSL".to_owned(),
        "env | grep WSL".to_owned(),
    ];
    let with = |script: &str| {
        let script = format!("{machine} && {script}");
        output_of(
            Command::new("unshare")
                .args(["-m", "sh", "-c", &script])
                .env_clear()
                .envs(
                    env.command("true")
                        .get_envs()
                        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))),
                )
                .current_dir(env.project()),
            DEADLINE,
        )
    };
    if !with("true").success() {
        missing(Feature::Root, "WSL", "its files cannot be faked");
    } else {
        for attempt in &attempts {
            let outside = with(attempt);
            assert!(outside.success(), "control: {attempt}: {outside:#?}");
            for flags in ["", "--inherit-env all", "--lockdown"] {
                let jail = env!("CARGO_BIN_EXE_ai-jail");
                let inside = with(&format!("{jail} {flags} -- sh -c '{}'", attempt.replace('\'', "'\\''")));
                assert!(
                    !inside.success() && inside.stderr.contains("profile "),
                    "{flags}: {attempt}: {inside:#?}"
                );
            }
        }
    }
    let families = env.probe_inside(["families"]);
    assert_eq!(families.value["families"]["vsock"]["ok"], false, "AF_VSOCK: {families:#?}");
    // A Windows program in the project starts nothing, for the jail has no interpreter for it.
    env.file("evil.exe", "MZ\0");
    let inside = run_inside(&env, &[], "chmod +x evil.exe; ./evil.exe");
    assert!(!inside.success(), "{inside:#?}");
}

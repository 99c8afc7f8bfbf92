//! Unix sockets, FIFOs and devices of the host in the trees that a jail sees: covered when it starts and while it runs.
//! Those that the jail makes are its own.

use std::path::Path;

use super::common::{DEADLINE, Feature, Output, TestEnv, eventually, missing, service, start, text};
use super::run_inside;

/// How a tree is shown.
struct View {
    what: &'static str,
    flags: fn(&str) -> Vec<String>,
    config: &'static str,
    /// Where the socket lies, below the directory of the test.
    place: &'static str,
    /// Where the jail sees it.
    inside: fn(&str) -> String,
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const VIEWS: &[View] = &[
    View {
        what: "project",
        flags: |_| Vec::new(),
        config: "",
        place: "project/run/app.sock",
        inside: |root| format!("{root}/project/run/app.sock"),
    },
    View {
        what: "git directory",
        flags: |_| Vec::new(),
        config: "",
        place: "project/.git/fsmonitor--daemon.ipc",
        inside: |root| format!("{root}/project/.git/fsmonitor--daemon.ipc"),
    },
    View {
        what: "read-only",
        flags: |_| strings(&["--profile", "read-only"]),
        config: "",
        place: "project/app.sock",
        inside: |root| format!("{root}/project/app.sock"),
    },
    View {
        what: "lockdown",
        flags: |_| strings(&["--lockdown"]),
        config: "",
        place: "project/app.sock",
        inside: |root| format!("{root}/project/app.sock"),
    },
    View {
        what: "strict",
        flags: |_| strings(&["--profile", "strict"]),
        config: "",
        place: "project/app.sock",
        inside: |root| format!("{root}/project/app.sock"),
    },
    View {
        what: "open network",
        flags: |_| strings(&["--network", "open"]),
        config: "",
        place: "project/app.sock",
        inside: |root| format!("{root}/project/app.sock"),
    },
    View {
        what: "protect = false",
        flags: |_| Vec::new(),
        config: "[filesystem]\nprotect = false\n",
        place: "project/app.sock",
        inside: |root| format!("{root}/project/app.sock"),
    },
    View {
        what: "--ro",
        flags: |root| strings(&["--ro", &format!("{root}/data")]),
        config: "",
        place: "data/deep/app.sock",
        inside: |root| format!("{root}/data/deep/app.sock"),
    },
    View {
        what: "--rw",
        flags: |root| strings(&["--rw", &format!("{root}/data")]),
        config: "",
        place: "data/app.sock",
        inside: |root| format!("{root}/data/app.sock"),
    },
    View {
        what: "--rw elsewhere",
        flags: |root| strings(&["--rw", &format!("{root}/data:/mnt/x")]),
        config: "",
        place: "data/app.sock",
        inside: |_| "/mnt/x/app.sock".to_owned(),
    },
];

impl View {
    fn env(&self) -> (TestEnv, Vec<String>, String) {
        let env = TestEnv::new();
        env.dir(env.root().join("data"));
        env.dir(env.root().join(self.place).parent().expect("a parent"));
        if !self.config.is_empty() {
            env.config(self.config);
        }
        let flags = (self.flags)(text(env.root()));
        let inside = (self.inside)(text(env.root()));
        (env, flags, inside)
    }
}

fn borrowed(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[test]
fn a_socket_that_is_there_at_the_launch_is_covered_unless_it_is_named() {
    for view in VIEWS {
        let (env, flags, inside) = view.env();
        let place = env.root().join(view.place);
        let listener = service(&env, &place);
        env.probe();
        env.probe_outside(["unix", text(&place)]).must_work(view.what);
        let answer = env.probe_with(&borrowed(&flags), ["unix", &inside]);
        answer.must_fail(view.what);
        assert!(answer.output.stderr.contains("is covered"), "{}: it is said: {answer:#?}", view.what);
        assert!(answer.output.stderr.contains("--socket"), "{}: {answer:#?}", view.what);
        env.probe_outside(["unix", text(&place)]).must_work("the service goes on");
        if !matches!(view.what, "lockdown" | "--rw elsewhere") {
            let named = [borrowed(&flags), vec!["--socket", text(&place)]].concat();
            env.probe_with(&named, ["unix", &inside]).must_work(&format!("{}, named", view.what));
        }
        drop(listener);
    }
}

/// Ends with 0 when the socket at `place` refuses in the end, at the latest after ten seconds, and with 9 when not.
fn until_refused(probe: &Path, place: &str) -> String {
    format!(
        "i=0; while [ $i -lt 250 ]; do {} unix {place} | grep -q '\"ok\":false' && exit 0; i=$((i+1)); sleep 0.04; done; exit 9",
        probe.display()
    )
}

#[test]
fn a_socket_that_a_service_outside_makes_while_the_jail_runs_is_covered() {
    for view in VIEWS {
        let (env, flags, inside) = view.env();
        let place = env.root().join(view.place);
        let probe = env.probe();
        let running = env.jail_waiting(&borrowed(&flags), "", &until_refused(&probe, &inside));
        let _listener = service(&env, &place);
        env.probe_outside(["unix", text(&place)]).must_work(view.what);
        let output = env.let_go(running);
        assert_eq!(output.code(), 0, "{}: the jail talks to it: {output:#?}", view.what);
        assert!(
            output.stderr.contains("appeared while the jail ran and was covered"),
            "{}: {output:#?}",
            view.what
        );
        env.probe_outside(["unix", text(&place)]).must_work("the service goes on");
    }
}

#[test]
fn a_socket_that_comes_with_its_directory_or_again_and_again_is_covered() {
    let env = TestEnv::new();
    let probe = env.probe();
    let elsewhere = env.root().join("made/app.sock");
    let _listener = service(&env, &elsewhere);
    let place = env.project().join("deep/made/app.sock");
    env.dir("deep");
    let running = env.jail_waiting(&[], "", &until_refused(&probe, text(&place)));
    std::fs::rename(elsewhere.parent().expect("a parent"), place.parent().expect("a parent"))
        .expect("rename");
    env.probe_outside(["unix", text(&place)]).must_work("the moved socket");
    let output = env.let_go(running);
    assert_eq!(output.code(), 0, "{output:#?}");

    let env = TestEnv::new();
    let probe = env.probe();
    let place = env.project().join("app.sock");
    let running = env.jail_waiting(&[], "", &until_refused(&probe, text(&place)));
    let mut listener = None;
    for _ in 0..50 {
        drop(listener.take());
        let _ = std::fs::remove_file(&place);
        listener = Some(service(&env, &place));
    }
    let output = env.let_go(running);
    assert_eq!(output.code(), 0, "{output:#?}");
    drop(listener);
}

/// Servers and clients of a jail's own in the project; each ends with 0 when it works, also after a while.
const OWN: &[(&str, &str)] = &[
    (
        "a server on a socket, by an absolute and a relative name",
        "import os,socket,time,threading\n\
         for name in (os.path.abspath('own.sock'), 'rel.sock'):\n\
         \x20 s=socket.socket(socket.AF_UNIX); s.bind(name); s.listen()\n\
         \x20 threading.Thread(target=lambda s=s:[s.accept() for _ in range(9)],daemon=True).start()\n\
         \x20 for wait in (0,0.05,0.3,1.5):\n\
         \x20  time.sleep(wait); c=socket.socket(socket.AF_UNIX); c.connect(name); c.close()\n\
         \x20 os.unlink(name)\n",
    ),
    (
        "a socket for datagrams that is bound, ended, and bound anew",
        "import os,socket,time\n\
         for turn in range(4):\n\
         \x20 s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); s.bind('d.sock'); time.sleep(0.4)\n\
         \x20 c=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); c.sendto(b'x','d.sock'); assert s.recv(1)==b'x'\n\
         \x20 s.close(); time.sleep(0.4); os.unlink('d.sock')\n",
    ),
    (
        "multiprocessing",
        "import multiprocessing as m,multiprocessing.connection as c,time,os\n\
         def f(q):\n  q.put(7)\n\
         if __name__=='__main__':\n\
         \x20 with m.Manager() as g:\n\
         \x20  d=g.dict(); d['a']=1; q=g.Queue(); p=m.Process(target=f,args=(q,)); p.start(); p.join(); assert q.get()==7\n\
         \x20 l=c.Listener('mp.sock'); time.sleep(1)\n\
         \x20 if os.fork()==0:\n\
         \x20  c.Client('mp.sock').send(5); os._exit(0)\n\
         \x20 assert l.accept().recv()==5\n",
    ),
    (
        "a FIFO",
        "import os,time\n\
         os.mkfifo('own.fifo'); time.sleep(1)\n\
         if os.fork()==0:\n\
         \x20 open('own.fifo','w').write('hello'); os._exit(0)\n\
         assert open('own.fifo').read()=='hello'\n",
    ),
];

#[test]
fn what_the_jail_makes_itself_is_its_own() {
    for flags in [&[][..], &["--network", "off"], &["--network", "open"], &["--profile", "strict"]] {
        // The first is what differs by the network.
        let scripts = if flags.is_empty() { OWN } else { &OWN[..1] };
        for (what, script) in scripts {
            let env = TestEnv::new();
            env.file("own.py", script);
            assert!(env.outside("python3 own.py && rm -f *.sock *.fifo").success(), "control: {what}");
            let inside = run_inside(&env, flags, "python3 own.py");
            assert!(inside.success(), "{flags:?}: {what}: {inside:#?}");
            assert!(!inside.stderr.contains("covered"), "{flags:?}: {what}: {inside:#?}");
        }
    }
}

#[test]
fn a_socket_whose_program_has_ended_can_be_removed_and_made_anew_inside() {
    let env = TestEnv::new();
    drop(service(&env, &env.project().join("own.sock")));
    env.probe_outside(["unix", text(&env.project().join("own.sock"))]).must_fail("nobody listens");
    let script = "rm own.sock && python3 -c \"import socket;s=socket.socket(socket.AF_UNIX);s.bind('own.sock');s.listen();\
                  c=socket.socket(socket.AF_UNIX);c.connect('own.sock')\"";
    let output: Output = run_inside(&env, &[], script);
    assert!(output.success() && !output.stderr.contains("covered"), "{output:#?}");
}

#[test]
fn a_second_jail_on_the_project_does_not_reach_the_sockets_of_the_first() {
    let env = TestEnv::new();
    let serve = "import socket,time\ns=socket.socket(socket.AF_UNIX);s.bind('one.sock');s.listen();open('up','w')\n\
                 while True: s.accept()";
    env.file("serve.py", serve);
    let place = env.project().join("one.sock");
    let probe = env.probe();
    let second = env.jail_waiting(&[], "", &until_refused(&probe, text(&place)));
    let _first = env.jail_running(["-q", "--", "python3", "serve.py"]);
    assert!(eventually(DEADLINE, || env.project().join("up").exists()), "the first jail serves");
    env.probe_outside(["unix", text(&place)]).must_work("the socket, from outside");
    let output = env.let_go(second);
    assert_eq!(output.code(), 0, "one that was running: {output:#?}");
    env.probe_inside(["unix", text(&place)]).must_fail("one that starts later");
}

#[test]
fn a_fifo_of_the_host_is_covered_where_the_jail_cannot_have_made_it() {
    let write = |place: &Path| format!("timeout 1 sh -c 'echo x > {0}' && test -p {0}", place.display());
    let reader = |env: &TestEnv, place: &Path| {
        // One process, which ends with the test.
        start(env.command("sh").args(["-c", &format!("exec cat <> {}", place.display())]))
    };
    let make = |env: &TestEnv, place: &Path| {
        assert!(env.outside(&format!("mkfifo -m 666 {}", place.display())).success())
    };
    // There before.
    for flags in [&[][..], &["--profile", "read-only"], &["--lockdown"]] {
        let env = TestEnv::new();
        let place = env.project().join("commands");
        make(&env, &place);
        let _reader = reader(&env, &place);
        assert!(env.outside(&write(&place)).success(), "control");
        let inside = run_inside(&env, flags, &write(&place));
        assert!(!inside.success(), "{flags:?}: {inside:#?}");
        assert!(inside.stderr.contains("is a FIFO and is covered"), "{flags:?}: {inside:#?}");
    }
    // Made meanwhile, in a tree that is shown read-only.
    let env = TestEnv::new();
    let data = env.dir(env.root().join("data"));
    let place = data.join("commands");
    let after = format!(
        "i=0; while [ $i -lt 500 ]; do test -p {} || exit 0; i=$((i+1)); sleep 0.02; done; exit 9",
        place.display()
    );
    let running = env.jail_waiting(&["--ro", text(&data)], "", &after);
    make(&env, &place);
    assert!(env.outside(&format!("test -p {}", place.display())).success(), "control");
    let output = env.let_go(running);
    assert_eq!(output.code(), 0, "{output:#?}");
}

#[test]
fn device_nodes_in_the_trees_mean_nothing() {
    let env = TestEnv::new();
    let data = env.dir(env.root().join("data"));
    let read = |place: &Path| format!("head -c 3 {} | wc -c | grep -q 3", place.display());
    for place in [env.project().join("zero"), data.join("zero")] {
        if !env.outside(&format!("mknod -m 666 {} c 1 5", place.display())).success() {
            return missing(Feature::Root, "device nodes", "they cannot be made");
        }
        assert!(env.outside(&read(&place)).success(), "control");
        for grant in ["--ro", "--rw"] {
            let inside = run_inside(&env, &[grant, text(&data)], &read(&place));
            assert!(!inside.success(), "{grant}: {}: {inside:#?}", place.display());
        }
    }
    // Made meanwhile.
    let place = env.project().join("late");
    let running = env.jail_waiting(&[], "", &format!("{} && exit 9; exit 0", read(&place)));
    env.outside(&format!("mknod -m 666 {} c 1 5 && {}", place.display(), read(&place))).ok();
    assert_eq!(env.let_go(running).code(), 0);
}

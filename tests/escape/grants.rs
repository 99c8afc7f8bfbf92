//! Grants, the project's place and what a launch shows by itself: none of them opens what nobody named.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::common::{DEADLINE, Git, TestEnv, eventually, output_of, start, text};
use super::{run_inside, unique, with_root};

#[test]
fn a_running_jail_that_swaps_a_directory_above_the_project_or_a_grant_shows_nothing_else() {
    let env = TestEnv::new();
    env.file(env.root().join("victim/w/secret"), "secret\n");
    let outer = env.dir(env.root().join("a"));
    let place = env.dir(outer.join("d/w"));
    env.file(
        outer.join("swap"),
        // It rests as long as it swaps, always where everything is in its place: a launch that sees one change is refused.
        "import os,ctypes,time\nl=ctypes.CDLL(None)\nos.symlink('../victim','l')\nopen('going','w').close()\n\
         swap=lambda: l.renameat2(-100,b'd',-100,b'l',2)\n\
         while os.path.exists('going'):\n  end=time.time()+.1\n  while time.time()<end: swap(); swap()\n  time.sleep(.1)\n",
    );
    let mut swapping = env.launcher(["--", "python3", "swap"]);
    let swapper = start(swapping.current_dir(&outer));
    let going = outer.join("going");
    assert!(eventually(DEADLINE, || going.exists()), "the swapping begins");
    let control = eventually(DEADLINE, || place.join("secret").exists());
    let mut wrong = Vec::new();
    let mut started = [0; 2];
    let grant = format!("{}:/mnt/w", place.display());
    for _ in 0..25 {
        let outputs = [
            env.jail(["--project", text(&place), "--", "sh", "-c", "cat secret; true"]),
            env.jail(["--ro", &grant, "--", "sh", "-c", "cat /mnt/w/secret; true"]),
        ];
        for (count, output) in started.iter_mut().zip(outputs) {
            *count += u32::from(output.success());
            if output.stdout.contains("secret") || output.stderr.contains("os error") {
                wrong.push(output);
            }
        }
    }
    fs::remove_file(going).expect("stop");
    swapper.finish(DEADLINE).ok();
    assert!(control, "control: the swapped name shows the secret outside");
    assert!(wrong.is_empty(), "{started:?} started: {wrong:#?}");
    assert!(started.iter().all(|count| *count > 0), "each can be started at times: {started:?}");
}

#[test]
fn a_script_or_a_symlink_of_the_project_does_not_choose_what_is_mounted() {
    for flags in [&[][..], &["--lockdown"]] {
        let env = TestEnv::new();
        let tool =
            env.script(env.root().join("secretproj/run.sh"), "cat \"$(dirname \"$0\")/secret\"; echo ran");
        env.file(env.root().join("secretproj/secret"), "secret\n");
        let by_shebang = env.script("b.sh", "");
        fs::write(&by_shebang, format!("#!{}\n", tool.display())).expect("write");
        symlink(&tool, env.project().join("c")).expect("symlink");
        for command in ["./b.sh", "./c"] {
            let outside = env.outside(command);
            assert!(outside.stdout.contains("ran"), "control: {outside:#?}");
            let inside = env.jail(flags.iter().copied().chain(["--", command]));
            assert!(!inside.stdout.contains("secret") && !inside.success(), "{command}: {inside:#?}");
        }
        // A path of the user's is the user's word, for that file alone.
        let inside = env.jail(flags.iter().copied().chain(["--", text(&tool)]));
        assert!(inside.stdout.contains("ran") && !inside.stdout.contains("secret"), "{inside:#?}");
    }
}

#[test]
fn terminal_descriptions_are_shown_only_where_there_are_some() {
    for place in ["home/.ssh", "home/private"] {
        let env = TestEnv::new();
        let directory = env.dir(env.root().join(place));
        env.file(directory.join("secret"), "secret\n");
        let env = env.var("TERMINFO", &directory);
        let read = format!("cat '{}/secret'", directory.display());
        assert!(env.outside(&read).success(), "control");
        for flags in [&[][..], &["--lockdown"]] {
            assert!(!run_inside(&env, flags, &read).success(), "{place} {flags:?}");
        }
    }
    // Nothing of the host's is there that is not there without the variable: no process, no file, no name.
    let env = TestEnv::new();
    let witness = env.file(env.root().join("witness"), "");
    let word = unique("process");
    let _process = start(env.command("bash").args(["-c", "exec -a \"$0\" sleep 600", &word]));
    let (front, rest) = word.split_at(7);
    let process = format!("grep -qs {front}''{rest} /proc/[0-9]*/cmdline");
    assert!(eventually(DEADLINE, || env.outside(&process).success()), "control");
    let script = format!("{process} && exit 9; test -e {} && exit 8; ls -A / /etc /run", witness.display());
    let without = run_inside(&env, &[], &script).ok().to_owned();
    let mut env = env;
    for place in ["/proc", "/etc", "/run", "/"] {
        env = env.var("TERMINFO", place);
        assert_eq!(run_inside(&env, &[], &script).ok(), without, "{place}");
    }
    let env = TestEnv::new();
    let database = env.dir(env.home().join(".terminfo-mine"));
    env.file(database.join("x/xterm"), "description\n");
    let env = env.var("TERMINFO", &database);
    run_inside(&env, &[], &format!("cat '{}/x/xterm'", database.display())).ok();
}

#[test]
fn no_part_of_what_is_protected_is_opened_singly() {
    let env = TestEnv::new();
    Git::new(&env).init();
    env.dir(".vscode");
    env.file(".envrc", "x");
    env.dir(env.home().join(".config/ai-jail"));
    env.dir(env.home().join(".config/fish"));
    for path in [".git", ".git/hooks", ".git/config", ".vscode", ".envrc"] {
        env.refused_saying(&["--rw", path], &["true"], "protected path");
        env.jail(["--ro", path, "--", "true"]).ok();
    }
    let git = env.project().join(".git");
    env.refused_saying(&["--rw", &format!("{}:/mnt/g", git.display())], &["true"], "protected path");
    env.refused_saying(&["--project", text(&git)], &["true"], "git's own directory");
    env.refused_saying(&["--rw", text(&env.home().join(".config/fish"))], &["true"], "protected path");
    for access in ["--ro", "--rw"] {
        env.refused_saying(&[access, text(&env.config_dir())], &["true"], "ai-jail's own");
    }
    env.refused_saying(&["--project", text(&env.config_dir())], &["true"], "ai-jail keeps its own things");
}

#[test]
fn the_protected_parts_of_a_granted_directory_are_held() {
    let env = TestEnv::new();
    let agent = env.dir(env.home().join(".claude"));
    env.file(agent.join("settings.json"), "{}");
    env.file(agent.join("history"), "");
    let write = format!("cd '{}' && echo x > history && echo x > settings.json", agent.display());
    let inside = run_inside(&env, &["--rw", text(&agent)], &write);
    assert!(!inside.success(), "{inside:#?}");
    assert_eq!(
        fs::read_to_string(agent.join("history")).expect("read"),
        "x\n",
        "control: the rest is writable"
    );
    assert_eq!(fs::read_to_string(agent.join("settings.json")).expect("read"), "{}");
}

#[test]
fn our_own_directories_and_unnamed_credentials_are_covered_in_a_grant() {
    for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
        for exists in [true, false] {
            let env = TestEnv::new();
            let base = env.dir(env.home().join("s"));
            if exists {
                env.file(base.join("ai-jail/config.toml"), "");
            }
            let env = env.var(name, &base);
            let write = format!(
                "cd '{}'; echo hi > allowed; ls -A ai-jail | grep . ; echo 'profile = \"devbox\"' >> ai-jail/config.toml; \
                 mv ai-jail other; mkdir -p ai-jail/log; echo x > ai-jail/log/x",
                base.display()
            );
            let inside = run_inside(&env, &["--rw", text(&base)], &write);
            assert!(!inside.success() && inside.stdout == "begun\n", "{name} {exists}: {inside:#?}");
            assert!(base.join("allowed").exists(), "control: the rest is writable");
            let written = fs::read_to_string(base.join("ai-jail/config.toml")).unwrap_or_default();
            assert_eq!(written, "", "{name} {exists}");
            assert!(!base.join("other").exists(), "{name} {exists}");
        }
    }
    let env = TestEnv::new();
    let config = env.home().join(".config");
    env.file(config.join("gh/hosts.yml"), "secret\n");
    env.file(config.join("tool/settings"), "fine\n");
    let read = format!("cat '{0}/tool/settings' '{0}/gh/hosts.yml'", config.display());
    env.outside(&read).ok();
    for access in ["--ro", "--rw"] {
        let inside = run_inside(&env, &[access, text(&config)], &read);
        assert_eq!(inside.stdout, "begun\nfine\n", "{inside:#?}");
        assert!(inside.stderr.contains("--ro") && inside.stderr.contains("gh"), "it is said: {inside:#?}");
    }
    let named = config.join("gh");
    let flags = ["--ro", text(&config), "--ro", text(&named)];
    assert_eq!(run_inside(&env, &flags, &read).ok(), "begun\nfine\nsecret\n", "named by the user");
}

#[test]
fn a_home_that_is_the_project_hides_what_its_credential_places_lead_to() {
    let env = TestEnv::new();
    let home = env.home();
    env.file(home.join("real-aws/credentials"), "secret\n");
    env.file(home.join("notes"), "notes\n");
    symlink("real-aws", home.join(".aws")).expect("symlink");
    let read = "cd; cat notes; cat .aws/credentials || cat real-aws/credentials";
    env.outside(read).ok();
    let inside = run_inside(&env, &["--project", text(&home)], read);
    assert_eq!(inside.stdout, "begun\nnotes\n", "{inside:#?}");
    let rename = run_inside(&env, &["--project", text(&home)], "cd; mkdir -p .config/x; mv .local .other");
    assert!(!rename.success() && !home.join(".other").exists(), "{rename:#?}");
}

#[test]
fn read_only_holds_under_every_name() {
    let env = TestEnv::new();
    env.file("ro/x", "before\n");
    let alias = format!("{}:/mnt/alias", env.project().display());
    let inside = run_inside(
        &env,
        &["--ro", "ro", "--rw", &alias],
        "echo y > /mnt/alias/free && ! echo y > /mnt/alias/ro/x && ! mv /mnt/alias/ro /mnt/alias/other",
    );
    assert!(inside.success(), "{inside:#?}");
    assert_eq!(fs::read_to_string(env.project().join("ro/x")).expect("read"), "before\n");
}

#[test]
fn a_grant_does_not_follow_a_symlink_out_of_what_an_agent_writes() {
    let env = TestEnv::new();
    let notes = env.file(env.root().join("private/notes"), "secret\n");
    env.file("real/file", "fine\n");
    symlink(&notes, env.project().join("f")).expect("symlink");
    symlink(env.root().join("private"), env.project().join("d")).expect("symlink");
    symlink("real", env.project().join("rl")).expect("symlink");
    for path in ["./f", "d", "d/notes"] {
        for access in ["--ro", "--rw"] {
            env.refused_saying(&[access, path], &["true"], "leads out of");
        }
    }
    for path in ["rl", "rl/file"] {
        assert_eq!(run_inside(&env, &["--ro", path], "cat rl/file").ok(), "begun\nfine\n", "{path}");
        assert!(!run_inside(&env, &["--ro", path], "echo x > real/file").success(), "{path}");
    }
    let other = env.dir(env.root().join("other"));
    symlink(env.root().join("private"), other.join("out")).expect("symlink");
    env.refused_saying(&["--rw", text(&other), "--ro", text(&other.join("out"))], &["true"], "leads out of");
    // A link of the user's own is the user's word.
    let own = env.home().join("own");
    symlink(env.root().join("private"), &own).expect("symlink");
    run_inside(&env, &["--ro", text(&own)], &with_root(&env, "cat ~/own/notes")).ok();
}

#[test]
fn what_the_agent_does_to_the_private_home_does_not_stop_the_next_launch() {
    let env = TestEnv::new();
    let home = env.home();
    let project = env.dir(home.join("src/p"));
    let run = |script: &str| {
        let mut command = env.launcher(["--", "sh", "-c", script]);
        output_of(command.current_dir(&project), DEADLINE)
    };
    let taken: String = (1..100).map(|number| format!("~/src.moved-aside-{number} ")).collect();
    for (claim, script) in [
        ("the home closed", "chmod 000 ~"),
        ("a parent of the project made anew and closed", "mv ~/src ~/s2 && mkdir -m 000 ~/src"),
        ("a file in its place, and every name taken", &format!("mv ~/src ~/s3 && touch ~/src {taken}")),
        ("a symlink in its place", "mv ~/src ~/s4 && ln -s / ~/src"),
    ] {
        let took = run(&format!("{script} && echo took"));
        assert_eq!(took.ok(), "took\n", "control: {claim}");
        let again = run("echo works > out && cat out && echo x > ~/kept");
        assert_eq!(again.stdout, "works\n", "{claim}: {again:#?}");
    }
    assert!(project.join("out").exists(), "control: it was the project");
}

#[test]
fn places_of_the_system_are_no_project() {
    let env = TestEnv::new();
    for place in [
        "/proc",
        "/proc/self",
        "/dev",
        "/dev/shm",
        "/sys",
        "/etc",
        "/tmp",
        "/var/tmp",
        "/run",
        "/usr",
        "/var",
        "/boot",
        "/home",
    ] {
        if Path::new(place).is_dir() {
            env.refused_saying(&["--project", place], &["true"], "cannot be the project");
            let mut command = env.launcher(["--", "true"]);
            output_of(command.current_dir(place), DEADLINE).refused();
        }
    }
}

#[test]
fn a_grant_without_a_place_in_the_jail_is_refused_in_a_sentence() {
    let env = TestEnv::new();
    let real = env.dir(env.root().join("real"));
    let file = env.file(env.root().join("file"), "text\n");
    let home = env.home();
    env.dir(home.join("sub"));
    let at = |source: &Path, dest: &str| format!("{}:{dest}", source.display());
    let above = text(home.parent().expect("a parent")).to_owned();
    for dest in [
        "/bin",
        "/bin/foo",
        "/usr/bin/foo",
        "/usr",
        "/etc",
        "/etc/passwd",
        "/proc",
        "/dev/x",
        "/sys",
        "/tmp",
        "/var",
        "/run",
        text(&home),
        &above,
        text(&env.project()),
    ] {
        env.refused_saying(&["--ro", &at(&real, dest)], &["true"], "cannot be granted");
        env.refused_saying(&["--ro", &at(&file, dest)], &["true"], "cannot be granted");
    }
    for source in ["/proc", "/proc/self", "/dev", "/dev/null", "/sys", "/run", "/tmp", "/etc"] {
        env.refused_saying(&["--ro", source], &["true"], "cannot be granted");
    }
    env.refused_saying(
        &["--ro", &at(&real, text(&env.project().join("missing")))],
        &["true"],
        "nothing is made",
    );
    let mut command = env.launcher(["--ro", "..", "--", "true"]);
    let output = output_of(command.current_dir(home.join("sub")), DEADLINE);
    assert!(output.refused().contains("whole home"), "{output:#?}");
    // Where there is a place it is shown there.
    for (dest, read) in
        [("/mnt/x", "cat /mnt/x"), (text(&home.join("deep/er")), "cat ~/deep/er"), ("/tmp/x", "cat /tmp/x")]
    {
        assert_eq!(run_inside(&env, &["--ro", &at(&file, dest)], read).ok(), "begun\ntext\n", "{dest}");
    }
    env.file(home.join(".config/pip/pip.conf"), "[global]\nindex-url = https://r.example/\n");
    run_inside(&env, &["--rw", text(&home.join(".config"))], "echo x > ~/.config/new").ok();
    assert!(home.join(".config/new").exists(), "a writable grant is the host's directory");
}

#[test]
fn a_toolchain_shows_no_tokens() {
    let env = TestEnv::new();
    let home = env.home();
    env.file(home.join(".nvm/nvm.sh"), "fine\n");
    env.file(home.join(".nvm/versions/node/v20/etc/npmrc"), "secret\n");
    env.file(home.join("tools/.env"), "secret\n");
    env.file(home.join("tools/bin/tool"), "fine\n");
    env.dir(home.join("tools/lib"));
    env.file(home.join(".claude/.credentials.json"), "secret\n");
    let bundle = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n";
    let pem = env.file(home.join("ca/both.pem"), bundle);
    let env = env.path(&format!("{}:/usr/bin:/bin", home.join("tools/bin").display()));
    let env = env
        .var("JAVA_HOME", home.join(".claude"))
        .var("SSL_CERT_FILE", &pem)
        .var("NODE_EXTRA_CA_CERTS", &pem);
    let home = home.display();
    let fine = format!("cat '{home}/.nvm/nvm.sh' '{home}/tools/bin/tool'");
    run_inside(&env, &[], &fine).ok();
    for secret in [
        format!("'{home}/.nvm/versions/node/v20/etc/npmrc'"),
        format!("'{home}/tools/.env'"),
        format!("'{home}/.claude/.credentials.json'"),
        "\"$SSL_CERT_FILE\"".to_owned(),
        format!("'{home}/ca/both.pem'"),
    ] {
        assert!(env.outside(&format!("grep secret {secret}")).success(), "control: {secret}");
        let inside = run_inside(&env, &[], &format!("grep secret {secret}"));
        assert!(!inside.success(), "{secret}: {inside:#?}");
    }
}

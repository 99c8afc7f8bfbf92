//! Secrets of which the jail has fakes (TLS-1, TLS-4, TLS-5, TLS-8, TLS-9): where the values come from, that they are
//! nowhere, and what the jail trusts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::common::{DEADLINE, Feature, Output, TestEnv, missing};
use super::unique;

/// A token as GitHub's are.
fn token() -> String {
    let unique = unique("");
    let mut text: String = unique.bytes().rev().filter(u8::is_ascii_alphanumeric).map(char::from).collect();
    text.extend(std::iter::repeat_n('q', 36));
    format!("ghp_{}", &text[..36])
}

fn with_token(token: &str) -> TestEnv {
    TestEnv::new().var("TOKEN", token)
}

const BOUND: [&str; 2] = ["--secret", "TOKEN=api.example"];

fn bound<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    BOUND.iter().chain(rest).copied().collect()
}

#[track_caller]
fn like(fake: &str, value: &str) {
    assert_eq!(fake.len(), value.len(), "{fake}");
    assert!(fake.starts_with("ghp_") && fake != value, "{fake}");
    assert!(fake[4..].bytes().all(|byte| byte.is_ascii_alphanumeric()), "{fake}");
}

/// Every regular file below `directory` that has `text` in it.
fn files_with(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let kind = entry.file_type().expect("a type");
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                let is_in = bytes.windows(text.len()).any(|window| window == text.as_bytes());
                found.extend(is_in.then(|| entry.path()));
            }
        }
    }
    found
}

fn says(output: &Output, text: &str) -> bool {
    output.stdout.contains(text) || output.stderr.contains(text)
}

#[test]
fn the_value_is_nowhere_in_the_jail_and_in_nothing_that_is_written_or_said() {
    let value = token();
    let env = with_token(&value);
    // A pattern that does not match itself.
    let pattern = format!("[{}]{}", &value[..1], &value[1..]);
    let count =
        format!("cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '{pattern}'");
    assert_ne!(env.outside(&count).stdout, "0\n", "control");
    let search =
        format!("grep -rl '{pattern}' / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr 2>/dev/null");
    let output = env.jail(bound(&["--", "sh", "-c", &format!("echo $TOKEN; {count}; {search}")]));
    let lines: Vec<&str> = output.stdout.lines().collect();
    like(lines[0], &value);
    assert_eq!(lines[1..], ["0"], "{output:#?}");
    let output = env.jail(bound(&["--", "sh", "-c", "env; cat /proc/*/environ 2>/dev/null; true"]));
    assert!(output.success() && !says(&output, &value), "{output:#?}");
    for flags in [&["--dry-run"][..], &["--dry-run", "--json"], &["--dry-run", "-v"]] {
        let output = env.jail(bound(&[flags, &["--", "true"]].concat()));
        assert!(output.success() && !says(&output, &value), "{flags:?}: {output:#?}");
    }
    for question in ["TOKEN", "api.example"] {
        let output = env.jail(["explain", "--secret", "TOKEN=api.example", question]);
        assert!(output.success() && !says(&output, &value), "{output:#?}");
    }
    assert_eq!(files_with(env.root(), &value), Vec::<PathBuf>::new());
    let logs = env.home().join(".local/state/ai-jail/log");
    let named = files_with(&logs, "\"secrets\":[\"TOKEN\"]");
    assert!(!named.is_empty(), "the log names what was masked");
}

#[test]
fn a_variable_that_is_masked_comes_in_by_no_other_way() {
    let value = token();
    let env = with_token(&value);
    env.config("[environment]\ninherit = \"all\"\nignore_default_excludes = true\npass = [\"OTHER\"]\n[secrets]\nDENIED = { mode = \"deny\" }\n");
    let env = env.var("DENIED", &value).var("OTHER", "x");
    let output = env.jail(bound(&["--", "sh", "-c", "echo $OTHER; echo ${DENIED-unset}; echo $TOKEN"]));
    let lines: Vec<&str> = output.ok().lines().collect();
    assert_eq!(lines[..2], ["x", "unset"]);
    like(lines[2], &value);
}

#[test]
fn a_private_home_keeps_its_fakes_and_its_seed_is_not_in_it() {
    let value = token();
    let env = with_token(&value);
    let seen = |flags: &[&str]| {
        env.jail(bound(&[flags, &["--", "sh", "-c", "printf %s $TOKEN"]].concat())).ok().to_owned()
    };
    let first = seen(&[]);
    assert_eq!(seen(&[]), first, "an agent that knows it need not ask again");
    let ephemeral = seen(&["--home", "ephemeral"]);
    assert!(ephemeral != first && seen(&["--home", "ephemeral"]) != ephemeral);
    let find = format!("find {} -name seed -type f", env.home().join(".local/share/ai-jail").display());
    let seeds = env.outside(&find);
    let seeds: Vec<&str> = seeds.ok().lines().collect();
    assert_eq!(seeds.len(), 1, "control: {seeds:?}");
    assert_eq!(fs::metadata(seeds[0]).expect("a seed").permissions().mode() & 0o777, 0o600);
    let inside =
        env.inside("find / -xdev -name seed -size -2 2>/dev/null | grep -v ^/usr; find $HOME -name seed");
    assert_eq!(inside.stdout, "", "{inside:#?}");
}

#[test]
fn a_variable_without_a_value_is_refused_with_what_to_do() {
    for (env, why) in [(TestEnv::new(), "not set"), (TestEnv::new().var("TOKEN", ""), "empty")] {
        let output = env.jail(bound(&["--", "sh", "-c", "touch ran"]));
        let said = output.refused();
        assert!(said.contains(why) && said.contains("--env-file") && said.contains("TOKEN"), "{said}");
        assert!(!env.project().join("ran").exists());
    }
    for value in ["two\nlines and more of it to be long", "short"] {
        let env = with_token(value);
        let output = env.jail(bound(&["--", "true"]));
        assert!(!output.refused().contains(value), "{output:#?}");
    }
}

#[test]
fn an_env_file_gives_values_when_it_is_the_users_alone() {
    let value = token();
    let env = TestEnv::new();
    let file =
        env.file(env.root().join("keys.env"), format!("# keys\nexport TOKEN='{value}'\nUNNAMED=other\n"));
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    let run = |path: &Path| {
        env.jail(bound(&[
            "--env-file",
            path.to_str().expect("UTF-8"),
            "--",
            "sh",
            "-c",
            "echo $TOKEN${UNNAMED-}",
        ]))
    };
    set(&file, 0o600);
    like(run(&file).ok().trim_end(), &value);
    set(&file, 0o644);
    assert!(run(&file).refused().contains("0644"));
    let inside = env.file("keys.env", format!("TOKEN={value}\n"));
    set(&inside, 0o600);
    assert!(run(&inside).refused().contains("where a jail can write"));
    let missing = run(Path::new("/nonexistent/keys"));
    assert!(missing.refused().contains("no such file"), "{missing:#?}");
}

#[test]
fn a_command_outside_prints_the_value_and_one_revokes_it_however_the_jail_ends() {
    let value = token();
    let env = TestEnv::new();
    let tools = env.root().join("tools");
    let told = env.root().join("told");
    env.script(tools.join("mint"), &format!("echo minted >> {}; echo {value}", told.display()));
    env.script(tools.join("revoke"), &format!("echo \"revoked $TOKEN\" >> {}", told.display()));
    env.script(tools.join("fail"), "echo 'not logged \x1bin' >&2; echo more >&2; exit 3");
    let tool = |name: &str| tools.join(name).display().to_string();
    let config = |more: &str| {
        env.config(&format!(
            "[secrets.TOKEN]\nhosts = [\"api.example\"]\nfrom = [\"{}\"]\nrevoke = [\"{}\"]\n{more}",
            tool("mint"),
            tool("revoke")
        ))
    };
    let both = format!("minted\nrevoked {value}\n");
    let take = || {
        let text = fs::read_to_string(&told).unwrap_or_default();
        let _ = fs::remove_file(&told);
        text
    };
    config("");
    let output = env.inside("printf %s $TOKEN");
    like(output.ok(), &value);
    assert_eq!(take(), both);
    env.jail(["--dry-run", "--", "true"]).ok();
    env.jail(["explain", "TOKEN"]).ok();
    assert_eq!(take(), "", "nothing is run to see what would be done");
    assert_eq!(env.inside("exit 7").code(), 7);
    assert_eq!(take(), both, "after a failure");
    let mut jail = env.jail_running(["--", "sh", "-c", "echo runs; sleep 100"]);
    jail.take("runs");
    let pid = Pid::from_raw(jail.pid().try_into().expect("a pid")).expect("a pid");
    kill_process(pid, Signal::TERM).expect("kill");
    let ended = jail.finish(DEADLINE);
    assert!(!ended.timed_out, "{ended:#?}");
    assert_eq!(take(), both, "after a signal");
    config(&format!("[secrets.ZZZ]\nhosts = [\"api.example\"]\nfrom = [\"{}\"]\n", tool("fail")));
    let output = env.inside("touch ran");
    let said = output.refused();
    assert!(said.contains("ZZZ") && said.contains("not logged \\x1bin") && !said.contains("more"), "{said}");
    assert_eq!(take(), both, "after a launch that failed");
    config("");
    let output = env.jail(["--", "/nonexistent"]);
    assert_eq!(output.code(), 127, "{output:#?}");
    assert!(["", both.as_str()].contains(&take().as_str()), "none, or both");
    env.script(tools.join("revoke"), "echo gone >&2; exit 1");
    let output = env.inside("true");
    assert!(output.success() && output.stderr.contains("TOKEN could not be revoked by"), "{output:#?}");
    assert!(output.stderr.contains("gone") && !says(&output, &value), "{output:#?}");
    take();
    env.script("mint", &format!("touch {}", told.display()));
    env.config(&format!(
        "[secrets.TOKEN]\nhosts = [\"api.example\"]\nfrom = [\"{}\"]\n",
        env.project().join("mint").display()
    ));
    let output = env.inside("true");
    assert!(!output.success() && output.stderr.contains("where a jail can write"), "{output:#?}");
    assert!(!output.stderr.contains("not found") && !output.stderr.contains("absolute"), "{output:#?}");
    assert!(!told.exists(), "the project's program was not run");
}

#[test]
fn a_file_with_secrets_is_a_copy_with_fakes_wherever_it_lies() {
    let value = token();
    let env = TestEnv::new();
    let content = format!("{{\"user\": \"me\", \"token\": \"{value}\"}}\n");
    env.config(
        "[[secrets.files]]\npath = \"~/.config/tool/auth.json\"\nhosts = [\"api.example\"]\n\
         extract = '\"token\": \"([^\"]+)\"'\n",
    );
    env.file(env.home().join(".config/tool/auth.json"), &content);
    let project = env.file("conf/token", format!("{value}\n"));
    let granted = env.file(env.root().join("data/token"), format!("{value}\n"));
    env.file(env.root().join("data/other"), "plain\n");
    let elsewhere = env.file(env.root().join("else/token"), format!("{value}\n"));
    let mut flags = vec!["--ro".to_owned(), env.root().join("data").display().to_string()];
    for path in [&project, &granted, &elsewhere] {
        flags.extend(["--secret-file".to_owned(), format!("{}=api.example", path.display())]);
    }
    let run =
        |script: &str| env.jail(flags.iter().cloned().chain(["--", "sh", "-c", script].map(str::to_owned)));
    let read = format!(
        "cat conf/token {} {}; cat ~/.config/tool/auth.json {}",
        granted.display(),
        elsewhere.display(),
        env.root().join("data/other").display()
    );
    assert_eq!(env.outside(&read).ok().matches(&value).count(), 4, "control");
    let output = run(&read);
    let lines: Vec<&str> = output.ok().lines().collect();
    lines[..3].iter().for_each(|line| like(line, &value));
    let start = "{\"user\": \"me\", \"token\": \"";
    let fake = lines[3].strip_prefix(start).and_then(|rest| rest.strip_suffix("\"}"));
    like(fake.expect("all else is as it was"), &value);
    assert_eq!(lines[4], "plain");
    // A pattern that is not the value, which an argument would not have.
    let pattern = format!("[{}]{}", &value[..1], &value[1..]);
    assert_ne!(env.outside(&format!("grep -rl '{pattern}' {}", env.root().display())).stdout, "", "control");
    let search = format!("grep -rl '{pattern}' {} ~ /run /tmp 2>/dev/null; true", env.root().display());
    assert_eq!(run(&search).ok(), "");
    for write in
        ["echo x > conf/token", "rm conf/token", "mv conf/token conf/t", "mv conf c", "ln conf/token l"]
    {
        assert!(!run(write).success(), "{write}");
    }
    // Named and gone: it may have another name now.
    fs::rename(&project, env.project().join("conf/moved")).expect("rename");
    let output = run("true");
    assert!(output.code() == 125 && output.stderr.contains("conf/token"), "{output:#?}");
}

#[test]
fn a_file_with_secrets_that_is_denied_is_not_there() {
    let value = token();
    let env = TestEnv::new();
    let inside = env.file("conf/token", format!("{value}\n"));
    let outside = env.file(env.root().join("else/token"), format!("{value}\n"));
    for (file, denied) in
        [(&inside, "conf/*"), (&inside, "conf"), (&outside, outside.to_str().expect("UTF-8"))]
    {
        let bound = format!("{}=api.example", file.display());
        let read = format!("cat {}", file.display());
        let run = |flags: &[&str]| {
            env.jail([&["--secret-file", &bound], flags, &["--", "sh", "-c", &read]].concat())
        };
        like(run(&[]).ok().trim_end(), &value);
        let output = run(&["--deny", denied]);
        assert!(!output.success() && output.stdout.is_empty(), "{denied}: {output:#?}");
        assert!(output.stderr.contains("it is denied (--deny), which wins"), "{denied}: {output:#?}");
    }
}

#[test]
fn a_value_in_the_url_of_a_remote_is_said_to_be_read() {
    let value = token();
    let env = with_token(&value);
    env.outside("git init -q .; git remote add origin https://api.example/a").ok();
    let said = || env.jail(bound(&["--", "true"])).stderr;
    assert!(!said().contains("git remote set-url"), "{}", said());
    env.outside("git remote set-url origin https://x:$TOKEN@api.example/a").ok();
    let warning = said();
    assert!(warning.contains(".git/config, which the jail reads as it is"), "{warning}");
    assert!(!warning.contains(&value), "{warning}");
}

#[test]
fn a_copy_with_fakes_does_not_get_into_git_by_the_way() {
    let env = TestEnv::new();
    env.outside("git init -q .").ok();
    let file = env.file("conf/token", format!("{}\n", token()));
    assert!(env.outside("git status --porcelain").ok().contains("conf/"), "control: git would add it");
    let named = format!("{}=api.example", file.display());
    let script = "echo x > new; git add -A; git status --porcelain";
    let output = env.jail(["--secret-file", &named, "--", "sh", "-c", script]);
    assert_eq!(output.ok(), "A  new\n");
}

#[test]
fn secrets_of_one_value_have_one_fake() {
    let value = token();
    let env = with_token(&value).var("OTHER", &value);
    let output =
        env.jail(bound(&["--secret", "OTHER=b.example", "--", "sh", "-c", "echo $TOKEN; echo $OTHER"]));
    let lines: Vec<&str> = output.ok().lines().collect();
    like(lines[0], &value);
    assert_eq!(lines[0], lines[1]);
}

#[test]
fn a_file_with_secrets_that_is_replaced_outside_does_not_show_through() {
    let value = token();
    let env = TestEnv::new();
    let file = env.file("token", format!("{value}\n"));
    let flag = format!("{}=api.example", file.display());
    let script = "echo begun; while ! test -e go; do sleep 0.05; done; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; cat token; echo end";
    let mut jail = env.jail_running(["--secret-file", &flag, "--", "sh", "-c", script]);
    jail.take("begun");
    let new = env.file("new", format!("{value}\n"));
    fs::rename(new, &file).expect("rename");
    env.file("go", "");
    let output = jail.finish(DEADLINE);
    assert!(output.success() && output.stdout.contains("end") && !says(&output, &value), "{output:#?}");
}

#[test]
fn a_file_that_no_secret_is_found_in_is_refused() {
    let env = TestEnv::new();
    env.file("auth.json", "{\"key\": \"0123456789abcdef0123456789abcdef\"}");
    env.file(env.home().join("secret"), "0123456789abcdef0123456789abcdef");
    std::os::unix::fs::symlink(env.home().join("secret"), env.project().join("link")).expect("symlink");
    let config = |path: &str, more: &str| {
        env.config(&format!(
            "[[secrets.files]]\npath = \"{}\"\nhosts = [\"api.example\"]\n{more}",
            env.project().join(path).display()
        ))
    };
    config("auth.json", "extract = '\"key\": \"([^\"]+)\"'\n");
    env.inside("true").ok();
    for (path, more, why) in [
        ("auth.json", "extract = '\"token\": \"([^\"]+)\"'\n", "matches nothing"),
        ("missing", "", "no such file"),
        ("link", "", "symlink"),
    ] {
        config(path, more);
        let output = env.inside("touch ran");
        assert!(output.code() == 125 && output.stderr.contains(why), "{path}: {output:#?}");
    }
    assert!(!env.project().join("ran").exists());
}

#[test]
fn nobody_of_the_users_can_look_into_a_supervisor_that_has_secrets() {
    let Some(env) = TestEnv::ordinary() else {
        return missing(Feature::OrdinaryUser, "protected memory", "root looks into everything");
    };
    let value = token();
    let env = env.var("TOKEN", &value);
    let look = |flags: &[&str]| {
        let mut jail = env.jail_running([flags, &["--", "sh", "-c", "echo runs; sleep 100"]].concat());
        jail.take("runs");
        let pid = jail.pid();
        let read = env.outside(&format!("cat /proc/{pid}/maps >/dev/null 2>&1 && echo read"));
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).map(str::to_owned);
        jail.kill();
        let _ = jail.finish(Duration::from_secs(10));
        (read.stdout, core)
    };
    assert_eq!(look(&["--network", "off"]).0, "read\n", "control");
    let (read, core) = look(&BOUND);
    assert_eq!(read, "");
    if let Some(core) = core {
        let words: Vec<&str> = core.split_whitespace().collect();
        assert_eq!(words[4..6], ["0", "0"], "{core}");
    }
}

#[test]
fn every_place_where_programs_look_has_the_roots_of_the_host_and_of_the_session() {
    let env = with_token(&token());
    let run = |script: &str| env.jail(bound(&["--", "sh", "-c", script]));
    let script = "cd /run/ai-jail; for name in SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS \
        GIT_SSL_CAINFO CARGO_HTTP_CAINFO PIP_CERT AWS_CA_BUNDLE DENO_CERT CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE \
        GRPC_DEFAULT_SSL_ROOTS_FILE_PATH npm_config_cafile; do \
            eval test -f \\\"\\$$name\\\" && eval cmp \\\"\\$$name\\\" ca-certificates.pem || echo $name; done; \
        for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do \
            if test -e $file; then cmp $file ca-certificates.pem; fi; done; grep -c BEGIN ca-certificates.pem session-ca.pem";
    let output = run(script);
    let lines: Vec<&str> = output.ok().lines().collect();
    let [all, one] = lines[..] else { panic!("{output:#?}") };
    let count = |line: &str| line.rsplit(':').next().and_then(|count| count.parse::<usize>().ok());
    assert_eq!(count(one), Some(1), "{output:#?}");
    assert!(count(all) > Some(1), "the host's are there too: {output:#?}");
    let without = env.jail(["--network", "off", "--", "sh", "-c", "ls /run/ai-jail"]);
    assert!(!without.ok().contains("session-ca"), "none where nobody looks into TLS");
    if Feature::Program("openssl").present() {
        let verify = "cd /run/ai-jail && openssl verify -CAfile ca-certificates.pem session-ca.pem && \
            env -u SSL_CERT_FILE openssl verify -CApath /etc/ssl/certs -no-CAfile session-ca.pem";
        assert_eq!(run(verify).ok().matches(": OK").count(), 2, "{:#?}", run(verify));
    } else {
        missing(Feature::Program("openssl"), "verifying by file and by directory", "it is not installed");
    }
    if Feature::Program("keytool").present() {
        let list = "grep -c BEGIN /run/ai-jail/ca-certificates.pem; keytool -list -keystore /run/ai-jail/cacerts.jks \
            -storepass changeit 2>/dev/null | grep -c trustedCertEntry; \
            keytool -list -cacerts -storepass changeit 2>/dev/null | grep -c trustedCertEntry";
        let output = run(list);
        let counts: Vec<&str> = output.ok().lines().collect();
        assert_eq!(counts[0], counts[1], "{output:#?}");
        assert_eq!(counts[0], counts[2], "Java's own store is this one: {output:#?}");
    } else {
        missing(Feature::Program("keytool"), "reading Java's store with Java", "it is not installed");
    }
}

#[test]
fn what_is_shown_of_the_systems_roots_stays_as_it_is_and_variables_lead_to_the_authority() {
    let env = with_token(&token());
    let verify = "ls /etc/ssl/certs | wc -l; grep -c BEGIN $SSL_CERT_FILE; grep -l -r -F \"$(sed -n 2p /run/ai-jail/session-ca.pem)\" \
        $SSL_CERT_FILE /etc/ssl/certs";
    let count = env.outside("ls /etc/ssl/certs | wc -l");
    let granted = "is shown as it is";
    for (flags, is_said) in
        [(&["--ro", "/etc/ssl"][..], true), (&["--profile", "devbox", "--network", "filtered"], false)]
    {
        let rest = ["--allow-host", "api.example", "--", "sh", "-c", verify];
        let output = env.jail(bound(&[flags, &rest].concat()));
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert_eq!(lines[0], count.ok().trim_end(), "{flags:?}: {output:#?}");
        assert!(lines[1].parse::<usize>().expect("a count") > 1, "{output:#?}");
        assert_eq!(lines[2..], ["/run/ai-jail/ca-certificates.pem"], "{output:#?}");
        assert_eq!(output.stderr.matches(granted).count(), usize::from(is_said), "{output:#?}");
    }
    // Registries are read, so that this looks into TLS as well.
    let output = env.jail(["--ro", "/etc/ssl", "--", "true"]);
    assert!(output.success() && output.stderr.contains(granted), "{output:#?}");
}

#[test]
fn other_variables_and_arguments_have_the_fake_for_the_value() {
    let value = token();
    let encoded = value.replace('_', "%5f");
    let url = format!("postgres://u:{value}@h/{encoded}");
    let env = with_token(&value).var("MYPAT", &value).var("DBURL", &url).var("PLAIN", "plain");
    let print =
        "echo \"$TOKEN\"; echo \"$MYPAT\"; echo \"$DBURL\"; echo \"$PLAIN\"; echo \"$1\"; echo \"$2\"";
    let argument = format!("--token={value}");
    let run = |flags: &[&str]| {
        env.jail(bound(&[flags, &["--", "sh", "-c", print, "sh", &argument, "other"]].concat()))
    };
    for flags in [
        &["--inherit-env", "all"][..],
        &["--env", "MYPAT", "--env", "DBURL", "--env", "PLAIN"],
        &["--env", &format!("MYPAT={value}"), "--env", &format!("DBURL={url}"), "--env", "PLAIN"],
        &["--network", "off", "--env", "MYPAT", "--env", "DBURL", "--env", "PLAIN"],
    ] {
        let output = run(flags);
        assert!(output.success() && !says(&output, &value) && !says(&output, &encoded), "{output:#?}");
        let lines: Vec<&str> = output.stdout.lines().collect();
        let fake = lines[0];
        like(fake, &value);
        assert!(lines[2].starts_with(&format!("postgres://u:{fake}@h/ghp")), "{output:#?}");
        assert_eq!([lines[1], lines[3]], [fake, "plain"], "{output:#?}");
        assert_eq!([lines[4], lines[5]], [&format!("--token={fake}"), "other"], "{output:#?}");
        let said: Vec<&str> = output.stderr.lines().filter(|line| line.contains("is also in")).collect();
        let [said] = said[..] else { panic!("one line: {output:#?}") };
        assert!(["MYPAT", "DBURL", "an argument"].iter().all(|place| said.contains(place)), "{said}");
        assert!(!said.contains("PLAIN") && !said.contains("TOKEN"), "{said}");
    }
    let output = env.jail(bound(&["--", "true"]));
    assert!(!output.stderr.contains("is also in"), "{output:#?}");
}

#[test]
fn an_env_file_is_empty_inside_by_whatever_name_it_has() {
    let value = token();
    let env = TestEnv::new();
    let file = env.file(env.root().join("keys/a.env"), format!("TOKEN={value}\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");
    let other = env.project().join("other.env");
    fs::hard_link(&file, &other).expect("link");
    let read = format!("cat {} other.env; echo end; echo $TOKEN", file.display());
    assert_eq!(env.outside(&read).stdout.matches(&value).count(), 2, "control");
    let keys = env.root().join("keys");
    // Directories may be reached by other names.
    std::os::unix::fs::symlink(&keys, env.root().join("linked")).expect("symlink");
    for named in [file.clone(), env.root().join("linked/a.env"), env.root().join("keys/../keys/a.env")] {
        for granted in [&keys, &file] {
            let [named, granted] = [&named, granted].map(|path| path.to_str().expect("UTF-8"));
            let flags = ["--env-file", named, "--ro", granted, "--", "sh", "-c", &read];
            let output = env.jail(bound(&flags));
            let lines: Vec<&str> = output.ok().lines().collect();
            assert!(lines.len() == 2 && lines[0] == "end" && !says(&output, &value), "{output:#?}");
            like(lines[1], &value);
        }
    }
}

#[test]
fn a_value_that_http_does_not_carry_as_it_is_is_said() {
    let file = token();
    let env = with_token(&format!("{} ", token()));
    let path = env.file("auth.json", format!("{{\"token\": \"\t{file}\"}}"));
    env.config(&format!(
        "[[secrets.files]]\npath = \"{}\"\nhosts = [\"api.example\"]\nextract = '\"token\": \"([^\"]+)\"'\n",
        path.display()
    ));
    let output = env.jail(bound(&["--", "true"]));
    let said: Vec<&str> = output.stderr.lines().filter(|line| line.contains("white space")).collect();
    assert!(output.success() && said.len() == 2, "{output:#?}");
    assert!(said[0].contains("TOKEN") && said[1].contains("auth.json"), "{said:?}");
    let output = with_token(&token()).jail(bound(&["--", "true"]));
    assert!(output.success() && !output.stderr.contains("white space"), "{output:#?}");
}

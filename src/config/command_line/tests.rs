use super::*;
use crate::config::settings::ResolveTarget;

fn read(change: impl FnOnce(&mut RunOptions)) -> Result<(Tables, Vec<String>)> {
    let mut options = RunOptions::default();
    change(&mut options);
    let mut warnings = Vec::new();
    let tables = tables(&options, Path::new("/work/p"), Path::new("/home/me"), &mut warnings)?;
    Ok((tables, warnings))
}

#[test]
fn a_grant_of_the_command_line_starts_at_the_current_directory() {
    let cases = [
        ("/a", "/a", "/a"),
        ("x", "/work/p/x", "/work/p/x"),
        ("../x", "/work/p/../x", "/work/p/../x"),
        ("~/x", "/home/me/x", "/home/me/x"),
        ("x:/in", "/work/p/x", "/in"),
        ("/a/**:/in", "/a", "/in"),
    ];
    for (text, source, dest) in cases {
        let (tables, warnings) = read(|options| options.rw = vec![text.into()]).unwrap();
        let want = GrantSpec { source: source.into(), dest: dest.into() };
        assert_eq!(tables.read_write, [Sourced::new(want, Origin::flag("--rw"))], "{text}");
        assert!(warnings.is_empty());
    }
}

#[test]
fn a_grant_with_a_glob_or_white_space_is_skipped_with_its_reason() {
    let (tables, warnings) = read(|options| options.ro = vec!["/a/*.pem".into(), " /b".into()]).unwrap();
    assert!(tables.read_only.is_empty());
    assert_eq!(
        warnings,
        [
            "--ro: skipped `/a/*.pem`; a grant is a directory or a file, not a glob (only a trailing /** or /* is \
             understood)",
            "--ro: skipped ` /b`; it begins or ends with white space, which would be part of the path",
        ]
    );
}

#[test]
fn values_are_read_and_remember_their_option() {
    let (tables, _) = read(|options| {
        options.env = vec!["A=b=c".into(), "CI".into(), "E=".into()];
        options.resolve = vec!["API.example.com=192.0.2.7:8443".into()];
        options.limit = vec!["memory=1G".into(), "time=90s".into()];
        options.allow_private = vec!["Git.corp.example".into()];
    })
    .unwrap();
    assert_eq!(tables.env["A"].value, EnvValue::Set("b=c".to_owned()));
    assert_eq!(tables.env["CI"].value, EnvValue::Pass);
    assert_eq!(tables.env["E"].value, EnvValue::Set(String::new()));
    let target = ResolveTarget { addr: "192.0.2.7".parse().unwrap(), port: Some(8443) };
    assert_eq!(tables.resolve["api.example.com"].value, target);
    assert_eq!(tables.limits.memory, Some(flag("--limit memory", 1 << 30)));
    assert_eq!(tables.limits.time_seconds, Some(flag("--limit time", 90)));
    assert_eq!(tables.allow_private, [flag("--allow-private", "git.corp.example".to_owned())]);
}

#[test]
fn secrets_of_one_name_are_one_with_all_hosts() {
    let (tables, _) = read(|options| {
        options.secret = vec!["A=a.test,.b.test:8443".into(), "B=b.test".into(), "A=c.test".into()];
        options.secret_file = vec!["~/f=x.test".into(), "g=h=x.test".into()];
        options.env_file = vec![".env".into()];
    })
    .unwrap();
    let hosts = |name: &str| {
        let entry = &tables.secrets[name];
        assert_eq!((entry.mode, &entry.origin), (Some(SecretMode::Mask), &Origin::flag("--secret")));
        entry.hosts.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((hosts("A").as_str(), hosts("B").as_str()), ("a.test .b.test:8443 c.test", "b.test"));
    let files: Vec<_> = tables.secret_files.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(files, ["/home/me/f", "/work/p/g=h"]);
    assert_eq!(tables.env_files, [flag("--env-file", PathBuf::from("/work/p/.env"))]);
}

#[test]
fn a_bad_value_names_its_option() {
    let none = RunOptions::default;
    let cases = [
        (RunOptions { ro: vec!["".into()], ..none() }, "--ro cannot be ``; the path is empty"),
        (
            RunOptions { ro: vec!["/a:/b/../c".into()], ..none() },
            "--ro cannot be `/a:/b/../c`; the path inside cannot hold `..`",
        ),
        (
            RunOptions { env: vec!["=x".into()], ..none() },
            "--env cannot be `=...`; the name of a variable is not empty and holds no `=` and no NUL byte",
        ),
        (
            RunOptions { env: vec!["HOME=/x".into()], ..none() },
            "--env cannot be `HOME=...`; HOME is the jail's own; --home and --state say what is in it",
        ),
        (
            RunOptions { env: vec!["HOME".into()], ..none() },
            "--env cannot be `HOME`; HOME is the jail's own; --home and --state say what is in it",
        ),
        (
            RunOptions { env: vec!["AI_JAIL=0".into()], ..none() },
            "--env cannot be `AI_JAIL=...`; AI_JAIL tells programs that they run in a jail and is always 1",
        ),
        (
            RunOptions { resolve: vec!["h".into()], ..none() },
            "--resolve cannot be `h`; it takes HOST=ADDR or HOST=ADDR:PORT",
        ),
        (
            RunOptions { secret: vec!["KEY".into()], ..none() },
            "--secret cannot be `KEY`; it takes NAME=HOST, or NAME=HOST,HOST,...",
        ),
        (
            RunOptions { secret: vec!["KEY=*".into()], ..none() },
            "--secret cannot be `KEY=*`; a secret belongs to some hosts, not to every one; name them, for example \
             api.example.com",
        ),
        (
            RunOptions { secret: vec!["HOME=a.test".into()], ..none() },
            "--secret cannot be `HOME=a.test`; HOME is no secret: the jail has its own, and a fake in it would only break that; name the variable that holds the credential, for example GITHUB_TOKEN",
        ),
        (
            RunOptions { secret_file: vec!["/a/*=a.test".into()], ..none() },
            "--secret-file cannot be `/a/*=a.test`; it is one file, not a glob; name a file in /a",
        ),
        (RunOptions { env_file: vec!["".into()], ..none() }, "--env-file cannot be ``; the path is empty"),
        (
            RunOptions { limit: vec!["memry=1G".into()], ..none() },
            "--limit cannot be `memry=1G`; a limit is one of memory, pids, cpu, files, time; did you mean `memory`?",
        ),
        (
            RunOptions { limit: vec!["time=90".into()], ..none() },
            "--limit cannot be `time=90`; time is numbers with d, h, m or s, for example 2h, 90s or 1h30m",
        ),
        (
            RunOptions { limit: vec!["memory".into()], ..none() },
            "--limit cannot be `memory`; it takes KEY=VALUE; for example --limit memory=8G",
        ),
    ];
    for (options, want) in cases {
        assert_eq!(read(|o| *o = options).map(|_| ()).unwrap_err().to_string(), want);
    }
    assert!(read(|o| o.allow_host = vec!["*.com".into()]).is_err());
    assert!(read(|o| o.deny_host = vec!["".into()]).is_err());
}

#[test]
fn a_value_in_the_place_of_a_host_is_refused_and_not_repeated() {
    let jwt = format!("eyJhbGciOiJIUzI1NiJ9.{}.x", "a".repeat(40));
    let values = [
        "ghp_xyz123",
        "a.test,ghp_xyz123",
        "my_own_token_123",
        "SG.abcDEF0123456789",
        "abcdefghijk==",
        "abc=defghijk",
        &jwt,
    ];
    for value in values {
        for option in ["--secret", "--secret-file"] {
            let error = read(|o| match option {
                "--secret" => o.secret = vec![format!("TOKEN={value}")],
                _ => o.secret_file = vec![format!("/f={value}").into()],
            });
            // A path may have equals signs.
            if value.contains('=') && option == "--secret-file" {
                continue;
            }
            let said = error.map(|_| ()).unwrap_err().to_string();
            assert!(
                said.contains("where a host belongs") && !said.contains(value.trim_start_matches("a.test,")),
                "{said}"
            );
        }
    }
    for host in ["api.example.com", "localhost", "sk-web:443", "ghp_xyz123:443"] {
        assert!(read(|o| o.secret = vec![format!("TOKEN={host}")]).is_ok(), "{host}");
    }
}

#[test]
fn variables_of_the_launcher_are_words() {
    let set =
        |value: &'static str| move |name: &str| (name == "AI_JAIL_NETWORK").then(|| OsString::from(value));
    let none = std::iter::empty;
    let read = EnvScalars::read(set("off"), none()).unwrap();
    assert_eq!(read.network.map(|network| network.value), Some(NetworkMode::Off));
    assert_eq!(EnvScalars::read(set(""), none()).unwrap(), EnvScalars::default());
    assert_eq!(
        EnvScalars::read(set("on"), none()).unwrap_err().to_string(),
        "AI_JAIL_NETWORK cannot be `on`; a network mode is one of off, filtered, open"
    );
}

#[test]
fn every_variable_of_the_launcher_is_read_and_others_of_the_name_are_a_warning() {
    let values = [
        ("AI_JAIL_PROFILE", "strict"),
        ("AI_JAIL_NETWORK", "off"),
        ("AI_JAIL_HOME", "ephemeral"),
        ("AI_JAIL_STATE", "none"),
    ];
    let lookup =
        |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
    assert_eq!(values.map(|(name, _)| name), SCALARS);
    let names = SCALARS.iter().copied().chain([
        "AI_JAIL",
        "AI_JAIL_TEST_REQUIRE",
        "PATH",
        "AI_JAIL_NETWRK",
        "AI_JAIL_ALLOW_HOST_LIST",
    ]);
    let read = EnvScalars::read(lookup, names.map(OsStr::new)).unwrap();
    assert_eq!(read.profile.as_ref().map(|profile| profile.value), Some(Profile::Strict));
    let tables = read.tables();
    assert_eq!(tables.network.map(|network| network.value), Some(NetworkMode::Off));
    assert_eq!(tables.home.map(|home| home.value), Some(HomeMode::Ephemeral));
    assert_eq!(tables.state.map(|state| state.value), Some(StateMode::None));
    assert_eq!(
        read.warnings,
        [
            "the variable AI_JAIL_NETWRK is not known and has no effect; did you mean AI_JAIL_NETWORK?",
            "the variable AI_JAIL_ALLOW_HOST_LIST is not known and has no effect; the known ones are \
             AI_JAIL_PROFILE, AI_JAIL_NETWORK, AI_JAIL_HOME, AI_JAIL_STATE",
        ]
    );
}

//! Real clients: each reaches the allowed host and no other, whether it knows a proxy or not.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use super::common::servers::{PLAIN, REFUSED, SECURE, WebServer};
use super::common::{DEADLINE, Feature, Running, TestEnv, eventually, missing, on_path, start};
use super::run_inside;

/// The settings of a client: what the jail sets, nothing, and a wish to go past every proxy.
const SETTINGS: &[&str] = &[
    "true",
    "unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY no_proxy NO_PROXY",
    "export NO_PROXY='*' no_proxy='*'",
];

/// A program that fetches `$1`.
struct Client {
    name: &'static str,
    /// What has to be installed.
    program: &'static str,
    fetch: &'static str,
    /// The path that it asks for, and what its answer holds.
    asks: (&'static str, &'static str),
}

const CLIENTS: &[Client] = &[
    Client { name: "curl", program: "curl", fetch: "curl -sSf -m 10 $1", asks: HELLO },
    Client {
        name: "wget",
        program: "wget",
        // It looks at the system's bundle alone.
        fetch: "wget -q -T 10 -t 1 -O - ${OUTSIDE:+--ca-certificate=$SSL_CERT_FILE} $1",
        asks: HELLO,
    },
    Client {
        name: "git",
        program: "git",
        fetch: "timeout 10 git ls-remote $1",
        asks: ("/git/tools.git", "refs/heads/main"),
    },
    Client {
        name: "python's urllib",
        program: "python3",
        fetch: "python3 -c 'import sys, urllib.request as u
print(u.urlopen(sys.argv[1], timeout=10).read().decode())' $1",
        asks: HELLO,
    },
    Client {
        name: "python's requests",
        program: "pip",
        fetch: "python3 -c 'import sys
try:
    import requests
except ImportError:
    from pip._vendor import requests
answer = requests.get(sys.argv[1], timeout=10)
answer.raise_for_status()
print(answer.text)' $1",
        asks: HELLO,
    },
    Client {
        name: "node's fetch",
        program: "node",
        fetch: "timeout 10 node -e '
fetch(process.argv[1]).then(answer => answer.text()).then(console.log)' $1",
        asks: HELLO,
    },
    Client {
        name: "node's https",
        program: "node",
        fetch: "timeout 10 node -e '
const url = process.argv[1]
require(url.split(\":\")[0]).get(url, answer => answer.pipe(process.stdout))' $1",
        asks: HELLO,
    },
];

const HELLO: (&str, &str) = ("/hello", "hello from ");

/// An environment and its server, which has a repository `tools.git`.
fn with_repository() -> (TestEnv, WebServer) {
    let (env, server) = WebServer::new();
    env.outside(
        "cd .. && mkdir -p repositories && git init -q -b main work && cd work && seq 1000 > numbers && git add . && \
         git -c user.name=t -c user.email=t@example.com commit -qm first && \
         git clone -q --bare . ../repositories/tools.git",
    )
    .ok();
    (env, server)
}

#[test]
fn clients_reach_the_allowed_host_and_no_other_with_a_proxy_and_without() {
    let (env, server) = with_repository();
    for client in CLIENTS {
        let Client { name, program, fetch, asks: (path, answer) } = client;
        let there = match *program {
            "pip" => "python3 -c 'import pip._vendor.requests'".to_owned(),
            program => format!("command -v {program}"),
        };
        if !env.outside(&there).success() {
            missing(Feature::Program(program), name, "the system has none");
            continue;
        }
        let fetches = |urls: &[String]| -> String {
            let calls: String = urls.iter().map(|url| format!("fetch {url} || echo failed; ")).collect();
            format!("fetch() {{ {fetch}; }}; {calls}")
        };
        let local = [("http", server.http), ("https", server.https)];
        let local = local.map(|(scheme, port)| format!("{scheme}://localhost:{port}{path}"));
        let outside = server.outside(&env, &format!("OUTSIDE=1; {}", fetches(&local)));
        assert_eq!(outside.ok().matches(answer).count(), 2, "control: {name}: {outside:#?}");
        let before = server.seen().len();
        let urls = [("http", PLAIN), ("https", SECURE), ("http", REFUSED), ("https", REFUSED)];
        let urls = urls.map(|(scheme, host)| format!("{scheme}://{host}{path}"));
        let each = SETTINGS.iter().map(|setting| format!("({setting}; {}); echo next; ", fetches(&urls)));
        let inside = server.jail(&env, &each.collect::<String>());
        let parts: Vec<&str> = inside.stdout.split("next\n").collect();
        for (setting, part) in SETTINGS.iter().zip(parts) {
            let (passed, refused) = part.split_once("failed").unwrap_or((part, ""));
            assert_eq!(passed.matches(answer).count(), 2, "{name}, {setting}: {inside:#?}");
            assert!(refused.contains("failed"), "{name}, {setting}: {inside:#?}");
            assert!(!refused.contains(answer), "{name}, {setting}: {inside:#?}");
        }
        let seen = server.seen();
        let of = |host: &str| seen[before..].iter().filter(|line| line.contains(host)).count();
        assert!(of(PLAIN) >= 3 && of(SECURE) >= 3 && of(REFUSED) == 0, "{name}: {seen:?}");
    }
}

#[test]
fn git_clones_and_pushes_through_the_doors() {
    let (env, server) = with_repository();
    // More than a megabyte, so that git sends it in chunks.
    let steps = |url: &str, lines: u32| {
        format!(
            "git clone -q {url} clone{lines} && cd clone{lines} && seq {lines} > numbers && \
             head -c 3000000 /dev/urandom > noise && git add . && \
             git -c user.name=t -c user.email=t@example.com commit -qm {lines} && git push -q origin main"
        )
    };
    let there =
        || env.outside("git --git-dir ../repositories/tools.git show main:numbers | tail -n 1").stdout;
    let local = format!("https://localhost:{}/git/tools.git", server.https);
    server.outside(&env, &steps(&local, 2000)).ok();
    assert_eq!(there(), "2000\n", "control");
    for (setting, lines) in SETTINGS.iter().zip([3000, 4000, 5000]) {
        let url = if lines == 4000 { format!("http://{PLAIN}") } else { format!("https://{SECURE}") };
        let pushed =
            server.jail(&env, &format!("{setting}; {}", steps(&format!("{url}/git/tools.git"), lines)));
        assert!(pushed.success(), "{setting}: {pushed:#?}");
        assert_eq!(there(), format!("{lines}\n"), "{setting}: what was pushed is there");
    }
}

#[test]
fn java_reaches_the_allowed_host_and_no_other() {
    let (env, server) = WebServer::new();
    if !env.outside("command -v javac").success() {
        return missing(Feature::Program("javac"), "a client in Java", "the system has none");
    }
    env.file("Fetch.java", include_str!("clients/Fetch.java"));
    env.outside("javac Fetch.java").ok();
    let fetch = |options: &str, urls: &[String]| {
        format!("java -XX:+UseSerialGC {options} Fetch ca.pem {}", urls.join(" "))
    };
    let local = ["http", "https"]
        .map(|scheme| (scheme, if scheme == "http" { server.http } else { server.https }))
        .map(|(scheme, port)| format!("{scheme}://localhost:{port}/hello"));
    let outside = env.outside(&fetch("", &local));
    assert_eq!(outside.ok().matches("hello from localhost").count(), 2, "control: {outside:#?}");
    let urls = [
        format!("http://{PLAIN}/hello"),
        format!("https://{SECURE}/hello"),
        format!("http://{REFUSED}/hello"),
        format!("https://{REFUSED}/hello"),
    ];
    // It does not know the variables.
    let proxy =
        "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128";
    for options in ["", proxy] {
        let got = server.jail(&env, &fetch(options, &urls));
        for host in [PLAIN, SECURE] {
            assert!(got.stdout.contains(&format!("hello from {host}\n")), "{options}: {got:#?}");
        }
        assert!(!got.stdout.contains(&format!("hello from {REFUSED}")), "{options}: {got:#?}");
        assert!(got.stdout.contains(&format!("failed https://{REFUSED}")), "{options}: {got:#?}");
    }
    assert!(!server.seen().iter().any(|line| line.contains(REFUSED)), "the server was reached");
}

#[test]
fn a_program_that_knows_no_proxy_reaches_the_allowed_host_and_no_other() {
    let (env, server) = WebServer::new();
    env.probe_outside(["get", &format!("localhost:{}", server.http)]).must_work("a request");
    let flags = server.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    env.probe_with(&flags, ["get", &format!("{PLAIN}:80")]).must_work("a request to an allowed host");
    let seen = server.seen().len();
    for target in [format!("{REFUSED}:80"), format!("{PLAIN}:8080"), format!("localhost:{}", server.http)] {
        env.probe_with(&flags, ["get", &target]).must_fail(&target);
    }
    assert_eq!(server.seen().len(), seen, "the server was reached");
}

/// An SSH server of the environment's user, on a port of 127.0.0.1, and how its client is called.
struct Ssh {
    port: u16,
    /// The command, to which `-p PORT HOST COMMAND` is added.
    client: String,
    _process: Running,
}

impl Ssh {
    fn start(env: &TestEnv, sshd: &Path) -> Self {
        let keys = env.outside(
            "mkdir -m 700 ../ssh && ssh-keygen -q -t ed25519 -N '' -f ../ssh/host && \
             ssh-keygen -q -t ed25519 -N '' -f key && cp key.pub ../ssh/allowed",
        );
        keys.ok();
        let port = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address").port();
        let at = env.root().join("ssh");
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {0}/host\nAuthorizedKeysFile {0}/allowed\nStrictModes no\nUsePAM no\n\
             PidFile none\nAcceptEnv *\n",
            at.display()
        );
        let config = env.file(at.join("config"), config);
        let process = start(env.command(sshd).args(["-D", "-e", "-f"]).arg(config));
        let ready = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(eventually(DEADLINE, ready), "the server does not start");
        let client =
            "ssh -F none -i ./key -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o BatchMode=yes \
                      -o UserKnownHostsFile=/dev/null -o ConnectTimeout=10"
                .into();
        Self { port, client, _process: process }
    }
}

#[test]
fn ssh_reaches_the_host_of_an_explicit_rule() {
    if !Feature::Program("ssh").needed_for("ssh by an explicit rule") {
        return;
    }
    // It is no program of users.
    let place = Some(PathBuf::from("/usr/sbin/sshd")).filter(|path| path.is_file());
    let Some(sshd) = on_path("sshd").or(place) else {
        return missing(Feature::Program("sshd"), "ssh by an explicit rule", "it is not installed");
    };
    // As root the server wants directories of the system; as somebody else it serves that one user.
    let Some(env) = TestEnv::ordinary() else {
        return missing(Feature::OrdinaryUser, "ssh by an explicit rule", "there is nobody but root");
    };
    let user = env.outside("id -un").ok().trim().to_owned();
    let ssh = Ssh::start(&env, &sshd);
    let call = |host: &str, port: u16| {
        format!("{} -p {port} {user}@{host} 'echo served; seq 100000 | tail -n 1; cat' < Fetched", ssh.client)
    };
    fs::write(env.project().join("Fetched"), "sent along\n").expect("write");
    let wanted = "served\n100000\nsent along\n";
    let outside = env.outside(&call("127.0.0.1", ssh.port));
    assert_eq!(outside.ok(), wanted, "control: {outside:#?}");
    let resolve = |host: &str| format!("--resolve={host}=127.0.0.1:{}", ssh.port);
    let flags = [resolve("git.example.com"), resolve(REFUSED)];
    let rule = ["--allow-host=git.example.com:22", &flags[0], &flags[1]];
    for setting in &SETTINGS[..2] {
        let inside = run_inside(&env, &rule, &format!("{setting}; {}", call("git.example.com", 22)));
        assert!(inside.success() && inside.stdout.ends_with(wanted), "{setting}: {inside:#?}");
    }
    let refused = run_inside(&env, &rule, &call(REFUSED, 22));
    assert!(!refused.success() && !refused.stdout.contains("served"), "{refused:#?}");
    // A rule without a port is for the web.
    let web = ["--allow-host=git.example.com", &flags[0]];
    let refused = run_inside(&env, &web, &call("git.example.com", 22));
    assert!(!refused.success() && !refused.stdout.contains("served"), "{refused:#?}");
    // SSH does not pass on the port of TLS, unless the rule says so.
    for (rule, passes) in
        [("--allow-host=git.example.com:443", false), ("--allow-host=git.example.com:443/tcp", true)]
    {
        let inside = run_inside(&env, &[rule, &flags[0]], &call("git.example.com", 443));
        assert_eq!(inside.stdout.contains("served"), passes, "{rule}: {inside:#?}");
    }
}

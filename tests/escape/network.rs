//! The network is a list of names, with proxy variables and without.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::common::servers::{ConnectProxy, TestCa, anthropic};
use super::common::{DEADLINE, Feature, Output, TestEnv, eventually, missing};
use super::{run_inside, unique};

/// Addresses that must not exist inside. Whether they answer outside depends on the machine.
const ADDRESSES: &[&str] = &[
    "169.254.169.254:80",
    "169.254.170.2:80",
    "100.100.100.200:80",
    "[fd00:ec2::254]:80",
    "10.0.0.1:80",
    "192.168.0.1:80",
    "172.17.0.1:2375",
    "100.64.0.1:80",
    "8.8.8.8:443",
    "1.1.1.1:53",
    "[2606:4700:4700::1111]:443",
    "[::ffff:1.1.1.1]:443",
    "[64:ff9b::101:101]:443",
    "224.0.0.1:80",
    "198.19.255.254:443",
];

/// Flags under which nothing at all may be reached.
const NOTHING: &[&[&str]] = &[&["--network", "off"], &["--profile", "strict"], &["--lockdown"], &[]];

const WITHOUT_PROXY: &str =
    "unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY no_proxy NO_PROXY";

/// A TCP server that counts its connections and answers each with one line.
struct Counter {
    address: SocketAddr,
    count: Arc<AtomicUsize>,
}

impl Counter {
    fn start(address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("bind");
        let address = listener.local_addr().expect("address");
        let count = Arc::new(AtomicUsize::new(0));
        std::thread::spawn({
            let count = Arc::clone(&count);
            move || {
                for mut stream in listener.incoming().flatten() {
                    count.fetch_add(1, Ordering::SeqCst);
                    let body = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nserved";
                    // A client may go away at any time.
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                    let _ = stream.read(&mut [0; 1024]);
                    let _ = stream.write_all(body);
                }
            }
        });
        Self { address, count }
    }

    fn seen(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

#[test]
fn ports_of_the_host_do_not_exist() {
    let env = TestEnv::new();
    let mut servers = vec![Counter::start([127, 0, 0, 1].into())];
    match own_address() {
        Some(address) => servers.push(Counter::start(address)),
        None => missing(Feature::Kernel("own-address"), "the host's own address", "it has only a loopback"),
    }
    for server in servers {
        let target = server.address.to_string();
        env.probe_outside(["tcp", &target]).must_work(&target);
        let seen = server.seen();
        for flags in NOTHING {
            env.probe_with(flags, ["tcp", &target]).must_fail(&format!("{flags:?}: {target}"));
        }
        assert_eq!(server.seen(), seen, "{target} was connected to");
    }
}

#[test]
fn a_rule_for_everything_is_none_for_this_machine() {
    let env = TestEnv::new();
    let servers = [Some([127, 0, 0, 1].into()), own_address()].map(|address| address.map(Counter::start));
    for server in servers.iter().flatten() {
        let fetch = |options: &str| format!("curl -sS -m 10 {options} http://{}/", server.address);
        assert!(env.outside(&fetch("")).ok().contains("served"), "control");
        let seen = server.seen();
        let proxy = "--proxy http://127.0.0.1:3128";
        for options in ["", "--noproxy '*'", proxy, &format!("{proxy} --proxytunnel")] {
            let inside = run_inside(&env, &["--allow-host=*:*"], &fetch(options));
            assert!(!inside.stdout.contains("served"), "{options}: {inside:#?}");
        }
        assert_eq!(server.seen(), seen, "{} was connected to", server.address);
    }
}

#[test]
fn datagrams_have_no_way_out() {
    let env = TestEnv::new();
    let address = own_address().unwrap_or_else(|| [127, 0, 0, 1].into());
    let socket = UdpSocket::bind((address, 0)).expect("bind");
    let target = socket.local_addr().expect("address").to_string();
    let received = Arc::new(AtomicUsize::new(0));
    std::thread::spawn({
        let received = Arc::clone(&received);
        move || {
            let mut buffer = [0; 512];
            while let Ok((count, peer)) = socket.recv_from(&mut buffer) {
                received.fetch_add(1, Ordering::SeqCst);
                let _ = socket.send_to(&answer_to(&buffer[..count]), peer);
            }
        }
    });
    env.probe_outside(["udp", &target]).must_work("a datagram");
    env.probe_outside(["dns", &target, "data.example.com"]).must_work("a name server");
    let seen = received.load(Ordering::SeqCst);
    env.probe_inside(["udp", &target]).must_fail("a datagram");
    env.probe_inside(["dns", &target, "data.example.com"]).must_fail("a name server of the agent's choice");
    assert_eq!(received.load(Ordering::SeqCst), seen, "a datagram came out of the jail");
    if env.probe_outside(["ping", "127.0.0.1"]).ok {
        env.probe_inside(["ping", &address.to_string()]).must_fail("an ICMP echo to the host");
    } else {
        missing(Feature::Kernel("ping-sockets"), "ICMP", "ping sockets are switched off for this user");
    }
}

#[test]
fn literal_addresses_are_refused_and_promptly() {
    let env = TestEnv::new();
    let begun = Instant::now();
    for target in ADDRESSES {
        env.probe_inside(["tcp", target]).must_fail(target);
    }
    let each = begun.elapsed() / ADDRESSES.len() as u32;
    assert!(each < Duration::from_secs(3), "a refusal took {each:?}: it must not hang");
}

#[test]
fn names_that_are_not_allowed_do_not_exist() {
    let env = TestEnv::new();
    let lookup = |name: &str| format!("{WITHOUT_PROXY}; getent hosts {name} || getent ahosts {name}");
    for flags in NOTHING {
        for name in
            ["example.com", "c2VjcmV0.data.example.com", "localhost.example.com", "metadata.google.internal"]
        {
            let inside = run_inside(&env, flags, &lookup(name));
            assert!(!inside.success(), "{flags:?}: {name} resolves: {inside:#?}");
        }
    }
    let flags = ["--allow-host", "allowed.example.com"];
    let allowed = run_inside(&env, &flags, &lookup("allowed.example.com"));
    assert!(allowed.success(), "an allowed name is answered, without asking anybody: {allowed:#?}");
    let other = run_inside(&env, &flags, &lookup("other.example.com"));
    assert!(!other.success(), "another is not: {other:#?}");
    let below = run_inside(&env, &flags, &lookup("data.allowed.example.com"));
    assert!(!below.success(), "nor what is below it: {below:#?}");
}

#[test]
fn the_policy_is_the_same_with_and_without_proxy_variables() {
    let env = TestEnv::new();
    let server = Counter::start([127, 0, 0, 1].into());
    let resolve = format!("--resolve=allowed.example.com=127.0.0.1:{}", server.address.port());
    let other = format!("--resolve=other.example.com=127.0.0.1:{}", server.address.port());
    let flags = ["--allow-host", "allowed.example.com", &resolve, &other];
    let fetch = |host: &str| {
        format!(
            "python3 -c \"import urllib.request as u; print(u.urlopen('http://{host}/', timeout=10).read().decode())\""
        )
    };
    for setting in ["true", WITHOUT_PROXY, "export NO_PROXY='*' no_proxy='*'"] {
        let seen = server.seen();
        let allowed = run_inside(&env, &flags, &format!("{setting}; {}", fetch("allowed.example.com")));
        assert!(allowed.success() && allowed.stdout.contains("served"), "{setting}: {allowed:#?}");
        assert_eq!(server.seen(), seen + 1, "{setting}: the server was reached");
        let refused = run_inside(&env, &flags, &format!("{setting}; {}", fetch("other.example.com")));
        assert!(!refused.success(), "{setting}: --resolve does not allow a host: {refused:#?}");
        assert_eq!(server.seen(), seen + 1, "{setting}: the server was not reached");
    }
}

#[test]
fn a_refusal_says_what_would_allow_it() {
    let env = TestEnv::new();
    let script = "python3 - <<'END'\nimport http.client\nc = http.client.HTTPConnection('127.0.0.1', 3128, timeout=10)\n\
                  c.request('GET', 'http://refused.example.com/')\nr = c.getresponse()\n\
                  print(r.status, r.getheader('X-AI-Jail-Denied') is not None)\nprint(r.read().decode())\nEND";
    let inside = run_inside(&env, &[], script);
    let text = inside.ok();
    assert!(text.contains("403 True"), "{text}");
    assert!(text.contains("refused.example.com") && text.contains("--allow-host"), "{text}");
}

#[test]
fn the_socks_door_keeps_the_same_policy() {
    let env = TestEnv::new();
    let server = Counter::start([127, 0, 0, 1].into());
    let second = Counter::start([127, 0, 0, 2].into());
    let port = server.address.port();
    let resolve = ["allowed", "other"].map(|name| format!("--resolve={name}.example.com=127.0.0.1:{port}"));
    let flags = ["--allow-host", "allowed.example.com", &resolve[0], &resolve[1]];
    let curl = |url: &str| format!("{WITHOUT_PROXY}; curl -sS -m 10 --socks5-hostname 127.0.0.1:3128 {url}");
    for address in [server.address, second.address] {
        env.outside(&format!("curl -sS -m 10 http://{address}/")).ok();
    }
    let allowed = run_inside(&env, &flags, &curl("http://allowed.example.com/"));
    assert!(allowed.success() && allowed.stdout.contains("served"), "control: {allowed:#?}");
    let seen = server.seen();
    for url in [
        "http://other.example.com/",
        &format!("http://{}/", server.address),
        "http://169.254.169.254/",
        &format!("http://{}/", second.address),
        &format!("--socks5 127.0.0.1:3128 http://{}/", second.address),
    ] {
        let refused = run_inside(&env, &flags, &curl(url));
        // By the policy: with the answer "not allowed by ruleset", which curl says with this status.
        assert!(refused.code() == 97 && refused.stderr.contains("(2)"), "{url}: {refused:#?}");
    }
    // A name that ends for one reader at the NUL and for another at its real end.
    let script = |name: &str| {
        format!(
            "python3 - <<'END'\nimport socket\nname = b'{name}'\ns = socket.create_connection(('127.0.0.1', 3128), 10)\n\
             s.sendall(b'\\5\\1\\0\\5\\1\\0\\3' + bytes([len(name)]) + name + b'\\1\\273')\n\
             got = b''\nwhile len(got) < 12:\n  part = s.recv(64)\n  assert part\n  got += part\n\
             print('code', got[3])\nEND"
        )
    };
    for (name, code) in [
        ("allowed.example.com", 0),
        ("allowed.example.com\\0.evil.example", 1),
        ("evil.example\\0.allowed.example.com", 1),
        ("evil.example", 2),
    ] {
        let inside = run_inside(&env, &flags, &script(name));
        assert!(inside.ok().trim().ends_with(&format!("code {code}")), "{name}: {inside:#?}");
    }
    // The one that is allowed reaches the first once more.
    assert_eq!((server.seen(), second.seen()), (seen + 1, 1), "a server was reached");
}

#[test]
fn registries_that_the_user_configured_are_allowed_and_a_projects_are_not() {
    let env = TestEnv::new();
    let server = Counter::start([127, 0, 0, 1].into());
    let (users, projects) = ("packages.example.com", "evil.example.com");
    std::fs::write(env.home().join(".npmrc"), format!("registry=http://{users}/npm/\n")).expect(".npmrc");
    std::fs::write(env.project().join(".npmrc"), format!("registry=http://{projects}/npm/\n"))
        .expect(".npmrc");
    let resolve = |host: &str| format!("--resolve={host}=127.0.0.1:{}", server.address.port());
    let flags = [resolve(users), resolve(projects)];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let fetch = |host: &str| format!("{WITHOUT_PROXY}; curl -sS -m 10 http://{host}/npm/x");
    let inside = run_inside(&env, &flags, &fetch(users));
    assert!(inside.success() && inside.stdout.contains("served"), "{inside:#?}");
    let seen = server.seen();
    assert!(!run_inside(&env, &flags, &fetch(projects)).success());
    for strict in [&["--profile", "read-only"][..], &["--profile", "strict"]] {
        let flags = [&flags[..], strict].concat();
        assert!(!run_inside(&env, &flags, &fetch(users)).success(), "{strict:?}");
    }
    assert_eq!(server.seen(), seen, "the server was reached");
}

#[test]
fn a_tunnel_carries_only_the_name_that_was_asked_for() {
    let ca = TestCa::new();
    let server = anthropic(&ca);
    let env = TestEnv::new();
    let ca_file = env.file("ca.pem", std::fs::read(ca.write_to(env.root())).expect("the CA"));
    let resolve = server.resolve_flag();
    let flags = ["--allow-host", "api.anthropic.com", &resolve];
    let script = |sni: &str| {
        format!(
            "python3 - <<'END'\nimport socket, ssl\ns = socket.create_connection(('127.0.0.1', 3128), 10)\n\
             s.sendall(b'CONNECT api.anthropic.com:443 HTTP/1.1\\r\\nHost: api.anthropic.com:443\\r\\n\\r\\n')\n\
             assert b' 200 ' in s.recv(4096)\nc = ssl.create_default_context(cafile='{}')\nc.check_hostname = False\n\
             t = c.wrap_socket(s, server_hostname={sni})\n\
             t.sendall(b'GET /x HTTP/1.1\\r\\nHost: api.anthropic.com\\r\\nConnection: close\\r\\n\\r\\n')\n\
             assert b' 200 ' in t.recv(4096)\nEND",
            ca_file.display()
        )
    };
    let right = run_inside(&env, &flags, &script("'api.anthropic.com'"));
    assert!(right.success(), "control: the right name passes: {right:#?}");
    let seen = server.journal.all().len();
    for sni in ["'other.example.com'", "'api.anthropic.com.evil.example'", "None"] {
        let wrong = run_inside(&env, &flags, &script(sni));
        assert!(!wrong.success(), "{sni}: {wrong:#?}");
    }
    assert_eq!(server.journal.all().len(), seen, "a request came through");
}

#[test]
fn a_forwarded_port_is_the_one_of_the_host_that_exists() {
    let env = TestEnv::new();
    let servers = [Counter::start([127, 0, 0, 1].into()), Counter::start([127, 0, 0, 1].into())];
    let [forwarded, other] = &servers;
    let port = forwarded.address.port().to_string();
    let fetch = |server: &Counter| format!("{WITHOUT_PROXY}; curl -sS -m 10 http://{}/", server.address);
    env.outside(&fetch(forwarded)).ok();
    let without = run_inside(&env, &[], &fetch(forwarded));
    assert!(!without.success(), "without the flag: {without:#?}");
    let seen = servers.each_ref().map(Counter::seen);
    let inside = run_inside(&env, &["--forward", &port], &fetch(forwarded));
    assert!(inside.success() && inside.stdout.contains("served"), "{inside:#?}");
    let refused = run_inside(&env, &["--forward", &port], &fetch(other));
    assert!(!refused.success(), "another port: {refused:#?}");
    let lockdown = run_inside(&env, &["--lockdown", "--forward", &port], &fetch(forwarded));
    assert!(lockdown.success(), "the command line counts in lockdown: {lockdown:#?}");
    assert_eq!(servers.each_ref().map(Counter::seen), [seen[0] + 2, seen[1]]);

    std::fs::write(env.project().join(".ai-jail.toml"), format!("[network]\nforward = [{port}]\n"))
        .expect("write");
    let project = run_inside(&env, &[], &fetch(forwarded));
    assert!(
        !project.success() && project.stderr.contains("network.forward"),
        "a project's word: {project:#?}"
    );
}

#[test]
fn a_published_port_of_the_jail_is_at_the_hosts_loopback_while_the_jail_runs() {
    let env = TestEnv::new();
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").expect("bind");
        free.local_addr().expect("address").port()
    };
    let text = port.to_string();
    let serve = format!("echo from-the-jail > page; exec python3 -m http.server --bind 127.0.0.1 {port}");
    let fetch = format!("curl -sS -m 5 http://127.0.0.1:{port}/page");
    let up = format!(
        "({serve}) & until {WITHOUT_PROXY}; {fetch} | grep from-the-jail; do sleep 0.05; done; : > up; wait"
    );
    let control = env.jail_running(["--", "sh", "-c", &up]);
    let is_up = env.project().join("up");
    assert!(eventually(DEADLINE, || is_up.exists()), "control: the jail's server is up, for the jail");
    assert!(!env.outside(&fetch).success(), "without the flag");
    drop(control);

    let mut jail = env.jail_running(["--publish", &text, "--", "sh", "-c", &serve]);
    assert!(eventually(DEADLINE, || env.outside(&fetch).stdout.contains("from-the-jail")), "the page comes");
    // What is taken cannot be published, and says so before anything runs.
    let taken = env.jail(["--publish", &text, "--", "touch", "ran"]);
    assert!(taken.refused().contains("cannot be published"), "{taken:#?}");
    assert!(!env.project().join("ran").exists());
    jail.kill();
    let Output { .. } = jail.finish(DEADLINE);
    assert!(
        eventually(DEADLINE, || TcpListener::bind(("127.0.0.1", port)).is_ok()),
        "the port is free again"
    );
}

#[test]
fn ports_that_cannot_be_forwarded_or_published_are_refused() {
    let env = TestEnv::new();
    for (flags, words) in [
        (&["--forward", "443"][..], "--resolve dev.internal"),
        (&["--forward", "0"], "1 to 65535"),
        (&["--publish", "70000"], "1 to 65535"),
        (&["--network", "off", "--publish", "3000"], "the network is off"),
        (&["--network", "open", "--forward", "3000"], "leave it out"),
        (&["--publish", "3128"], "listen on another port"),
        (&["--publish", "443"], "the jail's own doors listen on port 443"),
        (&["--forward", "3000", "--publish", "3000"], "cannot lead both ways"),
    ] {
        let output = env.jail([flags, &["--", "true"]].concat());
        assert!(output.refused().contains(words), "{flags:?}: {output:#?}");
    }
}

#[test]
fn connections_go_through_the_proxy_of_the_environment_and_its_login_stays_outside() {
    let ca = TestCa::new();
    let server = anthropic(&ca);
    let proxy = ConnectProxy::start(&[&server]);
    let login = unique("proxylogin");
    let url = format!("http://ann:{login}@127.0.0.1:{}", proxy.port);
    let env = TestEnv::new().var("https_proxy", &url).var("no_proxy", "direct.example.com");
    let ca_file = env.file("ca.pem", std::fs::read(ca.write_to(env.root())).expect("the CA"));
    let flags = ["--allow-host", "api.anthropic.com", "--allow-host", "direct.example.com"];
    let fetch = |host: &str| {
        format!("{WITHOUT_PROXY}; curl -sS -m 10 --cacert '{}' https://{host}/x", ca_file.display())
    };
    let inside = run_inside(&env, &flags, &fetch("api.anthropic.com"));
    assert!(inside.success(), "{inside:#?}");
    assert_eq!(proxy.asked(), ["api.anthropic.com:443"]);
    // How our proxy answers for a host that no resolver knows: what is excepted is looked up here, the rest there.
    let connect = |host: &str| {
        format!(
            "python3 - <<'END'\nimport socket\ns = socket.create_connection(('127.0.0.1', 3128), 10)\n\
             s.sendall(b'CONNECT {host}:443 HTTP/1.1\\r\\nHost: {host}:443\\r\\n\\r\\n')\n\
             print(b''.join(iter(lambda: s.recv(4096), b'')).decode())\nEND"
        )
    };
    for (host, answer) in
        [("other.example.com", "is not allowed"), ("direct.example.com", "its name cannot be resolved")]
    {
        let refused = run_inside(&env, &flags, &fetch(host));
        assert!(!refused.success(), "{host}: {refused:#?}");
        let said = run_inside(&env, &flags, &connect(host));
        assert!(said.ok().contains(answer), "{host}: {said:#?}");
    }
    assert_eq!(proxy.asked().len(), 1, "what is denied or excepted does not reach the proxy");

    let search = format!(
        "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; grep -rs {} /run/ai-jail /etc",
        &login[..10]
    );
    assert!(env.outside(&search).stdout.contains(&login), "control: the search finds it outside");
    let inside = run_inside(&env, &flags, &search);
    assert!(!inside.stdout.contains(&login), "the login is inside");
    for dry in [&["--dry-run"][..], &["--dry-run", "--json"]] {
        let shown = env.jail([dry, &["--", "true"]].concat());
        assert!(shown.ok().contains(&format!("127.0.0.1:{}", proxy.port)), "{shown:#?}");
        assert!(!shown.stdout.contains(&login) && !shown.stderr.contains(&login), "the login is shown");
    }
    let log = env.log();
    assert!(log.contains("api.anthropic.com"), "control: the connections are logged: {log}");
    for secret in [&login, &BASE64_STANDARD.encode(format!("ann:{login}"))] {
        assert!(!log.contains(secret), "the login is logged");
    }

    let excepted = TestEnv::new().var("https_proxy", &url);
    run_inside(&excepted, &flags, &connect("direct.example.com"));
    assert_eq!(
        proxy.asked()[1..],
        ["direct.example.com:443"],
        "control: it is asked for without the exception"
    );

    env.config("[network]\nupstream_proxy = \"none\"\n");
    let said = run_inside(&env, &flags, &connect("api.anthropic.com"));
    assert!(said.ok().contains("its name cannot be resolved"), "{said:#?}");
    let resolve = server.resolve_flag();
    let seen = server.journal.all().len();
    run_inside(&env, &[&flags[..], &[&resolve]].concat(), &fetch("api.anthropic.com")).ok();
    assert_eq!(server.journal.all().len(), seen + 1, "it is reached directly");
    assert_eq!(proxy.asked().len(), 2);
}

#[test]
fn a_denied_network_that_a_proxy_would_not_see_is_refused() {
    let env = TestEnv::new().var("https_proxy", "http://127.0.0.1:9");
    let deny = ["--allow-host", "a.example.com", "--deny-host", "10.0.0.0/8"];
    let output = env.jail([&deny[..], &["--", "true"]].concat());
    assert!(output.refused().contains("10.0.0.0/8 (--deny-host) cannot be applied"), "{output:#?}");
    // A name can be denied, and without the proxy a network too.
    env.jail(["--deny-host", "b.example.com", "--", "true"]).ok();
    env.config("[network]\nupstream_proxy = \"none\"\n");
    env.jail([&deny[..], &["--", "true"]].concat()).ok();
}

#[test]
fn a_killed_supervisor_opens_no_way_out() {
    let env = TestEnv::new();
    let server = Counter::start([127, 0, 0, 1].into());
    let target = server.address.to_string();
    env.probe();
    let script = format!(
        "touch started; while :; do ./probe tcp {target}; ./probe tcp 127.0.0.1:3128; sleep 0.02; done"
    );
    let mut jail = env.jail_running(["--", "sh", "-c", &script]);
    let started = env.project().join("started");
    assert!(eventually(DEADLINE, || started.exists()), "the jail starts");
    jail.kill();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.seen(), 0, "a connection came out");
    let Output { .. } = jail.finish(DEADLINE);
}

/// An address of this machine other than loopback's, found without sending anything.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback() && !address.is_unspecified())
}

/// A DNS response with one address, or an echo of what is no query.
fn answer_to(query: &[u8]) -> Vec<u8> {
    let mut response = query.to_vec();
    if query.len() > 12 {
        response[2] |= 0x80;
        response[7] = 1;
        response.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    }
    response
}

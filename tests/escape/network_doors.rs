//! The doors of a real jail: the shared cases, who may come to them, and crowds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::common::{DEADLINE, Feature, TestEnv, output_of, text};
use super::run_inside;

fn cases(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a case")).collect()
}

/// Sends each line of standard input (base64) to the proxy on a connection of its own, finishes, and prints what came
/// back, in base64.
const SEND: &str = "import base64, socket, sys
for line in open(sys.argv[1]):
    s = socket.create_connection(('127.0.0.1', 3128), 10)
    try:
        s.sendall(base64.b64decode(line))
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    got = b''
    try:
        while part := s.recv(65536):
            got += part
    except OSError:
        pass
    print(base64.b64encode(got).decode())";

/// What the proxy of a jail with `flags` answers to each of `requests`.
fn answers(env: &TestEnv, flags: &[&str], requests: &[Vec<u8>]) -> Vec<String> {
    env.file("send.py", SEND);
    let lines: String = requests.iter().map(|bytes| STANDARD.encode(bytes) + "\n").collect();
    env.file("requests", lines);
    let output = run_inside(env, flags, "python3 send.py requests");
    let decode = |line: &str| String::from_utf8_lossy(&STANDARD.decode(line).expect("base64")).into_owned();
    let answers: Vec<String> = output.ok().lines().skip(1).map(decode).collect();
    assert_eq!(answers.len(), requests.len(), "{output:#?}");
    answers
}

#[test]
fn the_shared_authorities_hold_at_the_proxy_of_a_jail() {
    let env = TestEnv::new();
    let cases = cases(include_str!("../cases/authority.jsonl"));
    let text = |case: &Value, key: &str| case[key].as_str().expect("text").to_owned();
    let requests: Vec<Vec<u8>> = cases
        .iter()
        .flat_map(|case| {
            let authority = text(case, "authority");
            [
                format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
                format!("GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
            ]
        })
        .map(String::into_bytes)
        .collect();
    // The names of the cases lead to a port that is closed, so that none leaves the machine and each can be told.
    let closed = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address").port();
    let flags =
        ["example.com", "my_host.example.com"].map(|host| format!("--resolve={host}=127.0.0.1:{closed}"));
    let flags = ["--allow-host=*:*", &flags[0], &flags[1]];
    let answers = answers(&env, &flags, &requests);
    for (case, answers) in cases.iter().zip(answers.chunks(2)) {
        let is = text(case, "is");
        for (answer, way) in answers.iter().zip(["CONNECT", "GET"]) {
            // A URL may leave the port out, or have a query behind it, and name no scheme of its own in CONNECT alone.
            let exempt = way == "GET" && text(case, "authority").contains(['/', '?']);
            match is.as_str() {
                _ if exempt => continue,
                "bad" => assert!(answer.starts_with("HTTP/1.1 400 "), "{way} {case}: {answer}"),
                "local" => assert!(answer.starts_with("HTTP/1.1 403 "), "{way} {case}: {answer}"),
                canonical => {
                    let told = format!("ai-jail: {canonical} is allowed, but cannot be connected to");
                    assert!(
                        answer.starts_with("HTTP/1.1 502 ") && answer.contains(&told),
                        "{way} {case}: {answer}"
                    );
                }
            }
        }
    }
}

/// An origin that keeps what it is sent, takes one connection after another, and answers every connection with `ok`.
struct Origin {
    port: u16,
    got: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let got = Arc::new(Mutex::new(Vec::new()));
        std::thread::spawn({
            let got = Arc::clone(&got);
            move || {
                for mut stream in listener.incoming().flatten() {
                    let mut whole = Vec::new();
                    let mut buffer = [0; 4096];
                    while !is_whole(&whole) {
                        match stream.read(&mut buffer) {
                            Ok(count @ 1..) => whole.extend_from_slice(&buffer[..count]),
                            _ => break,
                        }
                    }
                    got.lock().expect("lock").push(String::from_utf8_lossy(&whole).into_owned());
                    // The client may be gone.
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            }
        });
        Self { port, got }
    }

    /// What came since the last time, one text for each connection.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.got.lock().expect("lock"))
    }
}

fn is_whole(request: &[u8]) -> bool {
    let request = String::from_utf8_lossy(request);
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    match head.lines().find_map(|line| line.strip_prefix("Content-Length: ")) {
        Some(length) => body.len() >= length.parse().expect("a length"),
        None => !head.contains("Transfer-Encoding: chunked") || body.ends_with("0\r\n\r\n"),
    }
}

#[test]
fn the_shared_requests_hold_at_the_proxy_of_a_jail() {
    let env = TestEnv::new();
    let origin = Origin::start();
    let resolve = format!("--resolve=ok.test=127.0.0.1:{}", origin.port);
    let cases = cases(include_str!("../cases/http.jsonl"));
    assert!(cases.iter().all(|case| case["allow"] == "ok.test"), "one jail does for all");
    // Behind each request there is one that shows where what the origin got of it ends.
    let requests = cases.iter().flat_map(|case| {
        let bytes = STANDARD.decode(case["in"].as_str().expect("base64")).expect("base64");
        [bytes, b"GET http://ok.test/next HTTP/1.1\r\nHost: ok.test\r\n\r\n".to_vec()]
    });
    let answers = answers(&env, &["--allow-host=ok.test", &resolve], &requests.collect::<Vec<_>>());
    let got = origin.take();
    let mut got = got.split(|request| request.starts_with("GET /next "));
    for (case, answers) in cases.iter().zip(answers.chunks(2)) {
        let (want, seen) = (case["want"].as_u64().expect("a status"), got.next().expect("a mark").concat());
        assert!(answers[1].starts_with("HTTP/1.1 200 "), "{case}: {}", answers[1]);
        assert!(answers[0].starts_with(&format!("HTTP/1.1 {want} ")), "{case}: {}", answers[0]);
        assert_eq!(seen.is_empty(), want != 200, "{case}: {seen}");
        for mark in case["origin_sees"].as_array().expect("a list") {
            let mark = mark.as_str().expect("text");
            match mark.strip_prefix('!') {
                Some(mark) => assert!(!seen.contains(mark), "{case}: {seen}"),
                None => assert!(seen.contains(mark), "{case}: {seen}"),
            }
        }
    }
}

#[test]
fn the_shared_rules_that_are_bad_are_refused_and_the_others_are_taken() {
    let env = TestEnv::new();
    for case in cases(include_str!("../cases/host_rule.jsonl")) {
        let rule = case["rule"].as_str().expect("a rule");
        for flag in ["--allow-host", "--deny-host"] {
            let output = env.jail(["--dry-run", &format!("{flag}={rule}"), "--", "true"]);
            match case["match"] == "bad" {
                true => assert!(output.refused().contains(flag), "{case}: {output:#?}"),
                false => drop(output.ok()),
            }
        }
    }
}

#[test]
fn nobody_outside_the_jail_comes_to_its_doors() {
    let env = TestEnv::new();
    let origin = Origin::start();
    let resolve = |host: &str| format!("--resolve={host}=127.0.0.1:{}", origin.port);
    let ask = |host: &str| format!("curl -sS -m 5 -x http://127.0.0.1:3128 http://{host}/");
    let first = [resolve("first.example.com"), resolve("second.example.com")];
    let flags = ["--allow-host=first.example.com", &first[0], &first[1]];
    let listens = |port: &u16| {
        TcpStream::connect_timeout(&([127, 0, 0, 1], *port).into(), Duration::from_secs(2)).is_ok()
    };
    // Something else of this machine may listen there.
    let free: Vec<u16> = [53, 80, 443, 3128].into_iter().filter(|port| !listens(port)).collect();
    assert!(free.contains(&3128), "control: a port of the jail's is free outside");
    let jail = env.jail_waiting(&flags, &ask("first.example.com"), &ask("first.example.com"));
    assert!(!origin.take().is_empty(), "control: its own doors are open");
    // The host, as the user whose jail it is, and every socket of the host's.
    for host in ["first.example.com", "second.example.com"] {
        let outside = env.outside(&ask(host));
        assert!(!outside.stdout.contains("ok"), "{outside:#?}");
    }
    let open: Vec<&u16> = free.iter().filter(|port| listens(port)).collect();
    assert!(open.is_empty(), "{open:?} lead into the jail");
    // Another jail has doors of its own, with its own rules.
    let flags = ["--allow-host=second.example.com", &first[0], &first[1]];
    let second = run_inside(&env, &flags, &ask("second.example.com"));
    assert!(second.stdout.ends_with("ok"), "control: {second:#?}");
    origin.take();
    let other = run_inside(&env, &flags, &ask("first.example.com"));
    assert!(other.stdout.contains("is not allowed"), "{other:#?}");
    assert_eq!(origin.take(), [""; 0], "the server was reached");
    assert!(env.let_go(jail).ok().ends_with("ok"), "control: the first jail's doors are still open");
}

#[test]
fn a_resolver_that_hangs_holds_up_neither_other_hosts_nor_the_end() {
    if !Feature::Root.needed_for("a resolver that hangs") {
        return;
    }
    let env = TestEnv::new();
    let origin = Origin::start();
    // A name server that answers nothing, and a lookup that waits for it much longer than this test does.
    let [a, b] = [std::process::id() / 250 % 250, std::process::id() % 250].map(|part| part as u8 + 1);
    let silent = UdpSocket::bind(SocketAddr::from(([127, 77, a, b], 53))).expect("bind");
    let address = silent.local_addr().expect("address").ip();
    let resolver = env.file("resolv.conf", format!("nameserver {address}\noptions timeout:30 attempts:2\n"));
    let script = "for i in $(seq 40); do curl -sS -m 30 http://slow$i.example.com/ & done
        sleep 0.5; curl -sS -m 10 http://quick.example.com/";
    let resolve = format!("--resolve=quick.example.com=127.0.0.1:{}", origin.port);
    let mut command = env.command("bwrap");
    command.args(["--dev-bind", "/", "/", "--ro-bind", text(&resolver), "/etc/resolv.conf", "--"]);
    command.arg(env!("CARGO_BIN_EXE_ai-jail")).args(["--allow-host=*.example.com", &resolve]);
    command.args(["--", "sh", "-c", script]);
    let begun = Instant::now();
    let output = output_of(&mut command, DEADLINE);
    let took = begun.elapsed();
    assert!(output.stdout.ends_with("ok"), "{output:#?}");
    assert!(silent.recv(&mut [0; 512]).is_ok_and(|count| count > 12), "control: the name server was asked");
    assert!(took < Duration::from_secs(10), "it ended after {took:?}");
}

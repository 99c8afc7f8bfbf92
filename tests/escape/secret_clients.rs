//! Programs that people use, with a secret that is a fake inside: each verifies the session's authority without a flag, with
//! the proxy variables and without, and what it sends has the real value when it arrives.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::common::servers::{Recorded, Reply, TestCa, TlsServer};
use crate::common::{Feature, Output, TestEnv, eventually, missing, on_path};

const HOST: &str = "api.example.com";

/// A token that is the test's own, in no file of it.
fn token() -> String {
    format!("ghp_{}", "Zq4Rm9LtX2vB7nKc5WyHd8JsEp3Ua6Fo1TgM")
}

/// Says what it was asked.
fn echo(request: &Recorded) -> Reply {
    let headers: Vec<String> =
        request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let body = format!("{}\n{}\n{}", request.path, headers.join("\n"), request.body);
    Reply { status: 200, content_type: "text/plain", body }
}

struct Api {
    env: TestEnv,
    server: TlsServer,
}

impl Api {
    fn new() -> Self {
        let ca = TestCa::new();
        let server = TlsServer::start(&ca, HOST, echo);
        let env = TestEnv::new().var("API_TOKEN", token());
        let file = ca.write_to(env.root());
        Self { env: env.var("SSL_CERT_FILE", file), server }
    }

    /// Runs `script` in the jail, once with the proxy's variables and once without, each of which has to reach the server
    /// with the real token.
    fn serves(&self, client: &str, script: &str, carries: impl Fn(&Recorded, &str) -> bool) {
        let token = token();
        for (way, before) in [
            ("by the proxy", ""),
            ("by name", "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy ALL_PROXY all_proxy; "),
        ] {
            let asked = self.server.journal.all().len();
            let output = self.run(&format!("{before}{script}"));
            assert!(output.success(), "{client} {way}: {output:#?}");
            assert!(!output.stdout.contains(&token), "{client} {way} sees the token: {output:#?}");
            let requests = self.server.journal.all().split_off(asked);
            assert!(requests.iter().any(|request| carries(request, &token)), "{client} {way}: {requests:#?}");
        }
    }

    fn run(&self, script: &str) -> Output {
        let resolve = self.server.resolve_flag();
        let secret = format!("--secret=API_TOKEN={HOST}");
        self.env.jail([resolve.as_str(), "--allow-host", HOST, secret.as_str(), "--", "sh", "-c", script])
    }
}

fn bearer(request: &Recorded, token: &str) -> bool {
    request.header("authorization") == Some(format!("Bearer {token}").as_str())
}

/// The text for a skip when a program is not there.
fn lacks(program: &'static str) -> bool {
    let lacks = on_path(program).is_none();
    if lacks {
        missing(Feature::Program(program), "a fake token is replaced", "it is not installed");
    }
    lacks
}

#[test]
fn curl_sends_a_secret_in_a_header_in_basic_and_in_a_query() {
    if lacks("curl") {
        return;
    }
    let api = Api::new();
    let get = "curl -fsS --max-time 20";
    api.serves("curl", &format!("{get} -H \"Authorization: Bearer $API_TOKEN\" https://{HOST}/"), bearer);
    api.serves("curl -u", &format!("{get} -u \"me:$API_TOKEN\" https://{HOST}/"), |request, token| {
        request.header("authorization")
            == Some(format!("Basic {}", STANDARD.encode(format!("me:{token}"))).as_str())
    });
    api.serves("curl ?", &format!("{get} \"https://{HOST}/x?key=$API_TOKEN\""), |request, token| {
        request.path == format!("/x?key={token}")
    });
    api.serves("curl's path", &format!("{get} \"https://{HOST}/bot$API_TOKEN/send\""), |request, token| {
        request.path == format!("/bot{token}/send")
    });
    // A body is none of the places that nobody named.
    api.serves(
        "curl -d",
        &format!("{get} -d \"$API_TOKEN\" -H \"x-key: $API_TOKEN\" https://{HOST}/"),
        |request, token| {
            !request.body.contains(token)
                && request.body.starts_with("ghp_")
                && request.header("x-key") == Some(token)
        },
    );
}

#[test]
fn node_sends_a_secret() {
    if lacks("node") {
        return;
    }
    let script = format!(
        "node -e 'fetch(\"https://{HOST}/\", {{headers: {{authorization: \"Bearer \" + process.env.API_TOKEN}}}}).then(r => r.text()).then(console.log)'"
    );
    Api::new().serves("node's fetch", &script, bearer);
}

#[test]
fn python_sends_a_secret() {
    if lacks("python3") {
        return;
    }
    let api = Api::new();
    let urllib = format!(
        "python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request(\"https://{HOST}/\", headers={{\"Authorization\": \"Bearer \" + os.environ[\"API_TOKEN\"]}}), timeout=20).read().decode())'"
    );
    api.serves("urllib", &urllib, bearer);
    if api.env.inside("python3 -c 'import requests'").success() {
        let requests = format!(
            "python3 -c 'import os, requests; print(requests.get(\"https://{HOST}/\", headers={{\"Authorization\": \"Bearer \" + os.environ[\"API_TOKEN\"]}}, timeout=20).text)'"
        );
        api.serves("requests", &requests, bearer);
    } else {
        missing(Feature::Program("python-requests"), "a fake token is replaced", "it cannot be imported");
    }
}

#[test]
fn java_sends_a_secret() {
    if lacks("java") {
        return;
    }
    let api = Api::new();
    api.env.file(
        api.env.project().join("Get.java"),
        format!(
            "import java.net.URI; import java.net.http.*;
             public class Get {{ public static void main(String[] args) throws Exception {{
               var request = HttpRequest.newBuilder(URI.create(\"https://{HOST}/\")).header(\"Authorization\", \"Bearer \" + System.getenv(\"API_TOKEN\")).build();
               System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body()); }} }}"
        ),
    );
    let ready = api.env.outside("java --list-modules | grep -q jdk.compiler");
    if !ready.success() {
        return missing(Feature::Program("javac"), "a fake token is replaced", "this Java compiles nothing");
    }
    // Java knows nothing of the variables for proxies, so that it comes by name both times.
    api.serves("java", "java Get.java", bearer);
}

/// Serves `git http-backend` over TLS to whoever has the token.
const GIT_SERVER: &str = r#"
import base64, http.server, os, ssl, subprocess, sys
root, cert, key, token, port_file = sys.argv[1:]
class Git(http.server.BaseHTTPRequestHandler):
    def answer(self):
        want = 'Basic ' + base64.b64encode(('me:' + token).encode()).decode()
        if self.headers.get('Authorization') != want:
            self.send_response(401); self.send_header('WWW-Authenticate', 'Basic realm="git"')
            self.send_header('Content-Length', '0'); self.end_headers(); return
        path, _, query = self.path.partition('?')
        if self.headers.get('Transfer-Encoding') == 'chunked':
            body = b''
            while (size := int(self.rfile.readline(), 16)):
                body += self.rfile.read(size); self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        env = dict(os.environ, GIT_PROJECT_ROOT=root, GIT_HTTP_EXPORT_ALL='1', PATH_INFO=path, QUERY_STRING=query,
            REQUEST_METHOD=self.command, CONTENT_TYPE=self.headers.get('Content-Type', ''), REMOTE_USER='me',
            CONTENT_LENGTH=str(len(body)), HTTP_CONTENT_ENCODING=self.headers.get('Content-Encoding', ''),
            GIT_PROTOCOL=self.headers.get('Git-Protocol', ''))
        out = subprocess.run(['git', 'http-backend'], input=body, env=env, capture_output=True).stdout
        head, _, rest = out.partition(b'\r\n\r\n')
        status, fields = 200, []
        for line in head.decode().split('\r\n'):
            name, _, value = line.partition(': ')
            if name == 'Status': status = int(value.split()[0])
            elif name: fields.append((name, value))
        self.send_response(status)
        for name, value in fields: self.send_header(name, value)
        self.send_header('Content-Length', str(len(rest))); self.end_headers(); self.wfile.write(rest)
    do_GET = do_POST = answer
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Git)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain(cert, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
open(port_file, 'w').write(str(server.server_port) + '\n')
server.serve_forever()
"#;

/// The server, which ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn git_clones_and_pushes_over_https_with_a_fake_token() {
    if lacks("git") || lacks("python3") {
        return;
    }
    let ca = TestCa::new();
    let env = TestEnv::new().var("API_TOKEN", token());
    let roots = ca.write_to(env.root());
    let env = env.var("SSL_CERT_FILE", roots);
    let (cert, key) = ca.write_server(env.root(), "git.example.com");
    let root = env.dir("served");
    env.outside(&format!(
        "cd {0} && git init -q --bare repo.git && git -C repo.git config http.receivepack true",
        root.display()
    ))
    .ok();
    let port_file = env.root().join("port");
    let mut command = env.command("python3");
    command.arg("-c").arg(GIT_SERVER).arg(&root).arg(&cert).arg(&key).arg(token()).arg(&port_file);
    let _server = Ended(command.spawn().expect("the server"));
    let port = || fs::read_to_string(&port_file).ok().filter(|text| text.ends_with('\n'));
    assert!(eventually(crate::common::DEADLINE, || port().is_some()), "the server does not start");
    let resolve = format!("--resolve=git.example.com=127.0.0.1:{}", port().expect("a port").trim());

    let script = "set -e
        cd \"$HOME\"
        git clone -q \"https://me:$API_TOKEN@git.example.com/repo.git\" work
        cd work
        echo hello > file
        git add file
        git -c user.name=a -c user.email=a@example.com commit -qm one
        git push -q origin HEAD:refs/heads/made
        git ls-remote origin";
    let output = env.jail([
        resolve.as_str(),
        "--allow-host",
        "git.example.com",
        "--secret=API_TOKEN=git.example.com",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert!(output.ok().contains("refs/heads/made"), "{output:#?}");
    let pushed =
        env.outside(&format!("git -C {} log --format=%s made", Path::new(&root).join("repo.git").display()));
    assert_eq!(pushed.ok().trim(), "one");
}

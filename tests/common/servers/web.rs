//! A web server for real clients, over HTTP and HTTPS (`web.py` says what it has).

use std::fs;
use std::path::PathBuf;

use super::TestCa;
use crate::common::{Output, Running, TestEnv, start};

/// The host that stands for the HTTPS port.
pub const SECURE: &str = "web.example.com";
/// The host that stands for the HTTP port.
pub const PLAIN: &str = "plain.example.com";
/// A host that leads to the HTTPS port and that no test allows.
pub const REFUSED: &str = "refused.example.com";

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct WebServer {
    /// The port for HTTP.
    pub http: u16,
    /// The port for HTTPS.
    pub https: u16,
    /// The CA's certificate, which the environment's user can read.
    pub ca: PathBuf,
    log: PathBuf,
    _process: Running,
}

impl WebServer {
    /// An environment and its server. The launcher trusts the server's CA, by the one variable that says so.
    pub fn new() -> (TestEnv, Self) {
        let env = TestEnv::new();
        let server = Self::start(&env);
        (env.var("SSL_CERT_FILE", &server.ca), server)
    }

    /// Starts the server as `env`'s user. It serves the repositories of the directory `repositories` beside the project.
    fn start(env: &TestEnv) -> Self {
        let ca = TestCa::new();
        let (certificate, key) = ca.certificate(&[SECURE, REFUSED, "localhost"]);
        let at = |name: &str| env.root().join(name);
        let program = env.file(at("web.py"), include_str!("web.py"));
        let certificate = env.file(at("web.pem"), certificate);
        let key = env.file(at("web.key"), key);
        let log = env.file(at("web.log"), "");
        let ca = env.file("ca.pem", fs::read(ca.write_to(env.root())).expect("the CA"));
        let mut process = start(
            env.command("python3").arg(program).args([&certificate, &key, &log]).arg(at("repositories")),
        );
        let ports = process.line();
        let ports: Vec<u16> = ports.split(' ').skip(1).map(|port| port.parse().expect("a port")).collect();
        let [http, https] = ports[..] else { panic!("{ports:?}") };
        Self { http, https, ca, log, _process: process }
    }

    /// The launcher's flags that lead the hosts here and allow [`SECURE`] and [`PLAIN`].
    pub fn flags(&self) -> Vec<String> {
        vec![
            format!("--allow-host={SECURE}"),
            format!("--allow-host={PLAIN}"),
            format!("--resolve={SECURE}=127.0.0.1:{}", self.https),
            format!("--resolve={PLAIN}=127.0.0.1:{}", self.http),
            format!("--resolve={REFUSED}=127.0.0.1:{}", self.https),
        ]
    }

    /// Runs a script in a jail with these flags, and makes sure that it was begun.
    pub fn jail(&self, env: &TestEnv, script: &str) -> Output {
        let begun = format!("echo begun; {script}");
        let output = env.jail(self.flags().into_iter().chain(["--", "sh", "-c", &begun].map(str::to_owned)));
        assert!(output.stdout.starts_with("begun"), "the jail did not start: {output:#?}");
        output
    }

    /// Runs a script outside, where each client is told of the CA in its own way.
    pub fn outside(&self, env: &TestEnv, script: &str) -> Output {
        let names = ["CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"];
        let exports: String = names.iter().map(|name| format!("export {name}=$SSL_CERT_FILE; ")).collect();
        env.outside(&format!("{exports}{script}"))
    }

    /// What was asked so far, a line each: method, host and path.
    pub fn seen(&self) -> Vec<String> {
        fs::read_to_string(&self.log).expect("the log").lines().map(str::to_owned).collect()
    }
}

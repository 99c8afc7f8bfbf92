//! Real agents in the jail, against servers of this test that stand for the model providers.
//!
//! The agents come from their npm packages. Each is first run outside through a plain proxy, which shows that
//! the servers say enough for it to answer.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test reports a broken assumption by a panic")]

mod common;

use std::time::Duration;

use common::servers::{ConnectProxy, GREETING, TestCa, TlsServer, anthropic, openai};
use common::{Output, SYSTEM_PATH, TestEnv, agents, output_of, search_while};

/// An agent takes seconds to start on a loaded machine.
const AGENT_DEADLINE: Duration = Duration::from_secs(120);
const KEY: &str = "sk-ant-api03-test-key-000000000000000000000000000000";

/// One agent, and how it is asked for one answer.
struct Agent {
    command: &'static str,
    package: &'static str,
    key_variable: &'static str,
    prompt: &'static [&'static str],
    endpoint: &'static str,
    server: fn(&TestCa) -> TlsServer,
}

const CLAUDE: Agent = Agent {
    command: "claude",
    package: "@anthropic-ai/claude-code",
    key_variable: "ANTHROPIC_API_KEY",
    prompt: &["-p", "hello"],
    endpoint: "/v1/messages",
    server: anthropic,
};

const CODEX: Agent = Agent {
    command: "codex",
    package: "@openai/codex",
    key_variable: "CODEX_API_KEY",
    prompt: &["exec", "--skip-git-repo-check", "hello"],
    endpoint: "/v1/responses",
    server: openai,
};

#[test]
fn claude_answers_through_the_jail() {
    CLAUDE.answers();
}

#[test]
fn codex_answers_through_the_jail() {
    CODEX.answers();
}

impl Agent {
    /// The whole story of one agent, in one home, since its package is large.
    fn answers(&self) {
        let claim = format!("{} in the jail", self.command);
        let Some(install) = agents(&claim) else { return };
        let ca = TestCa::new();
        let server = (self.server)(&ca);
        let env = TestEnv::new().var(self.key_variable, KEY);
        install.copy_into(&env, self.command, self.package);
        let ca_file = ca.write_to(env.root());
        let bin = env.home().join(".local/bin");
        let env = env.var("SSL_CERT_FILE", &ca_file).path(&format!("{}:{SYSTEM_PATH}", bin.display()));

        let proxy = ConnectProxy::start(&[&server]);
        let mut control = env.command(self.command);
        control.args(self.prompt).env("HTTPS_PROXY", proxy.url()).env("NODE_EXTRA_CA_CERTS", &ca_file);
        let output = output_of(&mut control, AGENT_DEADLINE);
        self.answered(&server, "outside", &output);

        for profile in ["workspace", "lockdown"] {
            let output =
                env.jail_within(AGENT_DEADLINE, ["--profile", profile, "--", self.command, "--version"]);
            assert!(output.ok().chars().any(|c| c.is_ascii_digit()), "{profile}: a version: {output:#?}");
        }

        let before = server.journal.with_path(self.endpoint).len();
        let resolve = server.resolve_flag();
        let mut args = vec!["--env", self.key_variable, resolve.as_str(), "--", self.command];
        args.extend(self.prompt);
        let output = env.jail_within(AGENT_DEADLINE, &args);
        self.answered(&server, "in the jail", &output);
        assert!(server.journal.with_path(self.endpoint).len() > before, "the jail's request came here");
        self.the_key_is_never_inside(&env, &server, &resolve);
        self.nothing_else_is_reachable(&env, &resolve);
    }

    fn answered(&self, server: &TlsServer, place: &str, output: &Output) {
        let asked: Vec<String> = server
            .journal
            .all()
            .iter()
            .map(|request| format!("{} {}", request.method, request.path))
            .collect();
        assert!(
            output.success() && output.stdout.contains(GREETING),
            "{} {place} answers; it asked for {asked:#?}\n{output:#?}",
            self.command,
        );
        let asked = server.journal.with_path(self.endpoint);
        let with_key = asked.iter().any(|request| {
            let bearer = format!("Bearer {KEY}");
            request.header("x-api-key") == Some(KEY)
                || request.header("authorization") == Some(bearer.as_str())
        });
        assert!(with_key, "{} {place} sends its key: {asked:#?}", self.command);
    }

    /// Without a flag the agent has a fake, and the server gets the real key.
    fn the_key_is_never_inside(&self, env: &TestEnv, server: &TlsServer, resolve: &str) {
        let before = server.journal.with_path(self.endpoint).len();
        let mut args = vec![resolve, "--", self.command];
        args.extend(self.prompt);
        let running = env.jail_running(&args);
        let (output, held) = search_while(running, AGENT_DEADLINE, &[KEY, GREETING], self.key_variable);
        self.answered(server, "in the jail with a fake", &output);
        assert!(server.journal.with_path(self.endpoint).len() > before, "its request came here");
        assert!(!held.processes.is_empty() && !held.values.is_empty(), "the jail was looked into: {held:#?}");
        assert!(held.found.iter().all(|(text, _)| *text != 0), "the real key is inside: {held:#?}");
        assert!(
            held.values.iter().all(|value| value.len() == KEY.len() && value.starts_with("sk-ant-")),
            "{held:#?}"
        );
        let searched =
            format!("grep -rlF {KEY} /proc/[0-9]*/environ ~ /run /tmp /etc . 2>/dev/null; echo searched");
        let output = env.jail([resolve, "--", "sh", "-c", &searched]);
        assert_eq!(output.ok(), "searched\n", "no file of the jail holds it");
        let log = env.log();
        assert!(
            !log.contains(KEY) && log.contains(self.key_variable),
            "the log names it and has no value: {log}"
        );
    }

    /// With the flags of the run before, another host is refused by name, and does not exist by address.
    fn nothing_else_is_reachable(&self, env: &TestEnv, resolve: &str) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let target = format!("127.0.0.1:{port}");
        let connect = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 3)");
        output_of(env.command("python3").args(["-c", &connect]), AGENT_DEADLINE).ok();
        let output = env.jail([resolve, "--", "python3", "-c", &connect]);
        assert!(!output.success(), "{target} is not reachable: {output:#?}");
        let fetch = "import urllib.request; urllib.request.urlopen('https://example.com/', timeout=10)";
        let output = env.jail([resolve, "--", "python3", "-c", fetch]);
        assert!(!output.success(), "another host is refused: {output:#?}");
    }
}

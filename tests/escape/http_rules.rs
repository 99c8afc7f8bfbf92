//! What HTTP rules deny is told to the user, request by request, in the log and in the summary (NET-7, LOG-1, LOG-3).

use serde_json::Value;

use crate::common::servers::{Recorded, Reply, TestCa, TlsServer};
use crate::common::{Feature, Output, TestEnv, missing, on_path};

const HOST: &str = "api.example.com";

const TOKEN: &str = "zq4rm9ltx2vb7nkc5wyhd8jsep3ua6fo1tgm";

/// An API of which only `/open` may be read, and a secret that is put in there.
struct Api {
    env: TestEnv,
    server: TlsServer,
}

impl Api {
    fn new() -> Self {
        let ca = TestCa::new();
        let answer = |_: &Recorded| Reply { status: 200, content_type: "text/plain", body: "served".into() };
        let server = TlsServer::start(&ca, HOST, answer);
        let env = TestEnv::new().var("API_TOKEN", TOKEN);
        env.config(&format!(
            "[network]\nallow = [\"{HOST}\"]\n[[network.http]]\nhost = \"{HOST}\"\nallow = [\"GET /open\"]\n\
             deny = [\"PUT /**\"]\n[secrets]\nAPI_TOKEN = {{ hosts = [\"{HOST}\"] }}\n"
        ));
        let file = ca.write_to(env.root());
        Self { env: env.var("SSL_CERT_FILE", file), server }
    }

    fn jail(&self, script: &str) -> Output {
        self.env.jail([self.server.resolve_flag().as_str(), "--", "sh", "-c", script])
    }

    /// The script outside, where it has to be served. Returns what the server was asked.
    fn outside(&self, script: &str) -> Vec<String> {
        let to =
            format!("--cacert \"$SSL_CERT_FILE\" --connect-to {HOST}:443:127.0.0.1:{}", self.server.port);
        let control = script.replace("curl ", &format!("curl {to} "));
        self.env.outside(&control).ok();
        self.server.journal.all().iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect()
    }

    /// The denials in the log: request, count and the whole record.
    fn denials(&self) -> Vec<(String, u64, Value)> {
        let records = self.env.log();
        let records = records.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let denied = records.filter(|record| record["verdict"] == "denied");
        denied
            .map(|record| {
                let request = record["request"].as_str().unwrap_or_default().to_owned();
                (request, record["count"].as_u64().expect("a count"), record)
            })
            .collect()
    }
}

fn ask(method: &str, path: &str, times: usize) -> String {
    format!("for i in $(seq {times}); do curl -sS -m 20 -X {method} \"https://{HOST}{path}\"; done; ")
}

fn lacks_curl(claim: &str) -> bool {
    let lacks = on_path("curl").is_none();
    if lacks {
        missing(Feature::Program("curl"), claim, "it is not installed");
    }
    lacks
}

#[test]
fn each_request_that_is_denied_is_in_the_log_and_in_the_summary() {
    if lacks_curl("denied requests are named each") {
        return;
    }
    let api = Api::new();
    let script = [
        ask("GET", "/open", 1),
        ask("DELETE", "/a", 1),
        ask("POST", "/b?key=$API_TOKEN&other=inthequery", 3),
        ask("PATCH", "/bot$API_TOKEN", 2),
        ask("PUT", "/c", 2),
        ask("GET", "/d", 1),
        "echo fake: $API_TOKEN".to_owned(),
    ]
    .concat();
    let served = api.outside(&script);
    assert!(served.iter().any(|seen| seen == "DELETE /a") && served.len() == 10, "control: {served:?}");

    let inside = api.jail(&script);
    let reached = api.server.journal.all().split_off(served.len());
    assert!(reached.len() == 1 && reached[0].path == "/open", "{reached:#?}\n{inside:#?}");
    let denials = api.denials();
    let counted = |request: &str| -> u64 {
        denials.iter().filter(|(of, ..)| of == request).map(|(_, count, _)| count).sum()
    };
    for (request, count) in
        [("DELETE /a", 1), ("POST /b", 3), ("PATCH /bot*", 2), ("PUT /c", 2), ("GET /d", 1)]
    {
        assert_eq!(counted(request), count, "{request}: {denials:#?}");
    }
    assert_eq!(denials.iter().map(|(_, count, _)| count).sum::<u64>(), 9, "{denials:#?}");
    for (request, _, record) in &denials {
        assert!(record["reason"].as_str().is_some_and(|reason| reason.contains(request)), "{record}");
        assert_eq!(record["allow"].is_null(), request == "PUT /c", "{record}");
    }

    let summary = inside.stderr.lines().find(|line| line.contains("denied 9 requests"));
    let summary = summary.unwrap_or_else(|| panic!("{inside:#?}"));
    for (request, count) in [("POST /b", 3), ("PUT /c", 2), ("DELETE /a", 1), ("GET /d", 1)] {
        assert!(summary.contains(&format!("{request} at {HOST}:443 ({count})")), "{summary}");
    }
    assert!(
        summary.contains(&format!("such as \"POST /b\" in allow of [[network.http]] for {HOST}")),
        "{summary}"
    );
    let log = api.env.log();
    let (_, fake) = inside.stdout.split_once("fake: ").expect("the fake is printed");
    assert!(inside.stdout.contains(&format!("PATCH /bot{}", fake.trim())), "control: {inside:#?}");
    for hidden in [TOKEN, fake.trim(), "inthequery"] {
        assert!(!log.contains(hidden) && !inside.stderr.contains(hidden), "{hidden}: {inside:#?}\n{log}");
    }
}

#[test]
fn a_flood_of_denied_requests_fills_neither_log_nor_summary() {
    if lacks_curl("a flood of denied requests is bounded") {
        return;
    }
    let api = Api::new();
    let long = "x".repeat(2_000);
    let flood = format!("curl -sS -m 60 -o each \"https://{HOST}/flood/[1-400]/{long}\"; ");
    let script = ask("DELETE", "/a", 2) + &flood;
    let served = api.outside(&script).len();
    assert_eq!(served, 402, "control");
    let inside = api.jail(&script);
    assert_eq!(api.server.journal.all().len(), served, "{inside:#?}");
    let denials = api.denials();
    let log = api.env.log();
    assert_eq!(denials.iter().map(|(_, count, _)| count).sum::<u64>(), 402, "{log}");
    // Of each minute a hundred and one for the others, should it turn meanwhile.
    assert!((100..=204).contains(&denials.len()) && log.len() < 500_000, "{}: {}", denials.len(), log.len());
    let more = denials.iter().find(|(.., record)| record["host"] == "*").expect("one for the others");
    assert!(
        more.2["reason"].as_str().is_some_and(|reason| reason.contains("more of other requests")),
        "{more:?}"
    );
    let summary = inside.stderr.lines().find(|line| line.contains("denied 402 requests"));
    let summary = summary.unwrap_or_else(|| panic!("{inside:#?}"));
    assert!(summary.contains(&format!("DELETE /a at {HOST}:443 (2), ")), "{summary}");
    assert!(summary.contains(" and 396 other requests; ") && summary.len() < 1_500, "{summary}");
}

#[test]
fn a_denial_names_the_file_of_the_rules_to_the_user_alone() {
    if lacks_curl("a denial names the file of the rules") {
        return;
    }
    let api = Api::new();
    let user = api.env.config_dir().join("config.toml");
    let mine = api.env.project().join(".ai-jail.toml");
    let ask_both = [ask("GET", "/open", 1), ask("PUT", "/c", 1), ask("GET", "/other", 1)].concat();
    let said = |inside: &Output, request: &str| {
        let line = inside.stderr.lines().find(|line| line.contains(request));
        line.unwrap_or_else(|| panic!("{request}: {inside:#?}")).to_owned()
    };

    let inside = api.jail(&ask_both);
    let at = format!("from {}:", user.display());
    assert!(said(&inside, "GET /other").contains(&format!("the rules are {at}")), "{inside:#?}");
    assert!(said(&inside, "PUT /c").contains(&format!("it is {at}")), "{inside:#?}");
    assert!(inside.stdout.contains("GET /other at"), "control: {inside:#?}");
    assert!(!inside.stdout.contains("config.toml"), "{inside:#?}");

    api.env.file(&mine, format!("[[network.http]]\nhost = \"{HOST}\"\nallow = [\"GET /elsewhere\"]\n"));
    let inside = api.jail(&ask_both);
    let line = said(&inside, "GET /open");
    assert!(line.contains(&format!("the rules are from {}:", mine.display())), "{line}");
    assert!(line.contains("in the project's configuration") && !line.contains("config.toml"), "{line}");
    let origins: Vec<_> = api
        .denials()
        .into_iter()
        .filter_map(|(.., record)| record["origin"].as_str().map(str::to_owned))
        .collect();
    assert!(origins.iter().any(|origin| origin.contains(".ai-jail.toml:")), "{origins:?}");
}

#[test]
fn a_misspelt_host_is_told_to_the_user_and_the_jail_is_not_told_what_is_allowed() {
    if lacks_curl("a misspelt host is told") {
        return;
    }
    let env = TestEnv::new();
    let fetch = "curl -sS -m 10 -x http://127.0.0.1:3128 http://apl.exmaple.org/; curl -sS -m 10 https://apl.exmaple.org/; true";
    let inside = env.jail(["--allow-host", "apl.example.org", "--", "sh", "-c", fetch]);
    let question = "did you mean apl.example.org, which is allowed?";
    assert!(inside.stdout.contains("apl.exmaple.org:80 is not allowed"), "{inside:#?}");
    assert!(!inside.stdout.contains("example.org"), "{inside:#?}");
    let curl: Vec<&str> = inside.stderr.lines().filter(|line| line.starts_with("curl:")).collect();
    assert!(!curl.is_empty() && curl.iter().all(|line| !line.contains("example.org")), "{inside:#?}");
    assert!(inside.stderr.contains(question), "{inside:#?}");
    assert!(env.log().contains("\"meant\":\"apl.example.org\""), "{}", env.log());
    let launcher = ["explain", "--allow-host", "apl.example.org", "apl.exmaple.org"];
    let explained = env.launcher(launcher).output().expect("explain");
    assert!(String::from_utf8_lossy(&explained.stdout).contains(question), "{explained:?}");
}

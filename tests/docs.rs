//! The documentation is kept true: what is generated from the command line's types is compared with what is in the
//! tree. `UPDATE_DOCS=1 cargo test --test docs` writes it anew.
#![allow(clippy::unwrap_used)]

#[path = "docs/coverage.rs"]
mod coverage;
#[path = "docs/needs.rs"]
mod needs;

use std::fs;
use std::path::Path;

use ai_jail::config::keys::KEYS;
use clap::Command;
use clap_mangen::Man;

#[test]
fn the_man_page_is_what_the_command_line_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/ai-jail.1");
    let page = man_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "man/ai-jail.1 is out of date; run UPDATE_DOCS=1 cargo test --test docs");
}

/// Copied as it is an example of a secret works only where its host is allowed too.
#[test]
fn every_example_of_a_secret_allows_its_host() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["README.md", "docs/configuration.md"] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let mut blocks = 0;
        for block in text.split("```").skip(1).step_by(2) {
            let is_bound = |line: &&str| {
                line.starts_with("ai-jail ")
                    && ["--secret", "--env-file"].iter().any(|flag| line.contains(flag))
            };
            for line in block.lines().filter(is_bound) {
                assert!(line.contains("--allow-host"), "{file}: {line}");
                blocks += 1;
            }
            let is_table =
                ["[secrets]", "[[secrets.files]]", "secrets."].iter().any(|key| block.contains(key));
            if block.starts_with("toml") && is_table && block.contains("hosts") {
                assert!(block.contains("allow"), "{file}: {block}");
                blocks += 1;
            }
        }
        assert!(blocks > 0, "{file}");
    }
}

#[test]
fn the_man_page_has_every_option_and_every_section() {
    let page = man_page().replace("\\-", "-");
    for arg in ai_jail::cli::command().get_arguments().filter_map(clap::Arg::get_long) {
        assert!(page.contains(&format!("--{arg}")), "--{arg}");
    }
    for section in [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "SUBCOMMANDS",
        "EXIT STATUS",
        "ENVIRONMENT",
        "FILES",
        "EXAMPLES",
    ] {
        assert!(
            page.contains(&format!("\n.SH {section}\n")) || page.contains(&format!("\n.SH \"{section}\"\n")),
            "{section}"
        );
    }
}

#[test]
fn every_key_of_the_configuration_is_documented_in_its_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let page = fs::read_to_string(path).unwrap();
    for key in KEYS {
        let heading =
            if key.table.is_empty() { "## Keys".to_owned() } else { format!("### `[{}]`", key.table) };
        let section = page.split("\n#").find(|part| format!("#{part}").starts_with(&heading));
        let row = format!("\n| `{}` |", key.name);
        assert!(section.is_some_and(|section| section.contains(&row)), "{}.{}", key.table, key.name);
    }
}

fn man_page() -> String {
    let mut command = ai_jail::cli::command();
    command.build();
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    page.extend(synopsis(&command).bytes());
    page.extend(DESCRIPTION.bytes());
    man.render_options_section(&mut page).unwrap();
    page.extend(subcommands(&command).bytes());
    page.extend(CLOSING.bytes());
    String::from_utf8(page).unwrap()
}

fn synopsis(command: &Command) -> String {
    let mut text = String::from(
        ".SH SYNOPSIS\n\\fBai\\-jail\\fR [\\fIOPTIONS\\fR] [\\-\\-] \\fICOMMAND\\fR [\\fIARGS\\fR]...\n",
    );
    for subcommand in command.get_subcommands() {
        text.push_str(&format!(".br\n{}\n", usage(subcommand)));
    }
    text
}

fn subcommands(command: &Command) -> String {
    let mut text =
        String::from(".SH SUBCOMMANDS\nA first word that is none of these is the command to run.\n");
    for subcommand in command.get_subcommands() {
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!(".TP\n{}\n{}.\n", usage(subcommand), escaped(&about)));
        if let Some(more) = subcommand.get_after_help() {
            text.push_str(&format!("{}\n", escaped(&more.to_string())));
        }
    }
    text
}

fn usage(subcommand: &Command) -> String {
    let usage = subcommand.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    format!("\\fBai\\-jail\\fR {}", escaped(usage.trim_start_matches("ai-jail ")))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}

const DESCRIPTION: &str = r#".SH DESCRIPTION
Runs \fICOMMAND\fR, usually an AI coding agent, in a jail that the Linux kernel enforces. It sees one project, a
private home, no credential that it was not given, only the hosts that it was allowed, and a terminal that it cannot
abuse. A protection that was asked for and cannot be applied stops the launch.
.PP
Options end at \fICOMMAND\fR; what follows belongs to it. \fBai\-jail \-\- \fINAME\fR runs a program whose name is
that of a subcommand.
.PP
A grant \fIPATH\fR[:\fIDEST\fR] is split at the last colon that a slash follows. A host path that holds such a colon
itself is given in the configuration file, which takes whole paths.
"#;

const CLOSING: &str = r#".SH EXIT STATUS
That of \fICOMMAND\fR, but for these:
.TP
\fB124\fR
The time limit (\fB\-\-limit time=\fISPAN\fR) ended the jail.
.TP
\fB125\fR
The jail could not be set up: a bad option, a bad configuration, a protection that this machine lacks.
.TP
\fB126\fR
\fICOMMAND\fR cannot be executed.
.TP
\fB127\fR
\fICOMMAND\fR does not exist in the jail.
.TP
\fB128+N\fR
Signal \fIN\fR ended \fICOMMAND\fR.
.SH ENVIRONMENT
The command line beats the variables that begin with AI_JAIL, and they beat the configuration files. An empty one counts as
not set.
.TP
\fBAI_JAIL_PROFILE\fR
The profile, as \fB\-\-profile\fR.
.TP
\fBAI_JAIL_NETWORK\fR
The network, as \fB\-\-network\fR.
.TP
\fBAI_JAIL_HOME\fR
The home, as \fB\-\-home\fR.
.TP
\fBAI_JAIL_STATE\fR
The agent's state, as \fB\-\-state\fR.
.TP
\fBSSL_CERT_FILE\fR
A file of TLS roots (PEM) beside those of this machine: hosts that ai-jail looks into are verified by it, and programs in the jail
get it too. It counts where ai-jail is started, not inside; there it and the variables of other tools (\fBCURL_CA_BUNDLE\fR,
\fBNODE_EXTRA_CA_CERTS\fR, \fBREQUESTS_CA_BUNDLE\fR, \fBGIT_SSL_CAINFO\fR, ...) name \fI/run/ai\-jail/ca\-certificates.pem\fR.
.TP
\fBhttps_proxy\fR, \fBhttp_proxy\fR, \fBall_proxy\fR, \fBno_proxy\fR
The proxy that connections leave through, unless \fIupstream_proxy\fR of the configuration says otherwise.
.SH FILES
.TP
\fI$XDG_CONFIG_HOME/ai\-jail/config.toml\fR
The user's configuration (by default below \fI~/.config\fR).
.TP
\fI.ai\-jail.toml\fR, \fI.ai\-jail/config.toml\fR
The project's configuration, at most one of them. It can only make the jail stricter; what would loosen it is ignored
with a warning. The profile \fBlockdown\fR does not read it.
.TP
\fI/etc/ai\-jail/managed.toml\fR
Reserved for managed policy. This version refuses to run when it exists.
.TP
\fI$XDG_STATE_HOME/ai\-jail/log\fR
The audit logs (by default below \fI~/.local/state\fR), one file of JSON lines for each session. Each line has the
SHA\-256 of the line before it.
.SH EXAMPLES
.TP
\fBai\-jail claude\fR
Daily work in the project around the current directory.
.TP
\fBai\-jail \-\-lockdown claude\fR
Somebody else's repository.
.TP
\fBai\-jail \-\-network off \-\- make test\fR
A build without network.
.TP
\fBai\-jail \-\-allow\-host '*.example.com:443' \-\-ro ~/data codex\fR
One more host and one more directory.
.TP
\fBai\-jail explain api.example.com \-\- codex\fR
Whether codex may reach a host, and why.
"#;

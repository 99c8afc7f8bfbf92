//! `ai-jail` runs an AI coding agent in a jail that the Linux kernel enforces.
//!
//! Data flows one way, through values that are made in one place and never changed afterwards:
//! what was typed and configured ([`config::settings::Settings`]) and what the machine is ([`host`]) become a
//! [`policy`], the policy becomes a [`plan`], [`launch`] carries the plan out, and [`report`] says what happened.
//!
//! A room that may act says so: clippy.toml keeps the clock, the environment, files, processes and the network from the
//! others.

#![warn(clippy::disallowed_methods)]

#[expect(clippy::disallowed_methods, reason = "writes the log")]
pub mod audit;
pub mod cli;
pub mod config;
pub mod egress;
pub mod error;
#[expect(clippy::disallowed_methods, reason = "holds back what appeared")]
pub mod guard;
#[expect(clippy::disallowed_methods, reason = "reads the machine")]
pub mod host;
#[expect(clippy::disallowed_methods, reason = "the stage inside the jail")]
pub mod inner;
#[expect(clippy::disallowed_methods, reason = "carries plans out")]
pub mod launch;
pub mod plan;
pub mod policy;
mod presets;
pub mod report;
#[expect(clippy::disallowed_methods, reason = "leads data through the rooms")]
pub mod run;
pub mod sanitize;
pub mod secrets;
#[expect(clippy::disallowed_methods, reason = "system calls")]
pub mod sys;
pub mod terminal;
pub mod tls;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::Invocation;
use crate::error::Result;
use crate::launch::keeper::WARDEN;
use crate::plan::inner::STAGE;
use crate::report::{Reporter, Verbosity};

/// The program: reads the arguments, does what they say, and returns the exit status.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    // Two stages of a launch are this program again, told by a hidden first argument; their descriptors are inherited.
    match arguments.get(1).and_then(|argument| argument.to_str()) {
        Some(WARDEN) => return launch::warden::main(&arguments[2..]),
        Some(STAGE) => return ExitCode::from(inner::run(&arguments[2..])),
        _ => {}
    }
    if let Err(error) = sys::descriptor::close_foreign() {
        return fail(
            &error::Error::new(error::Kind::Setup, "cannot close inherited descriptors").because(error),
        );
    }
    match cli::parse(arguments).and_then(act) {
        Ok(status) => ExitCode::from(status),
        Err(error) => fail(&error),
    }
}

fn act(invocation: Invocation) -> Result<u8> {
    match invocation {
        Invocation::Run(arguments) => run::run(&arguments),
        Invocation::Doctor(arguments) => run::doctor(&arguments),
        Invocation::Explain(arguments) => run::explain(&arguments),
        Invocation::Quarantine(arguments) => run::quarantine(&arguments),
        Invocation::Completions(arguments) => report::output(&arguments.script()),
        Invocation::Print(text) => report::output(text.as_bytes()),
    }
}

fn fail(error: &error::Error) -> ExitCode {
    Reporter::new(Verbosity::Normal).error(error);
    ExitCode::from(error.kind().exit_code())
}

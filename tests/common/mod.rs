//! What every test of the built program shares: a hermetic environment, a deadline on every process, a
//! terminal driven by the test, the probe, and servers that stand for the model providers.
//!
//! The same test binaries run as root and as an ordinary user; nothing here assumes either. Variables that the
//! tests read:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `AI_JAIL_TEST_REQUIRE` | features, with commas between them, whose absence is a failure; `all` for every one |
//! | `AI_JAIL_TEST_USER` | the ordinary user that root runs some tests as; else the first one of the machine |
//! | `AI_JAIL_TEST_CACHE` | where real agents are installed once; else `test-agents` in the target directory |
//! | `CI` | `true`: a registry that cannot be reached is a failure |

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part of this module")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test reports a broken assumption by a panic")]

mod agents;
mod env;
mod git;
mod jails;
mod memory;
mod probe;
mod process;
mod pty;
mod require;
mod run;
pub mod servers;

pub use agents::{AgentInstall, agents};
pub use env::{SYSTEM_PATH, TestEnv, service, text};
pub use git::Git;
pub use memory::{Held, search_while};
pub use probe::{Answer, probe_path};
pub use process::{children, descendants, handles, has_terminal, state};
pub use pty::Terminal;
pub use require::{Feature, missing, on_path, under_ci};
pub use run::{DEADLINE, Output, Running, eventually, output_of, start};

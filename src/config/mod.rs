//! Configuration files: schema, layers, merge. A project only narrows.

mod cite;
pub mod command_line;
pub mod keys;
#[expect(clippy::disallowed_methods, reason = "reads the configuration files")]
pub mod layers;
pub mod merge;
mod narrow;
pub mod profiles;
mod reader;
mod redact;
pub mod schema;
pub mod secret_values;
pub mod secrets;
pub mod settings;
pub mod values;
pub mod words;

//! Configuration files: schema, layers, merge. A project only narrows.

mod cite;
pub mod command_line;
pub mod keys;
pub mod layers;
pub mod merge;
mod narrow;
pub mod profiles;
mod reader;
pub mod schema;
pub mod settings;
pub mod values;
pub mod words;

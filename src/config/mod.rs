//! Configuration files: schema, layers, merge. A project only narrows.

pub mod settings;

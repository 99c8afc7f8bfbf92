//! DATA: the tables of this directory, one reason per row. The build turns them into JSON (`build.rs`).

/// The JSON of a table, by its path without the extension.
macro_rules! preset {
    ($name:expr) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $name, ".json"))
    };
}

pub(crate) use preset;

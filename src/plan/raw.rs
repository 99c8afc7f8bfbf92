//! Paths as they are: text where they are UTF-8, bytes where they are not. serde's own form refuses the latter.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Raw<'a> {
    Text(std::borrow::Cow<'a, str>),
    Bytes(Vec<u8>),
}

/// Writes one path.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    raw(path.as_os_str()).serialize(serializer)
}

/// Reads one path.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Raw::deserialize(deserializer).map(path)
}

/// The same for lists.
pub mod list {
    use super::*;

    /// Writes the paths.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| raw(path.as_os_str())))
    }

    /// Reads the paths.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Vec::<Raw<'de>>::deserialize(deserializer).map(|paths| paths.into_iter().map(path).collect())
    }
}

fn raw(text: &OsStr) -> Raw<'_> {
    match text.to_str() {
        Some(text) => Raw::Text(text.into()),
        None => Raw::Bytes(text.as_bytes().to_vec()),
    }
}

fn path(raw: Raw<'_>) -> PathBuf {
    match raw {
        Raw::Text(text) => PathBuf::from(text.into_owned()),
        Raw::Bytes(bytes) => PathBuf::from(std::ffi::OsString::from_vec(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Both {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(with = "super::list")]
        many: Vec<PathBuf>,
    }

    #[test]
    fn every_path_survives() {
        let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/a\xff\n\"\\".to_vec()));
        let both = Both { one: odd.clone(), many: vec![odd, "/ä b".into(), "".into()] };
        let json = serde_json::to_vec(&both).unwrap();
        assert_eq!(serde_json::from_slice::<Both>(&json).unwrap(), both);
    }
}

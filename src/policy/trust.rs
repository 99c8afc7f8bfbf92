//! Which roots the jail's programs trust, and where they find them.

use std::path::{Path, PathBuf};

/// Where the session's authority is found inside, alone.
pub const AUTHORITY: &str = "/run/ai-jail/session-ca.pem";
/// Where the roots for Java are found inside.
pub const JAVA_ROOTS: &str = "/run/ai-jail/cacerts.jks";
/// Below it are the host's directories of roots whose entries are shown one by one.
const DIRECTORIES: &str = "/run/ai-jail/certificates";

/// The trust bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The host's own file.
    Host(PathBuf),
    /// The host's roots and what the launcher's `SSL_CERT_FILE` adds, PEM, and the host's own bundles, which it covers.
    Joined(Vec<u8>, Vec<PathBuf>),
    /// The host's roots, those of the tools' configuration and the session's authority: made at the launch.
    Session(TrustPlaces),
    /// There is none.
    None,
}

impl Trust {
    /// Which of the directories whose entries are shown one by one `path` is.
    pub fn directory(&self, path: &Path) -> Option<usize> {
        match self {
            Self::Session(places) => places.directories.iter().position(|directory| directory == path),
            Self::Host(_) | Self::Joined(..) | Self::None => None,
        }
    }
}

/// Where this machine has its roots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustPlaces {
    /// Files, PEM: the host's bundle, and the launcher's `SSL_CERT_FILE`.
    pub roots: Vec<PathBuf>,
    /// Files, PEM, that the user's tools are configured with.
    pub tools: Vec<PathBuf>,
    /// The bundles where programs look for them.
    pub bundles: Vec<PathBuf>,
    /// Directories that programs search by a hash of the name.
    pub directories: Vec<PathBuf>,
    /// The system's stores for Java.
    pub java_stores: Vec<PathBuf>,
    /// Which Java is there.
    pub java: Java,
}

/// Which Java the jail sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Java {
    /// None.
    #[default]
    None,
    /// One that reads the system's store.
    System,
    /// One that has, or may have, a store of its own.
    Own,
}

/// Where such a directory of the host's is found inside, by its position in [`TrustPlaces::directories`].
pub fn system_directory(position: usize) -> PathBuf {
    Path::new(DIRECTORIES).join(position.to_string())
}

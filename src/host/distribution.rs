//! Which distribution this is, and how one fixes things there.

use std::path::Path;

use serde::Serialize;

use super::kernel::Wsl;
use super::{below, read_text};

/// The distributions whose commands we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Debian, and what calls itself like it.
    Debian,
    /// Ubuntu, and what calls itself like it.
    Ubuntu,
    /// Fedora, CentOS Stream, RHEL.
    Fedora,
    /// Arch Linux.
    Arch,
    /// openSUSE and SLE.
    OpenSuse,
    /// Alpine Linux.
    Alpine,
    /// NixOS.
    NixOs,
    /// Any of them as a guest of Windows.
    Wsl,
}

impl Distribution {
    /// Every one, in the order in which they are printed.
    pub const ALL: [Self; 8] = [
        Self::Debian,
        Self::Ubuntu,
        Self::Fedora,
        Self::Arch,
        Self::OpenSuse,
        Self::Alpine,
        Self::NixOs,
        Self::Wsl,
    ];

    /// Reads `os-release` below `root`: `ID` first, then what `ID_LIKE` says. `None` for one that we do not know.
    pub fn read(root: &Path) -> Option<Self> {
        let files = ["/etc/os-release", "/usr/lib/os-release"];
        let text = files.iter().find_map(|file| read_text(&below(root, Path::new(file))))?;
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().trim_matches(['"', '\'', ' ']).to_ascii_lowercase()
        };
        let (id, like) = (value("ID"), value("ID_LIKE"));
        std::iter::once(id.as_str()).chain(like.split_whitespace()).find_map(Self::of_id)
    }

    /// The one whose commands count: under WSL 1 nothing of the guest's helps.
    pub fn here(root: &Path, wsl: Wsl) -> Option<Self> {
        if wsl == Wsl::One { Some(Self::Wsl) } else { Self::read(root) }
    }

    /// Its name as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debian => "Debian",
            Self::Ubuntu => "Ubuntu",
            Self::Fedora => "Fedora",
            Self::Arch => "Arch",
            Self::OpenSuse => "openSUSE",
            Self::Alpine => "Alpine",
            Self::NixOs => "NixOS",
            Self::Wsl => "WSL",
        }
    }

    fn of_id(id: &str) -> Option<Self> {
        match id {
            "debian" | "raspbian" => Some(Self::Debian),
            "ubuntu" => Some(Self::Ubuntu),
            "fedora" | "rhel" | "centos" => Some(Self::Fedora),
            "arch" => Some(Self::Arch),
            "alpine" => Some(Self::Alpine),
            "nixos" => Some(Self::NixOs),
            id if id.starts_with("opensuse") || id == "suse" || id == "sles" => Some(Self::OpenSuse),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::machine;

    #[test]
    fn os_release_tells_distributions_apart() {
        for (text, want) in [
            ("ID=debian\n", Some(Distribution::Debian)),
            ("ID=ubuntu\nID_LIKE=debian\n", Some(Distribution::Ubuntu)),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", Some(Distribution::Ubuntu)),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", Some(Distribution::Fedora)),
            ("ID=fedora\n", Some(Distribution::Fedora)),
            ("ID=manjaro\nID_LIKE=arch\n", Some(Distribution::Arch)),
            ("ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n", Some(Distribution::OpenSuse)),
            ("ID=alpine\n", Some(Distribution::Alpine)),
            ("ID=nixos\n", Some(Distribution::NixOs)),
            ("ID=gentoo\n", None),
            ("", None),
        ] {
            let (_dir, host) = machine();
            std::fs::write(host.at("/etc/os-release"), text).unwrap();
            assert_eq!(Distribution::here(&host.root, Wsl::Two), want, "{text:?}");
            assert_eq!(Distribution::here(&host.root, Wsl::One), Some(Distribution::Wsl));
        }
    }
}

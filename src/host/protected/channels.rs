//! Unix sockets and FIFOs in the trees that a jail sees: doors to programs outside (FS-11). Devices need no search: in these
//! trees a device node means nothing, for their mounts say so.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::finder::Finder;
use super::scan::Area;
use super::trees::own_directories;
use super::{Found, Handover, Scope};
use crate::config::settings::Profile;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::policy::{Cover, CoverKind};
use crate::sanitize::escape;

/// How many are covered at most: each is a mount.
const LIMIT: usize = 4_000;

/// A socket or a FIFO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// Below the root of its tree.
    pub below: PathBuf,
    /// Which of the two.
    pub kind: ChannelKind,
}

/// What kind of door it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum ChannelKind {
    /// A Unix socket.
    Socket,
    /// A FIFO.
    Fifo,
}

/// Those that the walks through other trees noted (`walked`: roots, and what was noted), and of the other trees that are shown:
/// each as a cover. `named` are sockets that the user named. Nothing of the jail runs yet, so that all of them are the host's, but for a socket whose
/// program has ended: nobody will ever answer there.
///
/// # Errors
/// When there are too many, or, under `strict` and `lockdown`, a tree cannot be searched to its end.
pub fn channels(
    host: &Host,
    walked: &[(&Path, &[Channel])],
    shown: &[PathBuf],
    named: &[&Path],
    profile: Profile,
    warnings: &mut Vec<String>,
) -> Result<Vec<Cover>> {
    let mut found: Vec<(PathBuf, ChannelKind)> = walked
        .iter()
        .flat_map(|(root, channels)| channels.iter().map(|channel| (root.join(&channel.below), channel.kind)))
        .collect();
    let own = own_directories(host);
    let roots: Vec<&PathBuf> = shown
        .iter()
        .filter(|root| !walked.iter().any(|(walked, _)| root.starts_with(walked)))
        .filter(|root| !shown.iter().any(|outer| outer != *root && root.starts_with(outer)))
        .collect();
    for root in roots {
        let scope = Scope {
            root,
            more: &[],
            parts: &[],
            settings: &[],
            home: &host.user.home_real,
            uid: host.user.uid,
            own: &own,
            secrets: None,
            handover: Handover::No,
            known: None,
        };
        let mut finder = Finder::new(&scope);
        finder.walk(Path::new(""), Area::Channels);
        let Found { channels, unsearched, .. } = finder.finish();
        if let Some(why) = unsearched {
            let what = format!("not every socket and FIFO in {} can be found: {why}", escape(root));
            if matches!(profile, Profile::Strict | Profile::Lockdown) {
                return Err(Error::new(Kind::Refused, what)
                    .because("this profile starts only when all of them are covered")
                    .hint("name a smaller directory"));
            }
            warnings.push(format!("{what}; what was not found is not covered"));
        }
        found.extend(channels.into_iter().map(|channel| (root.join(channel.below), channel.kind)));
    }
    found.sort();
    found.dedup();
    found.retain(|(path, kind)| {
        !named.contains(&path.as_path()) && (*kind == ChannelKind::Fifo || has_program(path))
    });
    if found.len() > LIMIT {
        return Err(Error::new(
            Kind::Refused,
            format!(
                "there are {} sockets and FIFOs of this machine, more than the {LIMIT} that can be covered",
                found.len()
            ),
        )
        .because(format!(
            "{} is one of them",
            found.first().map(|(path, _)| escape(path).to_string()).unwrap_or_default()
        ))
        .hint("name a smaller directory with --project, or remove those that are not needed"));
    }
    warnings.extend(warning(&found));
    Ok(found
        .into_iter()
        .map(|(path, kind)| Cover { path, kind: CoverKind::Channel, reason: reason(kind).to_owned() })
        .collect())
}

fn reason(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::Socket => "it is a socket of a program outside, which --socket names",
        ChannelKind::Fifo => "it is a FIFO that was there before the jail, perhaps to a program outside",
    }
}

/// What the user is told: a program in the jail that expects one of them finds an empty file.
fn warning(found: &[(PathBuf, ChannelKind)]) -> Option<String> {
    let (first, kind) = found.first()?;
    let shown = escape(first);
    let more = match found.len() {
        1 => String::new(),
        many => format!(" (and {} more)", many - 1),
    };
    Some(match kind {
        ChannelKind::Socket => format!(
            "{shown} is a socket of a program outside and is covered{more}; --socket {shown} grants it, if you mean that"
        ),
        ChannelKind::Fifo => {
            format!("{shown} is a FIFO and is covered{more}; remove it if no program outside needs it")
        }
    })
}

/// Whether some program has the socket at `path`, in whatever network namespace it is. It learns nothing of the question:
/// a socket for datagrams is connected to one for streams never, and to one for datagrams without a word.
///
/// What cannot be asked counts as one that has.
pub fn has_program(path: &Path) -> bool {
    let open = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    match open {
        Ok(object) => is_bound(&object),
        Err(Errno::NOENT | Errno::NOTDIR) => false,
        Err(_) => true,
    }
}

/// The same for a socket that is open by its path alone.
pub fn is_bound(object: &OwnedFd) -> bool {
    is_bound_at(format!("/proc/self/fd/{}", object.as_raw_fd()).as_ref())
}

/// The same for a path that leads to the socket from where the kernel looks it up: at most 107 bytes.
pub fn is_bound_at(path: &Path) -> bool {
    let ask = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)
    };
    ask() != Err(Errno::CONNREFUSED)
}

impl Finder<'_> {
    /// Notes a directory entry that is a socket or a FIFO.
    pub(super) fn channel(&mut self, below: PathBuf, kind: ChannelKind) {
        self.channels.push(Channel { below, kind });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn a_socket_is_known_to_have_a_program_without_telling_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let stream = UnixListener::bind(path("stream")).unwrap();
        stream.set_nonblocking(true).unwrap();
        let datagram = UnixDatagram::bind(path("datagram")).unwrap();
        datagram.set_nonblocking(true).unwrap();
        assert!(has_program(&path("stream")) && has_program(&path("datagram")));
        assert_eq!(stream.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(datagram.recv(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        drop((stream, datagram));
        assert!(
            !has_program(&path("stream")) && !has_program(&path("datagram")) && !has_program(&path("no"))
        );
    }
}

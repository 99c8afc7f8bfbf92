//! The Landlock domain: reading and running stay free, writing is only beneath what is writable.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AddRuleError, AddRulesError, BitFlags, CompatLevel, Compatible, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};

use super::failed;
use crate::plan::inner::{InnerLandlock, StageReport};

const STEP: &str = "Landlock";

/// Raises the fence that `landlock` asks for around this thread, the only one. Fails unless the kernel enforces all of it.
pub fn raise(landlock: &InnerLandlock) -> Result<(), StageReport> {
    let InnerLandlock::Enforce { abi, writable } = landlock else {
        return Ok(());
    };
    let abi = ABI::from(*abi);
    if abi == ABI::Unsupported {
        return Err(failed(STEP, "the order names no version"));
    }
    let mut ruleset = handle(abi).map_err(|error| failed(STEP, error))?;
    for path in writable {
        allow_path(&mut ruleset, abi, path)?;
    }
    for stream in [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()] {
        allow_stream(&mut ruleset, abi, stream)?;
    }
    let status = ruleset.restrict_self().map_err(|error| failed(STEP, error))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        other => Err(failed(STEP, format!("the kernel says {other:?}"))),
    }
}

/// Every right to write that this version knows, and everything it can scope.
fn handle(abi: ABI) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(abi))?;
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create()
}

fn allow_path(ruleset: &mut RulesetCreated, abi: ABI, path: &Path) -> Result<(), StageReport> {
    let refused = |error: &dyn std::fmt::Display| failed(STEP, format!("{}: {error}", path.display()));
    let fd = PathFd::new(path).map_err(|error| refused(&error))?;
    let status = fstat(&fd).map_err(|error| refused(&error))?;
    let mut rights = AccessFs::from_write(abi);
    if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
        rights &= AccessFs::from_file(abi);
    }
    add(ruleset, fd, rights).map_err(|error| refused(&error))
}

/// A stream that is open for writing may be opened again by its name: scripts write to /dev/stderr, and the terminal or the file
/// behind it lies outside every writable path. This gives nothing that the open descriptor does not give.
fn allow_stream(ruleset: &mut RulesetCreated, abi: ABI, stream: BorrowedFd<'_>) -> Result<(), StageReport> {
    // A stream may be closed.
    let (Ok(flags), Ok(status)) = (fcntl_getfl(stream), fstat(stream)) else {
        return Ok(());
    };
    let writing = flags.intersects(OFlags::WRONLY | OFlags::RDWR) && !flags.contains(OFlags::PATH);
    let rights = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => AccessFs::from_file(abi) & AccessFs::from_write(abi) & !device_rights(abi),
        FileType::CharacterDevice => AccessFs::from_file(abi) & AccessFs::from_write(abi),
        _ => return Ok(()),
    };
    if !writing {
        return Ok(());
    }
    match add(ruleset, stream, rights) {
        // The kernel takes no rule for a file without a place, such as a memfd, and asks for none.
        Err(RulesetError::AddRules(AddRulesError::Fs(AddRuleError::AddRuleCall { source, .. })))
            if source.raw_os_error() == Some(libc::EBADFD) =>
        {
            Ok(())
        }
        result => result.map_err(|error| failed(STEP, error)),
    }
}

fn add(ruleset: &mut RulesetCreated, fd: impl AsFd, rights: BitFlags<AccessFs>) -> Result<(), RulesetError> {
    ruleset.add_rule(PathBeneath::new(fd, rights)).map(|_| ())
}

/// What makes sense for devices only.
fn device_rights(abi: ABI) -> BitFlags<AccessFs> {
    AccessFs::from_all(abi) & AccessFs::IoctlDev
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::{env, io, thread};

    use rustix::fs::{MemfdFlags, Mode, memfd_create};
    use rustix::process::{getppid, test_kill_process};

    use super::*;
    use crate::sys;

    /// An attempt: what it is, whether the fence lets it through, and how it is made in a directory of two trees, `in` and `out`.
    struct Attempt {
        what: &'static str,
        passes: bool,
        make: fn(&Path) -> io::Result<()>,
    }

    const ATTEMPTS: &[Attempt] = &[
        Attempt { what: "read outside", passes: true, make: |dir| fs::read(dir.join("out/file")).map(drop) },
        Attempt { what: "list outside", passes: true, make: |dir| fs::read_dir(dir.join("out")).map(drop) },
        Attempt { what: "write inside", passes: true, make: |dir| fs::write(dir.join("in/file"), "x") },
        Attempt { what: "make inside", passes: true, make: |dir| fs::write(dir.join("in/new"), "x") },
        Attempt {
            what: "rename between directories inside",
            passes: true,
            make: |dir| fs::rename(dir.join("in/new"), dir.join("in/sub/new")),
        },
        Attempt {
            what: "link between directories inside",
            passes: true,
            make: |dir| fs::hard_link(dir.join("in/sub/new"), dir.join("in/linked")),
        },
        Attempt { what: "write a writable file", passes: true, make: |dir| open(&dir.join("out/granted")) },
        Attempt { what: "write /dev/null", passes: true, make: |_| open(Path::new("/dev/null")) },
        Attempt { what: "write outside", passes: false, make: |dir| open(&dir.join("out/file")) },
        Attempt { what: "truncate outside", passes: false, make: |dir| truncate(&dir.join("out/file")) },
        Attempt { what: "make outside", passes: false, make: |dir| fs::write(dir.join("out/new"), "x") },
        Attempt {
            what: "make a directory outside",
            passes: false,
            make: |dir| fs::create_dir(dir.join("out/newdir")),
        },
        Attempt {
            what: "rename within outside",
            passes: false,
            make: |dir| fs::rename(dir.join("out/moved"), dir.join("out/moved2")),
        },
        Attempt {
            what: "link from outside",
            passes: false,
            make: |dir| fs::hard_link(dir.join("out/file"), dir.join("in/from-outside")),
        },
        Attempt {
            what: "link to outside",
            passes: false,
            make: |dir| fs::hard_link(dir.join("in/file"), dir.join("out/from-inside")),
        },
        Attempt {
            what: "remove outside",
            passes: false,
            make: |dir| fs::remove_file(dir.join("out/victim")),
        },
    ];

    #[test]
    fn the_fence_stops_writing_outside_and_nothing_else() {
        let Some(abi) = abi("truncate", 3) else { return };
        let free = tree();
        for attempt in ATTEMPTS {
            (attempt.make)(free.path())
                .unwrap_or_else(|error| panic!("control run: {}: {error}", attempt.what));
        }
        let fenced = tree();
        let dir = fenced.path().to_owned();
        let writable = vec![dir.join("in"), dir.join("out/granted"), PathBuf::from("/dev/null")];
        within(abi, writable, move || {
            for attempt in ATTEMPTS {
                let result = (attempt.make)(&dir);
                assert_eq!(result.is_ok(), attempt.passes, "{}: {result:?}", attempt.what);
            }
        });
    }

    #[test]
    fn the_fence_keeps_signals_and_abstract_sockets_in() {
        let Some(abi) = abi("scopes", 6) else { return };
        let address = SocketAddr::from_abstract_name(format!("fence-{}", std::process::id())).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let parent = getppid().unwrap();
        UnixStream::connect_addr(&address).unwrap();
        test_kill_process(parent).unwrap();
        within(abi, Vec::new(), move || {
            let refused = UnixStream::connect_addr(&address).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(test_kill_process(parent), Err(rustix::io::Errno::PERM));
        });
    }

    #[test]
    fn a_stream_may_be_opened_again_when_it_is_open_for_writing() {
        let Some(abi) = abi("", 1) else { return };
        let tree = tree();
        let written = OpenOptions::new().append(true).open(tree.path().join("out/file")).unwrap();
        let read = File::open(tree.path().join("out/victim")).unwrap();
        let memfd = memfd_create("placeless", MemfdFlags::CLOEXEC).unwrap();
        let (pipe, _end) = io::pipe().unwrap();
        thread::spawn(move || {
            let abi = ABI::from(abi);
            let mut ruleset = handle(abi).unwrap();
            for stream in [written.as_fd(), read.as_fd(), memfd.as_fd(), pipe.as_fd()] {
                allow_stream(&mut ruleset, abi, stream).unwrap();
            }
            ruleset.restrict_self().unwrap();
            let again = |stream: BorrowedFd<'_>| {
                use std::os::fd::AsRawFd;
                open(Path::new(&format!("/proc/self/fd/{}", stream.as_raw_fd())))
            };
            again(written.as_fd()).unwrap();
            again(memfd.as_fd()).unwrap();
            assert!(again(read.as_fd()).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_fence_that_cannot_be_raised_whole_is_an_error() {
        let Some(abi) = abi("", 1) else { return };
        let missing = PathBuf::from("/nonexistent/path");
        for (abi, writable) in [(0, Vec::new()), (-1, Vec::new()), (abi, vec![missing])] {
            let order = InnerLandlock::Enforce { abi, writable };
            // In a thread of its own, should it be raised after all.
            assert!(thread::spawn(move || raise(&order)).join().unwrap().is_err(), "{abi}");
        }
    }

    /// Runs `body` behind the fence. A domain holds for the thread that asked for it, and its children.
    fn within(abi: i32, writable: Vec<PathBuf>, body: impl FnOnce() + Send + 'static) {
        let order = InnerLandlock::Enforce { abi, writable };
        thread::spawn(move || {
            raise(&order).unwrap();
            body();
        })
        .join()
        .unwrap();
    }

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("in/sub")).unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        for file in ["in/file", "out/file", "out/granted", "out/moved", "out/victim"] {
            fs::write(dir.path().join(file), "text").unwrap();
        }
        dir
    }

    /// Without asking for the right to write.
    fn truncate(path: &Path) -> io::Result<()> {
        Ok(rustix::fs::open(path, OFlags::TRUNC | OFlags::RDONLY, Mode::empty()).map(drop)?)
    }

    fn open(path: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).open(path).map(drop)
    }

    /// The kernel's version when it is at least `least`. Otherwise says that `what` was not tested, and fails when it was required.
    fn abi(what: &str, least: i32) -> Option<i32> {
        let abi = sys::landlock::abi().filter(|abi| *abi >= least);
        if abi.is_none() {
            let required = env::var("AI_JAIL_TEST_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|name| name == "landlock"), "Landlock {least} is required");
            eprintln!("skipped: Landlock {least} ({what}) is not in this kernel");
        }
        abi
    }
}

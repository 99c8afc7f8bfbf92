//! Symlinks, one by one: what a path runs through until it ends at something real.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;

/// One symlink on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where it is; its parents are real directories.
    pub path: PathBuf,
    /// What it says, unresolved.
    pub target: PathBuf,
}

/// The way from a path to what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Every symlink that was followed, in any component, in order.
    pub links: Vec<Link>,
    /// The end, free of symlinks.
    pub end: PathBuf,
}

/// Resolved paths, each directory of them looked at once: a launch resolves some hundred paths of a few directories.
///
/// It is for the milliseconds in which a launch looks at the machine. Nothing is mounted by what it says without being
/// opened, and checked, again.
#[derive(Debug, Clone, Default)]
pub struct Resolved(RefCell<HashMap<PathBuf, Option<PathBuf>>>);

impl Resolved {
    /// The path without symlinks, as `realpath(3)` has it; `None` when something is missing or cannot be searched.
    pub fn real(&self, path: &Path) -> Option<PathBuf> {
        let known = self.0.borrow().get(path).cloned();
        known.unwrap_or_else(|| {
            let real = self.look(path);
            self.0.borrow_mut().insert(path.to_path_buf(), real.clone());
            real
        })
    }

    fn look(&self, path: &Path) -> Option<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return path.canonicalize().ok();
        };
        // `..` is of the directory that a symlink before it leads to, and a slash at the end wants a directory.
        let plain = path.is_absolute()
            && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
            && !path.as_os_str().as_bytes().ends_with(b"/");
        if !plain {
            return path.canonicalize().ok();
        }
        let place = self.real(parent)?.join(name);
        match rustix::fs::readlink(&place, Vec::new()) {
            Ok(_) => place.canonicalize().ok(),
            // There, and no symlink.
            Err(Errno::INVAL) => Some(place),
            Err(_) => None,
        }
    }
}

/// Follows an absolute path component by component.
///
/// # Errors
/// As `stat(2)`: something is missing or unreadable, or more than 40 links were followed.
pub fn follow(path: &Path) -> io::Result<Route> {
    let mut links = Vec::new();
    let mut end = PathBuf::from("/");
    let mut rest: Vec<OsString> = parts(path);
    while let Some(part) = rest.pop() {
        if part == ".." {
            end.pop();
            continue;
        }
        let next = end.join(&part);
        if !next.symlink_metadata()?.is_symlink() {
            end = next;
            continue;
        }
        // A symlink that was one no more when it was read.
        let target = next.read_link().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => io::Error::other("it was replaced while it was looked at"),
            _ => error,
        })?;
        if target.is_absolute() {
            end = PathBuf::from("/");
        }
        rest.extend(parts(&target));
        links.push(Link { path: next, target });
        if links.len() > MAX_LINKS {
            return Err(io::Error::from(Errno::LOOP));
        }
    }
    Ok(Route { links, end })
}

impl Route {
    /// The first symlink that lies in one of `trees`, and its tree, when the end lies elsewhere.
    pub fn leads_out<'a>(&'a self, trees: &'a [PathBuf]) -> Option<(&'a Path, &'a Path)> {
        let found = self.links.iter().flat_map(|link| {
            trees
                .iter()
                .filter(|tree| link.path.starts_with(tree))
                .map(|tree| (link.path.as_path(), tree.as_path()))
        });
        found.into_iter().find(|(_, tree)| !self.end.starts_with(tree))
    }
}

/// The components that move, last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let moving = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    let mut parts: Vec<OsString> = moving.map(|part| part.as_os_str().to_owned()).collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_of_a_chain_is_reported_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("v/20/bin")).unwrap();
        std::fs::write(top.join("v/20/bin/node"), "").unwrap();
        symlink("v/20", top.join("current")).unwrap();
        symlink("../current/bin/node", top.join("v/n")).unwrap();
        let route = follow(&top.join("v/n")).unwrap();
        assert_eq!(route.end, top.join("v/20/bin/node"));
        let places: Vec<_> = route.links.iter().map(|link| link.path.clone()).collect();
        assert_eq!(places, [top.join("v/n"), top.join("current")]);
    }

    #[test]
    fn loops_and_dangling_links_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        symlink("nowhere", dir.path().join("c")).unwrap();
        for name in ["a", "c"] {
            assert!(follow(&dir.path().join(name)).is_err(), "{name}");
        }
    }
}

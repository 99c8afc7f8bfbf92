//! What the user's `deny` and `mask` match on this machine (FS-8), with every other name that it has (FS-15).

mod case;
mod links;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::plan::operation::Veil;
use crate::policy::glob::{Anchor, Glob, States};
use crate::policy::origin::Sourced;
use crate::policy::{Asked, Cover, CoverKind, Named};
use crate::sanitize::escape;

pub use self::case::case_of;
use self::walk::{Start, Stop, Walk};
use super::links::follow;

/// Paths that one glob may match.
pub const MATCH_LIMIT: usize = 10_000;
/// Directory entries that one glob may walk over.
pub const ENTRY_LIMIT: usize = 1_000_000;

/// Where globs count.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The project.
    pub project: &'a Path,
    /// The user's own grants: their sources.
    pub grants: &'a [PathBuf],
    /// What else of the user's may be shown.
    pub shown: &'a [PathBuf],
    /// What is shown of the system.
    pub system: &'a [PathBuf],
    /// ai-jail's own directories, which are covered anyway.
    pub own: &'a [PathBuf],
}

/// What `deny` and `mask` come to.
#[derive(Debug, Default)]
pub struct Veiled {
    /// The entries.
    pub asked: Vec<Asked>,
    /// What they match now, each path once.
    pub covers: Vec<Cover>,
}

/// Looks for everything that `deny` and `mask` match. What could not be searched is covered as a whole, with a warning.
///
/// # Errors
/// When an entry is too wide, or names what cannot be covered.
pub fn find(
    deny: &[Sourced<Glob>],
    mask: &[Sourced<Glob>],
    ground: &Ground<'_>,
    warnings: &mut Vec<String>,
) -> Result<Veiled> {
    if deny.is_empty() && mask.is_empty() {
        return Ok(Veiled::default());
    }
    let mut search =
        Search { ground, asked: Vec::new(), covers: BTreeMap::new(), walked: Vec::new(), warnings };
    let globs = deny.iter().map(|glob| (glob, Veil::Closed));
    let globs = globs.chain(mask.iter().map(|glob| (glob, Veil::Empty)));
    for (glob, veil) in globs {
        search.add(glob, veil)?;
    }
    search.literals()?;
    for start in search.starts()? {
        search.walk(start)?;
    }
    search.other_names()?;
    let covers = search.covers.into_values().map(|found| found.cover).collect();
    Ok(Veiled { asked: search.asked, covers })
}

/// A cover with the entry that asks for it.
struct Found {
    cover: Cover,
    asked: usize,
}

struct Search<'a> {
    ground: &'a Ground<'a>,
    asked: Vec<Asked>,
    covers: BTreeMap<PathBuf, Found>,
    /// Where walks began, and for which entries.
    walked: Vec<(PathBuf, usize)>,
    warnings: &'a mut Vec<String>,
}

impl Search<'_> {
    /// Finds where an entry starts on this machine: the part of it that exists, free of symlinks.
    fn add(&mut self, glob: &Sourced<Glob>, veil: Veil) -> Result<()> {
        let base = match glob.value.anchor() {
            Anchor::Project => self.ground.project,
            Anchor::Root => Path::new("/"),
        };
        let names = glob.value.prefix();
        let names: Vec<_> = names.iter().filter(|name| *name != "/").collect();
        let mut real = base.to_path_buf();
        let mut depth = 0;
        for name in &names {
            let next = real.join(name);
            match follow(&next) {
                Ok(route) if route.end.is_dir() => {
                    // A symlink on the way would lead elsewhere if it were replaced.
                    for link in route.links {
                        let reason = format!("it leads to what is named by `{}`", escape(glob.value.text()));
                        self.way(link.path, reason);
                    }
                    real = route.end;
                    depth += 1;
                }
                Ok(_) => break,
                Err(error) if missing(&error) => break,
                Err(error) => {
                    return Err(refused(&glob.value, &glob.origin, veil)
                        .because(format!("{} cannot be looked at: {error}", escape(&next)))
                        .hint("make it readable, or leave the entry out"));
                }
            }
        }
        for kernel in ["/proc", "/sys", "/dev"] {
            if real.starts_with(kernel) {
                return Err(refused(&glob.value, &glob.origin, veil)
                    .because(format!("{kernel} is the kernel's own in the jail"))
                    .hint("leave the entry out"));
            }
        }
        let literal = glob.value.literal().map(|path| base.join(path));
        self.asked.push(Asked {
            matches: glob.value.below(&real, depth),
            // Where it is, without the symlinks of its parents, when those exist.
            literal: literal.map(|path| match (path.file_name(), depth == names.len()) {
                (Some(name), true) => real.join(name),
                _ => path,
            }),
            text: glob.value.text().to_owned(),
            veil,
            origin: glob.origin.clone(),
            is_found: false,
        });
        Ok(())
    }

    /// Entries that name one path.
    fn literals(&mut self) -> Result<()> {
        for at in 0..self.asked.len() {
            let Some(path) = self.asked[at].literal.clone() else { continue };
            match path.symlink_metadata() {
                Ok(_) => {
                    self.asked[at].is_found = true;
                    self.matched(&path, at, Named::Literally)?;
                }
                Err(error) if missing(&error) => {}
                Err(error) => {
                    return Err(self
                        .refused(at)
                        .because(format!("{} cannot be looked at: {error}", escape(&path)))
                        .hint("make it readable, or leave the entry out"));
                }
            }
            // Names that differ by their case alone are the same file in some directories.
            if let Some((parent, name)) = path.parent().zip(path.file_name())
                && case_of(parent) == crate::policy::glob::Case::Ignored
                && let Some(own) = case::own_name(parent, name)
            {
                self.asked[at].is_found = true;
                self.matched(&parent.join(own), at, Named::Literally)?;
            }
        }
        Ok(())
    }

    /// One walk for all the entries that start in one place.
    fn walk(&mut self, mut start: Start) -> Result<()> {
        start.states.retain(|(at, _)| !self.reached(&start.directory, *at));
        if start.states.is_empty() {
            return Ok(());
        }
        self.walked.extend(start.states.iter().map(|(at, _)| (start.directory.clone(), *at)));
        let covered = self.covers.values().filter(|found| found.cover.kind != CoverKind::Way);
        let covered = covered.map(|found| &found.cover.path).chain(self.ground.own).cloned().collect();
        let found = Walk::new(&self.asked, covered).run(start).map_err(|stop| self.too_wide(&stop))?;
        for (path, at) in found.matched {
            self.matched(&path, at, Named::ByMatch)?;
        }
        if let Some((first, _)) = found.closed.first() {
            let more = match found.closed.len() {
                1 => String::new(),
                many => format!(" (and {} more)", many - 1),
            };
            self.warnings.push(format!(
                "{}{more} cannot be searched for what is to be denied or masked, and is covered as a whole",
                escape(first)
            ));
        }
        found.closed.into_iter().try_for_each(|(path, at)| self.matched(&path, at, Named::ByMatch))
    }

    /// Where walks start: the directories of the globs, as far as they lie in something that is shown; outermost first.
    fn starts(&mut self) -> Result<Vec<Start>> {
        let mut starts: BTreeMap<(usize, PathBuf), Vec<(usize, States)>> = BTreeMap::new();
        let mut start = |directory: &Path, at: usize, states: States| {
            let place = (directory.components().count(), directory.to_path_buf());
            starts.entry(place).or_default().push((at, states));
        };
        let ground = self.ground;
        let trees = std::iter::once(ground.project)
            .chain(ground.grants.iter().map(PathBuf::as_path))
            .chain(ground.shown.iter().map(PathBuf::as_path))
            .chain(ground.system.iter().map(PathBuf::as_path));
        let trees: BTreeSet<&Path> = trees.collect();
        let mut above = Vec::new();
        for (at, asked) in self.asked.iter().enumerate().filter(|(_, asked)| asked.literal.is_none()) {
            let directory = asked.matches.directory();
            if trees.iter().any(|tree| directory.starts_with(tree)) {
                start(directory, at, asked.matches.start());
            }
            for tree in &trees {
                let Ok(rest) = tree.strip_prefix(directory) else { continue };
                if rest.as_os_str().is_empty() {
                    continue;
                }
                let mut states = asked.matches.start();
                let mut path = directory.to_path_buf();
                for name in rest {
                    states = asked.matches.step(states, name, case_of(&path));
                    path.push(name);
                    if asked.matches.matched(states) {
                        above.push((path.clone(), at));
                    }
                }
                if asked.matches.goes_on(states) {
                    start(tree, at, states);
                }
            }
        }
        // What is shown may itself be what matches, or lie in it.
        above.into_iter().try_for_each(|(path, at)| self.matched(&path, at, Named::ByMatch))?;
        Ok(starts.into_iter().map(|((_, directory), states)| Start { directory, states }).collect())
    }

    /// Whether an earlier walk for this entry came by `directory`, or it is covered. A walk enters nothing that matches.
    fn reached(&self, directory: &Path, at: usize) -> bool {
        let is_covered =
            |path: &Path| self.covers.get(path).is_some_and(|found| found.cover.kind != CoverKind::Way);
        is_covered(directory)
            || self.walked.iter().any(|(from, walked)| {
                *walked == at
                    && directory.starts_with(from)
                    && !directory.ancestors().take_while(|path| path != from).any(is_covered)
            })
    }

    /// Something that matches, and where it leads if it is a symlink.
    fn matched(&mut self, path: &Path, at: usize, named: Named) -> Result<()> {
        if path == self.ground.project {
            return Err(self
                .refused(at)
                .because("it matches the project itself")
                .hint("name what is to be hidden in the project"));
        }
        let reason = self.asked[at].reason();
        self.cover(path, at, named, reason.clone());
        if !path.is_symlink() {
            return Ok(());
        }
        let Ok(route) = follow(path) else { return Ok(()) };
        let within = |trees: &[PathBuf]| trees.iter().any(|tree| route.end.starts_with(tree));
        let ground = self.ground;
        let is_users = route.end.starts_with(ground.project) || within(ground.grants) || within(ground.shown);
        if within(ground.system) && !is_users {
            // Everybody may read it, and programs need it: a symlink to the system's certificates is no secret.
            return Ok(());
        }
        // What holds a part of the system, as `/etc`, is shown in parts, each of them as a whole.
        let holds_system = ground.system.iter().any(|tree| tree.starts_with(&route.end)) && !is_users;
        if holds_system || self.holds_a_tree(&route.end) {
            self.warnings.push(format!(
                "{} is {reason} and leads to {}, which the jail shows as a whole: only the symlink is covered",
                escape(path),
                escape(&route.end)
            ));
            return Ok(());
        }
        self.cover(&route.end, at, Named::ByMatch, format!("{} leads to it, {reason}", escape(path)));
        Ok(())
    }

    /// Whether `path` is the project or something that the user granted, or holds one of them.
    fn holds_a_tree(&self, path: &Path) -> bool {
        let trees =
            std::iter::once(self.ground.project).chain(self.ground.grants.iter().map(PathBuf::as_path));
        trees.into_iter().any(|tree| tree.starts_with(path))
    }

    fn cover(&mut self, path: &Path, at: usize, named: Named, reason: String) {
        let veil = self.asked[at].veil;
        if let Some(known) = self.covers.get(path)
            && let CoverKind::Asked(stands, how) = known.cover.kind
        {
            // The stricter one holds, and what was named stays named.
            let named = if how == Named::Literally { how } else { named };
            if stands >= veil {
                if let Some(known) = self.covers.get_mut(path) {
                    known.cover.kind = CoverKind::Asked(stands, named);
                }
                return;
            }
        }
        let cover = Cover { path: path.to_path_buf(), kind: CoverKind::Asked(veil, named), reason };
        self.covers.insert(path.to_path_buf(), Found { cover, asked: at });
    }

    fn way(&mut self, path: PathBuf, reason: String) {
        let cover = Cover { path: path.clone(), kind: CoverKind::Way, reason };
        self.covers.entry(path).or_insert(Found { cover, asked: 0 });
    }

    /// Other names of the files that are covered, in the project and in what is granted.
    fn other_names(&mut self) -> Result<()> {
        let covered = self.covers.values().filter(|found| found.cover.kind != CoverKind::Way);
        let wanted = links::Wanted::new(covered.map(|found| (found.cover.path.as_path(), found.asked)));
        if wanted.is_empty() {
            return Ok(());
        }
        let trees: Vec<&Path> = std::iter::once(self.ground.project)
            .chain(self.ground.grants.iter().map(PathBuf::as_path))
            .collect();
        let is_covered = |path: &Path| {
            self.covers.get(path).is_some_and(|found| found.cover.kind != CoverKind::Way)
                || self.ground.own.iter().any(|own| own == path)
        };
        let found = links::others(&wanted, &trees, &is_covered).map_err(|stopped| {
            Error::new(
                Kind::Refused,
                format!("{} has another name that cannot be found", escape(&stopped.example)),
            )
            .because(match stopped.error {
                None => format!(
                    "it is a hard link, and there are more than {ENTRY_LIMIT} entries to look at (stopped in {})",
                    escape(&stopped.directory)
                ),
                Some(error) => format!(
                    "it is a hard link, and {} cannot be listed ({error})",
                    escape(&stopped.directory)
                ),
            })
            .hint("replace it by a copy of itself, or name a smaller directory with --project")
        })?;
        for links::OtherName { path, known, whose } in found {
            let reason = format!("it is another name of {}, {}", escape(&known), self.asked[whose].reason());
            self.cover(&path, whose, Named::ByMatch, reason);
        }
        Ok(())
    }

    fn refused(&self, at: usize) -> Error {
        let asked = &self.asked[at];
        refused_text(&asked.text, &asked.origin, asked.veil)
    }

    fn too_wide(&self, stop: &Stop) -> Error {
        let why = match stop.matches {
            true => format!("it matches more than {MATCH_LIMIT} paths"),
            false => format!("more than {ENTRY_LIMIT} entries have to be looked at for it"),
        };
        self.refused(stop.asked)
            .because(format!("{why} (stopped in {})", escape(&stop.directory)))
            .hint("begin it with a directory, or name the directory that holds what is to be hidden")
    }
}

fn refused(glob: &Glob, origin: &crate::policy::origin::Origin, veil: Veil) -> Error {
    refused_text(glob.text(), origin, veil)
}

fn refused_text(text: &std::ffi::OsStr, origin: &crate::policy::origin::Origin, veil: Veil) -> Error {
    let how = match veil {
        Veil::Closed => "denied",
        Veil::Empty => "masked",
    };
    Error::new(Kind::Refused, format!("`{}` cannot be {how} ({origin})", escape(text)))
}

fn missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(libc::ELOOP)
}

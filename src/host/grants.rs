//! What the user grants, looked at on this machine: what it is, where it goes, and whether it may.

mod bounds;

pub(super) use self::bounds::RESERVED;

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use crate::config::settings::{GrantSpec, Protect, Settings};
use crate::error::{Error, Kind, Result};
use crate::plan::operation::Access;
use crate::policy::Grant;
use crate::policy::files::Shape;
use crate::policy::origin::{Layer, Sourced};

use super::Host;
use super::links::{self, Route};
use super::project::Project;
use super::sources::Sources;
use super::system::SystemMount;
pub(super) use bounds::protected_part;

/// What grants are measured against.
pub(super) struct Bounds<'a> {
    pub(super) host: &'a Host,
    pub(super) settings: &'a Settings,
    pub(super) project: &'a Project,
    pub(super) system: &'a [SystemMount],
    /// ai-jail's own directories.
    pub(super) own: &'a [PathBuf],
}

/// The grants whose sources exist, each held in `sources`. What is missing is refused from the command line and warned about
/// from a file (FS-3).
pub(super) fn read(
    bounds: &Bounds<'_>,
    sources: &mut Sources,
    warnings: &mut Vec<String>,
) -> Result<Vec<Grant>> {
    let settings = bounds.settings;
    let all = settings
        .read_only
        .iter()
        .map(|spec| (spec, Access::ReadOnly))
        .chain(settings.read_write.iter().map(|spec| (spec, Access::Writable)));
    let mut routes = Vec::new();
    for (spec, access) in all {
        match route(spec) {
            Ok(route) => routes.push((spec, access, route)),
            Err(missing) if missing.kind() == Kind::NotFound && spec.origin.layer != Layer::CommandLine => {
                warnings.push(format!("{missing} ({})", spec.origin));
            }
            Err(error) if error.kind() == Kind::NotFound => {
                return Err(Error::new(Kind::Refused, error.what())
                    .because("there is no such file or directory")
                    .hint("check the path, or make it first"));
            }
            Err(error) => return Err(error),
        }
    }
    // What a jail writes may hold symlinks that a jail made.
    let mut written = vec![bounds.project.root.clone()];
    let writable = routes.iter().filter(|(_, access, _)| *access == Access::Writable);
    written.extend(writable.map(|(_, _, route)| route.end.clone()));
    if routes.iter().any(|(_, _, route)| !route.links.is_empty()) {
        written.extend(bounds.host.written_now());
    }
    let mut grants = Vec::new();
    for (spec, access, route) in &routes {
        grants.push(grant(bounds, spec, *access, route, &written, sources)?);
    }
    bounds.places(&grants)?;
    Ok(grants)
}

fn shown(path: &Path) -> String {
    crate::sanitize::escape(path.as_os_str()).to_string()
}

fn refused(spec: &Sourced<GrantSpec>, why: &str, hint: &str) -> Error {
    Error::new(Kind::Refused, format!("{} cannot be granted ({})", shown(&spec.value.source), spec.origin))
        .because(why)
        .hint(hint)
}

fn route(spec: &Sourced<GrantSpec>) -> Result<Route> {
    links::follow(&spec.value.source).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            Error::new(Kind::NotFound, format!("{} does not exist", shown(&spec.value.source)))
        }
        _ => refused(spec, &error.to_string(), "grant something that you can read"),
    })
}

fn grant(
    bounds: &Bounds<'_>,
    spec: &Sourced<GrantSpec>,
    access: Access,
    route: &Route,
    written: &[PathBuf],
    sources: &mut Sources,
) -> Result<Grant> {
    let source = route.end.clone();
    if let Some((link, tree)) = route.leads_out(written) {
        let why = format!(
            "{} is a symlink that leads out of {}, where an agent may have made it",
            shown(link),
            shown(tree)
        );
        return Err(refused(spec, &why, "name what it leads to, if you mean that"));
    }
    let dest = destination(bounds, spec, route, written)?;
    bounds.source(spec, &source)?;
    let object = sources.hold(&source)?;
    let kind = File::from(object.try_clone().map_err(|error| unusable(spec, &error))?)
        .metadata()
        .map_err(|error| unusable(spec, &error))?
        .file_type();
    if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
        return Err(refused(
            spec,
            "it is a socket, a FIFO or a device: a door to a program outside",
            "grant regular files and directories only",
        ));
    }
    if access == Access::Writable
        && bounds.settings.protect.value != Protect::DangerOff
        && let Some(part) = protected_part(&source, &bounds.host.user.home_real)
    {
        return Err(refused(
            spec,
            &format!(
                "{} is a protected path: programs outside the jail run what it says, so no part of it is opened singly",
                shown(&part)
            ),
            "edit it outside the jail, or grant it with --ro (protect = false in your own configuration opens all of them)",
        ));
    }
    let shape = if kind.is_dir() { Shape::Directory } else { Shape::File };
    Ok(Grant { source, dest, access, shape, origin: spec.origin.clone() })
}

fn unusable(spec: &Sourced<GrantSpec>, error: &std::io::Error) -> Error {
    refused(spec, &error.to_string(), "grant something that you can read")
}

/// Where a grant shows inside. Without a place of its own it is where it is outside, under the name that was typed if every
/// symlink in that is the user's own, below the home.
fn destination(
    bounds: &Bounds<'_>,
    spec: &Sourced<GrantSpec>,
    route: &Route,
    written: &[PathBuf],
) -> Result<PathBuf> {
    let GrantSpec { source, dest } = &spec.value;
    let user = &bounds.host.user;
    let plain = |path: &Path| {
        path.is_absolute()
            && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
    };
    if dest == source {
        let own = |path: &Path| {
            path.starts_with(&user.home_real) && !written.iter().any(|tree| path.starts_with(tree))
        };
        let typed = plain(source) && source.starts_with(&user.home_real);
        let kept = typed && !route.links.is_empty() && route.links.iter().all(|link| own(&link.path));
        return Ok(if kept { source.components().collect() } else { route.end.clone() });
    }
    if !plain(dest) {
        return Err(refused(
            spec,
            "its place in the jail is not a plain absolute path",
            "write it without `..`",
        ));
    }
    // The home has one name inside.
    Ok(match dest.strip_prefix(&user.home) {
        Ok(below) if below.as_os_str().is_empty() => user.home_real.clone(),
        Ok(below) => user.home_real.join(below),
        Err(_) => dest.components().collect(),
    })
}

/// Whether the project itself may be shown writable where it is.
///
/// # Errors
/// When it is, or lies in, a directory of ai-jail's own, or (when `writable`) a protected path.
pub(super) fn check_project(bounds: &Bounds<'_>, writable: bool) -> Result<()> {
    let root = &bounds.project.root;
    let refuse = |why: String, hint: &str| {
        Err(Error::new(Kind::Refused, format!("{} cannot be the project", shown(root)))
            .because(why)
            .hint(hint))
    };
    if let Some(own) = bounds.own.iter().find(|own| root.starts_with(own)) {
        return refuse(
            format!("ai-jail keeps its own things in {}", shown(own)),
            "change to a project's directory",
        );
    }
    if writable
        && bounds.settings.protect.value != Protect::DangerOff
        && let Some(part) = protected_part(root, &bounds.host.user.home_real)
    {
        let why = format!("{} is a protected path: programs outside the jail run what it says", shown(&part));
        return refuse(why, "start in the directory that holds it, or with --profile read-only");
    }
    Ok(())
}

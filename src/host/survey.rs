//! Everything that is read of the machine for one launch.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::config::settings::{GrantSpec, Profile, Settings};
use crate::error::{Error, Kind, Result};
use crate::plan::operation::Access;
use crate::policy::files::{FileRule, Shape, Source, Tree};
use crate::policy::origin::{Layer, Origin, Sourced};
use crate::policy::{Facts, Grant, ProtectedTree};

use super::command::Command;
use super::git_config::{CarriedGitConfig, Lfs};
use super::project::Project;
use super::system::{Extent, MountKind, SystemMount, mounts};
use super::toolconf::ToolConfig;
use super::{Host, agents, protected, toolchains, trust};

/// Places in the jail that are made by ai-jail and cannot be granted over.
const RESERVED: [&str; 4] = ["/proc", "/dev", "/run/ai-jail", "/run/.ai-jail-staging"];
/// What `devbox` leaves out of the root.
const VIRTUAL: [&str; 7] = ["proc", "sys", "dev", "run", "tmp", "data", "lost+found"];

/// Reads the facts for `command` (with its arguments) in `project` under `settings`.
///
/// # Errors
/// When the command cannot be found, or something that was named on the command line does not exist or cannot be granted.
pub fn survey(
    host: &Host,
    settings: &Settings,
    project: &Project,
    command: &Command,
    arguments: Vec<OsString>,
    warnings: &mut Vec<String>,
) -> Result<Facts> {
    let grants = grants(host, settings, warnings)?;
    // Nothing of the user's configuration widens lockdown, a preset neither.
    let agent = match &command.agent {
        Some(agent) if agent.file.is_some() && settings.profile.value == Profile::Lockdown => {
            agents::for_command(&agent.name.0).cloned()
        }
        agent => agent.clone(),
    };
    let toolchains =
        if settings.toolchains.value { toolchains::detect(host, &project.root)? } else { Vec::new() };
    let tool_config =
        if settings.toolchains.value { ToolConfig::read(host, &project.root) } else { ToolConfig::default() };
    let git = CarriedGitConfig::read(host);
    if git.lfs == Lfs::LeftOut {
        warnings.push("git-lfs's filter is not carried (it is not the stock one, or git-lfs is missing): `git add` of its files would commit them in place of their pointers".to_owned());
    }
    let extent = if settings.profile.value == Profile::Lockdown { Extent::Minimal } else { Extent::Whole };
    let (trust, trust_covers, warning) = trust::read(host);
    warnings.extend(warning);
    let git_outside: Vec<PathBuf> =
        project.git.iter().flat_map(|git| git.outside(&project.root)).map(Path::to_path_buf).collect();
    Ok(Facts {
        user: host.user.clone(),
        environment: host.environment.vars.clone(),
        project: project.root.clone(),
        cwd: host.cwd.clone().unwrap_or_else(|| project.root.clone()),
        trees: trees(
            host,
            project,
            &git_outside,
            &grants,
            settings,
            agent.as_ref().map_or(&[], |agent| agent.protected.as_slice()),
            warnings,
        )?,
        git_outside,
        program: command.program.clone(),
        argv: arguments,
        agent,
        needs: command.needs.iter().map(|mount| needed(mount, "the command needs it to start")).collect(),
        toolchain_variables: toolchains.iter().flat_map(|toolchain| toolchain.env.clone()).collect(),
        toolchains: toolchains
            .iter()
            .flat_map(|toolchain| {
                toolchain.mounts.iter().map(|mount| needed(mount, &format!("toolchain {}", toolchain.name)))
            })
            .collect(),
        shown: tool_config
            .mounts
            .iter()
            .map(|path| shown(path, "a tool's own configuration names it"))
            .chain(terminfo(host).iter().map(|path| shown(path, "TERMINFO")))
            .collect(),
        tool_variables: tool_config.env,
        tool_files: tool_config.files,
        system: mounts(&host.root, extent)?,
        git_config: git.values,
        grants,
        devbox_roots: if settings.profile.value == Profile::Devbox {
            devbox_roots(&host.root)
        } else {
            Vec::new()
        },
        path_entries: host
            .environment
            .path_entries()
            .into_iter()
            .filter(|entry| entry.is_absolute() && entry.is_dir())
            .collect(),
        landlock_abi: crate::sys::landlock::abi(),
        own_addresses: own_addresses(),
        trust,
        trust_covers,
        resolv_conf: super::read_text(&host.at("/etc/resolv.conf")),
    })
}

/// The grants whose sources exist. What is missing is refused from the command line and warned about from a file (FS-3).
fn grants(host: &Host, settings: &Settings, warnings: &mut Vec<String>) -> Result<Vec<Grant>> {
    let mut grants = Vec::new();
    let all = settings
        .read_only
        .iter()
        .map(|spec| (spec, Access::ReadOnly))
        .chain(settings.read_write.iter().map(|spec| (spec, Access::Writable)));
    for (spec, access) in all {
        match grant(host, spec, access) {
            Ok(grant) => grants.push(grant),
            Err(missing) if missing.kind() == Kind::NotFound && spec.origin.layer != Layer::CommandLine => {
                warnings.push(format!("{missing} ({})", spec.origin))
            }
            Err(error) if error.kind() == Kind::NotFound => {
                return Err(Error::new(Kind::Refused, error.what())
                    .because("there is no such file or directory")
                    .hint("check the path, or make it first"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(grants)
}

fn grant(host: &Host, spec: &Sourced<GrantSpec>, access: Access) -> Result<Grant> {
    let GrantSpec { source, dest } = &spec.value;
    let shown = crate::sanitize::escape(source.as_os_str()).to_string();
    let refuse = |why: &str, hint: &str| {
        Err(Error::new(Kind::Refused, format!("{shown} cannot be granted ({})", spec.origin))
            .because(why)
            .hint(hint))
    };
    let resolved = match source.canonicalize() {
        Ok(resolved) => resolved,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::new(Kind::NotFound, format!("{shown} does not exist")));
        }
        Err(error) => return refuse(&error.to_string(), "grant something that you can read"),
    };
    let kind = fs::metadata(&resolved)
        .map_err(|error| Error::new(Kind::Refused, format!("{shown} cannot be granted")).because(error))?
        .file_type();
    if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
        return refuse(
            "it is a socket, a FIFO or a device: a door to a program outside",
            "grant regular files and directories only",
        );
    }
    if resolved == Path::new("/") || dest == Path::new("/") {
        return refuse("that would be every file of this machine", "name the directories that are needed");
    }
    if host.user.home_real.starts_with(&resolved) {
        return refuse(
            "it holds your whole home directory with every credential in it",
            "name the directories that are needed",
        );
    }
    if RESERVED.iter().any(|reserved| dest.starts_with(reserved)) {
        return refuse("the jail has its own there", "choose another place with PATH:DEST");
    }
    let shape = if kind.is_dir() { Shape::Directory } else { Shape::File };
    Ok(Grant { source: resolved, dest: dest.clone(), access, shape, origin: spec.origin.clone() })
}

/// The protected paths of every tree that may become writable, `more` being names beside the table's.
fn trees(
    host: &Host,
    project: &Project,
    git_outside: &[PathBuf],
    grants: &[Grant],
    settings: &Settings,
    more: &[String],
    warnings: &mut Vec<String>,
) -> Result<Vec<ProtectedTree>> {
    if matches!(settings.profile.value, Profile::ReadOnly | Profile::Lockdown)
        && grants.iter().all(|grant| grant.access == Access::ReadOnly)
    {
        return Ok(Vec::new());
    }
    let mut roots: BTreeSet<&Path> = grants
        .iter()
        .filter(|grant| grant.access == Access::Writable)
        .map(|grant| grant.source.as_path())
        .collect();
    roots.insert(&project.root);
    let trees = protected::Trees { roots, git: git_outside, more, profile: settings.profile.value };
    protected::trees(host, &trees, warnings)
}

fn needed(need: &SystemMount, why: &str) -> FileRule {
    let (source, shape) = match &need.kind {
        MountKind::Bind => (Source::Host(need.source.clone()), shape(&need.source)),
        MountKind::Symlink(target) => (Source::Symlink(target.clone()), Shape::File),
    };
    rule(&need.dest, source, shape, why)
}

fn shown(path: &Path, why: &str) -> FileRule {
    rule(path, Source::Host(path.to_path_buf()), shape(path), why)
}

fn rule(dest: &Path, source: Source, shape: Shape, why: &str) -> FileRule {
    FileRule {
        dest: dest.to_path_buf(),
        source,
        shape,
        access: Access::ReadOnly,
        tree: Tree::Theirs,
        origin: Origin::built_in(why),
    }
}

fn shape(path: &Path) -> Shape {
    if path.is_dir() { Shape::Directory } else { Shape::File }
}

/// The directories that describe terminals, where they are not the system's.
fn terminfo(host: &Host) -> Vec<PathBuf> {
    let named = ["TERMINFO", "TERMINFO_DIRS"].into_iter().filter_map(|name| host.environment.var(name));
    named
        .flat_map(|value| std::env::split_paths(value).collect::<Vec<_>>())
        .filter(|path| path.is_absolute() && path.is_dir() && !host.user.home_real.starts_with(path))
        .collect()
}

fn devbox_roots(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir())
                && !VIRTUAL.iter().any(|name| entry.file_name() == *name)
        })
        .map(|entry| entry.path())
        .collect()
}

fn own_addresses() -> Vec<std::net::IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    interfaces
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
            v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
        })
        .collect()
}

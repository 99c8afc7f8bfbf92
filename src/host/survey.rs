//! Everything that is read of the machine for one launch.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::settings::{CacheMode, NetworkMode, Profile, Settings};
use crate::error::Result;
use crate::plan::operation::Access;
use crate::policy::files::{FileRule, Shape, Source, Tree};
use crate::policy::origin::Origin;
use crate::policy::{Cover, CoverKind, Facts, Grant};

use super::agents::Agent;
use super::command::Command;
use super::git_config::{CarriedGitConfig, Lfs};
use super::globs::Veiled;
use super::grants::Bounds;
use super::needs::Needs;
use super::project::Project;
use super::protected::Channel;
use super::secret_sources::{self, Written};
use super::secrets;
use super::state::{self, HostState};
use super::system::{Extent, MountKind, SystemMount, mounts};
use super::toolchains::Toolchain;
use super::toolconf::ToolConfig;
use super::toolconf::defaults::registries;
use super::{Host, agents, bound, credentials, globs, grants, protected, things, toolchains, trust};

/// A database of terminals has a directory for each first character, and not more (numbers have two digits).
const TERMINFO_ENTRIES: usize = 318;
/// Toolchains that bring a Java, with TLS roots of its own.
const JDKS: [&str; 3] = ["java", "jdks", "sdkman"];
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
    let lockdown = settings.profile.value == Profile::Lockdown;
    let system = mounts(&host.root, if lockdown { Extent::Minimal } else { Extent::Whole });
    let own = credentials::own(host);
    let bounds = Bounds { host, settings, project, system: &system, own: &own };
    let writable = !matches!(settings.profile.value, Profile::ReadOnly | Profile::Lockdown);
    grants::check_project(&bounds, writable)?;
    let mut sources = project.sources.clone();
    let grants = grants::read(&bounds, &mut sources, warnings)?;
    let things = things::read(&bounds, &grants, &mut sources)?;
    let agent = agent(command, settings.profile.value);
    let toolchains =
        if settings.toolchains.value { toolchains::detect(host, &project.root) } else { Vec::new() };
    let tool_config =
        if settings.toolchains.value { ToolConfig::read(host, &project.root) } else { ToolConfig::default() };
    let wanted = settings.toolchain_hosts.value && settings.network.value == NetworkMode::Filtered;
    let registries = if wanted { registries(host, &project.root, &tool_config) } else { Vec::new() };
    let git = CarriedGitConfig::read(host);
    if git.lfs == Lfs::LeftOut {
        warnings.push("git-lfs's filter is not carried (it is not the stock one, or git-lfs is missing): `git add` of its files would commit them in place of their pointers".to_owned());
    }
    let jdks = toolchains.iter().any(|toolchain| JDKS.contains(&toolchain.name.as_str()));
    let roots_of_trust = trust::read(host, &project.root, &tool_config.roots, jdks);
    warnings.extend(roots_of_trust.warning);
    let git_outside: Vec<PathBuf> =
        project.git.iter().flat_map(|git| git.outside(&project.root)).map(Path::to_path_buf).collect();
    for directory in &git_outside {
        sources.hold(directory)?;
    }
    let writable_grants = grants.iter().filter(|grant| grant.access == Access::Writable);
    let writable_grants = writable_grants.map(|grant| grant.source.clone());
    let written = Written::new(writable_grants.chain([project.root.clone()]));
    let env_files: Vec<PathBuf> = settings.env_files.iter().map(|file| file.value.clone()).collect();
    let file_variables = secret_sources::names(&env_files, &written)?;
    let host_state = HostState::read(host, settings, &project.root, agent.as_ref(), &mut sources, warnings)?;
    warnings.extend(agent.as_ref().and_then(|agent| state::login_hint(host, settings, agent)));
    let written: Vec<&Path> = grants
        .iter()
        .filter(|grant| grant.access == Access::Writable)
        .map(|grant| grant.source.as_path())
        .chain(host_state.shown.iter().map(|shown| shown.source.as_path()))
        .collect();
    let needs = if written.is_empty() {
        command.needs.clone()
    } else {
        command.needs_beside(host, &project.root, &written)?
    };
    warnings.extend(tool_config.warnings.iter().cloned());
    let roots = roots(project, &grants, &host_state, settings);
    let settings_files: Vec<PathBuf> =
        host_state.copies.iter().map(|copy| host.user.home_real.join(&copy.path)).collect();
    let mut of_project = None;
    let (trees, secrets) = if roots.is_empty() {
        let profile = settings.profile.value;
        let (secrets, channels) = protected::project(host, &project.root, profile, warnings)?;
        of_project = Some(channels);
        (Vec::new(), secrets)
    } else {
        let trees = protected::Trees {
            roots,
            settings: &settings_files,
            git: &git_outside,
            project: &project.root,
            more: agent.as_ref().map_or(&[], |agent| agent.protected.as_slice()),
            profile: settings.profile.value,
        };
        protected::trees(host, &trees, warnings)?
    };
    let secrets = secrets::known(host, project, secrets, warnings);
    let mut walked: Vec<(&Path, &[Channel])> =
        trees.iter().map(|tree| (tree.root.as_path(), tree.channels.as_slice())).collect();
    walked.extend(of_project.iter().map(|channels| (project.root.as_path(), channels.as_slice())));
    let shown_trees: Vec<PathBuf> = std::iter::once(&project.root)
        .chain(&git_outside)
        .chain(grants.iter().filter(|grant| grant.shape == Shape::Directory).map(|grant| &grant.source))
        .chain(
            host_state
                .shown
                .iter()
                .filter(|shown| shown.shape == Shape::Directory)
                .map(|shown| &shown.source),
        )
        .cloned()
        .collect();
    let named: Vec<&Path> = things.sockets().collect();
    let channels =
        protected::channels(host, &walked, &shown_trees, &named, settings.profile.value, warnings)?;
    let devbox_roots =
        if settings.profile.value == Profile::Devbox { devbox_roots(&host.root) } else { Vec::new() };
    let secret_files = bound::places(settings);
    let wanted = bound::globs(settings)?;
    let veiled = if wanted.deny.is_empty() && wanted.mask.is_empty() {
        Veiled::default()
    } else {
        let shown = needs.iter().chain(toolchains.iter().flat_map(|toolchain| &toolchain.mounts));
        let shown = shown.map(|mount| mount.source.as_path());
        let shown = shown.chain(tool_config.mounts.iter().map(PathBuf::as_path));
        let shown = shown.chain(host_state.shown.iter().map(|shown| shown.source.as_path()));
        let shown = shown.chain(git_outside.iter().chain(&devbox_roots).map(PathBuf::as_path));
        let ground = globs::Ground {
            project: &project.root,
            grants: &grants.iter().map(|grant| grant.source.clone()).collect::<Vec<_>>(),
            shown: &shown.map(Path::to_path_buf).collect::<Vec<_>>(),
            system: &system
                .iter()
                .filter(|mount| mount.kind == MountKind::Bind)
                .map(|mount| mount.source.clone())
                .collect::<Vec<_>>(),
            own: &own,
        };
        globs::find(&wanted.deny, &wanted.mask, &ground, warnings)?
    };
    // What was looked at is what was held: nothing changed its name meanwhile.
    sources.confirm()?;
    let mut covers = covers(host, project, &grants, own, &toolchains);
    covers.extend(veiled.covers);
    covers.extend(channels);
    let caches = match settings.caches.value {
        CacheMode::Shared => toolchains::caches(),
        CacheMode::Project => Vec::new(),
    };
    Ok(Facts {
        user: host.user.clone(),
        environment: host.environment.vars.clone(),
        file_variables,
        project: project.root.clone(),
        cwd: host.cwd.clone().unwrap_or_else(|| project.root.clone()),
        trees,
        secrets,
        secret_files,
        git_outside,
        program: command.program.clone(),
        argv: arguments,
        agent,
        needs: needs.iter().map(|mount| needed(mount, "the command needs it to start")).collect(),
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
            .chain(terminfo(host, project, lockdown).iter().map(|path| shown(path, "TERMINFO")))
            .collect(),
        tool_variables: tool_config.env,
        tool_files: tool_config.files,
        system,
        git_config: git.values,
        grants,
        things,
        shown_trees,
        devbox_roots,
        path_entries: host
            .environment
            .path_entries()
            .into_iter()
            .filter(|entry| entry.is_absolute() && entry.is_dir())
            .map(|entry| match entry.strip_prefix(&host.user.home) {
                Ok(below) => host.user.home_real.join(below),
                Err(_) => entry,
            })
            .collect(),
        landlock_abi: crate::sys::landlock::abi(),
        registries,
        trust: roots_of_trust.trust,
        trust_places: roots_of_trust.places,
        resolv_conf: super::read_text(&host.at("/etc/resolv.conf")),
        covers,
        asked: veiled.asked,
        host_state,
        installs: if settings.toolchains.value { toolchains::installs() } else { &[] },
        caches,
        sources,
    })
}

/// The trees that may become writable, with the names that are protected at their roots alone.
fn roots<'a>(
    project: &'a Project,
    grants: &'a [Grant],
    state: &'a HostState,
    settings: &Settings,
) -> BTreeMap<&'a Path, Vec<String>> {
    let mut roots: BTreeMap<&Path, Vec<String>> = grants
        .iter()
        .filter(|grant| grant.access == Access::Writable)
        .map(|grant| (grant.source.as_path(), Vec::new()))
        .collect();
    let state = state.shown.iter().filter(|shown| shown.access == Access::Writable);
    let state = state.filter(|shown| shown.shape == Shape::Directory);
    roots.extend(state.map(|shown| (shown.source.as_path(), shown.parts.clone())));
    if !matches!(settings.profile.value, Profile::ReadOnly | Profile::Lockdown) || !roots.is_empty() {
        roots.entry(&project.root).or_default();
    }
    roots
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

/// What is covered wherever it would be shown.
fn covers(
    host: &Host,
    project: &Project,
    grants: &[Grant],
    own: Vec<PathBuf>,
    toolchains: &[Toolchain],
) -> Vec<Cover> {
    let mut covers: Vec<Cover> = own
        .into_iter()
        .map(|path| Cover {
            path,
            kind: CoverKind::Own,
            reason: "ai-jail's own settings, homes and logs".to_owned(),
        })
        .collect();
    let mut shown = vec![project.root.as_path()];
    shown.extend(grants.iter().map(|grant| grant.source.as_path()));
    let credentials = credentials::covers(host, &shown);
    let ours = |path: &Path| covers.iter().any(|own| path.starts_with(&own.path));
    let credentials: Vec<Cover> = credentials.into_iter().filter(|cover| !ours(&cover.path)).collect();
    covers.extend(credentials);
    covers.extend(toolchains.iter().flat_map(|toolchain| &toolchain.hidden).map(|path| Cover {
        path: path.clone(),
        kind: CoverKind::Installed,
        reason: "tools keep tokens in it".to_owned(),
    }));
    covers
}

/// The directories that describe terminals, where they are not the system's. Under `lockdown` the system's must do.
fn terminfo(host: &Host, project: &Project, lockdown: bool) -> Vec<PathBuf> {
    if lockdown {
        return Vec::new();
    }
    let bounds = Needs::new(host, &project.root);
    let named = ["TERMINFO", "TERMINFO_DIRS"].into_iter().filter_map(|name| host.environment.var(name));
    named
        .flat_map(|value| std::env::split_paths(value).collect::<Vec<_>>())
        .filter_map(|path| path.is_absolute().then(|| host.real(&path)).flatten())
        .filter(|path| bounds.foreign(path) && bounds.may_show(path) && describes_terminals(path))
        .collect()
}

/// The agent that `command` is. Nothing of the user's configuration widens lockdown, a preset neither: there a command is what
/// is compiled in for its own name, whatever name a preset gives it.
fn agent(command: &Command, profile: Profile) -> Option<Agent> {
    match &command.agent {
        Some(agent) if agent.file.is_some() && profile == Profile::Lockdown => {
            command.program.file_name().and_then(OsStr::to_str).and_then(agents::for_command).cloned()
        }
        agent => agent.clone(),
    }
}

/// Whether a directory holds what a database of terminals holds, and nothing else: directories that are named by one
/// character, or by its number.
fn describes_terminals(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    let mut any = false;
    for (at, entry) in entries.enumerate() {
        let Ok(entry) = entry else { return false };
        if at >= TERMINFO_ENTRIES {
            return false;
        }
        let name = entry.file_name();
        let named = matches!(name.as_bytes(), [one] if one.is_ascii_alphanumeric())
            || matches!(name.as_bytes(), [a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
        if !named || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return false;
        }
        any = true;
    }
    any
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::needs::Reach;

    #[test]
    fn in_lockdown_a_preset_of_the_users_makes_no_command_an_agent() {
        let built_in = agents::for_command("claude").unwrap();
        let own = Agent { file: Some("/x.toml".into()), title: "own".into(), ..built_in.clone() };
        for (program, agent_there, lockdown) in [
            ("/bin/foo", &own, None),
            ("/bin/claude", &own, Some(built_in)),
            ("/bin/claude", built_in, Some(built_in)),
        ] {
            let command = Command {
                program: program.into(),
                chain: Vec::new(),
                agent: Some(agent_there.clone()),
                needs: Vec::new(),
                reach: Reach::Directory,
            };
            assert_eq!(agent(&command, Profile::Lockdown).as_ref(), lockdown, "{program}");
            assert_eq!(agent(&command, Profile::Workspace).as_ref(), Some(agent_there), "{program}");
        }
    }

    #[test]
    fn a_database_of_terminals_is_known_by_its_names() {
        for (entries, want) in [
            (&["x/", "v/", "78/"][..], true),
            (&["x/", "id_rsa"], false),
            (&["x/", "lib/"], false),
            (&["x"], false),
            (&[".x/"], false),
            (&[], false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for entry in entries {
                match entry.strip_suffix('/') {
                    Some(name) => fs::create_dir(dir.path().join(name)).unwrap(),
                    None => fs::write(dir.path().join(entry), "").unwrap(),
                }
            }
            assert_eq!(describes_terminals(dir.path()), want, "{entries:?}");
        }
        assert!(!describes_terminals(Path::new("/proc")));
        // More than there can be are not looked through.
        let many = tempfile::tempdir().unwrap();
        for number in 0..=0xff {
            fs::create_dir(many.path().join(format!("{number:02x}"))).unwrap();
        }
        assert!(describes_terminals(many.path()));
        for one in ('0'..='9').chain('a'..='z').chain('A'..='Z').map(String::from).chain(["AB".into()]) {
            fs::create_dir(many.path().join(one)).unwrap();
        }
        assert!(!describes_terminals(many.path()));
    }
}

//! From layers to settings. Pure: no clock, no environment, no file system.
//!
//! Scalars: the highest layer that may set one, but a project's stricter value holds unless the command line says
//! otherwise. Lists are joined. What a project loosens is ignored with a warning; a project cannot be trusted in this
//! version, so that holds for every project.

use std::path::Path;

use super::command_line::{self, EnvScalars};
use super::layers::Files;
use super::narrow::{Ignored, stricter, tighten};
use super::profiles::{HostsFrom, ProfileDefaults};
use super::schema::{File, Tables};
use super::secrets;
use super::settings::{
    CacheMode, Ech, HomeMode, Inherit, Inspect, Limits, NetworkMode, Profile, Protect, Settings,
    TerminalFilter, TerminalSettings, Thing,
};
use super::words::Word as _;
use crate::cli::RunOptions;
use crate::error::{Error, Kind, Result};
use crate::policy::origin::{Layer, Origin, Sourced};
use crate::policy::upstream::UpstreamChoice;
use crate::sanitize::escape;
use crate::terminal::{Class, Classes};

/// Everything that was asked for, layer by layer.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// The command line.
    pub options: &'a RunOptions,
    /// The launcher's variables.
    pub env: &'a EnvScalars,
    /// The files.
    pub files: &'a Files,
    /// The preset of the agent that is run; `None` for every other command.
    pub agent: Option<&'a str>,
    /// The command's file name, for `[agents.NAME]` of a command without a preset.
    pub command: Option<&'a str>,
    /// The current directory, where relative paths of the command line start.
    pub cwd: &'a Path,
    /// What `~` means.
    pub home: &'a Path,
}

/// Merges the layers; every value keeps its origin.
///
/// Fails on a value of the command line that cannot be read ([`Kind::Usage`]) and on one that `lockdown` does not
/// have ([`Kind::Refused`]).
pub fn merge(layers: &Layers<'_>) -> Result<Settings> {
    let files = layers.files;
    let mut ignored_from_project = Ignored::default();
    let chosen = choose_profile(layers.options, layers.env, files.user.as_ref());
    let profile = narrowed_profile(chosen, files.project.as_ref(), &mut ignored_from_project)?;
    let defaults = ProfileDefaults::of(profile.value)?;
    let lockdown = profile.value == Profile::Lockdown;
    let hosts = defaults.hosts;
    let mut settings = from_profile(profile, &defaults);

    settings.warnings.extend(layers.env.warnings.iter().cloned());

    let mut outside = Ignored::default();
    let mut own = Vec::new();
    if let Some(user) = &files.user {
        settings.warnings.extend(user.warnings.iter().cloned());
        own.push(user.tables.clone());
        own.extend(agent_tables(user, layers).cloned());
        if let Some(weaker) = &user.weaker_nested {
            if lockdown && weaker.value {
                outside.push(&weaker.origin);
            } else {
                settings.weaker_nested = weaker.clone();
            }
        }
    }
    own.push(layers.env.tables());
    for tables in &own {
        if lockdown {
            tighten(&mut settings, tables, &mut outside);
        } else {
            apply(&mut settings, tables, hosts, &mut outside);
        }
    }
    let name = settings.profile.value.word();
    if let Some(list) = outside.all() {
        settings.warnings.push(format!(
            "profile {name}: ignored {list} of the configuration; it cannot widen this profile; what the profile \
             allows can be named on the command line"
        ));
    }

    if let Some(project) = &files.project {
        settings.warnings.extend(project.warnings.iter().cloned());
        tighten(&mut settings, &project.tables, &mut ignored_from_project);
        for tables in agent_tables(project, layers) {
            tighten(&mut settings, tables, &mut ignored_from_project);
        }
        stricter(&mut settings.weaker_nested, &project.weaker_nested, |on| *on, &mut ignored_from_project);
        warn_about_project(&mut settings, &ignored_from_project);
    }

    let typed = command_line::tables(layers.options, layers.cwd, layers.home, &mut settings.warnings)?;
    if lockdown {
        refuse_in_lockdown(&typed)?;
    }
    apply(&mut settings, &typed, HostsFrom::All, &mut Ignored::default());
    settings.project = layers
        .options
        .project
        .as_ref()
        .map(|project| Sourced::new(layers.cwd.join(project), Origin::flag("--project")));
    let reached = !(typed.allow.is_empty() && typed.forward.is_empty() && typed.publish.is_empty());
    if lockdown && layers.agent.is_none() && !reached && typed.network.is_none() {
        settings.network = Sourced::new(NetworkMode::Off, built_in(Profile::Lockdown));
    }
    Ok(settings)
}

/// The profile that flag, environment and the user's file choose, in this order; `workspace` when none does.
pub fn choose_profile(options: &RunOptions, env: &EnvScalars, user: Option<&File>) -> Sourced<Profile> {
    command_line::profile(options)
        .or_else(|| env.profile.clone())
        .or_else(|| user.and_then(|file| file.profile.clone()))
        .unwrap_or_else(|| Sourced::new(Profile::Workspace, Origin::built_in("default")))
}

/// A project may ask for a stricter profile than the one of the configuration; flag and variable stand.
fn narrowed_profile(
    chosen: Sourced<Profile>,
    project: Option<&File>,
    ignored: &mut Ignored,
) -> Result<Sourced<Profile>> {
    let Some(offer) = project.and_then(|file| file.profile.clone()) else { return Ok(chosen) };
    if offer.value == chosen.value || chosen.origin.layer >= Layer::Environment {
        return Ok(chosen);
    }
    if ProfileDefaults::of(offer.value)?.stricter_than.contains(&chosen.value) {
        return Ok(offer);
    }
    ignored.push(&offer.origin);
    Ok(chosen)
}

fn from_profile(profile: Sourced<Profile>, defaults: &ProfileDefaults) -> Settings {
    let origin = built_in(profile.value);
    let always = || Origin::built_in("default");
    Settings {
        project: None,
        read_only: Vec::new(),
        read_write: Vec::new(),
        things: Default::default(),
        sockets: Vec::new(),
        deny_files: Vec::new(),
        mask_files: Vec::new(),
        unmask_files: Vec::new(),
        protect: Sourced::new(Protect::Enforce, always()),
        home: Sourced::new(defaults.home, origin.clone()),
        state: Sourced::new(defaults.state, origin.clone()),
        toolchains: Sourced::new(defaults.toolchains, origin.clone()),
        caches: Sourced::new(CacheMode::Project, always()),
        inherit: Sourced::new(Inherit::Core, always()),
        ignore_default_excludes: Sourced::new(false, always()),
        env_exclude: Vec::new(),
        env_include_only: Vec::new(),
        env: Default::default(),
        network: Sourced::new(defaults.network, origin.clone()),
        allow: Vec::new(),
        deny: Vec::new(),
        allow_private: Vec::new(),
        upstream: Sourced::new(UpstreamChoice::Environment, always()),
        forward: Vec::new(),
        publish: Vec::new(),
        resolve: Default::default(),
        http: Vec::new(),
        inspect: Sourced::new(Inspect::Needed, always()),
        ech: Sourced::new(Ech::Refuse, always()),
        secrets: Default::default(),
        secret_files: Default::default(),
        env_files: Vec::new(),
        agent_hosts: Sourced::new(defaults.agent_hosts, origin.clone()),
        toolchain_hosts: Sourced::new(defaults.toolchain_hosts, origin),
        limits: Limits::default(),
        terminal: terminal(),
        log_required: Sourced::new(false, always()),
        summary: Sourced::new(true, always()),
        weaker_nested: Sourced::new(false, always()),
        warnings: Vec::new(),
        profile,
    }
}

/// What passes to a terminal by default, in every profile.
fn terminal() -> TerminalSettings {
    let origin = || Origin::built_in("default");
    let passes = |class| Sourced::new(Classes::default().allows(class), origin());
    TerminalSettings {
        filter: Sourced::new(TerminalFilter::Enforce, origin()),
        passes: Class::SWITCHES.into_iter().map(|(_, class)| (class, passes(class))).collect(),
    }
}

/// Takes a layer over that may loosen. Its allow list and its things of the host count only when `hosts` says so.
fn apply(settings: &mut Settings, tables: &Tables, hosts: HostsFrom, outside: &mut Ignored) {
    settings.read_only.extend(tables.read_only.iter().cloned());
    settings.read_write.extend(tables.read_write.iter().cloned());
    for (thing, on) in &tables.things {
        match (hosts, on.value) {
            (HostsFrom::CommandLine, true) => outside.push(&on.origin),
            _ => grant(settings, *thing, on),
        }
    }
    match hosts {
        HostsFrom::All => settings.sockets.extend(tables.sockets.iter().cloned()),
        HostsFrom::CommandLine => tables.sockets.iter().for_each(|socket| outside.push(&socket.origin)),
    }
    settings.deny_files.extend(tables.deny_files.iter().cloned());
    settings.mask_files.extend(tables.mask_files.iter().cloned());
    settings.unmask_files.extend(tables.unmask_files.iter().cloned());
    set(&mut settings.protect, &tables.protect);
    set(&mut settings.home, &tables.home);
    set(&mut settings.state, &tables.state);
    set(&mut settings.toolchains, &tables.toolchains);
    set(&mut settings.caches, &tables.caches);
    set(&mut settings.inherit, &tables.inherit);
    set(&mut settings.ignore_default_excludes, &tables.ignore_default_excludes);
    settings.env_exclude.extend(tables.env_exclude.iter().cloned());
    settings.env_include_only.extend(tables.env_include_only.iter().cloned());
    settings.env.extend(tables.env.clone());
    set(&mut settings.network, &tables.network);
    match hosts {
        HostsFrom::All => {
            settings.allow.extend(tables.allow.iter().cloned());
            settings.forward.extend(tables.forward.iter().cloned());
            settings.publish.extend(tables.publish.iter().cloned());
        }
        HostsFrom::CommandLine => {
            tables.allow.iter().for_each(|pattern| outside.push(&pattern.origin));
            tables.forward.iter().chain(&tables.publish).for_each(|port| outside.push(&port.origin));
        }
    }
    settings.deny.extend(tables.deny.iter().cloned());
    settings.allow_private.extend(tables.allow_private.iter().cloned());
    settings.resolve.extend(tables.resolve.clone());
    set(&mut settings.upstream, &tables.upstream);
    settings.http.extend(tables.http.iter().cloned());
    set(&mut settings.inspect, &tables.inspect);
    set(&mut settings.ech, &tables.ech);
    secrets::join(&mut settings.secrets, &tables.secrets);
    secrets::join_files(&mut settings.secret_files, &tables.secret_files);
    settings.env_files.extend(tables.env_files.iter().cloned());
    set(&mut settings.agent_hosts, &tables.agent_hosts);
    set(&mut settings.toolchain_hosts, &tables.toolchain_hosts);
    set_limit(&mut settings.limits.memory, &tables.limits.memory);
    set_limit(&mut settings.limits.pids, &tables.limits.pids);
    set_limit(&mut settings.limits.cpu_percent, &tables.limits.cpu_percent);
    set_limit(&mut settings.limits.files, &tables.limits.files);
    set_limit(&mut settings.limits.time_seconds, &tables.limits.time_seconds);
    set(&mut settings.terminal.filter, &tables.terminal_filter);
    settings.terminal.passes.extend(tables.terminal.clone());
    set(&mut settings.log_required, &tables.log_required);
    set(&mut settings.summary, &tables.summary);
}

/// The last word about one thing.
pub(super) fn grant(settings: &mut Settings, thing: Thing, on: &Sourced<bool>) {
    settings.things.insert(thing, on.value.then(|| Sourced::new(thing, on.origin.clone())));
}

fn set<T: Clone>(slot: &mut Sourced<T>, value: &Option<Sourced<T>>) {
    if let Some(value) = value {
        slot.clone_from(value);
    }
}

fn set_limit<T: Clone>(slot: &mut Option<Sourced<T>>, value: &Option<Sourced<T>>) {
    if value.is_some() {
        slot.clone_from(value);
    }
}

fn agent_tables<'a>(file: &'a File, layers: &Layers<'a>) -> impl Iterator<Item = &'a Tables> {
    layers.agent.or(layers.command).and_then(|name| file.agents.get(name)).into_iter()
}

fn warn_about_project(settings: &mut Settings, ignored: &Ignored) {
    let (loosening, never) = ignored.by_trust();
    if let Some(list) = loosening {
        settings.warnings.push(format!(
            "ignored {list} of the project's configuration; a project that is not trusted may only tighten, and \
             `ai-jail trust` is not in this version yet; set them in your own configuration or on the command line"
        ));
    }
    if let Some(list) = never {
        settings.warnings.push(format!(
            "ignored {list} of the project's configuration; a project may never set these; set them in your own \
             configuration or on the command line"
        ));
    }
}

/// "Nothing widens it" holds for the command line too, but for the hosts, variables and state that it names.
fn refuse_in_lockdown(typed: &Tables) -> Result<()> {
    let grant = typed.read_only.iter().chain(&typed.read_write).next();
    let thing = typed.things.iter().next().map(|(thing, _)| format!("--grant {}", thing.word()));
    let socket = typed.sockets.first().map(|socket| format!("--socket {}", escape(&socket.value)));
    let refused = [
        thing,
        socket,
        grant.map(|grant| format!("{} {}", grant.origin.what, escape(&grant.value.source))),
        typed
            .network
            .as_ref()
            .filter(|mode| mode.value == NetworkMode::Open)
            .map(|_| "--network open".to_owned()),
        typed
            .home
            .as_ref()
            .filter(|mode| mode.value == HomeMode::Persistent)
            .map(|_| "--home persistent".to_owned()),
        typed
            .inherit
            .as_ref()
            .filter(|base| base.value == Inherit::All)
            .map(|_| "--inherit-env all".to_owned()),
    ];
    match refused.into_iter().flatten().next() {
        None => Ok(()),
        Some(what) => Err(Error::new(Kind::Refused, format!("{what} does not go with the profile lockdown"))
            .because(
                "nothing widens that profile but hosts, ports, variables and --state of the command line",
            )
            .hint("leave it out, or use --profile strict")),
    }
}

fn built_in(profile: Profile) -> Origin {
    Origin::built_in(format!("profile {}", profile.word()))
}

#[cfg(test)]
mod tests;

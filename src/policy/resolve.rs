//! Settings and facts become a policy.

mod bindings;
mod covers;
pub(crate) mod etc;
mod home;
mod protected;
mod state;
mod variables;

use std::collections::BTreeSet;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::config::settings::{NetworkMode, Profile, Settings};
use crate::error::{Error, Kind, Result};
use crate::host::agents::HostUse;
use crate::host::system::{MountKind, SystemMount};
use crate::plan::operation::Access;

use self::bindings::Bound;
use super::env;
use super::files::{self, FileRule, FileRules, Shape, Source, Tree};
use super::host_rule::{HostPattern, Hosts};
use super::http_rule::{HttpRule, HttpRules};
use super::net::NetPolicy;
use super::origin::{Layer, Origin, Sourced};
use super::upstream::Upstream;
use crate::plan::seccomp::Debuggers;

use crate::sanitize::escape;

use super::trust::{Java, Trust};
use super::{Asked, CoverKind, Facts, NetworkRule, Policy, ProcView, secrets, terminal};

/// Resolves everything. Pure: the same settings and facts give the same policy.
///
/// # Errors
/// When something that was asked for contradicts the profile, or the machine lacks what the profile demands.
pub fn resolve(settings: &Settings, facts: &Facts) -> Result<Policy> {
    let profile = settings.profile.value;
    let mut warnings = settings.warnings.clone();
    let project_access = match profile {
        Profile::Workspace | Profile::Strict | Profile::Devbox => Access::Writable,
        Profile::ReadOnly | Profile::Lockdown => Access::ReadOnly,
    };
    let home = facts.user.home_real.clone();
    let rules = rules(settings, facts, &home, project_access)?;
    let mut rules = files::everywhere(rules, &facts.grants);
    let bound = bindings::resolve(settings, facts, &mut warnings)?;
    rules.extend(bound.rules(facts, &FileRules::new(rules.clone())));
    let rules = FileRules::new(rules);
    let network = network(settings, facts, &bound, &mut warnings)?;
    let trust = trust(facts, &network, &rules, &mut warnings);
    let environment = variables::resolve(settings, facts, &rules, &network, &trust, &bound, &home);
    warnings.extend(env::unset(settings, &facts.environment, &facts.file_variables));
    let secrets = secrets::decide(settings, &facts.project, &facts.secrets, &facts.grants);
    warnings.extend(secrets::warning(&secrets));
    let covers = covers::covers(facts, &rules, &secrets, &bound, &mut warnings)?;
    let mut protected = protected::protected(settings, facts, &rules, &covers.hidden, &mut warnings);
    protected.extend(covers.pinned);
    let granted = facts.things.opened.iter();
    warnings.extend(
        granted.map(|opened| format!("{} is granted ({}): {}", opened.name, opened.origin, opened.opens)),
    );
    let landlock_abi = landlock(profile, facts, &mut warnings)?;
    let proc_view = proc_view(settings, landlock_abi)?;
    warnings.extend(proc_view.weaker().map(str::to_owned));
    warnings.extend(terminal::weaker(&settings.terminal));
    let credentials = etc::Credentials { bound: &bound, environment: &environment };
    let cwd = if facts.cwd.starts_with(&facts.project) { facts.cwd.clone() } else { facts.project.clone() };
    Ok(Policy {
        profile: settings.profile.clone(),
        project: facts.project.clone(),
        uid: facts.user.uid,
        cwd,
        home_mode: settings.home.clone(),
        program: facts.program.clone(),
        argv: facts.argv.clone(),
        agent: facts.agent.as_ref().map(|agent| agent.name.0.clone()),
        system: facts.system.clone(),
        made: etc::made(settings, facts, &network, &protected, &secrets, &credentials, &covers.hidden),
        hidden: covers.hidden,
        asked: facts.asked.clone(),
        secrets,
        own: covers.own,
        opened: facts.things.opened.clone(),
        carry: state::carry(settings, facts),
        seed: home::seed(settings, facts),
        installed: home::installed(settings, facts, &home),
        placeholders: state::placeholders(settings, facts, &rules, &home),
        shown_trees: facts.shown_trees.clone(),
        files: rules,
        protected,
        environment,
        network,
        bindings: bound.variables,
        files_bound: bound.files,
        left_out: bound.left_out,
        debuggers: debuggers(profile, landlock_abi),
        landlock_abi,
        proc_view,
        limits: settings.limits.clone(),
        warnings,
        trust,
        trust_place: etc::TRUST.into(),
        settings: settings.clone(),
        home,
    })
}

/// Whether debuggers work inside (KERN-9): never without Landlock, which keeps pid 1 out of their reach.
fn debuggers(profile: Profile, landlock_abi: Option<i32>) -> Debuggers {
    match (profile, landlock_abi) {
        (Profile::Workspace | Profile::ReadOnly | Profile::Devbox, Some(_)) => Debuggers::Allowed,
        _ => Debuggers::Refused,
    }
}

/// Every file rule but the system's.
fn rules(settings: &Settings, facts: &Facts, home: &Path, project_access: Access) -> Result<Vec<FileRule>> {
    let mut rules = home::rules(settings, facts, home);
    rules.push(FileRule {
        dest: facts.project.clone(),
        source: Source::Host(facts.project.clone()),
        shape: Shape::Directory,
        access: project_access,
        tree: Tree::Theirs,
        origin: match &settings.project {
            Some(project) => project.origin.clone(),
            None => Origin::built_in("the project"),
        },
    });
    for directory in &facts.git_outside {
        rules.push(host_rule(
            directory,
            Shape::Directory,
            project_access,
            Origin::built_in("the project's git directory"),
        ));
    }
    rules.extend(facts.needs.iter().cloned());
    rules.extend(home::other_spelling(settings, facts));
    if settings.toolchains.value {
        rules.extend(facts.toolchains.iter().cloned());
    }
    rules.extend(facts.shown.iter().cloned());
    rules.extend(facts.things.rules.iter().cloned());
    let caches = home::caches(facts, home, &rules);
    rules.extend(caches);
    for grant in &facts.grants {
        if settings.profile.value == Profile::Lockdown && grant.access == Access::Writable {
            return Err(Error::new(
                Kind::Refused,
                format!("--rw {} is not possible under lockdown", grant.source.display()),
            )
            .because("lockdown writes nothing but a temporary home and /tmp")
            .hint("use --ro, or the profile strict"));
        }
        let mut rule = host_rule(&grant.source, grant.shape, grant.access, grant.origin.clone());
        rule.dest = grant.dest.clone();
        rules.push(rule);
    }
    if settings.profile.value == Profile::Devbox {
        rules.extend(home::devbox(facts));
    }
    // The project and what the user grants are the user's own, whole: nothing of the private home is put into them, where it would
    // need a mount point that need not be there.
    let granted = |rule: &FileRule| {
        rule.dest.starts_with(&facts.project)
            || facts.grants.iter().any(|grant| rule.dest.starts_with(&grant.dest))
    };
    rules.retain(|rule| !(rule.origin.layer == Layer::BuiltIn && home::fills(rule, home) && granted(rule)));
    // What the user denies as a whole is not shown again because a program would like it.
    let asked: HashSet<&Path> = covers::asked(facts).map(|cover| cover.path.as_path()).collect();
    rules.retain(|rule| match &rule.source {
        Source::Host(source) if rule.origin.layer == Layer::BuiltIn && *source != facts.project => {
            !source.ancestors().any(|above| asked.contains(above))
        }
        _ => true,
    });
    // What the system's own mounts show already needs no rule.
    rules.retain(|rule| !matches!(&rule.source, Source::Host(source) if rule.access == Access::ReadOnly && system_shows(&facts.system, source, &rule.dest)));
    Ok(rules)
}

fn host_rule(path: &Path, shape: Shape, access: Access, origin: Origin) -> FileRule {
    FileRule {
        dest: path.to_path_buf(),
        source: Source::Host(path.to_path_buf()),
        shape,
        access,
        tree: Tree::Theirs,
        origin,
    }
}

fn system_shows(system: &[SystemMount], source: &Path, dest: &Path) -> bool {
    system.iter().any(|mount| {
        mount.kind == MountKind::Bind
            && dest.strip_prefix(&mount.dest).is_ok_and(|below| {
                mount.source.join(below) == source || (below.as_os_str().is_empty() && mount.source == source)
            })
    })
}

fn network(
    settings: &Settings,
    facts: &Facts,
    bound: &Bound,
    warnings: &mut Vec<String>,
) -> Result<NetworkRule> {
    let lockdown = settings.profile.value == Profile::Lockdown;
    let mut ports = settings.forward.iter().chain(&settings.publish);
    if let Some(port) = ports.next()
        && settings.network.value != NetworkMode::Filtered
    {
        let what = format!("port {} cannot be forwarded or published ({})", port.value, port.origin);
        let (why, hint) = match settings.network.value {
            NetworkMode::Open => ("the jail has this machine's network and every port of it", "leave it out"),
            _ => ("the network is off", "add --network filtered, or leave it out"),
        };
        return Err(Error::new(Kind::Refused, what).because(why).hint(hint));
    }
    for port in &settings.forward {
        if let Some(other) = settings.publish.iter().find(|other| other.value == port.value) {
            // Each would lead to the other.
            let what = format!("port {} cannot lead both ways", port.value);
            return Err(Error::new(Kind::Refused, what)
                .because(format!("it is forwarded ({}) and published ({})", port.origin, other.origin))
                .hint("choose another port for one of them"));
        }
    }
    match settings.network.value {
        NetworkMode::Off => {
            let typed = |rule: &&Sourced<HostPattern>| rule.origin.layer == Layer::CommandLine;
            if let Some(rule) = settings.allow.iter().find(typed) {
                warnings.push(format!(
                    "the network is off ({}), so that {} is not reachable ({})",
                    settings.network.origin, rule.value, rule.origin
                ));
            }
            return Ok(NetworkRule::Off);
        }
        NetworkMode::Open => {
            if lockdown {
                return Err(Error::new(Kind::Refused, "--network open is not possible under lockdown")
                    .hint("name the hosts with --allow-host"));
            }
            warnings.push("the network is OPEN: the jail reaches everything this machine reaches, its own ports and private networks too".to_owned());
            return Ok(NetworkRule::DangerOpen);
        }
        NetworkMode::Filtered => {}
    }
    for rule in settings.allow.iter().filter(|rule| rule.value.names_loopback()) {
        warnings.push(format!(
            "{} is the jail's own loopback, which needs no rule; for a server of this machine: --forward PORT, or \
             --allow-host dev.internal:PORT --resolve dev.internal=127.0.0.1 ({})",
            rule.value, rule.origin
        ));
    }
    let mut allow = settings.allow.clone();
    if settings.agent_hosts.value
        && let Some(agent) = &facts.agent
    {
        for host in &agent.hosts {
            let wanted =
                if lockdown { host.purpose == HostUse::Model } else { host.purpose.allowed_by_default() };
            let relevant = host
                .when_set
                .as_ref()
                .is_none_or(|name| facts.environment.contains_key(std::ffi::OsStr::new(name)));
            if wanted && relevant {
                let pattern = HostPattern::parse(&host.pattern).map_err(|error| {
                    Error::new(Kind::Setup, format!("the preset of {} is wrong", agent.title)).because(error)
                })?;
                allow.push(Sourced::new(pattern, agent.origin(&host.reason)));
            }
        }
    }
    let named = allow.len();
    let mut http = settings.http.clone();
    for registry in &facts.registries {
        // A tool's file may name what is no host of ours to allow, such as an address with a wide mask.
        match HostPattern::parse(&registry.host) {
            Ok(pattern) => {
                // A registry is for reading, unless the user allows it as a host like others.
                if !allow[..named].iter().any(|rule| rule.value.overlaps(&pattern, &[22])) {
                    let read = ["GET", "HEAD"].map(HttpRule::every_path).to_vec();
                    let rules = HttpRules { host: pattern.clone(), allow: read, deny: Vec::new() };
                    http.push(Sourced::new(rules, registry.origin()));
                }
                allow.push(Sourced::new(pattern, registry.origin()));
            }
            Err(error) => warnings.push(format!(
                "the registry {} ({}) is not allowed: {error}",
                escape(&*registry.host),
                registry.origin()
            )),
        }
    }
    if lockdown && allow.is_empty() && settings.forward.is_empty() && settings.publish.is_empty() {
        return Ok(NetworkRule::Off);
    }
    bindings::check(bound, &http, &allow, settings, warnings)?;
    let upstream = Upstream::new(&settings.upstream, &facts.environment, warnings);
    let network = settings.deny.iter().find(|rule| matches!(rule.value.hosts(), Hosts::Net(_)));
    if let (Some(rule), Some(proxy)) = (network, upstream.plain.as_ref().or(upstream.others.as_ref())) {
        // The proxy looks names up: whether one leads to such an address cannot be told.
        let what = format!("the deny rule {} ({}) cannot be applied", rule.value, rule.origin);
        return Err(Error::new(Kind::Refused, what)
            .because(format!(
                "connections leave through the proxy {} ({}), which looks names up itself",
                proxy.value.at, proxy.origin
            ))
            .hint("deny names instead, or set upstream_proxy = \"none\" in [network]"));
    }
    Ok(NetworkRule::Filtered(Arc::new(NetPolicy {
        mode: NetworkMode::Filtered,
        allow,
        deny: settings.deny.clone(),
        allow_private: settings.allow_private.clone(),
        upstream,
        forward: once(&settings.forward),
        publish: once(&settings.publish),
        resolve: settings.resolve.clone(),
        http,
        inspect: settings.inspect.value,
        ech: settings.ech.value,
        secret_hosts: bound.hosts(),
    })))
}

/// The roots of the jail: with the session's authority where we look into TLS.
fn trust(facts: &Facts, network: &NetworkRule, rules: &FileRules, warnings: &mut Vec<String>) -> Trust {
    match network {
        NetworkRule::Filtered(net) if net.may_inspect() => {
            let mut places = facts.trust_places.clone();
            let mut taken = BTreeSet::new();
            let meets = |place: &Path, other: &Path| place.starts_with(other) || other.starts_with(place);
            // Of a directory in which something is covered there is one view: a second one would show it.
            let covers = facts.covers.iter().filter(|cover| matches!(cover.kind, CoverKind::Asked(..)));
            let covers: Vec<_> = covers.collect();
            places.directories.retain(|place| {
                let there = covers.iter().find(|cover| meets(place, &cover.path));
                let may_be = || facts.asked.iter().find(|asked| asked.matches.meets(place));
                let cover =
                    there.map(|cover| cover.reason.clone()).or_else(|| may_be().map(Asked::reason));
                warnings.extend(cover.as_ref().map(|reason| {
                    format!(
                        "{} is shown as it is, since something in it is covered or may come to be ({reason}): programs that \
                         look for TLS roots there alone do not trust what ai-jail looks into",
                        escape(place.as_os_str())
                    )
                }));
                cover.is_none()
            });
            // What a rule shows is shown as it is: nothing is made over it, or beside what it shows within.
            let mut is_free = |place: &Path| {
                let rule = rules.iter().find(|rule| meets(place, &rule.dest));
                taken.extend(
                    rule.filter(|rule| rule.origin.layer != Layer::BuiltIn)
                        .map(|rule| format!("{} ({})", escape(rule.dest.as_os_str()), rule.origin)),
                );
                rule.is_none()
            };
            places.directories.retain(|place| is_free(place));
            places.bundles.retain(|place| is_free(place));
            let stores = places.java_stores.len();
            places.java_stores.retain(|place| is_free(place));
            if places.java == Java::System && places.java_stores.len() < stores {
                // The store that it reads may be one that is shown as it is: a variable leads it to ours.
                places.java = Java::Own;
            }
            if !taken.is_empty() {
                let taken: Vec<String> = taken.into_iter().collect();
                warnings.push(format!(
                    "{} is shown as it is: only variables such as SSL_CERT_FILE lead programs to the authority that ai-jail looks \
                     into TLS with; those that read no such variable do not trust the hosts that it looks into",
                    taken.join(", ")
                ));
            }
            Trust::Session(places)
        }
        _ => facts.trust.clone(),
    }
}

/// Each port once, as it was first named.
fn once(ports: &[Sourced<u16>]) -> Vec<Sourced<u16>> {
    let mut seen = BTreeSet::new();
    ports.iter().filter(|port| seen.insert(port.value)).cloned().collect()
}

fn landlock(profile: Profile, facts: &Facts, warnings: &mut Vec<String>) -> Result<Option<i32>> {
    if facts.landlock_abi.is_none() {
        if matches!(profile, Profile::Strict | Profile::Lockdown) {
            return Err(Error::new(Kind::Machine, "this kernel has no Landlock")
                .because("the profiles strict and lockdown demand it")
                .hint(
                    "boot with landlock in the lsm= list (Linux 5.13 or newer), or use the profile workspace",
                ));
        }
        warnings.push("this kernel has no Landlock: the mounts alone keep writes in their place, and debuggers do not work inside".to_owned());
    }
    Ok(facts.landlock_abi)
}

fn proc_view(settings: &Settings, landlock_abi: Option<i32>) -> Result<ProcView> {
    if !settings.weaker_nested.value {
        return Ok(ProcView::Own);
    }
    if landlock_abi.is_none() {
        return Err(Error::new(Kind::Refused, "weaker_nested needs Landlock, which this kernel lacks")
            .because("nothing would keep the jail from the memory of the processes around it")
            .hint("take weaker_nested out of the configuration, or use a kernel with Landlock"));
    }
    Ok(ProcView::DangerSurrounding)
}

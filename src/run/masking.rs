//! The secrets of one session: their values are read outside, the jail gets fakes, and a certificate authority of the
//! session lets the values be put in on the way to their hosts.

mod authority;
mod concealed;
mod in_hosts;
mod other_ways;
mod revokes;
mod seed;

use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::egress::inspect::Inspector;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::host::secret_sources::{Command, Values, Written, file};
use crate::plan::Plan;
use crate::plan::late::Late;
use crate::plan::operation::AtLaunch;
use crate::policy::Policy;
use crate::policy::bindings::{FileBinding, SecretBinding, SecretMode, ValueFrom};
use crate::policy::origin::Layer;
use crate::policy::trust::Trust;
use crate::sanitize::escape;
use crate::secrets::{
    Concealed, FileMask, Guess, Secret, SecretValue, Seed, Sentinel, Vault, mask_file, more_than_a_token,
    sentinel,
};

use self::concealed::known;
use super::prepare::Prepared;

pub(super) use self::concealed::concealed;
pub(super) use self::in_hosts::check as check_hosts;
pub(super) use self::revokes::Revokes;

/// What was made for a session.
#[derive(Debug, Default)]
pub(super) struct Masking {
    /// The plan with what was made; `None` when there is nothing to add to it.
    pub(super) plan: Option<Plan>,
    /// What it takes to look into TLS, where that is done.
    pub(super) inspector: Option<Arc<Inspector>>,
    /// What the user should know.
    pub(super) warnings: Vec<String>,
    /// What keeps the values out of what is shown; nothing when no details are.
    pub(super) concealed: Concealed,
}

/// Reads the values and makes what stands for them. What has to be revoked is in `revokes` from the moment that it is there.
///
/// # Errors
/// When a value is missing or cannot be masked: nothing runs then.
pub(super) fn begin(
    host: &Host,
    prepared: &Prepared,
    revokes: &mut Revokes,
    details: bool,
) -> Result<Masking> {
    let policy = &prepared.policy;
    let has_secrets = names(policy).next().is_some();
    if !has_secrets && !matches!(policy.trust, Trust::Session(_)) {
        let concealed = if details { hiding(host, prepared, &[]) } else { Concealed::default() };
        return Ok(Masking { concealed, ..Masking::default() });
    }
    protect_memory()?;
    let mut late = Late::default();
    let mut warnings = Vec::new();
    let secrets = match has_secrets {
        true => {
            let seed = seed::of(&prepared.data, policy.seed.as_deref())?;
            secrets(host, prepared, &seed, &mut late, Some(revokes), &mut warnings)?
        }
        false => Vec::new(),
    };
    let concealed = if details { hiding(host, prepared, &secrets) } else { Concealed::default() };
    let vault = Vault::new(secrets);
    warnings.extend(other_ways::close(&prepared.plan, &vault, &mut late));
    warnings.extend(other_ways::in_remotes(prepared.git.as_ref(), &written(prepared), &vault));
    let inspector = match &policy.trust {
        Trust::Session(places) => {
            let vault = Arc::new(vault);
            Some(Arc::new(authority::inspector(
                host,
                places,
                vault,
                &policy.trust_place,
                &mut late,
                &mut warnings,
            )?))
        }
        // Nobody puts a value in anywhere, so that none is kept.
        Trust::Host(_) | Trust::Joined(..) | Trust::None => None,
    };
    Ok(Masking { plan: Some(prepared.plan.completed(&late)?), inspector, warnings, concealed })
}

/// Reads the values as a launch does, but for those that a command prints, and makes nothing of them: so that what only shows what a
/// run would be refuses what the run refuses.
///
/// # Errors
/// As [`begin`].
pub(super) fn attempt(host: &Host, prepared: &Prepared) -> Result<()> {
    let seed = Seed::new([0; 32]);
    secrets(host, prepared, &seed, &mut Late::default(), None, &mut Vec::new()).map(drop)
}

/// What keeps the values of `secrets`, and of those that the jail does not have, out of what is shown.
fn hiding(host: &Host, prepared: &Prepared, secrets: &[Secret]) -> Concealed {
    let known = known(host, &prepared.policy, &written(prepared));
    let values = secrets.iter().map(|secret| secret.value.expose());
    let values: Vec<&[u8]> = values.chain(known.iter().map(|value| value.as_slice())).collect();
    Concealed::new(&values, Guess::Shown)
}

/// Where the jail writes, and so would choose what is read.
fn written(prepared: &Prepared) -> Written {
    let trees = prepared.trees.iter().map(|tree| tree.root.clone());
    Written::new(trees.chain([prepared.policy.project.clone(), prepared.data.clone()]))
}

/// How the secrets that the jail has fakes for are called.
pub(super) fn names(policy: &Policy) -> impl Iterator<Item = String> {
    let variables = policy.bindings.iter().filter(|binding| binding.mode == SecretMode::Mask);
    let files = policy.files_bound.iter().filter(|binding| binding.mode == SecretMode::Mask);
    variables.map(|binding| binding.name.clone()).chain(files.map(name_of))
}

fn name_of(binding: &FileBinding) -> String {
    binding.path.to_string_lossy().into_owned()
}

/// From here on nothing of this process is in a dump of its memory, and no other program of the user's can look into it.
fn protect_memory() -> Result<()> {
    let failed = |error| {
        Error::new(Kind::Setup, "the memory of ai-jail cannot be protected")
            .because(error)
            .hint("without that secrets could be left in a dump; leave them out to run without")
    };
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(failed)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed)
}

/// Without `revokes` no command is run.
fn secrets(
    host: &Host,
    prepared: &Prepared,
    seed: &Seed,
    late: &mut Late,
    mut revokes: Option<&mut Revokes>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Secret>> {
    let policy = &prepared.policy;
    let written = written(prepared);
    let masked: Vec<&SecretBinding> =
        policy.bindings.iter().filter(|binding| binding.mode == SecretMode::Mask).collect();
    let read = masked.iter().filter(|binding| !matches!(binding.from, ValueFrom::Command(_)));
    let env_files: Vec<PathBuf> = policy.settings.env_files.iter().map(|file| file.value.clone()).collect();
    let mut values = Values::read(host, read.map(|binding| binding.name.as_str()), &env_files, &written)?;
    // All are found before the first is run.
    // 127 would say that the jail's own command was not found.
    let find = |words: &Vec<String>, binding: &SecretBinding| {
        let found = Command::find(host, words, &written).map_err(|error| match error.kind() {
            Kind::NotFound => error.of_kind(Kind::Refused),
            _ => error,
        });
        found.map_err(|error| error.hint(without(binding)))
    };
    let commands = masked.iter().map(|binding| {
        let from = match &binding.from {
            ValueFrom::Environment | ValueFrom::File { .. } => None,
            ValueFrom::Command(words) => Some(find(words, binding)?),
        };
        Ok((from, binding.revoke.as_ref().map(|words| find(words, binding)).transpose()?))
    });
    let commands = commands.collect::<Result<Vec<_>>>()?;
    let mut secrets: Vec<Secret> = Vec::new();
    for (binding, (from, revoke)) in masked.into_iter().zip(commands) {
        let name = &binding.name;
        let mut bytes = match from {
            None => values.take(name, &binding.origin)?,
            Some(_) if revokes.is_none() => continue,
            Some(command) => command.print(name).map_err(|error| error.hint(without(binding)))?,
        };
        if let (Some(command), Some(revokes)) = (revoke, revokes.as_deref_mut()) {
            revokes.add(name, command, bytes.clone());
        }
        let refused = |error: &dyn std::fmt::Display| {
            Error::new(Kind::Refused, format!("the secret {} cannot be masked", escape(name.as_str())))
                .because(error)
                .hint(kept_out(binding))
        };
        let value = SecretValue::new(std::mem::take(&mut *bytes)).map_err(|error| refused(&error))?;
        let told = [stripped(name, &value), beyond_ascii(name, &value), structured(name, &value)];
        warnings.extend(told.into_iter().flatten());
        // An answer with the value of both could be given the fake of one only.
        let same = secrets
            .iter_mut()
            .find(|secret| secret.value.expose() == value.expose() && secret.places == binding.places);
        if let Some(same) = same {
            late.environment.insert(name.clone(), same.sentinel.as_str().into());
            same.hosts.extend(
                binding.hosts.iter().filter(|host| !same.hosts.contains(host)).cloned().collect::<Vec<_>>(),
            );
            continue;
        }
        let taken: Vec<&Sentinel> = secrets.iter().map(|secret| &secret.sentinel).collect();
        let sentinel = sentinel(seed, name, &value, &taken).map_err(|error| refused(&error))?;
        late.environment.insert(name.clone(), sentinel.as_str().into());
        secrets.push(Secret {
            name: name.clone(),
            value,
            sentinel,
            hosts: binding.hosts.clone(),
            places: binding.places,
        });
    }
    for (position, binding) in policy.files_bound.iter().enumerate() {
        if binding.mode != SecretMode::Mask {
            continue;
        }
        let name = name_of(binding);
        let refused = |error: &dyn std::fmt::Display| {
            Error::new(Kind::Refused, format!("{} cannot be masked", escape(name.as_str()))).because(error).hint(
                format!(
                    "or keep it out of the jail: its path with mode = \"deny\" and no other key in [[secrets.files]], instead of {}",
                    binding.origin
                ),
            )
        };
        let (content, _) = file(&binding.path, &written).map_err(|error| match binding.origin.layer {
            Layer::CommandLine => error,
            _ => error.hint(format!("{} wants it", binding.origin)),
        })?;
        let spec = FileMask::new(binding.extract.as_deref(), binding.decode, binding.mask_claims.clone())
            .map_err(|error| refused(&error))?;
        let taken: Vec<&Sentinel> = secrets.iter().map(|secret| &secret.sentinel).collect();
        let masked = mask_file(seed, &name, &content, &spec, &taken).map_err(|error| refused(&error))?;
        late.contents.insert(AtLaunch::Masked(position), masked.copy);
        warnings.extend(masked.found.iter().find_map(|(value, _)| stripped(&name, value)));
        warnings.extend(masked.found.iter().find_map(|(value, _)| beyond_ascii(&name, value)));
        secrets.extend(masked.found.into_iter().map(|(value, sentinel)| Secret {
            name: name.clone(),
            value,
            sentinel,
            hosts: binding.hosts.clone(),
            places: binding.places,
        }));
    }
    // What a command printed is known only now.
    in_hosts::refuse(&policy.settings, secrets.iter().map(|secret| secret.value.expose()))?;
    Ok(secrets)
}

/// How a variable of which there can be no fake is kept out of the jail.
fn kept_out(binding: &SecretBinding) -> String {
    let name = escape(&binding.name);
    match binding.origin.layer {
        Layer::CommandLine => format!(
            "or leave --secret {name} out, and the jail does not have it; {name} = {{ mode = \"deny\" }} in [secrets] keeps it out \
             of every run"
        ),
        _ => format!(
            "or keep it out: {name} = {{ mode = \"deny\" }} in [secrets] ({} has it now)",
            binding.origin
        ),
    }
}

/// The ways out when a command of a secret cannot be had: it is not needed for every launch.
fn without(binding: &SecretBinding) -> String {
    let name = escape(&binding.name);
    format!(
        "an entry below [agents.NAME] counts for that agent or command alone: secrets.{name} = {{ ... }} there ({} has it now); \
         --env {name} gives the jail the real value of your environment, where it is set",
        binding.origin
    )
}

/// What to say of a value that HTTP does not carry as it is.
fn stripped(name: &str, value: &SecretValue) -> Option<String> {
    let is_white = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_whitespace);
    let bytes = value.expose();
    (is_white(bytes.first()) || is_white(bytes.last())).then(|| {
        format!(
            "the value of {} begins or ends with white space, which HTTP strips from headers: the fake is not known there, and \
             the value is not put in; give it without",
            escape(name)
        )
    })
}

/// What to say of a value that is more than a token: its fake is scrambled as a whole.
fn structured(name: &str, value: &SecretValue) -> Option<String> {
    let is = more_than_a_token(value)?;
    Some(format!(
        "the value of {}: {is}, and all of it is a fake, which no program can read as that; where one has to, give it the part that is \
         secret alone, or the whole in a file ([[secrets.files]], with extract, or decode = \"jwt\")",
        escape(name)
    ))
}

/// What to say of a value whose bytes depend on who writes it: a header has no character set.
fn beyond_ascii(name: &str, value: &SecretValue) -> Option<String> {
    (!value.expose().is_ascii()).then(|| {
        format!(
            "the value of {} has signs beyond ASCII, which programs write in headers in more than one way: it is put in, and hidden in \
             answers, where it is UTF-8; an answer that has it otherwise (as Latin-1) shows it to the jail; use one of ASCII",
            escape(name)
        )
    })
}

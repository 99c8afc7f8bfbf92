//! What of the secrets is known before anything runs, so that it is not shown.

use crate::host::Host;
use crate::host::environment::values_of_credentials;
use crate::host::secret_sources::{Bytes, Values, Written, file};
use crate::policy::Policy;
use crate::policy::bindings::{FileBinding, SecretBinding, SecretMode, ValueFrom};
use crate::secrets::{Concealed, FileMask, Guess, Seed, mask_file};

use crate::run::prepare::Prepared;

/// What keeps the values out of what is shown when nothing is launched: those of the launcher's environment and of files,
/// and, where a command that is not run prints one, whatever looks like a token. What cannot be read is left out: the launch
/// would say so.
pub(in crate::run) fn concealed(host: &Host, prepared: &Prepared) -> Concealed {
    let policy = &prepared.policy;
    let is_printed = |binding: &SecretBinding| matches!(binding.from, ValueFrom::Command(_));
    let guess = if policy.bindings.iter().any(is_printed) { Guess::Hidden } else { Guess::Shown };
    let values = known(host, policy, &super::written(prepared));
    let values: Vec<&[u8]> = values.iter().map(|value| value.as_slice()).collect();
    Concealed::new(&values, guess)
}

/// The values of the launcher's environment and of files, those that the jail does not have among them, and whatever else in
/// that environment is called like a credential.
pub(super) fn known(host: &Host, policy: &Policy, written: &Written) -> Vec<Bytes> {
    let bound = policy.bindings.iter().map(|binding| binding.name.as_str());
    let names = bound.chain(policy.left_out.keys().map(String::as_str));
    let files: Vec<_> = policy.settings.env_files.iter().map(|file| file.value.clone()).collect();
    let variables = Values::read(host, names, &files, written).map(Values::all).unwrap_or_default();
    let contents = policy.files_bound.iter().flat_map(|binding| content(binding, written));
    // What was typed may be one of the launcher's that is no secret of this run.
    let others = values_of_credentials(host.environment.vars.clone().into_iter());
    variables.into_iter().chain(contents).chain(others).map(trimmed).collect()
}

/// What is secret in a file; all of it when that cannot be told.
fn content(binding: &FileBinding, written: &Written) -> Vec<Bytes> {
    let Ok((content, _)) = file(&binding.path, written) else { return Vec::new() };
    let masked = (binding.mode == SecretMode::Mask).then(|| {
        let spec =
            FileMask::new(binding.extract.as_deref(), binding.decode, binding.mask_claims.clone()).ok()?;
        mask_file(&Seed::new([0; 32]), "", &content, &spec, &[]).ok()
    });
    match masked.flatten() {
        Some(masked) => masked.found.iter().map(|(value, _)| Bytes::new(value.expose().to_vec())).collect(),
        None => vec![content],
    }
}

/// A line break at the end is not in what is typed.
fn trimmed(value: Bytes) -> Bytes {
    Bytes::new(value.trim_ascii().to_vec())
}

//! The ways by which the value of a secret comes in beside its own variable: other variables, the command's arguments, and the
//! URL of a remote.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::host::git::GitLayout;
use crate::host::secret_sources::{Written, file};
use crate::plan::Plan;
use crate::plan::late::Late;
use crate::sanitize::escape;
use crate::secrets::Vault;

/// What is said of an argument, which is outside as it was typed.
const TYPED: &str = "; outside every program can read a command line, where your shell put it: let a shell inside do that, \
                     as in sh -c 'curl -H \"Authorization: Bearer $NAME\" ...' with single quotes";

/// Puts fakes for values in what goes into the jail. Returns a line that says where, if anywhere.
pub(super) fn close(plan: &Plan, vault: &Vault, late: &mut Late) -> Option<String> {
    let scrubbed = |bytes: &[u8]| {
        let scrubbed = vault.scrub_value(bytes);
        (*scrubbed != *bytes).then(|| scrubbed.into_owned())
    };
    let mut places = Vec::new();
    for (name, value) in &plan.environment {
        if late.environment.contains_key(name) {
            continue;
        }
        if let Some(clean) = scrubbed(value.as_bytes()) {
            late.environment.insert(name.clone(), OsString::from_vec(clean));
            places.push(escape(OsStr::new(name)).to_string());
        }
    }
    for (position, argument) in plan.inner.argv.iter().enumerate() {
        let clean = scrubbed(argument);
        late.arguments.extend(clean.map(|clean| (position, clean)));
    }
    let typed = match late.arguments.len() {
        0 => "",
        1 => {
            places.push("an argument of the command".to_owned());
            TYPED
        }
        count => {
            places.push(format!("{count} arguments of the command"));
            TYPED
        }
    };
    (!places.is_empty()).then(|| {
        format!(
            "the value of a secret is also in {}: the jail gets the fake there as well{typed}",
            places.join(", ")
        )
    })
}

/// What to say of a value in the settings of the project's repository, which git inside has to read as they are: a login in the
/// URL of a remote.
pub(super) fn in_remotes(git: Option<&GitLayout>, written: &Written, vault: &Vault) -> Option<String> {
    let config = git?.common_dir.join("config");
    let (content, _) = file(&config, written).ok()?;
    (*vault.scrub_value(&content) != **content).then(|| {
        format!(
            "the value of a secret is also in {}, which the jail reads as it is: take it out of there, as with `git remote set-url \
             origin https://HOST/PATH`, and give the login where it is used",
            escape(&config)
        )
    })
}

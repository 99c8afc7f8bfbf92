//! The ways by which the value of a secret comes in beside its own variable: other variables, and the command's arguments.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::plan::Plan;
use crate::plan::late::Late;
use crate::sanitize::escape;
use crate::secrets::Vault;

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
    match late.arguments.len() {
        0 => {}
        1 => places.push("an argument of the command".to_owned()),
        count => places.push(format!("{count} arguments of the command")),
    }
    (!places.is_empty()).then(|| {
        format!(
            "the value of a secret is also in {}: the jail gets the fake there as well",
            places.join(", ")
        )
    })
}

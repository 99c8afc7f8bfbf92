//! The value of a secret in the place of a host: a shell puts it where `$NAME` stands for NAME, and a word without dots is a host
//! as well. Hosts are shown, and the jail is told of them, so that such a launch is refused before anything is said.

use crate::config::settings::Settings;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::host::environment::is_named_like_credential;
use crate::host::secret_sources::{Bytes, Values, Written, file, names};
use crate::policy::host_rule::HostPattern;
use crate::policy::origin::{Layer, Origin};
use crate::secrets::{FileMask, Seed, mask_file};

/// A shorter value is found where it is the whole of a host, and not within one.
const WITHIN: usize = 8;
/// A shorter word of a file of which only a part is secret is none.
const WORD: usize = 4;

/// # Errors
/// When a host of the settings is, or holds, a value that is known before anything runs: of a secret of this run, or of a
/// variable that is called like a credential.
pub(in crate::run) fn check(host: &Host, settings: &Settings, written: &Written) -> Result<()> {
    if hosts(settings).next().is_none() {
        return Ok(());
    }
    let files: Vec<_> = settings.env_files.iter().map(|file| file.value.clone()).collect();
    // A file that cannot be read is told of when it is needed.
    let given = names(&files, written).unwrap_or_default();
    let given = given.keys().filter(|name| is_named_like_credential(name));
    let wanted = || settings.secrets.keys().chain(given.clone()).map(String::as_str);
    let variables = Values::read(host, wanted(), &files, written)
        .or_else(|_| Values::read(host, wanted(), &[], written))
        .map(Values::all)
        .unwrap_or_default();
    let others = host.environment.vars.iter().filter(|(name, value)| {
        name.to_str().is_some_and(is_named_like_credential)
            && value.len() >= WITHIN
            && !value.eq_ignore_ascii_case("localhost")
    });
    let others = others.map(|(_, value)| Bytes::new(value.as_encoded_bytes().to_vec()));
    let values: Vec<Bytes> = variables.into_iter().chain(contents(settings, written)).chain(others).collect();
    refuse(settings, values.iter().map(|value| value.as_slice()))
}

/// # Errors
/// When a host of the settings is, or holds, one of `values`.
pub(super) fn refuse<'v>(settings: &Settings, values: impl Iterator<Item = &'v [u8]>) -> Result<()> {
    let values: Vec<Bytes> =
        values.map(|value| Bytes::new(value.trim_ascii().to_ascii_lowercase())).collect();
    match hosts(settings).find(|(text, _)| values.iter().any(|value| is_in(text, value))) {
        None => Ok(()),
        Some((_, origin)) => {
            let error =
                Error::new(Kind::Refused, format!("{origin} has the value of a secret where a host belongs"));
            Err(match origin.layer {
                Layer::CommandLine => error
                    .because("every program can read a command line")
                    .hint("write a host such as api.example.com there, and treat that secret as seen"),
                _ => error.because("hosts are shown, also to the jail").hint("write a host there"),
            })
        }
    }
}

/// Every host that is shown somewhere, as it is shown, with who wrote it.
fn hosts(settings: &Settings) -> impl Iterator<Item = (String, &Origin)> {
    let lists =
        settings.allow.iter().chain(&settings.deny).map(|host| (host.value.to_string(), &host.origin));
    let rules = settings.http.iter().map(|rules| (rules.value.host.to_string(), &rules.origin));
    let private = settings.allow_private.iter().map(|host| (host.value.clone(), &host.origin));
    let resolved = settings.resolve.iter().map(|(host, target)| (host.clone(), &target.origin));
    let of = |hosts: &Option<Vec<HostPattern>>| hosts.iter().flatten().map(HostPattern::to_string).collect();
    let variables = settings.secrets.values().map(move |entry| (of(&entry.hosts), &entry.origin));
    let files = settings.secret_files.values().map(move |entry| (of(&entry.hosts), &entry.origin));
    let bound = variables
        .chain(files)
        .flat_map(|(hosts, origin): (Vec<String>, _)| hosts.into_iter().map(move |host| (host, origin)));
    let all = lists.chain(rules).chain(private).chain(resolved).chain(bound);
    all.filter(|(_, origin)| origin.layer != Layer::BuiltIn)
}

/// Whether a host is, or holds, a value in small letters.
fn is_in(host: &str, value: &[u8]) -> bool {
    let host = host.to_ascii_lowercase();
    let bare = host.trim_start_matches("*.").trim_start_matches('.');
    let bare = bare.split([':', '/']).next().unwrap_or(bare);
    let value = value.strip_suffix(b".").unwrap_or(value);
    let within = || value.len() >= WITHIN && host.as_bytes().windows(value.len()).any(|part| part == value);
    !value.is_empty() && (bare.as_bytes() == value || within())
}

/// What is secret in the files of `settings`. Where that cannot be told it may be any word without a dot.
fn contents(settings: &Settings, written: &Written) -> Vec<Bytes> {
    let mut values = Vec::new();
    for (path, entry) in &settings.secret_files {
        let Ok((content, _)) = file(path, written) else { continue };
        let claims = entry.mask_claims.clone().unwrap_or_default();
        let masked = FileMask::new(entry.extract.as_deref(), entry.decode, claims)
            .ok()
            .and_then(|spec| mask_file(&Seed::new([0; 32]), "", &content, &spec, &[]).ok());
        match masked {
            Some(masked) => {
                values.extend(masked.found.iter().map(|(value, _)| Bytes::new(value.expose().to_vec())));
            }
            None => {
                let words = content.split(|byte| !byte.is_ascii_alphanumeric() && !b"-_.".contains(byte));
                let words = words.filter(|word| word.len() >= WORD && !word.contains(&b'.'));
                values.extend(words.map(|word| Bytes::new(word.to_vec())));
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_a_host_in_small_letters_and_a_short_one_as_the_whole_of_it() {
        for (host, value, want) in [
            ("hunter2hunter2", "hunter2hunter2", true),
            ("hunter2hunter2:8443", "hunter2hunter2", true),
            ("*.hunter2hunter2", "hunter2hunter2", true),
            (".hunter2hunter2:*/tcp", "hunter2hunter2", true),
            ("hunter2hunter2.example.com", "hunter2hunter2", true),
            ("hunter2hunter2", "hunter2hunter2.", true),
            ("hunter2", "hunter2", true),
            ("hunter2.example.com", "hunter2", false),
            ("pass:8443", "pass", true),
            ("hunter2hunter2:8443", "hunter2hunter2:8443", true),
            ("api.example.com", "example", false),
            ("api.example.com", "", false),
            ("*", "", false),
        ] {
            assert_eq!(is_in(host, value.as_bytes()), want, "{host} {value}");
        }
    }
}

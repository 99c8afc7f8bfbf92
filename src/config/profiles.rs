//! The built-in profiles: data in `presets/profiles.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::settings::{HomeMode, NetworkMode, Profile, StateMode};
use super::words::Word as _;
use crate::error::{Error, Kind, Result};
use crate::presets::preset;

/// What a profile starts from, before any layer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileDefaults {
    /// Why it is as it is, for `explain`.
    pub reason: String,
    /// Whether the home is kept.
    pub home: HomeMode,
    /// Where the agent's state is kept.
    pub state: StateMode,
    /// What can be reached.
    pub network: NetworkMode,
    /// Whether toolchains under the host's home are mounted.
    pub toolchains: bool,
    /// Whether the agent's own hosts are allowed.
    pub agent_hosts: bool,
    /// Whether the registries of the tools are allowed.
    pub toolchain_hosts: bool,
    /// Whose allow lists count.
    pub hosts: HostsFrom,
    /// The profiles that this one is at least as strict as, in every respect.
    pub stricter_than: Vec<Profile>,
}

/// Whose allow lists count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostsFrom {
    /// Those of every layer that may loosen.
    All,
    /// Those of the command line alone.
    CommandLine,
}

impl ProfileDefaults {
    /// The defaults of `profile`. Fails only if the table in the program is broken, which a test rules out.
    pub fn of(profile: Profile) -> Result<Self> {
        let broken =
            |why: String| Error::new(Kind::Setup, "the built-in table of profiles is broken").because(why);
        let mut table: BTreeMap<Profile, Self> =
            serde_json::from_str(preset!("profiles")).map_err(|error| broken(error.to_string()))?;
        table.remove(&profile).ok_or_else(|| broken(format!("`{}` is missing", profile.word())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_its_row_with_a_reason() {
        for (word, profile) in Profile::WORDS {
            let defaults = ProfileDefaults::of(*profile).unwrap();
            assert!(!defaults.reason.is_empty(), "{word}");
        }
    }

    #[test]
    fn a_stricter_profile_is_stricter_in_every_value() {
        for (word, profile) in Profile::WORDS {
            let strict = ProfileDefaults::of(*profile).unwrap();
            assert!(!strict.stricter_than.contains(profile), "{word}");
            for other in &strict.stricter_than {
                let loose = ProfileDefaults::of(*other).unwrap();
                assert!(!loose.stricter_than.contains(profile), "{word} and {other:?}");
                assert!(strict.home <= loose.home && strict.state <= loose.state, "{word} and {other:?}");
                assert!(strict.network <= loose.network && strict.toolchains <= loose.toolchains);
                for beyond in &loose.stricter_than {
                    assert!(strict.stricter_than.contains(beyond), "{word}, {other:?}, {beyond:?}");
                }
            }
        }
    }
}

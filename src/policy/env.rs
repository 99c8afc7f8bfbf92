//! The environment of the jail: which of the launcher's variables come in, and why the others do not.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::config::settings::{EnvValue, Inherit, Settings};
use crate::policy::origin::{Layer, Origin, Sourced};
use crate::policy::wild;
use crate::presets::preset;
use crate::sanitize::escape;

/// One row of the table: names, as case-insensitive patterns with `*`, and why.
#[derive(Debug, Deserialize)]
pub struct Row {
    /// The patterns.
    pub names: Vec<String>,
    /// Why they are in this table.
    pub reason: String,
}

/// `presets/environment.toml`.
#[derive(Debug, Deserialize)]
pub struct Table {
    /// What comes by itself under `core`.
    pub core: Vec<Row>,
    /// What never comes by inheritance.
    pub never: Vec<Row>,
    /// What looks like a secret.
    pub secret: Vec<Row>,
    /// What no secret can be called.
    pub own: Vec<Row>,
}

/// The table that is compiled in.
#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("environment")).expect("environment.toml parses"));

/// Why a variable of the launcher's is, or is not, in the jail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It comes in, for this reason.
    Inherited(String),
    /// It does not, for this reason.
    Dropped(String),
}

/// Judges one name by inheritance alone.
pub fn inheritance(name: &str, settings: &Settings) -> Verdict {
    if let Some(row) = find(&TABLE.never, name) {
        return Verdict::Dropped(format!("{} and never comes by inheritance", row.reason));
    }
    let base = match settings.inherit.value {
        Inherit::None => return Verdict::Dropped("nothing is inherited (inherit = \"none\")".to_owned()),
        Inherit::All => "everything harmless is inherited".to_owned(),
        Inherit::Core => match find(&TABLE.core, name) {
            Some(row) => row.reason.clone(),
            None => return Verdict::Dropped("it is not on the list of inherited variables".to_owned()),
        },
    };
    if !settings.ignore_default_excludes.value
        && let Some(row) = find(&TABLE.secret, name)
    {
        return Verdict::Dropped(row.reason.clone());
    }
    match settings.env_exclude.iter().find(|pattern| matches(&pattern.value, name)) {
        Some(pattern) => Verdict::Dropped(format!("{} excludes it ({})", pattern.value, pattern.origin)),
        None => Verdict::Inherited(base),
    }
}

/// The jail's variables: inherited ones, then `ours` (what ai-jail sets), then those named by the user.
///
/// The order is that of the policy table: inherit, drop, exclude, set; `include_only` has the last word, but for what
/// the jail itself needs (`ours`).
pub fn resolve(
    settings: &Settings,
    launcher: &BTreeMap<OsString, OsString>,
    ours: BTreeMap<String, Sourced<OsString>>,
) -> BTreeMap<String, Sourced<OsString>> {
    let mut variables = BTreeMap::new();
    for (name, value) in launcher {
        let Some(name) = name.to_str() else { continue };
        if let Verdict::Inherited(reason) = inheritance(name, settings) {
            variables.insert(
                name.to_owned(),
                Sourced::new(value.clone(), Origin::built_in(format!("inherited: {reason}"))),
            );
        }
    }
    for (name, wanted) in &settings.env {
        let value = match &wanted.value {
            EnvValue::Set(value) => Some(OsString::from(value)),
            EnvValue::Pass => launcher.get(OsStr::new(name)).cloned(),
        };
        if let Some(value) = value {
            variables.insert(name.clone(), Sourced::new(value, wanted.origin.clone()));
        }
    }
    if !settings.env_include_only.is_empty() {
        variables
            .retain(|name, _| settings.env_include_only.iter().any(|pattern| matches(&pattern.value, name)));
    }
    for (name, value) in ours {
        // A variable that the user named wins over ours, except for those without which the jail is another.
        if !settings.env.contains_key(&name) || name == "HOME" || name == "AI_JAIL" {
            variables.insert(name, value);
        }
    }
    variables
}

/// Whether a variable of this name may hold a secret.
pub fn looks_secret(name: &str) -> bool {
    find(&TABLE.secret, name).is_some()
}

/// Why no secret can be called `name`: the jail or its programs need it as it is.
pub fn own_reason(name: &str) -> Option<&'static str> {
    find(&TABLE.own, name).map(|row| row.reason.as_str())
}

/// A warning for each variable that the command line passes on and the launcher does not have, `in_files` of `--env-file` or not
/// at all. A list in a file is for every day, and says nothing about one that is not set today.
pub fn unset(
    settings: &Settings,
    launcher: &BTreeMap<OsString, OsString>,
    in_files: &BTreeMap<String, PathBuf>,
) -> Vec<String> {
    let missing = settings.env.iter().filter(|(name, wanted)| {
        wanted.value == EnvValue::Pass
            && wanted.origin.layer == Layer::CommandLine
            && !launcher.contains_key(OsStr::new(name))
    });
    missing
        .map(|(name, _)| {
            let shown = escape(name);
            match in_files.contains_key(name) {
                true => format!(
                    "--env {shown}: only a file of --env-file has it, whose values are for fakes: --secret {shown}=HOST; set it here to \
                     give the jail the real one"
                ),
                false => format!("--env {shown}: it is not set here, so that the jail has none"),
            }
        })
        .collect()
}

fn find<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.names.iter().any(|pattern| matches(pattern, name)))
}

/// Whether `name` matches `pattern`, where `*` stands for any run of characters and case does not count.
pub fn matches(pattern: &str, name: &str) -> bool {
    let star = |part: &u8| *part == b'*';
    wild::matches(pattern.as_bytes(), name.as_bytes(), star, |part, byte| part.eq_ignore_ascii_case(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_without_case() {
        let cases = [
            ("*KEY*", "openai_api_key", true),
            ("*KEY*", "KEY", true),
            ("LD_*", "LD_PRELOAD", true),
            ("LD_*", "OLD_X", false),
            ("_", "_", true),
            ("_", "_X", false),
            ("*_BASE_URL", "ANTHROPIC_BASE_URL", true),
            ("*_BASE_URL", "ANTHROPIC_BASE_URL_X", false),
            ("", "", true),
            ("**", "x", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} against {name}");
        }
    }

    #[test]
    fn every_row_has_names_and_a_reason() {
        for row in TABLE.core.iter().chain(&TABLE.never).chain(&TABLE.secret).chain(&TABLE.own) {
            assert!(!row.names.is_empty() && row.reason.len() > 8, "{row:?}");
        }
    }

    #[test]
    fn no_credential_of_an_agent_is_called_like_what_the_jail_needs() {
        for credential in crate::host::agents::all().flat_map(|agent| &agent.credentials) {
            assert_eq!(own_reason(&credential.variable), None, "{}", credential.variable);
        }
        for name in ["GH_TOKEN", "LD_API_KEY", "NPM_TOKEN", "GIT_TOKEN", "DATABASE_URL"] {
            assert_eq!(own_reason(name), None, "{name}");
        }
        for name in ["PATH", "https_proxy", "LD_PRELOAD", "npm_config_cafile", "GIT_CONFIG_VALUE_0"] {
            assert!(own_reason(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_runs_code_is_in_the_table_of_what_never_comes() {
        let dangerous = [
            "LD_PRELOAD",
            "GIT_SSH_COMMAND",
            "GIT_ASKPASS",
            "GIT_EXTERNAL_DIFF",
            "NODE_OPTIONS",
            "BASH_ENV",
            "PYTHONSTARTUP",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "DOCKER_HOST",
            "TMUX",
            "WAYLAND_DISPLAY",
            "DISPLAY",
            "XAUTHORITY",
            "STY",
            "KITTY_LISTEN_ON",
            "VSCODE_IPC_HOOK_CLI",
            "GPG_AGENT_INFO",
            "ANTHROPIC_BASE_URL",
            "http_proxy",
            // Makers and compilers.
            "MAKEFILES",
            "CMAKE_TOOLCHAIN_FILE",
            "CPATH",
            "LIBRARY_PATH",
            "COMPILER_PATH",
            "GCC_EXEC_PREFIX",
            "GOROOT",
            "GOTOOLDIR",
            "PKG_CONFIG_PATH",
            "CONFIG_SITE",
            "CCACHE_CONFIGPATH",
            "RUSTUP_TOOLCHAIN",
            // Language runtimes.
            "ERL_FLAGS",
            "ERL_AFLAGS",
            "ERL_ZFLAGS",
            "ELIXIR_ERL_OPTIONS",
            "GUILE_LOAD_PATH",
            "JULIA_LOAD_PATH",
            "OCAMLPATH",
            "GHCRTS",
            "COMPlus_EnableDiagnostics",
            "DOTNET_ADDITIONAL_DEPS",
            "YARN_RC_FILENAME",
            "NPM_CONFIG_USERCONFIG",
            "TCLLIBPATH",
            "AWKPATH",
            "R_LIBS_USER",
            "COMPOSER_HOME",
            "GRADLE_USER_HOME",
            // Shells, editors and everyday tools.
            "FPATH",
            "INPUTRC",
            "EXINIT",
            "WGETRC",
            "TAR_OPTIONS",
            "RSYNC_RSH",
            "CVS_RSH",
            "SVN_SSH",
            "HGRCPATH",
            "PSQLRC",
            "GNUPGHOME",
            "LESSKEYIN",
            // Libraries that load modules.
            "OPENSSL_ENGINES",
            "OPENSSL_CONF",
            "LIBGL_DRIVERS_PATH",
            "LIBVA_DRIVERS_PATH",
            "__EGL_VENDOR_LIBRARY_DIRS",
            "GDK_PIXBUF_MODULE_FILE",
            "GI_TYPELIB_PATH",
            "OCL_ICD_VENDORS",
            "KRB5_CONFIG",
            "FONTCONFIG_FILE",
            "RESOLV_HOST_CONF",
            "RES_OPTIONS",
        ];
        for name in dangerous {
            assert!(find(&TABLE.never, name).is_some(), "{name}");
        }
        // What people set for their own programs is none of it.
        for name in [
            "MY_APP_MODE",
            "RUST_LOG",
            "RUST_BACKTRACE",
            "DEBUG",
            "NODE_ENV",
            "RAILS_ENV",
            "LOG_LEVEL",
            "PGHOST",
            "MYSQL_HOST",
            "MIX_ENV",
            "BUCKET_NAME",
            "STACK_NAME",
            "GOAL",
            "GOOGLE_CLOUD_PROJECT",
            "SNAPSHOT_DIR",
            "CUDA_VISIBLE_DEVICES",
            "DJANGO_SETTINGS_MODULE",
            "TF_VAR_region",
            "PORT",
            "DATABASE_URL",
        ] {
            assert!(find(&TABLE.never, name).is_none(), "{name}");
        }
        for name in ["LANG", "LC_ALL", "TERM", "TZ", "EDITOR", "NO_COLOR"] {
            assert!(find(&TABLE.never, name).is_none() && find(&TABLE.core, name).is_some(), "{name}");
        }
    }
}

//! The registries that tools ask when nothing is configured: read from the tools' own files, and where those name none, from
//! a table.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::host::command::on_path;
use crate::host::{Host, read_text};
use crate::policy::origin::Origin;
use crate::presets::preset;
use crate::sanitize::escape;

use super::ToolConfig;

/// No directory with more entries than this is searched to its end.
const MAX_ENTRIES: usize = 1000;

/// A host that a tool fetches packages from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registry {
    /// The host in lower case, with `:PORT` when the URL has one.
    pub host: String,
    /// Who names it.
    pub named: Named,
}

/// Who names a registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// The user's or the system's configuration of the tools.
    Configuration,
    /// A tool's own file.
    File {
        /// The tool: `npm`, `pip`, `go` or `cargo`.
        tool: &'static str,
        /// The file.
        file: PathBuf,
    },
    /// The table, for a tool that is there.
    Table {
        /// The tool, as the table calls it.
        tool: &'static str,
    },
}

impl Registry {
    /// The tool whose default it is; `None` for what was configured.
    pub fn tool(&self) -> Option<&'static str> {
        match self.named {
            Named::Configuration => None,
            Named::File { tool, .. } | Named::Table { tool } => Some(tool),
        }
    }

    /// Where it was read.
    pub fn origin(&self) -> Origin {
        Origin::built_in(match &self.named {
            Named::Configuration => "registry in the configuration of the tools".to_owned(),
            Named::File { tool, file } => {
                format!("registry of {tool}, which {} names", escape(file.as_os_str()))
            }
            Named::Table { tool } => format!("registry that {tool} asks by default"),
        })
    }
}

/// One row of `presets/registries.toml`.
#[derive(Debug, Deserialize)]
struct Row {
    tool: String,
    commands: Vec<String>,
    hosts: Vec<String>,
    #[serde(default)]
    always: bool,
    #[cfg_attr(not(test), expect(dead_code, reason = "it is for whoever reads the table, and for a test"))]
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Table {
    registry: Vec<Row>,
}

#[expect(clippy::expect_used, reason = "compiled in; a test parses it")]
static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(preset!("registries")).expect("registries.toml parses"));

/// The registries of `config`, and the tools' own for those tools that `config` does not send elsewhere. Each host once.
pub fn registries(host: &Host, project: &Path, config: &ToolConfig) -> Vec<Registry> {
    let configuration = config.registries.iter();
    let mut found: Vec<Registry> =
        configuration.map(|name| Registry { host: name.clone(), named: Named::Configuration }).collect();
    for row in TABLE.registry.iter().filter(|row| !configured(config, &row.tool)) {
        let own = match row.tool.as_str() {
            "npm" => npm(host, project),
            "pip" => pip(host, project),
            "go" => go(host, project),
            "cargo" => cargo(host),
            _ => Vec::new(),
        };
        // An environment of the project's own is on PATH as often as not, and has no say.
        let of_project = |file: &Path| host.real(file).is_some_and(|file| file.starts_with(project));
        let own: Vec<_> = own.into_iter().filter(|(_, file)| !of_project(file)).collect();
        let by_table = (own.is_empty() || row.always) && is_there(host, project, &row.commands);
        let by_table = row.hosts.iter().filter(|_| by_table);
        let by_table = by_table.map(|name| (name.clone(), Named::Table { tool: &row.tool }));
        let own = own.into_iter().map(|(name, file)| (name, Named::File { tool: &row.tool, file }));
        for (name, named) in own.chain(by_table) {
            if !found.iter().any(|known| known.host == name) {
                found.push(Registry { host: name, named });
            }
        }
    }
    found
}

/// Whether one of the commands can be started: it is on `PATH`, not the project's, or where toolchains have their programs.
fn is_there(host: &Host, project: &Path, commands: &[String]) -> bool {
    let home = &host.user.home_real;
    let cargo = host.environment.var("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let places = [cargo.join("bin"), home.join(".local/bin"), home.join(".bun/bin"), home.join("go/bin")];
    commands.iter().any(|command| {
        on_path(host, project, OsStr::new(command)).is_ok()
            || places.iter().any(|place| {
                host.real(&place.join(command))
                    .is_some_and(|real| real.is_file() && !real.starts_with(project))
            })
    })
}

/// Whether the user or the system chose this tool's main registry.
fn configured(config: &ToolConfig, tool: &str) -> bool {
    let variable = |names: &[&str]| {
        config.env.iter().any(|(known, _)| names.iter().any(|name| known.eq_ignore_ascii_case(name)))
    };
    let setting = |path: &str, start: &str| {
        let mut files = config.files.iter().filter(|(name, _)| name == Path::new(path));
        files.any(|(_, text)| text.lines().any(|line| line.starts_with(start)))
    };
    match tool {
        "npm" => variable(&["npm_config_registry"]) || setting(".npmrc", "registry="),
        "pip" => {
            variable(&["PIP_INDEX_URL", "PIP_NO_INDEX"]) || setting(".config/pip/pip.conf", "index-url =")
        }
        "go" => variable(&["GOPROXY"]),
        "uv" => variable(&["UV_INDEX_URL", "UV_DEFAULT_INDEX"]),
        "yarn" => {
            variable(&["YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER", "npm_config_registry"])
                || setting(".npmrc", "registry=")
        }
        _ => setting(".cargo/config.toml", "replace-with"),
    }
}

/// npm keeps the default of every setting in its sources.
fn npm(host: &Host, project: &Path) -> Vec<(String, PathBuf)> {
    let found = on_path(host, project, OsStr::new("npm")).ok().and_then(|npm| host.real(&npm));
    let Some(package) = found.as_deref().and_then(Path::parent).and_then(Path::parent) else {
        return Vec::new();
    };
    let file = package.join("node_modules/@npmcli/config/lib/definitions/definitions.js");
    let text = read_text(&file).unwrap_or_default();
    let definition = text.split_once("new Definition('registry'").map(|(_, rest)| rest);
    let url = definition.and_then(|rest| rest.split_once("default: '")?.1.split('\'').next());
    url.and_then(host_of).map(|name| (name, file)).into_iter().collect()
}

/// pip names its index, and where that keeps files, in one line of its sources.
fn pip(host: &Host, project: &Path) -> Vec<(String, PathBuf)> {
    let mut roots =
        vec![host.at("/usr/lib"), host.at("/usr/local/lib"), host.user.home_real.join(".local/lib")];
    let pyenv = host.environment.var("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.unwrap_or_else(|| host.user.home_real.join(".pyenv"));
    roots.extend(children(&pyenv.join("versions"), "").into_iter().map(|version| version.join("lib")));
    let entries = host.environment.path_entries();
    roots.extend(entries.iter().filter_map(|bin| Some(bin.parent()?.join("lib"))));
    for root in
        roots.into_iter().filter(|root| !host.real(root).is_some_and(|root| root.starts_with(project)))
    {
        for python in children(&root, "python3") {
            for packages in ["site-packages", "dist-packages"] {
                let file = python.join(packages).join("pip/_internal/models/index.py");
                let hosts = read_text(&file).map(|text| index_hosts(&text)).unwrap_or_default();
                if !hosts.is_empty() {
                    return hosts.into_iter().map(|name| (name, file.clone())).collect();
                }
            }
        }
    }
    Vec::new()
}

fn index_hosts(text: &str) -> Vec<String> {
    let Some((_, call)) = text.split_once("\nPyPI = PackageIndex(") else { return Vec::new() };
    let arguments = call.split(')').next().unwrap_or_default();
    arguments
        .split('"')
        .skip(1)
        .step_by(2)
        .filter_map(|word| host_of(word).or_else(|| plain_host(word)))
        .collect()
}

/// go's own settings stand beside its programs.
fn go(host: &Host, project: &Path) -> Vec<(String, PathBuf)> {
    let root = host.environment.var("GOROOT").map(PathBuf::from).or_else(|| {
        let go = host.real(&on_path(host, project, OsStr::new("go")).ok()?)?;
        Some(go.parent()?.parent()?.to_path_buf())
    });
    let Some(file) = root.map(|root| root.join("go.env")) else { return Vec::new() };
    let text = read_text(&file).unwrap_or_default();
    let values = text
        .lines()
        .filter_map(|line| line.strip_prefix("GOPROXY=").or_else(|| line.strip_prefix("GOSUMDB=")));
    let words = values.flat_map(|value| value.split([',', '|', ' ']));
    words
        .filter_map(|word| host_of(word).or_else(|| plain_host(word)))
        .map(|name| (name, file.clone()))
        .collect()
}

/// cargo keeps what a registry says about itself once it has asked it.
fn cargo(host: &Host) -> Vec<(String, PathBuf)> {
    let home = host.environment.var("CARGO_HOME").map(PathBuf::from);
    let index = home.unwrap_or_else(|| host.user.home_real.join(".cargo")).join("registry/index");
    let mut found = Vec::new();
    for registry in children(&index, "") {
        let file = registry.join("config.json");
        let Some(said) =
            read_text(&file).and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
        else {
            continue;
        };
        let named = registry
            .file_name()
            .and_then(OsStr::to_str)
            .and_then(|name| plain_host(name.rsplit_once('-')?.0));
        let urls = ["dl", "api"].iter().filter_map(|key| said.get(key)?.as_str().and_then(host_of));
        found.extend(named.into_iter().chain(urls).map(|name| (name, file.clone())));
    }
    found
}

/// The entries of a directory whose names begin with `start`, sorted.
fn children(dir: &Path, start: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let names = entries
        .flatten()
        .take(MAX_ENTRIES)
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(start.as_bytes()));
    let mut paths: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The host of an `https` URL without user information.
fn host_of(url: &str) -> Option<String> {
    let authority = url.strip_prefix("https://")?.split(['/', '?', '#']).next()?;
    plain_host(authority.strip_suffix(":443").unwrap_or(authority))
}

/// A host name with a dot, and a port if it has one.
fn plain_host(text: &str) -> Option<String> {
    let (name, port) = text.split_once(':').unwrap_or((text, "443"));
    let label =
        |label: &str| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let fits =
        name.contains('.') && name.split('.').all(label) && port.parse::<u16>().is_ok_and(|port| port > 0);
    fits.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::host::tests::machine;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn found(host: &Host) -> Vec<(String, &'static str)> {
        let project = host.user.home.join("p");
        let config = ToolConfig::read(host, &project);
        registries(host, &project, &config)
            .into_iter()
            .map(|registry| (registry.tool().unwrap_or("configuration"), registry.host))
            .map(|(tool, host)| (host, tool))
            .collect()
    }

    /// A machine with all four tools, each naming a host of its own.
    fn tools() -> (tempfile::TempDir, Host) {
        let (dir, mut host) = machine();
        let npm = host.at("/usr/lib/node_modules/npm");
        write(&npm.join("bin/npm-cli.js"), "");
        write(
            &npm.join("node_modules/@npmcli/config/lib/definitions/definitions.js"),
            "  proxy: new Definition('proxy', {\n    default: 'x'\n  registry: new Definition('registry', {\n    default: 'https://npm.example/',\n",
        );
        fs::create_dir_all(host.at("/usr/bin")).unwrap();
        symlink("../lib/node_modules/npm/bin/npm-cli.js", host.at("/usr/bin/npm")).unwrap();
        write(&host.at("/usr/lib/go/bin/go"), "");
        symlink("../lib/go/bin/go", host.at("/usr/bin/go")).unwrap();
        write(
            &host.at("/usr/lib/go/go.env"),
            "# x\nGOPROXY=https://proxy.go.example,direct\nGOSUMDB=sum.go.example\nGOTOOLCHAIN=auto\n",
        );
        write(
            &host.at("/usr/lib/python3/dist-packages/pip/_internal/models/index.py"),
            "\nPyPI = PackageIndex(\"https://pip.example/\", file_storage_domain=\"files.pip.example\")\nTestPyPI = PackageIndex(\n    \"https://test.example/\"\n)\n",
        );
        write(
            &host.user.home.join(".cargo/registry/index/index.cargo.example-1949cf8c6b5b557f/config.json"),
            "{\"dl\": \"https://static.cargo.example/crates\", \"api\": \"https://cargo.example:8443\"}",
        );
        host.environment.vars.insert("PATH".into(), host.at("/usr/bin").into());
        (dir, host)
    }

    #[test]
    fn tools_name_their_own_registries() {
        let (_dir, host) = tools();
        let want = [
            ("npm.example", "npm"),
            ("pip.example", "pip"),
            ("files.pip.example", "pip"),
            ("proxy.go.example", "go"),
            ("sum.go.example", "go"),
            ("index.cargo.example", "cargo"),
            ("static.cargo.example", "cargo"),
            ("cargo.example:8443", "cargo"),
        ];
        assert_eq!(found(&host), want.map(|(name, tool)| (name.to_owned(), tool)));
    }

    #[test]
    fn what_is_configured_takes_the_place_of_the_tools_own() {
        for (variable, value, gone) in [
            ("npm_config_registry", "https://mirror.example/", "npm"),
            ("PIP_INDEX_URL", "https://mirror.example/", "pip"),
            ("GOPROXY", "https://mirror.example", "go"),
        ] {
            let (_dir, mut host) = tools();
            host.environment.vars.insert(variable.into(), value.into());
            let found = found(&host);
            assert!(found.contains(&("mirror.example".to_owned(), "configuration")), "{found:?}");
            assert!(found.iter().all(|(_, tool)| *tool != gone), "{found:?}");
        }
        let (_dir, host) = tools();
        let text = "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"sparse+https://mirror.example/\"\n";
        write(&host.user.home.join(".cargo/config.toml"), text);
        assert!(found(&host).iter().all(|(_, tool)| *tool != "cargo"));
    }

    #[test]
    fn a_tool_that_names_no_registry_asks_its_default() {
        let crates = [("index.crates.io", "cargo"), ("static.crates.io", "cargo")];
        let python = [("pypi.org", "uv"), ("files.pythonhosted.org", "uv")];
        let go = [("proxy.golang.org", "go"), ("sum.golang.org", "go")];
        for (command, want) in [
            ("usr/bin/cargo", &crates[..]),
            ("home/.cargo/bin/cargo", &crates),
            ("usr/bin/uv", &python),
            ("usr/bin/go", &go),
            ("usr/bin/bun", &[("registry.npmjs.org", "npm")]),
            ("usr/bin/npm", &[("registry.npmjs.org", "npm")]),
            ("usr/bin/yarn", &[("registry.yarnpkg.com", "yarn")]),
            ("usr/bin/pip3", &[("pypi.org", "pip"), ("files.pythonhosted.org", "pip")]),
            ("home/p/bin/cargo", &[]),
        ] {
            let (_dir, mut host) = machine();
            let file = match command.strip_prefix("home/") {
                Some(below) => host.user.home.join(below),
                None => host.at(format!("/{command}")),
            };
            write(&file, "");
            let path = std::env::join_paths([host.at("/usr/bin"), host.user.home.join("p/bin")]).unwrap();
            host.environment.vars.insert("PATH".into(), path);
            let want: Vec<_> = want.iter().map(|(name, tool)| ((*name).to_owned(), *tool)).collect();
            assert_eq!(found(&host), want, "{command}");
        }
        // One that was asked already says nothing about the one that is asked next.
        let (_dir, host) = tools();
        write(&host.at("/usr/bin/cargo"), "");
        let found = found(&host);
        for name in ["index.cargo.example", "index.crates.io", "static.crates.io"] {
            assert!(found.contains(&(name.to_owned(), "cargo")), "{name}: {found:?}");
        }
        for name in ["registry.npmjs.org", "pypi.org", "proxy.golang.org"] {
            assert!(!found.iter().any(|(known, _)| known == name), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_default_gives_way_to_what_is_configured() {
        for (command, variable) in [
            ("uv", "UV_DEFAULT_INDEX"),
            ("go", "GOPROXY"),
            ("bun", "NPM_CONFIG_REGISTRY"),
            ("yarn", "YARN_REGISTRY"),
            ("pip", "PIP_INDEX_URL"),
        ] {
            let (_dir, mut host) = machine();
            write(&host.at(format!("/usr/bin/{command}")), "");
            host.environment.vars.insert("PATH".into(), host.at("/usr/bin").into());
            assert!(!found(&host).is_empty(), "{command}");
            host.environment.vars.insert(variable.into(), "https://mirror.example/".into());
            assert_eq!(found(&host), [("mirror.example".to_owned(), "configuration")], "{command}");
        }
        let (_dir, host) = machine();
        write(&host.user.home.join(".cargo/bin/cargo"), "");
        let text = "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"sparse+https://mirror.example/\"\n";
        write(&host.user.home.join(".cargo/config.toml"), text);
        assert_eq!(found(&host), [("mirror.example".to_owned(), "configuration")]);
    }

    #[test]
    fn every_row_is_whole() {
        for row in &TABLE.registry {
            assert!(!row.commands.is_empty() && row.reason.len() > 8, "{row:?}");
            assert!(
                !row.hosts.is_empty() && row.hosts.iter().all(|name| plain_host(name).is_some()),
                "{row:?}"
            );
        }
    }

    #[test]
    fn what_is_no_host_is_not_taken_for_one() {
        for (text, want) in [
            ("https://a.example/x", Some("a.example")),
            ("https://A.Example:8443", Some("a.example:8443")),
            ("https://a.example:443/x", Some("a.example")),
            ("http://a.example/", None),
            ("https://u@a.example/", None),
            ("https://localhost/", None),
            ("https://a..example/", None),
            ("https://a.example:0/", None),
            ("https://*.example/", None),
            ("direct", None),
        ] {
            assert_eq!(host_of(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn the_project_has_no_say() {
        let (_dir, mut host) = machine();
        let environment = host.user.home.join("p/.venv");
        write(
            &environment.join("lib/python3.12/site-packages/pip/_internal/models/index.py"),
            "\nPyPI = PackageIndex(\"https://evil.example/\")\n",
        );
        write(&environment.join("go.env"), "GOPROXY=https://evil.example\n");
        fs::create_dir_all(environment.join("bin")).unwrap();
        let vars = &mut host.environment.vars;
        vars.insert("PATH".into(), environment.join("bin").into());
        vars.insert("PYENV_ROOT".into(), environment.clone().into());
        vars.insert("GOROOT".into(), environment.clone().into());
        assert_eq!(found(&host), vec![]);
    }

    #[test]
    fn a_machine_without_tools_names_none() {
        let (_dir, host) = machine();
        assert_eq!(found(&host), vec![]);
    }
}

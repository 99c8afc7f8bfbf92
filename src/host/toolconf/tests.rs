use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::host::tests::machine;

struct Setting {
    _dir: tempfile::TempDir,
    host: Host,
}

impl Setting {
    fn new() -> Self {
        let (_dir, host) = machine();
        Self { _dir, host }
    }

    fn home(&self, path: &str, text: &str) {
        write(&self.host.user.home.join(path), text);
    }

    fn system(&self, path: &str, text: &str) {
        write(&self.host.at(path), text);
    }

    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.host.environment.vars.insert(name.into(), value.into());
    }

    fn read(&self) -> ToolConfig {
        ToolConfig::read(&self.host, &self.host.user.home.join("p"))
    }

    fn file(&self, path: &str) -> String {
        let config = self.read();
        let found = config.files.into_iter().find(|(name, _)| name == Path::new(path));
        found.map(|(_, text)| text).unwrap_or_default()
    }

    fn variable(&self, name: &str) -> Option<String> {
        let found = self.read().env.into_iter().find(|(known, _)| known == name)?;
        found.1.into_string().ok()
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn nothing_configured_is_nothing_carried() {
    assert_eq!(Setting::new().read(), ToolConfig::default());
}

#[test]
fn sources_lose_their_credentials_and_name_their_hosts() {
    for (value, want, hosts) in [
        ("https://r.example/simple", Some("https://r.example/simple"), vec!["r.example"]),
        ("https://u:p@R.example:8443/x", Some("https://R.example:8443/x"), vec!["r.example:8443"]),
        ("https://u:p@ss@r.example/", Some("https://r.example/"), vec!["r.example"]),
        ("https://r.example/s?token=x#y", Some("https://r.example/s"), vec!["r.example"]),
        (
            "https://a.example/ https://t@b.example/",
            Some("https://a.example/ https://b.example/"),
            vec!["a.example", "b.example"],
        ),
        ("corp=https://t@r.example/", Some("corp=https://r.example/"), vec!["r.example"]),
        ("https://r.example,direct", Some("https://r.example,direct"), vec!["r.example"]),
        ("https://$TOKEN/", None, vec![]),
        ("https:///x", None, vec![]),
        ("/nonexistent/wheels", None, vec![]),
        ("https://r.example/\u{1b}[2J", None, vec![]),
        ("https://u:pa,SECRET@r.example/simple", Some("https://r.example/simple"), vec!["r.example"]),
        ("https://u:pa|SECRET@r.example/simple", Some("https://r.example/simple"), vec!["r.example"]),
        ("https://tok:SE?CRET@r.example/", Some("https://r.example/"), vec!["r.example"]),
        ("https://tok:SE#CRET@r.example/", Some("https://r.example/"), vec!["r.example"]),
        ("https://tok:SE/CRET@r.example/", None, vec![]),
        ("https://tok:SE CRET@r.example/", None, vec![]),
        (
            "https://a.example/x,https://u:SE,CRET@b.example/",
            Some("https://a.example/x,https://b.example/"),
            vec!["a.example", "b.example"],
        ),
        (
            "https://a.example|https://u:SECRET@b.example|direct",
            Some("https://a.example|https://b.example|direct"),
            vec!["a.example", "b.example"],
        ),
        ("u:SECRET@proxy.example", None, vec![]),
        ("u:SECRET@proxy.example,https://a.example", None, vec![]),
        ("https://r.example/x@SECRET", None, vec![]),
        ("https://u:https://SECRET@r.example/", None, vec![]),
    ] {
        let mut setting = Setting::new();
        setting.set("PIP_EXTRA_INDEX_URL", value);
        let found = setting.variable("PIP_EXTRA_INDEX_URL");
        assert_eq!(found.as_deref(), want, "{value}");
        assert!(!found.unwrap_or_default().contains("SECRET"), "{value}");
        if want.is_some() {
            assert_eq!(setting.read().registries, hosts, "{value}");
        }
    }
}

#[test]
fn only_known_variables_are_carried() {
    let mut setting = Setting::new();
    for name in [
        "PIP_PROXY",
        "NPM_TOKEN",
        "npm_config__auth",
        "NODE_OPTIONS",
        "GOFLAGS",
        "UV_PUBLISH_TOKEN",
        "HTTPS_PROXY",
    ] {
        setting.set(name, "x");
    }
    setting.set("npm_config_registry", "https://r.example/");
    setting.set("CARGO_REGISTRIES_CORP_INDEX", "sparse+https://c.example/");
    setting.set("CARGO_REGISTRIES_CORP_TOKEN", "x");
    let names: Vec<_> = setting.read().env.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["CARGO_REGISTRIES_CORP_INDEX", "npm_config_registry"]);
}

#[test]
fn the_users_npmrc_ranks_above_the_global_one_and_keeps_no_token() {
    let mut setting = Setting::new();
    write(&setting.host.at("/usr/bin/node"), "x");
    fs::set_permissions(
        setting.host.at("/usr/bin/node"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    setting.set("PATH", setting.host.at("/usr/bin"));
    setting.system("/usr/etc/npmrc", "registry=https://global.example/\nfund=false\n");
    setting.home(
        ".npmrc",
        "registry = \"https://u:p@user.example/npm/\"\n//user.example/npm/:_authToken=npm_secret\n_auth=x\n\
         @corp_x:registry=https://corp.example/\nproxy=http://p.example\nscript-shell=/x\nupdate_notifier=false\n",
    );
    assert_eq!(
        setting.file(".npmrc"),
        "@corp_x:registry=https://corp.example/\nfund=false\nregistry=https://user.example/npm/\nupdate-notifier=false\n"
    );
    assert_eq!(setting.read().registries, ["corp.example", "global.example", "user.example"]);
}

#[test]
fn files_of_pip_are_merged_by_rank() {
    let mut setting = Setting::new();
    setting.system("/etc/ssl/ca.crt", "");
    let ca = setting.host.at("/etc/ssl/ca.crt");
    setting.system(
        "/etc/pip.conf",
        &format!("[global]\ncert = {}\nindex-url = https://a.example\n", ca.display()),
    );
    setting.home(
        ".config/pip/pip.conf",
        "[global]\nindex_url = https://t@b.example\nproxy = x\nclient-cert = x\n[install]\nno-binary = :all:\n",
    );
    let want = format!(
        "[global]\ncert = {}\nindex-url = https://b.example\n[install]\nno-binary = :all:\n",
        ca.display()
    );
    assert_eq!(setting.file(".config/pip/pip.conf"), want);
    setting.set("PIP_CONFIG_FILE", "/dev/null");
    assert_eq!(setting.file(".config/pip/pip.conf"), "");
}

#[test]
fn paths_that_settings_name_are_shown_or_the_setting_is_dropped() {
    let mut setting = Setting::new();
    let home = setting.host.user.home.clone();
    for dir in ["wheels", ".ssh"] {
        fs::create_dir_all(home.join(dir)).unwrap();
    }
    setting.home(".ssh/ca.pem", "");
    setting.home("ca/corp.pem", "");
    symlink("ca/corp.pem", home.join("link.pem")).unwrap();
    for (name, path, mounts) in [
        ("PIP_FIND_LINKS", home.join("wheels"), Some(vec![home.join("wheels")])),
        ("NODE_EXTRA_CA_CERTS", home.join("ca/corp.pem"), Some(vec![home.join("ca/corp.pem")])),
        ("NODE_EXTRA_CA_CERTS", home.join("link.pem"), None),
        ("NODE_EXTRA_CA_CERTS", home.join(".ssh/ca.pem"), None),
        ("SSL_CERT_DIR", home.clone(), None),
        ("SSL_CERT_DIR", "relative".into(), None),
    ] {
        setting.host.environment.vars.clear();
        setting.set(name, path.clone());
        assert_eq!(setting.variable(name).is_some(), mounts.is_some(), "{}", path.display());
        assert_eq!(setting.read().mounts, mounts.unwrap_or_default(), "{}", path.display());
    }
}

#[test]
fn a_file_of_the_project_has_no_say() {
    let mut setting = Setting::new();
    setting.home("p/npmrc", "registry=https://evil.example/\n");
    setting.home("p/pip.conf", "[global]\nindex-url = https://evil.example/\n");
    setting.home("p/go", "GOPROXY=https://evil.example\n");
    setting.home("p/cargo/config.toml", "[registries.x]\nindex = \"https://evil.example/\"\n");
    let project = setting.host.user.home.join("p");
    symlink(project.join("npmrc"), setting.host.user.home.join(".npmrc")).unwrap();
    setting.set("PIP_CONFIG_FILE", project.join("pip.conf"));
    setting.set("GOENV", project.join("go"));
    setting.set("CARGO_HOME", project.join("cargo"));
    assert_eq!(setting.read(), ToolConfig::default());
}

#[test]
fn gos_own_file_is_read_below_the_environment() {
    let mut setting = Setting::new();
    setting.home(
        ".config/go/env",
        "GOPROXY=https://u:p@g.example\nGOFLAGS=-toolexec=x\nGOPRIVATE=corp.example\nPIP_CERT=/x\n",
    );
    assert_eq!(setting.variable("GOPROXY").as_deref(), Some("https://g.example"));
    assert_eq!(setting.variable("GOPRIVATE").as_deref(), Some("corp.example"));
    assert_eq!(setting.variable("GOFLAGS"), None);
    setting.set("GOPROXY", "https://env.example");
    assert_eq!(setting.variable("GOPROXY").as_deref(), Some("https://env.example"));
}

#[test]
fn cargos_file_keeps_where_packages_come_from() {
    let setting = Setting::new();
    setting.home(
        ".cargo/config.toml",
        "[build]\nrustc-wrapper = \"x\"\n[alias]\nx = \"run\"\n[registries.corp]\nindex = \"sparse+https://u:p@c.example/i/\"\n\
         token = \"secret\"\ncredential-provider = \"x\"\n[registry]\ntoken = \"secret\"\n[source.crates-io]\n\
         replace-with = \"corp\"\n[http]\nproxy = \"http://p.example\"\ntimeout = 60\n[net]\nretry = 3\n",
    );
    let text = setting.file(".cargo/config.toml");
    for part in ["sparse+https://c.example/i/", "replace-with = \"corp\"", "retry = 3", "timeout = 60"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    for part in ["secret", "credential", "u:p", "p.example", "wrapper", "alias"] {
        assert!(!text.contains(part), "{part} in {text}");
    }
    assert_eq!(setting.read().registries, ["c.example"]);
}

#[test]
fn a_file_that_is_no_toml_is_left_out() {
    let setting = Setting::new();
    setting.home(".cargo/config.toml", "[broken");
    assert_eq!(setting.read(), ToolConfig::default());
}

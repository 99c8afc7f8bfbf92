//! Which settings of other tools are carried, with a reason for each. Everything else stays outside.

/// What a setting holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// One or more URLs or paths, separated by white space, commas or `|`; names in angle brackets or before `=` are kept.
    Sources,
    /// The path of a file or directory.
    Path,
    /// The path of a file of TLS roots, PEM.
    Roots,
    /// A number, a word or a list of names.
    Plain,
}

/// One setting that may be carried.
pub(super) struct Row {
    /// The key in lower case; a `*` stands for anything.
    pub(super) key: &'static str,
    pub(super) value: Value,
    #[cfg_attr(not(test), expect(dead_code, reason = "it is for whoever reads the table, and for a test"))]
    reason: &'static str,
}

const fn row(key: &'static str, value: Value, reason: &'static str) -> Row {
    Row { key, value, reason }
}

/// Variables of the launcher's environment, in their own case.
pub(super) static VARIABLES: &[Row] = &[
    row("PIP_INDEX_URL", Value::Sources, "pip's index"),
    row("PIP_EXTRA_INDEX_URL", Value::Sources, "pip's further indexes"),
    row("PIP_FIND_LINKS", Value::Sources, "directories or pages of packages"),
    row("PIP_NO_INDEX", Value::Plain, "pip asks no index"),
    row("PIP_TRUSTED_HOST", Value::Plain, "hosts that pip asks without TLS"),
    row("PIP_CERT", Value::Roots, "pip's TLS roots"),
    row("PIP_DEFAULT_TIMEOUT", Value::Plain, "slow mirrors"),
    row("PIP_DISABLE_PIP_VERSION_CHECK", Value::Plain, "pip asks for no newer pip"),
    row("UV_INDEX_URL", Value::Sources, "uv's index, old name"),
    row("UV_DEFAULT_INDEX", Value::Sources, "uv's index"),
    row("UV_INDEX", Value::Sources, "uv's further indexes"),
    row("UV_EXTRA_INDEX_URL", Value::Sources, "uv's further indexes, old name"),
    row("UV_FIND_LINKS", Value::Sources, "directories or pages of packages"),
    row("UV_PYTHON_INSTALL_MIRROR", Value::Sources, "where uv fetches pythons"),
    row("UV_NATIVE_TLS", Value::Plain, "uv takes the system's TLS roots"),
    row("NPM_CONFIG_REGISTRY", Value::Sources, "npm's registry"),
    row("npm_config_registry", Value::Sources, "npm's registry"),
    row("NPM_CONFIG_CAFILE", Value::Roots, "npm's TLS roots"),
    row("npm_config_cafile", Value::Roots, "npm's TLS roots"),
    row("NPM_CONFIG_AUDIT", Value::Plain, "registries without an audit service"),
    row("npm_config_audit", Value::Plain, "registries without an audit service"),
    row("YARN_REGISTRY", Value::Sources, "yarn's registry"),
    row("YARN_NPM_REGISTRY_SERVER", Value::Sources, "yarn's registry"),
    row("NODEJS_ORG_MIRROR", Value::Sources, "where releases of node come from"),
    row("NVM_NODEJS_ORG_MIRROR", Value::Sources, "where nvm fetches node"),
    row("FNM_NODE_DIST_MIRROR", Value::Sources, "where fnm fetches node"),
    row("DENO_CERT", Value::Roots, "deno's TLS roots"),
    row("GOPROXY", Value::Sources, "where go fetches modules"),
    row("GOSUMDB", Value::Sources, "where go checks modules"),
    row("GOPRIVATE", Value::Plain, "modules that are not asked for in public"),
    row("GONOPROXY", Value::Plain, "as GOPRIVATE"),
    row("GONOSUMDB", Value::Plain, "as GOPRIVATE"),
    row("GONOSUMCHECK", Value::Plain, "as GOPRIVATE"),
    row("RUSTUP_DIST_SERVER", Value::Sources, "where rustup fetches compilers"),
    row("RUSTUP_UPDATE_ROOT", Value::Sources, "where rustup fetches itself"),
    row("CARGO_HTTP_CAINFO", Value::Roots, "cargo's TLS roots"),
    row("CARGO_REGISTRIES_*_INDEX", Value::Sources, "cargo's further registries"),
    row("CARGO_REGISTRY_DEFAULT", Value::Plain, "cargo's registry by name"),
    row("BUNDLE_SSL_CA_CERT", Value::Roots, "bundler's TLS roots"),
    row("HOMEBREW_BOTTLE_DOMAIN", Value::Sources, "where brew fetches binaries"),
    row("HOMEBREW_API_DOMAIN", Value::Sources, "where brew asks for versions"),
    row("HF_ENDPOINT", Value::Sources, "a mirror of models"),
    row("NODE_EXTRA_CA_CERTS", Value::Roots, "node's further TLS roots"),
    row("SSL_CERT_FILE", Value::Roots, "TLS roots of OpenSSL and many others"),
    row("SSL_CERT_DIR", Value::Path, "TLS roots of OpenSSL and many others"),
    row("NIX_SSL_CERT_FILE", Value::Roots, "TLS roots of programs from Nix"),
    row("REQUESTS_CA_BUNDLE", Value::Roots, "TLS roots of Python's requests"),
    row("HTTPLIB2_CA_CERTS", Value::Roots, "TLS roots of Python's httplib2"),
    row("CURL_CA_BUNDLE", Value::Roots, "curl's TLS roots"),
    row("GIT_SSL_CAINFO", Value::Roots, "git's TLS roots"),
    row("AWS_CA_BUNDLE", Value::Roots, "TLS roots of the AWS tools"),
    row("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", Value::Roots, "gRPC's TLS roots"),
    row("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", Value::Roots, "TLS roots of the Google Cloud tools"),
];

/// Keys of `npmrc`.
pub(super) static NPM: &[Row] = &[
    row("registry", Value::Sources, "the registry"),
    row("@*:registry", Value::Sources, "the registry of a scope"),
    row("replace-registry-host", Value::Plain, "whether lock files are read for this registry"),
    row("omit-lockfile-registry-resolved", Value::Plain, "whether lock files name a registry"),
    row("cafile", Value::Roots, "TLS roots"),
    row("disturl", Value::Sources, "where headers of node come from"),
    row("nodedir", Value::Path, "where headers of node are"),
    row("fetch-retries", Value::Plain, "slow mirrors"),
    row("fetch-timeout", Value::Plain, "slow mirrors"),
    row("maxsockets", Value::Plain, "slow mirrors"),
    row("audit", Value::Plain, "registries without an audit service"),
    row("fund", Value::Plain, "what is printed"),
    row("update-notifier", Value::Plain, "npm asks for no newer npm"),
    row("engine-strict", Value::Plain, "how packages are chosen"),
    row("legacy-peer-deps", Value::Plain, "how packages are chosen"),
    row("strict-peer-dependencies", Value::Plain, "how packages are chosen"),
    row("prefer-offline", Value::Plain, "how packages are chosen"),
    row("save-exact", Value::Plain, "how packages are noted"),
    row("save-prefix", Value::Plain, "how packages are noted"),
    row("ignore-scripts", Value::Plain, "packages run nothing when they are installed"),
    row("yes", Value::Plain, "whether npx asks"),
];

/// Keys of `pip.conf`, in any section.
pub(super) static PIP: &[Row] = &[
    row("index-url", Value::Sources, "the index"),
    row("extra-index-url", Value::Sources, "further indexes"),
    row("find-links", Value::Sources, "directories or pages of packages"),
    row("no-index", Value::Plain, "no index is asked"),
    row("trusted-host", Value::Plain, "hosts that are asked without TLS"),
    row("cert", Value::Roots, "TLS roots"),
    row("timeout", Value::Plain, "slow mirrors"),
    row("default-timeout", Value::Plain, "slow mirrors"),
    row("retries", Value::Plain, "slow mirrors"),
    row("disable-pip-version-check", Value::Plain, "pip asks for no newer pip"),
    row("require-virtualenv", Value::Plain, "where packages go"),
    row("break-system-packages", Value::Plain, "where packages go"),
    row("prefer-binary", Value::Plain, "how packages are chosen"),
    row("only-binary", Value::Plain, "how packages are chosen"),
    row("no-binary", Value::Plain, "how packages are chosen"),
];

impl Row {
    /// Whether the row is about `key`.
    pub(super) fn names(&self, key: &str) -> bool {
        match self.key.split_once('*') {
            Some((start, end)) => {
                key.len() > start.len() + end.len() && key.starts_with(start) && key.ends_with(end)
            }
            None => key == self.key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_carries_a_credential_a_proxy_or_a_program() {
        for row in VARIABLES.iter().chain(NPM).chain(PIP) {
            assert!(!row.reason.is_empty(), "{}", row.key);
            let key = row.key.to_ascii_lowercase();
            for part in [
                "token",
                "auth",
                "password",
                "secret",
                "user",
                "client-cert",
                "script-shell",
                "git",
                "editor",
            ] {
                assert!(!key.contains(part) || key == "git_ssl_cainfo", "{key}");
            }
            assert!(!key.ends_with("_proxy") && key != "proxy" && key != "https-proxy", "{key}");
        }
    }

    #[test]
    fn a_star_stands_for_something() {
        let scope = row("@*:registry", Value::Sources, "");
        for (key, want) in
            [("@a:registry", true), ("@:registry", false), ("@a:_authtoken", false), ("registry", false)]
        {
            assert_eq!(scope.names(key), want, "{key}");
        }
    }
}

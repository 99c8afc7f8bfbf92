//! The trust bundle for the jail: the host's roots, and what the launcher's `SSL_CERT_FILE` adds.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::policy::Trust;

use super::Host;

/// Where distributions keep the bundle of roots (Debian, Fedora, openSUSE, Alpine, NixOS).
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];
/// No bundle of roots is longer than this (bytes).
const LIMIT: u64 = 8 << 20;

/// The bundle, the host's own places of it that a longer one covers, and what the user should know.
pub fn read(host: &Host) -> (Trust, Vec<PathBuf>, Option<String>) {
    let mut warning = None;
    let places: Vec<PathBuf> =
        BUNDLES.iter().map(PathBuf::from).filter(|path| host.at(path).is_file()).collect();
    let system = places.first().and_then(|path| host.at(path).canonicalize().ok());
    let named =
        host.environment.var("SSL_CERT_FILE").map(Path::new).filter(|path| !path.as_os_str().is_empty());
    let extra = match named {
        Some(path) if path.canonicalize().ok().is_some_and(|resolved| Some(&resolved) == system.as_ref()) => {
            None
        }
        Some(path) => match pem(path) {
            Some(text) => Some(text),
            None => {
                warning = Some(format!(
                    "SSL_CERT_FILE={} cannot be used: it is not a readable PEM file",
                    crate::sanitize::escape(path.as_os_str())
                ));
                None
            }
        },
        None => None,
    };
    match (system, extra) {
        (Some(system), None) => (Trust::Host(system), Vec::new(), warning),
        (None, None) => (Trust::None, Vec::new(), warning),
        (system, Some(extra)) => {
            let mut bundle = system.and_then(|path| pem(&path)).unwrap_or_default();
            bundle.push(b'\n');
            bundle.extend(extra);
            (Trust::Joined(bundle), places, warning)
        }
    }
}

fn pem(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let regular = file.metadata().ok()?.is_file();
    let mut bytes = Vec::new();
    if !regular || file.take(LIMIT + 1).read_to_end(&mut bytes).ok()? as u64 > LIMIT {
        return None;
    }
    let marker = b"-----BEGIN CERTIFICATE-----";
    bytes.windows(marker.len()).any(|window| window == marker).then_some(bytes)
}

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
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
const END: &[u8] = b"-----END CERTIFICATE-----";
/// No bundle of roots is longer than this (bytes).
const LIMIT: u64 = 8 << 20;

/// The bundle, the host's own places of it that a longer one covers, and what the user should know.
pub fn read(host: &Host) -> (Trust, Vec<PathBuf>, Option<String>) {
    let mut warning = None;
    let places: Vec<PathBuf> =
        BUNDLES.iter().map(PathBuf::from).filter(|path| host.at(path).is_file()).collect();
    let system = places.first().and_then(|path| host.real(&host.at(path)));
    let named =
        host.environment.var("SSL_CERT_FILE").map(Path::new).filter(|path| !path.as_os_str().is_empty());
    let extra = match named {
        Some(path) if host.real(path).is_some_and(|resolved| Some(&resolved) == system.as_ref()) => None,
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
    Some(certificates(&bytes)).filter(|found| !found.is_empty())
}

/// The certificates of a PEM text and nothing else: a key beside them stays out.
fn certificates(pem: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    let mut block: Option<Vec<u8>> = None;
    for line in pem.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match &mut block {
            _ if line == BEGIN => block = Some([line, b"\n"].concat()),
            Some(text) if line == END => {
                found.append(text);
                found.extend([line, b"\n"].concat());
                block = None;
            }
            Some(text)
                if line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/= \t".contains(byte)) =>
            {
                text.extend([line, b"\n"].concat());
            }
            // Something else begins: what there was of a certificate is none.
            _ => block = None,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_certificates_are_taken_of_a_file() {
        let cert = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n";
        for (text, want) in [
            (format!("{key}{cert}"), cert.to_owned()),
            (format!("{cert}{key}{cert}"), format!("{cert}{cert}")),
            (format!("name: SECRET!\n{}", cert.replace('\n', "\r\n")), cert.to_owned()),
            (format!("-----BEGIN CERTIFICATE-----\n{key}-----END CERTIFICATE-----\n{cert}"), cert.to_owned()),
            (format!("-----BEGIN CERTIFICATE-----\nQUJD\n{key}"), String::new()),
            (key.to_owned(), String::new()),
        ] {
            assert_eq!(String::from_utf8(certificates(text.as_bytes())).unwrap(), want, "{text}");
        }
    }
}

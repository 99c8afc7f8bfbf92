//! The roots for the jail: the host's, and what the launcher's `SSL_CERT_FILE` and the tools' own configuration add.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};

use crate::plan::operation::{Access, BindSource, BwrapOp, DoorOp};
use crate::policy::trust::{AUTHORITY, JAVA_ROOTS, Java, Trust, TrustPlaces, system_directory};

use super::{Host, read_bytes};

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

/// Directories that OpenSSL and others search by a hash of the name.
const DIRECTORIES: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];
/// Where distributions keep the roots for Java (Debian, Fedora, Arch).
const JAVA_STORES: [&str; 4] = [
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/java/cacerts",
    "/etc/pki/ca-trust/extracted/java/cacerts",
    "/etc/ca-certificates/extracted/java-cacerts.jks",
];
/// Below a Java's directory.
const JAVA_OWN: [&str; 2] = ["lib/security/cacerts", "jre/lib/security/cacerts"];
/// So many entries of a directory of roots are shown one by one; no system has more.
const MAX_ENTRIES: usize = 2000;

/// What is known of this machine's roots.
pub struct Found {
    /// The bundle of a jail in whose TLS nobody looks.
    pub trust: Trust,
    /// Where the roots are.
    pub places: TrustPlaces,
    /// What the user should know.
    pub warning: Option<String>,
}

/// Looks for the roots. `tools` are files that the user's tools are configured with; `java` says that there is a Java
/// beside those on PATH.
pub fn read(host: &Host, project: &Path, tools: &[PathBuf], java: bool) -> Found {
    let mut warning = None;
    let bundles: Vec<PathBuf> =
        BUNDLES.iter().map(PathBuf::from).filter(|path| host.at(path).is_file()).collect();
    let system = bundles.first().and_then(|path| host.real(&host.at(path)));
    let named =
        host.environment.var("SSL_CERT_FILE").map(Path::new).filter(|path| !path.as_os_str().is_empty());
    let extra = match named {
        Some(path) if host.real(path).is_some_and(|resolved| Some(&resolved) == system.as_ref()) => None,
        Some(path) => match pem(path) {
            Some(text) => Some((path, text)),
            None => {
                let is_missing = path.symlink_metadata().is_err_and(|error| error.kind() == NotFound);
                let why = if is_missing { "there is no such file" } else { "it is not a readable PEM file" };
                warning = Some(format!(
                    "SSL_CERT_FILE={} cannot be used: {why}",
                    crate::sanitize::escape(path.as_os_str())
                ));
                None
            }
        },
        None => None,
    };
    let mut roots: Vec<PathBuf> = system.iter().cloned().collect();
    roots.extend(extra.iter().map(|(path, _)| path.to_path_buf()));
    let java_stores: Vec<PathBuf> =
        JAVA_STORES.iter().map(PathBuf::from).filter(|path| host.at(path).is_file()).collect();
    let places = TrustPlaces {
        tools: tools.iter().filter(|tool| !roots.contains(tool)).cloned().collect(),
        roots,
        bundles: bundles.clone(),
        directories: DIRECTORIES.iter().map(PathBuf::from).filter(|path| host.at(path).is_dir()).collect(),
        java: if java { Java::Own } else { on_path(host, project, &java_stores) },
        java_stores,
    };
    let trust = match (system, extra) {
        (Some(system), None) => Trust::Host(system),
        (None, None) => Trust::None,
        (system, Some((_, extra))) => {
            let mut bundle = system.and_then(|path| pem(&path)).unwrap_or_default();
            bundle.push(b'\n');
            bundle.extend(extra);
            Trust::Joined(bundle, bundles)
        }
    };
    Found { trust, places, warning }
}

/// Which Java is on PATH: one that has a store of its own counts first.
fn on_path(host: &Host, project: &Path, stores: &[PathBuf]) -> Java {
    let stores: Vec<PathBuf> = stores.iter().filter_map(|store| host.real(&host.at(store))).collect();
    let mut found = Java::None;
    for entry in host.environment.path_entries() {
        let program = entry.join("java");
        if entry.starts_with(project) || !program.is_file() {
            continue;
        }
        let directory = host.real(&program).and_then(|real| Some(real.parent()?.parent()?.to_path_buf()));
        let own = directory.into_iter().flat_map(|directory| JAVA_OWN.map(|store| directory.join(store)));
        match own.filter_map(|store| host.real(&store)).next() {
            Some(store) if stores.contains(&store) => found = Java::System,
            _ => return Java::Own,
        }
    }
    found
}

/// The certificates of these files, PEM, each once. A file that cannot be read has none.
pub fn bundle<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Vec<u8> {
    let texts: Vec<Vec<u8>> = files.into_iter().filter_map(|file| pem(file)).collect();
    let mut bundle = Vec::with_capacity(texts.iter().map(Vec::len).sum());
    let mut known: HashSet<&[u8]> = HashSet::new();
    for text in &texts {
        let (mut begin, mut end) = (0, 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            end += line.len();
            if line.strip_suffix(b"\n") == Some(END) {
                if known.insert(&text[begin..end]) {
                    bundle.extend_from_slice(&text[begin..end]);
                }
                begin = end;
            }
        }
    }
    bundle
}

/// What is made where the directories of roots are.
#[derive(Debug, Default)]
pub struct Entries {
    /// What bubblewrap makes: the directories, and what is another thing in them than in the system's.
    pub operations: Vec<BwrapOp>,
    /// The other entries, at the held door.
    pub door: Vec<DoorOp>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Shows the entries of the directories of roots one by one, beside the session's authority, whose name has this hash.
pub fn entries(host: &Host, places: &TrustPlaces, bundle: &Path, hash: &str) -> Entries {
    let mut made = Entries::default();
    let link = |target: PathBuf, dest: PathBuf| BwrapOp::Symlink { target, dest };
    for (position, directory) in places.directories.iter().enumerate() {
        let Some(names) = names(&host.at(directory)) else {
            // The whole directory, as it is.
            made.operations.push(BwrapOp::Bind {
                source: BindSource::System(host.at(directory)),
                dest: directory.clone(),
                access: Access::ReadOnly,
            });
            made.warnings.push(format!(
                "{} cannot be listed or has more than {MAX_ENTRIES} entries: programs that look for TLS roots there alone \
                 do not trust what ai-jail looks into",
                directory.display()
            ));
            continue;
        };
        made.operations.push(BwrapOp::Dir(directory.clone()));
        for store in places.java_stores.iter().filter(|_| places.java != Java::None) {
            let below = store.strip_prefix(directory).ok().and_then(|below| below.iter().next());
            if below.is_some_and(|name| names.contains(name)) {
                made.operations.extend(store.parent().map(|above| BwrapOp::Dir(above.to_path_buf())));
                made.operations.push(link(JAVA_ROOTS.into(), store.clone()));
            }
        }
        let bundles = places.bundles.iter().filter(|place| place.parent() == Some(directory));
        for place in bundles.filter(|place| place.file_name().is_some_and(|name| names.contains(name))) {
            made.operations.push(link(bundle.into(), place.clone()));
        }
        // Two names may have one hash.
        let free = (0..=names.len()).map(|number| format!("{hash}.{number}"));
        let free = free.into_iter().find(|name| !names.contains(OsStr::new(name)));
        made.operations.extend(free.map(|name| link(AUTHORITY.into(), directory.join(name))));
        made.door.push(DoorOp::Link { shown: system_directory(position), dest: directory.clone() });
    }
    made
}

/// The names in a directory, in order; `None` when there are too many, or it cannot be read.
fn names(directory: &Path) -> Option<BTreeSet<OsString>> {
    let entries = std::fs::read_dir(directory).ok()?.take(MAX_ENTRIES + 1);
    let names: BTreeSet<OsString> =
        entries.map(|entry| Some(entry.ok()?.file_name())).collect::<Option<_>>()?;
    (names.len() <= MAX_ENTRIES).then_some(names)
}

fn pem(path: &Path) -> Option<Vec<u8>> {
    Some(certificates(&read_bytes(path, LIMIT)?)).filter(|found| !found.is_empty())
}

/// What a certificate's text is written with. It is looked up for some 200,000 bytes at a launch.
const BODY: [bool; 256] = {
    let mut body = [false; 256];
    let mut byte = 0;
    while byte < body.len() {
        body[byte] =
            (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'+' | b'/' | b'=' | b' ' | b'\t');
        byte += 1;
    }
    body
};

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
                found.extend_from_slice(line);
                found.push(b'\n');
                block = None;
            }
            Some(text) if line.iter().all(|byte| BODY[usize::from(*byte)]) => {
                text.extend_from_slice(line);
                text.push(b'\n');
            }
            // Something else begins: what there was of a certificate is none.
            _ => block = None,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::host::tests::machine;

    const A: &str = "-----BEGIN CERTIFICATE-----\nQUFB\n-----END CERTIFICATE-----\n";
    const B: &str = "-----BEGIN CERTIFICATE-----\nQkJC\n-----END CERTIFICATE-----\n";

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_bundle_has_each_certificate_of_its_files_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            write(&dir.path().join(name), text);
            dir.path().join(name)
        };
        let files = [
            file("a", &format!("{A}{B}")),
            file("b", &format!("text\n{B}")),
            dir.path().join("gone"),
            file("c", A),
        ];
        assert_eq!(String::from_utf8(bundle(&files)).unwrap(), format!("{A}{B}"));
    }

    #[test]
    fn a_directory_of_roots_is_shown_entry_by_entry_beside_the_authority() {
        let (_dir, mut host) = machine();
        let certs = Path::new("/etc/ssl/certs");
        for name in ["ca-certificates.crt", "java/cacerts", "0a1b2c3d.0", "X.pem"] {
            write(&host.at(certs.join(name)), A);
        }
        let jdk = host.at("/usr/lib/jvm/x");
        write(&jdk.join("bin/java"), "");
        fs::create_dir_all(jdk.join("lib/security")).unwrap();
        symlink(host.at("/etc/ssl/certs/java/cacerts"), jdk.join("lib/security/cacerts")).unwrap();
        host.environment.vars.insert("PATH".into(), jdk.join("bin").into());
        let found = read(&host, Path::new("/p"), &[], false);
        assert_eq!(found.places.java, Java::System);
        assert_eq!(found.places.bundles, [certs.join("ca-certificates.crt")]);
        let made = entries(&host, &found.places, Path::new("/b.pem"), "0a1b2c3d");
        let mut directories = Vec::new();
        let mut links: Vec<(String, String)> = made
            .operations
            .iter()
            .filter_map(|operation| match operation {
                BwrapOp::Symlink { target, dest } => Some((
                    dest.strip_prefix(certs).unwrap().display().to_string(),
                    target.display().to_string(),
                )),
                BwrapOp::Dir(dest) => {
                    directories.push(dest.clone());
                    None
                }
                other => panic!("{other:?}"),
            })
            .collect();
        links.sort();
        let want =
            [("0a1b2c3d.1", AUTHORITY), ("ca-certificates.crt", "/b.pem"), ("java/cacerts", JAVA_ROOTS)];
        assert_eq!(links, want.map(|(dest, target)| (dest.to_owned(), target.to_owned())));
        assert_eq!(directories, [certs.to_path_buf(), certs.join("java")]);
        let others = DoorOp::Link { shown: "/run/ai-jail/certificates/0".into(), dest: certs.into() };
        assert_eq!(made.door, [others]);
        assert_eq!(made.warnings, Vec::<String>::new());
        let other = host.at("/opt/jdk");
        write(&other.join("bin/java"), "");
        write(&other.join("lib/security/cacerts"), "");
        let path = std::env::join_paths([jdk.join("bin"), other.join("bin")]).unwrap();
        host.environment.vars.insert("PATH".into(), path);
        assert_eq!(read(&host, Path::new("/p"), &[], false).places.java, Java::Own);
        assert_eq!(
            read(&host, &host.at("/opt"), &[], false).places.java,
            Java::System,
            "none of the project's"
        );
        host.environment.vars.remove(OsStr::new("PATH"));
        assert_eq!(read(&host, Path::new("/p"), &[], false).places.java, Java::None);
        assert_eq!(read(&host, Path::new("/p"), &[], true).places.java, Java::Own);
    }

    #[test]
    fn what_never_ends_is_no_bundle() {
        use rustix::fs::{CWD, Mode, mkfifoat};
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR).unwrap();
        assert_eq!(pem(&fifo), None);
        assert_eq!(pem(Path::new("/dev/zero")), None);
    }

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

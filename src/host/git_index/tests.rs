use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

/// An index that the real git writes in the way that `settings` say, with what `then` does to it.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new(files: &[&str], settings: &[&str], format: &str) -> Self {
        let repository = Self(tempfile::tempdir().unwrap());
        repository.git(&["init", "-q", &format!("--object-format={format}")]);
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            repository.git(&["config", key, value]);
        }
        for file in files {
            let path = repository.0.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
            repository.git(&["add", "-f", file]);
        }
        repository
    }

    fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.0.path())
            .env("HOME", self.0.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git is there");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn file(&self, name: impl AsRef<Path>) -> Vec<u8> {
        std::fs::read(self.0.path().join(".git").join(name)).unwrap()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const FILES: [&str; 6] = [".env", "a/b/.env", "a/b/c.txt", "a/x", "long/name/of/a/file", "z"];

#[test]
fn every_version_lists_what_git_lists() {
    for format in ["sha1", "sha256"] {
        for version in ["2", "3", "4"] {
            let repository = Repository::new(&FILES, &[&format!("index.version={version}")], format);
            if version == "3" {
                // Only an entry with more flags needs this version.
                std::fs::write(repository.0.path().join("later"), "x").unwrap();
                repository.git(&["add", "-N", "later"]);
            }
            let bytes = repository.file("index");
            assert_eq!(bytes[7], version.as_bytes()[0] - b'0', "{format} {version}");
            let names: Vec<&[u8]> = FILES.iter().copied().chain(["absent", "a"]).map(str::as_bytes).collect();
            let wanted = Wanted::new(names.iter().copied());
            let kind = if format == "sha1" { ObjectFormat::Sha1 } else { ObjectFormat::Sha256 };
            let listed = listed(&bytes, kind, &wanted).unwrap();
            assert_eq!(listed.objects.len(), FILES.len(), "{format} {version}");
            for (at, file) in FILES.iter().enumerate() {
                let object = repository.git(&["hash-object", file]);
                assert_eq!(hex(&listed.objects[&at]), object.trim(), "{format} {version} {file}");
            }
        }
    }
}

#[test]
fn a_name_longer_than_the_flags_can_say_is_read() {
    let mut bytes = b"DIRC\0\0\0\x02\0\0\0\x02".to_vec();
    for name in ["n".repeat(5000), "o".to_owned()] {
        let start = bytes.len();
        bytes.extend([0; 40]);
        bytes.extend([7; 20]);
        bytes.extend(u16::try_from(name.len().min(0xfff)).unwrap().to_be_bytes());
        bytes.extend(name.bytes());
        bytes.resize(start + (bytes.len() - start + 8) / 8 * 8, 0);
    }
    bytes.extend([0; 20]);
    let long = "n".repeat(5000);
    let wanted = Wanted::new([long.as_bytes(), b"o"]);
    assert_eq!(listed(&bytes, ObjectFormat::Sha1, &wanted).unwrap().objects.len(), 2);
}

#[test]
fn what_would_keep_us_long_is_refused() {
    // One long name, which every later entry shares.
    let index = |entries: u32| {
        let mut bytes = b"DIRC\0\0\0\x04".to_vec();
        bytes.extend(entries.to_be_bytes());
        for entry in 0..entries {
            bytes.extend([0; 60]);
            bytes.extend([0xf, 0xff, 0]);
            bytes.extend(if entry == 0 { vec![b'n'; 1 << 20] } else { vec![b'n'] });
            bytes.push(0);
        }
        bytes.extend([0; 20]);
        bytes
    };
    let wanted = Wanted::new([&b".env"[..]]);
    assert!(listed(&index(200), ObjectFormat::Sha1, &wanted).is_ok());
    let error = listed(&index(300), ObjectFormat::Sha1, &wanted).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    // A bitmap that says more words than an index has positions.
    let words = MAX_POSITIONS / 64 + 2;
    let mut bitmap = vec![0; 4];
    bitmap.extend(u32::try_from(words).unwrap().to_be_bytes());
    bitmap.extend((u64::try_from(words).unwrap() << 33).to_be_bytes());
    // It ends before the last of them, which is not looked for.
    bitmap.resize(8 + 8 * words + 4, 0);
    let error = Bitmap::read(&bitmap).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn a_split_index_lists_what_its_halves_list_together() {
    let repository =
        Repository::new(&FILES, &["core.splitIndex=true", "splitIndex.maxPercentChange=100"], "sha1");
    repository.git(&["update-index", "--split-index"]);
    repository.git(&["rm", "-q", "--cached", "a/b/.env"]);
    std::fs::write(repository.0.path().join("a/x"), "changed").unwrap();
    repository.git(&["add", "a/x"]);
    std::fs::write(repository.0.path().join("new"), "new").unwrap();
    repository.git(&["add", "new"]);
    let names: Vec<&[u8]> = FILES.iter().copied().chain(["new"]).map(str::as_bytes).collect();
    let wanted = Wanted::new(names.iter().copied());
    let mut listed = listed(&repository.file("index"), ObjectFormat::Sha1, &wanted).unwrap();
    let split = listed.split.clone().expect("git splits it");
    listed.join(&repository.file(split.file_name()), ObjectFormat::Sha1, &wanted).unwrap();
    for (at, name) in names.iter().enumerate() {
        let name = std::str::from_utf8(name).unwrap();
        let staged = repository.git(&["ls-files", "-s", "--", name]);
        let expected = staged.split_whitespace().nth(1).map(str::to_owned);
        assert_eq!(listed.objects.get(&at).map(|object| hex(object)), expected, "{name}");
    }
    assert_eq!(listed.objects.len(), FILES.len(), "one was removed, one came");
}

#[test]
fn what_is_no_index_is_an_error_and_no_answer() {
    let wanted = Wanted::new([&b".env"[..]]);
    let good = Repository::new(&FILES, &[], "sha1").file("index");
    for bad in [
        &b""[..],
        b"DIRC",
        b"DIRC\0\0\0\x02\0\0\0\x01",
        b"DIRC\0\0\0\x05\0\0\0\0aaaaaaaaaaaaaaaaaaaa",
        b"XXXX\0\0\0\x02\0\0\0\0aaaaaaaaaaaaaaaaaaaa",
        b"DIRC\0\0\0\x02\xff\xff\xff\xffaaaaaaaaaaaaaaaaaaaa",
        &good[..good.len() / 2],
    ] {
        assert!(listed(bad, ObjectFormat::Sha1, &wanted).is_err(), "{bad:?}");
    }
    assert!(listed(&good, ObjectFormat::Sha1, &wanted).is_ok());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        version in 0_u8..6,
        count in any::<u32>(),
        body in proptest::collection::vec(any::<u8>(), 0..400),
        sha256 in any::<bool>(),
    ) {
        let mut bytes = b"DIRC\0\0\0".to_vec();
        bytes.push(version);
        bytes.extend(count.to_be_bytes());
        bytes.extend(body);
        let format = if sha256 { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 };
        let wanted = Wanted::new([&b".env"[..], b""]);
        if let Ok(mut first) = listed(&bytes, format, &wanted) {
            let _ = first.join(&bytes, format, &wanted);
        }
    }

    #[test]
    fn an_index_with_wrong_bytes_does_not_make_it_panic(at in 0_usize..2000, value in any::<u8>(), cut in 0_usize..2000) {
        use std::sync::LazyLock;
        static GOOD: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
            let split = Repository::new(&FILES, &["core.splitIndex=true"], "sha1");
            split.git(&["update-index", "--split-index"]);
            split.git(&["rm", "-q", "--cached", "z"]);
            [
                Repository::new(&FILES, &["index.version=2"], "sha1").file("index"),
                Repository::new(&FILES, &["index.version=4"], "sha1").file("index"),
                split.file("index"),
            ]
        });
        let wanted = Wanted::new([&b".env"[..], b"z"]);
        for good in GOOD.iter() {
            let mut bytes = good.clone();
            let length = bytes.len();
            bytes[at % length] = value;
            bytes.truncate(length - cut % length);
            if let Ok(mut first) = listed(&bytes, ObjectFormat::Sha1, &wanted) {
                let _ = first.join(good, ObjectFormat::Sha1, &wanted);
            }
        }
    }
}

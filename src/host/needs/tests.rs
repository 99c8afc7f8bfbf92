use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::host::tests::machine;

struct Setting {
    _dir: tempfile::TempDir,
    host: Host,
    project: PathBuf,
}

impl Setting {
    fn new() -> Self {
        let (dir, mut host) = machine();
        let project = host.user.home.join("p");
        fs::create_dir_all(&project).unwrap();
        let entries = [".nvm/versions/node/v20/bin", ".local/bin"].map(|dir| host.user.home.join(dir));
        let path = std::env::join_paths(entries.into_iter().chain([host.at("/usr/bin")])).unwrap();
        host.environment.vars.insert("PATH".into(), path);
        Self { _dir: dir, host, project }
    }

    fn home(&self, path: &str) -> PathBuf {
        self.host.user.home.join(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.home(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        fs::create_dir_all(self.home(path).parent().unwrap()).unwrap();
        symlink(target, self.home(path)).unwrap();
    }

    /// The needs relative to the home.
    fn needs(&self, program: &str) -> Vec<String> {
        self.needs_by(program, Reach::File)
    }

    fn needs_by(&self, program: &str, reach: Reach) -> Vec<String> {
        let needs = Needs::of(&self.host, &self.project, &[], &self.home(program), reach).unwrap();
        let name =
            |need: SystemMount| need.dest.strip_prefix(self.home("")).unwrap().to_str().unwrap().to_owned();
        needs.into_iter().map(name).collect()
    }
}

#[test]
fn a_native_install_needs_its_versions_directory_and_the_link() {
    let s = Setting::new();
    s.file(".local/share/claude/versions/2.1.0", "\x7fELF");
    s.link(".local/bin/claude", "../share/claude/versions/2.1.0");
    assert_eq!(s.needs(".local/bin/claude"), [".local/bin/claude", ".local/share/claude/versions"]);
}

#[test]
fn a_node_package_needs_its_tree_and_node() {
    let s = Setting::new();
    let root = ".nvm/versions/node/v20";
    s.file(&format!("{root}/bin/node"), "\x7fELF");
    s.file(
        &format!("{root}/lib/node_modules/@openai/codex/node_modules/x/cli.js"),
        "#!/usr/bin/env -S node --flag\n",
    );
    s.link(&format!("{root}/bin/codex"), "../lib/node_modules/@openai/codex/node_modules/x/cli.js");
    let runtime = [format!("{root}/bin"), format!("{root}/lib")];
    assert_eq!(s.needs(&format!("{root}/bin/codex")), runtime);
    s.file(".npm-global/lib/node_modules/g/cli.js", "#!/usr/bin/env node\n");
    s.link(".npm-global/bin/g", "../lib/node_modules/g/cli.js");
    let mut want = vec![".npm-global/bin/g".to_owned(), ".npm-global/lib/node_modules".to_owned()];
    want.extend(runtime);
    assert_eq!(s.needs(".npm-global/bin/g"), want);
}

#[test]
fn a_virtual_environment_needs_itself_and_its_python() {
    let s = Setting::new();
    s.file(".local/share/uv/python/cpython-3.12/bin/python3.12", "\x7fELF");
    s.file(".local/share/uv/python/cpython-3.12/lib/os.py", "");
    s.file(".local/share/uv/tools/aider/pyvenv.cfg", "");
    let python = s.home(".local/share/uv/tools/aider/bin/python");
    s.file(".local/share/uv/tools/aider/bin/aider", &format!("#!{}\n", python.display()));
    s.link(".local/share/uv/tools/aider/bin/python", "../../../python/cpython-3.12/bin/python3.12");
    s.link(".local/bin/aider", "../share/uv/tools/aider/bin/aider");
    assert_eq!(
        s.needs(".local/bin/aider"),
        [
            ".local/bin/aider",
            ".local/share/uv/python/cpython-3.12/bin",
            ".local/share/uv/python/cpython-3.12/lib",
            ".local/share/uv/tools/aider"
        ]
    );
}

#[test]
fn places_that_hold_too_much_are_never_mounted_whole() {
    let s = Setting::new();
    for dir in ["lib", ".local/lib", ".cargo/lib", "tools/shared"] {
        fs::create_dir_all(s.home(dir)).unwrap();
    }
    fs::set_permissions(s.home("tools/shared"), PermissionsExt::from_mode(0o777)).unwrap();
    s.file(".cargo/credentials.toml", "");
    for (program, want) in [
        ("run.sh", "run.sh"),
        ("bin/x", "bin"),
        (".local/bin/x", ".local/bin"),
        (".local/x", ".local/x"),
        (".config/x", ".config/x"),
        (".cargo/bin/x", ".cargo/bin"),
        (".cargo/x", ".cargo/x"),
        ("tools/shared/x", "tools/shared/x"),
    ] {
        s.file(program, "\x7fELF");
        assert_eq!(s.needs(program), [want], "{program}");
    }
}

#[test]
fn no_place_of_credentials_and_nothing_above_one_may_be_shown() {
    let s = Setting::new();
    let bounds = Needs::new(&s.host, &s.project);
    for place in credentials::TABLE.place.iter().flat_map(|row| &row.paths) {
        fs::create_dir_all(s.home(place)).unwrap();
        for path in
            [s.home(place), s.home(place).join("below"), s.home(place).parent().unwrap().to_path_buf()]
        {
            assert!(bounds.credential(&path), "{}", path.display());
            assert!(!bounds.may_show(&path), "{}", path.display());
        }
        assert!(!bounds.may_show_program(&s.home(place)), "{place}");
    }
}

#[test]
fn a_file_of_the_project_chooses_nothing_but_programs_of_path() {
    let s = Setting::new();
    let secret = s.home("secretproj/run.sh");
    s.file("secretproj/run.sh", "\x7fELF");
    s.file("p/b.sh", &format!("#!{}\n", secret.display()));
    s.file("p/e.sh", &format!("#!/usr/bin/env {}\n", secret.display()));
    s.link("p/c", secret.to_str().unwrap());
    s.link("p/d", s.home("secretproj").to_str().unwrap());
    for program in ["p/b.sh", "p/e.sh", "p/c", "p/d/run.sh"] {
        assert_eq!(s.needs_by(program, Reach::Directory), Vec::<String>::new(), "{program}");
    }
    // The same outside is the user's word.
    s.link("q/c", secret.to_str().unwrap());
    assert_eq!(s.needs("q/c"), ["q/c", "secretproj/run.sh"], "control");
    assert_eq!(s.needs_by("q/c", Reach::Directory), ["q/c", "secretproj"], "control");
    // Another tree that a jail writes counts as the project does.
    let more = s.home("q");
    let needs = Needs::of(&s.host, &s.project, &[&more], &s.home("q/c"), Reach::Directory).unwrap();
    assert_eq!(needs, []);
}

#[test]
fn an_interpreter_is_an_executable_file_or_nothing() {
    let s = Setting::new();
    let _socket = {
        fs::create_dir_all(s.home("data")).unwrap();
        std::os::unix::net::UnixListener::bind(s.home("data/socket")).unwrap()
    };
    fs::write(s.home("data/plain"), "").unwrap();
    s.file("data/tool", "\x7fELF");
    for (interpreter, want) in [
        ("data/socket", vec!["t/x"]),
        ("data/plain", vec!["t/x"]),
        ("data", vec!["t/x"]),
        ("data/tool", vec!["data/tool", "t/x"]),
    ] {
        s.file("t/x", &format!("#!{}\n", s.home(interpreter).display()));
        assert_eq!(s.needs("t/x"), want, "{interpreter}");
    }
}

#[test]
fn programs_beside_an_agents_logins_are_shown_without_them() {
    let s = Setting::new();
    s.file(".claude/local/node_modules/c/cli.js", "#!/usr/bin/env -S x\n");
    s.file(".grok/bin/grok", "\x7fELF");
    s.file(".codex/tool", "\x7fELF");
    assert_eq!(s.needs(".claude/local/node_modules/c/cli.js"), [".claude/local/node_modules"]);
    assert_eq!(s.needs_by(".grok/bin/grok", Reach::Directory), [".grok/bin"]);
    assert_eq!(s.needs_by(".codex/tool", Reach::Directory), [".codex/tool"]);
}

#[test]
fn a_version_that_is_a_directory_is_shown_alone() {
    let s = Setting::new();
    s.file(".local/share/x/versions/1.0/x", "\x7fELF");
    s.file(".local/share/x/versions/1.0/index.js", "");
    assert_eq!(s.needs(".local/share/x/versions/1.0/x"), [".local/share/x/versions/1.0"]);
}

#[test]
fn a_program_among_credentials_is_refused() {
    let s = Setting::new();
    s.file(".ssh/tool", "\x7fELF");
    let error = Needs::of(&s.host, &s.project, &[], &s.home(".ssh/tool"), Reach::Directory).unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
}

#[test]
fn a_program_of_the_project_needs_its_interpreter_alone() {
    let s = Setting::new();
    s.file(".local/bin/tool", "\x7fELF");
    s.file("p/run", "#!/usr/bin/env tool\n");
    assert_eq!(s.needs("p/run"), [".local/bin"]);
    // Beside the project nothing is mounted that holds it.
    s.file("beside", "\x7fELF");
    assert_eq!(s.needs("beside"), ["beside"]);
}

#[test]
fn scripts_that_name_each_other_end() {
    let s = Setting::new();
    let (a, b) = (s.home("t/a"), s.home("t/b"));
    s.file("t/a", &format!("#!{}\n", b.display()));
    s.file("t/b", &format!("#!{}\n", a.display()));
    assert_eq!(s.needs("t/a"), ["t/a", "t/b"]);
}

use std::os::unix::fs::symlink;

use super::*;
use crate::host::tests::machine;

fn setting(dirs: &[&str]) -> (tempfile::TempDir, Host, PathBuf) {
    let (dir, host) = machine();
    for name in dirs {
        fs::create_dir_all(host.user.home.join(name)).unwrap();
    }
    let project = host.user.home.join("p");
    fs::create_dir_all(&project).unwrap();
    (dir, host, project)
}

fn shown_below_home(host: &Host, project: &Path) -> Vec<String> {
    let found = detect(host, project);
    let mut shown: Vec<String> = found
        .iter()
        .flat_map(|toolchain| &toolchain.mounts)
        .map(|mount| {
            mount.dest.strip_prefix(&host.user.home).unwrap_or(&mount.dest).to_str().unwrap().to_owned()
        })
        .collect();
    shown.sort();
    shown
}

#[test]
fn every_row_is_whole() {
    let rows = rows();
    for row in rows {
        assert!(!row.reason.is_empty() && !row.roots.is_empty() && !row.mount.is_empty(), "{}", row.name);
        for root in &row.roots {
            assert!(root.starts_with("~/") || root.starts_with('$'), "{root}");
            assert!(!root.ends_with('/') && root.len() > 2, "{root}");
            assert!(!root.starts_with('$') || !row.proof.is_empty(), "{root} must prove what it is");
        }
        for part in row.mount.iter().chain(&row.caches).chain(&row.proof) {
            assert!(!part.starts_with('/') && !part.contains("..") && !part.contains("credential"), "{part}");
        }
    }
    let mut names: Vec<_> = rows.iter().map(|row| &row.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), rows.len());
}

#[test]
fn every_variable_for_installs_leads_into_the_private_home() {
    for row in installs() {
        assert!(row.reason.len() > 4 && row.value.starts_with(".local/jail"), "{row:?}");
        assert!(!row.at.starts_with('/') && !row.value.contains(".."), "{row:?}");
    }
}

#[test]
fn only_the_named_parts_are_shown() {
    for (dirs, want) in [
        (vec![".cargo/bin", ".cargo/registry", ".rustup"], vec![".cargo/bin", ".rustup"]),
        (vec![".local/share/uv/python", ".local/share/uv/credentials"], vec![".local/share/uv/python"]),
        (vec![".local/bin", ".local/lib", ".local/share/secret"], vec![".local/bin", ".local/lib"]),
        (vec![".bun/bin", ".bun/install/cache"], vec![".bun/bin"]),
        (vec!["go/bin", "go/src"], vec!["go/bin"]),
        (vec![".nvm"], vec![".nvm"]),
        (vec![".config/composer/vendor"], vec![".config/composer/vendor"]),
        (vec![], vec![]),
    ] {
        let (_dir, host, project) = setting(&dirs);
        assert_eq!(shown_below_home(&host, &project), want, "{dirs:?}");
    }
}

#[test]
fn variables_point_elsewhere_and_are_carried() {
    let (_dir, mut host, project) = setting(&["elsewhere/rustup/toolchains", ".rustup"]);
    let place = host.user.home.join("elsewhere/rustup");
    host.environment.vars.insert("RUSTUP_HOME".into(), place.clone().into());
    host.environment.vars.insert("CARGO_HOME".into(), host.user.home.join("none").into());
    let found = detect(&host, &project);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].mounts[0].source, place);
    assert_eq!(found[0].env, [("RUSTUP_HOME".to_owned(), place.into_os_string())]);
}

#[test]
fn a_variable_cannot_open_what_must_stay_closed() {
    let (_dir, mut host, project) = setting(&[".ssh", ".config/gh", "p/venv", "p/sub"]);
    let home = host.user.home.clone();
    for value in [
        &home,
        home.parent().unwrap(),
        &home.join(".ssh"),
        &home.join(".config"),
        Path::new("relative"),
        &home.join("p/venv"),
    ] {
        host.environment.vars.insert("JAVA_HOME".into(), value.into());
        assert_eq!(shown_below_home(&host, &project), Vec::<String>::new(), "{}", value.display());
    }
}

#[test]
fn a_variable_counts_only_when_it_leads_to_what_it_says() {
    for row in rows() {
        for name in row.roots.iter().filter_map(|root| root.strip_prefix('$')) {
            let (_dir, mut host, project) = setting(&["private"]);
            let place = host.user.home.join("private");
            for part in &row.mount {
                fs::create_dir_all(place.join(part)).unwrap();
            }
            for proof in row.mount.iter().filter(|part| row.proof.contains(part)) {
                fs::remove_dir(place.join(proof)).unwrap();
            }
            host.environment.vars.insert(name.into(), place.clone().into());
            let found = detect(&host, &project);
            assert_eq!(found, [], "{name}");
            fs::create_dir_all(place.join(row.proof[0].replace('*', "x"))).unwrap();
            assert_eq!(detect(&host, &project).len(), 1, "control: {name}");
        }
    }
}

#[test]
fn files_with_tokens_are_hidden_in_what_is_shown() {
    for (file, dirs) in [
        (".nvm/versions/node/v20/etc/npmrc", vec![".nvm/versions/node/v20/bin"]),
        (".nvm/.npmrc", vec![]),
        ("miniconda3/.condarc", vec!["miniconda3/bin"]),
        ("miniconda3/envs/x/conda-meta/state", vec![]),
        (".pyenv/versions/3.12/pip.conf", vec![]),
        ("bin/aws.env", vec![]),
        ("bin/.env", vec![]),
        (".local/share/mise/installs/node/20/etc/npmrc", vec![]),
    ] {
        let (_dir, host, project) = setting(&dirs);
        let file = host.user.home.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "token").unwrap();
        let found = detect(&host, &project);
        let hidden: Vec<_> = found.iter().flat_map(|toolchain| &toolchain.hidden).collect();
        assert_eq!(hidden, [&file], "{}", file.display());
        assert!(
            found[0].mounts.iter().any(|mount| file.starts_with(&mount.dest)),
            "control: it would be shown"
        );
    }
    let (_dir, mut host, project) = setting(&["scripts"]);
    let scripts = host.user.home.join("scripts");
    fs::write(scripts.join(".env"), "").unwrap();
    host.environment.vars.insert("PATH".into(), scripts.clone().into());
    assert_eq!(detect(&host, &project)[0].hidden, [scripts.join(".env")]);
}

#[test]
fn a_root_that_is_a_link_is_shown_at_the_links_place() {
    let (_dir, host, project) = setting(&["data/nvm"]);
    symlink("data/nvm", host.user.home.join(".nvm")).unwrap();
    let found = detect(&host, &project);
    let mount = &found[0].mounts[0];
    assert_eq!(
        (&mount.source, &mount.dest),
        (&host.user.home.join("data/nvm"), &host.user.home.join(".nvm"))
    );
}

#[test]
fn a_root_that_leads_into_the_system_is_shown_as_a_link() {
    let (_dir, host, project) = setting(&[]);
    fs::create_dir_all(host.at("/opt/nvm")).unwrap();
    symlink(host.at("/opt/nvm"), host.user.home.join(".nvm")).unwrap();
    let found = detect(&host, &project);
    assert_eq!(found[0].mounts[0].kind, MountKind::Symlink(host.at("/opt/nvm")));
}

#[test]
fn a_link_to_a_place_of_credentials_is_not_shown() {
    let (_dir, host, project) = setting(&[".ssh"]);
    symlink(".ssh", host.user.home.join(".nvm")).unwrap();
    symlink("/", host.user.home.join("bin")).unwrap();
    assert_eq!(shown_below_home(&host, &project), Vec::<String>::new());
}

#[test]
fn what_path_leads_to_is_shown() {
    let dirs = ["tools/x/bin", "tools/x/lib", "y", ".cargo/bin", "p/bin", "real/bin"];
    let (_dir, mut host, project) = setting(&dirs);
    let home = host.user.home.clone();
    symlink(home.join("real"), home.join("current")).unwrap();
    fs::create_dir_all(host.at("/usr/bin")).unwrap();
    fs::create_dir_all(host.at("/mnt/c/bin")).unwrap();
    let entries =
        ["tools/x/bin", "y", ".cargo/bin", "p/bin", "current/bin", "gone"].map(|dir| home.join(dir));
    let entries = entries.into_iter().chain([home.clone(), host.at("/usr/bin"), host.at("/mnt/c/bin")]);
    host.environment.vars.insert("PATH".into(), std::env::join_paths(entries).unwrap());
    assert_eq!(
        shown_below_home(&host, &project),
        [".cargo/bin", "current", "real/bin", "tools/x/bin", "tools/x/lib", "y"]
    );
}

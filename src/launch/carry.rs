//! What an agent asked for once in one project is there in its other ones: a few values of its settings.
//!
//! Nothing is done when the agent ran in the same project last. The files lie where agents write: they are opened through
//! no symlink, as regular files, and what cannot be read brings nothing along.

use std::path::{Component, Path};

use crate::error::Result;
use crate::policy::carry::{Carry, merge};

use super::store::Store;

/// No file of settings is longer (bytes).
const MAX_SETTINGS: u64 = 16 << 20;
/// No path is longer (bytes).
const MAX_POINTER: u64 = 4096;

/// Brings along what `carry` names, and remembers this project as the last one.
///
/// # Errors
/// When something cannot be written.
pub fn bring(store: &Store, carry: &Carry) -> Result<()> {
    let pointer = store.read(&carry.pointer, MAX_POINTER).ok().flatten();
    let last = pointer.and_then(|text| String::from_utf8(text).ok());
    let last = last.as_deref().map(Path::new).filter(|last| is_home(last));
    if last == Some(carry.place.as_path()) {
        return Ok(());
    }
    for (file, keys) in &carry.files {
        let Some(Ok(Some(theirs))) = last.map(|last| store.read(&last.join(file), MAX_SETTINGS)) else {
            continue;
        };
        let place = carry.place.join(file);
        // What is no file, or too long, is the agent's own business.
        let Ok(own) = store.read(&place, MAX_SETTINGS) else { continue };
        if let Some(text) = merge(own.as_deref(), &theirs, keys) {
            store.write(&place, &text)?;
        }
    }
    store.write(&carry.pointer, carry.place.as_os_str().as_encoded_bytes())
}

/// A directory below the private homes.
fn is_home(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::Normal("homes".as_ref()))
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::launch::store::prepare;
    use crate::plan::StoreOp;

    const LAST: &str = r#"{"done": true, "mcpServers": {"x": {"command": "evil"}}}"#;

    fn carry(project: &str) -> Carry {
        Carry {
            place: format!("homes/{project}/x").into(),
            pointer: "state/x.last".into(),
            files: vec![("home/.x.json".into(), vec!["done".into()])],
        }
    }

    #[test]
    fn the_listed_values_go_from_the_last_project_to_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("ai-jail");
        let homes =
            ["a", "b", "c"].map(|project| StoreOp::Directory(format!("homes/{project}/x/home").into()));
        let store = prepare(&root, &homes).unwrap().unwrap();
        bring(&store, &carry("a")).unwrap();
        let settings = |project: &str| root.join(format!("homes/{project}/x/home/.x.json"));
        fs::write(settings("a"), LAST).unwrap();
        bring(&store, &carry("b")).unwrap();
        assert_eq!(fs::read_to_string(settings("b")).unwrap(), "{\n  \"done\": true\n}");
        fs::write(settings("c"), "{\"mine\": 1}").unwrap();
        bring(&store, &carry("c")).unwrap();
        assert_eq!(fs::read_to_string(settings("c")).unwrap(), "{\n  \"done\": true,\n  \"mine\": 1\n}");
        assert_eq!(fs::read_to_string(settings("a")).unwrap(), LAST);
    }

    #[test]
    fn neither_a_symlink_nor_a_pointer_elsewhere_brings_anything() {
        for (claim, pointer, link) in [
            ("a symlink", "homes/a/x", true),
            ("a pointer out", "homes/../../secret", false),
            ("an absolute pointer", "/etc", false),
            ("another place", "state/x", false),
            ("a home that is gone", "homes/gone/x", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("ai-jail");
            let homes =
                ["a", "b"].map(|project| StoreOp::Directory(format!("homes/{project}/x/home").into()));
            let store = prepare(&root, &homes).unwrap().unwrap();
            for place in ["secret/home", "ai-jail/state/x/home"] {
                fs::create_dir_all(dir.path().join(place)).unwrap();
                fs::write(dir.path().join(place).join(".x.json"), LAST).unwrap();
            }
            fs::write(root.join("state/x.last"), pointer).unwrap();
            if link {
                symlink(dir.path().join("secret/home/.x.json"), root.join("homes/a/x/home/.x.json")).unwrap();
            }
            bring(&store, &carry("b")).unwrap();
            assert!(!root.join("homes/b/x/home/.x.json").exists(), "{claim}");
            assert_eq!(fs::read_to_string(root.join("state/x.last")).unwrap(), "homes/b/x", "{claim}");
        }
    }

    #[test]
    fn what_the_agent_put_in_the_place_of_its_settings_stays() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("ai-jail");
        let homes = ["a", "b"].map(|project| StoreOp::Directory(format!("homes/{project}/x/home").into()));
        let store = prepare(&root, &homes).unwrap().unwrap();
        bring(&store, &carry("a")).unwrap();
        fs::write(root.join("homes/a/x/home/.x.json"), LAST).unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "{}").unwrap();
        symlink(&victim, root.join("homes/b/x/home/.x.json")).unwrap();
        bring(&store, &carry("b")).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "{}");
    }
}

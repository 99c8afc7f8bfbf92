//! Which files git tracks, read from its indexes: nothing here runs git.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::host::git::{GitLayout, read_path};
use crate::host::git_index::{Listed, ObjectFormat, Wanted, listed};
use crate::host::{git_index, ini, read_bytes, read_text};

/// No longer index is read (bytes): one of more than two million files.
const MAX_INDEX: u64 = 256 << 20;
/// No longer file is compared with what git has of it (bytes).
const MAX_COMPARED: u64 = 16 << 20;

/// What git knows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracked {
    /// Nothing.
    No,
    /// It is in the index, with these contents.
    Same,
    /// It is in the index, with other contents.
    Other,
}

/// Says of each of `paths`, below the project's root, what git knows of it, in the same order. `git` is the project's own
/// git directory. What cannot be read adds a sentence to `warnings`, and nothing in that repository counts as tracked.
pub fn tracked(
    root: &Path,
    git: Option<&GitLayout>,
    paths: &[PathBuf],
    warnings: &mut Vec<String>,
) -> Vec<Tracked> {
    let mut by_tree: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for (at, path) in paths.iter().enumerate() {
        if let Some(tree) = work_tree(root, path) {
            by_tree.entry(tree).or_default().push(at);
        }
    }
    let mut answers = vec![Tracked::No; paths.len()];
    for (tree, members) in by_tree {
        let own = git.filter(|_| tree.as_os_str().is_empty());
        let directories = match own {
            Some(git) => Some((git.git_dir.clone(), git.common_dir.clone())),
            None => directories(root, git, &tree),
        };
        let Some((git_dir, common_dir)) = directories else { continue };
        let below = |at: &usize| paths[*at].strip_prefix(&tree).unwrap_or(&paths[*at]).as_os_str().as_bytes();
        let wanted = Wanted::new(members.iter().map(below));
        let format = format(&common_dir);
        match read(&git_dir, format, &wanted) {
            Ok(listed) => {
                for (position, object) in &listed.objects {
                    let at = members[*position];
                    let same =
                        object_name(&root.join(&paths[at]), format).is_some_and(|name| name == *object);
                    answers[at] = if same { Tracked::Same } else { Tracked::Other };
                }
            }
            Err(why) => warnings.push(format!(
                "{}: {why}; its secrets files are masked as if git did not track them",
                crate::sanitize::escape(git_dir.as_os_str())
            )),
        }
    }
    answers
}

/// The work tree that a file belongs to, below the root: the nearest directory that holds a repository.
fn work_tree(root: &Path, path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|directory| is_work_tree(&root.join(directory))).map(Path::to_path_buf)
}

/// Whether git would take a directory for the root of a work tree.
fn is_work_tree(directory: &Path) -> bool {
    let dot_git = directory.join(".git");
    match dot_git.metadata() {
        Ok(metadata) if metadata.is_dir() => dot_git.join("HEAD").symlink_metadata().is_ok(),
        Ok(metadata) => metadata.is_file(),
        Err(_) => false,
    }
}

/// The git directory of a work tree inside the project, and its common directory. One that leads out of the project, and
/// not to the project's own, says nothing: a repository must not choose what is read.
fn directories(root: &Path, git: Option<&GitLayout>, tree: &Path) -> Option<(PathBuf, PathBuf)> {
    let dot_git = root.join(tree).join(".git");
    let named =
        if dot_git.is_dir() { dot_git } else { root.join(tree).join(read_path(&dot_git, "gitdir: ")?) };
    let allowed = |directory: PathBuf| {
        let own = git.is_some_and(|git| directory.starts_with(&git.common_dir));
        (own || directory.starts_with(root)).then_some(directory)
    };
    let git_dir = allowed(named.canonicalize().ok()?)?;
    let common_dir = match read_path(&git_dir.join("commondir"), "") {
        Some(path) => allowed(git_dir.join(path).canonicalize().ok()?)?,
        None => git_dir.clone(),
    };
    Some((git_dir, common_dir))
}

fn format(common_dir: &Path) -> ObjectFormat {
    let text = read_text(&common_dir.join("config")).unwrap_or_default();
    let entry = ini::git(&text).into_iter().rfind(|entry| entry.name() == "extensions.objectformat");
    match entry {
        Some(entry) if entry.value.eq_ignore_ascii_case("sha256") => ObjectFormat::Sha256,
        _ => ObjectFormat::Sha1,
    }
}

fn read(git_dir: &Path, format: ObjectFormat, wanted: &Wanted<'_>) -> Result<Listed, String> {
    let path = git_dir.join("index");
    if path.symlink_metadata().is_err() {
        return Ok(Listed::default());
    }
    let unreadable = || "the git index cannot be read".to_owned();
    let bytes = read_bytes(&path, MAX_INDEX).ok_or_else(unreadable)?;
    let mut found = listed(&bytes, format, wanted).map_err(|error| error.to_string())?;
    if let Some(split) = &found.split {
        let base = read_bytes(&git_dir.join(split.file_name()), MAX_INDEX).ok_or_else(unreadable)?;
        found.join(&base, format, wanted).map_err(|error| error.to_string())?;
    }
    Ok(found)
}

/// The name that git gives the contents of a file, when it keeps them as they are.
fn object_name(path: &Path, format: ObjectFormat) -> Option<Vec<u8>> {
    let bytes = read_bytes(path, MAX_COMPARED)?;
    let header = format!("blob {}\0", bytes.len());
    Some(match format {
        ObjectFormat::Sha1 => Sha1::new().chain_update(header).chain_update(&bytes).finalize().to_vec(),
        ObjectFormat::Sha256 => Sha256::new().chain_update(header).chain_update(&bytes).finalize().to_vec(),
    })
}

/// Says of each of `paths`, directories below the project's root, whether git tracks something in it: the root of a work
/// tree counts always, and so does what is in no repository or in one that cannot be read.
pub fn tracked_directories(root: &Path, git: Option<&GitLayout>, paths: &[PathBuf]) -> Vec<bool> {
    let mut by_tree: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for (at, path) in paths.iter().enumerate() {
        // The directory itself may be the root.
        if let Some(tree) = work_tree(root, &path.join("x")).filter(|tree| tree != path) {
            by_tree.entry(tree).or_default().push(at);
        }
    }
    let mut answers = vec![true; paths.len()];
    for (tree, members) in by_tree {
        let own = git.filter(|_| tree.as_os_str().is_empty());
        let found = match own {
            Some(git) => Some((git.git_dir.clone(), git.common_dir.clone())),
            None => directories(root, git, &tree),
        };
        let Some((git_dir, common_dir)) = found else { continue };
        let below = |at: &usize| paths[*at].strip_prefix(&tree).unwrap_or(&paths[*at]).as_os_str().as_bytes();
        let wanted: Vec<&[u8]> = members.iter().map(below).collect();
        if let Some(found) = listed_directories(&git_dir, format(&common_dir), &wanted) {
            members.iter().zip(found).for_each(|(at, found)| answers[*at] = found);
        }
    }
    answers
}

fn listed_directories(git_dir: &Path, format: ObjectFormat, wanted: &[&[u8]]) -> Option<Vec<bool>> {
    let (mut found, split) =
        git_index::directories(&read_bytes(&git_dir.join("index"), MAX_INDEX)?, format, wanted).ok()?;
    if let Some(split) = split {
        let base = read_bytes(&git_dir.join(split.file_name()), MAX_INDEX)?;
        let (more, _) = git_index::directories(&base, format, wanted).ok()?;
        found.iter_mut().zip(more).for_each(|(found, more)| *found |= more);
    }
    Some(found)
}

/// Whether any of `paths` is in an index now, by position: for what was not at launch.
pub fn now_tracked(root: &Path, git: Option<&GitLayout>, paths: &[PathBuf]) -> Vec<bool> {
    tracked(root, git, paths, &mut Vec::new()).into_iter().map(|tracked| tracked != Tracked::No).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn root(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap()
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn git(&self, directory: &str, args: &[&str]) {
            let output = Command::new("git")
                .args(["-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always"])
                .args(args)
                .current_dir(self.root().join(directory))
                .env("HOME", self.root())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .output()
                .expect("git is there");
            assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }

        fn tracked(&self, paths: &[&str]) -> Vec<Tracked> {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            tracked(&self.root(), None, &paths, &mut Vec::new())
        }
    }

    #[test]
    fn each_file_belongs_to_the_nearest_repository() {
        use Tracked::*;
        let project = Project::new();
        for file in [".env", "sub/.env", "sub/other", "deep/er/.env"] {
            project.write(file, file);
        }
        project.git("", &["init", "-q"]);
        project.git("", &["add", ".env", "deep"]);
        project.git("sub", &["init", "-q"]);
        project.git("sub", &["add", "other"]);
        assert_eq!(
            project.tracked(&[".env", "sub/.env", "sub/other", "deep/er/.env", "absent"]),
            [Same, No, Same, Same, No]
        );
        project.write(".env", "changed");
        assert_eq!(project.tracked(&[".env"]), [Other]);
        assert_eq!(Project::new().tracked(&[".env"]), [No], "no repository");
    }

    #[test]
    fn a_submodule_and_a_worktree_in_the_project_are_read_and_what_leads_elsewhere_is_not() {
        let elsewhere = Project::new();
        elsewhere.write(".env", "x");
        elsewhere.git("", &["init", "-q"]);
        elsewhere.git("", &["add", "."]);
        elsewhere.git("", &["commit", "-q", "-m", "x"]);
        let project = Project::new();
        project.write("file", "x");
        project.git("", &["init", "-q"]);
        project.git("", &["add", "file"]);
        project.git("", &["commit", "-q", "-m", "x"]);
        let url = elsewhere.root();
        project.git("", &["submodule", "--quiet", "add", url.to_str().unwrap(), "module"]);
        project.git("", &["worktree", "add", "-q", "linked"]);
        project.write("linked/.env", "x");
        project.git("linked", &["add", ".env"]);
        project.write("evil/.env", "x");
        project.write("evil/.git", &format!("gitdir: {}/.git\n", url.display()));
        let got = project.tracked(&["module/.env", "linked/.env", "linked/file", "evil/.env"]);
        assert_eq!(got, [Tracked::Same, Tracked::Same, Tracked::Same, Tracked::No]);
    }

    #[test]
    fn an_index_that_cannot_be_read_is_said() {
        let project = Project::new();
        project.write(".env", "x");
        project.git("", &["init", "-q"]);
        project.write(".git/index", "nonsense, but long enough to have a checksum");
        let mut warnings = Vec::new();
        let got = tracked(&project.root(), None, &[".env".into()], &mut warnings);
        assert_eq!(got, [Tracked::No]);
        assert!(warnings[0].contains("does not begin as one"), "{warnings:?}");
    }
}

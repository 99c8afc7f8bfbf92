//! Devices, and what `/sys` says of them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access as Want, CWD, accessat};

use super::table::Row;
use super::{Reader, refused_thing};
use crate::error::Result;
use crate::plan::operation::Access;
use crate::policy::env::matches;
use crate::policy::files::{FileRule, Shape, Source, Tree};
use crate::policy::origin::Origin;
use crate::sanitize::escape;

/// Devices of one name with `*`.
const MOST_DEVICES: usize = 256;

impl Reader<'_> {
    /// The devices of one name. Returns whether there are any.
    pub(super) fn devices(&mut self, row: &Row, name: &str, origin: &Origin) -> Result<bool> {
        let found = found(&self.bounds.host.at("/dev"), name);
        let refuse = |why: String, hint: String| Err(refused_thing(row, origin).because(why).hint(hint));
        let mut any = false;
        for path in found {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            // Links among devices lead to others of them.
            if !metadata.file_type().is_char_device() {
                continue;
            }
            if accessat(CWD, &path, Want::READ_OK | Want::WRITE_OK, rustix::fs::AtFlags::empty()).is_err() {
                let hint = self.let_in(&metadata, 0o060);
                return refuse(format!("{} may not be read and written by you", escape(&path)), hint);
            }
            let held = self.sources.hold(&path)?;
            let flags = rustix::fs::fstatvfs(&held).map(|stat| stat.f_flag);
            if flags.is_ok_and(|flags| flags.contains(rustix::fs::StatVfsMountFlags::NODEV)) {
                return refuse(
                    format!(
                        "{} lies on a file system that is mounted nodev, where no device works",
                        escape(&path)
                    ),
                    "mount /dev without nodev".to_owned(),
                );
            }
            let Ok(below) = path.strip_prefix(self.bounds.host.at("/dev")) else { continue };
            let inside = Path::new("/dev").join(below);
            self.rule(inside, Source::Device(path.clone()), origin);
            if row.sys {
                self.device_in_sys(metadata.rdev(), origin);
            }
            any = true;
        }
        Ok(any)
    }

    /// The way by which libraries find a device's description: a link by its number, and the directory that it leads to.
    fn device_in_sys(&mut self, number: u64, origin: &Origin) {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let link = PathBuf::from(format!("/sys/dev/char/{major}:{minor}"));
        let Some(end) = self.bounds.host.real(&link) else { return };
        let device = self.bounds.host.real(&link.join("device")).unwrap_or_else(|| end.clone());
        self.link(&link, &end, origin);
        if let Some(name) = end.file_name().filter(|_| end.starts_with(&device)) {
            self.link(&Path::new("/sys/class/drm").join(name), &end, origin);
        }
        self.show(&device, origin);
        if !end.starts_with(&device) {
            self.show(&end, origin);
        }
    }

    fn link(&mut self, link: &Path, end: &Path, origin: &Origin) {
        self.rule(link.to_path_buf(), Source::Symlink(end.to_path_buf()), origin);
    }

    pub(super) fn show(&mut self, path: &Path, origin: &Origin) {
        let Some(real) = self.bounds.host.real(path).filter(|real| real.starts_with("/sys") && real.is_dir())
        else {
            return;
        };
        let rule = FileRule {
            dest: real.clone(),
            source: Source::Host(real),
            shape: Shape::Directory,
            access: Access::ReadOnly,
            tree: Tree::Fixed,
            origin: origin.clone(),
        };
        self.things.rules.push(rule);
    }
}

/// What is there below `dev` under a name with `*` in its last component.
fn found(dev: &Path, name: &str) -> Vec<PathBuf> {
    let path = dev.join(name);
    if !name.contains('*') {
        return vec![path];
    }
    let (Some(directory), Some(pattern)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| matches(pattern, name)))
        .map(|entry| entry.path())
        .take(MOST_DEVICES)
        .collect();
    found.sort();
    found
}

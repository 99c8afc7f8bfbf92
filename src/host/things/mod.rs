//! Sockets and devices of the host that were named, looked at on this machine: `--grant`, `--socket`, `[grants]` (FS-11).

mod devices;
mod forms;
pub(crate) mod table;
mod xauthority;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access as Want, CWD, accessat};

use crate::config::settings::Thing;
use crate::config::words::Word as _;
use crate::error::{Error, Kind, Result};
use crate::plan::operation::Access;
use crate::policy::files::{FileRule, Shape, Source, Tree};
use crate::policy::origin::{Origin, Sourced};
use crate::policy::{Grant, Opened, Things};
use crate::sanitize::escape;

use super::grants::{Bounds, RESERVED};
use super::links::{self, Route};
use super::sources::Sources;
use super::user;
pub use table::TABLE;
use table::{FileForm, FileRow, Form, Place, Row, SocketRow};

/// No copied file is longer (bytes).
const FILE_LIMIT: u64 = 1 << 20;

/// What of this machine was named, each object held in `sources`. `grants` are the other grants.
///
/// # Errors
/// When something is not there, may not be used by this user, or is not what it should be.
pub(super) fn read(bounds: &Bounds<'_>, grants: &[Grant], sources: &mut Sources) -> Result<Things> {
    let settings = bounds.settings;
    let named: Vec<&Sourced<Thing>> = settings.things.values().flatten().collect();
    if named.is_empty() && settings.sockets.is_empty() {
        return Ok(Things::default());
    }
    let mut reader = Reader { bounds, sources, written: written(bounds, grants), things: Things::default() };
    for thing in named {
        reader.thing(thing)?;
    }
    for socket in &settings.sockets {
        reader.socket(socket)?;
    }
    Ok(reader.finish())
}

/// What jails write: a symlink there may be an agent's.
fn written(bounds: &Bounds<'_>, grants: &[Grant]) -> Vec<PathBuf> {
    let mut written = vec![bounds.project.root.clone()];
    let writable = grants.iter().filter(|grant| grant.access == Access::Writable);
    written.extend(writable.map(|grant| grant.source.clone()));
    written.extend(bounds.host.written_now());
    written
}

struct Reader<'a> {
    bounds: &'a Bounds<'a>,
    sources: &'a mut Sources,
    written: Vec<PathBuf>,
    things: Things,
}

impl Reader<'_> {
    fn thing(&mut self, thing: &Sourced<Thing>) -> Result<()> {
        let Some(row) = TABLE.row(thing.value) else { return Ok(()) };
        let mut any = false;
        let mut display = None;
        for socket in &row.sockets {
            any |= self.row_socket(row, socket, &thing.origin, &mut display)?;
        }
        for name in &row.devices {
            any |= self.devices(row, name, &thing.origin)?;
        }
        if !any {
            let refused = refused_thing(row, &thing.origin);
            return Err(match missing(row) {
                Some(why) => refused.because(why).hint(row.absent.clone()),
                None => refused.because("nothing of it is on this machine").hint(row.absent.clone()),
            });
        }
        for file in &row.files {
            self.file(row, file, &thing.origin, display)?;
        }
        for path in &row.shown {
            self.show(Path::new(path), &thing.origin);
        }
        self.things.opened.push(Opened {
            name: thing.value.word().to_owned(),
            opens: row.opens.clone(),
            origin: thing.origin.clone(),
        });
        Ok(())
    }

    /// One socket of a row. Returns whether it is there.
    fn row_socket(
        &mut self,
        row: &Row,
        socket: &SocketRow,
        origin: &Origin,
        display: &mut Option<u32>,
    ) -> Result<bool> {
        for place in &socket.from {
            let path = match self.place(place) {
                Ok(Some(path)) => path,
                Ok(None) => continue,
                Err(why) => return Err(refused_thing(row, origin).because(why).hint(row.absent.clone())),
            };
            let is_variable = matches!(place, Place::Variable { .. });
            let route = match links::follow(&path) {
                Ok(route) => route,
                Err(error) if is_variable => {
                    let why = format!("{} leads to {}: {}", source_of(place), escape(&path), io(&error));
                    return Err(refused_thing(row, origin).because(why).hint(row.absent.clone()));
                }
                Err(_) => continue,
            };
            let end = self
                .checked(&path, &route, Wanted::Socket)
                .map_err(|(why, hint)| refused_thing(row, origin).because(why).hint(hint))?;
            if let Place::Variable { variable, form: Form::Display } = place {
                *display =
                    self.bounds.host.environment.var(variable).and_then(|value| forms::display(value).ok());
            }
            let inside = self.inside(&socket.inside);
            self.rule(inside.clone(), Source::Socket(end), origin);
            self.variable(row, socket.variable.as_deref(), socket.value.as_deref(), &inside);
            return Ok(true);
        }
        match socket.optional {
            true => Ok(false),
            false => {
                let why =
                    missing(row).unwrap_or_else(|| "there is no such socket on this machine".to_owned());
                Err(refused_thing(row, origin).because(why).hint(row.absent.clone()))
            }
        }
    }

    fn file(&mut self, row: &Row, file: &FileRow, origin: &Origin, display: Option<u32>) -> Result<()> {
        for place in &file.from {
            let Ok(Some(path)) = self.place(place) else { continue };
            let Ok(route) = links::follow(&path) else { continue };
            let end = self
                .checked(&path, &route, Wanted::File)
                .map_err(|(why, hint)| refused_thing(row, origin).because(why).hint(hint))?;
            let Some(bytes) = super::read_bytes(&end, FILE_LIMIT) else { continue };
            let content = match file.form {
                FileForm::Bytes => bytes,
                FileForm::Text if std::str::from_utf8(&bytes).is_ok() => bytes,
                FileForm::Text => continue,
                FileForm::X11Cookie => match display.and_then(|number| xauthority::cookie(&bytes, number, 0))
                {
                    Some(cookie) => cookie,
                    None => continue,
                },
            };
            let inside = self.inside(&file.inside);
            self.rule(inside.clone(), Source::Content(content), origin);
            self.variable(row, file.variable.as_deref(), file.value.as_deref(), &inside);
            return Ok(());
        }
        Ok(())
    }

    /// `--socket PATH`: at its own place inside, under the name that was typed too.
    fn socket(&mut self, socket: &Sourced<PathBuf>) -> Result<()> {
        let shown = escape(&socket.value).to_string();
        let refuse = |why: String, hint: String| {
            Error::new(Kind::Refused, format!("the socket {shown} cannot be granted ({})", socket.origin))
                .because(why)
                .hint(hint)
        };
        let route = links::follow(&socket.value).map_err(|error| {
            refuse(io(&error), "check the path, and start the service that listens there".to_owned())
        })?;
        let end =
            self.checked(&socket.value, &route, Wanted::Socket).map_err(|(why, hint)| refuse(why, hint))?;
        let typed: PathBuf = socket.value.components().collect();
        let plain = typed.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let in_tree = self.written.iter().any(|tree| typed.starts_with(tree));
        let mut places = vec![end.clone()];
        if plain && typed != end && !in_tree {
            places.push(typed);
        }
        for place in places {
            if RESERVED.iter().any(|reserved| place.starts_with(reserved)) {
                let why = format!("the jail has its own at {}", escape(&place));
                return Err(refuse(why, "let the service listen at another place".to_owned()));
            }
            self.rule(place, Source::Socket(end.clone()), &socket.origin);
        }
        self.things.opened.push(Opened {
            name: shown,
            opens: "whatever listens there obeys the jail as it obeys you".to_owned(),
            origin: socket.origin.clone(),
        });
        Ok(())
    }

    /// Where a place of the table leads; `None` when its variable is not set.
    fn place(&self, place: &Place) -> std::result::Result<Option<PathBuf>, String> {
        match place {
            Place::Path { path } => Ok(Some(self.outside(path))),
            Place::Variable { variable, form } => match self.bounds.host.environment.var(variable) {
                None => Ok(None),
                Some(value) => forms::path(*form, value, &self.runtime())
                    .map(Some)
                    .map_err(|why| format!("{variable} is set to `{}`, which {why}", escape(value))),
            },
        }
    }

    /// What a path leads to, if it is what is wanted and may be used; else why not, and what to do.
    fn checked(
        &mut self,
        path: &Path,
        route: &Route,
        wanted: Wanted,
    ) -> std::result::Result<PathBuf, (String, String)> {
        if let Some((link, tree)) = route.leads_out(&self.written) {
            let why = format!(
                "{} is a symlink that leads out of {}, where an agent may have made it",
                escape(link),
                escape(tree)
            );
            return Err((why, "name what it leads to, if you mean that".to_owned()));
        }
        let end = &route.end;
        let shown = escape(path).to_string();
        if let Some(own) = self.bounds.own.iter().find(|own| end.starts_with(own)) {
            return Err((format!("{} is ai-jail's own", escape(own)), "name something else".to_owned()));
        }
        let metadata = end.symlink_metadata().map_err(|error| (io(&error), "check the path".to_owned()))?;
        let kind = metadata.file_type();
        if wanted == Wanted::File {
            return Ok(end.clone());
        }
        if !kind.is_socket() {
            let hint = if kind.is_file() || kind.is_dir() {
                "files and directories are granted with --ro and --rw"
            } else {
                "name a socket"
            };
            return Err((format!("{shown} is no socket"), hint.to_owned()));
        }
        let user = self.bounds.host.user.uid;
        let in_tree = self.written.iter().any(|tree| end.starts_with(tree));
        if in_tree && metadata.uid() != user && metadata.uid() != 0 {
            let why = format!("{shown} lies in a tree that jails write, and is somebody else's");
            return Err((why, "let the service make its socket elsewhere".to_owned()));
        }
        if accessat(CWD, end, Want::WRITE_OK, rustix::fs::AtFlags::empty()).is_err() {
            let hint = self.let_in(&metadata, 0o020);
            return Err((format!("you may not connect to {shown}"), hint));
        }
        // Held from now on: the name may lead elsewhere later.
        self.sources
            .hold(end)
            .map_err(|error| (error.to_string(), "see what changes it, then try again".to_owned()))?;
        Ok(end.clone())
    }

    /// How the user gets the rights `mode` of an object's group.
    fn let_in(&self, metadata: &fs::Metadata, mode: u32) -> String {
        if metadata.mode() & mode != mode || metadata.gid() == 0 {
            return "its owner and mode decide: see ls -l of it and of the directories above".to_owned();
        }
        let group = user::group_name(&self.bounds.host.root, metadata.gid());
        format!(
            "let its group in: sudo usermod -aG {group} {}, then log in again",
            self.bounds.host.user.name
        )
    }

    fn rule(&mut self, dest: PathBuf, source: Source, origin: &Origin) {
        let rule = FileRule {
            dest,
            source,
            shape: Shape::File,
            access: Access::ReadOnly,
            tree: Tree::Theirs,
            origin: origin.clone(),
        };
        self.things.rules.push(rule);
    }

    fn variable(&mut self, row: &Row, name: Option<&str>, value: Option<&str>, inside: &Path) {
        let (Some(name), Some(value)) = (name, value) else { return };
        let value = match value.split_once("{}") {
            None => OsString::from(value),
            Some((before, after)) => {
                let mut text = OsString::from(before);
                text.push(inside);
                text.push(after);
                text
            }
        };
        let origin = Origin::built_in(format!("grant {}", row.name.word()));
        self.things.variables.push((name.to_owned(), Sourced::new(value, origin)));
    }

    /// The launcher's runtime directory.
    fn runtime(&self) -> PathBuf {
        match self.bounds.host.environment.var("XDG_RUNTIME_DIR").map(Path::new) {
            Some(path) if path.is_absolute() => path.to_path_buf(),
            _ => PathBuf::from(format!("/run/user/{}", self.bounds.host.user.uid)),
        }
    }

    fn outside(&self, path: &str) -> PathBuf {
        if let Some(below) = path.strip_prefix("$RUNTIME/") {
            return self.runtime().join(below);
        }
        match path.strip_prefix("$HOME/") {
            Some(below) => self.bounds.host.user.home.join(below),
            None => self.bounds.host.at(path),
        }
    }

    fn inside(&self, path: &str) -> PathBuf {
        let user = &self.bounds.host.user;
        if let Some(below) = path.strip_prefix("$RUNTIME/") {
            return runtime_inside(user.uid).join(below);
        }
        match path.strip_prefix("$HOME/") {
            Some(below) => user.home_real.join(below),
            None => path.into(),
        }
    }

    /// The runtime directory is made when something lies in it.
    fn finish(mut self) -> Things {
        let runtime = runtime_inside(self.bounds.host.user.uid);
        if let Some(first) = self.things.rules.iter().find(|rule| rule.dest.starts_with(&runtime)) {
            let rule = FileRule {
                dest: runtime.clone(),
                source: Source::Tmpfs,
                shape: Shape::Directory,
                access: Access::Writable,
                tree: Tree::Fixed,
                origin: first.origin.clone(),
            };
            self.things.rules.push(rule);
            let origin = Origin::built_in("what is granted lies in it");
            self.things.variables.push(("XDG_RUNTIME_DIR".to_owned(), Sourced::new(runtime.into(), origin)));
        }
        self.things
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Socket,
    File,
}

fn runtime_inside(uid: u32) -> PathBuf {
    PathBuf::from(format!("/run/user/{uid}"))
}

fn refused_thing(row: &Row, origin: &Origin) -> Error {
    Error::new(Kind::Refused, format!("{} cannot be granted ({origin})", row.name.word()))
}

/// Which variable would have told, for a row whose first place is one.
fn missing(row: &Row) -> Option<String> {
    if let Some(name) = row.devices.first().filter(|_| row.devices.len() == 1) {
        return Some(format!("there is no /dev/{name}"));
    }
    let socket = row.sockets.iter().find(|socket| !socket.optional)?;
    match (socket.from.as_slice(), socket.from.first()?) {
        ([_], Place::Variable { variable, .. }) => Some(format!("{variable} is not set")),
        (_, Place::Variable { variable, .. }) => {
            Some(format!("{variable} is not set, and there is no socket at the usual places"))
        }
        _ => None,
    }
}

fn source_of(place: &Place) -> &str {
    match place {
        Place::Variable { variable, .. } => variable,
        Place::Path { path } => path,
    }
}

/// An error without the kernel's number.
fn io(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            "there is nothing there".to_owned()
        }
        std::io::ErrorKind::PermissionDenied => "you may not look there".to_owned(),
        _ => error.to_string(),
    }
}

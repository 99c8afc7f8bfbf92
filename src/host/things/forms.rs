//! How variables name sockets. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::table::Form;

/// The path that `value` names. `runtime` is the user's runtime directory.
///
/// Fails with the reason, a clause about the variable, when it names something else than a path.
pub(super) fn path(form: Form, value: &OsStr, runtime: &Path) -> Result<PathBuf, String> {
    match form {
        Form::Path => absolute(Path::new(value)),
        Form::Url => match value.as_bytes().strip_prefix(b"unix://") {
            Some(path) => absolute(Path::new(OsStr::from_bytes(path))),
            None => Err("is no unix:// address: what is reached over the network is named with --allow-host"
                .to_owned()),
        },
        Form::Dbus => dbus(value),
        Form::Display => display(value).map(|number| PathBuf::from(format!("/tmp/.X11-unix/X{number}"))),
        Form::Wayland => {
            let path = Path::new(value);
            if path.is_absolute() {
                return Ok(path.to_path_buf());
            }
            match path.components().count() {
                1 if path.file_name().is_some() => Ok(runtime.join(path)),
                _ => Err("is neither a name nor an absolute path".to_owned()),
            }
        }
        Form::Pulse => pulse(value),
    }
}

/// The number of a local display. The screen after it does not count.
pub(super) fn display(value: &OsStr) -> Result<u32, String> {
    let text = value.to_str().unwrap_or_default();
    let Some((host, rest)) = text.rsplit_once(':') else {
        return Err("names no display (it should be like :0)".to_owned());
    };
    if !host.is_empty() && host != "unix" {
        return Err("names a display that is reached over the network, as SSH forwards it".to_owned());
    }
    let number = rest.split('.').next().unwrap_or_default();
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| digits).ok_or_else(|| "names no display (it should be like :0)".to_owned())
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    if path.is_absolute() { Ok(path.to_path_buf()) } else { Err("is no absolute path".to_owned()) }
}

/// The first address with a path, of several that `;` separates.
fn dbus(value: &OsStr) -> Result<PathBuf, String> {
    let mut why = "names no socket".to_owned();
    for address in value.as_bytes().split(|byte| *byte == b';') {
        let Some(rest) = address.strip_prefix(b"unix:") else {
            continue;
        };
        for pair in rest.split(|byte| *byte == b',') {
            if let Some(path) = pair.strip_prefix(b"path=") {
                return unescaped(path).as_deref().map_or(Err(why), |path| absolute(Path::new(path)));
            }
            if pair.starts_with(b"abstract=") {
                why = "names an abstract socket, which belongs to the host's network and does not exist in the jail"
                    .to_owned();
            }
        }
    }
    Err(why)
}

/// D-Bus writes bytes in addresses as `%` and two hexadecimal digits.
fn unescaped(text: &[u8]) -> Option<std::ffi::OsString> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            out.push(*byte);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after.get(2..)?;
    }
    Some(std::ffi::OsString::from_vec(out))
}

/// The first server with a path, of several that white space separates; each may begin with a machine's name in braces.
fn pulse(value: &OsStr) -> Result<PathBuf, String> {
    let servers = value.as_bytes().split(|byte| byte.is_ascii_whitespace());
    let mut paths = servers.filter_map(|server| {
        let server = match server.strip_prefix(b"{") {
            Some(rest) => rest.splitn(2, |byte| *byte == b'}').nth(1)?,
            None => server,
        };
        let path = server.strip_prefix(b"unix:").unwrap_or(server);
        path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
    });
    paths.next().ok_or_else(|| "names no socket of this machine".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_a_path_in_its_own_form_or_is_refused_with_the_reason() {
        let cases: &[(Form, &str, Result<&str, &str>)] = &[
            (Form::Path, "/tmp/ssh-x/agent.1", Ok("/tmp/ssh-x/agent.1")),
            (Form::Path, "agent", Err("absolute")),
            (Form::Url, "unix:///run/docker.sock", Ok("/run/docker.sock")),
            (Form::Url, "tcp://10.0.0.1:2375", Err("--allow-host")),
            (Form::Url, "ssh://me@host", Err("--allow-host")),
            (Form::Url, "unix://docker.sock", Err("absolute")),
            (Form::Dbus, "unix:path=/run/user/1000/bus", Ok("/run/user/1000/bus")),
            (Form::Dbus, "unix:path=/tmp/a%20b,guid=12", Ok("/tmp/a b")),
            (Form::Dbus, "unix:guid=12,path=/tmp/b", Ok("/tmp/b")),
            (Form::Dbus, "tcp:host=x,port=1;unix:path=/tmp/b", Ok("/tmp/b")),
            (Form::Dbus, "unix:abstract=/tmp/dbus-x", Err("abstract")),
            (Form::Dbus, "unix:path=/tmp/%zz", Err("socket")),
            (Form::Dbus, "autolaunch:", Err("socket")),
            (Form::Display, ":0", Ok("/tmp/.X11-unix/X0")),
            (Form::Display, ":12.1", Ok("/tmp/.X11-unix/X12")),
            (Form::Display, "unix:1", Ok("/tmp/.X11-unix/X1")),
            (Form::Display, "localhost:10.0", Err("SSH")),
            (Form::Display, ":", Err("display")),
            (Form::Display, ":+1", Err("display")),
            (Form::Display, ":../../x", Err("display")),
            (Form::Display, "", Err("display")),
            (Form::Wayland, "wayland-1", Ok("/run/user/7/wayland-1")),
            (Form::Wayland, "/mnt/wslg/wayland-0", Ok("/mnt/wslg/wayland-0")),
            (Form::Wayland, "../x", Err("name")),
            (Form::Wayland, "..", Err("name")),
            (Form::Pulse, "unix:/run/user/7/pulse/native", Ok("/run/user/7/pulse/native")),
            (Form::Pulse, "{abc}unix:/run/p tcp:host", Ok("/run/p")),
            (Form::Pulse, "tcp:host:4713", Err("socket")),
        ];
        for (form, value, want) in cases {
            let got = path(*form, OsStr::new(value), Path::new("/run/user/7"));
            match want {
                Ok(want) => assert_eq!(got.as_deref(), Ok(Path::new(want)), "{form:?} {value}"),
                Err(part) => {
                    assert!(got.as_ref().is_err_and(|why| why.contains(part)), "{form:?} {value}: {got:?}")
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_value_makes_it_panic(value in "[a-z:;,=%/.{}+ 0-9]{0,40}") {
            for form in [Form::Path, Form::Url, Form::Dbus, Form::Display, Form::Wayland, Form::Pulse] {
                let _ = path(form, OsStr::new(&value), Path::new("/r"));
            }
        }
    }
}

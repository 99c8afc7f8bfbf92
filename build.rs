//! Turns the tables of `src/presets` into JSON, which a launch reads several times faster than TOML, and links the
//! unwinder into the programs.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    link_unwinder(Path::new(&out))?;
    convert(Path::new("src/presets"), Path::new(&out))
}

/// A launch starts this program three times. Each time the dynamic linker would load libgcc_s, for the unwinder alone: a
/// tenth of a millisecond. So the linker finds the archive of the same compiler under that name, where there is one.
fn link_unwinder(out: &Path) -> Result<(), Box<dyn Error>> {
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" || target("ENV") != "gnu" || env::var("HOST") != env::var("TARGET") {
        return Ok(());
    }
    let found = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let archive = found.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    // A compiler that has none prints the name as it was asked for.
    if Path::new(archive.trim()).is_absolute() && Path::new(archive.trim()).exists() {
        let place = out.join("unwinder");
        fs::create_dir_all(&place)?;
        fs::write(place.join("libgcc_s.so"), "INPUT ( -lgcc_eh -lc )\n")?;
        println!("cargo::rustc-link-search=native={}", place.display());
    }
    Ok(())
}

fn convert(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", from.display());
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_stem().ok_or("a preset has no name")?;
        if path.is_dir() {
            let below = to.join(name);
            fs::create_dir_all(&below)?;
            convert(&path, &below)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            let text = fs::read_to_string(&path)?;
            let table: toml::Table =
                toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            fs::write(to.join(name).with_extension("json"), serde_json::to_vec(&table)?)?;
        }
    }
    Ok(())
}

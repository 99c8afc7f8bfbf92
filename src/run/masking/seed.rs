//! What the fakes of a private home are made from: random, kept beside the home, never in it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use zeroize::Zeroizing;

use crate::error::{Error, Kind, Result};
use crate::launch::store::prepare;
use crate::plan::StoreOp;
use crate::secrets::Seed;

/// Bytes of a seed.
const LENGTH: usize = 32;

/// The seed at `place` below `data`, ai-jail's data directory, made when there is none; without a place a new one.
///
/// # Errors
/// When it cannot be read or made, or what is there is none.
pub(super) fn of(data: &Path, place: Option<&Path>) -> Result<Seed> {
    let Some(place) = place else { return Ok(Seed::new(*random()?)) };
    let directory = place.parent().unwrap_or(Path::new("")).to_path_buf();
    let failed = |why: &dyn std::fmt::Display| {
        Error::new(Kind::Setup, format!("{} cannot be used", data.join(place).display()))
            .because(why)
            .hint("the fakes of secrets are made from it; remove it to get new ones")
    };
    let Some(store) = prepare(data, &[StoreOp::Directory(directory)])? else {
        return Err(failed(&"there is no data directory"));
    };
    let bytes = match store.read(place, LENGTH as u64).map_err(|error| failed(&error))? {
        Some(bytes) => Zeroizing::new(bytes),
        None => Zeroizing::new(store.once(place, &*random()?)?),
    };
    let bytes: [u8; LENGTH] =
        bytes.as_slice().try_into().map_err(|_| failed(&format!("it has not {LENGTH} bytes")))?;
    Ok(Seed::new(bytes))
}

fn random() -> Result<Zeroizing<[u8; LENGTH]>> {
    let mut bytes = Zeroizing::new([0; LENGTH]);
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut *bytes))
        .map_err(|error| Error::new(Kind::Setup, "cannot read /dev/urandom").because(error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::secrets::{SecretValue, sentinel};

    /// What is made from a seed tells seeds apart.
    fn made(seed: &Seed) -> String {
        let value = SecretValue::new(b"0123456789abcdefghijklmnopqrstuvwxyz".to_vec()).unwrap();
        sentinel(seed, "KEY", &value, &[]).unwrap().as_str().to_owned()
    }

    #[test]
    fn a_home_keeps_its_seed_and_a_session_without_one_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("ai-jail");
        let place = Path::new("homes/p/none/seed");
        let first = made(&of(&data, Some(place)).unwrap());
        assert_eq!(made(&of(&data, Some(place)).unwrap()), first);
        let metadata = fs::metadata(data.join(place)).unwrap();
        assert_eq!((metadata.len(), metadata.permissions().mode() & 0o7777), (32, 0o600));
        assert_ne!(made(&of(&data, Some(Path::new("homes/q/none/seed"))).unwrap()), first);
        assert_ne!(made(&of(&data, None).unwrap()), made(&of(&data, None).unwrap()));
    }

    #[test]
    fn sessions_that_begin_at_once_agree() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("ai-jail");
        let place = Path::new("homes/p/none/seed");
        let seeds: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| made(&of(&data, Some(place)).unwrap()))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seeds.windows(2).all(|pair| pair[0] == pair[1]), "{seeds:?}");
        assert_eq!(fs::read_dir(data.join("state")).unwrap().count(), 0, "nothing is left over");
    }

    #[test]
    fn what_is_no_seed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("ai-jail");
        fs::create_dir_all(data.join("h")).unwrap();
        fs::write(data.join("h/short"), [1; 31]).unwrap();
        fs::write(data.join("h/long"), [1; 33]).unwrap();
        fs::write(data.join("good"), [1; 32]).unwrap();
        symlink("../good", data.join("h/link")).unwrap();
        assert!(of(&data, Some(Path::new("good"))).is_ok(), "control");
        for name in ["h/short", "h/long", "h/link"] {
            assert!(of(&data, Some(Path::new(name))).is_err(), "{name}");
        }
    }
}

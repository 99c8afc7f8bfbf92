//! Which paths a git index lists (`gitformat-index(5)`, versions 2 to 4, split indexes too). Pure: bytes in. What it says may
//! have been written by an earlier jail: nothing here trusts a length.

use std::collections::HashMap;

/// Positions in a bitmap of a split index that are looked at; more entries than that have no index.
const MAX_POSITIONS: usize = 64 << 20;

/// Bytes of paths that an index lists. Version 4 writes what paths share once: a short index could keep us for hours.
const MAX_NAMES: usize = 256 << 20;

/// How long object names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 20 bytes.
    Sha1,
    /// 32 bytes.
    Sha256,
}

impl ObjectFormat {
    fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// An index that cannot be read, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the git index cannot be read: {0}")]
pub struct Malformed(&'static str);

/// What is looked for: the paths of one work tree, as git writes them.
#[derive(Debug)]
pub struct Wanted<'a> {
    paths: HashMap<&'a [u8], usize>,
    /// Of which lengths there are paths, so that few are looked up.
    lengths: Vec<bool>,
}

impl<'a> Wanted<'a> {
    /// Answers will name a path by its position.
    pub fn new(paths: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let paths: HashMap<&[u8], usize> =
            paths.into_iter().enumerate().map(|(at, path)| (path, at)).collect();
        let longest = paths.keys().map(|path| path.len()).max().unwrap_or(0);
        let mut lengths = vec![false; longest + 1];
        for path in paths.keys() {
            lengths[path.len()] = true;
        }
        Self { paths, lengths }
    }

    fn position(&self, path: &[u8]) -> Option<usize> {
        let possible = self.lengths.get(path.len()).copied().unwrap_or(false);
        if possible { self.paths.get(path).copied() } else { None }
    }
}

/// What an index says about the wanted paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The object name that is listed, by the position of the path.
    pub objects: HashMap<usize, Vec<u8>>,
    /// The index that this one is split from, with what to do to its entries.
    pub split: Option<Split>,
    /// Object names of entries without a name, in order: they replace entries of the other index.
    replacements: Vec<Vec<u8>>,
}

/// The other half of a split index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The object name that is part of the name of its file, `sharedindex.HEX`.
    pub base: Vec<u8>,
    deleted: Bitmap,
    replaced: Bitmap,
}

impl Split {
    /// The name of the file beside the index.
    pub fn file_name(&self) -> String {
        let hex: String = self.base.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sharedindex.{hex}")
    }
}

impl Listed {
    /// Adds what `base`, the other half, lists.
    ///
    /// # Errors
    /// When it is no index.
    pub fn join(&mut self, base: &[u8], format: ObjectFormat, wanted: &Wanted<'_>) -> Result<(), Malformed> {
        let Some(split) = self.split.take() else { return Ok(()) };
        let mut position = 0;
        let mut replaced = 0;
        read(base, format, &mut |path, object| {
            let is_replaced = split.replaced.has(position);
            if let Some(at) = wanted.position(path)
                && !split.deleted.has(position)
            {
                let object = match self.replacements.get(replaced) {
                    Some(replacement) if is_replaced => replacement.clone(),
                    _ => object.to_vec(),
                };
                self.objects.entry(at).or_insert(object);
            }
            replaced += usize::from(is_replaced);
            position += 1;
        })?;
        Ok(())
    }
}

/// Says of each of `directories`, paths without a slash at their end, whether an index lists something below it. Of a split
/// index that is what both halves say.
///
/// # Errors
/// When it is no index of a version that is known, or ends too early.
pub fn directories(
    bytes: &[u8],
    format: ObjectFormat,
    directories: &[&[u8]],
) -> Result<(Vec<bool>, Option<Split>), Malformed> {
    let mut answers = vec![false; directories.len()];
    let mut by_path: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (at, directory) in directories.iter().enumerate() {
        by_path.entry(*directory).or_default().push(at);
    }
    let mut last: Vec<u8> = Vec::new();
    let rest = read(bytes, format, &mut |path, _| {
        let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |at| &path[..at]);
        // Entries of one directory follow each other.
        if parent == last && !last.is_empty() {
            return;
        }
        last = parent.to_vec();
        let ends = parent.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.chain([parent.len()]) {
            for at in by_path.get(&parent[..end]).into_iter().flatten() {
                answers[*at] = true;
            }
        }
    })?;
    let split = extension(rest, b"link").map(|link| split(link, format)).transpose()?;
    Ok((answers, split))
}

/// Reads an index and says what it lists of `wanted`.
///
/// # Errors
/// When it is no index of a version that is known, or ends too early.
pub fn listed(bytes: &[u8], format: ObjectFormat, wanted: &Wanted<'_>) -> Result<Listed, Malformed> {
    let mut listed = Listed::default();
    let rest = read(bytes, format, &mut |path, object| {
        if path.is_empty() {
            listed.replacements.push(object.to_vec());
        } else if let Some(at) = wanted.position(path) {
            listed.objects.entry(at).or_insert_with(|| object.to_vec());
        }
    })?;
    listed.split = extension(rest, b"link").map(|link| split(link, format)).transpose()?;
    Ok(listed)
}

/// Calls `each` with the path and the object name of every entry, in order. Returns what follows: the extensions.
fn read<'a>(
    bytes: &'a [u8],
    format: ObjectFormat,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<&'a [u8], Malformed> {
    let ends_early = Malformed("it ends early");
    let body = bytes.len().checked_sub(format.bytes()).ok_or(ends_early)?;
    let bytes = &bytes[..body];
    if !bytes.starts_with(b"DIRC") {
        return Err(Malformed("it does not begin as one"));
    }
    let version = number(bytes, 4).ok_or(ends_early)?;
    if !(2..=4).contains(&version) {
        return Err(Malformed("its version is not known"));
    }
    let count = number(bytes, 8).ok_or(ends_early)?;
    let mut at = 12;
    let mut name: Vec<u8> = Vec::new();
    let mut names = 0;
    for _ in 0..count {
        let start = at;
        let object = bytes.get(start + 40..start + 40 + format.bytes()).ok_or(ends_early)?;
        at = start + 40 + format.bytes();
        let [high, low] = *bytes.get(at..at + 2).and_then(|flags| flags.first_chunk()).ok_or(ends_early)?;
        let flags = u16::from_be_bytes([high, low]);
        at += if version >= 3 && flags & 0x4000 != 0 { 4 } else { 2 };
        if version == 4 {
            let (stripped, read) = varint(bytes.get(at..).ok_or(ends_early)?).ok_or(ends_early)?;
            at += read;
            let kept = name.len().checked_sub(stripped).ok_or(Malformed("a name is shorter than nothing"))?;
            name.truncate(kept);
            let rest = until_nul(bytes.get(at..).ok_or(ends_early)?).ok_or(ends_early)?;
            names += kept + rest.len();
            if names > MAX_NAMES {
                return Err(Malformed("its names are too long"));
            }
            name.extend_from_slice(rest);
            at += rest.len() + 1;
            each(&name, object);
        } else {
            let long = usize::from(flags & 0xfff);
            let name = if long < 0xfff {
                bytes.get(at..at + long).ok_or(ends_early)?
            } else {
                until_nul(bytes.get(at..).ok_or(ends_early)?).ok_or(ends_early)?
            };
            // The whole entry is padded to a multiple of eight, by at least one NUL.
            at = start + (at + name.len() - start + 8) / 8 * 8;
            each(name, object);
        }
    }
    bytes.get(at..).ok_or(ends_early)
}

/// The body of the extension that is called `name`.
fn extension<'a>(mut rest: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    loop {
        let (signature, size) = (rest.get(..4)?, usize::try_from(number(rest, 4)?).ok()?);
        let body = rest.get(8..)?.get(..size)?;
        if signature == name {
            return Some(body);
        }
        rest = &rest[8 + size..];
    }
}

fn split(link: &[u8], format: ObjectFormat) -> Result<Split, Malformed> {
    let ends_early = Malformed("it ends early");
    let base = link.get(..format.bytes()).ok_or(ends_early)?.to_vec();
    let rest = &link[format.bytes()..];
    if rest.is_empty() {
        return Ok(Split { base, deleted: Bitmap::default(), replaced: Bitmap::default() });
    }
    let (deleted, rest) = Bitmap::read(rest)?;
    let (replaced, _) = Bitmap::read(rest)?;
    Ok(Split { base, deleted, replaced })
}

/// A bitmap as git writes it (EWAH), kept as ranges and words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Bitmap {
    /// Runs of ones, in order: the first bit and the one behind the last.
    runs: Vec<(usize, usize)>,
    /// Literal words by the position of their first bit.
    words: HashMap<usize, u64>,
}

impl Bitmap {
    fn read(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let ends_early = Malformed("a bitmap in it ends early");
        let too_long = Malformed("a bitmap in it is too long");
        let count = usize::try_from(number(bytes, 4).ok_or(ends_early)?).map_err(|_| ends_early)?;
        let size = count.checked_mul(8).ok_or(ends_early)?;
        let words = bytes.get(8..).and_then(|rest| rest.get(..size)).ok_or(ends_early)?;
        // Behind the words stands the position of the last marker.
        let rest = bytes.get(8 + size + 4..).ok_or(ends_early)?;
        let mut words = words
            .chunks_exact(8)
            .map(|word| word.first_chunk::<8>().map_or(0, |word| u64::from_be_bytes(*word)));
        let mut bitmap = Self::default();
        let mut bit = 0_usize;
        while let Some(marker) = words.next() {
            let run = usize::try_from(marker >> 1 & 0xffff_ffff).map_err(|_| ends_early)?.saturating_mul(64);
            let end = bit.saturating_add(run);
            if marker & 1 == 1 && run > 0 {
                bitmap.runs.push((bit, end));
            }
            bit = end;
            for _ in 0..marker >> 33 {
                if bit > MAX_POSITIONS {
                    return Err(too_long);
                }
                let word = words.next().ok_or(ends_early)?;
                bitmap.words.insert(bit, word);
                bit = bit.saturating_add(64);
            }
            if bit > MAX_POSITIONS {
                return Err(too_long);
            }
        }
        Ok((bitmap, rest))
    }

    fn has(&self, position: usize) -> bool {
        let word = self.words.get(&(position / 64 * 64)).copied().unwrap_or(0);
        let run = self.runs.partition_point(|(_, to)| *to <= position);
        word >> (position % 64) & 1 == 1 || self.runs.get(run).is_some_and(|(from, _)| *from <= position)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

fn until_nul(bytes: &[u8]) -> Option<&[u8]> {
    bytes.iter().position(|byte| *byte == 0).map(|end| &bytes[..end])
}

/// A number in git's own encoding, and how many bytes it has.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (at, byte) in bytes.iter().enumerate() {
        value = value.checked_shl(7)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value = value.checked_add(1)?;
        if value > usize::MAX >> 8 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests;

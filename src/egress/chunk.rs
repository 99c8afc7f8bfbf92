//! PURE: the chunked coding, read strictly and written anew, so that extensions never reach the other side and no origin
//! can see other chunk borders than we do.

use crate::egress::head::is_token;
use crate::egress::limits::MAX_CHUNK_LINE;

/// A reader of one chunked body. Feed it what comes; it keeps its place between calls.
#[derive(Debug, Clone)]
pub struct ChunkReader {
    state: State,
    /// Bytes of the current size line, or of all trailers.
    line: usize,
    trailers: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size { value: u64, digits: u8 },
    Extension { size: u64 },
    SizeLf { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerColon,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

/// What the bytes that were consumed turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Nothing that matters yet; all input was consumed.
    More,
    /// The last this many of the consumed bytes are data.
    Data(usize),
    /// The body ended with the last consumed byte.
    End,
}

/// The coding is broken; where the body ends is not known any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body's chunks are malformed")]
pub struct ChunkError;

impl Default for ChunkReader {
    fn default() -> Self {
        Self { state: State::Size { value: 0, digits: 0 }, line: 0, trailers: Vec::new() }
    }
}

impl ChunkReader {
    /// Consumes bytes of `input` up to the end of a run of data, the end of the body or the end of the input, and
    /// says how many and what they were.
    pub fn next(&mut self, input: &[u8]) -> Result<(usize, Piece), ChunkError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Done => return Ok((at, Piece::End)),
                State::Data { left } if at < input.len() => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                    let left = left - length as u64;
                    self.state = if left == 0 { State::DataCr } else { State::Data { left } };
                    return Ok((at + length, Piece::Data(length)));
                }
                _ => {}
            }
            let Some(&byte) = input.get(at) else {
                return Ok((at, Piece::More));
            };
            self.state = self.step(byte)?;
            if matches!(
                self.state,
                State::TrailerName | State::TrailerColon | State::TrailerValue | State::TrailerLf
            ) {
                self.trailers.push(byte);
            }
            at += 1;
        }
    }

    /// The trailers of a body that has ended, at most [`MAX_CHUNK_LINE`] bytes of them.
    pub fn trailers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        // A value has no carriage return, and behind each stands one.
        let lines = self.trailers.split(|byte| *byte == b'\r').filter(|line| !line.is_empty());
        lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((std::str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
        })
    }

    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        self.line += 1;
        if self.line > MAX_CHUNK_LINE {
            return Err(ChunkError);
        }
        let text = byte == b'\t' || byte >= b' ' && byte != 0x7f;
        Ok(match (self.state, byte) {
            (State::Size { value, digits }, _) if byte.is_ascii_hexdigit() && digits < 16 => {
                let digit = char::from(byte).to_digit(16).ok_or(ChunkError)?;
                State::Size { value: value << 4 | u64::from(digit), digits: digits + 1 }
            }
            (State::Size { value, digits: 1.. }, b';') => State::Extension { size: value },
            (State::Size { value: size, digits: 1.. } | State::Extension { size }, b'\r') => {
                State::SizeLf { size }
            }
            (State::Extension { size }, _) if text => State::Extension { size },
            (State::SizeLf { size }, b'\n') => {
                self.line = 0;
                if size == 0 { State::TrailerStart } else { State::Data { left: size } }
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => {
                self.line = 0;
                State::Size { value: 0, digits: 0 }
            }
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::TrailerName, b':') => {
                // They are written with a space here: what is sent on is within the limit as well.
                self.line += 1;
                State::TrailerColon
            }
            (State::TrailerColon, b' ') => {
                self.line -= 1;
                State::TrailerValue
            }
            (State::TrailerStart | State::TrailerName, _) if is_token(byte) => State::TrailerName,
            (State::TrailerColon | State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerColon | State::TrailerValue, _) if text => State::TrailerValue,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::EndLf, b'\n') => State::Done,
            _ => return Err(ChunkError),
        })
    }
}

/// The size line that stands before `length` bytes of data; [`CHUNK_END`] stands behind them.
pub fn chunk_start(length: usize) -> Vec<u8> {
    format!("{length:x}\r\n").into_bytes()
}

/// What stands behind the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";
/// What stands behind the last chunk, before its trailers and an empty line.
pub const LAST_CHUNK: &[u8] = b"0\r\n";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The data and the length of the body, when it ends within `input`, which comes in pieces of `cut` bytes.
    fn read(input: &[u8], cut: usize) -> Result<Option<(Vec<u8>, usize)>, ChunkError> {
        let (mut reader, mut data, mut total) = (ChunkReader::default(), Vec::new(), 0);
        for piece in input.chunks(cut) {
            let mut rest = piece;
            loop {
                let (used, what) = reader.next(rest)?;
                total += used;
                match what {
                    Piece::More => break,
                    Piece::End => return Ok(Some((data, total))),
                    Piece::Data(length) => data.extend_from_slice(&rest[used - length..used]),
                }
                rest = &rest[used..];
            }
        }
        Ok(None)
    }

    #[test]
    fn bodies_are_read_strictly_however_they_are_cut() {
        let long = [b"1;", &vec![b'a'; MAX_CHUNK_LINE][..], b"\r\n"].concat();
        let cases: &[(&[u8], Option<&[u8]>)] = &[
            (b"0\r\n\r\n", Some(b"")),
            (b"4\r\nabcd\r\n0\r\n\r\n", Some(b"abcd")),
            (b"4\r\nabcd\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\n\r\n", Some(b"abcd0123456789")),
            (b"1\r\na\r\n0\r\nX-T: v\r\nY: \xff\r\n\r\n", Some(b"a")),
            (b"-1\r\n\r\n", None),
            (b"+1\r\na\r\n", None),
            (b"0x1\r\na\r\n", None),
            (b" 1\r\na\r\n", None),
            (b"1 \r\na\r\n", None),
            (b"\r\n", None),
            (b";x\r\n", None),
            (b"1\na\r\n", None),
            (b"1\ra\r\n", None),
            (b"1;a\nb\r\n", None),
            (b"1\r\nab\r\n", None),
            (b"1\r\na\n", None),
            (b"1\r\na0\r\n\r\n", None),
            (b"12345678901234567\r\n", None),
            (b"0\r\n X: y\r\n\r\n", None),
            (b"0\r\n: y\r\n\r\n", None),
            (b"0\r\nX\r\n\r\n", None),
            (b"0\r\nA)b: y\r\n\r\n", None),
            (b"0\r\nX: a\nY: b\r\n\r\n", None),
            (b"0\r\n\n", None),
            (&long, None),
        ];
        for (input, want) in cases {
            for cut in 1..=input.len().min(9) {
                let got = read(input, cut);
                match want {
                    Some(data) => {
                        assert_eq!(got, Ok(Some((data.to_vec(), input.len()))), "{input:?} by {cut}")
                    }
                    None => assert_eq!(got, Err(ChunkError), "{:?} by {cut}", String::from_utf8_lossy(input)),
                }
            }
        }
        assert_eq!(read(b"1\r\na\r\n0\r\n\r\nGET /", 100), Ok(Some((b"a".to_vec(), 11))));
        assert_eq!(read(b"ffffffffffffffff\r\nabc", 100), Ok(None));
    }

    #[test]
    fn trailers_are_what_stands_behind_the_last_chunk() {
        let body = b"1;X: y\r\na\r\n0;Z: 1\r\nA: b c \r\nD:\r\nE:\tf:g\r\n\r\nH: i\r\n\r\n";
        for cut in 1..body.len() {
            let mut reader = ChunkReader::default();
            'pieces: for piece in body.chunks(cut) {
                let mut rest = piece;
                loop {
                    let (used, what) = reader.next(rest).unwrap();
                    match what {
                        Piece::More => continue 'pieces,
                        Piece::End => break 'pieces,
                        Piece::Data(_) => rest = &rest[used..],
                    }
                }
            }
            let trailers: Vec<_> = reader.trailers().collect();
            assert_eq!(trailers, [("A", &b"b c"[..]), ("D", b""), ("E", b"f:g")], "by {cut}");
        }
        assert_eq!(ChunkReader::default().trailers().count(), 0);
        // What is sent on has a space behind each colon, and counts as much.
        let field = format!("a:{}\r\n", "b".repeat(MAX_CHUNK_LINE - 8));
        for (fields, fits) in [(field.clone(), true), (field + "c:\r\n", false)] {
            assert_eq!(read(format!("0\r\n{fields}\r\n").as_bytes(), 100).is_ok(), fits);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_the_same_however_cut(
            input in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'2'), any::<u8>()], 0..60),
            cut in 1usize..8,
        ) {
            prop_assert_eq!(read(&input, 64), read(&input, cut));
        }
    }
}

//! The chunked coding. The first byte says how the rest is cut for the second reading.

use std::borrow::Cow;

use ai_jail::egress::chunk::{CHUNK_END, ChunkReader, Piece, chunk_start};
use ai_jail::egress::rewrite::{body_end, is_trailer};

use super::cuts;
use super::message::{chunks, trailers};

pub fn check(input: &[u8]) {
    let Some((cut, input)) = input.split_first() else { return };
    let whole = read([input]);
    assert_eq!(read(cuts(input, *cut)), whole, "cut by {cut}");
    match &whole.end {
        End::There(length) => {
            assert_eq!(
                chunks(input),
                Some((whole.data.clone(), *length)),
                "another reader sees another body"
            );
            assert_eq!(read([&input[..*length]]), whole, "what follows a body changes it");
            let mut passed = trailers(input).unwrap_or_default();
            passed.retain(|(name, _)| is_trailer(name));
            assert_eq!(trailers(&whole.sent), Some(passed), "other trailers are sent on");
        }
        End::Missing => assert_eq!(chunks(input), None, "another reader sees an end"),
        End::Broken => {}
    }
    if whole.end != End::Broken {
        // What is sent on is one body of the same data.
        let length = whole.sent.len();
        assert_eq!(chunks(&whole.sent), Some((whole.data.clone(), length)), "{}", whole.sent.escape_ascii());
        let again = read([&whole.sent[..]]);
        assert!(again.data == whole.data && again.end == End::There(length));
    }
}

/// What a body turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub struct Body {
    pub data: Vec<u8>,
    pub end: End,
    /// As it is sent on; the end is there even where the input has none.
    pub sent: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// Behind this many bytes.
    There(usize),
    Missing,
    Broken,
}

/// Reads a body that comes in `pieces` and writes its chunks anew, as the doors do.
pub fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Body {
    let (mut reader, mut data, mut total, mut end) = (ChunkReader::default(), Vec::new(), 0, End::Missing);
    'pieces: for piece in pieces {
        let mut rest = piece;
        loop {
            let Ok((used, what)) = reader.next(rest) else {
                end = End::Broken;
                break 'pieces;
            };
            total += used;
            match what {
                Piece::More => {
                    assert_eq!(used, rest.len(), "bytes are left");
                    continue 'pieces;
                }
                Piece::Data(count) => {
                    assert!(0 < count && count <= used, "{count} of {used}");
                    data.extend_from_slice(&rest[used - count..used]);
                }
                Piece::End => {
                    end = End::There(total);
                    break 'pieces;
                }
            }
            rest = &rest[used..];
        }
    }
    // Where the data was cut is not part of what was read; the chunks that are sent are of one size.
    let sent = data.chunks(97).map(|run| [&chunk_start(run.len())[..], run, CHUNK_END].concat());
    // Without an end there are no trailers yet.
    let trailers = reader.trailers().filter(|_| matches!(end, End::There(_)));
    let behind = body_end(trailers, |name, value| (Cow::Borrowed(name.as_bytes()), Cow::Borrowed(value)));
    let sent = sent.chain([behind]).collect::<Vec<_>>().concat();
    Body { data, end, sent }
}

//! The second reader of HTTP: httparse, with the end of a body found as RFC 9112 says.

use httparse::{EMPTY_HEADER, Header, Status, parse_chunk_size, parse_headers};

/// A head as httparse reads it.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// The words of the first line: method and target, or the status.
    pub first: Vec<String>,
    /// 0 or 1.
    pub minor: u8,
    pub fields: Vec<(String, Vec<u8>)>,
    /// Bytes, with the empty line.
    pub length: usize,
}

impl Head {
    pub fn request(bytes: &[u8]) -> Option<Self> {
        let mut fields = [EMPTY_HEADER; 300];
        let mut request = httparse::Request::new(&mut fields);
        let Ok(Status::Complete(length)) = request.parse(bytes) else { return None };
        let first = [request.method?, request.path?].map(str::to_owned).to_vec();
        Some(Self { first, minor: request.version?, fields: owned(request.headers), length })
    }

    pub fn response(bytes: &[u8]) -> Option<Self> {
        let mut fields = [EMPTY_HEADER; 300];
        let mut response = httparse::Response::new(&mut fields);
        let Ok(Status::Complete(length)) = response.parse(bytes) else { return None };
        let first = vec![response.code?.to_string()];
        Some(Self { first, minor: response.version?, fields: owned(response.headers), length })
    }

    /// All values of the field.
    pub fn all(&self, name: &str) -> Vec<&[u8]> {
        let fields = self.fields.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value.as_slice()).collect()
    }

    /// The data of the body and its length on the wire, in a message of which `rest` follows the head; `None` when it
    /// does not end in it.
    pub fn body(&self, rest: &[u8]) -> Option<(Vec<u8>, usize)> {
        match (self.all("transfer-encoding")[..].first(), self.all("content-length")[..].first()) {
            (Some(_), _) => chunks(rest),
            (None, Some(length)) => {
                let length = std::str::from_utf8(length).ok()?.parse().ok()?;
                Some((rest.get(..length)?.to_vec(), length))
            }
            (None, None) => Some((Vec::new(), 0)),
        }
    }
}

fn owned(fields: &[Header<'_>]) -> Vec<(String, Vec<u8>)> {
    fields.iter().map(|field| (field.name.to_owned(), field.value.to_vec())).collect()
}

/// The data of a chunked body and its length on the wire; `None` when it does not end in `input`.
pub fn chunks(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    whole(input).map(|(data, _, length)| (data, length))
}

/// The trailers of a chunked body that ends within `input`.
pub fn trailers(input: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    whole(input).map(|(_, trailers, _)| trailers)
}

/// The data, the trailers and the length of a chunked body.
type Whole = (Vec<u8>, Vec<(String, Vec<u8>)>, usize);

fn whole(input: &[u8]) -> Option<Whole> {
    let (mut data, mut at) = (Vec::new(), 0);
    loop {
        let Ok(Status::Complete((line, size))) = parse_chunk_size(&input[at..]) else { return None };
        at += line;
        if size == 0 {
            let mut trailers = [EMPTY_HEADER; 4096];
            let Ok(Status::Complete((length, trailers))) = parse_headers(&input[at..], &mut trailers) else {
                return None;
            };
            let trailers = trailers.iter().map(|field| (field.name.to_owned(), field.value.to_vec()));
            return Some((data, trailers.collect(), at + length));
        }
        let end = at.checked_add(usize::try_from(size).ok()?)?;
        data.extend_from_slice(input.get(at..end)?);
        at = end + input.get(end..)?.starts_with(b"\r\n").then_some(2)?;
    }
}

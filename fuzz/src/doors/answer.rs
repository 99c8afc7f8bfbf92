//! The answer of the proxy outside to CONNECT. The first byte says how the rest is cut for the second reading.

use ai_jail::egress::proxy_answer::{status, up_to_end};

use super::cuts;
use super::message::Head;

const END: &[u8] = b"\r\n\r\n";

pub fn check(input: &[u8]) {
    let Some((cut, input)) = input.split_first() else { return };
    let head = read([input]);
    assert_eq!(read(cuts(input, *cut)), head, "cut by {cut}");
    let end = input.windows(END.len()).position(|window| window == END).map(|at| at + END.len());
    assert_eq!(
        head,
        &input[..end.unwrap_or(input.len())],
        "a byte of the host is lost, or one of the head is left"
    );
    let Some(end) = end else { return };
    let status = status(&head);
    assert!(status.is_none_or(|status| (100..600).contains(&status)), "{status:?}");
    // An empty line before the head, which others skip, is no status line; nor is one that ends it earlier its end.
    if let Some(seen) = Head::response(input)
        .filter(|seen| seen.length == end && !input.starts_with(b"\r") && !input.starts_with(b"\n"))
    {
        let seen = seen.first[0].parse::<u16>().ok().filter(|status| (100..600).contains(status));
        assert_eq!(status, seen, "{}", head.escape_ascii());
    }
}

/// What is taken for the head when it comes in `pieces`, of which nothing is taken behind it.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut head = Vec::new();
    for piece in pieces {
        if head.ends_with(END) {
            break;
        }
        let wanted = up_to_end(&head, piece);
        assert!(wanted <= piece.len() && (0 < wanted || piece.is_empty()), "{wanted} of {}", piece.len());
        head.extend_from_slice(&piece[..wanted]);
    }
    head
}

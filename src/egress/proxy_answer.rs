//! PURE: the answer of the proxy outside to CONNECT. Of its head nothing counts but the status, and where it ends: the
//! host's first bytes may follow at once.

/// What a head ends with.
pub const END: &[u8] = b"\r\n\r\n";

/// How many of `next` belong to a head that so far is `head`.
pub fn up_to_end(head: &[u8], next: &[u8]) -> usize {
    let kept = head.len().min(END.len() - 1);
    let joined = [&head[head.len() - kept..], next].concat();
    let end = joined.windows(END.len()).position(|window| window == END);
    end.map_or(next.len(), |at| (at + END.len()).saturating_sub(kept).min(next.len()))
}

/// The status of the answer `head`, 100 to 599; `None` when its first line is none of HTTP/1.
pub fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
    let rest = line.strip_prefix(b"HTTP/1.")?.get(1..)?.strip_prefix(b" ")?;
    let digits = rest.get(..3).filter(|_| rest.len() == 3 || rest[3] == b' ')?;
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_ends_where_it_ends_however_it_is_cut() {
        let answer = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nSSH-2.0-x";
        let end = answer.len() - b"SSH-2.0-x".len();
        for first in 0..end {
            assert_eq!(up_to_end(&[], &answer[..first]), first);
            assert_eq!(up_to_end(&answer[..first], &answer[first..]), end - first, "{first}");
        }
    }

    #[test]
    fn only_a_status_line_is_one() {
        for (head, want) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Some(200)),
            ("HTTP/1.0 407\r\n\r\n", Some(407)),
            ("HTTP/1.1 407\nVia: x\r\n\r\n", Some(407)),
            ("HTTP/1.1 2000 OK\r\n\r\n", None),
            ("HTTP/2 200\r\n\r\n", None),
            ("SSH-2.0\r\n\r\n", None),
            ("HTTP/1.1 099 x\r\n\r\n", None),
            ("HTTP/1.", None),
        ] {
            assert_eq!(status(head.as_bytes()), want, "{head}");
        }
    }
}

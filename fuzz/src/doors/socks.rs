//! SOCKS5 greetings and requests. The first byte says how the rest is cut for the second reading.

use ai_jail::egress::socks::{Message, greeting, request};
use ai_jail::policy::authority::{Authority, Host};

use super::{authority, growing};

/// No message is longer (bytes).
const LONGEST: usize = 262;

pub fn check(input: &[u8]) {
    let Some((cut, input)) = input.split_first() else { return };
    once_is_always(input, *cut, greeting);
    once_is_always(input, *cut, request);
    if let Message::Whole(true, length) = greeting(input) {
        assert!(input[2..length].contains(&0), "without a login was not offered: {:?}", &input[..length]);
    }
    if let Message::Whole(Ok(target), length) = request(input) {
        check_target(&input[..length], &target);
    }
}

fn once_is_always<T: PartialEq + std::fmt::Debug>(
    input: &[u8],
    cut: u8,
    parse: impl Fn(&[u8]) -> Message<T>,
) {
    let Message::Whole(found, length) = parse(input) else {
        assert!(input.len() < LONGEST, "{} bytes are not enough", input.len());
        return growing(input, cut)
            .for_each(|length| assert_eq!(parse(&input[..length]), Message::Incomplete));
    };
    assert!(length <= input.len());
    for seen in growing(input, cut) {
        match parse(&input[..seen]) {
            Message::Incomplete => assert!(seen < length, "{seen} of {length} bytes"),
            // Where the length is not known the connection ends, and what was read of it counts no more.
            Message::Whole(early, taken) => {
                assert_eq!(early, found, "{seen} of {length} bytes");
                assert!(taken == length || taken == seen, "{taken} of {length} bytes");
            }
        }
    }
}

/// Reads the request by itself.
fn check_target(message: &[u8], target: &Authority) {
    assert!(message[0] == 5 && message[1] == 1, "{message:?}");
    let (sent, port) = message[4..].split_at(message.len() - 6);
    assert!(target.port != 0 && port == target.port.to_be_bytes(), "{message:?}");
    authority::canonical(&target.host);
    assert_eq!(Authority::parse(target.to_string().as_bytes()).as_ref(), Ok(target));
    let want = match (message[3], sent) {
        (1, [a, b, c, d]) => Host::Ip([*a, *b, *c, *d].into()),
        (3, [length, name @ ..]) if name.len() == usize::from(*length) => {
            let Ok(host) = Host::parse(name) else { panic!("{target} of {message:?}") };
            host
        }
        (4, address) => match <[u8; 16]>::try_from(address) {
            Ok(octets) => Host::Ip(std::net::IpAddr::from(octets).to_canonical()),
            Err(_) => panic!("{target} of {message:?}"),
        },
        _ => panic!("{target} of {message:?}"),
    };
    assert_eq!(target.host, want, "{message:?}");
}

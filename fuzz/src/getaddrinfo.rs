//! The C library as a witness: what it takes for an address must not be a name to us, nor another address.

use std::ffi::CString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ai_jail::policy::authority::{Authority, Host};

pub fn check(input: &[u8]) {
    let hosts = [Host::parse(input).ok(), Authority::parse(input).ok().map(|authority| authority.host)];
    for host in hosts.into_iter().flatten() {
        match host {
            Host::Name(name) => {
                let address = numeric(name.as_str().as_bytes());
                assert_eq!(address, None, "{name} is an address to the C library");
                let dotted = numeric(format!("{name}.").as_bytes());
                assert_eq!(dotted, None, "{name}. is an address to the C library");
            }
            Host::Ip(ip) => assert_eq!(numeric(ip.to_string().as_bytes()), Some(ip)),
        }
    }
    let bare = input.split(|byte| *byte == b':').next().unwrap_or_default();
    for text in [input, bare] {
        if let (Some(address), Ok(host)) = (numeric(text), Host::parse(text)) {
            assert_eq!(host, Host::Ip(address.to_canonical()), "{}", text.escape_ascii());
        }
    }
}

/// What `getaddrinfo(3)` takes `text` for without asking anybody.
fn numeric(text: &[u8]) -> Option<IpAddr> {
    let text = CString::new(text).ok()?;
    // SAFETY: all zeros are a valid addrinfo: numbers, and pointers that are null.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_flags = libc::AI_NUMERICHOST;
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut found = std::ptr::null_mut();
    // SAFETY: the pointers are to a string with its NUL, to hints, and to a place for the result, which live on.
    if unsafe { libc::getaddrinfo(text.as_ptr(), std::ptr::null(), &hints, &mut found) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so `found` is a list with at least one entry, whose address is of the size of its family.
    let address = unsafe {
        match (*found).ai_family {
            libc::AF_INET => {
                let address = (*found).ai_addr.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr))))
            }
            libc::AF_INET6 => {
                let address = (*found).ai_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
            }
            _ => None,
        }
    };
    // SAFETY: it is the list that the call made, and nothing points into it any more.
    unsafe { libc::freeaddrinfo(found) };
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_asked() {
        assert_eq!(numeric(b"0x7f.1"), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(numeric(b"::1"), Some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(numeric(b"example.com"), None);
    }
}

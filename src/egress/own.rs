//! The addresses of this machine's own interfaces, read when a door asks: a tunnel or a bridge may come up at any time.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was read stays good for this long. A connection is not made to wait for the kernel each time.
const FRESH: Duration = Duration::from_secs(1);

/// The addresses, and when they were read.
#[derive(Debug)]
pub(super) struct OwnAddresses(Mutex<(Instant, Arc<[IpAddr]>)>);

impl OwnAddresses {
    /// # Errors
    /// When the kernel does not say: then nothing can be told from this machine.
    pub(super) fn read() -> io::Result<Self> {
        Ok(Self(Mutex::new((Instant::now(), addresses()?.into()))))
    }

    /// The addresses of at most a second ago.
    pub(super) fn now(&self) -> Arc<[IpAddr]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0.elapsed() > FRESH {
            // When it fails, what was true before is the best there is.
            if let Ok(addresses) = addresses() {
                known.1 = addresses.into();
            }
            known.0 = Instant::now();
        }
        Arc::clone(&known.1)
    }

    /// These, for ever.
    #[cfg(test)]
    pub(super) fn fixed(addresses: &[IpAddr]) -> Self {
        Self(Mutex::new((Instant::now() + Duration::from_secs(3600), addresses.into())))
    }
}

/// What the kernel says now.
pub(crate) fn addresses() -> io::Result<Vec<IpAddr>> {
    let interfaces = nix::ifaddrs::getifaddrs().map_err(io::Error::from)?;
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
        v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
    });
    Ok(addresses.collect())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_loopback_address_is_among_them_now_and_later() {
        let own = OwnAddresses::read().unwrap();
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(own.now().contains(&loopback));
        *own.0.lock().unwrap() = (Instant::now() - 2 * FRESH, Arc::from([]));
        assert!(own.now().contains(&loopback), "what is old is read again");
    }
}

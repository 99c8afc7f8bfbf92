//! The host's roots, by which the hosts outside are verified: always, and in full.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio_rustls::rustls::client::{ClientConfig, Resumption};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{RootCertStore, version};

/// Sessions with hosts that can be gone on with.
const RESUMED: usize = 64;

/// The roots, read when the first host is verified.
pub struct Roots {
    pem: Vec<u8>,
    store: OnceLock<Arc<RootCertStore>>,
    configs: [OnceLock<Arc<ClientConfig>>; 4],
}

/// What is offered to a host outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// No protocol, as the client did: HTTP/1.1.
    Nothing,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// Either.
    Both,
}

impl Offer {
    /// What a client that offers `protocols` gets: of what it offers, what we speak.
    pub fn of<'a>(protocols: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut first, mut second) = (false, false);
        for protocol in protocols {
            first |= protocol == b"http/1.1";
            second |= protocol == b"h2";
        }
        match (first, second) {
            (true, true) => Self::Both,
            (false, true) => Self::Http2,
            (true, false) => Self::Http1,
            (false, false) => Self::Nothing,
        }
    }

    fn names(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Self::Nothing => &[],
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
            Self::Both => &[b"h2", b"http/1.1"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

impl Roots {
    /// The roots of a bundle, PEM.
    pub fn new(pem: Vec<u8>) -> Self {
        Self { pem, store: OnceLock::new(), configs: Default::default() }
    }

    /// How a host is spoken to when `offer` is offered.
    pub fn client(&self, offer: Offer) -> Arc<ClientConfig> {
        let made = self.configs[offer as usize].get_or_init(|| {
            let roots = Arc::clone(self.store.get_or_init(|| Arc::new(self.read())));
            let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                .with_protocol_versions(&[&version::TLS13, &version::TLS12]);
            // Both versions are the provider's own.
            let builder = builder.unwrap_or_else(|_| ClientConfig::builder());
            let mut config = builder.with_root_certificates(roots).with_no_client_auth();
            config.alpn_protocols = offer.names();
            config.resumption = Resumption::in_memory_sessions(RESUMED);
            Arc::new(config)
        });
        Arc::clone(made)
    }

    /// Roots that cannot be used verify nothing, so that they are left out.
    fn read(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(CertificateDer::pem_slice_iter(&self.pem).flatten());
        store
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Roots")
    }
}

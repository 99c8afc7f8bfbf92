//! The authority of one session: its key never leaves this memory, and what it signs is of no use anywhere else.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use time::{Duration, OffsetDateTime};
use tokio_rustls::rustls::crypto::ring::{default_provider, sign::any_ecdsa_type};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::{CertifiedKey, SigningKey};
use tokio_rustls::rustls::{ServerConfig, version};
use zeroize::Zeroize;

use crate::error::{Error, Kind, Result};
use crate::policy::authority::Host;

/// How long before it was made a certificate is valid: clocks of containers and of this machine differ a little.
const BEFORE: Duration = Duration::hours(1);
/// How long a session's certificates are valid. No session is longer, and public authorities sign for about as long.
const VALID: Duration = Duration::days(90);
/// Hosts whose certificates are kept. One costs a signature (some 0.1 ms), so that the bound costs little.
const MAX_LEAVES: usize = 1024;

/// What the client and the host outside agreed to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alpn {
    /// Nothing was agreed: HTTP/1.1.
    None,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Alpn {
    /// The protocol's registered name.
    pub fn name(self) -> Option<&'static [u8]> {
        match self {
            Self::None => None,
            Self::Http1 => Some(b"http/1.1"),
            Self::Http2 => Some(b"h2"),
        }
    }
}

/// The authority of a session.
pub struct SessionCa {
    issuer: Issuer<'static, AuthorityKey>,
    certificate: Certificate,
    pem: String,
    /// One key for all hosts: whoever reads one of them has this memory, and so all others.
    leaf_key: KeyPair,
    signing: Arc<dyn SigningKey>,
    made: OffsetDateTime,
    configs: Mutex<HashMap<(Host, Alpn), Arc<ServerConfig>>>,
}

impl SessionCa {
    /// Makes an authority at the time `now`.
    pub fn new(now: OffsetDateTime) -> Result<Self> {
        let key = AuthorityKey(KeyPair::generate().map_err(failed)?);
        let mut params = CertificateParams::default();
        // A name of its own for each session: a program that keeps an old one must not take it for this one.
        let serial: Vec<u8> = key.0.public_key_raw().iter().rev().take(16).map(|byte| byte & 0x7f).collect();
        let unique: String = serial.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, format!("ai-jail session {unique}"));
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = (now - BEFORE, now + VALID);
        let certificate = params.self_signed(&key).map_err(failed)?;
        let leaf_key = KeyPair::generate().map_err(failed)?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
        let signing = any_ecdsa_type(&der).map_err(failed)?;
        let pem = certificate.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, certificate, pem, leaf_key, signing, made: now, configs: Mutex::default() })
    }

    /// The authority's certificate, PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    /// The authority's certificate, DER.
    pub fn certificate_der(&self) -> &CertificateDer<'static> {
        self.certificate.der()
    }

    /// How to be `host` towards the jail's programs, for those that agree to `alpn`.
    pub fn server(&self, host: &Host, alpn: Alpn) -> Result<Arc<ServerConfig>> {
        let key = (host.clone(), alpn);
        if let Some(config) = self.configs().get(&key) {
            return Ok(Arc::clone(config));
        }
        let leaf = Arc::new(CertifiedKey::new(vec![self.leaf(host)?], Arc::clone(&self.signing)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(One(leaf)));
        config.alpn_protocols = alpn.name().map(<[u8]>::to_vec).into_iter().collect();
        let config = Arc::new(config);
        let mut configs = self.configs();
        if configs.len() >= MAX_LEAVES {
            configs.clear();
        }
        configs.insert(key, Arc::clone(&config));
        Ok(config)
    }

    fn leaf(&self, host: &Host) -> Result<CertificateDer<'static>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "made by ai-jail for this session");
        params.subject_alt_names = vec![match host {
            Host::Name(name) => SanType::DnsName(name.to_string().try_into().map_err(failed)?),
            Host::Ip(ip) => SanType::IpAddress(*ip),
        }];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (self.made - BEFORE, self.made + VALID);
        let certificate = params.signed_by(&self.leaf_key, &self.issuer).map_err(failed)?;
        Ok(certificate.into())
    }

    fn configs(&self) -> std::sync::MutexGuard<'_, HashMap<(Host, Alpn), Arc<ServerConfig>>> {
        self.configs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SessionCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCa")
    }
}

impl Drop for SessionCa {
    fn drop(&mut self) {
        self.leaf_key.zeroize();
    }
}

/// The authority's key, which is overwritten at the end.
struct AuthorityKey(KeyPair);

impl Drop for AuthorityKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl rcgen::PublicKeyData for AuthorityKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl rcgen::SigningKey for AuthorityKey {
    fn sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message)
    }
}

/// The certificate for one host, whatever name a client sends: that it is the host's was checked before.
#[derive(Debug)]
struct One(Arc<CertifiedKey>);

impl ResolvesServerCert for One {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn failed(error: impl fmt::Display) -> Error {
    Error::new(Kind::Setup, "cannot make the session's certificates").because(error)
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use crate::tls::objection::objection;
    use crate::tls::roots::{Offer, Roots};

    fn host(text: &str) -> Host {
        Host::parse(text.as_bytes()).unwrap()
    }

    async fn meet(ca: &SessionCa, roots: &Roots, host: &Host, asked: &str) -> io::Result<Option<Vec<u8>>> {
        let (inside, outside) = tokio::io::duplex(64 * 1024);
        let acceptor = TlsAcceptor::from(ca.server(host, Alpn::Http2).unwrap());
        let connector = TlsConnector::from(roots.client(Offer::Both));
        let name = ServerName::try_from(asked.to_owned()).unwrap();
        let (client, _server) = tokio::join!(connector.connect(name, inside), acceptor.accept(outside));
        client.map(|client| client.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
    }

    #[tokio::test]
    async fn a_host_is_whom_it_is_asked_for_to_those_who_trust_the_session_alone() {
        let now = OffsetDateTime::now_utc();
        let (ca, other) = (SessionCa::new(now).unwrap(), SessionCa::new(now).unwrap());
        let roots = Roots::new(ca.certificate_pem().as_bytes().to_vec());
        for (text, asked) in [("api.test", "api.test"), ("192.0.2.1", "192.0.2.1"), ("[::1]", "::1")] {
            let alpn = meet(&ca, &roots, &host(text), asked).await.unwrap();
            assert_eq!(alpn.as_deref(), Some(&b"h2"[..]), "{text}");
        }
        let wrong = meet(&ca, &roots, &host("api.test"), "other.test").await.unwrap_err();
        assert_eq!(objection(&wrong), "its certificate is for another name");
        let unknown = meet(&other, &roots, &host("api.test"), "api.test").await.unwrap_err();
        assert!(objection(&unknown).contains("nobody whom this machine trusts"));
        assert_ne!(ca.certificate_pem(), other.certificate_pem());
    }

    #[tokio::test]
    async fn certificates_end() {
        let long_ago = OffsetDateTime::now_utc() - VALID - Duration::days(1);
        let ca = SessionCa::new(long_ago).unwrap();
        let roots = Roots::new(ca.certificate_pem().as_bytes().to_vec());
        let expired = meet(&ca, &roots, &host("api.test"), "api.test").await.unwrap_err();
        assert_eq!(objection(&expired), "its certificate has expired");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let ca = SessionCa::new(OffsetDateTime::now_utc()).unwrap();
        let first = ca.server(&host("a.test"), Alpn::None).unwrap();
        assert!(Arc::ptr_eq(&first, &ca.server(&host("a.test"), Alpn::None).unwrap()));
        for at in 0..MAX_LEAVES {
            ca.server(&host(&format!("h{at}.test")), Alpn::None).unwrap();
        }
        assert!(ca.configs().len() <= MAX_LEAVES);
    }
}

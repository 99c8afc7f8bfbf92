//! The session's certificate authority, and the roots that the jail's programs trust with it.

use std::path::Path;
use std::sync::Arc;

use time::OffsetDateTime;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::egress::inspect::Inspector;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::host::trust::{bundle, entries};
use crate::plan::late::Late;
use crate::plan::operation::AtLaunch;
use crate::policy::trust::{Java, TrustPlaces};
use crate::secrets::Vault;
use crate::tls::ca::SessionCa;
use crate::tls::jks::trust_store;
use crate::tls::roots::Roots;
use crate::tls::subject;

/// Makes an authority, and for the jail the roots with it: `place` is where they are found inside.
pub(super) fn inspector(
    host: &Host,
    places: &TrustPlaces,
    vault: Arc<Vault>,
    place: &Path,
    late: &mut Late,
    warnings: &mut Vec<String>,
) -> Result<Inspector> {
    let now = OffsetDateTime::now_utc();
    let ca = SessionCa::new(now)?;
    let outside = bundle(&places.roots);
    if outside.is_empty() {
        warnings.push(
            "this machine has no TLS roots: hosts that ai-jail looks into cannot be verified, and so not reached; \
             install ca-certificates, or set SSL_CERT_FILE where you start ai-jail"
                .to_owned(),
        );
    }
    let authority = ca.certificate_pem().as_bytes().to_vec();
    // First: what a program that reads one certificate alone takes.
    let mut inside = authority.clone();
    let same = places.tools.is_empty();
    let registries = if same { outside.clone() } else { bundle(places.roots.iter().chain(&places.tools)) };
    inside.extend_from_slice(&registries);
    if places.java != Java::None {
        let certificates: Vec<CertificateDer<'_>> =
            CertificateDer::pem_slice_iter(&inside).flatten().collect();
        let time = u64::try_from(now.unix_timestamp()).unwrap_or_default() * 1000;
        let store = trust_store(certificates.iter().map(|certificate| certificate.as_ref()), time);
        late.contents.insert(AtLaunch::JavaRoots, store);
    }
    late.contents.insert(AtLaunch::Roots, inside);
    late.contents.insert(AtLaunch::Authority, authority);
    let hash = subject::hash(ca.certificate_der()).ok_or_else(|| {
        Error::new(Kind::Setup, "the session's certificates cannot be made")
            .because("their issuer has no name")
    })?;
    let made = entries(host, places, place, &hash);
    late.operations.extend(made.operations);
    late.door.extend(made.door);
    warnings.extend(made.warnings);
    let roots = Arc::new(Roots::new(outside));
    let registry_roots = if same { Arc::clone(&roots) } else { Arc::new(Roots::new(registries)) };
    Ok(Inspector { ca, roots, registry_roots, vault })
}

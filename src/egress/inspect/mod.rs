//! Hosts whose traffic is read: TLS ends here and begins anew, verified in full, and every request between is decided
//! about, gets the secrets that belong there, and has them taken out of its answer.

mod body;
mod h1;
mod h2;
mod head;
mod stream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_rustls::client::TlsStream as Outer;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::rustls::{AlertDescription, Error as TlsError};
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};

use crate::egress::gate::Gate;
use crate::egress::http;
use crate::egress::opening;
use crate::egress::resolve::Upstream;
use crate::egress::wire::{Activity, Wire};
use crate::egress::{Door, SecretEvent, SecretUse, Verdict};
use crate::policy::authority::{Authority, Host};
use crate::secrets::{Channel, Noted, Outgoing, Vault};
use crate::tls::ca::{Alpn, SessionCa};
use crate::tls::objection::objection;
use crate::tls::roots::{Offer, Roots};

use self::stream::Wide;

/// What it takes to read the traffic with a host.
#[derive(Debug)]
pub struct Inspector {
    /// The session's authority, which the jail's programs trust.
    pub ca: SessionCa,
    /// The roots by which hosts outside are verified.
    pub roots: Arc<Roots>,
    /// The roots for registries that no secret is bound to: with those that the tools themselves are configured with.
    pub registry_roots: Arc<Roots>,
    /// The secrets, which are never in the jail.
    pub vault: Arc<Vault>,
}

/// Why an answer is not passed on: it was asked for as it is.
const COMPRESSED: &str =
    "its answer is compressed although that was not asked for, so that it cannot be searched for secrets";

/// A connection to the host outside, verified.
type Outside = Outer<Wide>;

/// One connection from the jail to a host whose traffic is read.
struct Session {
    gate: Arc<Gate>,
    inspector: Arc<Inspector>,
    door: Door,
    target: Authority,
    activity: Activity,
    /// Whether some secret belongs to the host: then answers are searched.
    bound: bool,
}

/// Why the host outside cannot be spoken to: one line for the client.
struct Unreachable(String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads the traffic between a client and `target`, to which `upstream` leads, until either ends it. The target was
/// allowed, and the observer knows.
pub(super) async fn serve(
    gate: &Arc<Gate>,
    inspector: &Arc<Inspector>,
    door: Door,
    target: &Authority,
    mut wire: Wire,
    upstream: Upstream,
) {
    let session = Arc::new(Session {
        gate: Arc::clone(gate),
        inspector: Arc::clone(inspector),
        door,
        target: target.clone(),
        activity: Activity::new(),
        bound: inspector.vault.is_bound_to(target),
    });
    match opening::check_tls(gate, &mut wire, target).await {
        Ok(()) => session.wait_and_open(wire, upstream).await,
        Err(Some(objection)) => gate.tell(door, target, opening::denied_inspected(target, &objection)),
        Err(None) => {}
    }
    let (up, down) = session.activity.totals();
    gate.tell(door, target, Verdict::Closed { up, down });
}

impl Session {
    /// Opens it when there is room: a client that says nothing takes none.
    async fn wait_and_open(self: &Arc<Self>, wire: Wire, upstream: Upstream) {
        let permit = timeout(self.gate.deadlines.head, self.gate.inspected.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return self.tell_failed(format!(
                "ai-jail: a connection to {} was cut: too many connections are read at once",
                self.target
            ));
        };
        self.open(wire, upstream).await;
    }

    async fn open(self: &Arc<Self>, wire: Wire, upstream: Upstream) {
        let Wire { stream, ahead } = wire;
        let deadline = self.gate.deadlines.head;
        let hello = LazyConfigAcceptor::new(Acceptor::default(), Wide::client(ahead, stream));
        // It was read before: that it cannot be read now is a client that left.
        let Ok(Ok(start)) = timeout(deadline, hello).await else { return };
        let offer = Offer::of(start.client_hello().alpn().into_iter().flatten());
        let outside = self.secure(upstream, offer).await;
        let alpn = match &outside {
            Ok(outside) => match outside.get_ref().1.alpn_protocol() {
                Some(b"h2") => Alpn::Http2,
                // What it did not choose, it speaks nevertheless.
                _ if offer == Offer::Nothing => Alpn::None,
                _ => Alpn::Http1,
            },
            Err(_) => match offer {
                Offer::Nothing => Alpn::None,
                Offer::Http2 => Alpn::Http2,
                Offer::Http1 | Offer::Both => Alpn::Http1,
            },
        };
        let config = match self.inspector.ca.server(&self.target.host, alpn) {
            Ok(config) => config,
            Err(error) => {
                return self.tell_failed(format!("ai-jail: {} is allowed, but {error}", self.target));
            }
        };
        let client = match timeout(deadline, start.into_stream(config)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) if refused(&error) => {
                return self.tell_failed(format!(
                    "ai-jail: a program did not accept the session's certificate for {} ({error}): it trusts its own \
                     list alone, or reads none of the variables for that; /run/ai-jail/ca-certificates.pem is what it \
                     has to trust",
                    self.target
                ));
            }
            // It went away, which clients do.
            Ok(Err(_)) | Err(_) => return,
        };
        match alpn {
            Alpn::Http2 => h2::serve(self, client, outside).await,
            Alpn::Http1 | Alpn::None => h1::serve(self, client, outside).await,
        }
    }

    /// A new connection to the host, for one that was closed.
    async fn connect(&self, offer: Offer) -> Result<Outside, Unreachable> {
        let allowed =
            self.gate.admit(self.door, &self.target).map_err(|denial| Unreachable(denial.to_string()))?;
        let upstream = http::dial(&self.gate, self.door, &self.target, allowed.dial)
            .await
            .map_err(|error| Unreachable(error.to_string()))?;
        self.secure(upstream, offer).await
    }

    /// TLS with the host. What it is told before it is verified is its own name.
    async fn secure(&self, upstream: Upstream, offer: Offer) -> Result<Outside, Unreachable> {
        let name = match &self.target.host {
            Host::Ip(ip) => ServerName::IpAddress((*ip).into()),
            Host::Name(name) => ServerName::try_from(name.to_string())
                .map_err(|_| self.unreachable("its name is no name in certificates"))?,
        };
        let registry = !self.bound && self.gate.policy.is_registry(&self.target);
        let roots = if registry { &self.inspector.registry_roots } else { &self.inspector.roots };
        let connector = TlsConnector::from(roots.client(offer));
        let limit = self.gate.deadlines.connect;
        match timeout(limit, connector.connect(name, Wide::outside(upstream))).await {
            Ok(Ok(outside)) => Ok(outside),
            Ok(Err(error)) => {
                Err(self.unreachable(&format!("{}; nothing was sent to it", objection(&error))))
            }
            Err(_) => Err(self.unreachable("TLS with it took too long")),
        }
    }

    /// The line for a client, which the observer hears too.
    fn unreachable(&self, why: &str) -> Unreachable {
        let line = format!("ai-jail: {} is allowed, but {why}", self.target);
        // Whatever the host had a part in.
        let line = String::from_utf8_lossy(&self.inspector.vault.scrub_value(line.as_bytes())).into_owned();
        self.tell_failed(line.clone());
        Unreachable(line)
    }

    fn tell_failed(&self, line: String) {
        self.gate.tell(self.door, &self.target, Verdict::Failed { line });
    }

    /// What is put in for fakes on their way to the host.
    fn outgoing(&self) -> Outgoing<'_> {
        self.inspector.vault.outgoing(&self.target, Channel::VerifiedTls)
    }

    /// Tells the observer what became of secrets on their way out.
    fn tell_noted(&self, noted: &Noted) {
        for name in &noted.used {
            self.gate.tell_secret(&self.target, name, SecretUse::Used);
        }
        for name in &noted.stray {
            self.gate.tell_stray(&self.inspector.vault, &self.target, name);
        }
    }

    /// Tells the observer of secrets that an answer held.
    fn tell_scrubbed(&self, noted: &Noted) {
        for name in &noted.used {
            self.gate.tell_secret(&self.target, name, SecretUse::Scrubbed);
        }
    }

    /// How long it may be quiet.
    fn idle(&self, half_closed: bool) -> Duration {
        if half_closed { self.gate.deadlines.half_closed } else { self.gate.deadlines.idle }
    }
}

/// Whether a client said that it does not take a certificate.
fn refused(error: &std::io::Error) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateUnknown, DecryptError, UnknownCA,
        UnsupportedCertificate,
    };
    let error = error.get_ref().and_then(|error| error.downcast_ref::<TlsError>());
    matches!(
        error,
        Some(TlsError::AlertReceived(
            AccessDenied
                | BadCertificate
                | CertificateExpired
                | CertificateUnknown
                | DecryptError
                | UnknownCA
                | UnsupportedCertificate
        ))
    )
}

impl Gate {
    /// Tells the observer of the fake of `name`, that nothing was put in for.
    pub(super) fn tell_stray(&self, vault: &Vault, target: &Authority, name: &str) {
        let what = if vault.belongs_to(name, target) { SecretUse::Misplaced } else { SecretUse::Stray };
        self.tell_secret(target, name, what);
    }

    /// Tells the observer what became of the secret `name` in the traffic with `target`.
    pub(super) fn tell_secret(&self, target: &Authority, name: &str, what: SecretUse) {
        let (name, host, port) = (name.to_owned(), target.host.to_string(), target.port);
        self.observer.secret(SecretEvent { name, host, port, what });
    }
}

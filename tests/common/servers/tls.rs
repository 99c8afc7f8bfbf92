//! The TLS half: a CA, and a server on a loopback port that answers with one function.

use std::convert::Infallible;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Journal, Recorded, Reply};

/// A certificate authority for one test.
pub struct TestCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl TestCa {
    /// A new one.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
        params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a CA") }
    }

    /// Writes the CA's certificate to `directory` and returns the file's path.
    pub fn write_to(&self, directory: &Path) -> PathBuf {
        let file = directory.join("test-ca.pem");
        std::fs::write(&file, self.issuer.pem()).expect("write the CA");
        file
    }

    /// Writes the certificate of `host` and its key to `directory` and returns the files' paths.
    pub fn write_server(&self, directory: &Path, host: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.issue(&[host]);
        let files = (directory.join(format!("{host}.pem")), directory.join(format!("{host}.key")));
        std::fs::write(&files.0, certificate.pem()).expect("write the certificate");
        std::fs::write(&files.1, key.serialize_pem()).expect("write the key");
        files
    }

    /// A certificate for `hosts`, and its key, in PEM.
    pub fn certificate(&self, hosts: &[&str]) -> (String, String) {
        let (leaf, key) = self.issue(hosts);
        (leaf.pem(), key.serialize_pem())
    }

    fn issue(&self, hosts: &[&str]) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("params");
        params.distinguished_name.push(rcgen::DnType::CommonName, hosts[0]);
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }

    fn server_config(&self, host: &str) -> ServerConfig {
        let (leaf, key) = self.issue(&[host]);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .expect("a server")
    }
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct TlsServer {
    /// The host that its certificate names.
    pub host: String,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// What it was asked.
    pub journal: Journal,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl TlsServer {
    /// Starts a server for `host` that answers each request with what `answer` returns.
    pub fn start(ca: &TestCa, host: &str, answer: fn(&Recorded) -> Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        listener.set_nonblocking(true).expect("non-blocking");
        let port = listener.local_addr().expect("address").port();
        let journal = Journal::default();
        let acceptor = TlsAcceptor::from(Arc::new(ca.server_config(host)));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn({
            let journal = journal.clone();
            move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(listener, acceptor, journal, answer) => {}
                        _ = stopped => {}
                    }
                });
            }
        });
        Self { host: host.into(), port, journal, _stop: stop }
    }

    /// The launcher's flag that sends the host's connections here.
    pub fn resolve_flag(&self) -> String {
        format!("--resolve={}=127.0.0.1:{}", self.host, self.port)
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    journal: Journal,
    answer: fn(&Recorded) -> Reply,
) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("listener");
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, journal) = (acceptor.clone(), journal.clone());
        tokio::spawn(async move {
            // A client that gives up in the middle is no failure of the server.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = hyper::service::service_fn(|request| respond(request, &journal, answer));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    journal: &Journal,
    answer: fn(&Recorded) -> Reply,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let recorded = Recorded {
        method: head.method.to_string(),
        path: head.uri.path_and_query().map_or("", |path| path.as_str()).to_owned(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let reply = answer(&recorded);
    journal.add(recorded);
    let response = Response::builder()
        .status(reply.status)
        .header("content-type", reply.content_type)
        .body(Full::new(Bytes::from(reply.body)))
        .expect("a response");
    Ok(response)
}

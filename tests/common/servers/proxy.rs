//! A tiny CONNECT proxy for control runs outside the jail: it sends named hosts to test servers and refuses
//! all others, and remembers who was asked for.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::TlsServer;

/// A proxy that runs until the test process ends.
#[derive(Debug)]
pub struct ConnectProxy {
    /// Its port on 127.0.0.1.
    pub port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ConnectProxy {
    /// Starts a proxy that knows these servers.
    pub fn start(servers: &[&TlsServer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let table: Vec<(String, u16)> =
            servers.iter().map(|server| (format!("{}:443", server.host), server.port)).collect();
        std::thread::spawn({
            let asked = Arc::clone(&asked);
            move || {
                for client in listener.incoming().flatten() {
                    let (table, asked) = (table.clone(), Arc::clone(&asked));
                    std::thread::spawn(move || serve(client, &table, &asked));
                }
            }
        });
        Self { port, asked }
    }

    /// The value for `HTTPS_PROXY`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The targets that were asked for, oldest first.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("lock").clone()
    }
}

/// A client that goes away ends its own connection only.
fn serve(client: TcpStream, table: &[(String, u16)], asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let target = first.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
    for line in lines.by_ref() {
        if line.ok()?.is_empty() {
            break;
        }
    }
    asked.lock().ok()?.push(target.clone());
    let mut client = client;
    let Some((_, port)) = table.iter().find(|(known, _)| *known == target) else {
        client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").ok()?;
        return None;
    };
    let server = TcpStream::connect(("127.0.0.1", *port)).ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (server, client);
    let _ = std::io::copy(&mut from_server, &mut to_client);
    let _ = to_client.shutdown(std::net::Shutdown::Both);
    Some(())
}

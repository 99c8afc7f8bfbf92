//! The doors to the network: what the launch makes of listeners, before the jail and while it runs.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::pin::Pin;

use tokio::sync::{mpsc, oneshot};

use crate::egress::{Doors, LateBind, PortDoor};
use crate::error::{Error, Kind, Result};
use crate::plan::{NetworkPlan, Plan};
use crate::policy::origin::Sourced;

use super::protocol::LISTENERS;
use super::supervisor::failed;

/// A socket in the jail's network namespace.
pub(super) enum Wanted {
    Listener(SocketAddrV4),
    Connection(SocketAddrV4),
}

/// Asks the warden for sockets in the jail's network namespace.
pub(super) struct Late {
    pub(super) wanted: mpsc::Sender<(Wanted, oneshot::Sender<io::Result<OwnedFd>>)>,
}

impl Late {
    async fn ask(&self, wanted: Wanted) -> io::Result<OwnedFd> {
        let (sender, receiver) = oneshot::channel();
        self.wanted.send((wanted, sender)).await.map_err(io::Error::other)?;
        receiver.await.map_err(io::Error::other)?
    }
}

impl LateBind for Late {
    fn bind(
        &self,
        addr: SocketAddrV4,
    ) -> Pin<Box<dyn Future<Output = io::Result<std::net::TcpListener>> + Send + '_>> {
        Box::pin(async move { Ok(self.ask(Wanted::Listener(addr)).await?.into()) })
    }

    fn connect(
        &self,
        addr: SocketAddrV4,
    ) -> Pin<Box<dyn Future<Output = io::Result<std::net::TcpStream>> + Send + '_>> {
        Box::pin(async move { Ok(self.ask(Wanted::Connection(addr)).await?.into()) })
    }
}

/// Listens on the ports of this machine's loopback that lead into the jail.
///
/// # Errors
/// When one is taken.
pub fn publish(plan: &Plan) -> Result<Vec<PortDoor>> {
    let NetworkPlan::Filtered(policy) = &plan.network else { return Ok(Vec::new()) };
    let listen = |port: &Sourced<u16>| {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port.value)).map_err(|error| {
            Error::new(Kind::Refused, format!("port {} cannot be published ({})", port.value, port.origin))
                .because(format!("listening on 127.0.0.1:{} failed: {error}", port.value))
                .hint(match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "ports below 1024 are root's: choose another port in the jail"
                    }
                    _ => "end what listens there, or choose another port in the jail",
                })
        })?;
        Ok(PortDoor { port: port.value, listener })
    };
    policy.publish.iter().map(listen).collect()
}

/// The doors of the listeners that the warden made in the jail's network namespace, and of what is published; `None` without any.
pub(super) fn doors(
    mut listeners: Vec<OwnedFd>,
    plan: &Plan,
    publish: Vec<PortDoor>,
) -> Result<Option<Doors>> {
    let further = listeners.split_off(listeners.len().min(LISTENERS));
    let ports = match &plan.network {
        NetworkPlan::Filtered(policy) => policy.forward.iter().map(|port| port.value).collect(),
        _ => Vec::new(),
    };
    if ports.len() != further.len() {
        return Err(failed(io::Error::other(format!(
            "{} listeners for {} ports",
            further.len(),
            ports.len()
        ))));
    }
    let forward = ports
        .into_iter()
        .zip(further)
        .map(|(port, listener)| PortDoor { port, listener: listener.into() })
        .collect();
    let listeners: [OwnedFd; LISTENERS] = match listeners.try_into() {
        Ok(listeners) => listeners,
        Err(none) if none.is_empty() => return Ok(None),
        Err(some) => {
            return Err(failed(io::Error::other(format!("{} listeners instead of {LISTENERS}", some.len()))));
        }
    };
    let [dns_udp, dns_tcp, http, https, proxy] = listeners;
    Ok(Some(Doors {
        dns_udp: dns_udp.into(),
        dns_tcp: dns_tcp.into(),
        http: http.into(),
        https: https.into(),
        proxy: proxy.into(),
        forward,
        publish,
    }))
}

//! Single ports from one loopback to the other (NET-9): of the host's to the jail, and of the jail's to the host.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::egress::decide::Dial;
use crate::egress::gate::Gate;
use crate::egress::wire::Activity;
use crate::egress::{Door, PortDoor, Verdict, listener, resolve, tunnel};
use crate::policy::authority::Authority;

/// Serves every port. Returns only when one of them fails for good; without any, never.
pub(super) async fn serve(
    gate: &Arc<Gate>,
    forward: Vec<PortDoor>,
    publish: Vec<PortDoor>,
) -> io::Result<Infallible> {
    let mut running = JoinSet::new();
    for PortDoor { port, listener } in forward {
        let (gate, listener) = (Arc::clone(gate), listener::adopt(listener)?);
        running.spawn(async move {
            listener::accept(&gate, listener, move |gate, stream| to_host(gate, stream, port)).await
        });
    }
    for PortDoor { port, listener } in publish {
        let (gate, listener) = (Arc::clone(gate), listener::adopt(listener)?);
        running.spawn(async move {
            listener::accept(&gate, listener, move |gate, stream| to_jail(gate, stream, port)).await
        });
    }
    match running.join_next().await {
        Some(ended) => ended.map_err(io::Error::other)?,
        None => std::future::pending().await,
    }
}

/// A connection of the jail's to a server of the host's: at 127.0.0.1, or else at ::1.
async fn to_host(gate: Arc<Gate>, client: TcpStream, port: u16) {
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let target = Authority::from(v4);
    gate.tell(Door::Forward, &target, Verdict::Allowed { rule: format!("--forward {port}") });
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    let first = resolve::direct(&gate, &target, Dial::Address(v4)).await;
    let upstream = match first {
        Ok(upstream) => Ok(upstream),
        Err(error) => resolve::direct(&gate, &target, Dial::Address(v6)).await.map_err(|_| error),
    };
    match upstream {
        Ok(upstream) => carry(&gate, Door::Forward, &target, &client, &upstream).await,
        Err(error) => gate.tell(Door::Forward, &target, Verdict::Failed { line: error.to_string() }),
    }
}

/// A connection of the host's to a server of the jail's. Nobody there is what a client of a closed port sees anywhere.
async fn to_jail(gate: Arc<Gate>, client: TcpStream, port: u16) {
    let target = Authority::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let Ok(_descriptor) = Arc::clone(&gate.descriptors).acquire_owned().await else { return };
    let Some(inside) = gate.connect_inside(port).await else { return };
    gate.tell(Door::Publish, &target, Verdict::Allowed { rule: format!("--publish {port}") });
    carry(&gate, Door::Publish, &target, &client, &inside).await;
}

async fn carry(gate: &Gate, door: Door, target: &Authority, client: &TcpStream, server: &TcpStream) {
    let activity = Activity::new();
    tunnel::run(client, server, &activity, &gate.deadlines).await;
    let (up, down) = activity.totals();
    gate.tell(door, target, Verdict::Closed { up, down });
}

//! Connections by name without a proxy: the address that a client connected to says which name it meant.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::egress::Door;
use crate::egress::decide::stream_check;
use crate::egress::gate::Gate;
use crate::egress::http::{self, Role};
use crate::egress::names::is_pooled;
use crate::egress::wire::Wire;
use crate::policy::authority::{Authority, Host};
use crate::policy::host_rule::StreamCheck;

/// Serves one connection. A denial is a close: there is no telling in which protocol the client would understand more.
pub(super) async fn serve(gate: Arc<Gate>, stream: TcpStream) {
    let Some(target) = (gate.original)(&stream).ok().and_then(|addr| meant(&gate, addr)) else {
        return;
    };
    let wire = Wire::new(stream);
    if target.port == 80 && stream_check(&gate.policy, &target) != Some(StreamCheck::DangerAnyBytes) {
        return http::serve(&gate, wire, Role::Origin { door: Door::Transparent, origin: target }).await;
    }
    let Ok(allowed) = gate.admit(Door::Transparent, &target) else {
        return;
    };
    if let Ok(upstream) = http::dial(&gate, Door::Transparent, &target, allowed.dial).await {
        http::tunnel(&gate, Door::Transparent, &target, wire, upstream).await;
    }
}

/// The target that `addr` stands for; `None` for an address of the pool that no name has.
fn meant(gate: &Gate, addr: SocketAddr) -> Option<Authority> {
    let IpAddr::V4(ip) = addr.ip().to_canonical() else {
        return Some(Authority::from(addr));
    };
    match gate.names.name_of(ip) {
        Some(name) => Some(Authority { host: Host::Name(name), port: addr.port() }),
        None if is_pooled(ip) => None,
        None => Some(Authority::from(addr)),
    }
}

//! The proxy door: HTTP and SOCKS share it and are told apart by the first byte (NET-14).

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::egress::gate::Gate;
use crate::egress::http::{self, Role};
use crate::egress::socks;
use crate::egress::wire::Wire;

/// Serves one connection.
pub(super) async fn serve(gate: Arc<Gate>, stream: TcpStream) {
    let mut wire = Wire::new(stream);
    let Ok(Ok(1..)) = timeout(gate.deadlines.head, wire.fill()).await else {
        return;
    };
    match wire.ahead.first() {
        Some(4 | 5) => socks::serve(&gate, wire).await,
        _ => http::serve(&gate, wire, Role::Proxy).await,
    }
}

//! The proxy door: HTTP and SOCKS share it and are told apart by the first byte (NET-14).

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::egress::gate::Gate;
use crate::egress::http::{self, Role};
use crate::egress::wire::{Wire, write_all};

/// "No acceptable method" (RFC 1928, 3).
const SOCKS5_REFUSED: &[u8] = &[5, 0xff];
/// "Request rejected", with the six bytes that SOCKS4 ignores.
const SOCKS4_REFUSED: &[u8] = &[0, 0x5b, 0, 0, 0, 0, 0, 0];

/// Serves one connection.
pub(super) async fn serve(gate: Arc<Gate>, stream: TcpStream) {
    let mut wire = Wire::new(stream);
    let Ok(Ok(1..)) = timeout(gate.deadlines.head, wire.fill()).await else {
        return;
    };
    let refusal = match wire.ahead.first() {
        Some(5) => SOCKS5_REFUSED,
        Some(4) => SOCKS4_REFUSED,
        _ => return http::serve(&gate, wire, Role::Proxy).await,
    };
    if write_all(&wire.stream, refusal).await.is_ok() {
        wire.linger(gate.deadlines.linger).await;
    }
}

//! Single ports from one loopback to the other.

use super::*;
use crate::egress::decide::tests::policy;

/// A listener whose connections lead to the same loopback's `port`, served as `forward` or as published.
pub(super) fn served(jail: &Jail, port: u16, forward: bool) -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let door = vec![PortDoor { port, listener }];
    let gate = Arc::clone(&jail.gate);
    tokio::spawn(async move {
        let (forwarded, published) = if forward { (door, Vec::new()) } else { (Vec::new(), door) };
        super::super::ports::serve(&gate, forwarded, published).await
    });
    addr
}

#[tokio::test]
async fn a_port_leads_to_the_other_loopback_both_ways() {
    let jail = jail(policy(&[], &[]));
    let server = echo().await;
    for (forward, door) in [(true, Door::Forward), (false, Door::Publish)] {
        let addr = served(&jail, server.port(), forward);
        assert_eq!(talk(addr, b"there and back").await, "there and back");
        eventually(|| jail.seen.closed().contains(&(14, 14))).await;
        let mut events = jail.seen.events.lock().unwrap();
        assert!(
            events.iter().all(|event| event.door == door && event.port == Some(server.port())),
            "{events:?}"
        );
        events.clear();
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_a_close() {
    let jail = jail(policy(&[], &[]));
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    for forward in [true, false] {
        let addr = served(&jail, free, forward);
        assert_eq!(talk(addr, b"x").await, "");
    }
    assert!(
        matches!(jail.seen.verdicts().last(), Some(Verdict::Failed { .. })),
        "the jail's own attempt is told"
    );
}

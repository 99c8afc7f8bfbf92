//! The resolver inside.

use tokio::net::UdpSocket;

use super::*;
use crate::egress::decide::tests::policy;
use crate::egress::dns_message::tests::query;

async fn ask(jail: &Jail, message: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(jail.dns_udp).await.unwrap();
    socket.send(message).await.unwrap();
    let mut buffer = [0; 512];
    let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.expect("no answer").unwrap();
    buffer[..length].to_vec()
}

/// The response code and the last four bytes when there is an answer.
fn outcome(response: &[u8]) -> (u8, Option<[u8; 4]>) {
    let ip = (response[7] == 1).then(|| *response.last_chunk().unwrap());
    (response[3] & 0xf, ip)
}

#[tokio::test]
async fn names_that_a_rule_could_allow_get_addresses_and_others_do_not_exist() {
    let jail = jail(policy(&["a.test", "*.b.test", "c.test:8000-8010"], &["x.b.test:*"]));
    for (name, kind, want) in [
        (&b"a.test"[..], 1, (0, Some([198, 18, 0, 2]))),
        (b"A.TEST", 1, (0, Some([198, 18, 0, 2]))),
        (b"y.b.test", 1, (0, Some([198, 18, 0, 3]))),
        (b"c.test", 1, (0, Some([198, 18, 0, 4]))),
        (b"a.test", 28, (0, None)),
        (b"a.test", 65, (0, None)),
        (b"secret-data.evil.test", 1, (3, None)),
        (b"secret-data.evil.test", 16, (3, None)),
        (b"x.b.test", 1, (3, None)),
        (b"b.test", 1, (3, None)),
        (b"127.1", 1, (3, None)),
        (b"2.0.18.198.in-addr.arpa", 12, (3, None)),
        (b"localhost", 1, (0, Some([127, 0, 0, 1]))),
        (b"a.LocalHost", 1, (0, Some([127, 0, 0, 1]))),
        (b"a.localhost", 28, (0, None)),
    ] {
        assert_eq!(outcome(&ask(&jail, &query(name, kind)).await), want, "{name:?} {kind}");
    }
    let denials = jail.seen.denials();
    assert_eq!(denials.len(), 4, "{denials:?}");
    assert!(denials[0].starts_with("ai-jail: secret-data.evil.test:443 is not allowed"), "{denials:?}");
    assert!(denials[2].contains("by the rule x.b.test:*"), "{denials:?}");
}

#[tokio::test]
async fn malformed_messages_get_no_answer_and_do_no_harm() {
    let jail = jail(policy(&["a.test"], &[]));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(jail.dns_udp).await.unwrap();
    let good = query(b"a.test", 1);
    for length in 0..good.len() {
        socket.send(&good[..length]).await.unwrap();
    }
    let mut marked = good.clone();
    marked[0] = 0x77;
    socket.send(&marked).await.unwrap();
    let mut buffer = [0; 512];
    timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
    assert_eq!(buffer[0], 0x77, "the first answer is that to the one good query");
}

#[tokio::test]
async fn queries_over_tcp_share_a_connection() {
    let jail = jail(policy(&["a.test"], &[]));
    let mut client = TcpStream::connect(jail.dns_tcp).await.unwrap();
    let framed = |message: Vec<u8>| [&(message.len() as u16).to_be_bytes()[..], &message].concat();
    let both = [framed(query(b"a.test", 1)), framed(query(b"no.test", 1))].concat();
    // A cut inside a message must not matter.
    client.write_all(&both[..9]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    client.write_all(&both[9..]).await.unwrap();
    for want in [(0, Some([198, 18, 0, 2])), (3, None)] {
        let length = timeout(PATIENCE, client.read_u16()).await.unwrap().unwrap();
        let mut response = vec![0; usize::from(length)];
        client.read_exact(&mut response).await.unwrap();
        assert_eq!(outcome(&response), want);
    }
    client.write_all(&[0xff, 0xff]).await.unwrap();
    assert_eq!(rest(&mut client).await, "", "a length beyond the bound ends the connection");
}

#[tokio::test]
async fn listeners_for_single_ports_are_there_before_the_answer() {
    let jail = jail(policy(&["git.test:22", "git.test:9418", "git.test", "10.0.0.1:5432"], &[]));
    for _ in 0..3 {
        ask(&jail, &query(b"git.test", 1)).await;
        let bound =
            jail.seen.bound.lock().unwrap().iter().map(|(addr, _)| addr.to_string()).collect::<Vec<_>>();
        let of_name = bound.iter().filter(|addr| addr.starts_with("198.")).collect::<Vec<_>>();
        assert_eq!(of_name, ["198.18.0.2:22", "198.18.0.2:9418"]);
    }
    eventually(|| {
        jail.seen.bound.lock().unwrap().iter().any(|(addr, _)| addr.to_string() == "10.0.0.1:5432")
    })
    .await;
}

#[tokio::test]
async fn names_below_one_domain_use_up_its_share_alone() {
    use crate::egress::limits::{MAX_NAMES, NAMES_FOR_EXACT};
    let jail = jail(policy(&["*.a.test", "*.b.test", "x.a.test"], &[]));
    let share = (MAX_NAMES - NAMES_FOR_EXACT) / 2;
    for index in 0..share {
        let text = name(&format!("n{index}.a.test"));
        assert!(jail.gate.address_of(&text).is_some(), "{index}");
    }
    for again in [&b"more.a.test"[..], b"even-more.a.test"] {
        assert_eq!(outcome(&ask(&jail, &query(again, 1)).await), (2, None));
    }
    for other in [&b"more.b.test"[..], b"x.a.test", b"n7.a.test"] {
        assert_eq!(outcome(&ask(&jail, &query(other, 1)).await).0, 0, "{other:?}");
    }
    let told = jail.seen.verdicts();
    let [Verdict::Failed { line }] = &told[..] else { panic!("{told:?}") };
    assert!(line.contains("the addresses for *.a.test are used up"), "{line}");
}

#[tokio::test]
async fn names_below_one_domain_use_up_its_listeners_alone() {
    use crate::egress::limits::{LISTENERS_FOR_EXACT, MAX_LATE_LISTENERS};
    // Many rules, so that the share of each is small.
    let wildcards = (0..16).map(|index| format!("*.{index}.test:22")).collect::<Vec<_>>();
    let rules = wildcards.iter().map(String::as_str).chain(["git.test:22"]).collect::<Vec<_>>();
    let jail = jail(policy(&rules, &[]));
    let share = (MAX_LATE_LISTENERS - LISTENERS_FOR_EXACT) / wildcards.len();
    for index in 0..share + 3 {
        ask(&jail, &query(format!("n{index}.0.test").as_bytes(), 1)).await;
    }
    let bound = || jail.seen.bound.lock().unwrap().len();
    assert_eq!(bound(), share);
    assert_eq!(jail.seen.verdicts().len(), 1, "it is told once");
    ask(&jail, &query(b"x.1.test", 1)).await;
    ask(&jail, &query(b"git.test", 1)).await;
    assert_eq!(bound(), share + 2);
}

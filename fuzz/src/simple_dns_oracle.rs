//! Another reader of DNS messages: it has to understand every answer.

use std::net::Ipv4Addr;

use ai_jail::egress::dns_message::{Answer, Query};
use simple_dns::rdata::RData;
use simple_dns::{Packet, PacketFlag, RCODE};

pub fn check(input: &[u8]) {
    let Some(query) = Query::parse(input) else { return };
    let ip = Ipv4Addr::new(198, 18, 3, 7);
    for (answer, code) in [
        (Answer::Address(ip), RCODE::NoError),
        (Answer::NoData, RCODE::NoError),
        (Answer::NoSuchName, RCODE::NameError),
        (Answer::Failure, RCODE::ServerFailure),
        (Answer::NotImplemented, RCODE::NotImplemented),
    ] {
        let response = query.respond(answer);
        let packet = match Packet::parse(&response) {
            Ok(packet) => packet,
            // It refuses types and classes of questions that it does not know, which we echo as they are.
            Err(_) if Packet::parse(input).is_err() => return,
            Err(error) => panic!("{error}: {}", response.escape_ascii()),
        };
        assert_eq!(packet.id().to_be_bytes(), input[..2]);
        assert!(packet.has_flags(PacketFlag::RESPONSE) && !packet.has_flags(PacketFlag::TRUNCATION));
        assert_eq!((packet.rcode(), packet.questions.len()), (code, 1));
        let addresses = packet.answers.iter().map(|record| match &record.rdata {
            RData::A(address) => {
                assert_eq!(record.name, packet.questions[0].qname, "another name's address");
                Ipv4Addr::from(address.address)
            }
            other => panic!("{other:?}"),
        });
        let want = if let Answer::Address(ip) = answer { vec![ip] } else { Vec::new() };
        assert_eq!(addresses.collect::<Vec<_>>(), want);
    }
}

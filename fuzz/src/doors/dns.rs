//! Questions to the resolver, and its answers.

use std::net::Ipv4Addr;

use ai_jail::egress::dns_message::{Answer, Ask, Query};

const IP: Ipv4Addr = Ipv4Addr::new(198, 18, 3, 7);

pub fn check(input: &[u8]) {
    let Some(query) = Query::parse(input) else { return };
    let Some(question) = question(input) else {
        panic!("a query without a question: {}", input.escape_ascii())
    };
    if let Ask::Address(name) | Ask::Other(name) = &query.ask {
        assert_eq!(name.as_str().as_bytes(), question.name.to_ascii_lowercase(), "{}", input.escape_ascii());
        assert_eq!(question.class, 1);
        assert_eq!(
            matches!(query.ask, Ask::Address(_)),
            matches!(question.kind, 1 | 255),
            "{}",
            question.kind
        );
    }
    for answer in
        [Answer::Address(IP), Answer::NoData, Answer::NoSuchName, Answer::Failure, Answer::NotImplemented]
    {
        check_answer(input, &question, answer, &query.respond(answer));
    }
    // Cut short it is no query; a byte more cannot be one either.
    assert_eq!(Query::parse(&input[..input.len() - 1]), None);
    assert_eq!(Query::parse(&[input, b"\0"].concat()), None);
}

fn check_answer(query: &[u8], question: &Question, answer: Answer, response: &[u8]) {
    let shown = response.escape_ascii();
    assert!(response.len() <= 300, "{} bytes", response.len());
    assert_eq!(response[..2], query[..2], "the id: {shown}");
    // A response, of the same operation, recursion desired as it was asked and available, not truncated.
    assert_eq!(response[2], 0x80 | query[2] & 0x79, "{shown}");
    let code = match answer {
        Answer::Address(_) | Answer::NoData => 0,
        Answer::Failure => 2,
        Answer::NoSuchName => 3,
        Answer::NotImplemented => 4,
    };
    assert_eq!(response[3], 0x80 | code, "{shown}");
    let has_address = u8::from(matches!(answer, Answer::Address(_)));
    assert!(
        response[4..10] == [0, 1, 0, has_address, 0, 0] && response[10] == 0 && response[11] <= query[11],
        "{shown}"
    );
    let end = 12 + question.length;
    assert_eq!(response[12..end], query[12..end], "the question as it was asked: {shown}");
    let mut rest = &response[end..];
    if has_address == 1 {
        let record = [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4][..], &IP.octets()].concat();
        let Some(after) = rest.strip_prefix(&record[..]) else { panic!("no address: {shown}") };
        rest = after;
    }
    let opt: &[u8] = if response[11] == 1 { &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0] } else { &[] };
    assert_eq!(rest, opt, "{shown}");
    assert_eq!(Query::parse(response), None, "two resolvers would answer each other: {shown}");
}

/// The question of a message, read by itself.
struct Question {
    name: Vec<u8>,
    kind: u16,
    class: u16,
    /// Bytes on the wire.
    length: usize,
}

fn question(message: &[u8]) -> Option<Question> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(message.get(at..at + length).filter(|_| length < 64)?);
        at += length;
    }
    let fixed = message.get(at..at + 4)?;
    Some(Question {
        name: labels.join(&b'.'),
        kind: u16::from_be_bytes([fixed[0], fixed[1]]),
        class: u16::from_be_bytes([fixed[2], fixed[3]]),
        length: at + 4 - 12,
    })
}

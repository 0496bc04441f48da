//! The URI of a request is ASCII without blanks and is parsed to the same segments and arguments by
//! RFC 3986; no part passes for another (RFC 7252 §6.5).

use std::net::{Ipv6Addr, SocketAddr};

use conche_proto::codec::{Message, OptionNumber};

pub fn run(datagram: &[u8]) {
    let Ok(message) = Message::decode(datagram) else { return };
    let content = message.content();
    let _ = content.location().inspect(|location| assert!(location.starts_with('/') && location.is_ascii()));

    let uri = content.request_uri(SocketAddr::from((Ipv6Addr::LOCALHOST, 5683)));
    assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()) && !uri.contains(['#', '"', '<', '>', '\\']), "{uri}");
    let rest = uri.strip_prefix("coap://").expect("the scheme");
    let path_begins = rest.find('/').expect("a path is never empty");
    assert!(!rest[..path_begins].contains(['?', '@']), "{uri}");
    let (path, query) = match rest[path_begins..].split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&rest[path_begins..], None),
    };
    assert_eq!(path, content.uri_path());
    let segments: Vec<_> = content.values(OptionNumber::URI_PATH).map(<[u8]>::to_vec).collect();
    let read: Vec<_> = path[1..].split('/').map(decoded).collect();
    assert!(read == segments || segments.is_empty() && path == "/", "{uri}");
    let arguments: Vec<_> = content.values(OptionNumber::URI_QUERY).map(<[u8]>::to_vec).collect();
    let read = query.map(|query| query.split('&').map(decoded).collect::<Vec<_>>());
    assert_eq!(read.unwrap_or_default(), arguments, "{uri}");
}

/// Percent-encoding undone.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let digit = |bytes: &mut std::str::Bytes<'_>| {
        let digit = bytes.next().and_then(|digit| char::from(digit).to_digit(16)).expect("two digits");
        u8::try_from(digit).expect("less than 16")
    };
    let mut all = Vec::new();
    while let Some(byte) = bytes.next() {
        all.push(if byte == b'%' { digit(&mut bytes) << 4 | digit(&mut bytes) } else { byte });
    }
    all
}

//! Any message is refused, at both ends, unless a peer has protected it, and then is unprotected
//! unchanged.

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, Message, MessagePool, OptionNumber, OwnedMessage};
use conche_proto::oscore::{Binding, ContextId, Contexts, is_protected};

use super::oscore_ends::{encode, ends};

pub fn run(datagram: &[u8]) {
    let Ok(message) = Message::decode_extended(datagram) else { return };
    let mut ends = ends();
    refuse(&message, &mut ends);
    protect(&message, &mut ends);
}

fn refuse(message: &Message<'_>, [(client, id), (server, at_server)]: &mut [(Contexts, ContextId); 2]) {
    let pool = &mut MessagePool::new();
    let (_, mut waits) = request(client, *id);
    let before = server.get(*at_server).expect("it is there").window();
    let refused = server.unprotect_request(Instant::ZERO, message, pool).expect_err("nobody has the key");
    assert_eq!(server.get(*at_server).expect("it is there").window(), before);
    assert!(server.refusal(Instant::ZERO, &refused).is_some_and(|(code, _)| code.is_client_error()));
    assert!(client.unprotect_response(&mut waits, message, pool).is_err());
}

fn request(client: &mut Contexts, id: ContextId) -> (OwnedMessage, Binding) {
    let body = Body::builder().uint(OptionNumber::OBSERVE, 0).build().expect("legal");
    let sent = client.protect_request(id, Code::GET, &body).expect("numbers are reserved");
    (encode(sent.code, &sent.body), sent.binding)
}

fn protect(message: &Message<'_>, ends: &mut [(Contexts, ContextId); 2]) {
    let body = Body::builder().options(message.options()).payload(message.payload().to_vec()).build();
    let Ok(body) = body else { return };
    let may_fail = is_protected(&message.content()) || body.option(OptionNumber::PROXY_URI).is_some();
    let out = match message.code() {
        code if code.is_request() => asked(code, &body, ends),
        code if code.is_response() => answered(code, &body, ends),
        _ => return,
    };
    let Some(out) = out else { return assert!(may_fail) };
    assert_eq!((out.code(), out.payload()), (message.code(), message.payload()));
    // Observe changes to an order, and a Proxy-Uri is split.
    let same = |number: OptionNumber| number != OptionNumber::OBSERVE || message.code().is_request();
    let options = out.content();
    let options = options.options().filter(|option| same(option.number));
    assert!(may_fail || options.eq(body.options().filter(|option| same(option.number))), "{out}");
}

fn asked(
    code: Code,
    body: &Body,
    [(client, id), (server, _)]: &mut [(Contexts, ContextId); 2],
) -> Option<OwnedMessage> {
    let sent = client.protect_request(*id, code, body).ok()?;
    let datagram = encode(sent.code, &sent.body);
    let asked = server.unprotect_request(Instant::ZERO, &datagram.view(), &mut MessagePool::new());
    Some(asked.expect("authentic").message)
}

fn answered(
    code: Code,
    body: &Body,
    [(client, id), (server, _)]: &mut [(Contexts, ContextId); 2],
) -> Option<OwnedMessage> {
    let pool = &mut MessagePool::new();
    let (datagram, mut waits) = request(client, *id);
    let asked = server.unprotect_request(Instant::ZERO, &datagram.view(), pool).expect("authentic");
    let sent = server.protect_response(&asked.binding, code, body).ok()?;
    let datagram = encode(sent.code, &sent.body);
    Some(client.unprotect_response(&mut waits, &datagram.view(), pool).expect("authentic").message)
}

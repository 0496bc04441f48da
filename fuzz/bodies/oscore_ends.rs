//! Two ends that share credentials.

use conche_proto::codec::{Body, Code, MessageId, OwnedMessage, Token, Type};
use conche_proto::oscore::{Context, ContextId, Contexts, Credentials, EndId, Start};

pub fn ends() -> [(Contexts, ContextId); 2] {
    let [client, server] = [&b"C"[..], b"server"].map(|id| EndId::new(id).expect("short"));
    [(client, server), (server, client)].map(|(sender, recipient)| {
        let credentials = Credentials {
            id_context: Some(Box::from(*b"where")),
            ..Credentials::new(*b"16 random bytes.", sender, recipient)
        };
        let mut contexts = Contexts::new(1, [7; 32]);
        let id = contexts.insert(Context::derive(&credentials, Start::First).expect("legal")).expect("room");
        let reserve = contexts.poll_reserve().expect("there are none yet");
        contexts.reserved(reserve);
        (contexts, id)
    })
}

/// Encodes a sent message.
pub fn encode(code: Code, body: &Body) -> OwnedMessage {
    OwnedMessage::encode(Type::Confirmable, code, MessageId(1), &Token::from(*b"8 bytes!"), body).expect("legal")
}

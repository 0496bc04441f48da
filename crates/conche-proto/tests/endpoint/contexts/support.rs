//! Two ends with shared credentials, and messages between them.

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, Content, MessageId, MessagePool, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::oscore::{
    Binding, Context, ContextId, Contexts, Credentials, EndId, Protected, ProtectedResponse, Refused, Start,
    Unprotected, UnprotectedResponse,
};

pub struct End {
    pub contexts: Contexts,
    pub id: ContextId,
    pool: MessagePool,
}

impl End {
    pub fn new(credentials: &Credentials, start: Start) -> Self {
        Self::seeded(credentials, start, [7; 32])
    }

    /// The seed is for challenges.
    pub fn seeded(credentials: &Credentials, start: Start, seed: [u8; 32]) -> Self {
        let mut contexts = Contexts::new(8, seed);
        let id = contexts.insert(Context::derive(credentials, start).expect("legal credentials")).expect("room");
        Self { contexts, id, pool: MessagePool::new() }
    }

    pub fn ready(credentials: &Credentials, start: Start) -> Self {
        let mut end = Self::new(credentials, start);
        end.store();
        end
    }

    pub fn store(&mut self) {
        while let Some(reserve) = self.contexts.poll_reserve() {
            self.contexts.reserved(reserve);
        }
    }

    pub fn context(&self) -> &Context {
        self.contexts.get(self.id).expect("it is there")
    }

    pub fn request(&mut self, code: Code, body: &Body) -> (OwnedMessage, Binding) {
        let Protected { code, body, binding } =
            self.contexts.protect_request(self.id, code, body).expect("a number is reserved");
        self.store();
        (message(Type::Confirmable, code, &body), binding)
    }

    /// `None` if no number is reserved.
    pub fn try_request(&mut self, body: &Body) -> Option<(OwnedMessage, Binding)> {
        let Protected { code, body, binding } = self.contexts.protect_request(self.id, Code::GET, body).ok()?;
        Some((message(Type::Confirmable, code, &body), binding))
    }

    pub fn get(&mut self, path: &str) -> (OwnedMessage, Binding) {
        self.request(Code::GET, &Body::builder().path(path).build().expect("legal"))
    }

    pub fn receive(&mut self, request: &OwnedMessage) -> Result<Unprotected, Refused> {
        self.receive_at(Instant::ZERO, request)
    }

    pub fn receive_at(&mut self, now: Instant, request: &OwnedMessage) -> Result<Unprotected, Refused> {
        self.contexts.unprotect_request(now, &request.view(), &mut self.pool)
    }

    pub fn respond(&mut self, binding: &Binding, code: Code, body: &Body) -> OwnedMessage {
        let ProtectedResponse { code, body } =
            self.contexts.protect_response(binding, code, body).expect("a number is reserved");
        self.store();
        message(Type::NonConfirmable, code, &body)
    }

    pub fn say(&mut self, binding: &Binding, payload: &'static str) -> OwnedMessage {
        self.respond(binding, Code::CONTENT, &Body::builder().payload(payload).build().expect("legal"))
    }

    pub fn hear(&mut self, binding: &mut Binding, response: &OwnedMessage) -> Result<UnprotectedResponse, Refused> {
        self.contexts.unprotect_response(binding, &response.view(), &mut self.pool)
    }
}

pub fn credentials() -> [Credentials; 2] {
    let [client, server] = [id(b"C"), id(b"server")];
    [(client, server), (server, client)].map(|(sender, recipient)| Credentials {
        id_context: Some(Box::from(*b"where")),
        ..Credentials::new(*b"16 random bytes.", sender, recipient)
    })
}

pub fn id(id: &[u8]) -> EndId {
    EndId::new(id).expect("short")
}

pub fn pair() -> [End; 2] {
    credentials().map(|credentials| End::ready(&credentials, Start::First))
}

pub fn message(ty: Type, code: Code, body: &Body) -> OwnedMessage {
    OwnedMessage::encode(ty, code, MessageId(0x1a2b), &Token::from(*b"8 bytes!"), body).expect("legal")
}

pub fn option(message: &OwnedMessage) -> &[u8] {
    message.option(OptionNumber::OSCORE).expect("it is protected")
}

pub fn altered(original: &OwnedMessage, value: &[u8], payload: &[u8]) -> OwnedMessage {
    let others = original.content();
    let others = others.options().filter(|option| option.number != OptionNumber::OSCORE);
    let body = Body::builder().options(others).option(OptionNumber::OSCORE, value).payload(payload.to_vec());
    message(original.header().ty, original.code(), &body.build().expect("legal"))
}

type Options = Vec<(OptionNumber, Vec<u8>)>;

pub fn said(content: &Content<'_>) -> (Code, Options, Vec<u8>) {
    let options = content.options().map(|option| (option.number, option.value.to_vec())).collect();
    (content.code(), options, content.payload().to_vec())
}

//! A client and a server run EDHOC; an attacker replays, changes and forges messages, separate and
//! combined with requests (RFC 9668), encrypted parts included. Invariants:
//!
//! - the server's exchanges are bounded and end,
//! - neither end completes an exchange with the attacker: the server's credentials are a client's,
//! - the server's application receives as protected only a client's requests.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aes::Aes128Enc;
use ccm::Ccm;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U8, U13};
use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code, MessageId, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::edhoc::{
    Credential, Error, HalfOpen, Initiator, OwnCredential, PeerCredentials, PrivateKey, Responder, split_id, with_id,
};
use conche_proto::oscore::{Context, EndId};
use conche_proto::shares::Group;
use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Output, Request, SourceValidation};
use hkdf::Hkdf;
use p256::elliptic_curve::ecdh::diffie_hellman;
use p256::elliptic_curve::point::DecompressPoint;
use p256::elliptic_curve::subtle::Choice;
use p256::{AffinePoint, FieldBytes, SecretKey};
use sha2::{Digest, Sha256};

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Recorded messages, and exchanges of clients.
const MOST_KEPT: usize = 16;
const LIFETIME: Duration = Duration::from_secs(45);

/// Runs a script.
pub fn run(script: &[u8]) {
    let mut script = Script(script);
    let mut world = World::new(script.byte());
    while let Some(what) = script.next() {
        world.operate(what, &mut script);
    }
    world.finish();
}

struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}

/// The state of the server.
struct Server {
    own: Arc<OwnCredential>,
    peers: PeerCredentials,
    half_open: HalfOpen,
    most: usize,
    /// Master secrets of clients.
    at_clients: HashSet<Vec<u8>>,
}

impl Server {
    fn begin(&mut self, now: Instant, c_r: EndId, y: PrivateKey, message_1: &[u8]) -> Result<Vec<u8>, Error> {
        let (responder, message_2) = Responder::answer(&self.own, c_r, y, message_1)?;
        self.half_open.insert(now, Group::of(7), None, responder)?;
        assert!(self.half_open.len() <= self.most);
        Ok(message_2)
    }

    fn agree(&mut self, now: Instant, c_r: EndId, message_3: &[u8]) -> Result<Context, Error> {
        let (agreed, _) = self.half_open.take(now, c_r)?.finish(message_3, &self.peers)?;
        assert!(self.at_clients.contains(agreed.credentials.master_secret.as_slice()), "no client has these keys");
        Context::agreed(&agreed.credentials).map_err(|_| Error::SameIds)
    }
}

/// A client's started exchange.
struct Begun {
    initiator: Initiator,
    x: PrivateKey,
    message_1: Vec<u8>,
}

struct World {
    now: Instant,
    client: Arc<OwnCredential>,
    known: PeerCredentials,
    server: Arc<Mutex<Server>>,
    ends: [Endpoint<u32, AnyController>; 2],
    begun: Vec<Begun>,
    messages: Vec<Vec<u8>>,
    /// The server's identifiers.
    named: Vec<EndId>,
    /// Contexts of clients, each with its message_3 and the server's identifier.
    agreed: Vec<(Context, Vec<u8>, EndId)>,
    drawn: u64,
    sent: u16,
}

/// An attacker's key.
fn key(number: u64) -> PrivateKey {
    let mut bytes = [0x5a; 32];
    bytes[24..].copy_from_slice(&number.to_be_bytes());
    PrivateKey::new(&bytes).expect("less than the order of the curve")
}

fn own(number: u64, kid: &[u8], name: &str) -> OwnCredential {
    let key = key(number);
    let credential = Credential::of(&key, kid, name).expect("short");
    OwnCredential::new(key, credential).expect("they belong together")
}

fn id(number: u64, length: u8) -> EndId {
    EndId::new(&number.to_le_bytes()[..usize::from(length.clamp(1, 7))]).expect("seven at most")
}

fn plaintext_3(kid: u8, ead_length: u8) -> Vec<u8> {
    let kid = usize::from(kid % 24);
    [&[0x40 | kid as u8][..], &vec![0x55; kid], &[0x48], &[0; 8], &ead(ead_length)].concat()
}

fn ead(length: u8) -> Vec<u8> {
    let padding = usize::from(length).min(3);
    let value = usize::from(length) - padding;
    let head = match value {
        0 => vec![0; padding],
        1..24 => vec![0, 1, 0x40 | value as u8],
        _ => vec![1, 0x58, value as u8],
    };
    [head, vec![0xa5; value]].concat()
}

impl World {
    fn new(config: u8) -> Self {
        let long = if config & 1 == 0 { "lamp-7" } else { "a lamp with a name that is as long as they get in a hall" };
        let kid: &[u8] = if config & 2 == 0 { b"\x01" } else { b"a key's ID" };
        let (client, hall) = (own(1, kid, long), own(2, b"\x02", "hall"));
        let known =
            if config & 4 == 0 { hall.credential().clone() } else { own(3, b"\x02", "hall").credential().clone() };
        let peer = if config & 8 == 0 { client.credential().clone() } else { own(4, kid, long).credential().clone() };
        let knows = |credential| PeerCredentials::of([credential]).expect("one alone");
        let most = if config & 16 == 0 { 64 } else { 3 };
        let half_open = HalfOpen::new(most, LIFETIME);
        let server = Server { own: Arc::new(hall), peers: knows(peer), half_open, most, at_clients: HashSet::new() };
        let server = Arc::new(Mutex::new(server));
        let source_validation = if config & 32 == 0 { SourceValidation::Off } else { SourceValidation::Ping };
        let mut ends = [CLIENT, SERVER].map(|end| {
            let controller = AnyController::by_name("default").expect("a known name");
            let config = EndpointConfig { source_validation, ..EndpointConfig::default() };
            Endpoint::new(config, controller, [if end == CLIENT { 1 } else { 2 }; 32]).expect("legal settings")
        });
        if config & 64 == 0 {
            let responding = Arc::clone(&server);
            ends[SERVER].agree_on_keys(Box::new(move |now, c_r, message_3, add| {
                let agreed = responding.lock().expect("nobody panics").agree(now, c_r, message_3);
                let refused = |error: &Error| Body::builder().payload(error.message()).build().expect("legal");
                let context = agreed.map_err(|error| (Code::BAD_REQUEST, refused(&error)))?;
                add(context).map(drop).map_err(|_| (Code::INTERNAL_SERVER_ERROR, Body::EMPTY))
            }));
        }
        Self {
            now: Instant::ZERO,
            client: Arc::new(client),
            known: knows(known),
            server,
            ends,
            begun: Vec::new(),
            messages: Vec::new(),
            named: Vec::new(),
            agreed: Vec::new(),
            drawn: 16,
            sent: 0,
        }
    }

    fn operate(&mut self, what: u8, script: &mut Script<'_>) {
        let argument = script.byte();
        match what % 16 {
            0 => self.begin(argument),
            1 => self.message_1(argument, script.byte()),
            2 => self.message_2(argument, script.byte()),
            3 => self.message_3(argument, script.byte()),
            4 => self.change(argument, script.byte()),
            5 => self.resize(argument, script.byte()),
            6 => self.keep(script.bytes().to_vec()),
            7 => {
                let _ = Error::from_message(script.bytes());
                let _ = split_id(script.bytes());
            }
            8 => self.forge_2(argument, script.bytes()),
            9 => self.forge_3(argument, script.bytes()),
            10 => self.now += Duration::from_secs(argument.into()),
            11 => self.combined(argument, script.byte()),
            12 => self.combined_of(argument, script.bytes()),
            14 => self.forge_3(argument, &plaintext_3(script.byte(), script.byte())),
            15 => {
                let message = [&self.message(argument)[..], &ead(script.byte())].concat();
                self.keep(message);
            }
            _ => {
                // A complete exchange.
                self.begin(argument);
                let (last, begun) = (self.messages.len(), self.begun.len());
                self.message_1(u8::try_from(last.saturating_sub(1)).unwrap_or_default(), argument);
                let last = self.messages.len().saturating_sub(1);
                self.message_2(
                    u8::try_from(begun.saturating_sub(1)).unwrap_or_default(),
                    u8::try_from(last).unwrap_or_default(),
                );
            }
        }
        for end in [CLIENT, SERVER] {
            self.settle(end);
        }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    fn keep(&mut self, message: Vec<u8>) {
        if self.messages.len() >= MOST_KEPT {
            self.messages.remove(0);
        }
        self.messages.push(message);
    }

    /// One of the recorded messages.
    fn message(&self, which: u8) -> Vec<u8> {
        self.messages.get(usize::from(which) % self.messages.len().max(1)).cloned().unwrap_or_default()
    }

    fn begin(&mut self, length: u8) {
        let number = self.draw();
        let (x, c_i) = (key(number), id(number, length));
        let (initiator, message_1) = Initiator::begin(Arc::clone(&self.client), c_i, x.clone()).expect("it can begin");
        if self.begun.len() >= MOST_KEPT {
            self.begun.remove(0);
        }
        self.keep(message_1.clone());
        self.begun.push(Begun { initiator, x, message_1 });
    }

    fn message_1(&mut self, which: u8, length: u8) {
        let (message_1, number) = (self.message(which), self.draw());
        let c_r = id(number, length);
        let answered = self.server.lock().expect("nobody panics").begin(self.now, c_r, key(number), &message_1);
        match answered {
            Ok(message_2) => {
                self.named.push(c_r);
                self.keep(message_2);
            }
            Err(error) => self.keep(error.message()),
        }
    }

    fn message_2(&mut self, begun: u8, which: u8) {
        if self.begun.is_empty() {
            return;
        }
        let message_2 = self.message(which);
        let Begun { initiator, .. } = self.begun.remove(usize::from(begun) % self.begun.len());
        let Ok((agreed, message_3)) = initiator.finish(&message_2, &self.known) else { return };
        let secret = agreed.credentials.master_secret.as_slice().to_vec();
        self.server.lock().expect("nobody panics").at_clients.insert(secret);
        let c_r = agreed.credentials.sender_id;
        assert!(self.named.contains(&c_r), "the server has not said this");
        if let Ok(context) = Context::agreed(&agreed.credentials) {
            self.agreed.push((context, message_3.clone(), c_r));
        }
        self.keep(message_3);
    }

    fn message_3(&mut self, which: u8, c_r: u8) {
        let (message_3, named) = (self.message(which), self.named.len().max(1));
        let Some(&c_r) = self.named.get(usize::from(c_r) % named) else { return };
        let payload = with_id(c_r, &message_3);
        let Ok((c_r, message_3)) = split_id(&payload) else { return };
        let agreed = self.server.lock().expect("nobody panics").agree(self.now, c_r, message_3);
        match agreed {
            // The server may have a context of that name.
            Ok(context) => drop(self.ends[SERVER].add_context(context)),
            Err(error) => self.keep(error.message()),
        }
    }

    fn change(&mut self, which: u8, bit: u8) {
        let mut message = self.message(which);
        let bits = message.len() * 8;
        if bits > 0 {
            let bit = usize::from(bit) * 5 % bits;
            message[bit / 8] ^= 1 << (bit % 8);
            self.keep(message);
        }
    }

    fn resize(&mut self, which: u8, length: u8) {
        let mut message = self.message(which);
        message.resize(length.into(), length);
        self.keep(message);
    }

    fn forge_2(&mut self, begun: u8, plaintext: &[u8]) {
        if self.begun.is_empty() {
            return;
        }
        let number = self.draw();
        let Begun { initiator, x, message_1 } = self.begun.remove(usize::from(begun) % self.begun.len());
        let (y, [g_x, _]) = (key(number), x.public());
        let message_2 = stranger::message_2(&y, &g_x, &message_1, plaintext);
        let error = initiator.finish(&message_2, &self.known).expect_err("it is nobody whom it knows");
        assert!(!plaintext.is_empty() || error == Error::Malformed, "it reads what was encrypted: {error}");
    }

    /// Starts an exchange with the server's credential.
    fn forge_3(&mut self, argument: u8, plaintext: &[u8]) {
        let number = self.draw();
        let (x, c_i) = (key(number), id(number, 3));
        let nobody = Arc::new(own(5, b"\x09", "mallory"));
        let (_, message_1) = Initiator::begin(nobody, c_i, x.clone()).expect("it can begin");
        let (c_r, y) = (id(number, 5), key(self.draw()));
        let mut server = self.server.lock().expect("nobody panics");
        let Ok(message_2) = server.begin(self.now, c_r, y, &message_1) else { return };
        let message_3 = stranger::message_3(&x, &server.own, &message_1, &message_2, plaintext);
        if argument & 1 == 0 {
            let refused = server.agree(self.now, c_r, &message_3).map(drop);
            let error = refused.expect_err("it is nobody whom it knows");
            assert!(!plaintext.is_empty() || error == Error::Malformed, "it reads what was encrypted: {error}");
            return;
        }
        drop(server);
        self.datagram(c_r, &[&message_3[..], b"what follows"].concat());
    }

    /// A client's first request carries its message_3.
    fn combined(&mut self, which: u8, change: u8) {
        if self.agreed.is_empty() {
            return;
        }
        let (context, message_3, _) = self.agreed.remove(usize::from(which) % self.agreed.len());
        let Ok(context) = self.ends[CLIENT].add_context(context) else { return };
        self.ends[CLIENT].send_message_3(context, message_3);
        let body = Body::builder().path("/a").payload("what a client says").build().expect("legal");
        let request = Request::new(Code::POST, body).protected(context);
        // Each client has its own address.
        self.sent += 1;
        if self.ends[CLIENT].request(self.now, 10 + u32::from(self.sent), request).is_err() {
            return;
        }
        let mut buffer = [0; 1280];
        while let Output::Transmit(transmit) = self.ends[CLIENT].poll(self.now, &mut buffer) {
            let datagram = &mut buffer[..transmit.len];
            if change & 1 != 0 {
                let bit = usize::from(change >> 1) * 13 % (datagram.len() * 8);
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            let taken = self.ends[SERVER].handle(self.now, Input::datagram(0, datagram));
            taken.expect("drained");
            self.settle(SERVER);
        }
    }

    fn combined_of(&mut self, argument: u8, payload: &[u8]) {
        let named = self.named.len().max(1);
        let c_r = self.named.get(usize::from(argument) % named).copied().unwrap_or_else(|| id(1, argument));
        self.datagram(c_r, payload);
    }

    fn datagram(&mut self, c_r: EndId, payload: &[u8]) {
        self.sent += 1;
        let value = [&[0x09, 0][..], c_r.as_slice()].concat();
        let body = Body::builder().option(OptionNumber::OSCORE, &value).option(OptionNumber::EDHOC, &[]);
        let body = body.payload(payload.to_vec()).build().expect("legal");
        let (kind, token) = (Type::Confirmable, Token::from(u64::from(self.sent).to_be_bytes()));
        let message = OwnedMessage::encode(kind, Code::POST, MessageId(self.sent), &token, &body).expect("short");
        let taken = self.ends[SERVER].handle(self.now, Input::datagram(2, message.view().as_bytes()));
        taken.expect("drained");
        self.settle(SERVER);
    }

    fn settle(&mut self, end: usize) {
        let mut buffer = [0; 1280];
        loop {
            match self.ends[end].poll(self.now, &mut buffer) {
                Output::Transmit(_) => {}
                Output::Event(Event::Request { id, message, .. }) => {
                    if self.ends[SERVER].security(id).is_some() {
                        assert_eq!(
                            (message.uri_path().as_str(), message.payload()),
                            ("/a", &b"what a client says"[..])
                        );
                    }
                    self.ends[SERVER].ignore(self.now, id);
                }
                Output::Event(_) => {}
                Output::Wait(_) => break,
            }
        }
    }

    /// All exchanges expire.
    fn finish(self) {
        let mut server = self.server.lock().expect("nobody panics");
        server.half_open.expire(self.now + LIFETIME);
        assert!(server.half_open.is_empty());
    }
}

/// An attacker without an accepted key (RFC 9528 §4, §5).
mod stranger {
    use super::*;

    /// message_2 with any plaintext.
    pub(super) fn message_2(y: &PrivateKey, g_x: &[u8; 32], message_1: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let [g_y, _] = y.public();
        let th_2 = th_2(&g_y, message_1);
        let keys = kdf(&extract(&th_2, &shared(y, g_x)), 0, &th_2, plaintext.len());
        let sealed: Vec<u8> = plaintext.iter().zip(keys).map(|(byte, mask)| byte ^ mask).collect();
        item(&[&g_y[..], &sealed].concat())
    }

    pub(super) fn message_3(
        x: &PrivateKey,
        server: &OwnCredential,
        message_1: &[u8],
        message_2: &[u8],
        plaintext: &[u8],
    ) -> Vec<u8> {
        // A byte string of 24 to 255 bytes.
        let (g_y, ciphertext_2) = message_2[2..].split_first_chunk::<32>().expect("the server's own");
        let th_2 = th_2(g_y, message_1);
        let prk_2e = extract(&th_2, &shared(x, g_y));
        let keys = kdf(&prk_2e, 0, &th_2, ciphertext_2.len());
        let plaintext_2: Vec<u8> = ciphertext_2.iter().zip(keys).map(|(byte, mask)| byte ^ mask).collect();
        let [g_r, _] = server.key().public();
        let prk_3e2m = extract(&kdf(&prk_2e, 1, &th_2, 32), &shared(x, &g_r));
        let th_3 = hash(&[&item(&th_2)[..], &plaintext_2, server.credential().as_slice()].concat());
        let key: [u8; 16] = kdf(&prk_3e2m, 3, &th_3, 16).try_into().expect("16 bytes");
        let nonce: [u8; 13] = kdf(&prk_3e2m, 4, &th_3, 13).try_into().expect("13 bytes");
        let beside = [&b"\x83\x68Encrypt0\x40"[..], &item(&th_3)].concat();
        let mut sealed = plaintext.to_vec();
        let cipher = Ccm::<Aes128Enc, U8, U13>::new(&key.into());
        let tag = cipher.encrypt_inout_detached(&nonce.into(), &beside, sealed.as_mut_slice().into());
        sealed.extend(tag.expect("short"));
        item(&sealed)
    }

    fn th_2(g_y: &[u8; 32], message_1: &[u8]) -> [u8; 32] {
        hash(&[item(g_y), item(&hash(message_1))].concat())
    }

    fn hash(bytes: &[u8]) -> [u8; 32] {
        Sha256::digest(bytes).into()
    }

    fn extract(salt: &[u8], secret: &[u8]) -> [u8; 32] {
        Hkdf::<Sha256>::extract(Some(salt), secret).0.into()
    }

    fn kdf(prk: &[u8; 32], label: u8, context: &[u8; 32], length: usize) -> Vec<u8> {
        let short = u8::try_from(length).expect("less than 256");
        let length_item = if short < 24 { vec![short] } else { vec![0x18, short] };
        let info = [&[label][..], &item(context), &length_item].concat();
        let mut output = vec![0; length];
        Hkdf::<Sha256>::from_prk(prk).expect("32 bytes").expand(&info, &mut output).expect("short");
        output
    }

    fn shared(own: &PrivateKey, x: &[u8; 32]) -> Vec<u8> {
        let secret = SecretKey::from_slice(&own.to_bytes()[..]).expect("a key");
        let x = FieldBytes::try_from(&x[..]).expect("32 bytes");
        let point = AffinePoint::decompress(&x, Choice::from(0)).into_option().expect("a key's");
        diffie_hellman(secret.to_nonzero_scalar(), point).raw_secret_bytes().to_vec()
    }

    /// A byte string of CBOR.
    fn item(bytes: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(bytes.len()).expect("what a script has chosen, and a tag").to_be_bytes();
        let head = match (high, low) {
            (0, ..24) => vec![0x40 | low],
            (0, _) => vec![0x58, low],
            _ => vec![0x59, high, low],
        };
        [head.as_slice(), bytes].concat()
    }
}

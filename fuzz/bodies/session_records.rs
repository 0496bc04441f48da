//! A client sends records of any content under its keys. The server delivers the sent data and no
//! record twice, and nothing remains.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aes::Aes128;
use ccm::Ccm;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U8, U12};
use conche_dtls::{BUFFER, ClientCredentials, Config, KeyLog, Output, Secret, ServerCredentials, ServerKeys, Sessions};
use conche_proto::Instant;
use sha2::{Digest, Sha256};

const CLIENT: u8 = 1;
const SERVER: u8 = 2;
const KEY: [u8; 16] = *b"0123456789abcdef";
/// Records of a script, at most.
const RECORDS: usize = 200;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Runs a script.
pub fn run(script: &[u8]) {
    let mut script = script.iter().copied();
    let mut attacker = Attacker::connect();
    for _ in 0..RECORDS {
        let Some(first) = script.next() else { break };
        attacker.send(first, &mut || script.next().unwrap_or_default());
    }
    attacker.end();
}

struct Attacker {
    server: Sessions<u8>,
    protection: Ccm<Aes128, U8, U12>,
    /// The client's part of nonces (RFC 6655 §3).
    salt: [u8; 4],
    number: u64,
    /// The sent data, and the numbers of their records.
    sent: HashSet<Vec<u8>>,
    numbers: HashSet<(u16, u64)>,
    received: usize,
    buffer: Vec<u8>,
}

impl Attacker {
    fn connect() -> Self {
        let key = || Secret::new(KEY);
        let psk = Some(ServerKeys::new(move |_: &[u8]| Some(key())));
        let config = Config { server: Some(ServerCredentials { psk, ..Default::default() }), ..Config::default() };
        let mut server = Sessions::new(Instant::ZERO, config, [SERVER; 32]).unwrap();
        let line = Arc::new(Mutex::new(String::new()));
        let logged = Arc::clone(&line);
        let key_log = Some(KeyLog::new(move |line| line.clone_into(&mut logged.lock().unwrap())));
        let config = Config { key_log, ..Config::default() };
        let mut client = Sessions::new(Instant::ZERO, config, [CLIENT; 32]).unwrap();
        let credentials = ClientCredentials::psk(*b"attacker", key()).unwrap();
        client.connect(Instant::ZERO, SERVER, &credentials, None).unwrap();
        let (mut buffer, mut random, mut is_open) = (vec![0; BUFFER], [0; 32], false);
        for _ in 0..8 {
            loop {
                match client.poll(Instant::ZERO, &mut buffer) {
                    Output::Transmit { len, .. } => server.handle(Instant::ZERO, CLIENT, &buffer[..len]),
                    Output::Wait(_) => break,
                    _ => {}
                }
            }
            loop {
                match server.poll(Instant::ZERO, &mut buffer) {
                    Output::Transmit { len, .. } => {
                        // A ServerHello, after two headers and the version.
                        if buffer[0] == HANDSHAKE && buffer[13] == 2 {
                            random.copy_from_slice(&buffer[27..59]);
                        }
                        client.handle(Instant::ZERO, SERVER, &buffer[..len]);
                    }
                    Output::Established { .. } => is_open = true,
                    Output::Wait(_) => break,
                    _ => {}
                }
            }
        }
        assert!(is_open);
        let line = line.lock().unwrap().clone();
        let [_, client_random, secret] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        // RFC 5246 §6.3: two keys of 16 bytes, and two salts of 4.
        let seed = [b"key expansion", &random[..], &bytes(client_random)].concat();
        let block = expand(&bytes(secret), &seed, 40);
        Self {
            server,
            protection: Ccm::new_from_slice(&block[..16]).unwrap(),
            salt: block[32..36].try_into().unwrap(),
            number: 1,
            sent: HashSet::new(),
            numbers: HashSet::new(),
            received: 0,
            buffer,
        }
    }

    fn send(&mut self, first: u8, next: &mut impl FnMut() -> u8) {
        let (content, flags) = (20 + first % 6, next());
        let body = if content == HANDSHAKE && flags & 1 == 0 {
            (0..=flags >> 1 & 3).flat_map(|_| handshake(next)).collect()
        } else {
            (0..next()).map(|_| next()).collect::<Vec<_>>()
        };
        let number = match next() % 8 {
            0 => self.number + (u64::from(next()) << 12),
            1 => (1 << 48) - 1 - u64::from(next() % 4),
            2 => self.number.saturating_sub(u64::from(next())),
            _ => {
                self.number += 1;
                self.number
            }
        };
        let epoch = match next() % 8 {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        let counter = (epoch << 48 | number).to_be_bytes();
        let mut record = vec![content, 254, 253];
        record.extend(counter);
        let fragment = if epoch == 0 && flags & 64 != 0 { body.clone() } else { self.protect(content, counter, &body) };
        record.extend(u16::try_from(fragment.len()).unwrap().to_be_bytes());
        record.extend(fragment);
        if flags & 128 != 0 {
            record.extend_from_within(..);
        }
        if content == APPLICATION_DATA && epoch == 1 {
            self.sent.insert(body);
            self.numbers.insert((1, number));
        }
        self.server.handle(Instant::ZERO, CLIENT, &record);
        self.poll(Instant::ZERO);
    }

    /// Concatenates explicit nonce, ciphertext and tag (RFC 6655 §3).
    fn protect(&self, content: u8, counter: [u8; 8], body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        let additional = [&counter[..], &[content, 254, 253], &length].concat();
        let nonce: [u8; 12] = [&self.salt[..], &counter].concat().try_into().unwrap();
        let mut text = body.to_vec();
        let tag = self.protection.encrypt_inout_detached(&nonce.into(), &additional, text.as_mut_slice().into());
        [&counter[..], &text, &tag.unwrap()].concat()
    }

    fn poll(&mut self, now: Instant) {
        for turn in 0.. {
            assert!(turn < 1000, "a server that always has something to do");
            match self.server.poll(now, &mut self.buffer) {
                Output::Received { len, .. } => {
                    self.received += 1;
                    assert!(self.sent.contains(&self.buffer[..len]), "data that nobody sent");
                    assert!(self.received <= self.numbers.len(), "a record was delivered twice");
                }
                Output::Wait(_) => break,
                _ => {}
            }
        }
    }

    fn end(mut self) {
        if let Some(session) = self.server.open(&CLIENT) {
            self.server.close(session);
        }
        self.poll(Instant::ZERO);
        self.poll(Instant::ZERO + Duration::from_secs(300));
        assert!(self.server.is_empty(), "{:?}", self.server);
    }
}

/// Makes a handshake message or fragment; its lengths need not match.
fn handshake(next: &mut impl FnMut() -> u8) -> Vec<u8> {
    let uint24 = |value: u32| value.to_be_bytes()[1..].to_vec();
    let kind = next();
    let length = [0_u32, 12, 1, 40, 8000, 0xff_ffff][usize::from(next() % 6)];
    let number = if kind & 128 == 0 { u16::from(next() % 8) } else { u16::MAX };
    let carried = u32::from(next() % 64);
    let offset = [0, 0, 1, length.saturating_sub(carried).min(0xff_ffff)][usize::from(next() % 4)];
    let body = (0..carried.min(u32::from(next()))).map(|_| next()).collect();
    [vec![kind & 127], uint24(length), number.to_be_bytes().to_vec(), uint24(offset), uint24(carried), body].concat()
}

/// Computes TLS 1.2's pseudorandom function (RFC 5246 §5).
fn expand(secret: &[u8], seed: &[u8], length: usize) -> Vec<u8> {
    let (mut chained, mut out) = (seed.to_vec(), Vec::new());
    while out.len() < length {
        chained = hmac(secret, &chained);
        out.extend(hmac(secret, &[&chained[..], seed].concat()));
    }
    out
}

/// Computes HMAC-SHA-256 (RFC 2104), with a key of at most a block.
fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let padded = |pad: u8| {
        let mut block = [pad; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(data).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap();
    (0..hexadecimal.len()).step_by(2).map(digits).collect()
}

//! Removes the extension `use_srtp` (RFC 5764 §4.1.1) from dimpl's ClientHello.
//!
//! dimpl, made for WebRTC, always offers SRTP profiles. A server with SRTP but no common profile
//! may abort the handshake, as pion does (alert 71).
//!
//! [`Rewriter`] removes it from datagrams, [`hashes`] and [`keys`] from the transcript, which dimpl
//! hashes for the extended master secret (RFC 7627 §4) and both Finished messages, and signs in
//! CertificateVerify. Server engines hash the ClientHello as received.

use std::collections::VecDeque;

use dimpl::CryptoError;
use dimpl::crypto::{
    Buf, HashAlgorithm, HashContext, HashProvider, KeyProvider, SignatureAlgorithm, SigningKey, rust_crypto,
};

use crate::wire::{self, HANDSHAKE_HEADER, RECORD_HEADER, Reader, content, message};

/// The extension's type (RFC 5764 §9).
const USE_SRTP: [u8; 2] = [0, 14];

/// dimpl sends a ClientHello's fragments in order.
#[derive(Debug, Default)]
pub(super) struct Rewriter {
    body: Vec<u8>,
    first: (u64, usize),
    rewritten: VecDeque<Vec<u8>>,
}

impl Rewriter {
    /// Returns `false` for a datagram without ClientHello.
    pub(super) fn takes(&mut self, datagram: &[u8]) -> bool {
        let mut took = false;
        for record in wire::records(datagram) {
            if record.content != content::HANDSHAKE || record.epoch != 0 {
                continue;
            }
            for found in wire::handshakes(record.fragment) {
                if found.message != message::CLIENT_HELLO {
                    continue;
                }
                took = true;
                if found.offset == 0 {
                    self.body.clear();
                    self.first = (record.sequence, found.body.len());
                }
                self.body.extend_from_slice(found.body);
                if self.body.len() == found.length {
                    self.write(found.number);
                }
            }
        }
        took
    }

    pub(super) fn next(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let datagram = self.rewritten.pop_front()?;
        if self.rewritten.is_empty() {
            // Frees its memory in open sessions.
            self.rewritten = VecDeque::new();
        }
        buffer.get_mut(..datagram.len())?.copy_from_slice(&datagram);
        Some(datagram.len())
    }

    /// Writes fragments no longer than dimpl's, so record numbers stay unique.
    fn write(&mut self, number: u16) {
        let body = core::mem::take(&mut self.body);
        let body = without_use_srtp(&body).unwrap_or(body);
        let (sequence, longest) = self.first;
        for (index, chunk) in (0..).zip(body.chunks(longest.max(1))) {
            let header = wire::handshake_header(message::CLIENT_HELLO, number, body.len());
            let mut fragment = header.to_vec();
            let [.., a, b, c] = (index * longest).to_be_bytes();
            let [.., d, e, f] = chunk.len().to_be_bytes();
            fragment[HANDSHAKE_HEADER - 6..].copy_from_slice(&[a, b, c, d, e, f]);
            fragment.extend_from_slice(chunk);
            let mut datagram = vec![0; RECORD_HEADER + fragment.len()];
            let index = u64::try_from(index).unwrap_or(u64::MAX);
            let sequence = sequence.wrapping_add(index);
            wire::write_record(&mut datagram, content::HANDSHAKE, wire::DTLS_1_2, sequence, &fragment);
            self.rewritten.push_back(datagram);
        }
    }
}

fn without_use_srtp(body: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader(body);
    let _version: &[u8; 2] = reader.array()?;
    let _random: &[u8; 32] = reader.array()?;
    let (_session, _cookie) = (reader.short()?, reader.short()?);
    let (_suites, _compression) = (reader.long()?, reader.short()?);
    let before = body.len() - reader.0.len();
    let mut extensions = Reader(reader.long()?);
    let mut kept = Vec::with_capacity(body.len());
    while !extensions.0.is_empty() {
        let whole = extensions.0;
        let kind: &[u8; 2] = extensions.array()?;
        let _data = extensions.long()?;
        if *kind != USE_SRTP {
            kept.extend_from_slice(&whole[..whole.len() - extensions.0.len()]);
        }
    }
    let length = u16::try_from(kept.len()).ok()?;
    let rewritten = [&body[..before], &length.to_be_bytes(), &kept, reader.0].concat();
    (rewritten.len() < body.len()).then_some(rewritten)
}

fn transcript_without_use_srtp(transcript: &[u8]) -> Option<Vec<u8>> {
    let hello = wire::handshakes(transcript).next()?;
    if hello.message != message::CLIENT_HELLO {
        return None;
    }
    let body = without_use_srtp(hello.body)?;
    let header = wire::handshake_header(message::CLIENT_HELLO, hello.number, body.len());
    Some([&header[..], &body, &transcript[HANDSHAKE_HEADER + hello.body.len()..]].concat())
}

pub(super) fn hashes() -> &'static dyn HashProvider {
    &Hashes
}

pub(super) fn keys() -> &'static dyn KeyProvider {
    &SigningKeys
}

#[derive(Debug)]
struct Hashes;

impl HashProvider for Hashes {
    fn create_hash(&self, algorithm: HashAlgorithm) -> Box<dyn HashContext> {
        let hash = rust_crypto::default_provider().hash_provider.create_hash(algorithm);
        Box::new(TranscriptHash { hash, is_empty: true })
    }
}

#[derive(Debug)]
struct TranscriptHash {
    hash: Box<dyn HashContext>,
    is_empty: bool,
}

impl HashContext for TranscriptHash {
    fn update(&mut self, data: &[u8]) {
        let rewritten = if self.is_empty { transcript_without_use_srtp(data) } else { None };
        self.is_empty = false;
        self.hash.update(rewritten.as_deref().unwrap_or(data));
    }

    fn clone_and_finalize(&self, out: &mut Buf) {
        self.hash.clone_and_finalize(out);
    }
}

#[derive(Debug)]
struct SigningKeys;

impl KeyProvider for SigningKeys {
    fn load_private_key(&self, key_der: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        let key = rust_crypto::default_provider().key_provider.load_private_key(key_der)?;
        Ok(Box::new(TranscriptKey(key)))
    }
}

#[derive(Debug)]
struct TranscriptKey(Box<dyn SigningKey>);

impl SigningKey for TranscriptKey {
    fn sign(&mut self, data: &[u8], hash_alg: HashAlgorithm, out: &mut Buf) -> Result<(), CryptoError> {
        let rewritten = transcript_without_use_srtp(data);
        self.0.sign(rewritten.as_deref().unwrap_or(data), hash_alg, out)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.0.hash_algorithm()
    }

    fn supported_hash_algorithms(&self) -> &[HashAlgorithm] {
        self.0.supported_hash_algorithms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (kind, data) in extensions {
            list.extend(kind.to_be_bytes());
            list.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            list.extend(*data);
        }
        let length = u16::try_from(list.len()).unwrap();
        [&[254, 253][..], &[7; 32], &[0], &[2, 8, 8], &[0, 2, 0xc0, 0xa8], &[1, 0], &length.to_be_bytes(), &list]
            .concat()
    }

    const SRTP: (u16, &[u8]) = (14, &[0, 2, 0, 7, 0]);
    const OTHERS: [(u16, &[u8]); 2] = [(13, &[0, 2, 4, 3]), (23, &[])];

    #[test]
    fn use_srtp_is_removed_wherever_it_stands_and_nothing_else_is() {
        let expected = body(&OTHERS);
        for at in 0..=2 {
            let mut extensions = OTHERS.to_vec();
            extensions.insert(at, SRTP);
            assert_eq!(without_use_srtp(&body(&extensions)).as_ref(), Some(&expected));
        }
        assert_eq!(without_use_srtp(&expected), None);
        let cut = body(&[OTHERS[0], SRTP]);
        for length in 0..cut.len() {
            assert_eq!(without_use_srtp(&cut[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn only_the_first_message_of_a_transcript_is_rewritten() {
        let message = |body: &[u8]| [&wire::handshake_header(1, 1, body.len())[..], body].concat();
        let (with, without) = (message(&body(&[SRTP, OTHERS[1]])), message(&body(&[OTHERS[1]])));
        let rest = [&wire::handshake_header(2, 1, 3)[..], &[1, 2, 3], &with].concat();
        let transcript = [&with[..], &rest].concat();
        assert_eq!(transcript_without_use_srtp(&transcript), Some([&without[..], &rest].concat()));
        assert_eq!(transcript_without_use_srtp(&rest), None);
    }

    /// Splits a ClientHello into fragments of `longest` bytes, numbered from `sequence`.
    fn datagrams(body: &[u8], longest: usize, mut sequence: u64) -> Vec<Vec<u8>> {
        let mut offset = 0_usize;
        body.chunks(longest)
            .map(|chunk| {
                let mut fragment = wire::handshake_header(1, 1, body.len()).to_vec();
                let [.., a, b, c] = offset.to_be_bytes();
                let [.., d, e, f] = chunk.len().to_be_bytes();
                fragment[6..].copy_from_slice(&[a, b, c, d, e, f]);
                fragment.extend(chunk);
                let mut datagram = vec![0; RECORD_HEADER + fragment.len()];
                wire::write_record(&mut datagram, content::HANDSHAKE, wire::DTLS_1_2, sequence, &fragment);
                (offset, sequence) = (offset + chunk.len(), sequence + 1);
                datagram
            })
            .collect()
    }

    #[test]
    fn the_fragments_of_a_hello_and_of_its_retransmission_are_rewritten_under_record_numbers_of_their_own() {
        let (with, without) = (body(&[OTHERS[0], SRTP, OTHERS[1]]), body(&OTHERS));
        for longest in [5, 40, 1000] {
            let mut rewriter = Rewriter::default();
            for sequence in [3, 90] {
                for datagram in datagrams(&with, longest, sequence) {
                    assert!(rewriter.takes(&datagram));
                }
                let (mut buffer, mut rewritten) = ([0; 2000], Vec::new());
                while let Some(length) = rewriter.next(&mut buffer) {
                    rewritten.push(buffer[..length].to_vec());
                }
                assert_eq!(rewritten, datagrams(&without, longest, sequence));
            }
        }
    }
}

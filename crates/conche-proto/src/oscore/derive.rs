//! Derives the keys and the Common IV of a context (RFC 8613 §3.2.1).

use alloc::vec::Vec;
use core::convert::Infallible;

use minicbor::Encoder;
use sha2::{Sha256, Sha512};

use super::cose::Hidden;
use super::{Credentials, EndId, Hkdf};

#[derive(Clone, Copy)]
pub(super) enum Output {
    /// The key of the end with this ID.
    Key(EndId),
    CommonIv,
}

/// The result of HKDF-Extract for a master secret, from which everything else is derived.
pub(super) struct Material<'a> {
    credentials: &'a Credentials,
    extracted: Extracted,
}

enum Extracted {
    Sha256(hkdf::Hkdf<Sha256>),
    Sha512(hkdf::Hkdf<Sha512>),
}

impl<'a> Material<'a> {
    pub(super) fn extract(credentials: &'a Credentials) -> Self {
        let (salt, secret) = (Some(credentials.master_salt.as_slice()), credentials.master_secret.as_slice());
        let extracted = match credentials.hkdf {
            Hkdf::Sha256 => Extracted::Sha256(hkdf::Hkdf::new(salt, secret)),
            Hkdf::Sha512 => Extracted::Sha512(hkdf::Hkdf::new(salt, secret)),
        };
        Self { credentials, extracted }
    }

    /// Derives a value, padded with zeros.
    pub(super) fn derive<const N: usize>(&self, output: Output) -> Hidden<N> {
        let length = match output {
            Output::Key(_) => self.credentials.aead.key_length(),
            Output::CommonIv => self.credentials.aead.nonce_length(),
        };
        let info = info(self.credentials, output, length);
        let mut derived = Hidden([0; N]);
        if let Some(bytes) = derived.0.get_mut(..length) {
            // The requested lengths are valid for all hash functions.
            let _ = match &self.extracted {
                Extracted::Sha256(extracted) => extracted.expand(&info, bytes),
                Extracted::Sha512(extracted) => extracted.expand(&info, bytes),
            };
        }
        derived
    }
}

/// Encodes the CBOR array `info`.
fn info(credentials: &Credentials, output: Output, length: usize) -> Vec<u8> {
    let (id, name) = match output {
        Output::Key(id) => (id, "Key"),
        Output::CommonIv => (EndId::default(), "IV"),
    };
    let mut info = Vec::new();
    // Writing to memory cannot fail.
    let _ = encode(&mut Encoder::new(&mut info), credentials, id, name, length);
    info
}

fn encode(
    encoder: &mut Encoder<&mut Vec<u8>>,
    credentials: &Credentials,
    id: EndId,
    name: &str,
    length: usize,
) -> Result<(), minicbor::encode::Error<Infallible>> {
    encoder.array(5)?.bytes(id.as_slice())?;
    match &credentials.id_context {
        Some(id_context) => encoder.bytes(id_context)?,
        None => encoder.null()?,
    };
    encoder.i32(credentials.aead.number())?.str(name)?.u64(length as u64)?.ok()
}

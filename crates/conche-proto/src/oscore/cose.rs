//! Keys (RFC 8613 §3.2.1), nonces and additional data (§5.2, §5.4), and encryption.

use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use aes::{Aes128Enc, Aes256Enc};
use ccm::aead::{AeadInOut, Key as RawKey, KeyInit, Nonce as RawNonce, Tag as RawTag};
use ccm::consts::{U8, U13, U16};
use ccm::{AeadCore, Ccm};
use minicbor::Encoder;
use sha2::{Sha256, Sha512};
use smallvec::SmallVec;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::{Aead, Credentials, EndId, Hkdf, PartialIv};

const LONGEST_KEY: usize = 32;

/// In bytes, also of the Common IV.
const NONCE_LENGTH: usize = 13;

/// Wiped on drop, not in debug output.
#[derive(Clone)]
pub(super) struct SecretBytes<const N: usize>(pub(super) [u8; N]);

/// Padded with zeros.
pub(super) type Key = SecretBytes<LONGEST_KEY>;

pub(super) type CommonIv = SecretBytes<NONCE_LENGTH>;

impl<const N: usize> SecretBytes<N> {
    pub(super) fn wipe(&mut self) {
        self.0.zeroize();
    }

    /// Compares in constant time.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl<const N: usize> Drop for SecretBytes<N> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<const N: usize> fmt::Debug for SecretBytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// For one message per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nonce([u8; NONCE_LENGTH]);

impl Nonce {
    pub(super) fn new(common_iv: &CommonIv, counted_by: EndId, number: PartialIv) -> Self {
        let id = counted_by.as_slice();
        let mut nonce = [0; NONCE_LENGTH];
        let [size, before @ ..] = &mut nonce;
        let (padded_id, padded_number) = before.split_at_mut(NONCE_LENGTH - 1 - PartialIv::LONGEST);
        *size = id.len().to_le_bytes()[0];
        padded_id.iter_mut().rev().zip(id.iter().rev()).for_each(|(place, byte)| *place = *byte);
        padded_number.copy_from_slice(&number.padded());
        nonce.iter_mut().zip(common_iv.0).for_each(|(byte, mask)| *byte ^= mask);
        Self(nonce)
    }

    #[cfg(test)]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// Returns a COSE Enc_structure around `aad_array` (RFC 8613 §5.4). Each CBOR type and length takes
/// one byte.
pub(super) fn additional_data(aead: Aead, request_kid: EndId, request_number: PartialIv) -> SmallVec<[u8; 32]> {
    const BYTE_STRING: u8 = 0x40;
    let mut array: SmallVec<[u8; 24]> = SmallVec::from_slice(&[0x85, 1, 0x81]);
    match aead.number().to_le_bytes()[0] {
        short @ 0..24 => array.push(short),
        long => array.extend_from_slice(&[0x18, long]),
    }
    for bytes in [request_kid.as_slice(), request_number.as_slice(), b""] {
        array.push(BYTE_STRING | bytes.len().to_le_bytes()[0]);
        array.extend_from_slice(bytes);
    }
    let mut data = SmallVec::from_slice(b"\x83\x68Encrypt0\x40");
    data.push(BYTE_STRING | array.len().to_le_bytes()[0]);
    data.extend_from_slice(&array);
    data
}

/// A wrong tag, or a message that is too long.
#[derive(Debug)]
pub(super) struct AeadFailed;

pub(super) fn seal(
    aead: Aead,
    key: &Key,
    nonce: Nonce,
    additional: &[u8],
    text: &mut [u8],
) -> Result<SmallVec<[u8; 16]>, AeadFailed> {
    match aead {
        Aead::AesCcm16_64_128 => seal_with::<Ccm<Aes128Enc, U8, U13>>(key, nonce, additional, text),
        Aead::AesCcm16_64_256 => seal_with::<Ccm<Aes256Enc, U8, U13>>(key, nonce, additional, text),
        Aead::AesCcm16_128_128 => seal_with::<Ccm<Aes128Enc, U16, U13>>(key, nonce, additional, text),
        Aead::AesCcm16_128_256 => seal_with::<Ccm<Aes256Enc, U16, U13>>(key, nonce, additional, text),
    }
}

/// Decrypts in place; the tag follows the ciphertext. Returns the plaintext length.
pub(super) fn open(
    aead: Aead,
    key: &Key,
    nonce: Nonce,
    additional: &[u8],
    sealed: &mut [u8],
) -> Result<usize, AeadFailed> {
    match aead {
        Aead::AesCcm16_64_128 => open_with::<Ccm<Aes128Enc, U8, U13>>(key, nonce, additional, sealed),
        Aead::AesCcm16_64_256 => open_with::<Ccm<Aes256Enc, U8, U13>>(key, nonce, additional, sealed),
        Aead::AesCcm16_128_128 => open_with::<Ccm<Aes128Enc, U16, U13>>(key, nonce, additional, sealed),
        Aead::AesCcm16_128_256 => open_with::<Ccm<Aes256Enc, U16, U13>>(key, nonce, additional, sealed),
    }
}

fn seal_with<A: KeyInit + AeadInOut>(
    key: &Key,
    nonce: Nonce,
    additional: &[u8],
    text: &mut [u8],
) -> Result<SmallVec<[u8; 16]>, AeadFailed> {
    let (cipher, nonce) = prepare::<A>(key, &nonce)?;
    let tag = cipher.encrypt_inout_detached(&nonce, additional, text.into()).map_err(|_| AeadFailed)?;
    Ok(SmallVec::from_slice(&tag))
}

fn open_with<A: KeyInit + AeadInOut>(
    key: &Key,
    nonce: Nonce,
    additional: &[u8],
    sealed: &mut [u8],
) -> Result<usize, AeadFailed> {
    let (cipher, nonce) = prepare::<A>(key, &nonce)?;
    let length = sealed.len().checked_sub(size_of::<RawTag<A>>()).ok_or(AeadFailed)?;
    let (text, tag) = sealed.split_at_mut_checked(length).ok_or(AeadFailed)?;
    let tag = <&RawTag<A>>::try_from(&*tag).map_err(|_| AeadFailed)?;
    cipher.decrypt_inout_detached(&nonce, additional, text.into(), tag).map_err(|_| AeadFailed)?;
    Ok(length)
}

/// Contexts do not store expanded keys, which are about ten times as large.
fn prepare<A: KeyInit + AeadCore>(
    SecretBytes(key): &Key,
    Nonce(nonce): &Nonce,
) -> Result<(A, RawNonce<A>), AeadFailed> {
    let key = key.get(..size_of::<RawKey<A>>()).and_then(|key| <&RawKey<A>>::try_from(key).ok()).ok_or(AeadFailed)?;
    let nonce = RawNonce::<A>::try_from(&nonce[..]).map_err(|_| AeadFailed)?;
    Ok((A::new(key), nonce))
}

#[derive(Clone, Copy)]
pub(super) enum Output {
    /// The key of the end with this ID.
    Key(EndId),
    CommonIv,
}

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

    pub(super) fn derive<const N: usize>(&self, output: Output) -> SecretBytes<N> {
        let length = match output {
            Output::Key(_) => self.credentials.aead.key_length(),
            Output::CommonIv => self.credentials.aead.nonce_length(),
        };
        let info = info(self.credentials, output, length);
        let mut derived = SecretBytes([0; N]);
        if let Some(bytes) = derived.0.get_mut(..length) {
            // The lengths are valid for all hash functions.
            let _ = match &self.extracted {
                Extracted::Sha256(extracted) => extracted.expand(&info, bytes),
                Extracted::Sha512(extracted) => extracted.expand(&info, bytes),
            };
        }
        derived
    }
}

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

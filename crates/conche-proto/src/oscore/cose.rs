//! Protection of one message: nonce and additional data (RFC 8613 §5.2, §5.4), and encryption.

use core::fmt;

use aes::{Aes128Enc, Aes256Enc};
use ccm::aead::{AeadInOut, Key as RawKey, KeyInit, Nonce as RawNonce, Tag as RawTag};
use ccm::consts::{U8, U13, U16};
use ccm::{AeadCore, Ccm};
use smallvec::SmallVec;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::{Aead, EndId, PartialIv};

/// Length of the longest key in bytes.
const LONGEST_KEY: usize = 32;

/// Length of a nonce and of the Common IV, in bytes.
const NONCE_LENGTH: usize = 13;

/// Secret derived bytes: wiped on drop, and omitted from debug output.
#[derive(Clone)]
pub(super) struct Hidden<const N: usize>(pub(super) [u8; N]);

/// A key, padded with zeros.
pub(super) type Key = Hidden<LONGEST_KEY>;

pub(super) type CommonIv = Hidden<NONCE_LENGTH>;

impl<const N: usize> Hidden<N> {
    pub(super) fn wipe(&mut self) {
        self.0.zeroize();
    }

    /// Compares in constant time.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl<const N: usize> Drop for Hidden<N> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<const N: usize> fmt::Debug for Hidden<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// A nonce: with a given key it protects only one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nonce([u8; NONCE_LENGTH]);

impl Nonce {
    /// Creates the nonce of a message with this sender and number (RFC 8613 §5.2).
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

/// Returns the additional data of a request and of all responses to it: a COSE Enc_structure around
/// the `aad_array` (RFC 8613 §5.4). All parts are short, so that CBOR encodes length and type in
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
pub(super) struct Failed;

/// Encrypts in place, and returns the tag.
pub(super) fn seal(
    aead: Aead,
    key: &Key,
    nonce: Nonce,
    additional: &[u8],
    text: &mut [u8],
) -> Result<SmallVec<[u8; 16]>, Failed> {
    match aead {
        Aead::AesCcm16_64_128 => seal_with::<Ccm<Aes128Enc, U8, U13>>(key, nonce, additional, text),
        Aead::AesCcm16_64_256 => seal_with::<Ccm<Aes256Enc, U8, U13>>(key, nonce, additional, text),
        Aead::AesCcm16_128_128 => seal_with::<Ccm<Aes128Enc, U16, U13>>(key, nonce, additional, text),
        Aead::AesCcm16_128_256 => seal_with::<Ccm<Aes256Enc, U16, U13>>(key, nonce, additional, text),
    }
}

/// Decrypts in place; the tag follows the ciphertext. Returns the length of the plaintext.
pub(super) fn open(aead: Aead, key: &Key, nonce: Nonce, additional: &[u8], sealed: &mut [u8]) -> Result<usize, Failed> {
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
) -> Result<SmallVec<[u8; 16]>, Failed> {
    let (cipher, nonce) = prepare::<A>(key, &nonce)?;
    let tag = cipher.encrypt_inout_detached(&nonce, additional, text.into()).map_err(|_| Failed)?;
    Ok(SmallVec::from_slice(&tag))
}

fn open_with<A: KeyInit + AeadInOut>(
    key: &Key,
    nonce: Nonce,
    additional: &[u8],
    sealed: &mut [u8],
) -> Result<usize, Failed> {
    let (cipher, nonce) = prepare::<A>(key, &nonce)?;
    let length = sealed.len().checked_sub(size_of::<RawTag<A>>()).ok_or(Failed)?;
    let (text, tag) = sealed.split_at_mut_checked(length).ok_or(Failed)?;
    let tag = <&RawTag<A>>::try_from(&*tag).map_err(|_| Failed)?;
    cipher.decrypt_inout_detached(&nonce, additional, text.into(), tag).map_err(|_| Failed)?;
    Ok(length)
}

/// Creates the cipher. A context stores only keys, because expanded keys are about ten times as
/// large.
fn prepare<A: KeyInit + AeadCore>(Hidden(key): &Key, Nonce(nonce): &Nonce) -> Result<(A, RawNonce<A>), Failed> {
    let key = key.get(..size_of::<RawKey<A>>()).and_then(|key| <&RawKey<A>>::try_from(key).ok()).ok_or(Failed)?;
    let nonce = RawNonce::<A>::try_from(&nonce[..]).map_err(|_| Failed)?;
    Ok((A::new(key), nonce))
}

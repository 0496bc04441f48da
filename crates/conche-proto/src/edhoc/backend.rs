//! The cryptographic primitives of `lakers`, without panics.

use alloc::sync::Arc;
use core::fmt;

use aes::Aes128Enc;
use ccm::Ccm;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U8, U13};
use hkdf::{Hkdf, HkdfExtract};
use lakers::{
    AES_CCM_TAG_LEN, BufferCiphertext3, BufferPlaintext3, BytesCcmIvLen, BytesCcmKeyLen, BytesHashLen, BytesMaxBuffer,
    BytesMaxInfoBuffer, BytesP256ElemLen, CryptoTrait, EDHOCError, MAX_BUFFER_LEN,
};
use sha2::{Digest, Sha256};

use super::credential::{OwnCredential, PrivateKey, PublicKey};
use super::wire::Plaintext3;

type Aead = Ccm<Aes128Enc, U8, U13>;

/// Placeholder for this end's static private key: `lakers` does not wipe its memory.
pub(super) const STATIC: BytesP256ElemLen = [1; 32];

/// Placeholder for this end's ephemeral private key.
const EPHEMERAL: BytesP256ElemLen = [2; 32];

/// The primitives of cipher suite 2 and the private keys of one exchange.
///
/// `lakers` holds [`STATIC`] and [`EPHEMERAL`] instead of the keys, which stay in [`PrivateKey`].
/// The PRKs that `lakers` derives (RFC 9528 §4.1) are not wiped.
pub(super) struct Backend {
    pub(super) own: Arc<OwnCredential>,
    pub(super) ephemeral: PrivateKey,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

/// HKDF-Expand; zeros for an invalid length, which does not occur.
fn expand(prk: &BytesHashLen, info: &[u8], output: &mut [u8]) {
    if let Ok(hkdf) = Hkdf::<Sha256>::from_prk(prk) {
        let _ = hkdf.expand(info, output);
    }
}

/// EDHOC_KDF (RFC 9528 §4.1.2) with a transcript hash as context.
pub(super) fn kdf(prk: &BytesHashLen, label: u8, context: &BytesHashLen, output: &mut [u8]) {
    let info = super::wire::sequence(|encoder| {
        // Writing to memory cannot fail.
        let _ = encoder
            .u8(label)
            .and_then(|encoder| encoder.bytes(context))
            .and_then(|encoder| encoder.u64(output.len() as u64));
    });
    expand(prk, &info, output);
}

pub(super) fn extract(salt: &[u8], secret: &[u8]) -> BytesHashLen {
    let mut extract = HkdfExtract::<Sha256>::new(Some(salt));
    extract.input_ikm(secret);
    extract.finalize().0.into()
}

impl CryptoTrait for Backend {
    fn sha256_digest(&mut self, message: &BytesMaxBuffer, message_len: usize) -> BytesHashLen {
        Sha256::digest(message.get(..message_len).unwrap_or_default()).into()
    }

    fn hkdf_expand(
        &mut self,
        prk: &BytesHashLen,
        info: &BytesMaxInfoBuffer,
        info_len: usize,
        length: usize,
    ) -> BytesMaxBuffer {
        let mut output = [0; MAX_BUFFER_LEN];
        if let (Some(info), Some(output)) = (info.get(..info_len), output.get_mut(..length)) {
            expand(prk, info, output);
        }
        output
    }

    fn hkdf_extract(&mut self, salt: &BytesHashLen, ikm: &BytesP256ElemLen) -> BytesHashLen {
        extract(salt, ikm)
    }

    fn aes_ccm_encrypt_tag_8(
        &mut self,
        key: &BytesCcmKeyLen,
        iv: &BytesCcmIvLen,
        ad: &[u8],
        plaintext: &BufferPlaintext3,
    ) -> BufferCiphertext3 {
        let mut sealed = BufferCiphertext3::new();
        let mut text = plaintext.as_slice().to_vec();
        if let Ok(tag) = Aead::new(key.into()).encrypt_inout_detached(iv.into(), ad, text.as_mut_slice().into()) {
            // Ten times as large as the text.
            let _ = sealed.extend_from_slice(&text).and_then(|()| sealed.extend_from_slice(&tag));
        }
        sealed
    }

    fn aes_ccm_decrypt_tag_8(
        &mut self,
        key: &BytesCcmKeyLen,
        iv: &BytesCcmIvLen,
        ad: &[u8],
        ciphertext: &BufferCiphertext3,
    ) -> Result<BufferPlaintext3, EDHOCError> {
        let sealed = ciphertext.content.get(..ciphertext.len).ok_or(EDHOCError::ParsingError)?;
        let length = sealed.len().checked_sub(AES_CCM_TAG_LEN).ok_or(EDHOCError::ParsingError)?;
        let (text, tag) = sealed.split_at_checked(length).ok_or(EDHOCError::ParsingError)?;
        let (mut text, tag) = (text.to_vec(), tag.try_into().map_err(|_| EDHOCError::ParsingError)?);
        Aead::new(key.into())
            .decrypt_inout_detached(iv.into(), ad, text.as_mut_slice().into(), tag)
            .map_err(|_| EDHOCError::MacVerificationFailed)?;
        // `lakers` would panic on some malformed plaintexts.
        Plaintext3::parse(&text).map_err(|_| EDHOCError::ParsingError)?;
        BufferPlaintext3::new_from_slice(&text).map_err(|_| EDHOCError::ParsingError)
    }

    fn p256_ecdh(&mut self, private_key: &BytesP256ElemLen, public_key: &BytesP256ElemLen) -> BytesP256ElemLen {
        let private = if *private_key == STATIC { self.own.key() } else { &self.ephemeral };
        match PublicKey::new(public_key) {
            Some(public) => *private.agree(&public),
            // Unreachable: public keys are checked before. This value is secret as well.
            None => extract(public_key, &*private.to_bytes()),
        }
    }

    /// Not used: `lakers` makes no random choice here.
    fn get_random_byte(&mut self) -> u8 {
        0
    }

    fn p256_generate_key_pair(&mut self) -> (BytesP256ElemLen, BytesP256ElemLen) {
        let [x, _] = self.ephemeral.public();
        (EPHEMERAL, x)
    }
}

impl From<EDHOCError> for super::Error {
    fn from(error: EDHOCError) -> Self {
        match error {
            EDHOCError::MacVerificationFailed => Self::NotAuthentic,
            _ => Self::Malformed,
        }
    }
}

//! Keys and Common IV of a context (RFC 8613 §3.2.1).

use alloc::vec::Vec;
use core::convert::Infallible;

use hkdf::Hkdf as Extracted;
use minicbor::Encoder;
use sha2::{Sha256, Sha512};

use super::cose::Hidden;
use super::{Credentials, EndId, Hkdf};

/// What is derived.
#[derive(Clone, Copy)]
pub(super) enum Output {
    /// The key of the end with this ID.
    Key(EndId),
    CommonIv,
}

/// Derives `length` bytes, with zeros behind them.
pub(super) fn derive<const N: usize>(credentials: &Credentials, output: Output) -> Hidden<N> {
    let length = match output {
        Output::Key(_) => credentials.aead.key_length(),
        Output::CommonIv => credentials.aead.nonce_length(),
    };
    let info = info(credentials, output, length);
    let mut derived = Hidden([0; N]);
    let secret = credentials.master_secret.as_slice();
    let salt = Some(credentials.master_salt.as_slice());
    if let Some(bytes) = derived.0.get_mut(..length) {
        // No hash is too short for what is asked of it here.
        let _ = match credentials.hkdf {
            Hkdf::Sha256 => Extracted::<Sha256>::new(salt, secret).expand(&info, bytes),
            Hkdf::Sha512 => Extracted::<Sha512>::new(salt, secret).expand(&info, bytes),
        };
    }
    derived
}

/// The CBOR array `info`.
fn info(credentials: &Credentials, output: Output, length: usize) -> Vec<u8> {
    let (id, name) = match output {
        Output::Key(id) => (id, "Key"),
        Output::CommonIv => (EndId::default(), "IV"),
    };
    let mut info = Vec::new();
    // Memory takes everything.
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

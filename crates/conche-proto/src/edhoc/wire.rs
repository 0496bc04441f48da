//! Messages as sequences of CBOR items (RFC 9528 §5) in deterministic encoding (§3.1).

use alloc::vec::Vec;

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use super::Error;
use super::credential::KEY_LENGTH;
use crate::oscore::EndId;

/// Maximum length of a message in bytes: the buffer size of `lakers`.
const LONGEST_MESSAGE: usize = 192;

/// Length of MAC_2 and MAC_3 in cipher suite 2, in bytes (RFC 9528 §3.6).
pub(super) const MAC_LENGTH: usize = 8;

/// message_1 (RFC 9528 §5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message1<'b> {
    pub(super) method: i64,
    /// The last suite of the list is selected.
    pub(super) suites: Suites,
    pub(super) g_x: &'b [u8],
    pub(super) c_i: EndId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suites {
    pub(super) selected: i64,
    /// Our suite precedes the selected one.
    pub(super) ours_before: bool,
}

/// The plaintext of ciphertext_2 (RFC 9528 §5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plaintext2<'b> {
    pub(super) c_r: EndId,
    pub(super) sealed: Plaintext3<'b>,
}

/// The plaintext of ciphertext_3 (RFC 9528 §5.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plaintext3<'b> {
    /// Credentials by value are not supported.
    pub(super) kid: &'b [u8],
    /// In bytes.
    pub(super) ead: usize,
}

impl<'b> Message1<'b> {
    pub(super) fn parse(bytes: &'b [u8], suite: i64) -> Result<Self, Error> {
        let mut items = Items::new(bytes)?;
        let method = items.0.i64()?;
        let suites = items.suites(suite)?;
        let g_x = items.0.bytes()?;
        let c_i = items.id()?;
        items.external()?;
        Ok(Self { method, suites, g_x, c_i })
    }
}

/// Splits message_2 (RFC 9528 §5.3.1).
pub(super) fn message_2(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    only_bytes(bytes)?.split_at_checked(KEY_LENGTH).ok_or(Error::Malformed)
}

pub(super) fn only_bytes(bytes: &[u8]) -> Result<&[u8], Error> {
    let mut items = Items::new(bytes)?;
    let only = items.0.bytes()?;
    if items.rest().is_empty() { Ok(only) } else { Err(Error::Malformed) }
}

impl<'b> Plaintext2<'b> {
    pub(super) fn parse(bytes: &'b [u8]) -> Result<Self, Error> {
        let mut items = Items::new(bytes)?;
        let c_r = items.id()?;
        Ok(Self { c_r, sealed: items.plaintext_3()? })
    }
}

impl<'b> Plaintext3<'b> {
    pub(super) fn parse(bytes: &'b [u8]) -> Result<Self, Error> {
        Items::new(bytes)?.plaintext_3()
    }
}

pub(super) fn write_bytes(content: &[u8]) -> Vec<u8> {
    sequence(|encoder| {
        // Writing to memory cannot fail.
        let _ = encoder.bytes(content);
    })
}

pub(super) fn kid(id_cred: &[u8]) -> Result<&[u8], Error> {
    let mut items = Items::new(id_cred)?;
    match (items.0.map()?, items.0.i64()?) {
        (Some(1), 4) => Ok(items.0.bytes()?),
        _ => Err(Error::UnknownCredential),
    }
}

/// Prepends a connection identifier, as in CoAP requests (RFC 9528 appendix A.2).
#[must_use]
pub fn with_id(id: EndId, message: &[u8]) -> Vec<u8> {
    // A one-byte number is not written as a byte string (RFC 9528 §3.3.2).
    let mut bytes = match id.as_slice() {
        [byte @ (0x00..=0x17 | 0x20..=0x37)] => alloc::vec![*byte],
        id => write_bytes(id),
    };
    bytes.extend_from_slice(message);
    bytes
}

/// Splits off the connection identifier of a CoAP request (RFC 9528 appendix A.2).
///
/// # Errors
/// [`Error::Malformed`] if it is missing, or too long for OSCORE.
pub fn split_id(bytes: &[u8]) -> Result<(EndId, &[u8]), Error> {
    let mut items = Items::new(bytes)?;
    let id = items.id()?;
    Ok((id, items.rest()))
}

pub(super) fn sequence(write: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Encoder::new(&mut bytes));
    bytes
}

struct Items<'b>(Decoder<'b>);

impl<'b> Items<'b> {
    fn new(bytes: &'b [u8]) -> Result<Self, Error> {
        if bytes.len() > LONGEST_MESSAGE { Err(Error::Malformed) } else { Ok(Self(Decoder::new(bytes))) }
    }

    fn rest(&self) -> &'b [u8] {
        self.0.input().get(self.0.position()..).unwrap_or_default()
    }

    /// Skips external authorization data; returns its length. It must not be critical (RFC 9528
    /// §3.8). `lakers` takes all of it for one item, which is harmless if it starts with a one-byte
    /// number.
    fn external(&mut self) -> Result<usize, Error> {
        let length = self.rest().len();
        let one_byte = matches!(self.rest(), [] | [0x00..=0x17, ..]);
        while !self.rest().is_empty() {
            if self.0.i64()? < 0 {
                return Err(Error::Ead);
            }
            if !self.rest().is_empty() && self.0.datatype()? == Type::Bytes {
                self.0.bytes()?;
            }
        }
        if one_byte { Ok(length) } else { Err(Error::Ead) }
    }

    fn suites(&mut self, ours: i64) -> Result<Suites, Error> {
        if self.0.datatype()? != Type::Array {
            return Ok(Suites { selected: self.0.i64()?, ours_before: false });
        }
        let count = self.0.array()?.filter(|count| *count >= 2).ok_or(Error::Malformed)?;
        let mut ours_before = false;
        for _ in 1..count {
            ours_before |= self.0.i64()? == ours;
        }
        Ok(Suites { selected: self.0.i64()?, ours_before })
    }

    /// Reads a byte string, or a number that represents its one-byte encoding.
    fn short(&mut self) -> Result<&'b [u8], Error> {
        if let Some((byte @ (0x00..=0x17 | 0x20..=0x37), _)) = self.rest().split_first() {
            self.0.i64()?;
            return Ok(core::slice::from_ref(byte));
        }
        match self.0.bytes()? {
            // Must be encoded as a number.
            [0x00..=0x17 | 0x20..=0x37] => Err(Error::Malformed),
            id => Ok(id),
        }
    }

    fn id(&mut self) -> Result<EndId, Error> {
        EndId::new(self.short()?).ok_or(Error::Malformed)
    }

    fn plaintext_3(&mut self) -> Result<Plaintext3<'b>, Error> {
        // A map does not contain a key ID.
        if matches!(self.0.datatype()?, Type::Map | Type::MapIndef) {
            return Err(Error::UnknownCredential);
        }
        let (kid, mac) = (self.short()?, self.0.bytes()?);
        let ead = self.external()?;
        if mac.len() == MAC_LENGTH { Ok(Plaintext3 { kid, ead }) } else { Err(Error::Malformed) }
    }
}

impl From<minicbor::decode::Error> for Error {
    fn from(_: minicbor::decode::Error) -> Self {
        Self::Malformed
    }
}

//! [`Credential`]: a public key with its owner, as a CWT Claims Set (CCS; RFC 8392, RFC 9528
//! §3.5.2).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use p256::elliptic_curve::ecdh::diffie_hellman;
use p256::elliptic_curve::point::{AffineCoordinates, DecompressPoint};
use p256::elliptic_curve::subtle::Choice;
use p256::{AffinePoint, FieldBytes, SecretKey};
use thiserror::Error as Derive;
use zeroize::Zeroizing;

use super::Error;
use crate::codec::Hexadecimal;

/// Claims (RFC 8392 §4, RFC 8747 §3.1).
const SUBJECT: i64 = 2;
const CONFIRMATION: i64 = 8;
const COSE_KEY: i64 = 1;

/// Parameters of a COSE_Key, and their values for P-256 (RFC 9052 §7.1, RFC 9053 §7.1.1).
const KEY_TYPE: i64 = 1;
const KEY_ID: i64 = 2;
const CURVE: i64 = -1;
const X: i64 = -2;
const Y: i64 = -3;
const EC2: i64 = 2;
const P256: i64 = 1;

/// A public key on P-256 with its ID (`kid`) and its subject, as a CWT Claims Set with the claim
/// `cnf`. Both ends must have the same bytes.
///
/// ```
/// use conche_proto::edhoc::{Credential, PrivateKey};
///
/// let key = PrivateKey::new(&[7; 32]).expect("a key");
/// let credential = Credential::of(&key, b"\x2b", "lamp-7")?;
/// assert_eq!((credential.kid(), credential.subject()), (&b"\x2b"[..], Some("lamp-7")));
/// assert_eq!(Credential::parse(credential.as_slice())?, credential);
/// # Ok::<(), conche_proto::edhoc::CredentialError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    bytes: Vec<u8>,
    kid: Vec<u8>,
    subject: Option<String>,
    x: [u8; KEY_LENGTH],
}

impl Credential {
    /// Maximum length of a credential in bytes.
    pub const LONGEST: usize = 192;

    /// Maximum length of a key ID in bytes.
    pub const LONGEST_KID: usize = 16;

    /// Creates a credential for a key, with an ID of 1 to 16 bytes and a subject.
    ///
    /// # Errors
    /// If the ID or the subject is too long.
    pub fn of(key: &PrivateKey, kid: &[u8], subject: &str) -> Result<Self, CredentialError> {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail.
        let _ = encode(&mut Encoder::new(&mut bytes), key.public(), kid, subject);
        Self::parse(&bytes)
    }

    /// Parses an encoded CWT Claims Set.
    ///
    /// # Errors
    /// The first applicable [`CredentialError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, CredentialError> {
        if bytes.len() > Self::LONGEST {
            return Err(CredentialError::TooLong { bytes: bytes.len() });
        }
        let mut decoder = Decoder::new(bytes);
        let claims = claims(&mut decoder).map_err(|_| CredentialError::NoClaims)?;
        if decoder.position() != bytes.len() {
            return Err(CredentialError::NoClaims);
        }
        let CoseKey { kind, curve, kid, x, y } = claims.key.ok_or(CredentialError::NoKey)?;
        if (kind, curve) != (Some(EC2), Some(P256)) {
            return Err(CredentialError::OtherCurve);
        }
        let is_point = |x: &&[u8]| PublicKey::new(x).is_some_and(|point| y.is_none_or(|y| point.has_y(y)));
        let x = x.filter(is_point).and_then(|x| x.try_into().ok()).ok_or(CredentialError::NoPoint)?;
        let kid = kid.filter(|kid| (1..=Self::LONGEST_KID).contains(&kid.len())).ok_or(CredentialError::NoKid)?;
        Ok(Self { bytes: bytes.to_vec(), kid: kid.to_vec(), subject: claims.subject.map(String::from), x })
    }

    /// Returns the encoded credential.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the key ID, which messages contain.
    #[must_use]
    pub fn kid(&self) -> &[u8] {
        &self.kid
    }

    /// Returns the subject, if present.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    pub(super) fn for_lakers(&self) -> Result<lakers::Credential, Error> {
        let bytes = lakers::BufferCred::new_from_slice(&self.bytes).map_err(|_| Error::Malformed)?;
        let kid = lakers::BufferKid::new_from_slice(&self.kid).map_err(|_| Error::Malformed)?;
        Ok(lakers::Credential::new_ccs(bytes, self.x).with_kid(kid))
    }

    /// Returns `true` if the credential belongs to this key.
    #[must_use]
    pub fn is_of(&self, key: &PrivateKey) -> bool {
        let [x, _] = key.public();
        x == self.x
    }
}

/// Prints the subject, if present, and the key ID in hexadecimal digits.
impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subject) = &self.subject {
            write!(f, "{subject:?} with ")?;
        }
        write!(f, "key ID {}", Hexadecimal(&self.kid))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = self.subject.as_deref().unwrap_or_default();
        write!(f, "Credential({subject:?}, {})", Hexadecimal(&self.kid))
    }
}

fn encode(
    encoder: &mut Encoder<&mut Vec<u8>>,
    [x, y]: [[u8; KEY_LENGTH]; 2],
    kid: &[u8],
    subject: &str,
) -> Result<(), minicbor::encode::Error<Infallible>> {
    encoder.map(2)?.i64(SUBJECT)?.str(subject)?.i64(CONFIRMATION)?.map(1)?.i64(COSE_KEY)?.map(5)?;
    encoder.i64(KEY_TYPE)?.i64(EC2)?.i64(KEY_ID)?.bytes(kid)?;
    encoder.i64(CURVE)?.i64(P256)?.i64(X)?.bytes(&x)?.i64(Y)?.bytes(&y)?.ok()
}

#[derive(Default)]
struct Claims<'b> {
    subject: Option<&'b str>,
    key: Option<CoseKey<'b>>,
}

#[derive(Default)]
struct CoseKey<'b> {
    kind: Option<i64>,
    curve: Option<i64>,
    kid: Option<&'b [u8]>,
    x: Option<&'b [u8]>,
    y: Option<&'b [u8]>,
}

fn claims<'b>(decoder: &mut Decoder<'b>) -> Result<Claims<'b>, minicbor::decode::Error> {
    let mut claims = Claims::default();
    for _ in 0..entries(decoder)? {
        match label(decoder)? {
            Some(SUBJECT) => claims.subject = Some(decoder.str()?),
            Some(CONFIRMATION) => {
                for _ in 0..entries(decoder)? {
                    match label(decoder)? {
                        Some(COSE_KEY) => claims.key = Some(cose_key(decoder)?),
                        _ => decoder.skip()?,
                    }
                }
            }
            _ => decoder.skip()?,
        }
    }
    Ok(claims)
}

fn cose_key<'b>(decoder: &mut Decoder<'b>) -> Result<CoseKey<'b>, minicbor::decode::Error> {
    let mut key = CoseKey::default();
    for _ in 0..entries(decoder)? {
        match label(decoder)? {
            Some(KEY_TYPE) => key.kind = Some(decoder.i64()?),
            Some(KEY_ID) => key.kid = Some(decoder.bytes()?),
            Some(CURVE) => key.curve = Some(decoder.i64()?),
            Some(X) => key.x = Some(decoder.bytes()?),
            // The value may be a sign bit instead.
            Some(Y) if decoder.datatype()? == Type::Bytes => key.y = Some(decoder.bytes()?),
            _ => decoder.skip()?,
        }
    }
    Ok(key)
}

/// Deterministic encoding excludes maps of indefinite length (RFC 9528 §3.1).
fn entries(decoder: &mut Decoder<'_>) -> Result<u64, minicbor::decode::Error> {
    decoder.map()?.ok_or_else(|| minicbor::decode::Error::message("a map of indefinite length"))
}

/// `None` for a text label.
fn label(decoder: &mut Decoder<'_>) -> Result<Option<i64>, minicbor::decode::Error> {
    if decoder.datatype()? == Type::String {
        return decoder.skip().map(|()| None);
    }
    decoder.i64().map(Some)
}

/// Reason why a credential cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Derive)]
#[non_exhaustive]
pub enum CredentialError {
    /// The credential does not fit into a message.
    #[error("the credential has {bytes} bytes: {} at most", Credential::LONGEST)]
    TooLong {
        /// Length in bytes.
        bytes: usize,
    },
    /// The bytes are not a CWT Claims Set in deterministic CBOR.
    #[error("the credential is no CWT Claims Set: a CBOR map with the claim cnf (8) was expected")]
    NoClaims,
    /// The claim `cnf`, or the COSE_Key in it, is missing.
    #[error("the credential has no key: a claim cnf (8) with a COSE_Key (1) was expected")]
    NoKey,
    /// The key is on another curve.
    #[error("the credential's key is none on P-256: kty 2 and crv 1 were expected")]
    OtherCurve,
    /// The key ID is missing or too long.
    #[error("the credential's key has no ID: a kid (2) of 1 to {} bytes was expected", Credential::LONGEST_KID)]
    NoKid,
    /// The coordinates are not a point on the curve.
    #[error("the credential's key is no point on P-256")]
    NoPoint,
    /// Two credentials have the same ID.
    #[error("two credentials have the same key ID (kid): they could not be told apart")]
    SameKid,
    /// No known credential has this ID.
    #[error("no known credential has this key ID (kid)")]
    UnknownKid,
    /// A peer's credential has this end's key, which permits reflection.
    #[error("the credential of a peer has this end's own key: each end has a key of its own")]
    OwnKey,
    /// The private key belongs to another credential.
    #[error("the private key does not belong to the credential")]
    OtherKey,
}

/// Length of a private key, and of each coordinate of a public key, in bytes.
pub const KEY_LENGTH: usize = 32;

/// A private key, wiped on drop and not in debug output.
#[derive(Clone)]
pub struct PrivateKey(SecretKey);

impl PrivateKey {
    /// Creates a key from secret random bytes. `None`, with a probability of 2^-32, for an invalid
    /// key: draw others.
    #[must_use]
    pub fn new(bytes: &[u8; KEY_LENGTH]) -> Option<Self> {
        SecretKey::from_slice(bytes).ok().map(Self)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; KEY_LENGTH]> {
        Zeroizing::new(self.0.to_bytes().into())
    }

    /// Returns the coordinates x and y of the public key.
    #[must_use]
    pub fn public(&self) -> [[u8; KEY_LENGTH]; 2] {
        let key = self.0.public_key();
        [key.as_affine().x().into(), key.as_affine().y().into()]
    }

    /// Computes a shared secret: G_XY, G_RX or G_IY.
    pub(super) fn agree(&self, with: &PublicKey) -> Zeroizing<[u8; KEY_LENGTH]> {
        let shared = diffie_hellman(self.0.to_nonzero_scalar(), with.0);
        let mut bytes = Zeroizing::new([0; KEY_LENGTH]);
        bytes.copy_from_slice(shared.raw_secret_bytes());
        bytes
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(_)")
    }
}

/// A point on the curve. Messages contain only x: the shared secret does not depend on the sign of
/// y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PublicKey(AffinePoint);

impl PublicKey {
    /// `None` if no point on the curve has this x coordinate (RFC 9528 §9.2).
    pub(super) fn new(x: &[u8]) -> Option<Self> {
        let x = FieldBytes::try_from(x).ok()?;
        AffinePoint::decompress(&x, Choice::from(0)).into_option().map(Self)
    }

    /// Returns `true` if y is that of the point or its mirror image.
    pub(super) fn has_y(&self, y: &[u8]) -> bool {
        let mirrored = -self.0;
        [self.0.y(), mirrored.y()].iter().any(|own| own.as_slice() == y)
    }
}

/// The identity of this end: a credential with its private key.
#[derive(Clone, Debug)]
pub struct OwnCredential {
    pub(super) key: PrivateKey,
    credential: Credential,
}

impl OwnCredential {
    /// Combines a credential with its private key.
    ///
    /// # Errors
    /// [`CredentialError::OtherKey`] if the key is not the credential's.
    pub fn new(key: PrivateKey, credential: Credential) -> Result<Self, CredentialError> {
        if credential.is_of(&key) { Ok(Self { key, credential }) } else { Err(CredentialError::OtherKey) }
    }

    /// Returns the private key.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Returns the credential.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }
}

/// The credentials of the accepted peers, by key ID.
#[derive(Clone, Debug, Default)]
pub struct PeerCredentials {
    by_kid: BTreeMap<Vec<u8>, Arc<Credential>>,
    /// In bytes.
    longest: usize,
}

/// Maximum context (RFC 9528 §4.4.1) that `lakers` encodes correctly, in bytes.
const LONGEST_CONTEXT: usize = 255;

impl PeerCredentials {
    /// Creates a set of these credentials.
    ///
    /// # Errors
    /// [`CredentialError::SameKid`] if two of them have the same ID.
    pub fn of(credentials: impl IntoIterator<Item = Credential>) -> Result<Self, CredentialError> {
        let mut peers = Self::default();
        credentials.into_iter().try_for_each(|credential| peers.add(credential))?;
        Ok(peers)
    }

    /// Adds a credential.
    ///
    /// # Errors
    /// [`CredentialError::SameKid`] if another credential has the same ID.
    pub fn add(&mut self, credential: Credential) -> Result<(), CredentialError> {
        let kid = credential.kid().to_vec();
        if self.by_kid.get(&kid).is_some_and(|known| **known != credential) {
            return Err(CredentialError::SameKid);
        }
        self.longest = self.longest.max(credential.as_slice().len());
        self.by_kid.insert(kid, Arc::new(credential));
        Ok(())
    }

    /// Returns the credentials in the order of key IDs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Credential>> {
        self.by_kid.values()
    }

    pub(super) fn any(&self) -> Option<&Arc<Credential>> {
        self.by_kid.values().next()
    }

    /// Returns the credential with this key ID.
    #[must_use]
    pub fn get(&self, kid: &[u8]) -> Option<&Arc<Credential>> {
        self.by_kid.get(kid)
    }

    /// Returns `true` if the context of MAC_2 or MAC_3 (RFC 9528 §5.3.2, §5.4.2) fits the buffer of
    /// `lakers`, which otherwise panics. `kid` and `ead` are the lengths in bytes of the message's
    /// key ID and external authorization data.
    ///
    /// Assumes the longest credential of the set, so as not to reveal which key IDs exist.
    pub(super) fn leave_room_for(&self, kid: usize, ead: usize) -> bool {
        let (c_r, id_cred, transcript_hash) = (8, 3 + kid, 34);
        c_r + id_cred + transcript_hash + self.longest + ead <= LONGEST_CONTEXT
    }
}

//! Keys on the curve P-256, which cipher suites 2 and 3 use (RFC 9528 §3.6).

use core::fmt;

use p256::elliptic_curve::ecdh::diffie_hellman;
use p256::elliptic_curve::point::{AffineCoordinates, DecompressPoint};
use p256::elliptic_curve::subtle::Choice;
use p256::{AffinePoint, FieldBytes, SecretKey};
use zeroize::Zeroizing;

/// Bytes of a private key, and of each coordinate of a public one.
pub const KEY_LENGTH: usize = 32;

/// A private key. It is wiped when it is dropped, and not shown.
#[derive(Clone)]
pub struct PrivateKey(SecretKey);

impl PrivateKey {
    /// The key of these bytes, which nobody else knows: as many random ones, from the operating system. `None` if they are no key, which of
    /// random bytes one in 2^32 is not: others are to be drawn.
    #[must_use]
    pub fn new(bytes: &[u8; KEY_LENGTH]) -> Option<Self> {
        SecretKey::from_slice(bytes).ok().map(Self)
    }

    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; KEY_LENGTH]> {
        Zeroizing::new(self.0.to_bytes().into())
    }

    /// The coordinates x and y of the public key.
    #[must_use]
    pub fn public(&self) -> [[u8; KEY_LENGTH]; 2] {
        let key = self.0.public_key();
        [key.as_affine().x().into(), key.as_affine().y().into()]
    }

    /// What this end and the one with the public key have in common (G_XY, G_RX, G_IY).
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

/// A point of the curve. Messages have its x alone: which of the two points with that it is does not matter to what is agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PublicKey(AffinePoint);

impl PublicKey {
    /// The point with this x; `None` if the curve has none (RFC 9528 §9.2).
    pub(super) fn new(x: &[u8]) -> Option<Self> {
        let x = FieldBytes::try_from(x).ok()?;
        AffinePoint::decompress(&x, Choice::from(0)).into_option().map(Self)
    }

    /// The coordinate y is of this point.
    pub(super) fn has_y(&self, y: &[u8]) -> bool {
        let mirrored = -self.0;
        [self.0.y(), mirrored.y()].iter().any(|own| own.as_slice() == y)
    }
}

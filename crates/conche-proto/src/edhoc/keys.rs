//! Keys on the curve P-256, used by cipher suites 2 and 3 (RFC 9528 §3.6).

use core::fmt;

use p256::elliptic_curve::ecdh::diffie_hellman;
use p256::elliptic_curve::point::{AffineCoordinates, DecompressPoint};
use p256::elliptic_curve::subtle::Choice;
use p256::{AffinePoint, FieldBytes, SecretKey};
use zeroize::Zeroizing;

/// Length of a private key, and of each coordinate of a public key, in bytes.
pub const KEY_LENGTH: usize = 32;

/// A private key, wiped on drop and omitted from debug output.
#[derive(Clone)]
pub struct PrivateKey(SecretKey);

impl PrivateKey {
    /// Creates a key from secret random bytes of the operating system. `None` if the bytes are not
    /// a valid key, which has a probability of 2^-32: draw others then.
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

    /// Computes the shared secret with a public key (G_XY, G_RX, G_IY).
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

/// A point on the curve. Messages contain only its x coordinate: the shared secret does not depend
/// on the sign of y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PublicKey(AffinePoint);

impl PublicKey {
    /// Returns the point with this x coordinate; `None` if there is none on the curve (RFC 9528
    /// §9.2).
    pub(super) fn new(x: &[u8]) -> Option<Self> {
        let x = FieldBytes::try_from(x).ok()?;
        AffinePoint::decompress(&x, Choice::from(0)).into_option().map(Self)
    }

    /// Returns `true` if the point or its mirror image has this y coordinate.
    pub(super) fn has_y(&self, y: &[u8]) -> bool {
        let mirrored = -self.0;
        [self.0.y(), mirrored.y()].iter().any(|own| own.as_slice() == y)
    }
}

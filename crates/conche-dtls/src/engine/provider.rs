//! The cryptography that dimpl is given: RustCrypto's, with one function of ours in it.
//!
//! dimpl verifies cookies of its own making, with a key that each association draws for itself. Ours were made by the gate
//! long before there was an association. [`Cookies`] is asked for the one that dimpl would have made (it alone uses
//! `hmac_sha256` for that, everything else goes through `hmac`), and names the one that the gate has found valid.

use core::cell::Cell;

use dimpl::CryptoError;
use dimpl::crypto::{CryptoProvider, HashAlgorithm, HmacProvider, rust_crypto};

use crate::cookie::COOKIE;
use crate::credentials::Secret;

thread_local! {
    /// The cookie that is valid while a ClientHello is being fed.
    static VALID: Cell<Option<[u8; COOKIE]>> = const { Cell::new(None) };
}

/// Has this cookie be valid while `feed` runs.
pub(super) fn with_cookie<T>(cookie: [u8; COOKIE], feed: impl FnOnce() -> T) -> T {
    VALID.set(Some(cookie));
    let fed = feed();
    VALID.set(None);
    fed
}

#[derive(Debug)]
struct Cookies;

impl HmacProvider for Cookies {
    fn hmac_sha256(&self, key: &[u8], data: &[u8]) -> Result<[u8; 32], CryptoError> {
        if let Some(cookie) = VALID.get() {
            return Ok(cookie);
        }
        let mut out = [0; 32];
        self.hmac(HashAlgorithm::SHA256, key, data, &mut out)?;
        Ok(out)
    }

    fn hmac(&self, hash: HashAlgorithm, key: &[u8], data: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        rust_crypto::default_provider().hmac_provider.hmac(hash, key, data, out)
    }
}

/// For certificates: all of DTLS 1.2.
pub(super) fn for_certificates() -> CryptoProvider {
    CryptoProvider { hmac_provider: &Cookies, ..rust_crypto::default_provider() }
}

/// For pre-shared keys: the one cipher suite, and no curves, which a ClientHello would list in vain.
pub(super) fn for_keys() -> CryptoProvider {
    let all = for_certificates();
    let suites = all.cipher_suites;
    let of_keys = suites.iter().position(|suite| suite.suite().is_psk());
    let suites = of_keys.map_or(suites, |at| &suites[at..=at]);
    CryptoProvider { cipher_suites: suites, kx_groups: &[], ..all }
}

/// The engine can sign with it.
pub(crate) fn is_private_key(key: &Secret) -> bool {
    rust_crypto::default_provider().key_provider.load_private_key(key.expose()).is_ok()
}

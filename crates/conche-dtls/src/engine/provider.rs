//! dimpl's cryptography provider: RustCrypto, with hooks for cookies and key logs.
//!
//! dimpl verifies its own cookies, with a key per association;
//! [`CookieVerifier`](crate::cookie::CookieVerifier) makes cookies before there is one.
//! [`HookedHmac`] intercepts dimpl's cookie (the only use of `hmac_sha256`; all else uses `hmac`)
//! and returns the verified one.
//!
//! Keys are expanded from the master secret (RFC 5246 §6.3), which dimpl does not export, so `hmac`
//! records it for key logs.

use core::cell::RefCell;

use dimpl::CryptoError;
use dimpl::crypto::{CryptoProvider, HashAlgorithm, HmacProvider, rust_crypto};
use zeroize::Zeroizing;

use super::client_hello;
use crate::cookie::COOKIE;

/// Hashed first with the master secret.
const EXPANSION: &[u8] = b"key expansion";

pub(super) struct Master {
    pub(super) random: [u8; 32],
    pub(super) secret: Zeroizing<[u8; 48]>,
}

thread_local! {
    static STATE: RefCell<HookState> =
        const { RefCell::new(HookState { cookie: None, records_master: false, recorded: None }) };
}

struct HookState {
    cookie: Option<[u8; COOKIE]>,
    records_master: bool,
    recorded: Option<Master>,
}

/// Runs `feed` with a valid cookie; records the master secret if `records_master`.
pub(super) fn with_hooks<T>(
    cookie: Option<[u8; COOKIE]>,
    records_master: bool,
    feed: impl FnOnce() -> T,
) -> (T, Option<Master>) {
    /// Resets the thread's state, even on a panic.
    struct Fed;

    impl Drop for Fed {
        fn drop(&mut self) {
            STATE.set(HookState { cookie: None, records_master: false, recorded: None });
        }
    }

    STATE.set(HookState { cookie, records_master, recorded: None });
    let _fed = Fed;
    let fed = feed();
    (fed, STATE.with_borrow_mut(|state| state.recorded.take()))
}

#[derive(Debug)]
struct HookedHmac;

impl HmacProvider for HookedHmac {
    fn hmac_sha256(&self, key: &[u8], data: &[u8]) -> Result<[u8; 32], CryptoError> {
        if let Some(cookie) = STATE.with_borrow(|state| state.cookie) {
            return Ok(cookie);
        }
        let mut out = [0; 32];
        self.hmac(HashAlgorithm::SHA256, key, data, &mut out)?;
        Ok(out)
    }

    fn hmac(&self, hash: HashAlgorithm, key: &[u8], data: &[u8], out: &mut [u8]) -> Result<usize, CryptoError> {
        STATE.with_borrow_mut(|state| {
            if state.records_master {
                state.recorded = state.recorded.take().or_else(|| master(key, data));
            }
        });
        rust_crypto::default_provider().hmac_provider.hmac(hash, key, data, out)
    }
}

fn master(key: &[u8], data: &[u8]) -> Option<Master> {
    let (_server, client) = data.strip_prefix(EXPANSION)?.split_at_checked(32)?;
    Some(Master { random: client.try_into().ok()?, secret: Zeroizing::new(key.try_into().ok()?) })
}

/// All of DTLS 1.2.
pub(super) fn for_certificates() -> CryptoProvider {
    CryptoProvider { hmac_provider: &HookedHmac, ..rust_crypto::default_provider() }
}

/// One cipher suite, and no curves to list needlessly.
pub(super) fn for_keys() -> CryptoProvider {
    let all = for_certificates();
    let suites = all.cipher_suites;
    let of_keys = suites.iter().position(|suite| suite.suite().is_psk());
    let suites = of_keys.map_or(suites, |at| &suites[at..=at]);
    CryptoProvider { cipher_suites: suites, kx_groups: &[], ..all }
}

/// Hashes and signs the ClientHello without `use_srtp`.
pub(super) fn for_client(provider: CryptoProvider) -> CryptoProvider {
    CryptoProvider { hash_provider: client_hello::hashes(), key_provider: client_hello::keys(), ..provider }
}

//! Chains and pinned certificates, made here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conche_dtls::{
    CertificateError, ClientCredentials, Config, Ended, Failure, OwnCertificate, Secret, ServerCertificate,
    ServerCredentials, Trust,
};
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};

use crate::wire::{Faults, Wire, client};

const NAME: &str = "coap.example";

fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    let [high, low] = length.to_be_bytes();
    let header = match length {
        0..128 => vec![tag, low],
        128..256 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [header, content.to_vec()].concat()
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tlv(0x30, &parts.concat())
}

const ECDSA_WITH_SHA256: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const PRIME256V1: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const SERVER_AUTH: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2];
/// Bits of a key usage (RFC 5280 §4.2.1.3).
const DIGITAL_SIGNATURE: &[u8] = &[3, 2, 7, 0x80];
const KEY_AGREEMENT: &[u8] = &[3, 2, 3, 0x08];
const KEY_CERT_SIGN: &[u8] = &[3, 2, 2, 0x04];

#[derive(Clone)]
struct Party {
    name: String,
    key: SigningKey,
    der: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Extensions {
    /// Basic constraints: `cA` and a path length.
    basic: Option<(bool, Option<u8>)>,
    key_usage: Option<&'static [u8]>,
    purpose: Option<&'static [u8]>,
}

const CA: Extensions = Extensions { basic: Some((true, None)), key_usage: Some(KEY_CERT_SIGN), purpose: None };
const LEAF: Extensions = Extensions { basic: None, key_usage: Some(DIGITAL_SIGNATURE), purpose: Some(SERVER_AUTH) };

impl Extensions {
    fn path_length(self, length: u8) -> Self {
        Self { basic: Some((true, Some(length))), ..self }
    }

    fn der(&self) -> Vec<u8> {
        let extension = |last: u8, value: &[u8]| sequence(&[vec![6, 3, 0x55, 0x1d, last], tlv(4, value)]);
        let mut all = vec![extension(17, &sequence(&[tlv(0x82, NAME.as_bytes())]))];
        if let Some((is_authority, length)) = self.basic {
            let flag = if is_authority { vec![1, 1, 0xff] } else { vec![] };
            all.push(extension(19, &sequence(&[flag, length.map_or(vec![], |length| vec![2, 1, length])])));
        }
        all.extend(self.key_usage.map(|usage| extension(15, usage)));
        all.extend(self.purpose.map(|purpose| extension(37, &sequence(&[purpose.to_vec()]))));
        tlv(0xa3, &sequence(&all))
    }
}

impl Party {
    /// Creates a self-signed certificate, valid 2020 to 2040.
    fn root(name: &str, extensions: Extensions) -> Self {
        Self::new(name, None, extensions)
    }

    fn issue(&self, name: &str, extensions: Extensions) -> Self {
        Self::new(name, Some(self), extensions)
    }

    fn new(name: &str, issuer: Option<&Self>, extensions: Extensions) -> Self {
        let mut secret = [7; 32];
        secret[..name.len()].copy_from_slice(name.as_bytes());
        let key = SigningKey::from_slice(&secret).unwrap();
        let named = |name: &str| {
            let attribute = sequence(&[vec![6, 3, 0x55, 4, 3], tlv(12, name.as_bytes())]);
            sequence(&[tlv(0x31, &attribute)])
        };
        let point = key.verifying_key().to_sec1_point(false);
        let public = [&[0], point.as_bytes()].concat();
        let tbs = sequence(&[
            vec![0xa0, 3, 2, 1, 2],
            vec![2, 1, 1],
            sequence(&[ECDSA_WITH_SHA256.to_vec()]),
            named(issuer.map_or(name, |issuer| &issuer.name)),
            sequence(&[tlv(0x17, b"200101000000Z"), tlv(0x17, b"400101000000Z")]),
            named(name),
            sequence(&[sequence(&[EC_PUBLIC_KEY.to_vec(), PRIME256V1.to_vec()]), tlv(3, &public)]),
            extensions.der(),
        ]);
        let signature: Signature = issuer.map_or(&key, |issuer| &issuer.key).sign(&tbs);
        let signature = [&[0], signature.to_der().as_bytes()].concat();
        let der = sequence(&[tbs, sequence(&[ECDSA_WITH_SHA256.to_vec()]), tlv(3, &signature)]);
        Self { name: name.to_owned(), key, der }
    }

    fn own(&self) -> OwnCertificate {
        let secret = self.key.to_bytes();
        let sec1 = sequence(&[vec![2, 1, 1], tlv(4, &secret), tlv(0xa0, PRIME256V1)]);
        OwnCertificate::new(self.der.clone(), Secret::new(sec1)).unwrap()
    }
}

const YEAR: u64 = 31_557_600;

fn year(year: u64) -> Duration {
    Duration::from_secs((year - 1970) * YEAR)
}

fn trust(roots: &[&Party], intermediates: &[&Party]) -> Trust {
    let trust = Trust::new(roots.iter().map(|root| &root.der[..]), year(2030)).unwrap();
    trust.with_intermediates(intermediates.iter().map(|between| &between.der[..]))
}

fn refused(server: &Party, trust: Trust) -> Option<Ended> {
    let certificate = Some(ServerCertificate { own: server.own(), clients: None });
    let server = Config { server: Some(ServerCredentials { certificate, ..Default::default() }), ..Config::default() };
    let mut wire = Wire::new(server, client(1), 1, Faults::default());
    let credentials = ClientCredentials::certificate(None, trust, NAME).unwrap();
    if wire.handshake(&credentials) { None } else { Some(wire.client().outputs.closed[0].1.clone()) }
}

#[track_caller]
fn assert_refused(server: &Party, trust: Trust, why: CertificateError) {
    assert_eq!(refused(server, trust), Some(Ended::Failed(Failure::Certificate(why))));
}

#[test]
fn a_chain_of_authorities_authenticates_a_server() {
    let root = Party::root("root", CA);
    let between = root.issue("between", CA);
    let plain = Party::root("plain", Extensions { key_usage: None, ..CA });
    assert_eq!(refused(&root.issue("server", LEAF), trust(&[&root], &[])), None);
    assert_eq!(refused(&between.issue("server", LEAF), trust(&[&root], &[&between])), None);
    assert_eq!(refused(&plain.issue("server", LEAF), trust(&[&plain], &[])), None, "without a key usage");
}

#[test]
fn a_pinned_certificate_authenticates_its_peer_and_issues_nothing() {
    for basic in [None, Some((false, None))] {
        let pinned = Party::root("pinned", Extensions { basic, ..LEAF });
        assert_eq!(refused(&pinned, trust(&[&pinned], &[])), None);
        assert_refused(&pinned.issue("server", LEAF), trust(&[&pinned], &[]), CertificateError::Unknown);
    }
    // It need not be self-signed, and its issuer is not trusted.
    let root = Party::root("root", CA);
    let pinned = root.issue("pinned", LEAF);
    assert_eq!(refused(&pinned, trust(&[&pinned], &[])), None);
    assert_refused(&root.issue("server", LEAF), trust(&[&pinned], &[]), CertificateError::Unknown);
    assert_refused(&pinned.issue("server", LEAF), trust(&[&root], &[&pinned]), CertificateError::Unknown);
}

#[test]
fn an_authority_without_key_cert_sign_issues_nothing() {
    let root = Party::root("root", CA);
    let no_sign = Extensions { key_usage: Some(DIGITAL_SIGNATURE), ..CA };
    let between = root.issue("between", no_sign);
    assert_refused(&between.issue("server", LEAF), trust(&[&root], &[&between]), CertificateError::Unknown);
    let root = Party::root("root", no_sign);
    assert_refused(&root.issue("server", LEAF), trust(&[&root], &[]), CertificateError::Unknown);
}

#[test]
fn no_more_intermediates_follow_an_authority_than_its_path_length_allows() {
    for (root_length, between_length, allowed) in
        [(None, None, true), (Some(2), Some(1), true), (Some(1), None, false), (None, Some(0), false)]
    {
        let with = |length: Option<u8>| length.map_or(CA, |length| CA.path_length(length));
        let root = Party::root("root", with(root_length));
        let first = root.issue("first", with(between_length));
        let second = first.issue("second", CA);
        let ended = refused(&second.issue("server", LEAF), trust(&[&root], &[&first, &second]));
        assert_eq!(ended.is_none(), allowed, "{root_length:?} {between_length:?} {ended:?}");
    }
    let root = Party::root("root", CA.path_length(0));
    assert_eq!(refused(&root.issue("server", LEAF), trust(&[&root], &[])), None);
    let between = root.issue("between", CA);
    assert!(refused(&between.issue("server", LEAF), trust(&[&root], &[&between])).is_some());
    let longer = Party::root("root", CA.path_length(1));
    assert_eq!(refused(&between.issue("server", LEAF), trust(&[&root, &longer], &[&between])), None);
}

#[test]
fn a_server_needs_a_key_that_signs_and_a_purpose_that_fits() {
    let root = Party::root("root", CA);
    let agrees = root.issue("server", Extensions { key_usage: Some(KEY_AGREEMENT), ..LEAF });
    let of_client = Extensions { purpose: Some(CLIENT_AUTH), ..LEAF };
    let by_root = root.issue("server", of_client);
    let pinned = Party::root("pinned", of_client);
    for server in [&agrees, &by_root, &pinned] {
        assert_refused(server, trust(&[&root, &pinned], &[]), CertificateError::Unusable);
    }
    let any = root.issue("server", Extensions { key_usage: None, purpose: None, ..LEAF });
    assert_eq!(refused(&any, trust(&[&root], &[])), None);
}

#[test]
fn the_clock_is_read_for_each_certificate() {
    let root = Party::root("root", CA);
    let pinned = Party::root("pinned", LEAF);
    for server in [root.issue("server", LEAF), pinned.clone()] {
        let clock = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&clock);
        let trust = trust(&[&root, &pinned], &[]).with_clock(move || year(read.load(Ordering::Relaxed)));
        for (set, ended) in [(2006, Some(CertificateError::Time)), (2026, None), (2041, Some(CertificateError::Time))] {
            clock.store(set, Ordering::Relaxed);
            let ended = ended.map(|why| Ended::Failed(Failure::Certificate(why)));
            assert_eq!(refused(&server, trust.clone()), ended, "{set}");
        }
    }
}

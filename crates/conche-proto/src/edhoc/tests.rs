//! The trace of RFC 9529 §3, and messages of an attacker.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::format;
use std::prelude::v1::*;

use aes::Aes128Enc;
use ccm::Ccm;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U8, U13};
use conche_cc::Instant;
use sha2::{Digest, Sha256};

use super::backend::{extract, kdf};
use super::credential::PublicKey;
use super::*;
use crate::oscore::EndId;
use crate::shares::Group;

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits")).collect()
}

fn key(digits: &str) -> PrivateKey {
    PrivateKey::new(&hex(digits).try_into().expect("32 bytes")).expect("a key")
}

fn id(bytes: &[u8]) -> EndId {
    EndId::new(bytes).expect("short")
}

mod trace {
    pub(super) const CRED_I: &str = "a2027734322d35302d33312d46462d45462d33372d33322d333908a101a5010202412b2001215820ac75e9ece3e50bfc8ed60399889522405c47bf16df96660a41298cb4307f7eb62258206e5de611388a4b8a8211334ac7d37ecb52a387d257e6db3c2a93df21ff3affc8";
    pub(super) const CRED_R: &str = "a2026b6578616d706c652e65647508a101a501020241322001215820bbc34960526ea4d32e940cad2a234148ddc21791a12afbcbac93622046dd44f02258204519e257236b2a0ce2023f0931f1f386ca7afda64fcde0108c224c51eabf6072";
    pub(super) const SK_I: &str = "fb13adeb6518cee5f88417660841142e830a81fe334380a953406a1305e8706b";
    pub(super) const SK_R: &str = "72cc4761dbd4c78f758931aa589d348d1ef874a7e303ede2f140dcf3e6aa4aac";
    pub(super) const X: &str = "368ec1f69aeb659ba37d5a8d45b21bdc0299dceaa8ef235f3ca42ce3530f9525";
    pub(super) const Y: &str = "e2f4126777205e853b437d6eaca1e1f753cdcc3e2c69fa884b0a1a640977e418";
    pub(super) const MESSAGE_1: &str = "0382060258208af6f430ebe18d34184017a9a11bf511c8dff8f834730b96c1b7c8dbca2fc3b637";
    pub(super) const MESSAGE_2: &str =
        "582b419701d7f00a26c2dc587a36dd752549f33763c893422c8ea0f955a13a4ff5d59862a1eef9e0e7e1886fcd";
    pub(super) const MESSAGE_3: &str = "52e562097bc417dd5919485ac7891ffd90a9fc";
    pub(super) const MESSAGE_4: &str = "4828c966b7ca304f83";
    pub(super) const MASTER_SECRET: &str = "f9868f6a3aca78a05d1485b35030b162";
    pub(super) const MASTER_SALT: &str = "ada24c7dbfc85eeb";
}

fn own(secret: &str, credential: &str) -> OwnCredential {
    OwnCredential::new(key(secret), Credential::parse(&hex(credential)).expect("a credential"))
        .expect("they belong together")
}

fn knows(credential: &str) -> PeerCredentials {
    PeerCredentials::of([Credential::parse(&hex(credential)).expect("a credential")]).expect("one alone")
}

fn begun() -> (Initiator, Vec<u8>) {
    Initiator::begin(own(trace::SK_I, trace::CRED_I).into(), id(&[0x37]), key(trace::X)).expect("it can begin")
}

fn answered(message_1: &[u8]) -> Result<(Responder, Vec<u8>), Error> {
    Responder::answer(&Arc::new(own(trace::SK_R, trace::CRED_R)), id(&[0x27]), key(trace::Y), message_1)
}

#[test]
fn the_responder_reproduces_the_trace() {
    let (responder, message_2) = answered(&hex(trace::MESSAGE_1)).expect("it is right");
    assert_eq!(message_2, hex(trace::MESSAGE_2));
    let (agreed, message_4) = responder.finish(&hex(trace::MESSAGE_3), &knows(trace::CRED_I)).expect("it is right");
    assert_eq!(message_4, hex(trace::MESSAGE_4));
    assert_eq!(agreed.credentials.master_secret.as_slice(), hex(trace::MASTER_SECRET));
    assert_eq!(agreed.credentials.master_salt, hex(trace::MASTER_SALT));
    assert_eq!((agreed.credentials.sender_id, agreed.credentials.recipient_id), (id(&[0x37]), id(&[0x27])));
    assert_eq!(agreed.peer.subject(), Some("42-50-31-FF-EF-37-32-39"));
}

/// The trace lists another suite before our only one, so the following messages differ too.
#[test]
fn the_initiator_reproduces_the_trace_except_for_the_unsupported_suite() {
    let (_, message_1) = begun();
    let without = trace::MESSAGE_1.replacen("820602", "02", 1);
    assert_eq!(message_1, hex(&without));
}

#[test]
fn both_ends_have_the_same_and_know_each_other() {
    let (initiator, message_1) = begun();
    let (responder, message_2) = answered(&message_1).expect("it is right");
    let (at_i, message_3) = initiator.finish(&message_2, &knows(trace::CRED_R)).expect("it is right");
    let (at_r, _) = responder.finish(&message_3, &knows(trace::CRED_I)).expect("it is right");
    assert_eq!(at_i.credentials.master_secret, at_r.credentials.master_secret);
    assert_eq!(at_i.credentials.master_salt, at_r.credentials.master_salt);
    assert_eq!(at_i.credentials.sender_id, at_r.credentials.recipient_id);
    assert_eq!(at_i.credentials.recipient_id, at_r.credentials.sender_id);
    assert_eq!(at_i.peer.subject(), Some("example.edu"));
}

#[test]
fn a_message_of_which_a_bit_was_changed_agrees_on_nothing() {
    let (_, message_1) = begun();
    for bit in (0..8 * message_1.len()).step_by(3) {
        let (initiator, mut message_1) = begun();
        message_1[bit / 8] ^= 1 << (bit % 8);
        // With a modified key, the responder answers a different exchange.
        if let Ok((_, message_2)) = answered(&message_1) {
            assert!(initiator.finish(&message_2, &knows(trace::CRED_R)).is_err(), "bit {bit} of message_1");
        }
    }
    let (_, message_2) = answered(&message_1).expect("it is right");
    for bit in (0..8 * message_2.len()).step_by(3) {
        let (initiator, mut changed) = (begun().0, message_2.clone());
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(initiator.finish(&changed, &knows(trace::CRED_R)).is_err(), "bit {bit} of message_2");
    }
    let (_, message_3) = begun().0.finish(&message_2, &knows(trace::CRED_R)).expect("it is right");
    for bit in (0..8 * message_3.len()).step_by(3) {
        let (responder, mut changed) = (answered(&message_1).expect("it is right").0, message_3.clone());
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(responder.finish(&changed, &knows(trace::CRED_I)).is_err(), "bit {bit} of message_3");
    }
}

#[test]
fn truncated_and_prolonged_messages_are_refused() {
    let (_, message_1) = begun();
    let (_, message_2) = answered(&message_1).expect("it is right");
    let (_, message_3) = begun().0.finish(&message_2, &knows(trace::CRED_R)).expect("it is right");
    let others = |message: &[u8]| -> Vec<Vec<u8>> {
        let cut = (0..message.len()).map(|length| message[..length].to_vec());
        let longer = [1, 30, 150, 1000].map(|more| [message, &vec![0xff; more]].concat());
        cut.chain(longer).collect()
    };
    for changed in others(&message_1) {
        assert!(answered(&changed).is_err(), "{changed:02x?}");
    }
    for changed in others(&message_2) {
        assert!(begun().0.finish(&changed, &knows(trace::CRED_R)).is_err(), "{changed:02x?}");
    }
    for changed in others(&message_3) {
        let (responder, _) = answered(&message_1).expect("it is right");
        assert!(responder.finish(&changed, &knows(trace::CRED_I)).is_err(), "{changed:02x?}");
    }
}

/// `lakers` itself panics on each of these messages.
#[test]
fn malformed_edhoc_messages_are_refused_without_a_panic() {
    let g_x = "8af6f430ebe18d34184017a9a11bf511c8dff8f834730b96c1b7c8dbca2fc3b6";
    let far = "00".repeat(31) + "01";
    for (message_1, error) in [
        (format!("03025820{g_x}49010203040506070809"), Error::Malformed),
        (format!("0398005820{g_x}37"), Error::Malformed),
        (format!("03025820{far}37"), Error::NoPoint),
        (format!("03025820{}37", "ff".repeat(32)), Error::NoPoint),
        (format!("03025820{g_x}3720"), Error::Ead),
        (format!("03025820{g_x}37014101{}", "38ff42ffff"), Error::Ead),
        (format!("03025820{g_x}37181842ffff"), Error::Ead),
        (format!("00025820{g_x}37"), Error::Method),
        (format!("03005820{g_x}37"), Error::Suite),
        (format!("038202005820{g_x}37"), Error::Suite),
        (format!("03025820{g_x}27"), Error::SameIds),
        (format!("03025820{g_x}4127"), Error::Malformed),
    ] {
        assert_eq!(answered(&hex(&message_1)).err(), Some(error), "{message_1}");
    }
    for ead in ["01", "00", "0143010203", "01014100", "0045ffffffffff00"] {
        assert!(answered(&hex(&format!("03025820{g_x}37{ead}"))).is_ok(), "nobody has to understand {ead}");
    }
    for message_3 in ["58ff", "40", "41ff", "", "f5", "590012", "5f", "5bffffffffffffffff"] {
        let (responder, _) = answered(&hex(trace::MESSAGE_1)).expect("it is right");
        assert!(responder.finish(&hex(message_3), &knows(trace::CRED_I)).is_err(), "{message_3}");
    }
}

#[test]
fn plaintexts_that_are_none_are_refused() {
    let sealed =
        |ead: &str| wire::Plaintext3::parse(&hex(&format!("2b48623c91df41e34c2f{ead}"))).map(|sealed| sealed.ead);
    assert_eq!(sealed(""), Ok(0));
    assert_eq!(sealed("004200000143ffffff"), Ok(9), "padding, and what nobody has to understand");
    assert_eq!(sealed("20"), Err(Error::Ead));
    assert_eq!(sealed("01f5"), Err(Error::Malformed));
    for plaintext in
        ["", "2b", "2b48", "a104412b48", "98ff", "a1", "bbffffffffffffffff", "9bffffffffffffffff", "5affffffff"]
    {
        assert!(wire::Plaintext3::parse(&hex(plaintext)).is_err(), "{plaintext}");
        assert!(wire::Plaintext2::parse(&hex(&format!("27{plaintext}"))).is_err(), "{plaintext}");
    }
    assert_eq!(wire::Plaintext3::parse(&hex("a0")), Err(Error::UnknownCredential), "a credential by value");
}

#[test]
fn an_unknown_peer_or_a_wrong_key_fails_the_edhoc_exchange() {
    let (initiator, message_1) = begun();
    let (responder, message_2) = answered(&message_1).expect("it is right");
    // The known peer has another ID, or the same ID and another key.
    let stranger = |kid: &[u8]| {
        PeerCredentials::of([Credential::of(&key(trace::Y), kid, "mallory").expect("short")]).expect("one alone")
    };
    assert_eq!(begun().0.finish(&message_2, &stranger(b"\x01")).err(), Some(Error::UnknownCredential));
    assert_eq!(begun().0.finish(&message_2, &stranger(b"\x32")).err(), Some(Error::NotAuthentic));
    let (_, message_3) = initiator.finish(&message_2, &knows(trace::CRED_R)).expect("it is right");
    assert_eq!(
        answered(&message_1).expect("it is right").0.finish(&message_3, &stranger(b"\x01")).err(),
        Some(Error::UnknownCredential)
    );
    assert_eq!(responder.finish(&message_3, &stranger(b"\x2b")).err(), Some(Error::NotAuthentic));
}

#[test]
fn an_edhoc_error_message_decodes_to_the_error_that_was_encoded() {
    for (error, told) in [
        (Error::Suite, ErrorMessage::Suites),
        (Error::NotAuthentic, ErrorMessage::Unspecified(Error::NotAuthentic.to_string())),
        (Error::NoExchange, ErrorMessage::Unspecified(Error::NoExchange.to_string())),
    ] {
        assert_eq!(Error::from_message(&error.message()), Some(Error::ErrorMessage(told)));
    }
    assert_eq!(Error::from_message(&hex("03f5")), Some(Error::ErrorMessage(ErrorMessage::UnknownCredential)));
    assert_eq!(Error::from_message(&[]), None);
    assert_eq!(Error::from_message(&hex("52e5")), None);
}

/// Otherwise an unauthenticated initiator could probe for known names.
#[test]
fn unknown_credential_and_wrong_key_give_the_same_error_message() {
    assert_eq!(Error::UnknownCredential.message(), Error::NotAuthentic.message());
}

#[test]
fn half_open_exchanges_are_few_do_not_last_and_come_once() {
    let (_, message_1) = begun();
    let group = |n: u64| Group::of((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut half_open = HalfOpen::new(100, Duration::from_secs(45));
    let now = Instant::ZERO;
    let begin = |half_open: &mut HalfOpen, now, source, number: u16| {
        // Refused exchanges cost nothing. Sources from 10 on are validated hosts.
        let host = (source >= 10).then(|| group(source + 100));
        if !half_open.admits(now, group(source), host) {
            return Err(Error::Busy);
        }
        let c_r = id(&number.to_be_bytes());
        let hall = Arc::new(own(trace::SK_R, trace::CRED_R));
        let (responder, _) = Responder::answer(&hall, c_r, key(trace::Y), &message_1)?;
        half_open.insert(now, group(source), host, responder)
    };
    let begun = (0..60_000).filter(|number| begin(&mut half_open, now, 1, *number).is_ok()).count();
    assert_eq!((begun, half_open.len()), (50, 50), "one source has half");
    begin(&mut half_open, now, 2, 60_001).expect("there is room for others");
    assert!(half_open.take(now, id(&60_001_u16.to_be_bytes())).is_ok());
    assert_eq!(half_open.take(now, id(&60_001_u16.to_be_bytes())).err(), Some(Error::NoExchange), "it comes once");
    let later = now + Duration::from_secs(45);
    assert_eq!(half_open.take(later, id(&0_u16.to_be_bytes())).err(), Some(Error::NoExchange), "its time is over");
    assert!(half_open.is_empty());
    begin(&mut half_open, later, 1, 0).expect("there is room again");
    assert_eq!(
        (1..100).filter(|number| begin(&mut half_open, later, 10, *number).is_ok()).count(),
        6,
        "it is one host"
    );
    let much_later = later + Duration::from_secs(45);
    begin(&mut half_open, much_later, 10, 200).expect("what it held was given back");
}

/// Encrypts any plaintext as message_3, knowing only the responder's public credential.
struct Stranger {
    key: [u8; 16],
    nonce: [u8; 13],
    th_3: [u8; 32],
}

impl Stranger {
    /// `message_1` was answered with the ephemeral key X.
    fn new(message_1: &[u8], message_2: &[u8]) -> Self {
        let hash = |parts: &[&[u8]]| -> [u8; 32] { Sha256::digest(parts.concat()).into() };
        let (g_y, ciphertext_2) = wire::message_2(message_2).expect("the responder wrote it");
        let x = key(trace::X);
        let th_2 = hash(&[&wire::write_bytes(g_y), &wire::write_bytes(&hash(&[message_1]))]);
        let prk_2e = extract(&th_2, &*x.agree(&PublicKey::new(g_y).expect("a point")));
        let mut plaintext_2 = vec![0; ciphertext_2.len()];
        kdf(&prk_2e, 0, &th_2, &mut plaintext_2);
        plaintext_2.iter_mut().zip(ciphertext_2).for_each(|(byte, sealed)| *byte ^= sealed);
        let mut salt = [0; 32];
        kdf(&prk_2e, 1, &th_2, &mut salt);
        let [g_r, _] = key(trace::SK_R).public();
        let prk_3e2m = extract(&salt, &*x.agree(&PublicKey::new(&g_r).expect("a point")));
        let th_3 = hash(&[&wire::write_bytes(&th_2), &plaintext_2, &hex(trace::CRED_R)]);
        let (mut key, mut nonce) = ([0; 16], [0; 13]);
        kdf(&prk_3e2m, 3, &th_3, &mut key);
        kdf(&prk_3e2m, 4, &th_3, &mut nonce);
        Self { key, nonce, th_3 }
    }

    fn message_3(&self, plaintext: &[u8]) -> Vec<u8> {
        let cipher = Ccm::<Aes128Enc, U8, U13>::new(&self.key.into());
        let beside = [&b"\x83\x68Encrypt0\x40"[..], &wire::write_bytes(&self.th_3)].concat();
        let mut sealed = plaintext.to_vec();
        let tag = cipher.encrypt_inout_detached(&self.nonce.into(), &beside, sealed.as_mut_slice().into());
        sealed.extend(tag.expect("short"));
        wire::write_bytes(&sealed)
    }
}

/// Non-critical external authorization data, padded (RFC 9528 §3.8.1) where a single item cannot
/// have this length.
fn ead(length: usize) -> Vec<u8> {
    let value = match length {
        0 => return vec![],
        1 => vec![],
        2..26 => wire::write_bytes(&vec![0xa5; length - 2]),
        26 => [&[0][..], &wire::write_bytes(&[0xa5; 23])].concat(),
        _ => wire::write_bytes(&vec![0xa5; length - 3]),
    };
    let bytes = [&[1][..], &value].concat();
    assert_eq!(bytes.len(), length);
    bytes
}

#[test]
fn a_strangers_message_3_with_any_key_id_and_ead_ends_its_own_exchange_only() {
    let (_, message_1) = begun();
    let (_, message_2) = answered(&message_1).expect("the trace's");
    let stranger = Stranger::new(&message_1, &message_2);
    let longest = Credential::of(&key(trace::SK_I), b"\x2b", &"x".repeat(107)).expect("short enough");
    assert_eq!(longest.as_slice().len(), Credential::LONGEST);
    let credentials = [hex(trace::CRED_I), longest.as_slice().to_vec()];
    for (of_credential, kid) in (0..=23).flat_map(|kid| [(0, kid), (1, kid)]) {
        let credential = Credential::parse(&credentials[of_credential]).expect("a credential");
        // The longest credential leaves no room for the longest key IDs.
        let room = 255_usize.checked_sub(45 + kid + credential.as_slice().len());
        let fits = 192 - 2 - 8 - 9 - 1 - kid;
        for ead_length in 0..=255 {
            // Runs take milliseconds: only lengths around the limits, and all for the longest key
            // ID.
            let is_edge = [room.unwrap_or_default(), fits].iter().any(|edge| edge.abs_diff(ead_length) <= 1);
            if !(is_edge || ead_length % 85 == 0 || (kid, of_credential) == (23, 0)) {
                continue;
            }
            // 0x55 is not an encoded integer, so that a key ID of one byte remains a byte string.
            let id = wire::write_bytes(&vec![0x55; kid]);
            let message_3 = stranger.message_3(&[&id[..], &[0x48], &[0; 8], &ead(ead_length)].concat());
            let (responder, _) = answered(&message_1).expect("the trace's");
            let peers = PeerCredentials::of([credential.clone()]).expect("one alone");
            let expected = match message_3.len() {
                193.. => Error::Malformed,
                _ if room.is_none_or(|room| ead_length > room) => Error::Ead,
                _ => Error::UnknownCredential,
            };
            let refused = responder.finish(&message_3, &peers).map(drop);
            assert_eq!(refused, Err(expected), "key ID of {kid} bytes, EAD of {ead_length}");
        }
    }
}

#[test]
fn message_1_is_answered_or_refused_with_ead_of_any_length() {
    let (_, message_1) = begun();
    for length in 0..=255 {
        let message = [&message_1[..], &ead(length)].concat();
        assert_eq!(answered(&message).is_ok(), message.len() <= 192, "EAD of {length} bytes");
    }
}

fn assert_hides_secrets(shown: &str) {
    for secret in [trace::SK_I, trace::SK_R, trace::X, trace::Y, trace::MASTER_SECRET] {
        let numbers = format!("{:?}", &hex(secret)[..8]);
        let numbers = numbers.trim_matches(['[', ']']);
        assert!(!shown.contains(numbers) && !shown.contains(&secret[..16]), "{shown}");
    }
}

#[test]
fn debug_output_of_an_exchange_shows_no_key() {
    let (initiator, message_1) = begun();
    assert_hides_secrets(&format!("{initiator:?} {initiator:#?}"));
    let (responder, message_2) = answered(&message_1).expect("it is right");
    assert_hides_secrets(&format!("{responder:?}"));
    let mut half_open = HalfOpen::new(1, Duration::from_secs(45));
    half_open.insert(Instant::ZERO, Group::of(1), None, responder).expect("there is room");
    assert_hides_secrets(&format!("{half_open:?}"));
    let (agreed, _) = initiator.finish(&message_2, &knows(trace::CRED_R)).expect("it is right");
    assert_hides_secrets(&format!("{agreed:?} {:?}", agreed.credentials));
    let (own, key) = (own(trace::SK_R, trace::CRED_R), key(trace::SK_I));
    assert_hides_secrets(&format!("{own:?} {key:?}"));

    let (responder, _) = answered(&hex(trace::MESSAGE_1)).expect("the trace's");
    let (agreed, _) = responder.finish(&hex(trace::MESSAGE_3), &knows(trace::CRED_I)).expect("the trace's");
    assert_hides_secrets(&format!("{agreed:?} {:?}", agreed.credentials));
}

#[test]
fn another_known_peer_than_the_expected_one_is_refused_before_message_3() {
    let other = Credential::of(&key(trace::Y), b"\x01", "lamp").expect("short");
    let hall = Credential::parse(&hex(trace::CRED_R)).expect("a credential");
    let peers = PeerCredentials::of([other.clone(), hall.clone()]).expect("two key IDs");
    let (_, message_1) = begun();
    let (_, message_2) = answered(&message_1).expect("it is right");
    let [other, hall] = [other, hall].map(Arc::new);
    let expecting = |peer: &Arc<Credential>| begun().0.expecting(Arc::clone(peer)).finish(&message_2, &peers);
    assert!(expecting(&hall).is_ok());
    let error = expecting(&other).map(drop).expect_err("the hall has answered");
    assert_eq!(error, Error::OtherPeer { expected: other, found: hall });
    assert_eq!(
        error.to_string(),
        r#"the other end is "example.edu" with key ID 32, but "lamp" with key ID 01 was expected"#
    );
}

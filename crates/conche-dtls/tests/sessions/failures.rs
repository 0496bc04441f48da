//! Failing handshakes, each repeated, leave no state and have a reason.

use std::time::Duration;

use conche_dtls::{
    CertificateError, ClientCredentials, Config, Ended, Failure, Identity, OwnCertificate, Secret, ServerCertificate,
    ServerCredentials, Trust,
};

use crate::wire::{Address, CLIENT, Faults, SERVER, Tap, Wire, client, key, known, psk_server};

struct Kind {
    name: &'static str,
    server: fn() -> Config,
    credentials: fn() -> ClientCredentials,
    tap: Option<fn() -> Tap>,
    is_expected: fn(&Ended) -> bool,
}

impl Kind {
    fn wire(&self) -> Wire {
        let mut wire = Wire::new((self.server)(), Config::default(), 1, Faults::default());
        wire.tap = self.tap.map(|tap| tap());
        wire
    }

    fn fail(&self, wire: &mut Wire) {
        wire.connect(&(self.credentials)());
        wire.settle();
        let outputs = std::mem::take(&mut wire.client().outputs);
        assert!(outputs.established.is_empty() || self.name == "server's Finished is lost", "{}", self.name);
        let why = &outputs.closed.first().unwrap_or_else(|| panic!("{}: nothing was told", self.name)).1;
        assert!((self.is_expected)(why), "{}: {why:?}", self.name);
        let server = std::mem::take(&mut wire.server().outputs);
        // If the last flight is lost, the server has an open session.
        for (session, _) in server.established {
            wire.server().sessions.close(session);
        }
        wire.settle();
        wire.server().outputs = Default::default();
        for end in &wire.ends {
            assert!(end.sessions.is_empty(), "{}: {:?}", self.name, end.sessions);
        }
    }
}

/// 1 and 3: ClientHellos, 2: cookie request, 4: server's flight, 5: client's answer, 6: end.
fn flight(from: Address, datagram: &[u8]) -> u8 {
    match (from, datagram.first(), datagram.get(13)) {
        (CLIENT, Some(22), Some(1)) if datagram[17..19] == [0, 0] => 1,
        (SERVER, Some(22), Some(3)) => 2,
        (CLIENT, Some(22), Some(1)) => 3,
        (SERVER, Some(22), _) => 4,
        (CLIENT, _, _) => 5,
        _ => 6,
    }
}

fn on(number: u8, mut act: impl FnMut(&mut Vec<u8>) -> bool + 'static) -> Tap {
    Box::new(move |from, _, datagram| {
        let alert = datagram.first() == Some(&21);
        if alert || flight(from, datagram) != number { true } else { act(datagram) }
    })
}

fn lost(number: u8) -> Tap {
    on(number, |_| false)
}

fn cut(number: u8) -> Tap {
    on(number, |datagram| {
        datagram.truncate(datagram.len() * 2 / 3);
        true
    })
}

fn flipped(number: u8) -> Tap {
    on(number, |datagram| {
        if let Some(last) = datagram.last_mut() {
            *last ^= 1;
        }
        true
    })
}

fn old_version() -> Tap {
    Box::new(|from, _, datagram| {
        if matches!(flight(from, datagram), 1 | 3) {
            datagram[26] = 255;
        }
        true
    })
}

fn wrong_key() -> ClientCredentials {
    ClientCredentials::psk(*b"lamp", Secret::new(*b"fedcba9876543210")).unwrap()
}

fn unknown() -> ClientCredentials {
    ClientCredentials::psk(*b"door", key()).unwrap()
}

fn with_keys() -> Config {
    Config { seed: None, ..psk_server(0) }
}

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("../data/", $name)).as_slice()
    };
}

fn own(certificate: &[u8], key: &[u8]) -> OwnCertificate {
    OwnCertificate::new(certificate, Secret::new(key)).unwrap()
}

#[test]
fn a_private_key_of_another_certificate_is_refused_before_there_is_a_handshake() {
    use conche_dtls::CredentialsError;
    let pair = |certificate: &[u8], key: &[u8]| OwnCertificate::new(certificate, Secret::new(key)).map(drop);
    let pairs = [
        (data!("server.der"), data!("server.key")),
        (data!("client.der"), data!("client.key")),
        (data!("large.der"), data!("large.key")),
    ];
    for (certificate, key) in pairs {
        for (_, other) in pairs {
            let expected = if other == key { Ok(()) } else { Err(CredentialsError::Pair) };
            assert_eq!(pair(certificate, other), expected);
        }
        assert_eq!(pair(certificate, &key[1..]), Err(CredentialsError::PrivateKey));
        assert_eq!(pair(&certificate[1..], key), Err(CredentialsError::Certificate));
    }
}

/// In 2030.
const EPOCH: Duration = Duration::from_secs(60 * 365 * 24 * 60 * 60);

fn root() -> Trust {
    Trust::new([data!("root.der")], EPOCH).unwrap()
}

fn certified(own: OwnCertificate, clients: Option<Trust>) -> Config {
    let certificate = Some(ServerCertificate { own, clients });
    Config { server: Some(ServerCredentials { certificate, ..Default::default() }), ..Default::default() }
}

pub fn with_certificate() -> Config {
    certified(own(data!("server.der"), data!("server.key")), None)
}

pub fn with_large_certificate() -> Config {
    certified(own(data!("large.der"), data!("large.key")), None)
}

pub fn that_asks() -> Config {
    certified(own(data!("server.der"), data!("server.key")), Some(root()))
}

pub fn trusting() -> ClientCredentials {
    ClientCredentials::certificate(None, root(), "coap.example").unwrap()
}

pub fn presenting() -> ClientCredentials {
    shown(data!("client.der"), data!("client.key"))
}

fn shown(certificate: &[u8], key: &[u8]) -> ClientCredentials {
    ClientCredentials::certificate(Some(own(certificate, key)), root(), "coap.example").unwrap()
}

const fn kind(
    name: &'static str,
    server: fn() -> Config,
    credentials: fn() -> ClientCredentials,
    is_expected: fn(&Ended) -> bool,
) -> Kind {
    Kind { name, server, credentials, tap: None, is_expected }
}

const fn tapped(name: &'static str, tap: fn() -> Tap, is_expected: fn(&Ended) -> bool) -> Kind {
    Kind { name, server: with_keys, credentials: known, tap: Some(tap), is_expected }
}

fn silence(why: &Ended) -> bool {
    *why == Ended::Failed(Failure::Silence)
}

fn alert<const N: u8>(why: &Ended) -> bool {
    *why == Ended::Failed(Failure::Alert(N))
}

fn refused(why: &Ended, error: CertificateError) -> bool {
    *why == Ended::Failed(Failure::Certificate(error))
}

static KINDS: &[Kind] = &[
    kind("wrong key", with_keys, wrong_key, alert::<51>),
    kind("unknown identity", with_keys, unknown, alert::<51>),
    kind("keys where certificates are wanted", with_certificate, known, alert::<40>),
    kind("certificates where keys are wanted", with_keys, trusting, alert::<40>),
    tapped("first hello is lost", || lost(1), silence),
    tapped("request for a cookie is lost", || lost(2), silence),
    tapped("hello with a cookie is lost", || lost(3), silence),
    tapped("server's flight is lost", || lost(4), silence),
    tapped("client's flight is lost", || lost(5), silence),
    tapped("server's Finished is lost", || lost(6), silence),
    tapped("first hello is cut", || cut(1), silence),
    tapped("request for a cookie is cut", || cut(2), silence),
    tapped("hello with a cookie is cut", || cut(3), silence),
    tapped("server's flight is cut", || cut(4), silence),
    tapped("server's Finished is cut", || cut(6), silence),
    tapped("client's Finished is wrong", || flipped(5), alert::<51>),
    tapped("server's Finished is wrong", || flipped(6), |why| *why == Ended::Failed(Failure::Credentials)),
    tapped(
        "cookie is wrong",
        || {
            on(3, |hello| {
                hello[13 + 12 + 36] ^= 1;
                true
            })
        },
        silence,
    ),
    tapped("hello is of DTLS 1.0", old_version, alert::<70>),
    tapped("alert of the server's", || on(4, |datagram| alert_instead(datagram, 80)), alert::<80>),
    tapped("alert of the client's", || on(5, |datagram| alert_instead(datagram, 90)), silence),
    tapped("server's flight is garbage", || on(4, |datagram| garbage(datagram)), silence),
    tapped("server's flight announces a message of 16 MB", || on(4, |datagram| long(datagram)), silence),
    tapped(
        "hello is replaced by an empty one",
        || {
            on(3, |datagram| {
                datagram.truncate(25);
                true
            })
        },
        silence,
    ),
    kind("client shows no certificate", that_asks, trusting, alert::<40>),
    kind(
        "certificate of a stranger",
        || certified(own(data!("stranger.der"), data!("stranger.key")), None),
        trusting,
        |why| refused(why, CertificateError::Unknown),
    ),
    kind(
        "certificate has expired",
        || certified(own(data!("expired.der"), data!("expired.key")), None),
        trusting,
        |why| refused(why, CertificateError::Time),
    ),
    kind(
        "certificate has another name",
        with_certificate,
        || ClientCredentials::certificate(None, root(), "other.example").unwrap(),
        |why| refused(why, CertificateError::Name),
    ),
    kind(
        "certificate is a client's",
        || certified(own(data!("client.der"), data!("client.key")), None),
        trusting,
        |why| refused(why, CertificateError::Unusable),
    ),
    kind(
        "certificate of an intermediate that is not known",
        || certified(own(data!("leaf.der"), data!("leaf.key")), None),
        trusting,
        |why| refused(why, CertificateError::Unknown),
    ),
    kind(
        "client's certificate is a stranger's",
        that_asks,
        || shown(data!("stranger.der"), data!("stranger.key")),
        alert::<42>,
    ),
    kind(
        "client's certificate is a server's",
        that_asks,
        || shown(data!("server.der"), data!("server.key")),
        alert::<42>,
    ),
];

fn alert_instead(datagram: &mut Vec<u8>, description: u8) -> bool {
    *datagram = vec![21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, description];
    true
}

fn garbage(datagram: &mut [u8]) -> bool {
    for (at, byte) in datagram.iter_mut().enumerate() {
        *byte = byte.wrapping_mul(31).wrapping_add(u8::try_from(at % 251).unwrap());
    }
    true
}

fn long(datagram: &mut [u8]) -> bool {
    datagram[14] = 0xff;
    true
}

// RFC 7252 §9.1.3.3 (Q231, Q232, Q233)
#[test]
fn each_kind_of_failure_is_reported_and_leaves_no_state() {
    assert!(KINDS.len() >= 20);
    for kind in KINDS {
        let mut wire = kind.wire();
        for _ in 0..3 {
            kind.fail(&mut wire);
        }
    }
}

#[test]
fn after_failures_a_handshake_is_done_and_no_memory_has_grown() {
    for kind in KINDS.iter().filter(|kind| std::ptr::fn_addr_eq(kind.server, with_keys as fn() -> Config)) {
        let mut wire = kind.wire();
        let both = |wire: &mut Wire| {
            kind.fail(wire);
            let tap = wire.tap.take();
            assert!(wire.handshake(&known()), "{}", kind.name);
            wire.assert_nothing_is_left();
            for end in &mut wire.ends {
                end.outputs = Default::default();
            }
            wire.tap = tap;
        };
        (0..3).for_each(|_| both(&mut wire));
        let grown = allocation_counter::measure(|| (0..3).for_each(|_| both(&mut wire)));
        assert!(grown.bytes_current <= 0, "{}: {} bytes", kind.name, grown.bytes_current);
    }
}

#[test]
fn an_unknown_identity_and_a_wrong_key_are_indistinguishable() {
    let seen = |credentials: &ClientCredentials| {
        let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
        wire.connect(credentials);
        wire.settle();
        let answers = &wire.server().outputs.sent;
        let shapes: Vec<(u8, usize)> = answers.iter().map(|datagram| (datagram[0], datagram.len())).collect();
        (shapes, answers.last().cloned(), wire.now)
    };
    assert_eq!(seen(&wrong_key()), seen(&unknown()));
}

// RFC 7252 §9.1.3.3 (Q230)
#[test]
fn certificates_of_both_ends_are_trusted_and_reported() {
    let mut wire = Wire::new(that_asks(), Config::default(), 1, Faults::default());
    assert!(wire.handshake(&shown(data!("client.der"), data!("client.key"))));
    let identity = |der: &[u8]| Identity::Certificate(der.to_vec());
    assert_eq!(wire.client().outputs.established[0].1, identity(data!("server.der")));
    assert_eq!(wire.server().outputs.established[0].1, identity(data!("client.der")));
    wire.assert_nothing_is_left();
}

#[test]
fn a_server_without_client_certificates_reports_anonymous_clients() {
    let mut wire = Wire::new(with_certificate(), Config::default(), 1, Faults::default());
    assert!(wire.handshake(&trusting()));
    assert_eq!(wire.server().outputs.established[0].1, Identity::Anonymous);
}

// RFC 7252 §9.1.3.3 (Q233)
#[test]
fn an_address_and_a_known_intermediate_are_enough() {
    let by_address = ClientCredentials::certificate(None, root(), "192.0.2.1").unwrap();
    assert!(Wire::new(with_certificate(), Config::default(), 1, Faults::default()).handshake(&by_address));
    let trust = root().with_intermediates([data!("intermediate.der")]);
    let through = ClientCredentials::certificate(None, trust, "coap.example").unwrap();
    let server = certified(own(data!("leaf.der"), data!("leaf.key")), None);
    assert!(Wire::new(server, Config::default(), 1, Faults::default()).handshake(&through));
}

#[test]
fn a_large_certificate_of_p384_passes_through_links_of_256_bytes() {
    let small = |config| Config { mtu: 256, ..config };
    let server = certified(own(data!("large.der"), data!("large.key")), None);
    let mut wire = Wire::new(small(server), small(Config::default()), 1, Faults { loss: 5, ..Faults::default() });
    assert!(wire.handshake(&trusting()));
    assert!(wire.ends.iter().flat_map(|end| &end.outputs.sent).all(|datagram| datagram.len() <= 256));
}

#[test]
fn a_certificate_larger_than_is_wanted_ends_in_silence() {
    let server = certified(own(data!("large.der"), data!("large.key")), None);
    let client = Config { max_message: 1024, ..Config::default() };
    let mut wire = Wire::new(server, client, 1, Faults::default());
    wire.connect(&trusting());
    wire.settle();
    assert!(silence(&wire.client().outputs.closed[0].1));
    wire.assert_nothing_is_left();
}

#[test]
fn a_replayed_handshake_opens_no_second_session() {
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    assert!(wire.handshake(&known()));
    let recorded = wire.client().outputs.sent.clone();
    wire.assert_nothing_is_left();
    for _ in 0..10 {
        for datagram in &recorded {
            wire.send(CLIENT, SERVER, datagram.clone());
        }
        wire.settle();
    }
    assert_eq!(wire.server().sessions.stats().established, 1);
    wire.assert_nothing_is_left();
}

#[test]
#[ignore = "100 000 of each kind with keys, 1000 with certificates: cargo test --release -- --ignored"]
fn a_hundred_thousand_failures_of_each_kind_leave_nothing() {
    for kind in KINDS {
        // Signatures are slow.
        let signed = kind.name.contains("certificate") && !kind.name.contains("wanted");
        let count = if signed { 1000 } else { 100_000 };
        let started = std::time::Instant::now();
        let mut wire = kind.wire();
        (0..3).for_each(|_| kind.fail(&mut wire));
        let grown = allocation_counter::measure(|| (0..count).for_each(|_| kind.fail(&mut wire)));
        println!(
            "{count} times: {}: {:.1} s, {} bytes",
            kind.name,
            started.elapsed().as_secs_f64(),
            grown.bytes_current
        );
        assert!(grown.bytes_current <= 0, "{}", kind.name);
    }
}

//! Deferred key lookups.

use std::time::Duration;

use conche_dtls::{
    ClientCredentials, Config, Ended, Failure, Identity, Secret, ServerCredentials, ServerKeys, SessionId,
};

use crate::wire::{CLIENT, End, Faults, SERVER, Wire, client, key, known, psk_server};

const UNKNOWN: Ended = Ended::Failed(Failure::Alert(51));

fn deferring(seed: u64) -> Config {
    let server = Some(ServerCredentials { psk: Some(ServerKeys::deferred()), ..Default::default() });
    Config { server, ..psk_server(seed) }
}

fn wire(server: Config) -> Wire {
    Wire::new(server, client(1), 1, Faults::default())
}

fn wanted(wire: &mut Wire) -> (SessionId, Vec<u8>) {
    let until = wire.now + Duration::from_secs(5);
    assert!(wire.run(until, |wire| !wire.server().outputs.wanted.is_empty()));
    wire.server().outputs.wanted.remove(0)
}

fn provide(wire: &mut Wire, session: SessionId, key: Option<Secret>) {
    wire.server().sessions.provide_key(session, key);
}

fn pass(wire: &mut Wire, time: Duration) {
    let until = wire.now + time;
    wire.run(until, |_| false);
}

#[test]
fn a_handshake_continues_once_its_key_is_provided() {
    for late in [0, 100, 1500, 7000].map(Duration::from_millis) {
        let mut wire = wire(deferring(1));
        wire.connect(&known());
        let (session, identity) = wanted(&mut wire);
        assert_eq!(identity, b"lamp");
        pass(&mut wire, late);
        assert!(wire.server().outputs.established.is_empty());
        provide(&mut wire, session, Some(key()));
        pass(&mut wire, Duration::from_secs(5));
        assert_eq!(wire.server().outputs.established, [(session, Identity::Psk(b"lamp".to_vec()))], "{late:?}");
        assert_eq!(wire.client().outputs.established.len(), 1);
        assert!(wire.server().outputs.wanted.is_empty(), "one lookup per handshake");
        wire.assert_nothing_is_left();
    }
}

#[test]
fn handshakes_are_done_where_datagrams_are_lost_come_twice_and_in_disorder() {
    let mut done = 0;
    for seed in 0..200 {
        let faults = Faults { loss: 10, twice: 30, jitter: Duration::from_millis(500) };
        let mut wire = Wire::new(deferring(seed), client(seed), seed, faults);
        wire.connect(&known());
        let until = wire.now + Duration::from_secs(100);
        done += u64::from(wire.run(until, |wire| {
            while let Some((session, _)) = wire.server().outputs.wanted.pop() {
                provide(wire, session, Some(key()));
            }
            wire.ends[..2].iter().all(|end| end.sessions.stats().sessions > 0)
        }));
        wire.faults = Faults::default();
        wire.assert_nothing_is_left();
    }
    assert_eq!(done, 200);
}

/// RFC 4279 §2.
#[test]
fn an_unknown_identity_and_a_wrong_key_are_indistinguishable() {
    let ends = [None, Some(Secret::new(*b"another")), Some(Secret::new([]))].map(|key| {
        let mut wire = wire(deferring(1));
        wire.connect(&known());
        let (session, _) = wanted(&mut wire);
        wire.client().outputs.sent.clear();
        wire.server().outputs.sent.clear();
        provide(&mut wire, session, key);
        wire.settle();
        let failed = [(Some(b"lamp".to_vec()), Failure::Credentials)];
        assert_eq!(wire.server().outputs.failed, failed);
        assert_eq!(wire.client().outputs.closed[0].1, UNKNOWN);
        wire.assert_nothing_is_left();
        let sent: Vec<_> = wire.server().outputs.sent.iter().map(Vec::len).collect();
        sent
    });
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0], ends[2]);
}

#[test]
fn a_lookup_that_takes_too_long_fails_its_handshake() {
    let mut wire = wire(Config { lookup_timeout: Duration::from_secs(3), ..deferring(1) });
    wire.connect(&known());
    let (session, _) = wanted(&mut wire);
    pass(&mut wire, Duration::from_millis(2900));
    assert_eq!(wire.server().sessions.stats().handshakes, 1);
    pass(&mut wire, Duration::from_millis(200));
    assert_eq!(wire.server().outputs.failed, [(Some(b"lamp".to_vec()), Failure::Lookup)]);
    // Too late.
    provide(&mut wire, session, Some(key()));
    wire.settle();
    assert!(wire.server().outputs.established.is_empty());
    assert_eq!(wire.client().outputs.closed[0].1, Ended::Failed(Failure::Alert(80)));
    wire.assert_nothing_is_left();
}

#[test]
fn the_server_sends_nothing_while_it_looks_up_a_key() {
    let mut wire = wire(deferring(1));
    wire.connect(&known());
    let (session, _) = wanted(&mut wire);
    wire.server().outputs.sent.clear();
    wire.tap = Some(Box::new(|from, _, _| from != CLIENT));
    pass(&mut wire, Duration::from_secs(9));
    assert_eq!(wire.server().outputs.sent.len(), 0);
    wire.tap = None;
    provide(&mut wire, session, Some(key()));
    pass(&mut wire, Duration::from_secs(20));
    assert_eq!(wire.server().outputs.established.len(), 1);
}

/// RFC 6347 §4.2.3.
#[test]
fn an_identity_in_fragments_is_looked_up_once_it_is_complete() {
    for faults in [Faults::default(), Faults { twice: 50, ..Faults::default() }] {
        let identity: Vec<u8> = (0..1024).map(|byte| b'a' + (byte % 26) as u8).collect();
        let mut wire = Wire::new(deferring(1), Config { mtu: 256, ..client(1) }, 1, faults);
        wire.connect(&ClientCredentials::psk(identity.clone(), key()).unwrap());
        let (session, wanted) = wanted(&mut wire);
        assert_eq!(wanted, identity);
        provide(&mut wire, session, Some(key()));
        pass(&mut wire, Duration::from_secs(5));
        assert_eq!(wire.server().outputs.established, [(session, Identity::Psk(identity))]);
        wire.assert_nothing_is_left();
    }
}

#[test]
fn a_forged_identity_fails_its_handshake_and_is_the_only_one_looked_up() {
    let mut wire = wire(deferring(1));
    wire.tap = Some(Box::new(|_, _, datagram| {
        if let Some(at) = datagram.windows(4).position(|window| window == b"lamp") {
            datagram[at..at + 4].copy_from_slice(b"door");
        }
        true
    }));
    wire.connect(&known());
    let (session, identity) = wanted(&mut wire);
    assert_eq!(identity, b"door");
    wire.tap = None;
    pass(&mut wire, Duration::from_secs(2));
    assert!(wire.server().outputs.wanted.is_empty());
    provide(&mut wire, session, Some(key()));
    wire.settle();
    assert!(wire.server().outputs.established.is_empty());
    wire.assert_nothing_is_left();
}

#[test]
fn lookups_are_as_many_as_handshakes_may_be() {
    let mut wire = wire(Config { max_handshakes: 16, ..deferring(1) });
    wire.server().sessions.set_source_groups(Box::new(|address| u64::from(address / 1000)));
    for address in 5000..5100 {
        let mut end = End::new(address, client(u64::from(address)), u64::from(address));
        let credentials = ClientCredentials::psk(address.to_string(), key()).unwrap();
        end.sessions.connect(wire.now, SERVER, &credentials, None).unwrap();
        wire.ends.push(end);
    }
    pass(&mut wire, Duration::from_secs(1));
    assert_eq!(wire.server().outputs.wanted.len(), 8, "a network has half of the places");
    wire.server().outputs.wanted.clear();
    wire.connect(&known());
    let (session, identity) = wanted(&mut wire);
    assert_eq!(identity, b"lamp");
    provide(&mut wire, session, Some(key()));
    pass(&mut wire, Duration::from_secs(1));
    assert_eq!(wire.server().outputs.established.len(), 1);
    wire.ends.truncate(2);
    wire.assert_nothing_is_left();
}

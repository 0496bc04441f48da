//! Key renewal with random numbers of both ends (RFC 8613 appendix B.2).

use std::collections::HashSet;
use std::time::Duration;

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage, Type};
use conche_proto::oscore::{Binding, EndId, Refused, Start, Unprotected};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::support::{End, altered, credentials, message, option};

fn pair(seed: u8) -> [End; 2] {
    let [client, server] = credentials();
    [(client, seed), (server, seed + 1)].map(|(credentials, seed)| End::seeded(&credentials, Start::Anew, [seed; 32]))
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn offered(server: &mut End, now: Instant, request: &OwnedMessage) -> OwnedMessage {
    let refused = server.receive_at(now, request).expect_err("its keys are not agreed on");
    assert!(matches!(refused, Refused::Proposed { .. }), "{refused:?}");
    let (code, body) = server.contexts.refusal(now, &refused).expect("an offer");
    message(Type::NonConfirmable, code, &body)
}

/// Returns the first request with the new keys, undelivered.
fn agree(client: &mut End, server: &mut End, now: Instant) -> (OwnedMessage, Binding) {
    let (proposal, mut binding) = client.get("/light");
    let offer = offered(server, now, &proposal);
    assert_eq!(client.hear(&mut binding, &offer), Err(Refused::Renewed));
    client.get("/light")
}

// RFC 8613 appendix B.2
#[test]
fn both_ends_agree_on_keys_in_a_round_trip_and_use_them_from_then_on() {
    let [mut client, mut server] = pair(1);
    assert_eq!(
        (client.contexts.poll_reserve(), server.contexts.poll_reserve()),
        (None, None),
        "nothing is to be stored"
    );
    let (proposal, mut binding) = client.get("/light");
    let Some([flags, 0, length, 0x48, ..]) = option(&proposal).first_chunk::<4>() else { panic!("{proposal:?}") };
    assert_eq!((*flags, *length), (0b1_1001, 9), "a byte string of eight bytes as kid context");

    let offer = offered(&mut server, at(0), &proposal);
    assert_eq!(client.hear(&mut binding, &offer), Err(Refused::Renewed));
    assert_eq!(server.context().id_context(), Some(&b"where"[..]), "the server keeps nothing of it");
    let (request, mut binding) = client.get("/light");
    let asked = server.receive_at(at(10), &request).expect("the keys are agreed on");
    assert_eq!(asked.message.uri_path().as_str(), "/light");
    assert_eq!(server.context().id_context(), client.context().id_context());
    let (_, mut second) = client.get("/early");
    let answer = server.say(&asked.binding, "on");
    assert_eq!(client.hear(&mut binding, &answer).expect("authentic").message.payload(), b"on");
    // From now on the kid context is sent unwrapped.
    let (later, mut binding) = client.get("/light");
    let id_context = client.context().id_context().expect("it has one").to_vec();
    assert!(option(&later).windows(id_context.len() + 1).any(|bytes| bytes[0] == 32 && bytes[1..] == id_context[..]));
    let asked = server.receive_at(at(20), &later).expect("the same keys");
    let answer = server.say(&asked.binding, "off");
    assert!(client.hear(&mut second, &answer).is_err(), "it answers another request");
    assert!(client.hear(&mut binding, &answer).is_ok());
    // The server sends a request as well.
    let (question, _) = server.get("/clock");
    assert!(client.receive_at(at(30), &question).is_ok());
}

// RFC 8613 appendix B.2
#[test]
fn a_replayed_proposal_costs_nothing_and_gives_another_offer_each_time() {
    let [mut client, mut server] = pair(1);
    let (proposal, _) = client.get("/light");
    let (request, _) = agree(&mut client, &mut server, at(0));
    let asked = server.receive_at(at(5), &request).expect("agreed");
    let before = server.context().id_context().map(<[u8]>::to_vec);
    let mut offers = HashSet::new();
    for round in 0..1000 {
        let offer = offered(&mut server, at(10 + round / 100), &proposal);
        assert!(offers.insert(option(&offer).to_vec()));
    }
    assert_eq!(server.contexts.len(), 1);
    assert_eq!(server.context().id_context().map(<[u8]>::to_vec), before, "who goes on is not disturbed");
    assert_eq!(server.say(&asked.binding, "on").code(), Code::CHANGED);
    assert!(server.receive_at(at(20), &client.get("/light").0).is_ok());
}

// RFC 8613 appendix B.2
#[test]
fn replayed_renewal_messages_never_establish_keys_again() {
    let [mut client, mut server] = pair(1);
    let (first, _) = agree(&mut client, &mut server, at(0));
    assert!(server.receive_at(at(5), &first).is_ok());
    assert_eq!(server.receive_at(at(6), &first), Err(Refused::Replayed));
    // The client restarts, and both agree on new keys. An offer made before is not accepted
    // afterwards.
    let [mut client, _] = pair(7);
    let (held_back, _) = agree(&mut client, &mut server, at(10));
    let [mut client, _] = pair(9);
    let (second, _) = agree(&mut client, &mut server, at(20));
    assert!(server.receive_at(at(25), &second).is_ok());
    for old in [&first, &held_back] {
        assert!(matches!(server.receive_at(at(30), old), Err(Refused::Proposed { .. })), "it proposes, at most");
    }
    assert_eq!(server.receive_at(at(30), &second), Err(Refused::Replayed));
    // An offer is valid for 93 seconds, and not after a restart of the server.
    let [mut client, mut server] = pair(1);
    let (late, _) = agree(&mut client, &mut server, at(0));
    assert!(matches!(server.receive_at(at(93_001), &late), Err(Refused::Proposed { .. })));
    let [mut client, mut server] = pair(1);
    let (elsewhere, _) = agree(&mut client, &mut server, at(0));
    let [_, mut server] = pair(3);
    assert!(matches!(server.receive_at(at(1), &elsewhere), Err(Refused::Proposed { .. })));
}

// RFC 8613 appendix B.2
#[test]
fn clients_agree_on_keys_one_after_the_other_while_the_clock_stands_still() {
    let [mut client, mut server] = pair(1);
    let (first, _) = agree(&mut client, &mut server, at(7));
    assert!(server.receive_at(at(7), &first).is_ok());
    for restart in 0..4 {
        let [mut client, _] = pair(10 + restart);
        let (request, _) = agree(&mut client, &mut server, at(7));
        assert!(server.receive_at(at(7), &request).is_ok(), "restart {restart}");
        assert_eq!(server.receive_at(at(7), &request), Err(Refused::Replayed));
        assert!(matches!(server.receive_at(at(7), &first), Err(Refused::Proposed { .. })), "an earlier offer is void");
    }
}

#[test]
fn a_request_of_an_earlier_context_gets_no_response_under_renewed_keys() {
    let [mut client, mut server] = pair(1);
    let (request, mut waiting) = agree(&mut client, &mut server, at(0));
    let asked = server.receive_at(at(5), &request).expect("agreed");
    assert!(client.contexts.lost(&waiting));
    let (request, _) = agree(&mut client, &mut server, at(10));
    let again = server.receive_at(at(15), &request).expect("agreed");
    assert!(server.contexts.protect_response(&asked.binding, Code::CONTENT, &Body::EMPTY).is_err());
    let answer = server.say(&again.binding, "on");
    assert_eq!(client.hear(&mut waiting, &answer), Err(Refused::Outdated), "it may have been executed");
}

#[test]
fn forged_or_malformed_proposals_and_offers_change_nothing() {
    let [mut client, mut server] = pair(1);
    let (proposal, mut binding) = client.get("/light");
    let offer = offered(&mut server, at(0), &proposal);
    let changed = |original: &OwnedMessage, at: usize| {
        let mut value = option(original).to_vec();
        value[at] ^= 1;
        altered(original, &value, original.payload())
    };
    for byte in 4..option(&proposal).len() {
        let refused = server.receive(&changed(&proposal, byte)).expect_err("it is another one");
        assert!(matches!(refused, Refused::UnknownContext | Refused::Malformed), "byte {byte}: {refused:?}");
    }
    for byte in 0..option(&offer).len() {
        assert!(
            client.hear(&mut binding, &changed(&offer, byte)).is_err_and(|why| why != Refused::Renewed),
            "byte {byte}"
        );
    }
    assert_eq!(client.hear(&mut binding, &offer), Err(Refused::Renewed), "the true one still counts");
    for nonsense in [&[0x58, 0x00][..], &[0x40], &[0x5f], &[0x58, 200], &[0x58, 97], &[0x9b], &[0xff; 100]] {
        let value = [&[0b1_1001, 0, u8::try_from(nonsense.len()).expect("short")], nonsense, b"C"].concat();
        let refused = server.receive(&altered(&proposal, &value, proposal.payload()));
        assert_eq!(refused, Err(Refused::UnknownContext), "{nonsense:x?}");
    }
    // Keys without any randomness are never used.
    let value = [&[0b1_1001, 0, 5], &b"where"[..], b"C"].concat();
    assert_eq!(server.receive(&altered(&proposal, &value, proposal.payload())), Err(Refused::UnknownContext));
}

/// Records each protected message: key owner, ID context, and nonce.
#[derive(Default)]
struct Checker {
    nonces: HashSet<(EndId, Vec<u8>, EndId, u64)>,
    agreed: usize,
    taken: HashSet<(Vec<u8>, u64)>,
}

impl Checker {
    fn protected(&mut self, by: EndId, id_context: &[u8], counted_by: EndId, number: u64) {
        assert!(self.nonces.insert((by, id_context.to_vec(), counted_by, number)), "a nonce repeats");
    }

    fn took(&mut self, server: &End, asked: &Unprotected) {
        let id_context = server.context().id_context().expect("agreed").to_vec();
        assert!(self.taken.insert((id_context, asked.binding.number())), "a replay is taken");
    }

    fn response(&mut self, server: &End, id_context: &[u8], asked: u64, option: &[u8]) {
        let (own, client) = (server.context().sender_id(), server.context().recipient_id());
        match option.split_first() {
            None => self.protected(own, id_context, client, asked),
            Some((flags, rest)) => {
                let number = &rest[..usize::from(flags & 7)];
                self.protected(own, id_context, own, number.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
            }
        }
    }
}

/// After flags, number, length, and the two-byte header of a 24-byte string.
fn offer_of(option: &[u8]) -> &[u8] {
    assert_eq!((option[1..].len(), &option[3..5]), (28, &[0x58, 24][..]));
    &option[5..]
}

// RFC 8613 appendix B.2
#[test]
fn no_nonce_repeats_and_no_replay_is_taken_over_ten_thousand_restarts_without_a_store() {
    let random = &mut ChaCha8Rng::seed_from_u64(8613);
    let mut checker = Checker::default();
    let [of_client, of_server] = credentials();
    let fresh = |credentials, random: &mut ChaCha8Rng| {
        let mut seed = [0; 32];
        random.fill_bytes(&mut seed);
        End::seeded(credentials, Start::Anew, seed)
    };
    let (mut client, mut server) = (fresh(&of_client, random), fresh(&of_server, random));
    let mut sent: Vec<OwnedMessage> = Vec::new();
    let (mut restarts, mut now) = (0, Instant::ZERO);
    while restarts < 10_000 {
        now += Duration::from_millis(u64::from(random.next_u32() % 2_000));
        let mut asking = None;
        let request = match random.next_u32() % 5 {
            0 => {
                (client, restarts) = (fresh(&of_client, random), restarts + 1);
                continue;
            }
            1 => {
                (server, restarts) = (fresh(&of_server, random), restarts + 1);
                continue;
            }
            2 if !sent.is_empty() => sent[random.next_u32() as usize % sent.len()].clone(),
            _ => {
                let (request, binding) = client.get("/light");
                let context = client.context();
                let id_context = context.id_context().expect("a random one").to_vec();
                checker.protected(context.sender_id(), &id_context, context.sender_id(), binding.number());
                if sent.len() >= 100 {
                    sent.remove(random.next_u32() as usize % 100);
                }
                sent.push(request.clone());
                asking = Some(binding);
                request
            }
        };
        let answer = match server.receive_at(now, &request) {
            Ok(asked) => {
                checker.took(&server, &asked);
                let answer = server.say(&asked.binding, "on");
                let id_context = server.context().id_context().expect("agreed").to_vec();
                checker.response(&server, &id_context, asked.binding.number(), option(&answer));
                checker.agreed += 1;
                Some(answer)
            }
            Err(refused @ Refused::Proposed { .. }) => {
                let (code, body) = server.contexts.refusal(now, &refused).expect("an offer");
                let Refused::Proposed { binding, id_context } = &refused else { unreachable!() };
                let told = body.option(OptionNumber::OSCORE).expect("it is protected").to_vec();
                let keys = [offer_of(&told), id_context].concat();
                checker.response(&server, &keys, binding.number(), &told);
                Some(message(Type::NonConfirmable, code, &body))
            }
            Err(Refused::UnknownContext) => {
                if let Some(binding) = &asking {
                    client.contexts.lost(binding);
                }
                None
            }
            Err(_) => None,
        };
        if let (Some(answer), Some(mut binding), true) = (answer, asking, !random.next_u32().is_multiple_of(4)) {
            let heard = client.hear(&mut binding, &answer);
            assert!(matches!(heard, Ok(_) | Err(Refused::Renewed)), "{heard:?}");
        }
    }
    assert!(checker.agreed > 500, "{} requests were taken", checker.agreed);
}

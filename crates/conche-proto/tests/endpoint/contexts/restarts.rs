//! A key and a nonce protect only one message, and a request is accepted once, for any restarts and
//! stores (RFC 8613 appendix B.1, D.4).

use std::collections::HashSet;
use std::time::Duration;

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use conche_proto::oscore::{Credentials, EndId, ProtectError, Refused, ReplayWindow, Reserve, Start};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::support::{End, credentials, option, pair};

#[derive(Clone, Copy, Default)]
struct Disk {
    used: bool,
    next: u64,
    /// At an orderly shutdown; removed before any use.
    window: Option<ReplayWindow>,
    /// Reports success without writing.
    lies: bool,
}

impl Disk {
    /// Three of four writes succeed.
    fn write(&mut self, random: &mut ChaCha8Rng, next: u64, window: Option<ReplayWindow>) -> bool {
        let succeeds = !random.next_u32().is_multiple_of(4);
        if succeeds && !self.lies {
            (self.used, self.next, self.window) = (true, next, window);
        }
        succeeds
    }
}

struct Device {
    credentials: Credentials,
    disk: Disk,
    end: End,
}

impl Device {
    fn start(credentials: Credentials, mut disk: Disk, random: &mut ChaCha8Rng) -> Self {
        let Disk { used, next, window, .. } = disk;
        let start = match window {
            _ if !used => Start::First,
            Some(window) if disk.write(random, next, None) => Start::Resumed { next, window },
            _ => Start::Restarted { next },
        };
        let mut seed = [0; 32];
        random.fill_bytes(&mut seed);
        let end = End::seeded(&credentials, start, seed);
        Self { credentials, disk, end }
    }

    fn restart(self, random: &mut ChaCha8Rng) -> Self {
        let Self { credentials, mut disk, end } = self;
        if random.next_u32().is_multiple_of(4) {
            // An orderly shutdown.
            let context = end.context();
            disk.write(random, context.next_number(), context.window());
        }
        Self::start(credentials, disk, random)
    }

    fn store(&mut self, random: &mut ChaCha8Rng) {
        while let Some(reserve) = self.end.contexts.poll_reserve() {
            if self.disk.write(random, reserve.up_to, None) {
                self.end.contexts.reserved(reserve);
            } else {
                self.end.contexts.not_reserved(reserve.context);
            }
        }
    }
}

#[derive(Default)]
struct Checker {
    /// Key owner, and sender and value of the number.
    nonces: HashSet<(EndId, EndId, u64)>,
    taken: HashSet<u64>,
    challenges: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Broken {
    NonceRepeated,
    ReplayTaken,
}

impl Checker {
    fn protected(&mut self, by: EndId, counted_by: EndId, number: u64) -> Result<(), Broken> {
        self.nonces.insert((by, counted_by, number)).then_some(()).ok_or(Broken::NonceRepeated)
    }

    fn response(&mut self, server: &End, asked: u64, option: &[u8]) -> Result<(), Broken> {
        let (server, client) = (server.context().sender_id(), server.context().recipient_id());
        match option {
            [] => self.protected(server, client, asked),
            [_, number @ ..] => {
                let number = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
                self.protected(server, server, number)
            }
        }
    }
}

/// An attacker replays requests. The clock stands still, so that challenges do not expire.
fn run(restarts: usize, lies: bool, random: &mut ChaCha8Rng) -> Result<Checker, Broken> {
    let mut checker = Checker::default();
    let disk = Disk { lies, ..Disk::default() };
    let [mut client, mut server] = credentials().map(|credentials| Device::start(credentials, disk, random));
    let mut sent: Vec<(u64, OwnedMessage)> = Vec::new();
    let mut echo = None;
    let mut restarted = 0;
    while restarted < restarts {
        client.store(random);
        server.store(random);
        let (number, request) = match random.next_u32() % 8 {
            0 | 1 => {
                client = client.restart(random);
                restarted += 1;
                continue;
            }
            2 | 3 => {
                server = server.restart(random);
                restarted += 1;
                continue;
            }
            4 if !sent.is_empty() => sent[random.next_u32() as usize % sent.len()].clone(),
            _ => {
                let mut body = Body::builder().path("/light");
                if let Some(echo) = echo.take() {
                    let echo: Vec<u8> = echo;
                    body = body.option(OptionNumber::ECHO, &echo);
                }
                let Some((request, binding)) = client.end.try_request(&body.build().expect("legal")) else { continue };
                let sender = client.end.context().sender_id();
                checker.protected(sender, sender, binding.number())?;
                if sent.len() >= 100 {
                    sent.remove(random.next_u32() as usize % 100);
                }
                sent.push((binding.number(), request.clone()));
                // The answer to a challenge contains its value.
                echo = answer(&mut checker, random, &mut client, &mut server, binding, &request)?;
                continue;
            }
        };
        let again = server.end.receive(&request);
        if let Ok(asked) = again {
            if !checker.taken.insert(number) {
                return Err(Broken::ReplayTaken);
            }
            let body = Body::builder().payload("on").build().expect("legal");
            for _ in 0..random.next_u32() % 3 {
                let response = server.end.contexts.protect_response(&asked.binding, Code::CONTENT, &body);
                if let Ok(response) = response {
                    let option = response.body.option(OptionNumber::OSCORE).expect("it is protected");
                    checker.response(&server.end, number, option)?;
                }
            }
        }
    }
    Ok(checker)
}

fn answer(
    checker: &mut Checker,
    random: &mut ChaCha8Rng,
    client: &mut Device,
    server: &mut Device,
    mut binding: conche_proto::oscore::Binding,
    request: &OwnedMessage,
) -> Result<Option<Vec<u8>>, Broken> {
    if random.next_u32().is_multiple_of(4) {
        return Ok(None);
    }
    let number = binding.number();
    let body = Body::builder().payload("on").build().expect("legal");
    let response = match server.end.receive(request) {
        Ok(asked) => {
            if !checker.taken.insert(number) {
                return Err(Broken::ReplayTaken);
            }
            server
                .end
                .contexts
                .protect_response(&asked.binding, Code::CONTENT, &body)
                .ok()
                .map(|response| (response.code, response.body))
        }
        Err(refused @ Refused::NotFresh(_)) => {
            checker.challenges += 1;
            server.end.contexts.refusal(Instant::ZERO, &refused)
        }
        Err(_) => None,
    };
    let Some((code, body)) = response else { return Ok(None) };
    let option = body.option(OptionNumber::OSCORE).expect("it is protected");
    checker.response(&server.end, number, option)?;
    let response = super::support::message(conche_proto::codec::Type::NonConfirmable, code, &body);
    let heard = client.end.hear(&mut binding, &response).expect("authentic");
    Ok(heard.message.option(OptionNumber::ECHO).map(Vec::from))
}

/// A hundred restarts each.
fn run_pairs(pairs: usize, lies: bool) -> Result<(usize, usize), Broken> {
    let random = &mut ChaCha8Rng::seed_from_u64(8613);
    let (mut taken, mut challenges) = (0, 0);
    for _ in 0..pairs {
        let checker = run(100, lies, random)?;
        taken += checker.taken.len();
        challenges += checker.challenges;
    }
    Ok((taken, challenges))
}

// RFC 8613 appendix B.1, D.4
#[test]
fn no_nonce_repeats_and_no_replay_is_taken_over_a_hundred_thousand_restarts() {
    let (taken, challenges) = run_pairs(1000, false).unwrap_or_else(|broken| panic!("{broken:?}"));
    assert!(taken > 10_000 && challenges > 10_000, "{taken} requests were taken, {challenges} challenged");
}

#[test]
fn the_checker_detects_a_store_that_loses_confirmed_writes() {
    assert!(run_pairs(1, true).is_err());
}

// RFC 8613 appendix B.1.2
#[test]
fn a_server_that_has_restarted_takes_nothing_before_an_echo_and_nothing_older_after_it() {
    let [mut client, _] = pair();
    let [_, credentials] = credentials();
    let early: Vec<_> = (0..5).map(|_| client.get("/light").0).collect();
    let mut server = End::ready(&credentials, Start::Restarted { next: 1000 });
    assert_eq!(server.context().window(), None);
    for request in &early {
        assert!(matches!(server.receive(request), Err(Refused::NotFresh(_))), "again and again");
    }

    let (request, mut binding) = client.get("/light");
    let refused = server.receive(&request).expect_err("it may be old");
    let (code, body) = server.contexts.refusal(Instant::ZERO, &refused).expect("numbers are reserved");
    assert_eq!(body.option(OptionNumber::OSCORE), Some(&b"\x02\x03\xe8"[..]), "a number of its own: 1000");
    assert_eq!(code, Code::CHANGED);
    let challenge = super::support::message(conche_proto::codec::Type::NonConfirmable, code, &body);
    let heard = client.hear(&mut binding, &challenge).expect("authentic").message;
    assert_eq!(heard.code(), Code::UNAUTHORIZED);
    let echo = heard.option(OptionNumber::ECHO).expect("a challenge").to_vec();

    let ask = |client: &mut End, echo: &[u8]| {
        client.request(Code::GET, &Body::builder().option(OptionNumber::ECHO, echo).build().expect("legal")).0
    };
    let wrong = ask(&mut client, &[7; 16]);
    assert!(matches!(server.receive(&wrong), Err(Refused::NotFresh(_))));
    let fresh = ask(&mut client, &echo);
    let late = Instant::ZERO + Duration::from_secs(94);
    assert!(matches!(server.receive_at(late, &fresh), Err(Refused::NotFresh(_))), "the challenge is too old");
    let outside = altered_outside(&client.get("/light").0, &echo);
    assert!(matches!(server.receive(&outside), Err(Refused::NotFresh(_))), "an Echo that is not protected");

    let asked = server.receive(&fresh).expect("fresh");
    let response = server.say(&asked.binding, "on");
    assert_eq!(option(&response), b"\x02\x03\xe9", "nobody knows what had this request's number before");
    for request in early.iter().chain([&request, &wrong, &fresh]) {
        assert_eq!(server.receive(request), Err(Refused::Replayed));
    }
    assert!(server.receive(&client.get("/light").0).is_ok());
}

fn altered_outside(request: &OwnedMessage, echo: &[u8]) -> OwnedMessage {
    let body = Body::builder().option(OptionNumber::OSCORE, option(request)).option(OptionNumber::ECHO, echo);
    let body = body.payload(request.payload().to_vec()).build().expect("legal");
    super::support::message(request.header().ty, request.code(), &body)
}

// RFC 8613 appendix B.1: after a power failure this end would start as new again
#[test]
fn nothing_is_taken_before_it_is_stored_that_the_credentials_are_used() {
    let [mut client, _] = pair();
    let [_, credentials] = credentials();
    let mut server = End::new(&credentials, Start::First);
    let (request, _) = client.get("/light");
    let refused = server.receive(&request).expect_err("nothing is stored");
    assert!(matches!(refused, Refused::NotFresh(_)));
    assert_eq!(server.contexts.refusal(Instant::ZERO, &refused), None, "nothing can be protected");
    server.store();
    assert!(server.receive(&request).is_ok());
}

// RFC 8613 appendix B.1.1
#[test]
fn no_number_is_used_before_it_is_reserved_and_none_is_asked_for_twice() {
    let [credentials, _] = credentials();
    let mut client = End::new(&credentials, Start::First);
    let ask = |client: &mut End| client.contexts.protect_request(client.id, Code::GET, &Body::EMPTY).map(|_| ());
    assert_eq!(ask(&mut client), Err(ProtectError::NotReserved));
    let reserve = client.contexts.poll_reserve().expect("it has none");
    assert_eq!((reserve, client.contexts.poll_reserve()), (Reserve { context: client.id, up_to: 256 }, None));
    assert_eq!(ask(&mut client), Err(ProtectError::NotReserved), "nothing is stored yet");
    assert_eq!(client.contexts.poll_reserve(), None);
    client.contexts.not_reserved(client.id);
    assert_eq!(client.contexts.poll_reserve(), None, "nobody needs one");
    assert_eq!(ask(&mut client), Err(ProtectError::NotReserved));
    let again = client.contexts.poll_reserve().expect("it still has none");
    assert_eq!(again, reserve);

    client.contexts.reserved(Reserve { up_to: u64::MAX, ..reserve });
    for number in 0..256 {
        assert_eq!(client.context().next_number(), number);
        assert_eq!(ask(&mut client), Ok(()));
        let asked = client.contexts.poll_reserve();
        assert_eq!(asked.map(|reserve| reserve.up_to), (number == 127).then_some(128 + 256), "number {number}");
    }
    assert_eq!(ask(&mut client), Err(ProtectError::NotReserved), "as many as were asked for, whatever is said");
    client.contexts.reserved(Reserve { up_to: 3, ..reserve });
    assert_eq!(ask(&mut client), Err(ProtectError::NotReserved), "fewer than before mean nothing");
}

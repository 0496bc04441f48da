//! Tests of [`CookieVerifier`].

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn hello(number: u16, random: u8, cookie: &[u8], suites: &[u8]) -> Vec<u8> {
    let mut body = vec![254, 253];
    body.extend([random; 32]);
    body.push(0);
    body.push(u8::try_from(cookie.len()).unwrap());
    body.extend(cookie);
    body.extend(u16::try_from(suites.len()).unwrap().to_be_bytes());
    body.extend(suites);
    body.extend([1, 0]);
    let mut fragment = wire::handshake_header(message::CLIENT_HELLO, number, body.len()).to_vec();
    fragment.extend(body);
    let mut record = vec![0; 300];
    let len = wire::write_record(&mut record, content::HANDSHAKE, wire::DTLS_1_0, 9, &fragment);
    record.truncate(len);
    record
}

struct Bench {
    verifier: CookieVerifier,
    random: ChaCha8Rng,
}

impl Bench {
    fn new() -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        Self { verifier: CookieVerifier::new(at(0), &mut random), random }
    }

    fn verify(&mut self, now: Instant, from: u32, record: &[u8]) -> Verdict {
        let parsed = wire::records(record).next().unwrap();
        let hello = Hello::read(&parsed).unwrap();
        self.verifier.verify(now, &from, &hello, record.len(), &mut self.random)
    }

    fn cookie(&mut self, now: Instant, from: u32, record: &[u8]) -> Vec<u8> {
        match self.verify(now, from, record) {
            Verdict::Reply(reply) => reply[REPLY - COOKIE..].to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

const SUITES: [u8; 2] = [0xc0, 0xa8];

fn valid(made: u32, age: u64) -> Verdict {
    Verdict::Valid(Issued { stamp: made * 64_000, age: Duration::from_secs(age) })
}

#[test]
fn a_cookie_is_valid_from_its_address_with_its_hello_and_nowhere_else() {
    let mut bench = Bench::new();
    let cookie = bench.cookie(at(1), 7, &hello(0, 1, &[], &SUITES));
    assert_eq!(bench.verify(at(2), 7, &hello(1, 1, &cookie, &SUITES)), valid(1, 1));
    let elsewhere = [
        bench.verify(at(2), 8, &hello(1, 1, &cookie, &SUITES)),
        bench.verify(at(2), 7, &hello(1, 2, &cookie, &SUITES)),
        bench.verify(at(2), 7, &hello(1, 1, &cookie, &[0xc0, 0xa9])),
        bench.verify(at(2), 7, &hello(1, 1, &cookie[..31], &SUITES)),
        bench.verify(at(2), 7, &hello(0, 1, &cookie, &SUITES)),
    ];
    assert!(elsewhere.iter().all(|verdict| matches!(verdict, Verdict::Reply(_))), "{elsewhere:?}");
}

#[test]
fn every_bit_of_a_cookie_counts() {
    let mut bench = Bench::new();
    let cookie = bench.cookie(at(1), 7, &hello(0, 1, &[], &SUITES));
    for bit in 0..COOKIE * 8 {
        let mut flipped = cookie.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(bench.verify(at(1), 7, &hello(1, 1, &flipped, &SUITES)), Verdict::Reply(_)));
    }
}

#[test]
fn a_cookie_outlives_one_change_of_keys_and_not_two() {
    let mut bench = Bench::new();
    let cookie = bench.cookie(at(59), 7, &hello(0, 1, &[], &SUITES));
    assert_eq!(bench.verify(at(60), 7, &hello(1, 1, &cookie, &SUITES)), valid(59, 1));
    assert_eq!(
        bench.verify(at(119), 7, &hello(1, 1, &cookie, &SUITES)),
        valid(59, 60),
        "a minute is the least that it is valid for, and what it took is measured"
    );
    assert!(matches!(bench.verify(at(121), 7, &hello(1, 1, &cookie, &SUITES)), Verdict::Reply(_)));
    let mut idle = Bench::new();
    let cookie = idle.cookie(at(1), 7, &hello(0, 1, &[], &SUITES));
    assert!(matches!(idle.verify(at(500), 7, &hello(1, 1, &cookie, &SUITES)), Verdict::Reply(_)), "no key is so old");
}

#[test]
fn a_hello_verify_request_is_valid_and_no_longer_than_the_client_hello() {
    let mut bench = Bench::new();
    let request = hello(0, 1, &[], &SUITES);
    let Verdict::Reply(reply) = bench.verify(at(1), 7, &request) else { panic!() };
    assert!(reply.len() <= request.len());
    let record = wire::records(&reply).next().unwrap();
    assert_eq!(record.sequence, 9, "the record sequence number of the ClientHello");
    let answer = wire::handshakes(record.fragment).next().unwrap();
    assert_eq!((answer.message, answer.number), (message::HELLO_VERIFY_REQUEST, 0));
    assert_eq!(answer.body[..3], [254, 255, 32]);
}

#[test]
fn a_hello_cut_before_its_compression_methods_is_none() {
    let whole = hello(0, 1, &[], &SUITES);
    for cut in RECORD_HEADER..whole.len() {
        let mut record = whole[..cut].to_vec();
        record[11..13].copy_from_slice(&u16::try_from(cut - RECORD_HEADER).unwrap().to_be_bytes());
        let read = wire::records(&record).next().unwrap();
        assert!(Hello::read(&read).is_none());
    }
}

fn made_at(millisecond: u32, later: u32) -> Issued {
    Issued { stamp: millisecond * 64 + later, age: Duration::ZERO }
}

#[test]
fn a_cookie_begins_one_handshake_and_so_does_none_that_is_older() {
    let mut verifier = Bench::new().verifier;
    let now = at(50);
    verifier.spend(now, &7, made_at(49_000, 0));
    for (address, millisecond, unspent) in
        [(7, 49_000, false), (7, 48_999, false), (7, 49_001, true), (8, 49_000, true), (8, 1, true)]
    {
        assert_eq!(verifier.is_unspent(now, &address, made_at(millisecond, 0)), unspent, "{address}, {millisecond}");
    }
    verifier.spend(now, &7, made_at(20_000, 0));
    assert!(!verifier.is_unspent(now, &7, made_at(49_000, 0)));
    // The time wraps around.
    let later = Instant::from_millis(u64::from(u32::MAX / 64) + 10_000);
    let before_the_wrap = Issued { stamp: u32::MAX - 500, age: Duration::ZERO };
    assert!(verifier.is_unspent(later, &7, before_the_wrap));
    verifier.spend(later, &7, before_the_wrap);
    assert!(!verifier.is_unspent(later, &7, before_the_wrap));
    assert!(verifier.is_unspent(later, &7, Issued { stamp: 500, age: Duration::ZERO }));
    assert!(!verifier.is_unspent(at(300), &9, made_at(100_000, 0)));
}

#[test]
fn an_address_may_begin_several_handshakes_within_a_millisecond() {
    let mut bench = Bench::new();
    for handshake in 0..4 {
        let now = Instant::from_nanos(7_000_000_000 + u64::from(handshake) * 200_000);
        let cookie = bench.cookie(now, 7, &hello(0, handshake, &[], &SUITES));
        let later = Instant::from_nanos(now.as_nanos() + 50_000);
        let Verdict::Valid(issued) = bench.verify(later, 7, &hello(1, handshake, &cookie, &SUITES)) else { panic!() };
        assert!(bench.verifier.is_unspent(later, &7, issued), "handshake {handshake}");
        bench.verifier.spend(later, &7, issued);
        assert!(!bench.verifier.is_unspent(later, &7, issued), "a copy of handshake {handshake}");
    }
}

#[test]
fn clients_whose_hellos_are_under_way_while_a_thousand_others_begin_are_not_asked_again() {
    let mut verifier = Bench::new().verifier;
    let now = at(50);
    (0..1000).for_each(|address| verifier.spend(now, &address, made_at(49_900, 0)));
    let asked = (1000..2000).filter(|address| !verifier.is_unspent(now, address, made_at(49_800, 0))).count();
    assert!(asked <= 100, "{asked} of 1000");
}

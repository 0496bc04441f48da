//! Tests of lifetimes, limits and eviction.

use super::*;
use crate::hash::Keyed;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

const LIFETIME: Duration = Duration::from_secs(247);
const NON_LIFETIME: Duration = Duration::from_secs(145);
/// Maximum excess of a lifetime.
const TICK: Duration = Duration::from_nanos(1 << Tick::BITS);
/// Places of an arena with one small chunk.
const ENTRIES: u16 = 64;

fn table(capacity: usize) -> Deduplication {
    Deduplication::new(capacity, 1152, [LIFETIME, NON_LIFETIME])
}

/// Creates a table with room for [`ENTRIES`], which fill three quarters of it, and for one pending
/// reply.
fn small_table() -> Deduplication {
    table(usize::from(ENTRIES) * Deduplication::ENTRY_BYTES * 4 / 3 + 1152 + REPLY_OVERHEAD)
}

fn fingerprint(id: u16) -> Fingerprint {
    Keyed::fingerprint(Keyed::new(&mut ChaCha8Rng::seed_from_u64(1)).hash(&7), 0, id)
}

/// Returns a POST from a source of its own.
fn post(id: u16) -> Received {
    let group = Group::of(fingerprint(id).short());
    Received { fingerprint: fingerprint(id), confirmable: true, idempotent: Err(group) }
}

fn get(id: u16) -> Received {
    Received { idempotent: Ok(()), ..post(id) }
}

fn knows(table: &mut Deduplication, id: u16) -> bool {
    table.find(Instant::ZERO, fingerprint(id)).is_some()
}

#[test]
fn entries_live_their_lifetime_and_no_tick_longer() {
    let mut table = table(1 << 20);
    for start in [Instant::ZERO, Instant::from_millis(123_456_789), Instant::FAR_FUTURE - 2 * LIFETIME] {
        assert!(table.find(start, fingerprint(1)).is_none());
        table.insert(start, post(1), Reply::EmptyAck, |_| ()).expect("room");
        table.insert(start, Received { confirmable: false, ..post(2) }, Reply::Silence, |_| ()).expect("room");
        assert!(table.find(start + NON_LIFETIME, fingerprint(2)).is_some());
        assert!(table.find(start + NON_LIFETIME + TICK, fingerprint(2)).is_none());
        table.purge(start + NON_LIFETIME + TICK + Deduplication::LAG);
        assert_eq!(table.len(), 1);
        assert!(table.find(start + LIFETIME, fingerprint(1)).is_some());
        assert!(table.find(start + LIFETIME + TICK, fingerprint(1)).is_none());
        table.purge(start + LIFETIME + TICK + Deduplication::LAG);
        assert_eq!((table.len(), table.bytes()), (0, 0));
    }
}

#[test]
fn expired_entries_occupy_neither_room_nor_shares() {
    let mut table = small_table();
    let over = Instant::ZERO + LIFETIME + TICK;
    let one = Received { idempotent: Err(Group::of(7)), ..post(0) };
    let taken = (0..ENTRIES).take_while(|&id| {
        let received = Received { fingerprint: fingerprint(id), ..one };
        table.insert(Instant::ZERO, received, Reply::EmptyAck, |_| ()).is_ok()
    });
    let taken = taken.count();
    assert!((1..usize::from(ENTRIES)).contains(&taken), "the group has its share");
    for id in 0..u16::try_from(taken).expect("few") {
        let received = Received { fingerprint: fingerprint(1_000 + id), ..one };
        table.insert(over, received, Reply::EmptyAck, |_| ()).expect("the share is free again");
    }
    assert_eq!(table.len(), taken);
}

#[test]
fn a_full_table_forgets_idempotent_requests_first_and_others_never() {
    let mut table = small_table();
    for id in 0..ENTRIES {
        table.insert(Instant::from_millis(id.into()), get(id), Reply::EmptyAck, |_| ()).expect("room");
    }
    for id in 1_000..1_000 + ENTRIES / 2 {
        table.insert(Instant::from_millis(200), post(id), Reply::EmptyAck, |_| ()).expect("the oldest GET makes room");
        assert!(!knows(&mut table, id - 1_000));
    }
    for id in 2_000..2_000 + 10 * ENTRIES {
        table.insert(Instant::from_millis(300), get(id), Reply::EmptyAck, |_| ()).expect("the oldest GET makes room");
    }
    assert!((1_000..1_000 + ENTRIES / 2).all(|id| knows(&mut table, id)));
    assert_eq!(table.len(), usize::from(ENTRIES));
}

#[test]
fn posts_of_one_source_leave_half_of_the_table_to_others() {
    let mut table = small_table();
    let greedy = |id| Received { idempotent: post(0).idempotent, ..post(id) };
    let taken =
        (0..u16::MAX).take_while(|&id| table.insert(Instant::ZERO, greedy(id), Reply::EmptyAck, |_| ()).is_ok());
    let taken = taken.count();
    assert_eq!(taken, (table.capacity + Deduplication::ENTRY_BYTES) / (2 * Deduplication::ENTRY_BYTES));
    assert!(table.insert(Instant::ZERO, post(60_000), Reply::EmptyAck, |_| ()).is_ok(), "somebody else is served");
    assert!(table.insert(Instant::ZERO, get(60_001), Reply::EmptyAck, |_| ()).is_ok());
}

#[test]
fn answered_requests_make_room_again_after_slow_ones() {
    let mut table = table(64 << 10);
    let mut slow = std::vec::Vec::new();
    for id in 0..200 {
        slow.extend(table.insert(Instant::ZERO, get(id), Reply::Pending, |_| ()));
    }
    assert!(slow.len() >= 55, "{} of them had room", slow.len());
    for remembered in slow {
        // Some entries were evicted; the update must not change another entry's reply.
        let _ = table.set_reply(remembered, Reply::EmptyAck);
    }
    for id in 1_000..3_000 {
        table.insert(Instant::ZERO, get(id), Reply::Pending, |_| ()).expect("the oldest makes room");
        assert!(table.bytes() <= 64 << 10);
    }
}

#[test]
fn the_reply_that_a_request_waits_for_always_fits() {
    let mut table = small_table();
    let remembered = table.insert(Instant::ZERO, get(0), Reply::Pending, |_| ()).expect("room");
    assert!(table.set_reply(remembered, Reply::Datagram([0; 1152].into())).is_ok());
    assert!(table.bytes() <= table.capacity);
    let full = table.bytes();
    assert!(table.set_reply(remembered, Reply::EmptyAck).is_ok());
    assert_eq!(table.bytes(), full - 1152 - REPLY_OVERHEAD);
}

#[test]
fn an_entry_takes_at_most_64_bytes_beside_its_reply() {
    const { assert!(Deduplication::BYTES_BESIDE_REPLY <= 64) };
}

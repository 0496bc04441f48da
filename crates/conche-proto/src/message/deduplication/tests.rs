//! Deduplication: lifetimes, bounds, and what makes room for what.

use super::*;
use crate::hash::RandomState;

const LIFETIME: Duration = Duration::from_secs(247);
const NON_LIFETIME: Duration = Duration::from_secs(145);
/// Entries that fit a table of one chunk.
const ENTRIES: u16 = 64;

fn table(capacity: usize) -> Deduplication<u32, RandomState> {
    Deduplication::new(capacity, 1152, [LIFETIME, NON_LIFETIME], RandomState::from_seed(1))
}

/// A table with room for [`ENTRIES`], and for the reply of one request that waits.
fn small_table() -> Deduplication<u32, RandomState> {
    let entry_bytes = Arena::<Entry<u32>>::PLACE_BYTES + BYTES_ELSEWHERE;
    table(usize::from(ENTRIES) * entry_bytes + 1152 + REPLY_OVERHEAD)
}

fn post(id: u16) -> Received<u32> {
    Received { from: 7, local: None, id: MessageId(id), confirmable: true, idempotent: false }
}

fn get(id: u16) -> Received<u32> {
    Received { idempotent: true, ..post(id) }
}

fn pending() -> Reply {
    Reply::Pending { token: Token::EMPTY, confirmable: true, acknowledged: false }
}

fn knows(table: &mut Deduplication<u32, RandomState>, id: u16) -> bool {
    table.find(Instant::ZERO, 7, None, MessageId(id)).is_some()
}

#[test]
fn entries_live_exactly_their_lifetime() {
    let mut table = table(1 << 20);
    table.insert(Instant::ZERO, post(1), Reply::EmptyAck).expect("room");
    table.insert(Instant::ZERO, Received { confirmable: false, ..post(2) }, Reply::Silence).expect("room");
    table.purge(Instant::ZERO + NON_LIFETIME - Duration::from_nanos(1));
    assert_eq!(table.len(), 2);
    table.purge(Instant::ZERO + NON_LIFETIME);
    assert!(!knows(&mut table, 2) && knows(&mut table, 1));
    assert_eq!(table.find(Instant::ZERO + LIFETIME, 7, None, MessageId(1)), None);
    assert_eq!((table.len(), table.bytes()), (0, 0));
}

#[test]
fn a_full_table_forgets_idempotent_requests_first_and_others_never() {
    let mut table = small_table();
    for id in 0..ENTRIES {
        let received = if id % 2 == 0 { get(id) } else { post(id) };
        table.insert(Instant::from_millis(id.into()), received, Reply::EmptyAck).expect("room");
    }
    for n in 0..ENTRIES / 2 {
        let posted = table.insert(Instant::from_millis(100), post(1_000 + n), Reply::EmptyAck);
        posted.expect("the oldest GET makes room");
        assert!(!knows(&mut table, 2 * n));
    }
    assert_eq!(table.insert(Instant::from_millis(200), get(2_000), Reply::EmptyAck), Err(TableFull));
    assert_eq!(table.insert(Instant::from_millis(200), post(2_000), Reply::EmptyAck), Err(TableFull));
    assert!((0..ENTRIES / 2).all(|n| knows(&mut table, 2 * n + 1) && knows(&mut table, 1_000 + n)));
}

#[test]
fn a_request_that_waits_for_its_response_is_not_evicted() {
    let mut table = small_table();
    table.insert(Instant::ZERO, get(1), pending()).expect("room");
    assert_eq!(table.insert(Instant::ZERO, get(2), pending()), Err(TableFull), "no room for two replies");
    assert!(knows(&mut table, 1));
    table.purge(Instant::ZERO + LIFETIME);
    assert_eq!(table.len(), 0);
}

#[test]
fn a_request_that_waits_does_not_keep_answered_ones_from_making_room() {
    let mut table = small_table();
    table.insert(Instant::ZERO, get(0), pending()).expect("room");
    for id in 1..5 * ENTRIES {
        table.insert(Instant::ZERO, get(id), Reply::EmptyAck).expect("the oldest that was answered makes room");
        assert!(knows(&mut table, 0) && knows(&mut table, id));
        assert!(id < ENTRIES || !knows(&mut table, id - ENTRIES + 1));
    }
}

#[test]
fn the_reply_that_a_request_waits_for_always_fits() {
    let mut table = small_table();
    let capacity = table.capacity;
    let (index, generation) = table.insert(Instant::ZERO, post(0), pending()).expect("room");
    let others = (1..=u16::MAX).take_while(|&id| table.insert(Instant::ZERO, post(id), Reply::EmptyAck).is_ok());
    assert_eq!(others.count(), usize::from(ENTRIES) - 1);
    table.set_reply(index, generation, Reply::Datagram([0; 1152].into()));
    assert_eq!(table.bytes(), capacity);
    table.set_reply(index, generation, Reply::EmptyAck);
    assert_eq!(table.bytes(), capacity - 1152 - REPLY_OVERHEAD);
}

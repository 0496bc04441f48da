//! Eviction and indexes of the store.

use conche_proto::codec::{MessageId, Token, Type};

use crate::client::cache::*;

struct Bench {
    store: Store,
    size: usize,
}

impl Bench {
    fn new(bytes: usize, size: usize) -> Self {
        Self { store: Store::new(CacheLimits { bytes, entries: 1000 }), size }
    }

    fn put(&mut self, host: &str, n: u8) {
        let payload = vec![n; self.size - OVERHEAD - 9];
        let body = Body::builder().payload(payload).build().expect("no options");
        let message = OwnedMessage::encode(Type::Confirmable, Code::CONTENT, MessageId(0), &Token::EMPTY, &body);
        let (message, max_age) = (message.expect("it is legal"), Duration::from_secs(60));
        let from = std::net::SocketAddr::from(([192, 0, 2, 1], 5683)).into();
        let answer = StoredResponse { message, from, received: Instant::now(), max_age, changed: false };
        self.store.put(&Arc::new(key(host, n)), answer);
    }

    fn has(&self, host: &str, n: u8) -> bool {
        self.store.entries.contains_key(&key(host, n))
    }

    fn check(&self) {
        let Store { entries, order, of_prefix, of_resource, total, held, limits, .. } = &self.store;
        let costs: usize = entries.values().map(|entry| entry.cost).sum();
        assert_eq!([order.len(), of_prefix.len(), of_resource.len(), total.entries], [entries.len(); 4]);
        assert_eq!((total.bytes, held.values().map(|held| held.bytes).sum()), (costs, costs));
        assert_eq!(held.values().map(|held| held.entries).sum::<usize>(), entries.len());
        assert!(costs <= limits.bytes && entries.len() <= limits.entries);
    }
}

fn key(host: &str, n: u8) -> Key {
    let to = std::net::SocketAddr::new(host.parse().expect("an address"), 5683);
    let to = Destination::new(to, false, None);
    // Of 4 bytes; the message has 5 beside its payload.
    let body = Body::builder().query(&format!("{n:02x}")).build().expect("a legal option");
    Key { to, method: Code::GET, body, resource: 0 }
}

const HERE: &str = "10.0.0.1";
const NEAR: &str = "10.0.0.2";
const FAR: &str = "10.1.0.1";

#[test]
fn the_least_recently_used_response_makes_room() {
    let mut bench = Bench::new(4000, 1000);
    (0..4).for_each(|n| bench.put(HERE, n));
    assert!(bench.store.get(&key(HERE, 0)).is_some());
    bench.put(NEAR, 4);
    assert_eq!([0, 1, 2, 3].map(|n| bench.has(HERE, n)), [true, false, true, true]);
    assert!(bench.has(NEAR, 4));
    bench.check();
}

#[test]
fn a_prefix_that_holds_half_makes_room_among_its_own() {
    let mut bench = Bench::new(8000, 1000);
    (0..3).for_each(|n| bench.put(FAR, n));
    (0..200).for_each(|n| bench.put([HERE, NEAR][usize::from(n % 2)], n));
    assert_eq!([0, 1, 2].map(|n| bench.has(FAR, n)), [true; 3]);
    (3..200).for_each(|n| bench.put(FAR, n));
    bench.check();
    assert!([196, 197, 198, 199].iter().all(|n| bench.has(FAR, *n)), "the other half is for the others");
    assert!([198, 199].iter().all(|n| bench.has([HERE, NEAR][usize::from(n % 2)], *n)));
}

#[test]
fn a_response_over_half_the_cache_is_not_stored_and_drops_the_old_one() {
    let mut bench = Bench::new(4000, 1000);
    bench.put(HERE, 0);
    bench.size = 2001;
    bench.put(HERE, 0);
    assert!(!bench.has(HERE, 0));
    bench.check();
}

#[test]
fn the_number_of_entries_is_bounded_too() {
    let mut bench = Bench::new(1 << 20, 1000);
    bench.store.limits.entries = 3;
    (0..9).for_each(|n| bench.put(HERE, n));
    assert_eq!([5, 6, 7, 8].map(|n| bench.has(HERE, n)), [false, true, true, true]);
    bench.check();
}

#[test]
fn change_counts_of_a_resource_are_kept_only_during_reads() {
    let mut store = Store::new(CacheLimits::default());
    assert_eq!([store.begin_read(7), store.begin_read(7)], [0, 0]);
    store.change(7);
    store.change(8);
    assert_eq!((store.changes(7), store.begin_read(7)), (1, 1));
    (0..3).for_each(|_| store.end_read(7));
    assert!(store.reads.is_empty());
}

//! A million timers: a random one is cancelled and set again; and one of a constant delay is set
//! and cancelled, as for each piggybacked response.

#![allow(dead_code, unused_imports, reason = "the containers are built here as the endpoint has them, used or not")]

extern crate alloc;

use std::hint::black_box;
use std::time::Duration;

use conche_proto::Instant;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

#[path = "../src/store/mod.rs"]
mod store;

use store::{Arena, ArenaIndex, Linked, Links, List, Timers, index_type};

index_type!(OwnerIndex);

/// The owner of a timer, as large as an exchange.
#[derive(Default)]
struct Owner {
    links: Links,
    due: Instant,
    rest: [u64; 16],
}

struct Any;

impl Linked<Any> for Owner {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Pseudo-random numbers (a linear congruential generator of full period, Knuth's constants).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32
    }
}

fn owners(count: u32) -> Arena<Owner, OwnerIndex> {
    let mut arena = Arena::new();
    for _ in 0..count {
        arena.insert(Owner::default()).expect("room");
    }
    arena
}

fn benchmark(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timers");
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    for count in [1_000_u32, 1_000_000] {
        let (mut timers, mut random) = (Timers::default(), Random(1));
        // Retransmission timers of 2 to 3 s; the clock advances by 100 ns each time.
        let mut now = 0;
        let mut at = |random: &mut Random| {
            now += 100;
            Instant::from_nanos(now + 2_000_000_000 + random.next() % 1_000_000_000)
        };
        for index in (0..count).map(OwnerIndex::of) {
            timers.set(index, at(&mut random));
        }
        group.bench_function(BenchmarkId::new("any delay: cancel and set a random one", count), |bencher| {
            bencher.iter(|| {
                let index = OwnerIndex::of(u32::try_from(random.next() % u64::from(count)).unwrap_or_default());
                timers.cancel(index);
                timers.set(index, at(&mut random));
            });
        });
        let (mut arena, mut list, mut now) = (owners(count + 1), List::<Any, OwnerIndex>::new(), Instant::ZERO);
        for index in (0..count).map(OwnerIndex::of) {
            list.push_back(&mut arena, index);
        }
        let last = OwnerIndex::of(count);
        group.bench_function(BenchmarkId::new("constant delay: set and cancel", count), |bencher| {
            bencher.iter(|| {
                now += Duration::from_nanos(100);
                arena[last].due = now + Duration::from_millis(500);
                list.push_back(&mut arena, last);
                list.remove(&mut arena, black_box(last));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);

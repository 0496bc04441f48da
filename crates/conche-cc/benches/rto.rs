//! Cost of a controller per exchange, by its own type and through `AnyController`.
//!
//! `begin` is admission and the first timeout, `timeout` an expired timer and the next timeout,
//! `ack` a clean exchange's acknowledgement, and `whole` all three in sequence on one peer.

use core::hint::black_box;
use core::time::Duration;

use conche_cc::any::ALL;
use conche_cc::basic::Basic;
use conche_cc::bdp::Bdp;
use conche_cc::cocoa::{Cocoa, Cocoa2014, CocoaContiki, CocoaPlusPlus, CocoaS};
use conche_cc::control::{AckKind, AckedCopy, Acknowledged, Expired, Load, Sent, Submission};
use conche_cc::default::CoapDefault;
use conche_cc::eifel::Eifel;
use conche_cc::fasor::Fasor;
use conche_cc::fibonacci::Fibonacci;
use conche_cc::full_backoff::{CocoaFullBackoff, DefaultFullBackoff};
use conche_cc::linux::Linux;
use conche_cc::mrp::Mrp;
use conche_cc::non::PROBING_RATE;
use conche_cc::peak_hopper::PeakHopper;
use conche_cc::temper::Temper;
use conche_cc::wiopt::{Rfc6298, SemiDynamic};
use conche_cc::{Controller, Instant};
use criterion::{BatchSize, BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};

const START: Instant = Instant::from_millis(1_000_000);
const RTT: Duration = Duration::from_millis(200);
const MESSAGE: Submission = Submission { confirmable: true, may_confirm: false, bytes: 60, probing_rate: PROBING_RATE };

struct Subject<'a, C: Controller> {
    controller: &'a C,
    peer: C::Peer,
    flight: C::Flight,
    now: Instant,
    draws: u32,
}

impl<'a, C: Controller> Subject<'a, C> {
    fn settled(controller: &'a C) -> Self {
        let (peer, flight) = (controller.peer(START), C::Flight::default());
        let mut subject = Self { controller, peer, flight, now: START, draws: 1 };
        for _ in 0..20 {
            subject.begin();
            subject.acknowledge();
        }
        subject
    }

    fn begin(&mut self) -> Duration {
        self.flight = C::Flight::default();
        self.now += Duration::from_secs(1);
        black_box(self.controller.admit(&mut self.peer, self.now, &MESSAGE, &Load::default()));
        self.transmit(0)
    }

    fn time_out(&mut self) -> Duration {
        self.now += RTT;
        let expired = Expired { now: self.now, attempt: 0, load: Load::default() };
        self.now = self.controller.expired(&mut self.peer, &mut self.flight, &expired);
        self.transmit(1)
    }

    fn transmit(&mut self, attempt: u8) -> Duration {
        self.draws = self.draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (now, random, load) = (self.now, self.draws, Load::default());
        let sent = Sent { now, attempt, confirmable: true, bytes: MESSAGE.bytes, random, load };
        self.controller.sent(&mut self.peer, &mut self.flight, &sent)
    }

    fn acknowledge(&mut self) {
        let sent = [self.now];
        self.now += RTT;
        let (copy, kind) = (AckedCopy::Exact(0), AckKind::Piggybacked);
        let event = Acknowledged { now: self.now, sent: &sent, copy, kind, load: Load::default() };
        self.controller.acknowledged(&mut self.peer, &self.flight, &event);
    }
}

impl<C: Controller> Clone for Subject<'_, C> {
    fn clone(&self) -> Self {
        let Self { controller, peer, flight, now, draws } = self;
        Self { controller, peer: peer.clone(), flight: flight.clone(), now: *now, draws: *draws }
    }
}

fn measure<C: Controller>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, controller: &C) {
    let settled = Subject::settled(controller);
    let mut begun = settled.clone();
    begun.begin();
    group.bench_function(format!("{name}/begin"), |b| {
        b.iter_batched_ref(|| settled.clone(), Subject::begin, BatchSize::SmallInput);
    });
    group.bench_function(format!("{name}/timeout"), |b| {
        b.iter_batched_ref(|| begun.clone(), Subject::time_out, BatchSize::SmallInput);
    });
    group.bench_function(format!("{name}/ack"), |b| {
        b.iter_batched_ref(|| begun.clone(), Subject::acknowledge, BatchSize::SmallInput);
    });
    let mut subject = settled.clone();
    group.bench_function(format!("{name}/whole"), |b| {
        b.iter(|| {
            black_box(subject.begin());
            black_box(subject.time_out());
            subject.acknowledge();
        });
    });
}

fn by_type(c: &mut Criterion) {
    let group = &mut c.benchmark_group("type");
    measure(group, "default", &CoapDefault::default());
    measure(group, "cocoa2014", &Cocoa2014::default());
    measure(group, "cocoa2014-opt", &Cocoa2014::optimized());
    measure(group, "cocoa", &Cocoa::default());
    measure(group, "cocoa-contiki", &CocoaContiki::default());
    measure(group, "cocoa-plus-plus", &CocoaPlusPlus::default());
    measure(group, "fpb", &Fibonacci::default());
    measure(group, "mrp", &Mrp::default());
    measure(group, "eifel", &Eifel::default());
    measure(group, "cocoa-s", &CocoaS::default());
    measure(group, "basic", &Basic::default());
    measure(group, "linux", &Linux::default());
    measure(group, "peak-hopper", &PeakHopper::default());
    measure(group, "peak-hopper-cf", &PeakHopper::californium_2014());
    measure(group, "default-fb2", &DefaultFullBackoff::variant_2());
    measure(group, "cocoa-fb2", &CocoaFullBackoff::variant_2());
    measure(group, "fasor", &Fasor::default());
    measure(group, "bdp", &Bdp::default());
    measure(group, "semi-dynamic", &SemiDynamic::default());
    measure(group, "rfc6298", &Rfc6298::default());
    measure(group, "temper", &Temper::default());
}

fn by_name(c: &mut Criterion) {
    let group = &mut c.benchmark_group("any");
    for named in ALL {
        measure(group, named.name(), &named.controller());
    }
}

criterion_group!(benches, by_type, by_name);
criterion_main!(benches);

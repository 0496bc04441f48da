//! Managed queues under an unresponsive load, and recorded links.
//!
//! ```text
//!   source ── λ ──> queue ── frames of 100 bytes ──> sink
//! ```

use std::time::Duration;

use conche_netsim::packet::Packet;
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::{Aqm, CoDel, DropTail, LinkConfig, LinkTrace, Pie, Red, Topology, TopologyError};
use conche_netsim::{BitRate, Instant, Simulation};

use crate::plain::{Arrival, Interval, Plain, mean};

#[derive(Default)]
struct Drops {
    early: u32,
    full: u32,
}

impl Observer for Drops {
    fn on_dropped(&mut self, _: Instant, _: &Packet, reason: DropReason) {
        match reason {
            DropReason::DroppedEarly(_) => self.early += 1,
            DropReason::QueueFull(_) => self.full += 1,
            other => panic!("{other:?}"),
        }
    }
}

const SECONDS: u32 = 40;

/// Offers `a_second` frames per second to a link that carries `capacity` per second.
fn overload(
    aqm: Option<Aqm>,
    capacity: u32,
    a_second: u32,
    interval: fn(Duration) -> Interval,
) -> (Vec<Arrival>, Drops) {
    let mut net = Topology::new();
    let (source, sink) = (net.node("source"), net.node("sink"));
    let queue = DropTail::packets(u64::from(capacity));
    net.link(
        "link",
        source,
        sink,
        LinkConfig { rate: Some(BitRate::bit(800 * u64::from(capacity))), queue, aqm, ..LinkConfig::default() },
    );
    let mut sim = Simulation::new(&net, 11, Drops::default()).expect("a valid topology");
    let interval = interval(Duration::from_secs(1) / a_second);
    sim.attach(source, Plain::Source { to: sink, left: SECONDS * a_second, bytes: 72, interval }).expect("a node");
    sim.attach(sink, Plain::Sink(Vec::new())).expect("a node");
    sim.run();
    let arrivals = sim.host(sink).expect("attached").arrivals().to_vec();
    (arrivals, sim.into_parts().1)
}

/// Returns the mean delay in the second half of the run.
fn settled_wait_ms(arrivals: &[Arrival]) -> f64 {
    let half = Instant::from_millis(u64::from(SECONDS) * 500);
    let waits = arrivals.iter().filter(|arrival| arrival.sent_at > half);
    mean(waits.map(|arrival| (arrival.at - arrival.sent_at).as_secs_f64() * 1e3)).0
}

#[test]
fn without_management_the_queue_stays_full() {
    let (arrivals, drops) = overload(None, 1000, 1200, Interval::Poisson);
    assert!(settled_wait_ms(&arrivals) > 950.0);
    assert!(drops.early == 0 && drops.full > 6_500);
}

#[test]
fn codel_drops_more_and_more_until_a_load_that_does_not_give_way_fits() {
    let codel = CoDel { mtu_bytes: 100, ..CoDel::default() };
    let (arrivals, drops) = overload(Some(Aqm::CoDel(codel)), 1000, 1100, Interval::Constant);
    // A frame that departs after t ms waits t/11 ms: 5 ms at 55 ms, and 14.1 ms an interval later,
    // when the first frame is dropped. Each drop removes 1/1.1 ms, and the n-th occurs Σ 100 ms/√k
    // = 200 ms·√n − 146 ms after the first. The wait is longest when drops are 10 ms apart and
    // balance the load: n = 100, 1854 ms later, 14.1 + 1854/11 − 100/1.1 = 91.7 ms. The queue is
    // empty after about the same time again.
    let until = |ms| Instant::from_millis(ms);
    let wait_ms = |arrival: &Arrival| (arrival.at - arrival.sent_at).as_secs_f64() * 1e3 - 1.0;
    let begin = arrivals.iter().filter(|arrival| arrival.at < until(5_000));
    let (longest, at) = begin.map(|arrival| (wait_ms(arrival), arrival.at)).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    assert!((longest - 91.7).abs() < 1.0, "{longest} ms");
    assert!((1_900..2_200).contains(&at.as_millis()), "{at:?}");
    let gone = arrivals.iter().find(|arrival| arrival.at > at && wait_ms(arrival) < 5.0).expect("it falls").at;
    assert!((3_400..4_600).contains(&gone.as_millis()), "{gone:?}");
    // It then oscillates below that.
    let settled = settled_wait_ms(&arrivals);
    assert!((2.0..50.0).contains(&settled), "{settled} ms");
    assert_eq!(drops.full, 0);
    let share = f64::from(drops.early) / f64::from(1100 * SECONDS);
    assert!((share - 1.0 / 11.0).abs() < 0.002, "{share}");
}

#[test]
fn pie_holds_its_target_under_loads_that_do_not_give_way() {
    // PIE's de-randomisation leaves a gap: a probability of 0.85 drops 0.85 of the frames, one just
    // below drops p/(1+p), 46 %.
    for a_second in [11_000, 12_500, 15_000] {
        let pie = Pie { mean_packet_bytes: 100, ..Pie::default() };
        let (arrivals, drops) = overload(Some(Aqm::Pie(pie)), 10_000, a_second, Interval::Constant);
        let wait = settled_wait_ms(&arrivals);
        assert!((wait - 15.0).abs() < 3.0, "{wait} ms at {a_second} a second");
        assert_eq!(drops.full, 0);
        let (share, excess) = (f64::from(drops.early) / f64::from(a_second * SECONDS), 1.0 - 1e4 / f64::from(a_second));
        assert!((share - excess).abs() < 0.02, "{share} instead of {excess}");
    }
}

#[test]
fn red_settles_where_its_drop_probability_matches_the_overload() {
    // p_b = 0.1·(avg − 100)/200, and drops lie uniformly 1 to 1/p_b − 1 frames apart, so 2·p_b of
    // all frames are dropped. A load of 1100 must lose 1/11: p_b = 1/22, avg = 191.
    let red = Red { min_packets: 100.0, max_packets: 300.0, ..Red::default() };
    let (arrivals, drops) = overload(Some(Aqm::Red(red)), 1000, 1100, Interval::Poisson);
    let wait = settled_wait_ms(&arrivals);
    assert!((wait - 191.0).abs() < 10.0, "{wait} ms");
    assert_eq!(drops.full, 0);
}

#[test]
fn managed_queues_leave_a_light_load_alone() {
    let (red, codel, pie) = (Red::default(), CoDel::default(), Pie::default());
    for aqm in [Aqm::Red(red), Aqm::CoDel(codel), Aqm::Pie(pie)] {
        let (arrivals, drops) = overload(Some(aqm), 1000, 500, Interval::Poisson);
        assert_eq!((arrivals.len(), drops.early), (500 * SECONDS as usize, 0), "{aqm:?}");
    }
}

/// Returns arrival times in milliseconds over a recorded link.
fn recorded(trace: &str, header_bytes: u32, count: u32, interval_ms: u64) -> Vec<u128> {
    let mut net = Topology::new();
    let (source, sink) = (net.node("source"), net.node("sink"));
    let link = net.link("link", source, sink, LinkConfig { header_bytes, ..LinkConfig::default() });
    net.trace(link, trace.parse::<LinkTrace>().expect("a trace"));
    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    let interval = Interval::Constant(Duration::from_millis(interval_ms));
    sim.attach(source, Plain::Source { to: sink, left: count, bytes: 72, interval }).expect("a node");
    sim.attach(sink, Plain::Sink(Vec::new())).expect("a node");
    sim.run();
    let arrivals = sim.host(sink).expect("attached").arrivals();
    arrivals.iter().map(|arrival| (arrival.at - Instant::ZERO).as_millis()).collect()
}

#[test]
fn an_opportunity_carries_1504_bytes_and_a_frame_can_span_two() {
    // 15 frames of 100 bytes leave at 10 ms. The 16th leaves with its last 96 bytes at 30 ms, with
    // 14 more.
    let arrivals = recorded("10\n30\n100\n", 28, 40, 0);
    assert_eq!(arrivals[..15], [10; 15]);
    assert_eq!(arrivals[15..30], [30; 15]);
    assert_eq!(arrivals[30..], [100; 10]);
}

#[test]
fn a_long_frame_takes_several_opportunities_and_those_of_one_instant_together() {
    // 3008 bytes are two opportunities.
    assert_eq!(recorded("10\n10\n25\n", 3008 - 72, 3, 0), [10, 35, 50]);
    assert_eq!(recorded("10\n20\n", 3009 - 72, 2, 0), [30, 50]);
}

#[test]
fn unused_opportunities_are_lost() {
    // Sent at 12, 24 and 36 ms; the opportunity at 12 ms has passed.
    assert_eq!(recorded("12\n", 28, 3, 12), [24, 36, 48]);
    assert_eq!(recorded("5\n11\n13\n", 28, 2, 12), [13, 26]);
}

#[test]
fn a_trace_needs_a_link_with_a_queue_of_its_own() {
    use conche_netsim::mac::{MacConfig, RadioConfig};
    use conche_netsim::radio::{MediumConfig, Position, Udgm};
    let mut net = Topology::new();
    let (a, b) = (net.node("a"), net.node("b"));
    let air =
        net.radio("air", RadioConfig { medium: MediumConfig::Udgm(Udgm::default()), mac: MacConfig::ieee802154() });
    for node in [a, b] {
        net.place(air, node, Position::default());
    }
    let hop = net.hop("hop", air, a, b);
    net.trace(hop, "1\n".parse().expect("a trace"));
    let refused = Simulation::<Plain>::new(&net, 1, ()).err();
    assert_eq!(refused, Some(TopologyError::NoWire("hop".to_owned())));
}

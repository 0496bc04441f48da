//! The paper's experiment, made small.

use std::num::NonZeroUsize;
use std::time::Duration;

use conche_netsim::Instant;
use conche_proto::cc::AnyController;

use super::cell::cells;
use super::measure::{Record, Sent, Stretch};
use super::network::Network;
use super::run::{Setup, Workload};
use super::*;
use crate::results::Unit;
use crate::scenario::NonEmpty;
use crate::workload::Exchange;

fn scenario() -> Scenario {
    Scenario::from_toml(SCENARIO).expect("the paper's scenario")
}

fn short(seconds: u64) -> Scenario {
    let mut scenario = scenario();
    scenario.fixed.duration.0 = Duration::from_secs(seconds);
    scenario.dynamic.step.0 = Duration::from_secs(seconds / 5);
    scenario.dynamic.growth = super::scenario::Growth::Quadrupling;
    scenario.mixed.duration.0 = Duration::from_secs(seconds);
    scenario.mixed.on_off.0 = Duration::from_secs(seconds / 4);
    scenario
}

fn run(scenario: &Scenario, medium: usize, controller: &str, workload: &Workload) -> Record {
    let (_, medium) = &scenario.network.media.all()[medium];
    let controller = AnyController::by_name(controller).expect("a controller");
    Setup { scenario, medium, controller, workload }.run(1).expect("a valid run").0
}

fn value(record: &Record, seconds: u64, column: &str) -> f64 {
    let stretch = Stretch {
        from: Instant::ZERO,
        to: Instant::ZERO + Duration::from_secs(seconds),
        window: Duration::from_secs(30),
        message_bits: 680.0,
    };
    let values = record.values(stretch);
    values.iter().find(|value| value.column == column).map_or(f64::NAN, |value| value.value)
}

#[test]
fn every_mote_has_a_path_on_every_medium_and_in_every_replication() {
    let scenario = scenario();
    for (name, medium) in scenario.network.media.all() {
        for seed in 1..=20 {
            let network = Network::new(&scenario, &medium, seed).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(network.motes.len(), 88);
            assert!(network.motes.iter().any(|(_, hops)| *hops == scenario.measurement.series_hops), "{name}, {seed}");
        }
    }
}

/// 8.5 bit/s of 85 B are a message in 80 s: in 400 s each of 88 motes sends 5, give or take the one in the last interval.
#[test]
fn what_is_offered_far_below_saturation_is_what_arrives() {
    let scenario = short(400);
    for medium in 0..3 {
        let record = run(&scenario, medium, "default", &Workload::Static(8.5));
        assert!((434..=440).contains(&record.arrivals.len()), "{}", record.arrivals.len());
        assert!(value(&record, 400, "loss") < 0.5);
        assert!(value(&record, 400, "jain_long") > 0.99);
    }
}

/// Without obstacles and collisions a message and its response take twice the mean number of hops.
#[test]
fn frames_follow_from_hops_where_nothing_collides() {
    let scenario = short(400);
    let record = run(&scenario, 1, "default", &Workload::Static(8.5));
    let hops: u16 = record.motes.iter().map(|mote| mote.hops).sum();
    let expected = 2.0 * f64::from(hops) / record.motes.len() as f64;
    let frames = record.frames as f64 / record.arrivals.len() as f64;
    // Some do collide: with 1.1 messages a second and some 50 ms each on the air, a tenth at most.
    assert!(frames >= expected && frames < 1.15 * expected, "{frames} frames a message over {expected} hops");
}

#[test]
fn saturated_motes_get_more_of_the_channel_the_nearer_they_are() {
    let scenario = short(120);
    let record = run(&scenario, 1, "default", &Workload::Static(680.0));
    let near = value(&record, 120, "goodput_mote_1_hops");
    let far = value(&record, 120, "goodput_mote_5_hops");
    assert!(near > 2.0 * far && far > 0.0, "{near} and {far} bit/s");
}

/// 44 motes send 170 bit/s half of the time: 0.25 messages a second while they are on.
#[test]
fn unaware_motes_keep_their_rate_and_their_pauses() {
    let scenario = short(160);
    let record = run(&scenario, 0, "cocoa-plus", &Workload::Mixed);
    let of_unaware = |from: u64, to: u64| {
        record
            .arrivals
            .iter()
            .filter(|(at, mote)| {
                let second = (*at - Instant::ZERO).as_secs();
                !record.motes[*mote].confirmable && (from..to).contains(&second)
            })
            .count()
    };
    assert_eq!(record.motes.iter().filter(|mote| mote.confirmable).count(), 44);
    let (on, off, again) = (of_unaware(0, 40), of_unaware(42, 80), of_unaware(80, 120));
    assert!(off == 0 && on > 200 && again > 200, "{on}, {off}, {again} of at most 440 messages");
    assert!(on <= 440 && again <= 440);
}

#[test]
fn rates_double_to_the_highest_and_halve_again() {
    let mut dynamic = scenario().dynamic;
    assert_eq!(dynamic.rates(), [8.5, 17.0, 34.0, 68.0, 136.0, 68.0, 34.0, 17.0, 8.5]);
    dynamic.growth = super::scenario::Growth::Step(5.0);
    // 25 full steps lead to 133.5, one more to the cap.
    assert_eq!((dynamic.rates().len(), dynamic.rates()[25], dynamic.rates()[26]), (53, 133.5, 136.0));
}

#[test]
fn values_are_those_worked_out_by_hand() {
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let exchange = |ended, transmissions, answered| Exchange {
        flow: 0,
        began: at(0),
        ended: at(ended),
        transmissions,
        unnecessary: 0,
        answered,
        round_trip: answered.then(|| Duration::from_millis(100)),
    };
    let sent = |hops, exchanges| Sent { hops, confirmable: true, exchanges };
    let record = Record {
        motes: vec![
            sent(1, vec![exchange(10, 1, true), exchange(20, 3, true), exchange(40, 1, true)]),
            sent(2, vec![exchange(50, 5, false), exchange(59, 1, true), exchange(61, 1, true)]),
            Sent { confirmable: false, ..sent(1, Vec::new()) },
        ],
        arrivals: vec![(at(10), 0), (at(20), 0), (at(40), 0), (at(58), 1), (at(60), 1), (at(5), 2)],
        frames: 0,
    };
    let of = |column: &str| value(&record, 60, column);
    // Windows: (2, 0) with 4/(2·4) = 0.5 and (1, 1) with 1. The whole: (3, 1) with 16/(2·10).
    assert!((of("jain_short") - 0.75).abs() < 1e-12 && (of("jain_long") - 0.8).abs() < 1e-12);
    assert!((of("goodput") - 4.0 * 680.0 / 60.0).abs() < 1e-9);
    // 5 exchanges ended in time, with 11 copies, 6 of which were retransmissions.
    assert!((of("retransmission_index") - 6.0 / 11.0).abs() < 1e-12 && (of("loss") - 20.0).abs() < 1e-12);
    assert!((of("silent") - 25.0).abs() < 1e-12 && of("starving") == 0.0);
    assert!((of("goodput_mote_2_hops") - 680.0 / 60.0).abs() < 1e-9);
}

#[test]
fn every_controller_runs_and_figures_do_not_depend_on_threads() {
    let mut scenario = short(30);
    (scenario.network.media.mrm31, scenario.network.media.sinr) = (None, None);
    scenario.fixed.rates = NonEmpty::new(vec![60.0]).expect("one");
    let names: Vec<&str> = conche_proto::cc::any::ALL.iter().map(|named| named.name).collect();
    let mut experiment = Bdp19(scenario);
    experiment
        .adjust(&Effort {
            controllers: names.iter().map(|name| (*name).to_owned()).collect(),
            runs: Some(1),
            ..Effort::default()
        })
        .expect("controllers");
    assert_eq!(cells(&experiment.0).expect("valid").len(), names.len() * 3);
    let measure = |jobs| {
        let options = RunOptions { jobs: NonZeroUsize::new(jobs) };
        experiment.measure(options, &|_| {}).expect("a run").0
    };
    let figures = measure(1);
    assert_eq!(figures, measure(2));
    for name in names {
        let goodput =
            figures.iter().find(|figure| figure.row == format!("{name}/udgm/static/60") && figure.column == "goodput");
        assert!(goodput.is_some_and(|figure| figure.measured > 3000.0), "{name}: {goodput:?}");
    }
    assert!(figures.iter().any(|figure| figure.unit == Unit::Verdict));
    assert!(experiment.tables(&figures).len() > 8);
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (from, to, expected) in [
        ("request = \"85B\"", "request = \"120B\"", "messages.request"),
        ("response = \"42B\"", "response = \"30B\"", "messages.response"),
        ("confirmable = 44", "confirmable = 89", "mixed.confirmable"),
        ("lowest = 8.5", "lowest = 0", "no rate"),
        ("on_off = \"360s\"", "on_off = \"0s\"", "window"),
        ("schema = 1", "schema = 9", "schema"),
    ] {
        assert!(SCENARIO.contains(from), "{from}");
        let error = Scenario::from_toml(&SCENARIO.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

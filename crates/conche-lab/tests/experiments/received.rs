//! Metrics computed by hand.

use std::time::Duration;

use conche_lab::metrics::{Endpoints, Sample, statistic};
use conche_lab::scenario::{Metric, Received, Statistic};
use conche_lab::trial::{Flow, Record, Selection};
use conche_lab::units::Span;
use conche_lab::workload::{Exchange, Tally};
use conche_netsim::{Instant, NodeId};

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn exchange(ended: u64, transmissions: u16, answered: bool) -> Exchange {
    let round_trip = answered.then(|| Duration::from_millis(100 * ended));
    Exchange {
        number: 0,
        due: at(0),
        began: at(0),
        ended: at(ended),
        transmissions,
        unnecessary: 0,
        answered,
        round_trip,
    }
}

fn flow(hops: u16, arrivals: &[u64], exchanges: Vec<Exchange>) -> Flow {
    let empty = Flow::new(NodeId::BROADCAST, NodeId::BROADCAST);
    let arrivals = arrivals.iter().map(|seconds| at(*seconds)).collect();
    let tally = Tally::of(&exchanges);
    Flow { hops, arrivals, exchanges, tally, request_bytes: 85, ..empty }
}

fn record() -> Record {
    let near = flow(1, &[10, 20, 40], vec![exchange(10, 1, true), exchange(20, 3, true), exchange(40, 1, true)]);
    let far = flow(2, &[58, 60], vec![exchange(50, 5, false), exchange(59, 1, true), exchange(61, 0, false)]);
    let unaware = Flow { traffic: 1, has_endpoint: false, ..flow(1, &[5], Vec::new()) };
    Record { flows: vec![near, far, unaware], elapsed: Duration::from_secs(70), ..Record::default() }
}

fn measured(record: &Record, metric: Metric) -> Sample {
    conche_lab::metrics::sample(
        &metric,
        record,
        Selection { scheme: 0, traffic: None },
        Endpoints { max_retransmit: 4, features: None },
    )
}

#[track_caller]
fn assert_is(record: &Record, metric: Metric, expected: f64) {
    let value = statistic::number(Statistic::Mean, &measured(record, metric)).expect("a number");
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}

#[track_caller]
fn assert_received(record: &Record, received: Received, expected: f64) {
    assert_is(record, Metric::Received(received), expected);
}

const WINDOW: Span = Span(Duration::from_secs(30));

#[test]
fn a_part_of_a_run_counts_only_its_own_arrivals_and_exchanges() {
    let minute = record().during(Duration::ZERO, Duration::from_secs(60));
    // Windows: (2, 0) with 4/(2·4) = 0.5 and (1, 1) with 1. The whole: (3, 1) with 16/(2·10).
    assert_received(&minute, Received::Jain { window: Some(WINDOW) }, 0.75);
    assert_received(&minute, Received::Jain { window: None }, 0.8);
    assert_received(&minute, Received::Goodput, 4.0 * 680.0 / 60.0);
    assert_received(&minute, Received::GoodputOfFlow, 2.0 * 680.0 / 60.0);
    assert_received(&minute, Received::Silent { window: WINDOW, hops: None }, 25.0);
    assert_received(&minute, Received::Silent { window: WINDOW, hops: Some(2) }, 50.0);
    assert_eq!(measured(&minute, Metric::Received(Received::GoodputOfEach)), Sample::Each(vec![11_333, 34_000], 1e3));
    // The mean is 2 messages, half of that the farther flow's.
    assert_received(&minute, Received::Starving { share: 0.5 }, 0.0);
    assert_received(&minute, Received::Starving { share: 0.51 }, 1.0);
    // 5 exchanges, 11 transmissions.
    assert_is(&minute, Metric::RetransmissionIndex, 6.0 / 11.0);
    assert_is(&minute, Metric::Loss, 20.0);
    let later = record().during(Duration::from_secs(30), Duration::from_secs(70));
    assert_received(&later, Received::Goodput, 3.0 * 680.0 / 40.0);
    // One whole window, from 30 s to 60 s.
    assert_received(&later, Received::Jain { window: Some(WINDOW) }, 1.0);
}

#[test]
fn goodput_has_a_label_for_each_number_of_hops_or_window() {
    let labelled = |metric| match measured(&record(), metric) {
        Sample::Labelled(numbers) => numbers,
        other => panic!("{other:?}"),
    };
    let by_hops = labelled(Metric::Received(Received::GoodputByHops));
    let expected = [("1", 3.0 * 680.0 / 70.0), ("2", 2.0 * 680.0 / 70.0)];
    assert_eq!(by_hops.len(), 2);
    for ((label, value), (hops, goodput)) in by_hops.iter().zip(expected) {
        assert!(label == hops && (value - goodput).abs() < 1e-9, "{by_hops:?}");
    }
    let over_time = labelled(Metric::Received(Received::GoodputOverTime { window: WINDOW, hops: 1 }));
    let of_message = 680.0 / 30.0;
    assert_eq!(over_time, [("30s".to_owned(), 2.0 * of_message), ("60s".to_owned(), of_message)]);
    assert_eq!(
        measured(&record(), Metric::Received(Received::GoodputOverTime { window: WINDOW, hops: 3 })),
        Sample::None
    );
}

#[test]
fn an_exchange_without_a_copy_repeats_nothing() {
    let given_up = Record { flows: vec![flow(1, &[], vec![exchange(1, 0, false), exchange(2, 2, true)])], ..record() };
    assert_is(&given_up, Metric::RetransmissionIndex, 0.5);
}

#[test]
fn unnecessary_copies_and_those_of_failed_exchanges_are_wasted() {
    let twice = Exchange { unnecessary: 2, ..exchange(10, 4, true) };
    let run = Record { flows: vec![flow(1, &[], vec![twice, exchange(50, 4, false)])], ..record() };
    assert_is(&run, Metric::WastedShare, 75.0);
}

#[test]
fn a_failed_exchange_counts_as_answered_after_its_lifetime() {
    let exchanges = vec![exchange(10, 1, true), exchange(90, 5, false), exchange(300, 5, false)];
    let run = Record { flows: vec![flow(1, &[], exchanges)], ..record() };
    let seconds = |of: &[u64]| Sample::Each(of.iter().map(|seconds| seconds * 1_000_000_000).collect(), 1e9);
    assert_eq!(measured(&run, Metric::DueTime), seconds(&[10]));
    assert_eq!(measured(&run, Metric::DueTimeOfAll), seconds(&[10, 247, 300]));
}

#[test]
fn a_median_is_of_a_run_and_the_larger_of_the_two_in_the_middle() {
    let run = measured(&record(), Metric::RoundTrip);
    let other = Sample::Each(vec![7_000_000_000], 1e9);
    let [median] = &statistic::of(Statistic::Median, &[&run, &other])[..] else { panic!("one value") };
    // Medians of 4 s (of 1, 2, 4 and 5.9 s) and 7 s.
    assert!((median.value - 5.5).abs() < 1e-9 && median.runs == 2, "{median:?}");
}

#[test]
fn labels_missing_in_the_first_run_name_their_first_run() {
    let [one, two] = [vec![("1", 3.0)], vec![("1", 5.0), ("2", 7.0)]].map(|numbers: Vec<(&str, f64)>| {
        Sample::Labelled(numbers.into_iter().map(|(label, number)| (label.to_owned(), number)).collect())
    });
    let measured = statistic::of(Statistic::Mean, &[&one, &two]);
    let seen: Vec<_> = measured.iter().map(|one| (one.label.as_str(), one.value, one.runs, one.first_run)).collect();
    assert_eq!(seen, [("1", 4.0, 2, 0), ("2", 7.0, 1, 1)]);
}

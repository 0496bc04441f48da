//! Verdicts on invented values.

use super::*;
use crate::scenario::{Controllers, Document};
use crate::stats::mean_interval;

fn series(row: &str, column: &str, per_replication: &[f64]) -> Series {
    let (measured, ci95) = mean_interval(per_replication);
    let value = MeasuredValue {
        scenario: "bdp19".to_owned(),
        item: String::new(),
        row: row.to_owned(),
        column: column.to_owned(),
        unit: Unit::Ratio,
        published: None,
        measured,
        ci95,
        runs: u32::try_from(per_replication.len()).expect("few"),
        position: Position::default(),
    };
    Series { value, per_replication: per_replication.to_vec(), compared: None }
}

/// Returns name, value and verdict of each judged claim.
fn judged(values: &[Series]) -> Vec<(String, f64, Verdict)> {
    let document = Document::from_toml(crate::papers::BDP19.scenario).expect("valid");
    let claims = judge_all(document.scenario(), values);
    claims.chunks(2).map(|pair| (pair[0].row.clone(), pair[0].measured, Verdict::of(pair[1].measured))).collect()
}

const HOLDS: Verdict = Verdict::Holds;
const INCONCLUSIVE: Verdict = Verdict::Inconclusive;
const REFUTED: Verdict = Verdict::Refuted;

fn silent(other: &[f64], bdp: &[f64]) -> Vec<(String, f64, Verdict)> {
    let values = [series("default/udgm/mixed", "silent", other), series("bdp-literal/udgm/mixed", "silent", bdp)];
    judged(&values)
}

#[test]
fn values_are_apart_if_the_interval_of_their_difference_is_above_0() {
    let row = || "silent_default_above_bdp-literal/udgm/mixed".to_owned();
    assert_eq!(silent(&[30.0, 30.0], &[20.0, 20.0]), [(row(), 1.5, HOLDS)]);
    assert_eq!(silent(&[10.0, 50.0], &[5.0, 35.0])[0].2, INCONCLUSIVE, "differences of 5 and 15");
    assert_eq!(silent(&[10.0, 50.0], &[5.0, 44.9])[0].2, HOLDS, "5 and 5.1, whatever the replications are");
    assert_eq!(silent(&[20.0, 20.0], &[30.0, 30.0])[0].2, REFUTED, "they are apart, the other way round");
    assert_eq!(silent(&[30.0, 30.0], &[0.0, 0.0]), [(row(), 0.0, HOLDS)], "nothing has no ratio to it");
    assert_eq!(silent(&[30.0], &[20.0]), [(row(), 1.5, INCONCLUSIVE)], "one replication proves nothing");
}

#[test]
fn spreads_of_few_replications_are_inconclusive_until_they_differ_much() {
    let row = |scheme: &str| format!("{scheme}/udgm/static/saturated");
    let spread = |cocoa: f64| {
        let values = |factor: f64| [-2.0, -1.0, 0.0, 1.0, 2.0].map(|deviation| 1000.0 + factor * deviation);
        let all = judged(&[
            series(&row("default"), "goodput", &values(1.0)),
            series(&row("cocoa-plus"), "goodput", &values(cocoa)),
        ]);
        all.into_iter().find(|(row, ..)| row.starts_with("goodput_cocoa-plus_more_spread_than_default")).expect("made")
    };
    assert_eq!((spread(2.0).1, spread(2.0).2), (2.0, INCONCLUSIVE));
    assert_eq!((spread(4.0).1, spread(4.0).2), (4.0, HOLDS));
    assert_eq!(spread(0.25).2, REFUTED);
}

#[test]
fn claims_come_in_the_order_of_their_labels() {
    let mut values = Vec::new();
    for medium in ["sinr", "udgm"] {
        for column in ["loss", "jain_short"] {
            values.push(series(&format!("default/{medium}/static/saturated"), column, &[0.5, 0.5]));
            values.push(series(&format!("cocoa-plus/{medium}/static/saturated"), column, &[0.4, 0.4]));
        }
    }
    let rows: Vec<String> = judged(&values).into_iter().map(|(row, ..)| row).collect();
    let expected = [
        "jain_short_default_above_cocoa-plus/udgm/static/saturated",
        "loss_default_above_cocoa-plus/udgm/static/saturated",
        "jain_short_default_above_cocoa-plus/sinr/static/saturated",
        "loss_default_above_cocoa-plus/sinr/static/saturated",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn explained_variation_is_one_for_proportional_and_zero_for_falling_data() {
    let close = |share: Option<f64>, expected: f64| (share.expect("it varies") - expected).abs() < 1e-9;
    assert!(close(explained(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), 1.0));
    assert!(close(explained(&[1.0, 2.0, 3.0], &[-2.0, -4.0, -6.0]), 0.0));
    // The line has slope 15/7 and misses by 6/7, -9/7 and 4/7; the mean is 13/3, the variation
    // 32/3.
    assert!(close(explained(&[1.0, 2.0, 3.0], &[3.0, 3.0, 7.0]), 1.0 - (36.0 + 81.0 + 16.0) / 49.0 / (32.0 / 3.0)));
    assert_eq!(explained(&[1.0], &[2.0]), None);
}

fn of_commag16(values: &[(&str, &str, [f64; 2])]) -> Vec<MeasuredValue> {
    let document = Document::read(crate::papers::COMMAG16.scenario, &crate::papers::paper_file, &Controllers::new())
        .expect("valid");
    let values: Vec<_> =
        values.iter().map(|(row, column, per_replication)| series(row, column, per_replication)).collect();
    judge_all(document.scenario(), &values)
}

#[test]
fn a_difference_of_means_has_the_interval_of_the_single_runs() {
    let values = [("b-rto", [2.0, 11.0]), ("default", [3.0, 14.0])];
    let rows = values.map(|(scheme, per_replication)| (format!("{scheme}/gprs/10"), per_replication));
    let [one, other] = &rows;
    let claims = of_commag16(&[(&one.0, "throughput_per_s", one.1), (&other.0, "throughput_per_s", other.1)]);
    let [difference, verdict] = &claims[..] else { panic!("{claims:?}") };
    assert_eq!(difference.row, "less_throughput_than_default/b-rto/gprs/10");
    // -1 and -3.
    let interval = difference.ci95.expect("two replications");
    assert!((difference.measured + 2.0).abs() < 1e-9 && (interval.high - interval.low) / 2.0 < 13.0, "{interval:?}");
    assert_eq!(
        (Verdict::of(verdict.measured), verdict.ci95),
        (INCONCLUSIVE, None),
        "two replications of differences -1 and -3"
    );
}

#[test]
fn one_row_is_compared_with_the_least_or_the_most_of_several() {
    let burst = |cocoa: f64| -> Vec<MeasuredValue> {
        let schemes =
            [("default", 9.0), ("cocoa-s", 6.0), ("b-rto", 8.0), ("linux", 7.0), ("ph", 6.5), ("cocoa", cocoa)];
        let rows = schemes.map(|(scheme, value)| (format!("{scheme}/gprs-burst/20"), value));
        let values: Vec<_> = rows.iter().map(|(row, value)| (row.as_str(), "settling_time_s", [*value; 2])).collect();
        of_commag16(&values)
    };
    let [ratio, verdict] = &burst(5.0)[..] else { panic!("one claim") };
    assert!(
        (ratio.measured - 1.2).abs() < 1e-9 && Verdict::of(verdict.measured) == HOLDS,
        "the next is CoCoA-S: {ratio:?}"
    );
    assert!(Verdict::of(burst(6.5)[1].measured) == REFUTED, "not the fastest");
    assert!(of_commag16(&[("cocoa/gprs-burst/20", "settling_time_s", [5.0; 2])]).is_empty(), "the others are missing");
}

#[test]
fn a_claim_holds_with_all_of_its_interval_and_is_refuted_with_none() {
    let document =
        Document::read(crate::papers::ETFA14.scenario, &crate::papers::paper_file, &Controllers::new()).expect("valid");
    let above_1 = document.scenario().claims.iter().find(|claim| claim.above.is_some()).expect("an ordering").clone();
    let within = Claim { above: None, range: Some((1.0, 2.0)), ..above_1.clone() };
    for (claim, low, high, expected) in [
        (&above_1, 1.1, 1.2, Verdict::Holds),
        (&above_1, 1.0, 1.2, Verdict::Inconclusive),
        (&above_1, 0.9, 1.0, Verdict::Refuted),
        (&within, 1.0, 2.0, Verdict::Holds),
        (&within, 0.9, 2.1, Verdict::Inconclusive),
        (&within, 2.1, 3.0, Verdict::Refuted),
    ] {
        assert_eq!(verdict(claim, Some(Interval { low, high })), expected, "{low} to {high}");
    }
    assert_eq!(verdict(&within, None), Verdict::Inconclusive);
}

#[test]
fn spreads_are_of_all_rows_that_are_there_and_of_one_there_is_none() {
    let document = Document::read(crate::papers::WIOPT12.scenario, &crate::papers::paper_file, &Controllers::new())
        .expect("valid");
    let values = [
        ("static/1/1", [10.0, 10.1]),
        ("static/2/1", [10.0, 30.0]),
        ("static/1/4", [5.0, 5.0]),
        ("static/1/8", [-7.0, -7.0]),
        ("static/1/3", [90.0, 90.0]),
        ("static/5/8", [90.0, 90.0]),
    ];
    let series: Vec<_> = values.iter().map(|(row, per_replication)| series(row, "beb_gain", per_replication)).collect();
    let claims = judge_all(document.scenario(), &series);
    let judged: Vec<_> =
        claims.chunks(2).map(|pair| (pair[0].row.as_str(), pair[0].measured, Verdict::of(pair[1].measured))).collect();
    let expected = [
        ("beb_gain_clear_at_small_windows/1/1", 10.05, HOLDS),
        ("beb_gain_erratic_at_large_windows/1", 12.0, HOLDS),
        ("beb_gain_clear_at_small_windows/2/1", 20.0, INCONCLUSIVE),
    ];
    assert_eq!(judged, expected);
}

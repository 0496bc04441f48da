//! What claims make of values: those of BDP'19, with values that are made up.

use super::*;
use crate::results::{Row, Unit};
use crate::scenario::Document;

/// The mean of two replications; so few that the interval is 13 times as wide as they differ.
fn figure(row: &str, column: &str, values: [f64; 2]) -> Figure {
    Row { paper: "bdp19", item: "", row }.mean(column, Unit::Ratio, &values, None)
}

/// The claims of the paper that these values allow: name, value, verdict.
fn judged(values: &[Figure]) -> Vec<(String, f64, bool)> {
    let document = Document::from_toml(crate::papers::BDP19.scenario).expect("valid");
    let series = |figure: &Figure| Series { figure: figure.clone(), of_runs: Vec::new() };
    let claims = figures(document.scenario(), &values.iter().map(series).collect::<Vec<_>>());
    claims.chunks(2).map(|pair| (pair[0].row.clone(), pair[0].measured, pair[1].measured > 0.5)).collect()
}

fn silent(other: [f64; 2], bdp: [f64; 2]) -> [Figure; 2] {
    [figure("default/udgm/mixed", "silent", other), figure("bdp-literal/udgm/mixed", "silent", bdp)]
}

#[test]
fn values_are_apart_if_their_intervals_do_not_overlap() {
    let row = "silent_default_above_bdp-literal/udgm/mixed".to_owned();
    assert_eq!(judged(&silent([30.0, 30.0], [20.0, 20.0])), [(row.clone(), 1.5, true)]);
    assert_eq!(judged(&silent([29.0, 31.0], [19.0, 21.0])), [(row.clone(), 1.5, false)], "they overlap");
    assert!(!judged(&silent([20.0, 20.0], [30.0, 30.0]))[0].2, "they are apart, the other way round");
    assert_eq!(judged(&silent([30.0, 30.0], [0.0, 0.0])), [(row, 0.0, true)], "nothing has no ratio to it");
}

#[test]
fn widths_are_of_intervals() {
    let row = |scheme: &str| format!("{scheme}/udgm/static/680");
    let mut values = vec![figure(&row("default"), "goodput_mote", [100.0, 100.0])];
    values.push(figure(&row("default"), "goodput", [1000.0, 1010.0]));
    values.push(figure(&row("cocoa-plus"), "goodput", [1000.0, 1025.0]));
    let claims = judged(&values);
    let [(name, ratio, holds)] = &claims[..] else { panic!("{claims:?}") };
    assert_eq!(name, "goodput_cocoa-plus_more_spread_than_default/udgm/static/680");
    assert!((ratio - 2.5).abs() < 1e-9 && *holds, "{ratio}");
}

#[test]
fn a_claim_is_made_where_its_condition_holds_and_in_the_order_of_labels() {
    let mut values = Vec::new();
    for (medium, rate, goodput) in
        [("sinr", "170", 100.0), ("udgm", "680", 200.0), ("udgm", "170", 100.0), ("mrm31", "170", 168.0)]
    {
        values.push(figure(&format!("default/{medium}/static/{rate}"), "goodput_mote", [goodput; 2]));
        for column in ["jain_short", "loss"] {
            values.push(figure(&format!("default/{medium}/static/{rate}"), column, [0.5, 0.5]));
            values.push(figure(&format!("cocoa-plus/{medium}/static/{rate}"), column, [0.4, 0.4]));
        }
    }
    values.extend(silent([30.0, 30.0], [20.0, 20.0]));
    let rows: Vec<String> = judged(&values).into_iter().map(|(row, ..)| row).collect();
    let expected = [
        "jain_short_default_above_cocoa-plus/udgm/static/170",
        "loss_default_above_cocoa-plus/udgm/static/170",
        "jain_short_default_above_cocoa-plus/udgm/static/680",
        "loss_default_above_cocoa-plus/udgm/static/680",
        "silent_default_above_bdp-literal/udgm/mixed",
        "jain_short_default_above_cocoa-plus/sinr/static/170",
        "loss_default_above_cocoa-plus/sinr/static/170",
    ];
    assert_eq!(rows, expected, "168 bit/s are as good as 170");
}

/// The claims of ComMag'16 that rest on these values.
fn of_commag16(values: &[(&str, &str, [f64; 2])]) -> Vec<Figure> {
    let document = Document::read(crate::papers::COMMAG16.scenario, crate::papers::paper_file).expect("valid");
    let series = |(row, column, of_runs): &(&str, &str, [f64; 2])| Series {
        figure: figure(row, column, *of_runs),
        of_runs: of_runs.to_vec(),
    };
    figures(document.scenario(), &values.iter().map(series).collect::<Vec<_>>())
}

#[test]
fn a_difference_of_means_has_the_interval_of_the_single_runs() {
    let values = [("b-rto", [2.0, 11.0]), ("default", [3.0, 14.0])];
    let rows = values.map(|(scheme, of_runs)| (format!("{scheme}/gprs/10"), of_runs));
    let [one, other] = &rows;
    let claims = of_commag16(&[(&one.0, "throughput_per_s", one.1), (&other.0, "throughput_per_s", other.1)]);
    let [difference, verdict] = &claims[..] else { panic!("{claims:?}") };
    assert_eq!(difference.row, "less_throughput_than_default/b-rto/gprs/10");
    // -1 and -3: the runs differ by much more than the schemes do.
    let interval = difference.ci95.expect("two replications");
    assert!((difference.measured + 2.0).abs() < 1e-9 && (interval.high - interval.low) / 2.0 < 13.0, "{interval:?}");
    assert!(verdict.measured > 0.5 && verdict.ci95.is_none());
}

#[test]
fn one_row_is_compared_with_the_least_or_the_most_of_several() {
    let burst = |cocoa: f64| -> Vec<Figure> {
        let schemes =
            [("default", 9.0), ("cocoa-s", 6.0), ("b-rto", 8.0), ("linux", 7.0), ("ph", 6.5), ("cocoa", cocoa)];
        let rows = schemes.map(|(scheme, value)| (format!("{scheme}/gprs-burst/20"), value));
        let values: Vec<_> = rows.iter().map(|(row, value)| (row.as_str(), "settling_time_s", [*value; 2])).collect();
        of_commag16(&values)
    };
    let [ratio, verdict] = &burst(5.0)[..] else { panic!("one claim") };
    assert!((ratio.measured - 1.2).abs() < 1e-9 && verdict.measured > 0.5, "the next is CoCoA-S: {ratio:?}");
    assert!(burst(6.5)[1].measured < 0.5, "not the fastest");
    assert!(of_commag16(&[("cocoa/gprs-burst/20", "settling_time_s", [5.0; 2])]).is_empty(), "the others are missing");
}

#[test]
fn what_lies_at_a_bound_that_is_excluded_does_not_hold() {
    let document = Document::read(crate::papers::ETFA14.scenario, crate::papers::paper_file).expect("valid");
    let claim = document.scenario().claims.iter().find(|claim| claim.above.is_some()).expect("an ordering");
    assert_eq!([0.9, 1.0, 1.1].map(|ratio| claim.holds(ratio)), [false, false, true]);
}

#[test]
fn a_line_crosses_the_intervals_of_what_lies_on_it() {
    let share = |points: &[(f64, f64)]| {
        // Intervals of ±1.27: t(1; .975) = 12.7 times a standard error of 0.1.
        let figures: Vec<_> = points.iter().map(|(x, y)| (*x, figure("", "", [y - 0.1, y + 0.1]))).collect();
        share_on_a_line(&figures.iter().map(|(x, figure)| (*x, figure)).collect::<Vec<_>>())
    };
    assert_eq!(share(&[(1.0, 3.0), (2.0, 6.5), (3.0, 8.8)]), Some(1.0));
    // Of a constant of 5 the nearest line has a slope of 15/7, and is near enough at 2 only.
    assert_eq!(share(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)]), Some(1.0 / 3.0));
    assert_eq!(share(&[(1.0, -3.0), (2.0, -6.0)]), Some(0.0), "it falls");
    assert_eq!(share(&[]), None);
}

#[test]
fn intervals_above_0_are_clear_and_spreads_are_of_rows_that_match() {
    let document = Document::read(crate::papers::WIOPT12.scenario, crate::papers::paper_file).expect("valid");
    let values = [
        ("static/1/1", [10.0, 10.1]),
        ("static/2/1", [10.0, 30.0]),
        ("static/1/4", [5.0, 5.0]),
        ("static/5/8", [-7.0, -7.0]),
        ("static/5/3", [90.0, 90.0]),
    ];
    let series =
        |(row, values): &(&str, [f64; 2])| Series { figure: figure(row, "beb_gain", *values), of_runs: vec![] };
    let figures = figures(document.scenario(), &values.iter().map(series).collect::<Vec<_>>());
    let judged: Vec<_> =
        figures.chunks(2).map(|pair| (pair[0].row.as_str(), pair[0].measured, pair[1].measured > 0.5)).collect();
    let expected = [
        ("beb_gain_clear_at_small_windows/1/1", 10.05, true),
        ("beb_gain_clear_at_small_windows/2/1", 20.0, false),
        ("beb_gain_erratic_at_large_windows", 12.0, true),
    ];
    assert_eq!(judged, expected);
}

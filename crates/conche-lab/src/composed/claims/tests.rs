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
    let claims = figures(document.scenario(), values);
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

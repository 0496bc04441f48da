//! Comparisons computed by hand.

use conche_lab::comparison::{CellComparison, Entry, ranking, rows};
use conche_lab::scenario::{Better, Unit};
use conche_results::comparison::{Compared, InCell, Row, Standing, Tally};

/// Builds a cell from values per replication.
fn cell_of(scenario: &str, name: &str, unit: Unit, better: Better, of: &[(&str, Option<&[f64]>)]) -> CellComparison {
    let entry = |(controller, runs): &(&str, Option<&[f64]>)| {
        let runs = runs.unwrap_or_default();
        let value = (!runs.is_empty()).then(|| runs.iter().sum::<f64>() / runs.len() as f64);
        Entry { controller: (*controller).to_owned(), value, per_replication: runs.to_vec() }
    };
    let (scenario, name, column) = (scenario.to_owned(), name.to_owned(), "m".to_owned());
    CellComparison { scenario, name, column, unit, better, entries: of.iter().map(entry).collect() }
}

fn cell(name: &str, better: Better, of: &[(&str, Option<&[f64]>)]) -> CellComparison {
    cell_of("p", name, Unit::Seconds, better, of)
}

fn in_cell<'a>(rows: &'a [Row], cell: &str, controller: &str) -> &'a InCell {
    let mut cells = rows.iter().filter_map(|row| if let Compared::Cell(cell) = &row.of { Some(cell) } else { None });
    cells.find(|of| of.cell == cell && of.controller == controller).expect("it is compared")
}

fn standings(rows: &[Row]) -> Vec<&Standing> {
    rows.iter().filter_map(|row| if let Compared::Controller(of) = &row.of { Some(of) } else { None }).collect()
}

fn of<'a>(rows: &'a [Row], controller: &str) -> &'a Standing {
    standings(rows).into_iter().find(|of| of.controller == controller).expect("it is there")
}

#[track_caller]
fn assert_is(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-5), "{found:?} instead of {expected}");
}

#[test]
fn the_best_has_1_whichever_values_are_better() {
    let of: &[(&str, Option<&[f64]>)] = &[("a", Some(&[2.0, 2.0])), ("b", Some(&[4.0, 4.0]))];
    let rows = rows(&[cell("low", Better::Lower, of), cell("high", Better::Higher, of)], None);
    let ratio = |cell, controller| in_cell(&rows, cell, controller).ratio;
    assert_eq!([ratio("low", "a"), ratio("low", "b")], [Some(1.0), Some(2.0)]);
    assert_eq!([ratio("high", "a"), ratio("high", "b")], [Some(2.0), Some(1.0)]);
}

#[test]
fn common_variation_of_a_replication_does_not_widen_the_interval() {
    // Both take three times as long in the third replication as in the first.
    let of: &[(&str, Option<&[f64]>)] = &[("a", Some(&[1.0, 2.0, 3.0])), ("b", Some(&[2.0, 4.0, 6.0]))];
    let rows = rows(&[cell("c", Better::Lower, of)], None);
    assert_eq!(in_cell(&rows, "c", "b").ci95, Some([2.0, 2.0]));
    assert!(in_cell(&rows, "c", "b").apart);
}

#[test]
fn a_ratio_is_apart_only_if_all_of_its_interval_is_beyond_1() {
    // Against 2: mean 3, s = 1, t(2; .975) = 4.3027, over √3 and 2.
    let of: &[(&str, Option<&[f64]>)] = &[("a", Some(&[2.0, 2.0, 2.0])), ("b", Some(&[2.0, 3.0, 4.0]))];
    let rows = rows(&[cell("c", Better::Lower, of)], Some("a"));
    let b = in_cell(&rows, "c", "b");
    let [low, high] = b.ci95.expect("three replications");
    assert_is(Some(low), 1.5 - 1.242_069);
    assert_is(Some(high), 1.5 + 1.242_069);
    assert!(!b.apart);
    assert_eq!(self::of(&rows, "b").all.regret, Some(1.0));
    assert_is(self::of(&rows, "b").all.mean, 1.5);
}

#[test]
fn regret_is_the_worst_ratio_that_is_apart_and_means_are_geometric() {
    let rows = rows(
        &[
            cell("one", Better::Lower, &[("a", Some(&[1.0, 1.0])), ("b", Some(&[2.0, 2.0]))]),
            cell("two", Better::Lower, &[("a", Some(&[8.0, 8.0])), ("b", Some(&[1.0, 1.0]))]),
            cell("noisy", Better::Lower, &[("a", Some(&[1.0, 1.0])), ("b", Some(&[1.0, 199.0]))]),
        ],
        None,
    );
    let (a, b) = (&of(&rows, "a").all, &of(&rows, "b").all);
    assert_eq!((a.regret, a.behind, a.cells), (Some(8.0), 1, 3));
    assert_eq!((b.regret, b.behind), (Some(2.0), 1), "100 in the mean, but not apart");
    assert_is(a.mean, 2.0);
    assert_is(b.mean, 200_f64.cbrt());
    let worst = |of: &Tally| of.regret_in.as_ref().map(|worst| worst.cell.clone());
    assert_eq!([worst(a), worst(b)], [Some("two".to_owned()), Some("one".to_owned())]);
    assert_eq!(standings(&rows)[0].controller, "a", "of few replications, the least mean is first");
    let table = ranking(&rows);
    assert_eq!(table.rows[0].last().map(String::as_str), Some("two m"));
    assert!(
        table.notes[1].contains("with 2 replications, many intervals include 1")
            && table.notes[1].contains("by the mean")
    );
}

#[test]
fn many_replications_rank_by_regret() {
    let runs = |value: f64| [value; 10];
    let (one, two, three, eight) = (runs(1.0), runs(2.0), runs(3.0), runs(8.0));
    let rows = rows(
        &[
            cell("one", Better::Lower, &[("a", Some(&one)), ("b", Some(&three))]),
            cell("two", Better::Lower, &[("a", Some(&one)), ("b", Some(&three))]),
            cell("three", Better::Lower, &[("a", Some(&eight)), ("b", Some(&two))]),
        ],
        None,
    );
    let (a, b) = (&of(&rows, "a").all, &of(&rows, "b").all);
    assert_eq!([a.regret, b.regret], [Some(4.0), Some(3.0)]);
    assert!(a.mean < b.mean);
    assert_eq!(standings(&rows)[0].controller, "b");
    assert_eq!(ranking(&rows).notes.len(), 1);
}

#[test]
fn a_single_replication_gives_means_but_no_intervals_or_regret() {
    let rows = rows(&[cell("c", Better::Lower, &[("a", Some(&[1.0])), ("b", Some(&[3.0]))])], None);
    let b = &of(&rows, "b").all;
    assert_eq!((b.regret, b.ci95, b.behind), (None, None, 0));
    assert_is(b.mean, 3.0);
    assert_eq!(standings(&rows)[0].controller, "a");
    assert!(ranking(&rows).notes[1].contains("1 replication,"));
}

#[test]
fn values_below_the_floor_count_as_the_floor_on_both_sides() {
    let losses = |of| cell_of("p", "c", Unit::Percent, Better::Lower, of);
    let rows =
        rows(&[losses(&[("none", Some(&[0.0, 0.0])), ("few", Some(&[0.5, 0.5])), ("many", Some(&[5.0, 5.0]))])], None);
    let ratio = |controller| in_cell(&rows, "c", controller).ratio;
    assert_eq!([ratio("none"), ratio("few"), ratio("many")], [Some(1.0), Some(1.0), Some(5.0)]);
    let nothing = cell("c", Better::Higher, &[("a", Some(&[0.0, 0.0])), ("b", Some(&[0.0, 0.0]))]);
    let of_nothing = self::rows(&[nothing], None);
    assert_eq!(in_cell(&of_nothing, "c", "a").ratio, Some(1.0), "nobody has anything, and nobody is behind");
}

#[test]
fn a_controller_without_a_value_is_last_and_takes_no_cell_from_the_others() {
    let cells = [
        cell("one", Better::Lower, &[("a", Some(&[9.0, 9.0])), ("gap", Some(&[3.0, 3.0])), ("b", Some(&[1.0, 1.0]))]),
        cell("two", Better::Lower, &[("a", Some(&[1.0, 1.0])), ("gap", None), ("b", Some(&[4.0, 4.0]))]),
    ];
    let rows = rows(&cells, None);
    let names: Vec<&str> = standings(&rows).iter().map(|of| of.controller.as_str()).collect();
    assert_eq!(names, ["b", "a", "gap"]);
    let gap = &of(&rows, "gap").all;
    assert_eq!((gap.missing, gap.cells, gap.mean, gap.regret), (1, 2, None, Some(3.0)));
    assert_is(of(&rows, "a").all.mean, 3.0);
    let table = ranking(&rows);
    assert_eq!(table.rows[2][1..3], ["fails in 1 cell".to_owned(), "–".to_owned()]);
    assert!(table.notes.iter().any(|note| note == "gap: no value in 1 of 2 cells, p/two m"), "{:?}", table.notes);
}

#[test]
fn ratios_to_a_baseline_are_below_1_where_a_controller_is_ahead() {
    let cells = [
        cell("one", Better::Lower, &[("base", Some(&[2.0, 2.0])), ("a", Some(&[1.0, 1.0]))]),
        cell("two", Better::Higher, &[("base", Some(&[2.0, 2.0])), ("a", Some(&[1.0, 1.0]))]),
        cell("without", Better::Lower, &[("base", None), ("a", Some(&[1.0, 1.0]))]),
    ];
    let rows = rows(&cells, Some("base"));
    let a = &of(&rows, "a").all;
    assert_eq!((a.cells, a.behind, a.ahead, a.regret), (2, 1, 1, Some(2.0)), "what the baseline lacks is not compared");
    assert_eq!([in_cell(&rows, "one", "a").ratio, in_cell(&rows, "two", "a").ratio], [Some(0.5), Some(2.0)]);
    assert_eq!(of(&rows, "base").all.mean, Some(1.0));
    assert!(ranking(&rows).header.contains(&"ahead".to_owned()));
}

#[test]
fn the_interval_of_a_mean_leaves_out_a_replication_of_all_cells_at_once() {
    // b is worse and better by the same factor: the mean is constant.
    let cells = [
        cell("one", Better::Lower, &[("a", Some(&[1.0, 1.0, 1.0])), ("b", Some(&[2.0, 4.0, 8.0]))]),
        cell("two", Better::Lower, &[("a", Some(&[2.0, 4.0, 8.0])), ("b", Some(&[1.0, 1.0, 1.0]))]),
    ];
    let rows = rows(&cells, Some("a"));
    let b = &of(&rows, "b").all;
    assert_is(b.mean, 1.0);
    let [low, high] = b.ci95.expect("three replications");
    assert!(high - low < 1e-5, "{low} … {high}");
}

#[test]
fn papers_are_kept_apart_and_their_intervals_combine_by_squares() {
    let of_scenario = |scenario| {
        cell_of(
            scenario,
            "c",
            Unit::Seconds,
            Better::Lower,
            &[("a", Some(&[1.0, 1.0, 1.0])), ("b", Some(&[1.0, 2.0, 3.0]))],
        )
    };
    let rows = rows(&[of_scenario("p"), of_scenario("q")], Some("a"));
    let b = of(&rows, "b");
    let reach = |of: &Tally| of.ci95.map(|[low, high]| (high / low).ln() / 2.0).expect("an interval");
    assert_eq!(b.scenarios.len(), 2);
    assert_is(Some(reach(&b.all)), reach(&b.scenarios[0].of) / 2_f64.sqrt());
}

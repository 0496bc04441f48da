//! Comparisons computed by hand.

use conche_lab::comparison::{CellComparison, Entry, rankings, rows};
use conche_lab::scenario::{Better, Purpose, Unit};
use conche_lab::table::Table;
use conche_results::comparison::{Compared, InCell, Row, Standing, Tally};

/// Builds a cell from values per replication.
fn cell_of(scenario: &str, name: &str, unit: Unit, better: Better, of: &[(&str, Option<&[f64]>)]) -> CellComparison {
    let entry = |(controller, runs): &(&str, Option<&[f64]>)| {
        let runs = runs.unwrap_or_default();
        let value = (!runs.is_empty()).then(|| runs.iter().sum::<f64>() / runs.len() as f64);
        Entry { controller: (*controller).to_owned(), value, per_replication: runs.to_vec() }
    };
    let (scenario, name, column) = (scenario.to_owned(), name.to_owned(), "m".to_owned());
    let (purpose, is_unnecessary) = (None, false);
    let entries = of.iter().map(entry).collect();
    CellComparison { scenario, name, column, purpose, unit, better, is_unnecessary, entries }
}

fn ranking(rows: &[Row]) -> Table {
    let tables = rankings(rows);
    <[Table; 1]>::try_from(tables).map(|[one]| one).expect("scenarios without a purpose have one ranking")
}

/// Returns a row of a ranking by controller, as text by column.
fn shown<'a>(table: &'a Table, controller: &str, column: &str) -> &'a str {
    let place =
        table.header.iter().position(|name| name == column).unwrap_or_else(|| panic!("{column}: {:?}", table.header));
    let row = table.rows.iter().find(|row| row[0] == controller).expect("it is ranked");
    &row[place]
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
    assert_eq!(shown(&table, "a", "regret in"), "two m");
    let few = table.notes.last().expect("a note");
    assert!(few.contains("with 2 replications, many intervals include 1") && few.contains("by the mean"));
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
    assert!(!ranking(&rows).notes.iter().any(|note| note.contains("by the mean")));
}

#[test]
fn a_single_replication_gives_means_but_no_intervals_or_regret() {
    let rows = rows(&[cell("c", Better::Lower, &[("a", Some(&[1.0])), ("b", Some(&[3.0]))])], None);
    let b = &of(&rows, "b").all;
    assert_eq!((b.regret, b.ci95, b.behind), (None, None, 0));
    assert_is(b.mean, 3.0);
    assert_eq!(standings(&rows)[0].controller, "a");
    assert!(ranking(&rows).notes.iter().any(|note| note.contains("1 replication,")));
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

/// The metrics of one row: a column for each cell.
fn point(cells: &[CellComparison]) -> Vec<CellComparison> {
    let named =
        cells.iter().zip(1..).map(|(cell, number)| CellComparison { column: format!("m{number}"), ..cell.clone() });
    named.collect()
}

/// Returns the number of points and, for each point, the controllers that dominate this one.
fn dominated(rows: &[Row], controller: &str) -> (usize, Vec<(String, Vec<String>)>) {
    let of = of(rows, controller);
    (of.points, of.dominated.iter().map(|point| (point.cell.clone(), point.by.clone())).collect())
}

#[test]
fn a_controller_is_dominated_where_another_is_better_in_every_metric() {
    let times =
        cell("one", Better::Lower, &[("a", Some(&[1.0, 1.1])), ("b", Some(&[2.0, 2.2])), ("c", Some(&[3.0, 3.3]))]);
    let rates =
        cell("one", Better::Higher, &[("a", Some(&[9.0, 9.1])), ("b", Some(&[8.0, 8.1])), ("c", Some(&[8.5, 8.6]))]);
    let rows = rows(&point(&[times, rates]), None);
    assert_eq!(dominated(&rows, "a"), (1, Vec::new()));
    assert_eq!(
        dominated(&rows, "b"),
        (1, vec![("one".to_owned(), vec!["a".to_owned()])]),
        "c is better in one metric only"
    );
    assert_eq!(dominated(&rows, "c"), (1, vec![("one".to_owned(), vec!["a".to_owned()])]));
    assert_eq!((shown(&ranking(&rows), "b", "dominated"), shown(&ranking(&rows), "b", "most by")), ("1 of 1", "a (1)"));
}

#[test]
fn a_tie_less_than_2_percent_or_an_interval_with_1_prevents_dominance() {
    let better = cell("c", Better::Lower, &[("a", Some(&[1.0, 1.0, 1.0])), ("b", Some(&[2.0, 2.0, 2.0]))]);
    for (other, reason) in [
        ([1.0, 1.0, 1.0], "a tie"),
        ([1.019, 1.019, 1.019], "1.9 %"),
        ([1.0, 1.0, 4.0], "twice as much, but not apart"),
    ] {
        let second = cell("c", Better::Lower, &[("a", Some(&[1.0, 1.0, 1.0])), ("b", Some(&other))]);
        let rows = rows(&point(&[better.clone(), second]), None);
        assert_eq!(dominated(&rows, "b"), (1, Vec::new()), "{reason}");
    }
    let second = cell("c", Better::Lower, &[("a", Some(&[1.0, 1.0, 1.0])), ("b", Some(&[1.02, 1.021, 1.022]))]);
    assert_eq!(dominated(&rows(&point(&[better, second]), None), "b").1.len(), 1);
}

#[test]
fn metrics_at_the_floor_of_both_do_not_prevent_dominance() {
    let losses =
        |b: f64| cell_of("p", "c", Unit::Percent, Better::Lower, &[("a", Some(&[0.0, 0.0])), ("b", Some(&[b, b]))]);
    let times = cell("c", Better::Lower, &[("a", Some(&[1.0, 1.0])), ("b", Some(&[2.0, 2.0]))]);
    assert_eq!(dominated(&rows(&point(&[losses(0.9), times.clone()]), None), "b").1.len(), 1, "below 1 %");
    assert_eq!(
        dominated(&rows(&point(&[losses(1.01), times]), None), "b").1.len(),
        0,
        "1.01 % is not 2 % worse than 1 %"
    );
    assert_eq!(dominated(&rows(&point(&[losses(0.5)]), None), "b").1.len(), 0, "no metric decides");
}

#[test]
fn missing_values_and_single_replications_dominate_nothing() {
    let times = |of: &[(&str, Option<&[f64]>)]| cell("c", Better::Lower, of);
    let full = times(&[("a", Some(&[1.0, 1.0])), ("b", Some(&[2.0, 2.0]))]);
    let gap = times(&[("a", Some(&[1.0, 1.0])), ("b", None)]);
    for cells in [[full.clone(), gap.clone()], [gap, full.clone()]] {
        let rows = rows(&point(&cells), None);
        assert_eq!([dominated(&rows, "a"), dominated(&rows, "b")], [(1, Vec::new()), (1, Vec::new())]);
    }
    let once = times(&[("a", Some(&[1.0])), ("b", Some(&[2.0]))]);
    assert_eq!(dominated(&rows(&point(&[once.clone(), once]), None), "b").1.len(), 0);
    assert_eq!(dominated(&rows(&[full], None), "b").1.len(), 1, "one metric is enough");
}

#[test]
fn rows_of_two_scenarios_are_two_points_and_a_baseline_changes_none() {
    let of = |scenario| {
        cell_of(scenario, "c", Unit::Seconds, Better::Lower, &[("a", Some(&[1.0, 1.0])), ("b", Some(&[2.0, 2.0]))])
    };
    for baseline in [None, Some("a"), Some("b")] {
        assert_eq!(dominated(&rows(&[of("p"), of("q")], baseline), "b").0, 2);
        assert_eq!(dominated(&rows(&[of("p"), of("q")], baseline), "b").1.len(), 2);
    }
}

#[test]
fn the_default_has_columns_of_its_own() {
    let times =
        |name, default: &[f64], a: &[f64]| cell(name, Better::Lower, &[("default", Some(default)), ("a", Some(a))]);
    let cells = [times("one", &[2.0, 2.0], &[1.0, 1.0]), times("two", &[2.0, 2.0], &[3.0, 3.0])];
    let table = ranking(&rows(&cells, None));
    let line =
        |controller| ["by default", "to default", "to default in"].map(|column| shown(&table, controller, column));
    assert_eq!(line("a"), ["1", "1.50", "two m"]);
    assert_eq!(line("default"), ["0", "1.00", ""]);
    let a = rows(&cells, None);
    let to_default = of(&a, "a").to_default.clone().expect("the default is compared");
    assert_is(to_default.mean, (0.5_f64 * 1.5).sqrt());
    let table = ranking(&rows(&cells, Some("default")));
    assert!(!table.header.contains(&"to default".to_owned()), "regret is this ratio");
    assert_eq!(shown(&table, "a", "regret"), "1.50");
}

#[test]
fn design_and_judgement_have_rankings_of_their_own() {
    let of = |scenario: &str, purpose, b: f64| {
        let of: &[(&str, Option<&[f64]>)] = &[("a", Some(&[1.0, 1.0])), ("b", Some(&[b, b]))];
        CellComparison { purpose, ..cell_of(scenario, "c", Unit::Seconds, Better::Lower, of) }
    };
    let cells = [of("j", Some(Purpose::Judgement), 4.0), of("d", Some(Purpose::Design), 0.5), of("p", None, 1.0)];
    let rows = rows(&cells, None);
    let means: Vec<_> = standings(&rows)
        .iter()
        .map(|of| (of.purpose.as_deref().unwrap_or("none"), of.controller.as_str(), of.all.mean.expect("a mean")))
        .collect();
    let expected = [
        ("none", "a", 1.0),
        ("none", "b", 1.0),
        ("design", "b", 1.0),
        ("design", "a", 2.0),
        ("judgement", "a", 1.0),
        ("judgement", "b", 4.0),
    ];
    assert_eq!(means, expected, "no mean is over two purposes");
    let titles: Vec<String> = rankings(&rows).into_iter().map(|table| table.title).collect();
    let begins = [
        "Scenarios without a purpose: values in 1 cells",
        "Networks of design: values",
        "Networks of judgement: values",
    ];
    assert_eq!(titles.len(), 3);
    assert!(titles.iter().zip(begins).all(|(title, begin)| title.starts_with(begin)), "{titles:?}");
    let cell = in_cell(&rows, "c", "a");
    assert_eq!((cell.scenario.as_str(), cell.purpose.as_deref()), ("p", None));
}

#[test]
fn times_and_unnecessary_transmissions_have_means_of_their_own() {
    let of = |b: f64, unit| cell_of("p", "c", unit, Better::Lower, &[("a", Some(&[2.0, 2.0])), ("b", Some(&[b, b]))]);
    let unnecessary = CellComparison { is_unnecessary: true, ..of(16.0, Unit::Percent) };
    let rows = rows(&point(&[of(4.0, Unit::Seconds), unnecessary, of(5.0, Unit::Percent)]), None);
    let b = self::of(&rows, "b");
    assert_eq!([b.times.mean, b.unnecessary.mean], [Some(2.0), Some(8.0)]);
    assert_eq!([b.times.cells, b.unnecessary.cells, b.all.cells], [1, 1, 3]);
}

#[test]
fn many_scenarios_have_no_columns() {
    let cells: Vec<CellComparison> = (0..9)
        .map(|number| {
            let of: &[(&str, Option<&[f64]>)] = &[("a", Some(&[1.0, 1.0])), ("b", Some(&[2.0, 2.0]))];
            cell_of(&format!("p{number}"), "c", Unit::Seconds, Better::Lower, of)
        })
        .collect();
    assert!(ranking(&rows(&cells[..8], None)).header.contains(&"p7 regret (mean)".to_owned()));
    assert!(!ranking(&rows(&cells, None)).header.iter().any(|name| name.contains("(mean)")));
}

/// Returns the share of points where a controller is dominated by any other, and by the first one.
/// The values of all 23 have a standard deviation of a tenth.
fn by_accident(metrics: usize, replications: usize, first: f64) -> [f64; 2] {
    use rand_core::{RngCore, SeedableRng};
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    // The sum of twelve uniform numbers is nearly normal.
    let mut normal = || (0..12).map(|_| f64::from(random.next_u32()) / f64::from(u32::MAX)).sum::<f64>() - 6.0;
    let names: Vec<String> = (0..23).map(|number| format!("c{number}")).collect();
    let points = 20;
    let cells: Vec<CellComparison> = (0..points * metrics)
        .map(|place| {
            let mut runs =
                |factor: f64| (0..replications).map(|_| factor * (0.1 * normal()).exp()).collect::<Vec<f64>>();
            let runs: Vec<Vec<f64>> = (0..names.len()).map(|of| runs(if of == 0 { first } else { 1.0 })).collect();
            let of: Vec<_> =
                names.iter().map(String::as_str).zip(runs.iter().map(|runs| Some(runs.as_slice()))).collect();
            cell(&format!("{}", place / metrics), Better::Lower, &of)
        })
        .collect();
    let cells: Vec<CellComparison> = cells.chunks(metrics).flat_map(point).collect();
    let rows = rows(&cells, None);
    let others = || standings(&rows).into_iter().filter(|of| of.controller != "c0");
    let all = (points * others().count()) as f64;
    let share = |count: &dyn Fn(&Standing) -> usize| others().map(count).sum::<usize>() as f64 / all;
    [share(&|of| of.dominated.len()), share(&|of| of.dominated_by("c0"))]
}

#[test]
fn equal_controllers_rarely_dominate_by_accident() {
    for (metrics, replications, most) in [(1, 10, 0.3), (2, 3, 0.05), (3, 3, 0.02), (2, 10, 0.05), (3, 10, 0.02)] {
        let [by_any, _] = by_accident(metrics, replications, 1.0);
        println!("{metrics} metrics, {replications} replications: {by_any}");
        assert!(by_any <= most, "{metrics} metrics, {replications} replications: {by_any}");
    }
    let [_, by_better] = by_accident(3, 10, 0.7);
    println!("by one that needs 30 % less: {by_better}");
    assert!(by_better >= 0.95, "by one that needs 30 % less: {by_better}");
}

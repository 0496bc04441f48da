//! Compares controllers over many cells by regret.
//!
//! Controllers in a cell share random numbers, so the *ratio* (how many times worse than the best
//! or a baseline) is more precise than their values. Values below their unit's
//! [floor](crate::scenario::Unit::floor) count as the floor, so that 0 has a ratio. A ratio is
//! *apart* if its 95 % interval excludes 1: the jackknife over replications, each choosing the best
//! controller anew. *Regret* is the worst ratio that is apart.
//!
//! Means over cells are geometric. The jackknife leaves out a replication in all cells of an
//! experiment, which share random numbers; experiments are independent, so squared half-widths add
//! up.
//!
//! With few replications, intervals are wide and few ratios are apart, so regret is too low, most for
//! the controllers that vary most. Then the mean ranks in place of regret.
//!
//! A controller without a value in a cell has no mean, only a lower bound of regret, and ranks
//! below the others.

use std::borrow::Cow;

use conche_results::comparison::{ColumnOfCell, Compared, InCell, OfScenario, Row, Standing, Tally, rounded, shown};

use crate::scenario::{Better, Unit};
use crate::stats::{Interval, estimate};
use crate::table::Table;

/// A row, one of its primary metrics, and each controller's value.
#[derive(Clone, Debug, PartialEq)]
pub struct CellComparison {
    /// Paper or scenario.
    pub scenario: String,
    /// Row without the scheme.
    pub name: String,
    /// Column.
    pub column: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// All controllers.
    pub entries: Vec<Entry>,
}

/// A controller's result in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Controller name.
    pub controller: String,
    /// Measured value, if every replication has one.
    pub value: Option<f64>,
    /// Value per replication.
    pub per_replication: Vec<f64>,
}

impl Entry {
    /// Returns an entry without values.
    #[must_use]
    pub fn missing(controller: &str) -> Self {
        Self { controller: controller.to_owned(), value: None, per_replication: Vec::new() }
    }
}

struct Ratios<'a> {
    cell: &'a CellComparison,
    there: Vec<&'a Entry>,
    baseline: Option<usize>,
}

impl<'a> Ratios<'a> {
    fn new(cell: &'a CellComparison, baseline: Option<&str>) -> Option<Self> {
        let there: Vec<&Entry> = cell.entries.iter().filter(|entry| entry.value.is_some()).collect();
        let place = |name: &str| there.iter().position(|entry| entry.controller == name);
        let baseline = match baseline {
            None => None,
            Some(name) => Some(place(name)?),
        };
        (!there.is_empty()).then_some(Self { cell, there, baseline })
    }

    fn place(&self, controller: &str) -> Option<usize> {
        self.there.iter().position(|entry| entry.controller == controller)
    }

    fn means(&self) -> impl Iterator<Item = f64> {
        self.there.iter().filter_map(|entry| entry.value)
    }

    fn per_replication(&self) -> impl Iterator<Item = &'a [f64]> {
        self.there.iter().map(|entry| entry.per_replication.as_slice())
    }

    fn ratio(&self, means: &[f64], own: usize) -> f64 {
        let floor = self.cell.unit.floor();
        let value = |place: usize| means[place].max(floor);
        let all = || (0..means.len()).map(value);
        let other = match (self.baseline, self.cell.better) {
            (Some(baseline), _) => value(baseline),
            (None, Better::Lower) => all().fold(f64::INFINITY, f64::min),
            (None, Better::Higher) => all().fold(0.0, f64::max),
        };
        match self.cell.better {
            Better::Lower => value(own) / other,
            Better::Higher => other / value(own),
        }
    }

    fn line(&self, entry: &Entry) -> InCell {
        let (means, per_replication) = (self.means().collect::<Vec<_>>(), self.per_replication().collect::<Vec<_>>());
        let found = self.place(&entry.controller).and_then(|own| {
            let ratio = |means: &[f64]| Some(self.ratio(means, own));
            estimate(&means, &per_replication, ratio)
        });
        let CellComparison { scenario, name, column, unit, better, .. } = self.cell;
        let interval = found.and_then(|(_, interval)| interval);
        InCell {
            scenario: scenario.clone(),
            cell: name.clone(),
            column: column.clone(),
            unit: unit.name(),
            better: if *better == Better::Lower { "lower" } else { "higher" }.to_owned(),
            controller: entry.controller.clone(),
            value: entry.value.map(rounded),
            ratio: found.map(|(ratio, _)| rounded(ratio)),
            ci95: interval.map(bounds),
            apart: interval.is_some_and(|interval| !interval.contains(1.0)),
            runs: entry.per_replication.iter().map(|value| rounded(*value)).collect(),
        }
    }
}

fn bounds(interval: Interval) -> [f64; 2] {
    [rounded(interval.low), rounded(interval.high)]
}

/// Returns the controllers per cell, then over all cells, least regret first or, with few
/// replications, least mean. Ratios are to the baseline or each cell's best controller.
#[must_use]
pub fn rows(cells: &[CellComparison], baseline: Option<&str>) -> Vec<Row> {
    let ratios: Vec<Ratios<'_>> = cells.iter().filter_map(|cell| Ratios::new(cell, baseline)).collect();
    let of_cell =
        |ratios: &Ratios<'_>| ratios.cell.entries.iter().map(|entry| ratios.line(entry)).collect::<Vec<InCell>>();
    let lines: Vec<InCell> = ratios.iter().flat_map(of_cell).collect();
    let controllers = distinct(cells.iter().flat_map(|cell| &cell.entries).map(|entry| entry.controller.as_str()));
    let scenarios = distinct(ratios.iter().map(|compared| compared.cell.scenario.as_str()));
    let standing = |controller: &&str| {
        let of = |scenario: &&str| {
            let is_of = |name: &str| name == *scenario;
            OfScenario { scenario: (*scenario).to_owned(), of: tally(controller, &ratios, &lines, is_of) }
        };
        Standing {
            controller: (*controller).to_owned(),
            baseline: baseline.map(str::to_owned),
            all: tally(controller, &ratios, &lines, |_| true),
            scenarios: scenarios.iter().map(of).collect(),
        }
    };
    let mut standings: Vec<Standing> = controllers.iter().map(standing).collect();
    let most = lines.iter().map(|line| line.runs.len()).max().unwrap_or(0);
    let key = |of: &Tally| {
        let [regret, mean] = [of.regret, of.mean].map(|ratio| ratio.unwrap_or(f64::INFINITY));
        if most < FEW { (of.missing, mean, regret) } else { (of.missing, regret, mean) }
    };
    // Stable sort: ties keep their order.
    standings.sort_by(|one, other| {
        let (one, other) = (key(&one.all), key(&other.all));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.total_cmp(&other.2))
    });
    let lines = lines.into_iter().map(Compared::Cell);
    lines.chain(standings.into_iter().map(Compared::Controller)).map(Row::new).collect()
}

fn tally(controller: &str, ratios: &[Ratios<'_>], lines: &[InCell], is_of: impl Fn(&str) -> bool) -> Tally {
    let ratios: Vec<&Ratios<'_>> = ratios.iter().filter(|compared| is_of(&compared.cell.scenario)).collect();
    let own: Vec<&InCell> =
        lines.iter().filter(|line| line.controller == controller && is_of(&line.scenario)).collect();
    let missing = own.iter().filter(|line| line.ratio.is_none()).count();
    let apart = || own.iter().filter(|line| line.apart).filter_map(|line| line.ratio);
    let worst = own.iter().filter(|line| line.apart).filter_map(|line| Some((line.ratio?, line)));
    let worst = worst.filter(|(ratio, _)| *ratio > 1.0).max_by(|(one, _), (other, _)| one.total_cmp(other));
    let has_intervals = own.iter().any(|line| line.ci95.is_some());
    let whole = missing == 0 && !own.is_empty();
    let mean = whole.then(|| mean(controller, &ratios));
    Tally {
        cells: own.len(),
        missing,
        regret: has_intervals.then(|| worst.map_or(1.0, |(ratio, _)| ratio)),
        regret_in: worst.map(|(_, line)| ColumnOfCell {
            scenario: line.scenario.clone(),
            cell: line.cell.clone(),
            column: line.column.clone(),
        }),
        mean: mean.map(|(mean, _)| rounded(mean)),
        ci95: mean.and_then(|(_, interval)| interval).map(bounds),
        behind: apart().filter(|ratio| *ratio > 1.0).count(),
        ahead: apart().filter(|ratio| *ratio < 1.0).count(),
    }
}

fn mean(controller: &str, ratios: &[&Ratios<'_>]) -> (f64, Option<Interval>) {
    let replications = |of: &&Ratios<'_>| of.there.first().map_or(0, |entry| entry.per_replication.len());
    let mut groups: Vec<Vec<&Ratios<'_>>> = Vec::new();
    for compared in ratios {
        let is_alike = |group: &&mut Vec<&Ratios<'_>>| {
            group[0].cell.scenario == compared.cell.scenario && replications(&group[0]) == replications(compared)
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(compared),
            None => groups.push(vec![compared]),
        }
    }
    let (mut sum, mut squares) = (0.0, Some(0.0));
    for group in &groups {
        let means: Vec<f64> = group.iter().flat_map(|compared| compared.means()).collect();
        let per_replication: Vec<&[f64]> = group.iter().flat_map(|compared| compared.per_replication()).collect();
        let logarithms = |means: &[f64]| {
            let (mut rest, mut sum) = (means, 0.0);
            for compared in group {
                let (own, behind) = rest.split_at(compared.there.len());
                sum += libm::log(compared.ratio(own, compared.place(controller)?));
                rest = behind;
            }
            Some(sum)
        };
        let Some((of_group, interval)) = estimate(&means, &per_replication, logarithms) else { continue };
        sum += of_group;
        let reach = interval.map(|interval| (interval.high - interval.low) / 2.0);
        squares = squares.zip(reach).map(|(squares, reach)| squares + reach * reach);
    }
    let count = ratios.len() as f64;
    let around = |squares: f64| {
        let reach = squares.sqrt();
        Interval { low: libm::exp((sum - reach) / count), high: libm::exp((sum + reach) / count) }
    };
    (libm::exp(sum / count), squares.map(around))
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

/// Fewer replications rank by the mean.
const FEW: usize = 10;

/// Returns one line per controller, in the order of [`rows`].
#[must_use]
pub fn ranking(rows: &[Row]) -> Table {
    let standings: Vec<&Standing> = rows.iter().filter_map(|row| standing(&row.of)).collect();
    let baseline = standings.iter().find_map(|of| of.baseline.as_deref());
    let scenarios: Vec<&str> =
        standings.first().map_or(Vec::new(), |of| of.scenarios.iter().map(|of| &*of.scenario).collect());
    let against = baseline.map_or(Cow::from("the best of each cell"), |name| format!("those of {name}").into());
    let cells = standings.first().map_or(0, |of| of.all.cells);
    let mut header = vec!["controller", "regret", "mean", "95 %", "behind"];
    header.extend(baseline.map(|_| "ahead"));
    header.push("regret in");
    let one = |of: &&&Standing| {
        let all = &of.all;
        let numbers = [all.shown_regret(), shown(all.mean), all.shown_interval(), all.shown_share(all.behind)];
        let mut line: Vec<String> = std::iter::once(of.controller.clone()).chain(numbers).collect();
        line.extend(baseline.map(|_| all.shown_share(all.ahead)));
        let worst = all.regret_in.as_ref().filter(|_| all.missing == 0);
        line.push(worst.map_or_else(String::new, |worst| named(worst, scenarios.len() > 1)));
        // One paper's column would repeat the total.
        line.extend(of.scenarios.iter().filter(|_| scenarios.len() > 1).map(|of| of.of.shown_in_short()));
        line
    };
    let by_scenario =
        scenarios.iter().filter(|_| scenarios.len() > 1).map(|scenario| format!("{scenario} regret (mean)"));
    let gaps = standings.iter().filter(|of| of.all.missing > 0).map(|of| gap(of, rows));
    let explained =
        ["regret: the worst ratio whose 95 % interval is above 1; behind: the cells with one; mean: the geometric one"];
    let most = cells_of(rows).map(|of| of.runs.len()).max().unwrap_or(0);
    let few = (most < FEW).then(|| {
        let s = if most == 1 { "" } else { "s" };
        format!("with {most} replication{s}, many intervals include 1 and regret is understated: ranked by the mean")
    });
    Table {
        title: format!("Values in {cells} cells, as ratios to {against}: 1 is as good, 2 is twice as bad"),
        header: header.into_iter().map(String::from).chain(by_scenario).collect(),
        names: 1,
        rows: standings.iter().map(|of| one(&of)).collect(),
        notes: explained.map(str::to_owned).into_iter().chain(few).chain(gaps).collect(),
    }
}

fn named(of: &ColumnOfCell, has_scenario: bool) -> String {
    let ColumnOfCell { scenario, cell, column } = of;
    if has_scenario { format!("{scenario}/{cell} {column}") } else { format!("{cell} {column}") }
}

fn standing(of: &Compared) -> Option<&Standing> {
    if let Compared::Controller(standing) = of { Some(standing) } else { None }
}

fn gap(of: &Standing, rows: &[Row]) -> String {
    let is_gap = |row: &&InCell| row.controller == of.controller && row.ratio.is_none();
    let first = cells_of(rows).filter(is_gap).map(|of| format!("{}/{} {}", of.scenario, of.cell, of.column)).next();
    let Tally { missing, cells, .. } = of.all;
    let and = if missing > 1 { "first " } else { "" };
    format!("{}: no value in {missing} of {cells} cells, {and}{}", of.controller, first.unwrap_or_default())
}

fn cells_of(rows: &[Row]) -> impl Iterator<Item = &InCell> {
    rows.iter().filter_map(|row| if let Compared::Cell(cell) = &row.of { Some(cell) } else { None })
}

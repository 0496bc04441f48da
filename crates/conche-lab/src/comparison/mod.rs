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
//!
//! Scenarios with different purposes have rankings of their own: a mean over networks on which a
//! controller was developed and others says little about either.

mod dominance;

use std::borrow::Cow;
use std::collections::BTreeSet;

use conche_results::comparison::{ColumnOfCell, Compared, InCell, OfScenario, Row, Standing, Tally, rounded, shown};

use crate::scenario::{Better, Purpose, Unit};
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
    /// Purpose of the scenario, if it has one.
    pub purpose: Option<Purpose>,
    /// Unit of the values.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Whether the metric is of unnecessary transmissions.
    pub is_unnecessary: bool,
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

    /// The ratio of one controller to another; `None` if a value is missing.
    fn of_two(cell: &'a CellComparison, one: &str, other: &str) -> Option<Self> {
        let entry = |name: &str| cell.entries.iter().find(|of| of.controller == name && of.value.is_some());
        Some(Self { cell, there: vec![entry(one)?, entry(other)?], baseline: Some(1) })
    }

    fn are_at_the_floor(&self) -> bool {
        self.means().all(|value| value <= self.cell.unit.floor())
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

    fn estimate(&self, own: usize) -> Option<(f64, Option<Interval>)> {
        let (means, per_replication) = (self.means().collect::<Vec<_>>(), self.per_replication().collect::<Vec<_>>());
        estimate(&means, &per_replication, |means| Some(self.ratio(means, own)))
    }

    fn line(&self, entry: &Entry) -> InCell {
        let found = self.place(&entry.controller).and_then(|own| self.estimate(own));
        let CellComparison { scenario, name, column, purpose, unit, better, .. } = self.cell;
        let interval = found.and_then(|(_, interval)| interval);
        InCell {
            scenario: scenario.clone(),
            cell: name.clone(),
            column: column.clone(),
            purpose: purpose.map(|purpose| purpose.name().to_owned()),
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

/// A cell with the ratios of its controllers.
struct ComparedCell<'a> {
    ratios: Ratios<'a>,
    lines: Vec<InCell>,
}

impl<'a> ComparedCell<'a> {
    /// Returns the cells in which the baseline, if any, has a value.
    fn all(cells: &[&'a CellComparison], baseline: Option<&str>) -> Vec<Self> {
        let compared = cells
            .iter()
            .filter_map(|cell| Ratios::new(cell, baseline))
            .map(|ratios| Self { lines: ratios.cell.entries.iter().map(|entry| ratios.line(entry)).collect(), ratios });
        compared.collect()
    }

    fn is_of(&self, scenario: &str) -> bool {
        self.ratios.cell.scenario == scenario
    }

    fn is_time(&self) -> bool {
        self.ratios.cell.unit == Unit::Seconds && self.ratios.cell.better == Better::Lower
    }
}

/// The controller of RFC 7252.
const DEFAULT: &str = "default";

/// A baseline that is not among the compared controllers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the baseline `{baseline}` is not compared; compared are {}", compared.join(", "))]
pub struct UnknownBaseline {
    baseline: String,
    compared: Vec<String>,
}

/// Checks the baseline of a comparison.
///
/// # Errors
/// If it is not compared.
pub fn check_baseline(baseline: &str, compared: &[String]) -> Result<(), UnknownBaseline> {
    match compared.iter().any(|name| name == baseline) {
        true => Ok(()),
        false => Err(UnknownBaseline { baseline: baseline.to_owned(), compared: compared.to_vec() }),
    }
}

/// Returns the controllers per cell, then over all cells of each purpose, least regret first or,
/// with few replications, least mean. Ratios are to the baseline or each cell's best controller.
#[must_use]
pub fn rows(cells: &[CellComparison], baseline: Option<&str>) -> Vec<Row> {
    let purposes: BTreeSet<Option<Purpose>> = cells.iter().map(|cell| cell.purpose).collect();
    let (mut lines, mut standings) = (Vec::new(), Vec::new());
    for purpose in purposes {
        let block: Vec<&CellComparison> = cells.iter().filter(|cell| cell.purpose == purpose).collect();
        let compared = ComparedCell::all(&block, baseline);
        standings.extend(self::standings(&block, &compared, baseline));
        lines.extend(compared.into_iter().flat_map(|cell| cell.lines));
    }
    let lines = lines.into_iter().map(Compared::Cell);
    lines.chain(standings.into_iter().map(Compared::Controller)).map(Row::new).collect()
}

/// Ranks the controllers over the cells of one purpose.
fn standings(block: &[&CellComparison], compared: &[ComparedCell<'_>], baseline: Option<&str>) -> Vec<Standing> {
    let controllers = distinct(block.iter().flat_map(|cell| &cell.entries).map(|entry| entry.controller.as_str()));
    let scenarios = distinct(compared.iter().map(|cell| cell.ratios.cell.scenario.as_str()));
    let has_default = controllers.contains(&DEFAULT) && baseline != Some(DEFAULT);
    let to_default = has_default.then(|| ComparedCell::all(block, Some(DEFAULT)));
    let points = dominance::points(block.iter().copied());
    let standing = |controller: &&str| {
        let over = |is_meant: &dyn Fn(&ComparedCell<'_>) -> bool| {
            tally(controller, &compared.iter().filter(|cell| is_meant(cell)).collect::<Vec<_>>())
        };
        let of = |scenario: &&str| OfScenario {
            scenario: (*scenario).to_owned(),
            of: over(&|cell: &ComparedCell<'_>| cell.is_of(scenario)),
        };
        Standing {
            controller: (*controller).to_owned(),
            purpose: block.first().and_then(|cell| cell.purpose).map(|purpose| purpose.name().to_owned()),
            baseline: baseline.map(str::to_owned),
            all: over(&|_| true),
            points: points.len(),
            dominated: points.iter().filter_map(|point| point.dominated(controller)).collect(),
            to_default: to_default.as_ref().map(|cells| tally(controller, &cells.iter().collect::<Vec<_>>())),
            times: over(&|cell| cell.is_time()),
            unnecessary: over(&|cell| cell.ratios.cell.is_unnecessary),
            scenarios: scenarios.iter().map(of).collect(),
        }
    };
    let mut standings: Vec<Standing> = controllers.iter().map(standing).collect();
    let runs = compared.iter().flat_map(|cell| &cell.lines).map(|line| line.runs.len());
    let most = runs.max().unwrap_or(0);
    let key = |of: &Tally| {
        let [regret, mean] = [of.regret, of.mean].map(|ratio| ratio.unwrap_or(f64::INFINITY));
        if most < FEW { (of.missing, mean, regret) } else { (of.missing, regret, mean) }
    };
    // Stable sort: ties keep their order.
    standings.sort_by(|one, other| {
        let (one, other) = (key(&one.all), key(&other.all));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(one.2.total_cmp(&other.2))
    });
    standings
}

fn tally(controller: &str, cells: &[&ComparedCell<'_>]) -> Tally {
    let own: Vec<&InCell> =
        cells.iter().flat_map(|cell| &cell.lines).filter(|line| line.controller == controller).collect();
    let missing = own.iter().filter(|line| line.ratio.is_none()).count();
    let apart = || own.iter().filter(|line| line.apart).filter_map(|line| line.ratio);
    let worst = own.iter().filter(|line| line.apart).filter_map(|line| Some((line.ratio?, line)));
    let worst = worst.filter(|(ratio, _)| *ratio > 1.0).max_by(|(one, _), (other, _)| one.total_cmp(other));
    let has_intervals = own.iter().any(|line| line.ci95.is_some());
    let whole = missing == 0 && !own.is_empty();
    let mean = whole.then(|| mean(controller, cells.iter().map(|cell| &cell.ratios)));
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

fn mean<'a>(controller: &str, ratios: impl Iterator<Item = &'a Ratios<'a>>) -> (f64, Option<Interval>) {
    let replications = |of: &Ratios<'_>| of.there.first().map_or(0, |entry| entry.per_replication.len());
    let (mut groups, mut count) = (Vec::<Vec<&Ratios<'_>>>::new(), 0.0);
    for compared in ratios {
        count += 1.0;
        let is_alike = |group: &&mut Vec<&Ratios<'_>>| {
            group[0].cell.scenario == compared.cell.scenario && replications(group[0]) == replications(compared)
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

/// More scenarios have no columns of their own.
const MOST_SCENARIOS: usize = 8;

/// Returns a ranking for each purpose, with a line per controller in the order of [`rows`].
#[must_use]
pub fn rankings(rows: &[Row]) -> Vec<Table> {
    let all: Vec<&Standing> = rows.iter().filter_map(|row| standing(&row.of)).collect();
    let blocks: Vec<&[&Standing]> = all.chunk_by(|one, other| one.purpose == other.purpose).collect();
    blocks.iter().map(|block| ranking(rows, block, blocks.len() > 1)).collect()
}

fn ranking(rows: &[Row], standings: &[&Standing], is_one_of_several: bool) -> Table {
    let purpose = standings.first().and_then(|of| of.purpose.as_deref());
    let baseline = standings.iter().find_map(|of| of.baseline.as_deref());
    let first = standings.first();
    let scenarios: Vec<&str> = first.map_or(Vec::new(), |of| of.scenarios.iter().map(|of| &*of.scenario).collect());
    let has_columns = (2..=MOST_SCENARIOS).contains(&scenarios.len());
    let against = baseline.map_or(Cow::from("the best of each cell"), |name| format!("those of {name}").into());
    let cells = first.map_or(0, |of| of.all.cells);
    let values = format!("alues in {cells} cells, as ratios to {against}: 1 is as good, 2 is twice as bad");
    let title = match purpose {
        Some(purpose) => format!("Networks of {purpose}: v{values}"),
        None if is_one_of_several => format!("Scenarios without a purpose: v{values}"),
        None => format!("V{values}"),
    };
    let has_default = standings.iter().any(|of| of.controller == DEFAULT);
    let mut header = vec!["controller", "regret", "mean", "95 %", "behind"];
    header.extend(baseline.map(|_| "ahead"));
    header.extend(["regret in", "dominated", "most by"]);
    header.extend(has_default.then_some("by default"));
    header.extend(
        first.and_then(|of| of.to_default.as_ref()).map(|_| ["to default", "to default in"]).into_iter().flatten(),
    );
    let place = |of: &Tally| {
        let worst = of.regret_in.as_ref().filter(|_| of.missing == 0);
        worst.map_or_else(String::new, |worst| named(worst, scenarios.len() > 1))
    };
    let one = |of: &&Standing| {
        let all = &of.all;
        let numbers = [all.shown_regret(), shown(all.mean), all.shown_interval(), all.shown_share(all.behind)];
        let mut line: Vec<String> = std::iter::once(of.controller.clone()).chain(numbers).collect();
        line.extend(baseline.map(|_| all.shown_share(all.ahead)));
        line.push(place(all));
        line.push(format!("{} of {}", of.dominated.len(), of.points));
        line.push(of.dominated_most_by().map_or_else(String::new, |(name, points)| format!("{name} ({points})")));
        line.extend(has_default.then(|| of.dominated_by(DEFAULT).to_string()));
        line.extend(of.to_default.iter().flat_map(|of| [of.shown_regret(), place(of)]));
        // One paper's column would repeat the total.
        line.extend(of.scenarios.iter().filter(|_| has_columns).map(|of| of.of.shown_in_short()));
        line
    };
    let by_scenario = scenarios.iter().filter(|_| has_columns).map(|scenario| format!("{scenario} regret (mean)"));
    let gaps = standings.iter().filter(|of| of.all.missing > 0).map(|of| gap(of, rows));
    let explained = [
        "regret: the worst ratio whose 95 % interval is above 1; behind: the cells with one; mean: the geometric one",
        "dominated: the points in which another controller is better in every metric, by 2 % and an interval above 1",
    ];
    let has_ratios = standings.iter().any(|of| of.to_default.is_some());
    let to_default =
        has_ratios.then(|| "to default: the worst ratio to `default` whose interval is above 1".to_owned());
    let of_block = cells_of(rows).filter(|of| of.purpose.as_deref() == purpose);
    let most = of_block.map(|of| of.runs.len()).max().unwrap_or(0);
    let few = (most < FEW).then(|| {
        let s = if most == 1 { "" } else { "s" };
        format!(
            "with {most} replication{s}, many intervals include 1, and regret and dominated points are understated: \
             ranked by the mean"
        )
    });
    let explained = explained.map(str::to_owned).into_iter().chain(to_default);
    Table {
        title,
        header: header.into_iter().map(String::from).chain(by_scenario).collect(),
        names: 1,
        rows: standings.iter().map(one).collect(),
        notes: explained.chain(few).chain(gaps).collect(),
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
    let is_gap = |row: &&InCell| row.controller == of.controller && row.purpose == of.purpose && row.ratio.is_none();
    let first = cells_of(rows).filter(is_gap).map(|of| format!("{}/{} {}", of.scenario, of.cell, of.column)).next();
    let Tally { missing, cells, .. } = of.all;
    let and = if missing > 1 { "first " } else { "" };
    format!("{}: no value in {missing} of {cells} cells, {and}{}", of.controller, first.unwrap_or_default())
}

fn cells_of(rows: &[Row]) -> impl Iterator<Item = &InCell> {
    rows.iter().filter_map(|row| if let Compared::Cell(cell) = &row.of { Some(cell) } else { None })
}

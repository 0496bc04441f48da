//! What is measured of a run.

use super::cell::{Cell, Outcome};
use super::scenario::Workload;
use super::{NAME, published};
use crate::campaign::Cell as _;
use std::time::Duration;

use conche_netsim::Instant;

use crate::results::{Figure, Row, Unit};

/// Bounds of the classes of Fig. 1, in seconds.
const RTO_BOUNDS_S: [f64; 9] = [0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 40.0];
/// Stretches of time in Fig. 2.
const STRETCHES: u32 = 15;

/// The figures of one cell.
pub(super) fn figures(name: &str, cell: &Cell<'_>, outcomes: &[Outcome]) -> Vec<Figure> {
    let text = cell.name();
    let row = Row { paper: name, item: item(cell), row: &text };
    let each = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).collect::<Vec<f64>>();
    let figure = |column: &'static str, unit, of: fn(&Outcome) -> f64| {
        let published = if name == NAME { published::of(&text, column) } else { None };
        row.mean(column, unit, &each(of), published)
    };
    let mut figures = vec![
        match cell.workload {
            Workload::Baseline => figure("throughput", Unit::PerSecond, |outcome| 1.0 / outcome.time_per_success_s()),
            Workload::Many | Workload::Burst => figure("throughput", Unit::PerSecond, Outcome::throughput),
        },
        match cell.workload {
            Workload::Baseline => figure("exchange_s", Unit::Seconds, Outcome::time_per_success_s),
            Workload::Many | Workload::Burst => figure("exchange_s", Unit::Seconds, Outcome::mean_success_s),
        },
        figure("retries", Unit::Ratio, Outcome::retries),
        figure("failed", Unit::Percent, Outcome::failed_percent),
        figure("rto_mean_s", Unit::Seconds, Outcome::mean_rto_s),
    ];
    if cell.workload == Workload::Many {
        let clients = cell.clients() as f64;
        let useful: Vec<f64> = outcomes.iter().map(|outcome| outcome.useful_percent(clients)).collect();
        figures.push(row.mean("useful", Unit::Percent, &useful, None));
        figures.extend(distribution(Row { item: "fig1", ..row }, outcomes));
        figures.extend(over_time(Row { item: "fig2", ..row }, cell, outcomes));
    }
    if cell.workload == Workload::Burst {
        figures.push(figure("settling_s", Unit::Seconds, Outcome::settling_s));
        figures.push(figure("burst_done", Unit::Percent, Outcome::burst_done_percent));
    }
    figures
}

/// Fig. 1: of all timeouts, which share is how long.
fn distribution(row: Row<'_>, outcomes: &[Outcome]) -> Vec<Figure> {
    let bounds = RTO_BOUNDS_S.iter().copied().chain([f64::INFINITY]);
    let mut low = 0.0;
    let mut figures = Vec::new();
    for high in bounds {
        let range = low..high;
        let share = |outcome: &Outcome| {
            let inside = outcome.timeouts.iter().filter(|timeout| range.contains(&timeout.after.as_secs_f64()));
            100.0 * inside.count() as f64 / outcome.timeouts.len().max(1) as f64
        };
        let shares: Vec<f64> = outcomes.iter().map(share).collect();
        let column = if high.is_finite() { format!("rto_{low}s_to_{high}s") } else { format!("rto_from_{low}s") };
        figures.push(row.mean(column, Unit::Percent, &shares, None));
        low = high;
    }
    figures
}

/// Fig. 2: the mean timeout in each stretch of time, and how many exchanges had succeeded by its end.
fn over_time(row: Row<'_>, cell: &Cell<'_>, outcomes: &[Outcome]) -> Vec<Figure> {
    let duration = cell.scenario.many.duration.0;
    let mut figures = Vec::new();
    for stretch in 0..STRETCHES {
        let (from, to) =
            (Instant::ZERO + duration * stretch / STRETCHES, Instant::ZERO + duration * (stretch + 1) / STRETCHES);
        let end_s = (to - Instant::ZERO).as_secs();
        let mean = |outcome: &Outcome| {
            let inside = outcome.timeouts.iter().filter(|timeout| (from..to).contains(&timeout.at));
            let (count, total) =
                inside.fold((0_u32, 0.0), |(count, total), timeout| (count + 1, total + timeout.after.as_secs_f64()));
            total / f64::from(count.max(1))
        };
        let done = |outcome: &Outcome| {
            outcome.exchanges.iter().filter(|exchange| exchange.answered && exchange.ended <= to).count() as f64
        };
        figures.push(row.mean(
            format!("rto_until_{end_s}s"),
            Unit::Seconds,
            &outcomes.iter().map(mean).collect::<Vec<_>>(),
            None,
        ));
        figures.push(row.mean(
            format!("done_until_{end_s}s"),
            Unit::Exchanges,
            &outcomes.iter().map(done).collect::<Vec<_>>(),
            None,
        ));
    }
    figures
}

fn item(cell: &Cell<'_>) -> &'static str {
    match (cell.workload, cell.rdc.name.as_str()) {
        (Workload::Baseline, "nullrdc") => "table2",
        (Workload::Baseline, "contikimac") => "table3",
        (Workload::Many, "nullrdc") => "table4",
        (Workload::Many, "contikimac") => "table5",
        (Workload::Burst, "nullrdc") => "table6",
        (Workload::Burst, "contikimac") => "table7",
        _ => "grid",
    }
}

impl Outcome {
    /// The share of the clients' time that goes into exchanges that succeed.
    fn useful_percent(&self, clients: f64) -> f64 {
        let slots = clients * f64::from(self.outstanding);
        100.0 * self.throughput() * self.mean_success_s() / slots
    }

    fn successes(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.answered).count()
    }

    fn throughput(&self) -> f64 {
        self.successes() as f64 / self.elapsed.as_secs_f64()
    }

    /// The time that an exchange which succeeds takes of its client: with NSTART of them at a time, a share of it.
    fn time_per_success_s(&self) -> f64 {
        self.mean_success_s() / f64::from(self.outstanding)
    }

    fn mean_success_s(&self) -> f64 {
        let times = self.exchanges.iter().filter(|exchange| exchange.answered);
        let total: f64 = times.map(|exchange| (exchange.ended - exchange.began).as_secs_f64()).sum();
        total / self.successes().max(1) as f64
    }

    fn retries(&self) -> f64 {
        let copies: u64 = self.exchanges.iter().map(|exchange| u64::from(exchange.transmissions)).sum();
        let requests = self.exchanges.len().max(1) as f64;
        copies as f64 / requests - 1.0
    }

    fn failed_percent(&self) -> f64 {
        100.0 * (1.0 - self.successes() as f64 / self.exchanges.len().max(1) as f64)
    }

    fn mean_rto_s(&self) -> f64 {
        let total: f64 = self.timeouts.iter().map(|timeout| timeout.after.as_secs_f64()).sum();
        total / self.timeouts.len().max(1) as f64
    }

    /// When each exchange of the burst succeeded, since the burst began.
    fn burst(&self) -> Option<(Vec<Duration>, usize)> {
        let (first, asked) = self.burst?;
        let of_burst = || self.exchanges.iter().filter(|exchange| exchange.flow >= first);
        let begin = of_burst().map(|exchange| exchange.began).min()?;
        let succeeded = of_burst().filter(|exchange| exchange.answered);
        // Exchanges are recorded in the order of their ends.
        Some((succeeded.map(|exchange| exchange.ended - begin).collect(), asked))
    }

    /// From the begin of the burst until 80 % of its exchanges are done; until the end if they never are.
    fn settling_s(&self) -> f64 {
        let Some((done, asked)) = self.burst() else { return self.elapsed.as_secs_f64() };
        let settled = done.get((asked * 4).div_ceil(5).saturating_sub(1)).copied();
        settled.unwrap_or(self.after_burst).as_secs_f64()
    }

    /// How many of the burst's exchanges succeeded before the run ended.
    fn burst_done_percent(&self) -> f64 {
        self.burst().map_or(0.0, |(done, asked)| 100.0 * done.len() as f64 / asked.max(1) as f64)
    }
}

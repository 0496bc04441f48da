//! Two results as ratios with their intervals.
//!
//! The observations are what each interval of a test measured: its rate, and its percentiles of latency. The ratio is that of their
//! geometric means, and its 95 % interval that of Welch's t test of their logarithms. Neighbouring intervals of one test are alike
//! where the machine's state lasts longer than they do, so the interval is that of two tests under the same conditions, at best.

use conche_stats::{Interval as Bounds, ratio_of_means};
use serde::Serialize;

use crate::report::{Interval, Latency, Report};

/// One quantity of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// What it is, as in `requests_per_s` and `latency_p99_ms`.
    pub quantity: &'static str,
    /// Of the first result, over its whole time.
    pub first: Option<f64>,
    /// Of the second one.
    pub second: Option<f64>,
    /// How many times larger it is in the second.
    pub ratio: Option<f64>,
    /// The lower bound of the 95 % interval of the ratio; `None` with fewer than two intervals of either.
    pub low: Option<f64>,
    /// The upper bound.
    pub high: Option<f64>,
    /// A larger value is better.
    pub larger_is_better: bool,
}

/// What the interval of a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second result is better.
    Better,
    /// The second result is worse.
    Worse,
    /// It may be either.
    Undecided,
}

impl Compared {
    /// What its interval says.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.low, self.high) {
            (Some(low), _) if low > 1.0 => Verdict::of(self.larger_is_better),
            (_, Some(high)) if high < 1.0 => Verdict::of(!self.larger_is_better),
            _ => Verdict::Undecided,
        }
    }
}

impl Verdict {
    fn of(better: bool) -> Self {
        if better { Self::Better } else { Self::Worse }
    }
}

/// A percentile, and what it is called.
type Percentile = (&'static str, fn(&Latency) -> f64);

const PERCENTILES: [Percentile; 4] = [
    ("latency_p50_ms", |latency| latency.p50),
    ("latency_p90_ms", |latency| latency.p90),
    ("latency_p99_ms", |latency| latency.p99),
    ("latency_p999_ms", |latency| latency.p999),
];

/// Compares the second result with the first.
#[must_use]
pub fn compare(first: &Report, second: &Report) -> Vec<Compared> {
    let rates = |report: &Report| values(report, |interval| Some(interval.answered as f64 / interval.seconds));
    let rate = Compared {
        quantity: "requests_per_s",
        first: Some(first.requests_per_s),
        second: Some(second.requests_per_s),
        larger_is_better: true,
        ..of(&rates(first), &rates(second))
    };
    let percentiles = PERCENTILES.map(|(quantity, percentile)| {
        let values = |report| values(report, |interval| interval.latency_ms.as_ref().map(percentile));
        Compared {
            quantity,
            first: first.latency_ms.as_ref().map(percentile),
            second: second.latency_ms.as_ref().map(percentile),
            ..of(&values(first), &values(second))
        }
    });
    [rate].into_iter().chain(percentiles).collect()
}

fn values(report: &Report, of: impl Fn(&Interval) -> Option<f64>) -> Vec<f64> {
    report.intervals.iter().filter_map(of).collect()
}

fn of(first: &[f64], second: &[f64]) -> Compared {
    let (ratio, bounds) = ratio_of_means(second, first).unzip();
    let bounds: Option<Bounds> = bounds.flatten();
    Compared {
        quantity: "",
        first: None,
        second: None,
        ratio,
        low: bounds.map(|bounds| bounds.low),
        high: bounds.map(|bounds| bounds.high),
        larger_is_better: false,
    }
}

//! Compares two results by ratios with confidence intervals.
//!
//! The ratio of the geometric means of the intervals' rates or latency percentiles has a 95 %
//! interval from Welch's t test of the logarithms. Slow changes of the machine correlate
//! neighbouring intervals, so the interval covers at best two tests under the same conditions.
//!
//! An interval without a response has no logarithm: the rates' ratio is then the whole tests',
//! without confidence interval, and [`caveats`] counts the intervals that percentiles omit.

use conche_stats::{Interval as Bounds, ratio_of_means};
use serde::Serialize;

use crate::report::{Interval, Latency, Report, Setup};

/// A quantity in two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name, such as `requests_per_s` or `latency_p99_ms`.
    pub quantity: &'static str,
    /// Value in the first result, over its whole time.
    pub first: Option<f64>,
    /// Value in the second result.
    pub second: Option<f64>,
    /// Second divided by first, by the intervals' geometric means if possible.
    pub ratio: Option<f64>,
    /// Lower bound of the ratio's 95 % interval; `None` with fewer than two intervals.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
    /// Whether a larger value is better.
    pub larger_is_better: bool,
}

/// Meaning of a ratio's confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second result is better.
    Better,
    /// The second result is worse.
    Worse,
    /// The interval contains 1 or is missing.
    Undecided,
}

impl Compared {
    /// Returns the verdict.
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
    let rate = of(&rates(first), &rates(second));
    let rate = Compared {
        quantity: "requests_per_s",
        first: Some(first.requests_per_s),
        second: Some(second.requests_per_s),
        larger_is_better: true,
        ratio: rate.ratio.or_else(|| quotient(second.requests_per_s, first.requests_per_s)),
        ..rate
    };
    let [without, without_now] = [first, second].map(unanswered_share);
    let unanswered = Compared {
        quantity: "unanswered_share",
        first: without,
        second: without_now,
        ratio: without.zip(without_now).and_then(|(first, second)| quotient(second, first)),
        ..of(&[], &[])
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
    [rate, unanswered].into_iter().chain(percentiles).collect()
}

/// Returns reasons to doubt the comparison.
#[must_use]
pub fn caveats(first: &Report, second: &Report) -> Vec<String> {
    let mut caveats = differences(&first.plan, &second.plan);
    for (name, report) in [("first", first), ("second", second)] {
        let silent = report.intervals.iter().filter(|interval| interval.latency_ms.is_none()).count();
        if silent > 0 {
            caveats.push(format!(
                "{silent} of {} intervals of the {name} have no answer: the ratios of latencies leave them out",
                report.intervals.len()
            ));
        }
    }
    caveats
}

fn differences(first: &Setup, second: &Setup) -> Vec<String> {
    let shown = |rate: Option<f64>| rate.map_or("none".to_owned(), |rate| format!("{rate:?}"));
    let parts = [
        ("server", first.target.clone(), second.target.clone()),
        ("requests", first.requests.join(", "), second.requests.join(", ")),
        ("load", first.load.clone(), second.load.clone()),
        ("rate", shown(first.rate), shown(second.rate)),
        ("endpoints", first.endpoints.to_string(), second.endpoints.to_string()),
        ("requests in flight", first.in_flight.to_string(), second.in_flight.to_string()),
        ("threads", first.threads.to_string(), second.threads.to_string()),
    ];
    let differ = parts.into_iter().filter(|(_, first, second)| first != second);
    differ.map(|(name, first, second)| format!("the tests differ in {name}: {first}, then {second}")).collect()
}

fn unanswered_share(report: &Report) -> Option<f64> {
    let without = report.lost.all().saturating_add(report.unsent).saturating_add(report.unfinished);
    quotient(without as f64, report.requests as f64)
}

fn quotient(value: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| value / of)
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

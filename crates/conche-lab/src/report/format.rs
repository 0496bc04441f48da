//! Formats numbers for tables.

use crate::results::{MeasuredValue, Unit, Verdict};

/// Formats a value with its unit's decimals.
#[must_use]
pub fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Exchanges | Unit::Bytes | Unit::BitsPerSecond => format!("{value:.0}"),
        Unit::Copies | Unit::Percent => format!("{value:.1}"),
        Unit::PerSecond | Unit::Count | Unit::Ratio => format!("{value:.2}"),
        Unit::Verdict => Verdict::of(value).words().to_owned(),
        Unit::Seconds if value.abs() < 10.0 => format!("{value:.3}"),
        Unit::Seconds if value.abs() < 100.0 => format!("{value:.2}"),
        Unit::Seconds if value.abs() < 1000.0 => format!("{value:.1}"),
        Unit::Seconds => format!("{value:.0}"),
    }
}

/// Formats the deviation from the published value, such as `-0.31 %`; empty without one.
#[must_use]
pub fn deviation(figure: &MeasuredValue) -> String {
    figure.deviation_percent().map(|percent| format!("{percent:+.2} %")).unwrap_or_default()
}

/// Formats the confidence interval, such as `62.59 … 62.79`; empty without one.
#[must_use]
pub fn interval(figure: &MeasuredValue) -> String {
    let show = |value| match figure.unit {
        Unit::Seconds => format!("{value:.3}"),
        unit => number(value, unit),
    };
    figure.ci95.map(|interval| format!("{} … {}", show(interval.low), show(interval.high))).unwrap_or_default()
}

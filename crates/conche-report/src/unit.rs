//! Symbols and bounds of units.

use conche_lab::scenario::Unit;

/// Empty for counts and ratios.
pub(crate) fn symbol(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::PerSecond => "1/s",
        Unit::BitsPerSecond => "bit/s",
        Unit::Bytes => "B",
        Unit::Percent => "%",
        Unit::Exchanges | Unit::Copies | Unit::Count | Unit::Ratio | Unit::Verdict => "",
    }
}

/// Returns the lowest and the highest value that a measured quantity of this unit can have.
pub(crate) fn domain(unit: Unit) -> (f64, f64) {
    if unit == Unit::Percent { (0.0, 100.0) } else { (0.0, f64::INFINITY) }
}

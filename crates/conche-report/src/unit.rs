//! Symbols of units.

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

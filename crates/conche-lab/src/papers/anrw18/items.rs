//! Which table or figure of the paper a value belongs to.
//!
//! Tables are certain. Of the figures it is known what they show (Fig. 2 the default and CoCoA, Fig. 3 the full-backoff
//! variants, Fig. 4 unnecessary retransmissions) but not in which panel each buffer is; the panels are taken to be these.
//! Whoever looks for a value finds it by its row and column, each pair of which occurs once.

use super::published::REPLICATIONS;
use super::{NAME, published};
use crate::metrics::Measurements;
use crate::results::{Figure, Key, Unit};

/// All items, in the order of the paper.
pub const ITEMS: &[(&str, &str)] = &[
    ("table1", "Flow completion times of 50 clients under the default"),
    ("table2", "Exchanges by number of retransmissions, 400 clients, largest buffer"),
    ("fig2a", "Flow completion times of the default and CoCoA, 2500 B buffer"),
    ("fig2b", "Flow completion times of the default and CoCoA, 14100 B buffer"),
    ("fig2c", "Flow completion times of the default and CoCoA, largest buffer"),
    ("fig3a", "Flow completion times of the default with full backoff"),
    ("fig3b", "Flow completion times of CoCoA with full backoff"),
    ("fig4", "Unnecessary retransmissions per client"),
    ("mixed", "Clients of two schemes, half and half"),
    ("grid", "Everything else that was measured"),
    ("claims", "What the paper says in words"),
];

/// The place of an item in [`ITEMS`].
pub(super) fn rank(item: &str) -> usize {
    ITEMS.iter().position(|(name, _)| *name == item).unwrap_or(ITEMS.len())
}

/// The item of a value.
#[must_use]
pub fn item_of(key: &Key, column: &str) -> &'static str {
    let base = matches!(key.scheme.as_str(), "default" | "cocoa");
    match column {
        _ if key.mix.is_some() => "mixed",
        _ if !base && !key.scheme.contains("-fb") => "grid",
        "unnecessary_median" => "fig4",
        _ if !column.starts_with("fct_") || column == "fct_mean_s" => "grid",
        _ if published::of(&key.to_string(), column).is_some() && key.clients == 50 => "table1",
        "fct_min_s" | "fct_max_s" => "grid",
        _ if base => match key.buffer.as_str() {
            "2500" => "fig2a",
            "14100" => "fig2b",
            "inf" => "fig2c",
            _ => "grid",
        },
        _ if key.scheme.starts_with("default") => "fig3a",
        _ => "fig3b",
    }
}

/// The row of Table 2 that a cell gives, if it is one of that table's: with as many exchanges as the paper had, whatever
/// the number of replications.
pub(super) fn table_2(cell: &Measurements) -> Vec<Figure> {
    let key = &cell.key;
    if key.mix.is_some() || key.clients != 400 || key.buffer != "inf" {
        return Vec::new();
    }
    let scale = f64::from(REPLICATIONS) / f64::from(cell.runs);
    let counts = cell.values.iter().filter_map(|value| Some((value.column.strip_prefix("retransmissions_")?, value)));
    let row = format!("{}/{}", key.scheme, key.workload);
    counts
        .map(|(column, value)| Figure {
            paper: NAME.to_owned(),
            item: "table2".to_owned(),
            row: row.clone(),
            column: column.to_owned(),
            unit: Unit::Exchanges,
            published: published::of(&row, column),
            measured: value.value * scale,
            ci95: value.ci95.map(|interval| interval.scaled(scale)),
            runs: cell.runs,
        })
        .collect()
}

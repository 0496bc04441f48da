//! What the paper published, as far as it is known in numbers.

/// The number of replications of the paper; its counts of exchanges are over all of them.
pub const REPLICATIONS: u32 = 20;

/// Table 1: percentiles 0, 10, 25, 50, 75, 90 and 100 of the flow completion time of 50 clients, in seconds.
const TABLE_1: &[(&str, [f64; 7])] = &[
    ("default/continuous/50/2500", [60.999, 61.250, 61.500, 62.001, 63.342, 63.767, 63.930]),
    ("default/continuous/50/14100", [62.077, 62.177, 62.377, 62.690, 63.003, 63.178, 63.304]),
];

/// Table 2: exchanges that took 0, 1, 2, 3 and 4 retransmissions, of 400 clients with the largest buffer.
const TABLE_2: &[(&str, [f64; 5])] = &[("default/continuous", [1474.0, 3984.0, 4793.0, 7795.0, 381_954.0])];

/// Values in the text, and medians read off a figure, which are good to about a second.
const OTHERS: &[(&str, &str, f64)] = &[
    ("default/continuous/1/inf", "fct_min_s", 33.003),
    ("default/continuous/1/inf", "fct_max_s", 33.208),
    ("default/continuous/100/2500", "fct_median_s", 102.0),
    ("cocoa/continuous/100/2500", "fct_median_s", 105.0),
    ("cocoa/random/100/2500", "fct_median_s", 106.0),
];

/// The published value of a row and column, if there is one.
#[must_use]
pub fn of(row: &str, column: &str) -> Option<f64> {
    if let Some((_, values)) = TABLE_1.iter().find(|(name, _)| *name == row) {
        let index = crate::metrics::FCT.iter().position(|(name, _)| *name == column)?;
        return values.get(index).copied();
    }
    if let Some((_, values)) = TABLE_2.iter().find(|(name, _)| *name == row) {
        return values.get(column.parse::<usize>().ok()?).copied();
    }
    OTHERS.iter().find(|(of, name, _)| (*of, *name) == (row, column)).map(|(_, _, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_table_2_are_all_exchanges_of_all_replications() {
        let (_, counts) = TABLE_2[0];
        let exchanges = f64::from(REPLICATIONS) * 400.0 * 50.0;
        assert!((counts.iter().sum::<f64>() - exchanges).abs() < 0.5);
    }

    #[test]
    fn values_are_found_by_row_and_column() {
        assert_eq!(of("default/continuous/50/14100", "fct_median_s"), Some(62.690));
        assert_eq!(of("default/continuous", "4"), Some(381_954.0));
        assert_eq!(of("cocoa/random/100/2500", "fct_median_s"), Some(106.0));
        assert_eq!(of("default/continuous/50/14100", "unnecessary_median"), None);
        assert_eq!(of("default/continuous", "5"), None);
        assert_eq!(of("cocoa/continuous/50/14100", "fct_median_s"), None);
    }
}

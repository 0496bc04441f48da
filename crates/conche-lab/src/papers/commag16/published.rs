//! The values that the paper states for GPRS with 10 and 20 clients. Those of 30 and 40 clients are predictions here.

/// The schemes, in the order of the tables below.
pub(super) const SCHEMES: [&str; 6] = ["default", "cocoa", "cocoa-s", "b-rto", "linux", "ph"];

/// What is published of 10 clients and of 20.
struct Row {
    column: &'static str,
    values: [[Option<f64>; 6]; 2],
}

const fn all(values: [f64; 6]) -> [Option<f64>; 6] {
    let [a, b, c, d, e, f] = values;
    [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f)]
}

/// Figures 1 and 2 and Table 2. The default measures no round-trip times.
const VALUES: &[Row] = &[
    Row {
        column: "throughput_per_s",
        values: [all([15.5, 17.4, 15.9, 11.7, 15.8, 15.3]), all([15.7, 18.4, 18.2, 13.6, 17.1, 16.8])],
    },
    Row {
        column: "retransmissions_percent",
        values: [all([2.8, 3.0, 7.7, 34.0, 5.1, 3.0]), all([12.1, 3.3, 6.6, 34.2, 5.6, 3.1])],
    },
    Row {
        column: "rtt_mean_s",
        values: [
            [None, Some(0.661), Some(0.625), Some(1.025), Some(0.682), Some(0.746)],
            [None, Some(1.437), Some(1.275), Some(1.962), Some(1.550), Some(1.835)],
        ],
    },
    Row {
        column: "initial_rto_mean_s",
        values: [all([2.497, 1.505, 1.428, 1.152, 1.325, 1.797]), all([2.499, 3.379, 2.903, 2.198, 2.801, 3.703])],
    },
];

/// Half-widths of the 95 % confidence intervals of Figure 1.
const THROUGHPUT_CI: [[f64; 6]; 2] = [[3.7, 3.5, 3.5, 2.6, 3.1, 4.0], [2.5, 2.6, 2.2, 1.9, 2.7, 3.5]];

/// The published value of a row such as `cocoa/gprs/10`.
pub(super) fn of(row: &str, column: &str) -> Option<f64> {
    let (clients, scheme) = place(row)?;
    VALUES.iter().find(|row| row.column == column)?.values[clients][scheme]
}

/// The half-width of its confidence interval.
pub(super) fn half_width(row: &str, column: &str) -> Option<f64> {
    let (clients, scheme) = place(row)?;
    (column == "throughput_per_s").then_some(THROUGHPUT_CI[clients][scheme])
}

fn place(row: &str) -> Option<(usize, usize)> {
    let (scheme, cell) = row.split_once('/')?;
    let clients = ["gprs/10", "gprs/20"].iter().position(|known| *known == cell)?;
    Some((clients, SCHEMES.iter().position(|known| *known == scheme)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_row_and_column() {
        assert_eq!(of("linux/gprs/20", "rtt_mean_s"), Some(1.550));
        assert_eq!(of("default/gprs/10", "rtt_mean_s"), None);
        assert_eq!(of("ph/gprs/30", "throughput_per_s"), None);
        assert_eq!(of("fasor/gprs/10", "throughput_per_s"), None);
        assert_eq!(half_width("cocoa-s/gprs/20", "throughput_per_s"), Some(2.2));
        assert_eq!(half_width("cocoa-s/gprs/20", "rtt_mean_s"), None);
    }

    /// Clients in a closed loop: the first timeouts of B-RTO are its round-trip times times the mean dithering factor,
    /// whatever the network. The published ones say 1.12, which is a factor from 1 to 1.25.
    #[test]
    fn the_published_table_2_tells_how_far_b_rto_is_dithered() {
        for clients in [10, 20] {
            let value = |column| of(&format!("b-rto/gprs/{clients}"), column).expect("published");
            let factor = value("initial_rto_mean_s") / value("rtt_mean_s");
            assert!((factor - 1.125).abs() < 0.01, "{factor}");
        }
    }
}

//! What the paper published, as far as it is known in numbers.

/// Tables II and III: throughput (exchanges a second), seconds for an exchange, retransmissions for a request.
const BASELINE: &[(&str, [f64; 3])] = &[
    ("coap/baseline/nullrdc", [0.67, 1.49, 0.40]),
    ("coap-b/baseline/nullrdc", [0.88, 1.13, 0.52]),
    ("cocoa/baseline/nullrdc", [1.18, 0.84, 0.38]),
    ("cocoa-4/baseline/nullrdc", [1.42, 0.70, 0.56]),
    ("coap/baseline/contikimac", [0.56, 1.76, 0.21]),
    ("coap-b/baseline/contikimac", [0.79, 1.26, 0.35]),
    ("cocoa/baseline/contikimac", [0.89, 1.12, 0.07]),
    ("cocoa-4/baseline/contikimac", [1.18, 0.84, 0.35]),
];

const COLUMNS: [&str; 3] = ["throughput", "exchange_s", "retries"];

/// The published value of a row and column, if there is one.
pub(super) fn of(row: &str, column: &str) -> Option<f64> {
    let (_, values) = BASELINE.iter().find(|(name, _)| *name == row)?;
    values.get(COLUMNS.iter().position(|name| *name == column)?).copied()
}

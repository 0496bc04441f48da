//! What a scenario measures that does not say what.

use std::collections::BTreeMap;

use super::{Metric, Statistic};
use crate::scenario::Value;

/// What any traffic has.
#[must_use]
pub fn standard() -> Vec<Value> {
    let value = |column: &str, metric, statistic| Value {
        column: column.to_owned(),
        metric,
        statistic,
        traffic: None,
        row: None,
        item: None,
        only: BTreeMap::new(),
        over: Vec::new(),
        of: BTreeMap::new(),
        than: BTreeMap::new(),
        by: None,
    };
    vec![
        value("throughput_per_s", Metric::Throughput, Statistic::Mean),
        value("exchange_median_s", Metric::ExchangeTime, Statistic::Percentile(50.0)),
        value("exchange_p95_s", Metric::ExchangeTime, Statistic::Percentile(95.0)),
        value("retries", Metric::Retries, Statistic::Mean),
        value("unnecessary_mean", Metric::Unnecessary, Statistic::Mean),
        value("loss_percent", Metric::Loss, Statistic::Mean),
        value("jain_index", Metric::Jain, Statistic::Mean),
    ]
}

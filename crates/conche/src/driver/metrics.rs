//! Collects the metrics of drivers.

use std::borrow::Borrow;

use super::Handle;
use crate::telemetry::metrics;

/// Returns OpenMetrics text for these drivers, with up to `destinations` of the busiest
/// destinations of each.
pub(crate) async fn metrics(handles: impl IntoIterator<Item = impl Borrow<Handle>>, destinations: usize) -> String {
    let mut reports = Vec::new();
    for handle in handles {
        reports.extend(handle.borrow().report(destinations).await);
    }
    metrics::text(reports)
}

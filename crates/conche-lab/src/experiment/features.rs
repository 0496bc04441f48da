//! Static properties of schemes: features, and state bytes per peer.

use crate::report::Table;
use crate::results::{MeasuredValue, Unit};
use crate::scenario::{self, Scenario, Scheme};

pub(super) fn values(scenario: &Scenario) -> Vec<MeasuredValue> {
    let Some(shown) = &scenario.features else { return Vec::new() };
    let figure = |scheme: &Scheme| {
        let features = scheme.named()?.features;
        Some(MeasuredValue {
            paper: scenario.name.clone(),
            item: shown.item.clone(),
            row: scheme.name.clone(),
            column: "peer_bytes".to_owned(),
            unit: Unit::Bytes,
            published: features.published_bytes.map(f64::from),
            measured: features.peer_bytes as f64,
            ci95: None,
            runs: 1,
        })
    };
    scenario.schemes.iter().filter_map(figure).collect()
}

pub(super) fn table(scenario: &Scenario) -> Option<Table> {
    let scenario::Features { title, .. } = scenario.features.as_ref()?;
    let yes = |feature: bool| if feature { "yes" } else { "-" }.to_owned();
    let rows = scenario.schemes.iter().filter_map(|scheme| {
        let named = scheme.named()?;
        let features = named.features;
        Some(vec![
            scheme.name.clone(),
            named.name.to_owned(),
            yes(features.strong_rtt),
            yes(features.weak_rtt.is_some()),
            scheme.ack_random_factor.map_or(features.dithering.to_owned(), |factor| format!("[1, {factor}]")),
            features.backoff.to_owned(),
            features.ageing.to_owned(),
            yes(features.reuses_backed_off_rto),
            features.published_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
            features.peer_bytes.to_string(),
        ])
    });
    let header =
        ["scheme", "controller", "strong", "weak", "dithering", "backoff", "ageing", "reuses", "published B", "B"];
    Some(Table {
        title: title.clone(),
        header: header.map(String::from).into(),
        names: 2,
        rows: rows.collect(),
        ..Table::default()
    })
}

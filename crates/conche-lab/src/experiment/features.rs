//! What distinguishes the schemes, before any run: features, and bytes of state for each peer.

use crate::report::{Align, Table};
use crate::results::{Figure, Row, Unit};
use crate::scenario::{self, Scenario, Scheme};
use conche_proto::cc::any::Named;

/// Bytes of state for each peer, scheme by scheme.
pub(super) fn figures(scenario: &Scenario) -> Vec<Figure> {
    let bytes = |shown: &scenario::Features| {
        let schemes = scenario.schemes.iter().filter_map(|scheme| Some((scheme, scheme.named()?)));
        let figure = |(scheme, Named { features, .. }): (&Scheme, &Named)| {
            let row = Row { paper: &scenario.name, item: &shown.item, row: &scheme.name };
            let published = features.published_bytes.map(f64::from);
            row.mean("peer_bytes", Unit::Bytes, &[features.peer_bytes as f64], published)
        };
        schemes.map(figure).collect::<Vec<_>>()
    };
    scenario.features.iter().flat_map(bytes).collect()
}

/// All features, a line for each scheme.
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
        align: Align::FirstTwoLeft,
        rows: rows.collect(),
        ..Table::default()
    })
}

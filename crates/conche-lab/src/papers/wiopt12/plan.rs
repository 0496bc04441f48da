//! What is run: each combination that a table or figure needs, once.

use std::collections::BTreeMap;

use super::scenario::{Acknowledgments, Metric, Scenario};
use super::testbed::{Backoff, Testbed};
use super::transfer::{self, Settings, Transfer, Way};
use crate::campaign::{Cell, CellId, ExchangeRows, Kept, Ran, Replication, Sample};

/// Which routes transfers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Frozen ones of so many hops.
    Static(u8),
    /// Those that are found under this metric.
    Dynamic(Metric),
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Over which routes.
    pub place: Place,
    /// With which protocol settings.
    pub settings: Settings,
}

/// For each combination, and for each of its replications, the transfers: one in the static scenario, one a pair in the
/// dynamic one.
pub type Results = BTreeMap<Key, Vec<Vec<Transfer>>>;

/// The combinations that a scenario asks for. Each method is a figure's.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a>(pub &'a Scenario);

impl Plan<'_> {
    /// The settings that are not varied, with this window.
    #[must_use]
    pub fn default_settings(&self, window: u16) -> Settings {
        let Scenario { mac, transfer, schemes, .. } = self.0;
        Settings {
            backoff: Backoff::TinyOs,
            retries: mac.retries,
            window,
            acknowledgments: transfer.acknowledgments,
            scheme: schemes.iter().position(|scheme| scheme.name == transfer.scheme).unwrap_or(0),
        }
    }

    /// Frozen routes of so many hops, with the default settings.
    #[must_use]
    pub fn fixed(&self, hops: u8, window: u16) -> Key {
        Key { place: Place::Static(hops), settings: self.default_settings(window) }
    }

    /// Routes that are looked for, with the default settings.
    #[must_use]
    pub fn dynamic(&self, window: u16) -> Key {
        Key { place: Place::Dynamic(self.0.dynamic.metric), settings: self.default_settings(window) }
    }

    /// Every combination, without repetition.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        let Scenario { fixed, dynamic, variations, schemes, .. } = self.0;
        let mut keys = Vec::new();
        for hops in fixed.hops.iter() {
            for window in fixed.windows.iter() {
                let key = self.fixed(*hops, *window);
                keys.extend([key, key.with_backoff(Backoff::Beb)]);
            }
            for window in variations.positive_windows.iter() {
                let key = self.fixed(*hops, *window);
                keys.extend([key, key.with_acknowledgments(Acknowledgments::Positive)]);
            }
            for window in variations.retries_windows.iter() {
                keys.extend(variations.retries.iter().map(|retries| self.fixed(*hops, *window).with_retries(*retries)));
            }
            for window in variations.schemes_windows.iter() {
                keys.extend((0..schemes.len()).map(|scheme| self.fixed(*hops, *window).with_scheme(scheme)));
            }
        }
        for window in dynamic.windows.iter() {
            let key = self.dynamic(*window);
            keys.extend([
                key.with_metric(Metric::HopCount),
                key.with_metric(Metric::PathDr),
                key.with_backoff(Backoff::Beb),
            ]);
        }
        let key = self.dynamic(variations.retries_dynamic_window);
        keys.extend(variations.retries.iter().map(|retries| key.with_retries(*retries)));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

#[expect(missing_docs, reason = "each changes what it names")]
impl Key {
    #[must_use]
    pub fn with_backoff(self, backoff: Backoff) -> Self {
        Self { settings: Settings { backoff, ..self.settings }, ..self }
    }

    #[must_use]
    pub fn with_retries(self, retries: u8) -> Self {
        Self { settings: Settings { retries, ..self.settings }, ..self }
    }

    #[must_use]
    pub fn with_acknowledgments(self, acknowledgments: Acknowledgments) -> Self {
        Self { settings: Settings { acknowledgments, ..self.settings }, ..self }
    }

    #[must_use]
    pub fn with_scheme(self, scheme: usize) -> Self {
        Self { settings: Settings { scheme, ..self.settings }, ..self }
    }

    #[must_use]
    pub fn with_metric(self, metric: Metric) -> Self {
        Self { place: Place::Dynamic(metric), ..self }
    }
}

/// A combination that can be run.
pub(super) struct Combination<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) testbed: &'a Testbed,
    pub(super) key: Key,
}

impl Cell for Combination<'_> {
    type Outcome = Vec<Transfer>;

    fn id(&self) -> CellId {
        let Settings { scheme, .. } = self.key.settings;
        let axes = [("settings".to_owned(), self.name())].into();
        CellId { axes, schemes: vec![self.scenario.schemes[scheme].name.clone()], ..CellId::default() }
    }

    fn keep(&self, outcome: &Vec<Transfer>) -> Vec<Kept> {
        let scheme = &self.scenario.schemes[self.key.settings.scheme].name;
        let kept = |(unit, sample): (&str, Sample)| {
            let (scheme, unit) = (scheme.clone(), unit.to_owned());
            Kept { phase: None, scheme, unit, figures: Vec::new(), sample }
        };
        outcome.iter().flat_map(Transfer::samples).map(kept).collect()
    }

    fn restore(&self, samples: Vec<Sample>) -> Option<Vec<Transfer>> {
        samples.chunks(4).map(Transfer::from_samples).collect()
    }

    fn name(&self) -> String {
        format!("{:?}", self.key)
    }

    fn replications(&self) -> u32 {
        match self.key.place {
            Place::Static(hops) => {
                let routes = self.testbed.routes.get(&hops).map_or(0, Vec::len);
                u32::try_from(routes).unwrap_or(u32::MAX)
            }
            Place::Dynamic(_) => self.scenario.dynamic.replications.get(),
        }
    }

    /// In hops: a frame for each.
    fn work(&self) -> u64 {
        match self.key.place {
            Place::Static(hops) => hops.into(),
            Place::Dynamic(_) => 3 * self.testbed.pairs.len() as u64,
        }
    }

    fn run(&self, replication: Replication, _: Option<&mut ExchangeRows>) -> Result<Ran<Vec<Transfer>>, String> {
        let run = |way, seed| transfer::run(self.scenario, self.testbed, &self.key.settings, way, seed);
        let transfers = match self.key.place {
            Place::Static(hops) => {
                let route = &self.testbed.routes[&hops][replication.index as usize];
                vec![run(Way::Frozen(route), replication.seed)?]
            }
            Place::Dynamic(metric) => {
                let pairs = self.testbed.pairs.iter().zip(1..);
                let each = pairs.map(|((from, to), number): (_, u64)| {
                    let seed = replication.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    run(Way::Searched(*from, *to, metric), seed)
                });
                each.collect::<Result<Vec<_>, _>>()?
            }
        };
        let events = transfers.iter().map(|(_, events)| events).sum();
        Ok(Ran { outcome: transfers.into_iter().map(|(transfer, _)| transfer).collect(), events })
    }
}

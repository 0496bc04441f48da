//! [`Cell`]: one combination of swept values.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Label, Scenario, Texts, filled, matches_any};

/// A cell of an experiment: a scenario with one value per axis, and its schemes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The scenario, the same for all schemes.
    pub scenario: Arc<Scenario>,
    /// The part of the experiment.
    pub part: Option<String>,
    /// Its label on each axis, except the axis of schemes.
    pub labels: Vec<Label>,
    /// The schemes of its clients; several for a mix.
    pub schemes: Vec<String>,
    /// The mix, if several.
    pub mix: Option<String>,
}

impl Cell {
    /// Returns the row name of one of its schemes: `scheme/…`, or `scheme@mix/…` in a mix.
    #[must_use]
    pub fn row(&self, template: Option<&str>, scheme: &str) -> String {
        let template = template.map_or_else(|| self.scenario.row_template(), Cow::from);
        filled(&template, |name| self.label(name, scheme)).unwrap_or_else(|| template.into_owned())
    }

    /// Returns its label on an axis.
    #[must_use]
    pub fn label(&self, axis: &str, scheme: &str) -> Option<Cow<'_, str>> {
        match (axis, &self.mix) {
            ("scheme", Some(mix)) => Some(format!("{scheme}@{mix}").into()),
            ("scheme", None) => Some(scheme.to_owned().into()),
            ("mix", mix) => Some(mix.as_deref().unwrap_or_default().into()),
            _ => self.labels.iter().find(|label| label.axis == axis).map(|label| label.point.as_str().into()),
        }
    }

    /// Returns its labels on an axis, one for each of its schemes.
    pub(super) fn labels_on(&self, axis: &str) -> Vec<String> {
        self.schemes.iter().filter_map(|scheme| Some(self.label(axis, scheme)?.into_owned())).collect()
    }

    /// Returns whether it has these labels.
    #[must_use]
    pub fn is_among<'a>(&self, only: impl IntoIterator<Item = (&'a String, &'a Texts)>, scheme: &str) -> bool {
        only.into_iter().all(|(axis, of)| self.label(axis, scheme).is_some_and(|label| matches_any(of.all(), &label)))
    }

    /// In a mix, each scheme needs a client.
    pub(super) fn has_clients_for_all(&self) -> bool {
        let traffic = self.scenario.traffic.iter();
        let most = traffic.map(|traffic| self.scenario.most_nodes(&traffic.from)).max().unwrap_or(0);
        self.schemes.len() <= most as usize
    }
}

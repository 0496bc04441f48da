//! One combination of everything that is varied.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Label, Scenario, Texts, filled, matches_any};

/// A cell of an experiment: a scenario in which everything that is varied has its value, and who runs which scheme.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is run: the same for all schemes.
    pub scenario: Arc<Scenario>,
    /// The part that it belongs to.
    pub part: Option<String>,
    /// Where it is on each axis but that of schemes.
    pub labels: Vec<Label>,
    /// The schemes of its clients; several in a mix.
    pub schemes: Vec<String>,
    /// The mix that these form.
    pub mix: Option<String>,
}

impl Cell {
    /// The name of the row of one of its schemes: `scheme/…`, and `scheme@mix/…` in a mix.
    #[must_use]
    pub fn row(&self, template: Option<&str>, scheme: &str) -> String {
        let template = template.map_or_else(|| self.scenario.row_template(), Cow::from);
        filled(&template, |name| self.label(name, scheme)).unwrap_or_else(|| template.into_owned())
    }

    /// Where it is on an axis.
    #[must_use]
    pub fn label(&self, axis: &str, scheme: &str) -> Option<Cow<'_, str>> {
        match (axis, &self.mix) {
            ("scheme", Some(mix)) => Some(format!("{scheme}@{mix}").into()),
            ("scheme", None) => Some(scheme.to_owned().into()),
            ("mix", mix) => Some(mix.as_deref().unwrap_or_default().into()),
            _ => self.labels.iter().find(|label| label.axis == axis).map(|label| label.point.as_str().into()),
        }
    }

    /// Where it is on an axis, for each of its schemes.
    pub(super) fn labels_on(&self, axis: &str) -> Vec<String> {
        self.schemes.iter().filter_map(|scheme| Some(self.label(axis, scheme)?.into_owned())).collect()
    }

    /// Whether it has these labels.
    #[must_use]
    pub fn is_among<'a>(&self, only: impl IntoIterator<Item = (&'a String, &'a Texts)>, scheme: &str) -> bool {
        only.into_iter().all(|(axis, of)| self.label(axis, scheme).is_some_and(|label| matches_any(of.all(), &label)))
    }

    /// A mix in which a scheme has no client would be none.
    pub(super) fn has_clients_for_all(&self) -> bool {
        let traffic = self.scenario.traffic.iter();
        let most = traffic.map(|traffic| self.scenario.most_nodes(&traffic.from)).max().unwrap_or(0);
        self.schemes.len() <= most as usize
    }
}

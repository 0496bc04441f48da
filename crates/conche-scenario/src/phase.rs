//! Stretches of a run that are measured by themselves.

use std::time::Duration;

use serde::Deserialize;

use super::{ScenarioError, ensure, labels};
use crate::units::Span;

/// A stretch of the run. Phases follow one another from the begin of the run on; what is measured of the whole run is
/// measured of each of them as well, under the row's name with this one behind it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What rows call it.
    pub name: String,
    /// How long it is.
    pub lasts: Span,
}

impl Phase {
    /// When each of these begins and ends.
    pub fn spans(phases: &[Self]) -> impl Iterator<Item = (Duration, Duration)> {
        phases.iter().scan(Duration::ZERO, |begun, phase| {
            let from = *begun;
            *begun = begun.saturating_add(phase.lasts.0);
            Some((from, *begun))
        })
    }

    /// Refuses phases of no length, and such as go on after the run is over.
    pub(super) fn validate(phases: &[Self], duration: Option<Span>) -> Result<(), ScenarioError> {
        labels("phases", phases.iter().map(|phase| &phase.name))?;
        for phase in phases {
            let problem = "a phase of 0s; write how long it `lasts` as in \"300s\"";
            ensure(!phase.lasts.0.is_zero(), format_args!("phases.{}.lasts", phase.name), problem)?;
        }
        let end = Self::spans(phases).last().map_or(Duration::ZERO, |(_, end)| end);
        let Some(duration) = duration else { return Ok(()) };
        let problem = format_args!("together they last {}, longer than the run of {duration}", Span(end));
        ensure(end <= duration.0, "phases", problem)
    }
}

//! Phases of a run.

use std::time::Duration;

use serde::Deserialize;

use super::{ScenarioError, ensure, labels};
use crate::units::Span;

/// A phase of the run. Phases follow one another from the start of the run. Each has the values of
/// the whole run, in rows with the phase's name at the end.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name in rows.
    pub name: String,
    /// Its duration.
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

    /// Checks that phases have a length, and end before the run.
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

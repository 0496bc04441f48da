//! Changes to the network during a run, and phases.

use std::time::Duration;

use conche_netsim::wired::LinkConfig;
use serde::Deserialize;

use super::{ScenarioError, ensure, labels};
use crate::units::Span;

/// A change at a given time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Time since the start of the run.
    pub at: Span,
    /// The change.
    pub event: ChangeEvent,
}

/// A kind of change.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ChangeEvent {
    /// Reconfigures a link.
    Link {
        /// Link.
        name: String,
        /// Configuration; omitted values are the initial ones.
        wire: Box<LinkConfig>,
    },
    /// Takes a link down for a time; its queued frames are lost.
    Fail {
        /// Link.
        link: String,
        /// Duration.
        #[serde(rename = "for")]
        lasting: Span,
    },
    /// Disconnects nodes for a time.
    CutOff {
        /// A node, a group, or part of one (`mote[3]`).
        nodes: String,
        /// Duration.
        #[serde(rename = "for")]
        lasting: Span,
    },
    /// Restarts a node without its state.
    Reboot {
        /// A node, a group, or part of one.
        nodes: String,
    },
    /// Ends the mappings of nodes behind a NAT, as by its restart.
    Rebind {
        /// A node, a group, or part of one.
        nodes: String,
    },
}

/// A phase after the previous one, with all values of the run in rows that end with its name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name in rows.
    pub name: String,
    /// Duration.
    pub lasts: Span,
}

impl Phase {
    /// Returns the start and end of each phase.
    pub fn spans(phases: &[Self]) -> impl Iterator<Item = (Duration, Duration)> {
        phases.iter().scan(Duration::ZERO, |begun, phase| {
            let from = *begun;
            *begun = begun.saturating_add(phase.lasts.0);
            Some((from, *begun))
        })
    }

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

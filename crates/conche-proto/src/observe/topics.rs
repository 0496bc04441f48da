//! [`Topic`]: an observed resource with its newest state, and an incremental walk over its
//! observers.
//!
//! A change has constant cost, regardless of the number of observers: it increments the topic's
//! version. Each observer stores the version that it was last sent, so that skipped states are not
//! queued.

use core::time::Duration;

use super::sequence::Sequence;
use crate::shares::Group;
use crate::store::{Linked, Links, List};
use crate::transport::{Content, Reliability};

/// Minimum and maximum time until a state has settled.
const SETTLED_AFTER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3_600));

/// Allowed delay of a resource that changes whenever its Max-Age expires. Clients wait at least 5 s
/// before they register again (RFC 7641 §3.3.1).
const LATE: Duration = Duration::from_secs(2);

/// The kind of the lists of a topic's observers.
#[derive(Debug)]
pub(super) struct OfTopic;

/// The kind of the list of topics with a walk in progress.
#[derive(Debug)]
pub(super) struct Walking;

/// A topic: observations that differ only in the client.
#[derive(Debug)]
pub(super) struct Topic {
    /// The application's name.
    pub(super) name: u64,
    /// Counts states.
    pub(super) version: u32,
    /// The newest state, encoded once for all observers; `None` before the first change.
    pub(super) state: Option<State>,
    pub(super) sequence: Sequence,
    /// In the order of the walk: a visited observer moves to the end.
    pub(super) observers: List<OfTopic>,
    pub(super) len: u32,
    /// The group of sources that is charged for the topic, initially the one that opened it, and
    /// the charged bytes of its state.
    pub(super) group: Group,
    pub(super) bytes: usize,
    /// The newest state has settled: it is sent again to observers that may have missed it.
    pub(super) settled: bool,
    /// Number of observers still to be visited.
    pub(super) to_visit: u32,
    pub(super) walks: bool,
    /// Can be found by its name; `false` after its last state.
    pub(super) named: bool,
    pub(super) walking: Links,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) content: Content,
    pub(crate) reliability: Option<Reliability>,
}

impl State {
    /// Returns the time until the state has settled and is sent again to observers that may have
    /// missed it: slightly more than its Max-Age. An earlier change would make this unnecessary;
    /// later, the client would consider its state stale.
    pub(super) fn settles_after(&self) -> Duration {
        let content = self.content.body.content(self.content.code);
        let max_age = content.map_or(SETTLED_AFTER.0, |content| content.max_age());
        max_age.clamp(SETTLED_AFTER.0, SETTLED_AFTER.1) + LATE
    }
}

impl Topic {
    pub(super) fn new(name: u64, group: Group, sequence: Sequence) -> Self {
        Self {
            name,
            version: 0,
            state: None,
            sequence,
            observers: List::new(),
            len: 0,
            group,
            bytes: 0,
            settled: false,
            to_visit: 0,
            walks: false,
            named: true,
            walking: Links::default(),
        }
    }

    /// Returns `true` if the state is an error: the last notification to observers (RFC 7641 §4.2).
    pub(super) fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.content.code.is_success())
    }
}

impl Linked<Walking> for Topic {
    fn links(&mut self) -> &mut Links {
        &mut self.walking
    }
}

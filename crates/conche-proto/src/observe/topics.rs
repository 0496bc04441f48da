//! [`Topic`]: what can be observed, the newest state of it, and a walk to all observers that takes them one by one.
//!
//! A change costs the same whether one observes or a hundred thousand: it raises the topic's version. Each observer
//! remembers the version that it was sent last, so that what it missed in between never waits anywhere.

use core::time::Duration;

use super::sequence::Sequence;
use crate::exchange::{Content, Reliability};
use crate::shares::Group;
use crate::store::{Linked, Links, List};

/// The least and the most time that a state has to stay to be sent once more.
const SETTLED_AFTER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3_600));

/// How late the change of a resource may be that changes whenever its Max-Age is over. Clients wait for 5 s at least before
/// they register again (RFC 7641 §3.3.1).
const LATE: Duration = Duration::from_secs(2);

/// The kind of the lists of a topic's observers.
#[derive(Debug)]
pub(super) struct OfTopic;

/// The kind of the list of topics whose observers are being told.
#[derive(Debug)]
pub(super) struct Walking;

/// Something that is observed.
#[derive(Debug)]
pub(super) struct Topic {
    /// What the application calls it.
    pub(super) name: u64,
    /// Counts states.
    pub(super) version: u32,
    /// The newest state, encoded once for all observers; `None` before the first change.
    pub(super) state: Option<State>,
    pub(super) sequence: Sequence,
    /// In the order of the walk: who was visited goes to the end.
    pub(super) observers: List<OfTopic>,
    pub(super) len: u32,
    /// The group of sources whose shares it counts in, at first the one that opened it, and the
    /// bytes of its state there.
    pub(super) group: Group,
    pub(super) bytes: usize,
    /// The newest state has stayed for so long that whoever may have missed it is sent it once more.
    pub(super) settled: bool,
    /// How many of them the walk still has to visit.
    pub(super) to_visit: u32,
    pub(super) walks: bool,
    /// It is found by its name: not any more after its last state.
    pub(super) named: bool,
    pub(super) walking: Links,
}

/// What observers are to learn.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) content: Content,
    pub(crate) reliability: Option<Reliability>,
}

impl State {
    /// How long it has to stay to be sent once more to whoever may have missed it: a little longer than its Max-Age, since an
    /// earlier change would have repaired that, and a later one finds that the client does not believe what it knows any more.
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

    /// Its state is an error: the last thing that observers learn (RFC 7641 §4.2).
    pub(super) fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.content.code.is_success())
    }
}

impl Linked<Walking> for Topic {
    fn links(&mut self) -> &mut Links {
        &mut self.walking
    }
}

//! PROBING_RATE around every controller (RFC 7252 §4.7): a peer that does not answer gets
//! Non-confirmable messages at an average of one byte per second, independent of the controller.

use core::time::Duration;

use super::{Mark, Peer};
use conche_cc::control::NonHistory;
use conche_cc::{Controller, Instant};

/// Number of unanswered Non-confirmable messages before the limit applies. By then a measuring
/// controller's Confirmable probes (2 of 16, draft-ietf-core-cocoa-03 §5) must have been answered.
const UNANSWERED_BEFORE_SILENT: u8 = 16;

/// Number of unanswered bytes before the limit applies: eight messages of the maximum size for an
/// unknown path MTU (RFC 7252 §4.6) with UDP and IPv4 headers, the last of them such a probe.
const UNANSWERED_BYTES_BEFORE_SILENT: u32 = 8 * (1152 + 28);

/// [`NonHistory`] without the space for `Option`s: missing times are [`Instant::FAR_FUTURE`].
/// Packed to fill the padding of other fields.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed)]
pub(crate) struct NonSent {
    last: Instant,
    unanswered_since: Instant,
    unanswered_bytes: u32,
    since_confirmable: u8,
}

impl Default for NonSent {
    fn default() -> Self {
        Self {
            last: Instant::FAR_FUTURE,
            unanswered_since: Instant::FAR_FUTURE,
            unanswered_bytes: 0,
            since_confirmable: 0,
        }
    }
}

impl NonSent {
    pub(crate) fn history(&self) -> NonHistory {
        let happened = |at: Instant| (at != Instant::FAR_FUTURE).then_some(at);
        NonHistory {
            last: happened(self.last),
            since_confirmable: self.since_confirmable,
            unanswered_since: happened(self.unanswered_since),
            unanswered_bytes: self.unanswered_bytes,
        }
    }

    pub(super) fn heard(&mut self) {
        self.unanswered_since = Instant::FAR_FUTURE;
        self.unanswered_bytes = 0;
    }

    /// Records the response to the outstanding Non-confirmable request sent at `sent`: it no longer
    /// delays the next message.
    pub(crate) fn answered(&mut self, sent: Instant) {
        if { self.last } == sent {
            self.last = Instant::FAR_FUTURE;
        }
    }

    fn count_unanswered(&mut self, now: Instant, bytes: u32) {
        self.unanswered_since = self.unanswered_since.min(now);
        self.unanswered_bytes = self.unanswered_bytes.saturating_add(bytes);
    }
}

impl<P, C: Controller> Peer<P, C> {
    /// Returns the earliest time for a Non-confirmable message; `None` if it may leave now.
    pub(crate) fn probing_allows_at(&self, now: Instant, probing_rate: u32) -> Option<Instant> {
        let unresponsive = self.marks.has(Mark::Silent)
            || self.non.since_confirmable >= UNANSWERED_BEFORE_SILENT
            || self.non.unanswered_bytes >= UNANSWERED_BYTES_BEFORE_SILENT;
        let since = self.non.history().unanswered_since.filter(|_| unresponsive)?;
        let debt = u64::from(self.non.unanswered_bytes) * 1_000_000_000 / u64::from(probing_rate.max(1));
        let earliest = since + Duration::from_nanos(debt);
        (earliest > now).then_some(earliest)
    }

    pub(crate) fn sent_non(&mut self, now: Instant, bytes: u32) {
        self.non.last = now;
        self.non.since_confirmable = self.non.since_confirmable.saturating_add(1);
        self.non.count_unanswered(now, bytes);
    }

    pub(crate) fn sent_confirmable(&mut self, now: Instant, bytes: u32, in_place_of_non: bool) {
        self.non.since_confirmable = 0;
        if in_place_of_non {
            self.non.count_unanswered(now, bytes);
        }
    }
}

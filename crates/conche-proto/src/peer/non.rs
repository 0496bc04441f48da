//! PROBING_RATE around every controller (RFC 7252 §4.7): a peer that does not answer gets Non-confirmable messages at
//! one byte a second on average, whatever the controller says.

use core::time::Duration;

use super::Peer;
use conche_cc::{Controller, Instant};

/// A controller that measures may send so many Non-confirmable messages without hearing anything; by then its own
/// Confirmable probes (2 of 16, draft-ietf-core-cocoa-03 §5) must have been answered.
const UNANSWERED_BEFORE_SILENT: u8 = 16;

/// And so many bytes: eight messages of the largest size for an unknown path MTU (RFC 7252 §4.6) with their UDP and IPv4
/// headers, the last of which is such a probe.
const UNANSWERED_BYTES_BEFORE_SILENT: u32 = 8 * (1152 + 28);

impl<P, C: Controller> Peer<P, C> {
    /// The earliest time at which a Non-confirmable message may leave; `None` if the envelope has nothing against now.
    pub(crate) fn probing_allows_at(&self, now: Instant, probing_rate: u32) -> Option<Instant> {
        let unresponsive = self.silent
            || self.non.since_confirmable >= UNANSWERED_BEFORE_SILENT
            || self.non.unanswered_bytes >= UNANSWERED_BYTES_BEFORE_SILENT;
        let since = self.non.unanswered_since.filter(|_| unresponsive)?;
        let debt = u64::from(self.non.unanswered_bytes) * 1_000_000_000 / u64::from(probing_rate.max(1));
        let earliest = since + Duration::from_nanos(debt);
        (earliest > now).then_some(earliest)
    }

    /// A Non-confirmable message of `bytes` left.
    pub(crate) fn sent_non(&mut self, now: Instant, bytes: u32) {
        self.non.last = Some(now);
        self.non.since_confirmable = self.non.since_confirmable.saturating_add(1);
        self.count_unanswered(now, bytes);
    }

    /// A copy of a Confirmable message of `bytes` left.
    pub(crate) fn sent_confirmable(&mut self, now: Instant, bytes: u32, in_place_of_non: bool) {
        self.non.since_confirmable = 0;
        if in_place_of_non {
            self.count_unanswered(now, bytes);
        }
    }

    fn count_unanswered(&mut self, now: Instant, bytes: u32) {
        self.non.unanswered_since.get_or_insert(now);
        self.non.unanswered_bytes = self.non.unanswered_bytes.saturating_add(bytes);
    }
}

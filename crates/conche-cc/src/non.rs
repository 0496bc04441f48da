//! Pacing of Non-confirmable messages, to at most `PROBING_RATE` or one per RTO:
//!
//! - [`paced_by_rto`] (draft-ietf-core-cocoa-03 §5): messages are at least an RTO apart, without
//!   credit for idle periods. Every 8th is Confirmable, so any 16 include two. Divergence: a
//!   request with a response delays no message: it is no longer outstanding (RFC 7252 §4.7).
//! - [`paced_by_probing_rate`], without an RTO (RFC 7252 §4.7): `PROBING_RATE` on average to a
//!   silent peer.

use core::time::Duration;

use crate::event::{Admission, NonHistory, Submission};
use crate::time::Instant;
use crate::units::Micros;

/// The default `PROBING_RATE` of RFC 7252 §4.8, in bytes per second.
pub const PROBING_RATE: u32 = 1;

/// Period of Confirmable messages: two in any 16.
pub const CONFIRM_EVERY: u8 = 8;

/// Admits one message per RTO, every 8th as Confirmable if permitted.
#[must_use]
pub fn paced_by_rto(now: Instant, message: &Submission, history: &NonHistory, rto: Micros) -> Admission {
    // A flow within PROBING_RATE may exceed one message per RTO.
    let spacing = Duration::from(rto).min(at_probing_rate(message.bytes, message));
    match history.last.map(|last| last + spacing) {
        Some(earliest) if now < earliest => Admission::At(earliest),
        _ if message.may_confirm && history.since_confirmable >= CONFIRM_EVERY - 1 => Admission::SendConfirmable,
        _ => Admission::Send,
    }
}

/// Admits `PROBING_RATE` on average since the peer's last message; unlimited while it answers.
#[must_use]
pub fn paced_by_probing_rate(now: Instant, message: &Submission, history: &NonHistory) -> Admission {
    match history.unanswered_since.map(|since| since + at_probing_rate(history.unanswered_bytes, message)) {
        Some(earliest) if now < earliest => Admission::At(earliest),
        _ => Admission::Send,
    }
}

/// Cannot overflow: `u32::MAX` bytes at 1 B/s fit in 64 bits of nanoseconds.
fn at_probing_rate(bytes: u32, message: &Submission) -> Duration {
    Duration::from_nanos(u64::from(bytes) * 1_000_000_000 / u64::from(message.probing_rate.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Micros = Micros::from_millis(1_450);

    fn message(bytes: u32) -> Submission {
        Submission { confirmable: false, may_confirm: true, bytes, probing_rate: PROBING_RATE }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn sent_at(millis: u64, since_confirmable: u8) -> NonHistory {
        NonHistory { last: Some(at(millis)), since_confirmable, ..NonHistory::default() }
    }

    #[test]
    fn the_first_message_leaves_at_once() {
        assert_eq!(paced_by_rto(at(5), &message(100), &NonHistory::default(), RTO), Admission::Send);
        assert_eq!(paced_by_probing_rate(at(5), &message(100), &NonHistory::default()), Admission::Send);
    }

    #[test]
    fn the_second_message_waits_for_an_rto_after_the_first() {
        let history = sent_at(1_000, 1);
        assert_eq!(paced_by_rto(at(1_001), &message(100), &history, RTO), Admission::At(at(2_450)));
        assert_eq!(paced_by_rto(at(2_450), &message(100), &history, RTO), Admission::Send);
    }

    #[test]
    fn silence_earns_no_burst() {
        let history = sent_at(100_000, 1);
        assert_eq!(paced_by_rto(at(100_001), &message(100), &history, RTO), Admission::At(at(101_450)));
    }

    #[test]
    fn any_sixteen_messages_in_a_row_hold_two_confirmable_ones() {
        let mut history = NonHistory::default();
        let mut confirmable = [false; 64];
        for (n, flag) in confirmable.iter_mut().enumerate() {
            let now = Instant::from_millis(n as u64 * 2_000);
            *flag = paced_by_rto(now, &message(100), &history, RTO) == Admission::SendConfirmable;
            history.last = Some(now);
            history.since_confirmable = if *flag { 0 } else { history.since_confirmable + 1 };
        }
        assert!(confirmable.windows(16).all(|window| window.iter().filter(|flag| **flag).count() >= 2));
    }

    #[test]
    fn a_message_that_must_stay_non_confirmable_is_not_converted() {
        let message = Submission { may_confirm: false, ..message(100) };
        assert_eq!(paced_by_rto(at(9_000), &message, &sent_at(1_000, 200), RTO), Admission::Send);
    }

    #[test]
    fn one_byte_a_second_is_allowed_under_the_longest_rto() {
        let rto = Micros::from_millis(60_000);
        assert_eq!(paced_by_rto(at(20_000), &message(20), &sent_at(0, 1), rto), Admission::Send);
        assert_eq!(paced_by_rto(at(19_999), &message(20), &sent_at(0, 1), rto), Admission::At(at(20_000)));
    }

    #[test]
    fn a_silent_peer_gets_one_byte_a_second_on_average() {
        let history = NonHistory { unanswered_since: Some(at(5_000)), unanswered_bytes: 30, ..NonHistory::default() };
        assert_eq!(paced_by_probing_rate(at(6_000), &message(100), &history), Admission::At(at(35_000)));
        assert_eq!(paced_by_probing_rate(at(35_000), &message(100), &history), Admission::Send);
    }

    fn at_rate(probing_rate: u32, bytes: u32) -> Submission {
        Submission { probing_rate, ..message(bytes) }
    }

    fn bytes_to_a_silent_peer(probing_rate: u32) -> u32 {
        let (mut now, mut history) = (at(0), NonHistory::default());
        while now <= at(1_000_000) {
            match paced_by_probing_rate(now, &at_rate(probing_rate, 10), &history) {
                Admission::At(later) => now = later,
                _ => {
                    history.unanswered_since.get_or_insert(now);
                    history.unanswered_bytes += 10;
                }
            }
        }
        history.unanswered_bytes
    }

    #[test]
    fn a_silent_peer_gets_bytes_in_proportion_to_the_configured_rate() {
        // The first message is not delayed.
        assert_eq!([0, 1, 10, 100].map(bytes_to_a_silent_peer), [1_010, 1_010, 10_010, 100_010]);
    }

    #[test]
    fn the_configured_rate_is_allowed_under_the_longest_rto() {
        let rto = Micros::from_millis(60_000);
        let leaves = |rate| paced_by_rto(at(1), &at_rate(rate, 20), &sent_at(0, 1), rto);
        let expected = [20_000, 20_000, 2_000, 200].map(|millis| Admission::At(at(millis)));
        assert_eq!([0, 1, 10, 100].map(leaves), expected);
    }

    #[test]
    fn the_longest_wait_for_the_lowest_rate_does_not_overflow() {
        let history = NonHistory { unanswered_since: Some(at(0)), unanswered_bytes: u32::MAX, ..NonHistory::default() };
        let earliest = at(u64::from(u32::MAX) * 1_000);
        assert_eq!(paced_by_probing_rate(at(1), &message(100), &history), Admission::At(earliest));
    }

    #[test]
    fn a_peer_that_answers_is_not_limited_by_the_probing_rate() {
        let history = NonHistory { unanswered_bytes: 0, ..sent_at(5_000, 40) };
        assert_eq!(paced_by_probing_rate(at(5_001), &message(100), &history), Admission::Send);
    }
}

//! When Non-confirmable messages may leave.
//!
//! Two rules, both pure functions of what the endpoint counted:
//!
//! - [`paced_by_rto`] for algorithms that have an RTO (draft-ietf-core-cocoa-03 §5): two messages are at least an RTO
//!   apart, with the RTO of the time of sending and without credit for silence before; of any 16 messages in a row two
//!   are Confirmable, so every 8th is converted;
//! - [`paced_by_probing_rate`] for those that have none (RFC 7252 §4.7): to a peer that does not respond,
//!   `PROBING_RATE` on average.
//!
//! Under either rule a flow of at most one byte a second is let through.

use core::time::Duration;

use crate::control::{Admission, NonHistory, Submission};
use crate::time::Instant;
use crate::units::Micros;

/// `PROBING_RATE` of RFC 7252 §4.8, in bytes a second.
pub const PROBING_RATE: u32 = 1;

/// Of this many Non-confirmable messages the last is sent as Confirmable: any 16 in a row hold two of those.
pub const CONFIRM_EVERY: u8 = 8;

/// At most one message an RTO, every 8th as Confirmable where the application allows it.
#[must_use]
pub fn paced_by_rto(now: Instant, message: &Submission, history: &NonHistory, rto: Micros) -> Admission {
    // A message that leaves as many seconds after the last as it has bytes keeps to one byte a second by itself.
    let spacing = Duration::from(rto).min(at_probing_rate(message.bytes));
    match history.last.map(|last| last + spacing) {
        Some(earliest) if now < earliest => Admission::At(earliest),
        _ if message.may_confirm && history.since_confirmable >= CONFIRM_EVERY - 1 => Admission::SendConfirmable,
        _ => Admission::Send,
    }
}

/// One byte a second on average since the peer was last heard; no limit while it answers.
#[must_use]
pub fn paced_by_probing_rate(now: Instant, history: &NonHistory) -> Admission {
    match history.unanswered_since.map(|since| since + at_probing_rate(history.unanswered_bytes)) {
        Some(earliest) if now < earliest => Admission::At(earliest),
        _ => Admission::Send,
    }
}

fn at_probing_rate(bytes: u32) -> Duration {
    Duration::from_secs(u64::from(bytes / PROBING_RATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Micros = Micros::from_millis(1_450);

    fn message(bytes: u32) -> Submission {
        Submission { confirmable: false, may_confirm: true, bytes }
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
        assert_eq!(paced_by_probing_rate(at(5), &NonHistory::default()), Admission::Send);
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
        assert_eq!(paced_by_probing_rate(at(6_000), &history), Admission::At(at(35_000)));
        assert_eq!(paced_by_probing_rate(at(35_000), &history), Admission::Send);
    }

    #[test]
    fn a_peer_that_answers_is_not_limited_by_the_probing_rate() {
        let history = NonHistory { unanswered_bytes: 0, ..sent_at(5_000, 40) };
        assert_eq!(paced_by_probing_rate(at(5_001), &history), Admission::Send);
    }
}

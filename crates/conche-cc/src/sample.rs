//! Round-trip time samples of acknowledgements.
//!
//! R is the time from the original transmission to the message layer's first acknowledgement, empty
//! or piggybacked. Separate responses, which include processing, and Reset messages give none.

use crate::event::{AckKind, AckedCopy, Acknowledged};
use crate::time::Instant;
use crate::units::Micros;

/// Maximum sample: EXCHANGE_LIFETIME, 247 s (RFC 7252 §4.8.2). Later acknowledgements may belong to
/// another message with the same ID.
pub const LONGEST: Micros = Micros::from_millis(247_000);

/// Returns R, whatever the retransmissions.
#[must_use]
pub fn rtt(event: &Acknowledged<'_>) -> Option<Micros> {
    if event.kind == AckKind::Separate {
        return None;
    }
    event.sent.first().map(|first| between(*first, event.now))
}

/// Returns R without retransmissions, which is unambiguous (Karn's algorithm).
#[must_use]
pub fn strong_rtt(event: &Acknowledged<'_>) -> Option<Micros> {
    if event.retransmissions() == 0 { rtt(event) } else { None }
}

/// Returns the round-trip time of the only or identified transmission.
#[must_use]
pub fn rtt_of_known_copy(event: &Acknowledged<'_>) -> Option<Micros> {
    let copy = match event.copy {
        AckedCopy::Exact(copy) => usize::from(copy),
        _ if event.retransmissions() == 0 => 0,
        AckedCopy::AtLeast(_) | AckedCopy::Unknown => return None,
    };
    if event.kind == AckKind::Separate {
        return None;
    }
    event.sent.get(copy).map(|sent| between(*sent, event.now))
}

/// Returns a span from 1 µs to [`LONGEST`].
#[must_use]
pub fn between(sent: Instant, acknowledged: Instant) -> Micros {
    Micros::between(sent, acknowledged).clamp(Micros::MIN, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Load;

    fn acknowledged(sent: &[Instant], at_ms: u64, kind: AckKind) -> Acknowledged<'_> {
        let now = Instant::from_millis(at_ms);
        Acknowledged { now, sent, copy: AckedCopy::Unknown, kind, load: Load::default() }
    }

    #[test]
    fn a_sample_counts_from_the_original_transmission() {
        let sent = [Instant::from_millis(1_000), Instant::from_millis(3_000)];
        let event = acknowledged(&sent, 3_150, AckKind::Empty);
        assert_eq!(rtt(&event), Some(Micros::from_millis(2_150)));
        assert_eq!(strong_rtt(&event), None);
    }

    #[test]
    fn an_identified_transmission_is_sampled_from_its_send_time() {
        let sent = [Instant::from_millis(1_000), Instant::from_millis(3_000)];
        let told = |copy| rtt_of_known_copy(&Acknowledged { copy, ..acknowledged(&sent, 3_150, AckKind::Empty) });
        assert_eq!(told(AckedCopy::Exact(1)), Some(Micros::from_millis(150)));
        assert_eq!(told(AckedCopy::Exact(0)), Some(Micros::from_millis(2_150)));
        assert_eq!([AckedCopy::Exact(2), AckedCopy::AtLeast(1), AckedCopy::Unknown].map(told), [None; 3]);
        let only = acknowledged(&sent[..1], 1_200, AckKind::Empty);
        assert_eq!(rtt_of_known_copy(&only), Some(Micros::from_millis(200)));
    }

    #[test]
    fn a_separate_response_gives_no_sample() {
        assert_eq!(rtt(&acknowledged(&[Instant::ZERO], 300, AckKind::Separate)), None);
    }

    #[test]
    fn samples_are_neither_zero_nor_longer_than_an_exchange_lives() {
        let sample = |ms| rtt(&acknowledged(&[Instant::from_millis(500)], ms, AckKind::Piggybacked));
        assert_eq!(sample(500), Some(Micros::MIN));
        assert_eq!(sample(400), Some(Micros::MIN), "a clock that stepped back");
        assert_eq!(sample(86_400_000), Some(LONGEST));
    }
}

//! FPB: Fibonacci pre-increment backoff.
//!
//! Source: code for Contiki of the CoCo-RED family (github.com/thavrakkku/LabWork). The first
//! timeout is the default's; the k-th retransmission waits F(k + 1) times as long, F the Fibonacci
//! numbers: 1, 1, 2, 3, 5. CoCo-RED's other part, random early detection in the nodes' queues, is
//! no part of a controller.

use crate::backoff::bounded;
use crate::control::{Acknowledged, Sent};
use crate::default::{self, CoapDefault};
use crate::features::Features;
use crate::rule::{RtoRule, RuleFlight};
use crate::time::Instant;
use crate::units::Micros;

/// The default with Fibonacci instead of binary backoff.
///
/// ```
/// use conche_cc::Controller;
/// use conche_cc::fibonacci::Fibonacci;
///
/// assert!(!Fibonacci::default().measures_rtt());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fibonacci {
    /// Source of the first timeout and the maximum.
    pub default: CoapDefault,
}

/// Per-exchange state: the timeout before the current one; zero for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrecedingTimeout(Micros);

crate::parameters! {
    Fibonacci {} + default
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "FPB: the default with timers of 1, 1, 2, 3, 5 times the first",
    backoff: "Fibonacci: x1, x1, x2, x3, x5",
    source: "thavrakkku/LabWork (Contiki code)",
    flight_bytes: size_of::<RuleFlight<PrecedingTimeout>>(),
    published_bytes: None,
    ..default::FEATURES
};

impl RtoRule for Fibonacci {
    type Peer = ();
    type Exchange = PrecedingTimeout;
    const MEASURES_RTT: bool = false;

    fn new_peer(&self, _now: Instant) {}

    fn rto(&self, (): &()) -> Micros {
        self.default.initial()
    }

    fn first_timeout(&self, (): &mut (), preceding: &mut PrecedingTimeout, sent: &Sent) -> Micros {
        *preceding = PrecedingTimeout::default();
        bounded(self.default.draw(sent.random), self.default.cap())
    }

    fn next_timeout(&self, (): &mut (), preceding: &mut PrecedingTimeout, current: Micros, _sent: &Sent) -> Micros {
        let next = bounded(current.plus(preceding.0), self.default.cap());
        *preceding = PrecedingTimeout(current);
        next
    }

    fn on_ack(&self, (): &mut (), _timeout: Option<Micros>, _event: &Acknowledged<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDriver;

    #[test]
    fn five_timers_are_fibonacci_numbers_of_the_first() {
        let fibonacci = Fibonacci::default();
        let mut drive = TestDriver::new(&fibonacci);
        for (u, first) in [(0.0, 2_000), (0.5, 2_500)] {
            let timers = [drive.start(u), drive.time_out(), drive.time_out(), drive.time_out(), drive.time_out()];
            assert_eq!(timers, [1, 1, 2, 3, 5].map(|number| number * first));
        }
    }

    #[test]
    fn twenty_retransmissions_stop_at_the_cap() {
        let fibonacci = Fibonacci::default();
        let mut drive = TestDriver::new(&fibonacci);
        drive.start(0.0);
        assert_eq!((0..20).map(|_| drive.time_out()).last(), Some(60_000));
    }
}

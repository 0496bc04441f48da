//! CoCoA++: CoCoA with backoff by the gradient of the round-trip time.
//!
//! Source: Rathod, Jeppu, Sastry, Singala and Tahiliani, "CoCoA++: Delay gradient based congestion
//! control for Internet of Things" (Future Generation Computer Systems, 2019), by its abstract and
//! related code for Contiki. Estimators, RTO and ageing are Contiki's ([`CocoaContiki`]). The
//! backoff is from CAIA's Delay Gradient for TCP:
//!
//! - samples form windows of five; g is the mean change of the windows' median from one to the
//!   next;
//! - an expired timeout grows by 1.42 with probability P = 1 - e^(-g/G) if g > 0, and otherwise
//!   shrinks by 0.7. **Timeouts may shrink within an exchange**, so an endpoint's safety envelope
//!   holds them.
//!
//! Uncertain, with the reading taken:
//! - the window's statistic: the abstract names the least and greatest, code a median
//!   ([`WindowStatistic`]);
//! - the mean: over all changes since the first window, as in code, so g follows late in a long
//!   life;
//! - G: 300 ticks of 1/128 s;
//! - e^x, which code truncates to integers: exact to 0.1 %.

use core::time::Duration;

use super::contiki::{CocoaContikiPeer, Measured};
use super::{CocoaContiki, FrozenFactor};
use crate::any::Boxed;
use crate::backoff::bounded;
use crate::control::{Abandoned, Acknowledged, Sent, Snapshot};
use crate::features::Features;
use crate::parameters::{Range, words};
use crate::rule::{RtoRule, RuleFlight};
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// The value that stands for a window of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowStatistic {
    /// The median.
    #[default]
    Median,
    /// The least.
    Minimum,
}

words!(WindowStatistic { Median = "median", Minimum = "minimum" });

/// CoCoA++.
///
/// ```
/// use conche_cc::cocoa::CocoaPlusPlus;
/// use core::time::Duration;
///
/// assert_eq!(CocoaPlusPlus::default().gradient_scale, Duration::from_micros(300 * 1_000_000 / 128));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaPlusPlus {
    /// Source of RTO and first timeout.
    pub contiki: CocoaContiki,
    /// The value that stands for a window.
    pub statistic: WindowStatistic,
    /// G: gradient at which a timeout grows with probability 1 - 1/e; zero counts as 1 µs.
    pub gradient_scale: Duration,
    /// Factor of an expired timeout while delays grow.
    pub growth: Factor,
    /// Factor of an expired timeout otherwise.
    pub decay: Factor,
}

impl Default for CocoaPlusPlus {
    fn default() -> Self {
        Self {
            contiki: CocoaContiki::default(),
            statistic: WindowStatistic::Median,
            gradient_scale: Duration::from_micros(2_343_750),
            growth: Factor::from_permille(1_420),
            decay: Factor::from_permille(700),
        }
    }
}

impl CocoaPlusPlus {
    fn grows(&self, gradient: Micros, random: u32) -> bool {
        gradient > Micros::ZERO && random < u32::MAX - exp_of_minus(gradient, self.gradient_scale.into())
    }

    fn sample(&self, peer: &mut CocoaPlusPlusPeer, measured: Measured, now: Instant) {
        peer.0.windows.sample(measured.rtt, self.statistic);
        self.contiki.sample(&mut peer.0.contiki, measured, now);
    }
}

/// Returns e^(-`part`/`whole`) in 2^-32, as (1 - x/1024)^1024.
fn exp_of_minus(part: Micros, whole: Micros) -> u32 {
    let step = (u64::from(part.get()) << 22) / u64::from(whole.get().max(1));
    let base = u32::MAX - u32::try_from(step).unwrap_or(u32::MAX);
    (0..10).fold(base, |power, _| ((u64::from(power) * u64::from(power)) >> 32) as u32)
}

/// Per-peer state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CocoaPlusPlusPeer(Boxed<State>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    contiki: CocoaContikiPeer,
    windows: Windows,
}

const WINDOW: usize = 5;

/// Samples of the present window, and the first and last complete one's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Windows {
    samples: [Micros; WINDOW - 1],
    first: Micros,
    last: Micros,
    /// Complete windows after the first.
    changes: u16,
    count: u8,
}

impl Windows {
    fn sample(&mut self, rtt: Micros, statistic: WindowStatistic) {
        if let Some(place) = self.samples.get_mut(usize::from(self.count)) {
            *place = rtt;
            self.count += 1;
            return;
        }
        let [a, b, c, d] = self.samples;
        let mut window = [a, b, c, d, rtt];
        window.sort_unstable();
        let value = match statistic {
            WindowStatistic::Median => window[WINDOW / 2],
            WindowStatistic::Minimum => window[0],
        };
        if self.first == Micros::ZERO {
            self.first = value;
        } else {
            self.changes = self.changes.saturating_add(1);
        }
        (self.last, self.count) = (value, 0);
    }

    /// Returns g, or zero if delays do not grow.
    fn gradient(&self) -> Micros {
        self.last.minus(self.first).divided(self.changes.into())
    }
}

crate::parameters! {
    CocoaPlusPlus {
        "statistic" => statistic, WindowStatistic::RANGE, "value that stands for five samples", "FGCS 2019";
        "gradient_scale" => gradient_scale, Range::millis(1, 3_600_000),
            "G: gradient at which a timeout grows with probability 1 - 1/e", "FGCS 2019";
        "growth" => growth, Range::permille(1_000, 10_000), "factor of a timeout while delays grow", "FGCS 2019";
        "decay" => decay, Range::permille(1, 10_000), "factor of a timeout otherwise", "FGCS 2019";
    } + contiki
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "CoCoA++: timers grow if round-trip times do, or shrink",
    backoff: "none: x1.42 or x0.7, by the delay gradient",
    source: "FGCS 2019",
    peer_bytes: size_of::<State>(),
    flight_bytes: size_of::<RuleFlight<()>>(),
    ..super::contiki::FEATURES
};

impl RtoRule for CocoaPlusPlus {
    type Peer = CocoaPlusPlusPeer;
    type Exchange = ();
    const MEASURES_RTT: bool = true;

    #[allow(clippy::useless_conversion, reason = "without a heap, `Boxed` is the type itself")]
    fn new_peer(&self, now: Instant) -> CocoaPlusPlusPeer {
        let state = State { contiki: self.contiki.new_peer(now), windows: Windows::default() };
        CocoaPlusPlusPeer(state.into())
    }

    fn age(&self, peer: &mut CocoaPlusPlusPeer, now: Instant) {
        self.contiki.age(&mut peer.0.contiki, now);
    }

    fn rto(&self, peer: &CocoaPlusPlusPeer) -> Micros {
        self.contiki.rto(&peer.0.contiki)
    }

    fn first_timeout(&self, peer: &mut CocoaPlusPlusPeer, (): &mut (), sent: &Sent) -> Micros {
        self.contiki.start(&mut peer.0.contiki, &mut FrozenFactor::default(), sent)
    }

    fn next_timeout(&self, peer: &mut CocoaPlusPlusPeer, (): &mut (), current: Micros, sent: &Sent) -> Micros {
        let grows = self.grows(peer.0.windows.gradient(), sent.random);
        bounded(current.scaled(if grows { self.growth } else { self.decay }), self.contiki.max_rto.into())
    }

    fn on_ack(&self, peer: &mut CocoaPlusPlusPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if let Some(measured) = Measured::acknowledged(event) {
            self.sample(peer, measured, event.now);
        }
    }

    fn on_failure(&self, peer: &mut CocoaPlusPlusPeer, timeout: Option<Micros>, event: &Abandoned<'_>) {
        if let Some(measured) = Measured::failed(timeout, event) {
            self.sample(peer, measured, event.now);
        }
    }

    fn report(&self, peer: &CocoaPlusPlusPeer) -> Snapshot {
        self.contiki.report(&peer.0.contiki)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDriver;

    fn after(cocoa: &CocoaPlusPlus, windows: &[[u64; WINDOW]]) -> Micros {
        let mut drive = TestDriver::new(cocoa);
        for rtt_ms in windows.as_flattened() {
            drive.clean(*rtt_ms);
        }
        drive.peer.0.windows.gradient()
    }

    #[test]
    fn without_a_gradient_each_timer_is_seven_tenths_of_the_one_before() {
        let cocoa = CocoaPlusPlus::default();
        let mut drive = TestDriver::new(&cocoa);
        let timers = [drive.start(0.0), drive.time_out(), drive.time_out(), drive.time_out(), drive.time_out()];
        assert_eq!(timers, [2_000, 1_400, 980, 686, 480]);
    }

    #[test]
    fn growing_round_trip_times_make_timers_grow_with_their_probability() {
        let cocoa = CocoaPlusPlus::default();
        let timers = |gradient_ms: u64, u| {
            let mut drive = TestDriver::new(&cocoa);
            for rtt_ms in [200, 200 + gradient_ms] {
                for _ in 0..WINDOW {
                    drive.clean(rtt_ms);
                }
            }
            let [first, second] = [drive.start(u), drive.time_out()];
            second > first
        };
        // P = 0.632 with g = G.
        assert_eq!([timers(2_344, 0.0), timers(2_344, 0.63), timers(0, 0.0)], [true, true, false]);
        assert_eq!([timers(2_344, 0.64), timers(2_344, 1.0)], [false, false]);
    }

    #[test]
    fn the_gradient_is_the_mean_change_of_the_medians() {
        let cocoa = CocoaPlusPlus::default();
        assert_eq!(after(&cocoa, &[[100, 900, 200, 300, 250]]), Micros::ZERO, "one window has no change");
        let windows = [[100, 900, 200, 300, 250], [500, 10, 400, 450, 9_000], [300, 350, 400, 10, 9_000]];
        // Medians of 250, 450 and 350.
        assert_eq!(after(&cocoa, &windows[..2]), Micros::from_millis(200));
        assert_eq!(after(&cocoa, &windows), Micros::from_millis(50));
        let falling = [windows[1], windows[0]];
        assert_eq!(after(&cocoa, &falling), Micros::ZERO);
    }

    #[test]
    fn the_gradient_can_follow_the_minima() {
        let cocoa = CocoaPlusPlus { statistic: WindowStatistic::Minimum, ..CocoaPlusPlus::default() };
        assert_eq!(after(&cocoa, &[[100, 900, 200, 300, 250], [130, 900, 200, 300, 250]]), Micros::from_millis(30));
    }

    #[test]
    fn the_exponential_is_exact_to_a_thousandth() {
        for (thousandths, expected) in
            [(0, 1.0), (10, 0.990_050), (500, 0.606_531), (1_000, 0.367_879), (3_000, 0.049_787)]
        {
            let found = f64::from(exp_of_minus(Micros::new(thousandths), Micros::new(1_000))) / 4_294_967_296.0;
            assert!((found - expected).abs() < 0.001, "e^-{thousandths}/1000 is {found}");
        }
        assert_eq!(exp_of_minus(Micros::MAX, Micros::ZERO), 0);
    }
}

//! Links toward receivers that sleep.

use std::time::Duration;

use crate::Instant;
use crate::rng::Stream;
use crate::units::{SpanRange, nanos};

/// Windows in which the receiver of a link listens.
///
/// A frame waits in the queue until its transmission can begin in a window, and may end after it.
/// With a rate, a window without length carries one frame.
///
/// Periodic windows model end devices that poll their parent (IEEE 802.15.4) and eDRX; windows
/// after the receiver's own frames model the time until it sleeps again, and LoRaWAN's class A.
///
/// ```toml
/// wakes = { every = "5s" }
/// wakes = { every = "10.24s", for = "100ms", after_uplink = "0s..20s" }
/// wakes = { after_uplink = ["1s", "2s"] }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// Time from one window's start to the next one's. The first start is uniform within this time
    /// and differs between links. Default: no periodic windows.
    pub every: Option<Duration>,
    /// Length of periodic windows; `for` in TOML. Default: 0.
    pub lasting: Duration,
    /// Windows after the end of each frame that the receiver sends on a wired link, unless that
    /// link loses the frame. After a frame in one, those that have not begun stay closed, as with
    /// LoRaWAN's RX1 and RX2.
    pub after_uplink: [Option<SpanRange>; 2],
}

impl Wakes {
    /// Returns whether frames of the receiver open windows.
    #[must_use]
    pub fn awaits_uplinks(&self) -> bool {
        self.after_uplink.iter().any(Option::is_some)
    }
}

/// The state of a link's windows.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// Start of the first periodic window, as a share of the period.
    phase: f64,
    after_uplinks: Vec<Window>,
    uplinks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    uplink: u64,
    from: Instant,
    to: Instant,
}

impl Windows {
    pub(super) fn new(mut stream: Stream) -> Self {
        Self { phase: stream.unit(), after_uplinks: Vec::new(), uplinks: 0 }
    }

    /// Opens the windows after a frame of the receiver.
    pub(super) fn open(&mut self, wakes: &Wakes, uplink: Instant, now: Instant) {
        self.after_uplinks.retain(|window| window.to >= now);
        self.uplinks += 1;
        let windows = wakes.after_uplink.iter().flatten();
        self.after_uplinks.extend(windows.map(|range| Window {
            uplink: self.uplinks,
            from: uplink + range.least(),
            to: uplink + range.most(),
        }));
    }

    /// Returns the first time from `now` on at which a frame can begin; `None` until another
    /// uplink.
    pub(super) fn next(&self, wakes: &Wakes, now: Instant) -> Option<Instant> {
        let after_uplinks = self.after_uplinks.iter().filter(|window| window.to >= now);
        let periodic = wakes.every.map(|every| self.periodic(nanos(every), nanos(wakes.lasting), now));
        after_uplinks.map(|window| window.from.max(now)).chain(periodic).min()
    }

    /// Closes later windows of those uplinks that a frame at `now` uses.
    pub(super) fn take(&mut self, now: Instant) {
        let used = |window: &&Window| (window.from..=window.to).contains(&now);
        let uplinks: Vec<u64> = self.after_uplinks.iter().filter(used).map(|window| window.uplink).collect();
        self.after_uplinks.retain(|window| window.from <= now || !uplinks.contains(&window.uplink));
    }

    fn periodic(&self, every: u64, lasting: u64, now: Instant) -> Instant {
        // The phase is below 1, and casts saturate.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let first = (self.phase * every as f64) as u64;
        let before = every.saturating_sub(first);
        let elapsed = (u128::from(now.as_nanos()) + u128::from(before)) % u128::from(every.max(1));
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let pause = if elapsed <= lasting { 0 } else { every - elapsed };
        Instant::from_nanos(now.as_nanos().saturating_add(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    const fn at(milliseconds: u64) -> Instant {
        Instant::from_millis(milliseconds)
    }

    fn windows(phase: f64) -> Windows {
        Windows { phase, after_uplinks: Vec::new(), uplinks: 0 }
    }

    #[test]
    fn periodic_windows_are_open_from_their_start_to_their_end() {
        let wakes = Wakes { every: Some(ms(1000)), lasting: ms(100), ..Wakes::default() };
        for (phase, expected) in [
            (0.25, [(0, 250), (250, 250), (300, 300), (350, 350), (351, 1250), (5350, 5350), (5351, 6250)]),
            (0.0, [(0, 0), (100, 100), (101, 1000), (999, 1000), (1000, 1000), (1100, 1100), (1101, 2000)]),
            // The window before the first one reaches into the run.
            (0.95, [(0, 0), (50, 50), (51, 950), (950, 950), (1050, 1050), (1051, 1950), (1949, 1950)]),
        ] {
            for (now, open) in expected {
                assert_eq!(windows(phase).next(&wakes, at(now)), Some(at(open)), "phase {phase}, at {now} ms");
            }
        }
    }

    #[test]
    fn an_uplink_opens_its_windows_until_one_has_a_frame() {
        let range = |least, most| SpanRange::new(ms(least), ms(most));
        let wakes = Wakes { after_uplink: [range(1000, 1000), range(2000, 2000)], ..Wakes::default() };
        let mut windows = windows(0.0);
        assert_eq!(windows.next(&wakes, at(0)), None, "no uplink");
        windows.open(&wakes, at(500), at(400));
        assert_eq!(windows.next(&wakes, at(400)), Some(at(1500)));
        assert_eq!(windows.next(&wakes, at(1501)), Some(at(2500)));
        assert_eq!(windows.next(&wakes, at(2501)), None);
        windows.take(at(1500));
        assert_eq!(windows.next(&wakes, at(1501)), None, "the first window had a frame");
        windows.open(&wakes, at(3000), at(3000));
        windows.take(at(5000));
        assert_eq!(windows.next(&wakes, at(5000)), Some(at(5000)), "at the same time");
        let until = Wakes { every: Some(ms(1000)), after_uplink: [range(0, 700), None], ..Wakes::default() };
        windows.open(&until, at(6100), at(6100));
        assert_eq!(windows.next(&until, at(6100)), Some(at(6100)));
        assert_eq!(windows.next(&until, at(6800)), Some(at(6800)));
        assert_eq!(windows.next(&until, at(6801)), Some(at(7000)), "the periodic window");
    }
}

//! The last ten transmissions of a peer: which were retransmissions, and what throughput the others showed.

use crate::units::{BytesPerSecond, Factor};

/// How many transmissions are remembered.
const LENGTH: u16 = 10;

/// A ring of the last ten transmissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Zero where none has been recorded.
    throughputs: [BytesPerSecond; LENGTH as usize],
    /// Bit n: the transmission in slot n was a retransmission.
    retransmissions: u16,
    /// The number of the next transmission, modulo [`NUMBERS`].
    next: u16,
    len: u16,
}

/// Transmissions are numbered modulo this, a multiple of the ring's length.
const NUMBERS: u16 = 60_000;

impl Window {
    /// Notes a transmission. The answer is its number, for [`Self::record`].
    pub(super) fn push(&mut self, retransmission: bool) -> u16 {
        let number = self.next;
        let slot = usize::from(number % LENGTH);
        self.throughputs[slot] = BytesPerSecond::ZERO;
        let bit = 1 << slot;
        if retransmission {
            self.retransmissions |= bit
        } else {
            self.retransmissions &= !bit
        }
        self.next = (number + 1) % NUMBERS;
        self.len = (self.len + 1).min(LENGTH);
        number
    }

    /// Records the throughput of a transmission, unless it has left the window.
    pub(super) fn record(&mut self, number: u16, throughput: BytesPerSecond) {
        let age = (self.next + NUMBERS - number % NUMBERS) % NUMBERS;
        if (1..=self.len).contains(&age) {
            self.throughputs[usize::from(number % LENGTH)] = throughput;
        }
    }

    /// The largest and the smallest throughput recorded, if any is.
    pub(super) fn extremes(&self) -> Option<(BytesPerSecond, BytesPerSecond)> {
        let mut recorded = self.throughputs.iter().copied().filter(|throughput| *throughput != BytesPerSecond::ZERO);
        let first = recorded.next()?;
        Some(recorded.fold((first, first), |(max, min), throughput| (max.max(throughput), min.min(throughput))))
    }

    /// α: how much the largest throughput weighs against the smallest. Little, once a fifth of the window or more are
    /// retransmissions.
    pub(super) fn alpha(&self) -> Factor {
        let lossy = self.retransmissions.count_ones() * 5 >= u32::from(self.len.max(1));
        if lossy { Factor::from_permille(200) } else { Factor::from_permille(600) }
    }

    /// The share of retransmissions in the window.
    pub(super) fn retransmitted(&self) -> Factor {
        Factor::share(self.retransmissions.count_ones(), u32::from(self.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BytesPerSecond = BytesPerSecond::new(500);

    #[test]
    fn the_eleventh_transmission_pushes_the_first_out() {
        let mut window = Window::default();
        window.push(true);
        for _ in 0..9 {
            window.push(false);
        }
        assert_eq!(window.retransmitted(), Factor::from_permille(100));
        window.push(false);
        assert_eq!(window.retransmitted(), Factor::from_permille(0));
    }

    #[test]
    fn a_throughput_that_comes_after_its_slot_was_reused_is_dropped() {
        let mut window = Window::default();
        let first = window.push(false);
        for _ in 0..10 {
            window.push(false);
        }
        window.record(first, RATE);
        assert_eq!(window.extremes(), None);
    }

    #[test]
    fn numbers_stay_in_step_with_slots_when_they_wrap() {
        let mut window = Window { next: NUMBERS - 1, len: 10, ..Window::default() };
        let last = window.push(false);
        let wrapped = window.push(false);
        window.record(last, RATE);
        window.record(wrapped, BytesPerSecond::new(300));
        assert_eq!((last, wrapped), (NUMBERS - 1, 0));
        assert_eq!(window.extremes(), Some((RATE, BytesPerSecond::new(300))));
    }
}

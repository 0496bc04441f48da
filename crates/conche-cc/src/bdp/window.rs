//! A peer's last ten transmissions: retransmissions, and other throughputs.

use crate::units::{BytesPerSecond, Factor};

const LENGTH: u16 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Zero where none is recorded.
    throughputs: [BytesPerSecond; LENGTH as usize],
    /// Bit n: slot n was a retransmission.
    retransmissions: u16,
    /// Next number; those below [`LENGTH`] are used once, while the window fills.
    next: u16,
}

const NUMBERS: u16 = 60_000;

impl Window {
    /// Returns the number for [`Self::record`].
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
        self.next = if number < LENGTH + NUMBERS - 1 { number + 1 } else { LENGTH };
        number
    }

    pub(super) fn record(&mut self, number: u16, throughput: BytesPerSecond) {
        // Two rounds keep the difference positive.
        let age = (u32::from(self.next) + 2 * u32::from(NUMBERS) - u32::from(number)) % u32::from(NUMBERS);
        if (1..=u32::from(self.len())).contains(&age) {
            self.throughputs[usize::from(number % LENGTH)] = throughput;
        }
    }

    pub(super) fn extremes(&self) -> Option<(BytesPerSecond, BytesPerSecond)> {
        let mut recorded = self.throughputs.iter().copied().filter(|throughput| *throughput != BytesPerSecond::ZERO);
        let first = recorded.next()?;
        Some(recorded.fold((first, first), |(max, min), throughput| (max.max(throughput), min.min(throughput))))
    }

    fn len(&self) -> u16 {
        self.next.min(LENGTH)
    }

    /// 0.2 if at least a fifth of the window are retransmissions, else 0.6.
    pub(super) fn alpha(&self) -> Factor {
        let lossy = self.retransmissions.count_ones() * 5 >= u32::from(self.len().max(1));
        if lossy { Factor::from_permille(200) } else { Factor::from_permille(600) }
    }

    pub(super) fn retransmitted(&self) -> Factor {
        Factor::share(self.retransmissions.count_ones(), u32::from(self.len()))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

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
        let mut window = Window { next: LENGTH + NUMBERS - 1, ..Window::default() };
        let last = window.push(false);
        let wrapped = window.push(false);
        window.record(last, RATE);
        window.record(wrapped, BytesPerSecond::new(300));
        assert_eq!((last, wrapped), (LENGTH + NUMBERS - 1, LENGTH));
        assert_eq!(window.extremes(), Some((RATE, BytesPerSecond::new(300))));
    }

    #[test]
    fn the_ring_is_the_last_ten_transmissions_for_longer_than_its_numbers_last() {
        let mut window = Window::default();
        let mut all: Vec<(u16, bool, BytesPerSecond)> = Vec::new();
        let mut state = 7_u32;
        for n in 0..2 * usize::from(NUMBERS) + 50 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let retransmission = state >> 30 == 0;
            all.push((window.push(retransmission), retransmission, BytesPerSecond::ZERO));
            // One of the last 16, of which six may have left the window.
            let recorded = n.saturating_sub(usize::from(state.to_be_bytes()[1] % 16));
            all[recorded].2 = BytesPerSecond::new(1 + (state >> 16));
            window.record(all[recorded].0, all[recorded].2);

            let last = &all[all.len().saturating_sub(usize::from(LENGTH))..];
            let retransmissions = last.iter().filter(|(_, retransmission, _)| *retransmission).count();
            let share = Factor::share(u32::try_from(retransmissions).expect("ten"), u32::from(window.len()));
            let rates = || last.iter().map(|(_, _, rate)| *rate).filter(|rate| *rate != BytesPerSecond::ZERO);
            assert_eq!(usize::from(window.len()), last.len());
            assert_eq!(window.retransmitted(), share, "transmission {n}");
            assert_eq!(window.extremes(), rates().max().zip(rates().min()), "transmission {n}");
        }
    }
}

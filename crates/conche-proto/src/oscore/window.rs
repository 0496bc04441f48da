//! [`ReplayWindow`]: which of the other end's numbers came already (RFC 8613 §7.4, RFC 4303 §3.4.3).

/// The largest number that came, and which of the [`SIZE`](Self::SIZE) numbers up to it. All below count as come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    /// One more than the largest number that came; 0 if none did.
    end: u64,
    /// Bit `n`: `end - 1 - n` came.
    seen: u32,
}

impl ReplayWindow {
    /// Numbers that it tells apart.
    pub const SIZE: u64 = 32;

    /// Nothing came yet.
    pub const EMPTY: Self = Self { end: 0, seen: 0 };

    /// Whether this number did not come yet, as far as is known.
    #[must_use]
    pub const fn is_new(&self, number: u64) -> bool {
        if number >= self.end {
            return true;
        }
        let behind = self.end - 1 - number;
        behind < Self::SIZE && self.seen >> behind & 1 == 0
    }

    /// This number came, and was authentic.
    pub const fn insert(&mut self, number: u64) {
        if number >= self.end {
            let ahead = number.saturating_add(1) - self.end;
            self.seen = if ahead < Self::SIZE { self.seen << ahead | 1 } else { 1 };
            self.end = number.saturating_add(1);
        } else if self.end - 1 - number < Self::SIZE {
            self.seen |= 1 << (self.end - 1 - number);
        }
    }
}

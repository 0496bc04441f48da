//! [`ReplayWindow`]: which of the other end's numbers came already (RFC 8613 §7.4, in the way of RFC 4303 §3.4.3).

/// The largest number that came, and which of the [`SIZE`](Self::SIZE) numbers up to it. All below count as come.
///
/// ```
/// use conche_proto::oscore::ReplayWindow;
///
/// let mut window = ReplayWindow::EMPTY;
/// window.insert(40);
/// assert!(!window.is_new(40) && window.is_new(39) && window.is_new(41));
/// assert!(window.is_new(9) && !window.is_new(8), "too far behind to tell");
/// ```
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

    /// As it was stored: [`end`](Self::end) and [`seen`](Self::seen).
    #[must_use]
    pub const fn new(end: u64, seen: u32) -> Self {
        Self { end, seen }
    }

    /// Everything up to this number counts as come.
    pub(super) const fn up_to(number: u64) -> Self {
        Self { end: number.saturating_add(1), seen: u32::MAX }
    }

    /// One more than the largest number that came; 0 if none did.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Bit `n` tells that the number `end - 1 - n` came.
    #[must_use]
    pub const fn seen(self) -> u32 {
        self.seen
    }

    /// Whether this number did not come yet, as far as is known.
    #[must_use]
    pub const fn is_new(&self, number: u64) -> bool {
        match self.bit(number) {
            Place::Ahead(_) => true,
            Place::Inside(bit) => self.seen & bit == 0,
            Place::Behind => false,
        }
    }

    /// This number came, and was authentic.
    pub const fn insert(&mut self, number: u64) {
        match self.bit(number) {
            Place::Ahead(distance) => {
                self.seen = shifted(self.seen, distance) | 1;
                self.end = number.saturating_add(1);
            }
            Place::Inside(bit) => self.seen |= bit,
            Place::Behind => {}
        }
    }

    const fn bit(&self, number: u64) -> Place {
        if number >= self.end {
            return Place::Ahead(number.saturating_add(1) - self.end);
        }
        match self.end - 1 - number {
            behind @ 0..Self::SIZE => Place::Inside(1 << behind),
            _ => Place::Behind,
        }
    }
}

/// Where a number is.
enum Place {
    /// So many behind the largest one.
    Ahead(u64),
    /// At this bit.
    Inside(u32),
    /// Too far back.
    Behind,
}

const fn shifted(bits: u32, distance: u64) -> u32 {
    if distance < ReplayWindow::SIZE { bits << distance } else { 0 }
}

/// Which requests came, and which of their numbers a response has taken: each may once, as it is the nonce of the request
/// (RFC 8613 §5.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    pub(super) window: ReplayWindow,
    /// At the same bits as in the window.
    answered: u32,
}

impl Arrivals {
    /// Of requests that came before this there is none whose number a response could still take.
    pub(super) const fn new(window: ReplayWindow) -> Self {
        Self { window, answered: u32::MAX }
    }

    /// This number came, and was authentic.
    pub(super) const fn insert(&mut self, number: u64) {
        match self.window.bit(number) {
            Place::Ahead(distance) => self.answered = shifted(self.answered, distance),
            Place::Inside(bit) => self.answered &= !bit,
            Place::Behind => return,
        }
        self.window.insert(number);
    }

    /// Whether a response may take this request's number; it has, then.
    pub(super) const fn take(&mut self, number: u64) -> bool {
        match self.window.bit(number) {
            Place::Inside(bit) => {
                let may = self.window.seen & !self.answered & bit != 0;
                self.answered |= bit;
                may
            }
            Place::Ahead(_) | Place::Behind => false,
        }
    }
}

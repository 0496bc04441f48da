//! The replay window (RFC 8613 §7.4, as in RFC 4303 §3.4.3): [`Arrivals`], and [`ReplayWindow`].

use alloc::vec::Vec;

/// The stored part of a replay window: the largest received number, and which of the
/// [`SIZE`](Self::SIZE) numbers up to it were received. Smaller ones count as received. An active
/// context has a window of [another size](super::Credentials::replay_window).
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
    end: u64,
    seen: u32,
}

impl ReplayWindow {
    /// Numbers in the window.
    pub const SIZE: u64 = 32;

    /// No number received.
    pub const EMPTY: Self = Self { end: 0, seen: 0 };

    /// Restores a window from its [`end`](Self::end) and [`seen`](Self::seen).
    #[must_use]
    pub const fn new(end: u64, seen: u32) -> Self {
        Self { end, seen }
    }

    pub(super) const fn up_to(number: u64) -> Self {
        Self { end: number.saturating_add(1), seen: u32::MAX }
    }

    /// Returns the largest received number plus one; 0 if there is none.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Returns the bitmap: bit `n` for the number `end - 1 - n`.
    #[must_use]
    pub const fn seen(self) -> u32 {
        self.seen
    }

    /// Returns `true` if the number is not known to be received.
    #[must_use]
    pub const fn is_new(&self, number: u64) -> bool {
        match self.bit(number) {
            Place::Ahead(_) => true,
            Place::Inside(bit) => self.seen & bit == 0,
            Place::Behind => false,
        }
    }

    /// Records the number of an authentic message.
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

enum Place {
    /// By this distance.
    Ahead(u64),
    /// At this bit.
    Inside(u32),
    Behind,
}

const fn shifted(bits: u32, distance: u64) -> u32 {
    if distance < ReplayWindow::SIZE { bits << distance } else { 0 }
}

/// Received requests, and request numbers used by responses. Each use forms a nonce (§5.2).
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    end: u64,
    size: u16,
    seen: Bits,
    answered: Bits,
}

impl Arrivals {
    /// No response can use the number of a request received earlier.
    pub(super) fn new(window: ReplayWindow, size: u16) -> Self {
        let mut seen = Bits(alloc::vec![u64::from(window.seen) | !u64::from(u32::MAX)]);
        seen.trim();
        Self { end: window.end, size, seen, answered: Bits::default() }
    }

    pub(super) fn window(&self) -> ReplayWindow {
        let [b0, b1, b2, b3, ..] = self.seen.word(0).to_le_bytes();
        ReplayWindow { end: self.end, seen: u32::from_le_bytes([b0, b1, b2, b3]) }
    }

    pub(super) fn is_new(&self, number: u64) -> bool {
        number >= self.end || self.place(number).is_some_and(|place| !self.seen.get(place))
    }

    pub(super) fn insert(&mut self, number: u64) {
        if number >= self.end {
            let end = number.saturating_add(1);
            let words = usize::from(self.size).div_ceil(WORD);
            self.seen.shift(end - self.end, words);
            self.answered.shift(end - self.end, words);
            self.end = end;
        }
        if let Some(place) = self.place(number) {
            self.seen.set(place, true);
            self.answered.set(place, false);
        }
    }

    /// Records that a response uses this request number; `false` if it may not.
    pub(super) fn take(&mut self, number: u64) -> bool {
        let Some(place) = self.place(number) else { return false };
        let may = self.seen.get(place) && !self.answered.get(place);
        self.answered.set(place, true);
        may
    }

    fn place(&self, number: u64) -> Option<usize> {
        let behind = self.end.checked_sub(number)?.checked_sub(1)?;
        (behind < u64::from(self.size)).then(|| usize::try_from(behind).ok()).flatten()
    }
}

const WORD: usize = u64::BITS as usize;

/// Bits by distance from the end of a window. Bits beyond the stored words are set.
#[derive(Clone, Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(u64::MAX)
    }

    fn get(&self, place: usize) -> bool {
        self.word(place / WORD) >> (place % WORD) & 1 == 1
    }

    fn set(&mut self, place: usize, value: bool) {
        let (index, bit) = (place / WORD, 1 << (place % WORD));
        if self.0.len() <= index {
            if value {
                return;
            }
            self.0.resize(index + 1, u64::MAX);
        }
        if let Some(word) = self.0.get_mut(index) {
            *word = if value { *word | bit } else { *word & !bit };
        }
        self.trim();
    }

    /// Shifts all bits away from the end; keeps at most `words` words.
    fn shift(&mut self, distance: u64, words: usize) {
        let distance = usize::try_from(distance).unwrap_or(usize::MAX).min(words * WORD);
        let (whole, part) = (distance / WORD, distance % WORD);
        let length = words.min(self.0.len() + whole + 1);
        self.0.resize(length, u64::MAX);
        for index in (0..length).rev() {
            let low = index.checked_sub(whole).map_or(0, |index| self.word(index));
            let lower = index.checked_sub(whole + 1).map_or(0, |index| self.word(index));
            let carried = if part == 0 { 0 } else { lower >> (WORD - part) };
            if let Some(word) = self.0.get_mut(index) {
                *word = low << part | carried;
            }
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&u64::MAX) {
            self.0.pop();
        }
    }
}

//! [`Marks`]: what is so of a peer, or is not, in one byte.

/// Something that is so of a peer, or is not.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// A Confirmable message was given up, and nothing has been heard since.
    Silent = 1,
    /// Its congestion state was seeded by its path, and no round-trip time of its own has been
    /// measured yet.
    Seeded = 2,
    /// It is to get a turn on its path.
    Waits = 4,
    /// It will never be reached again.
    Lost = 8,
    /// It has acknowledged a message of ours, or answered it, since its congestion state began.
    Answered = 16,
    /// Its source is validated.
    Validated = 32,
    /// It is idle, and in the list of peers that are unproven.
    Listed = 64,
}

/// All marks of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks(u8);

impl Marks {
    /// This is so.
    #[inline]
    pub(crate) fn has(self, mark: Mark) -> bool {
        self.0 & mark as u8 != 0
    }

    /// Makes it so, or not; the answer is whether it was before.
    #[inline]
    pub(crate) fn set(&mut self, mark: Mark, so: bool) -> bool {
        let was = self.has(mark);
        self.0 = if so { self.0 | mark as u8 } else { self.0 & !(mark as u8) };
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leaves_the_others_as_they_are() {
        let mut marks = Marks::default();
        assert!(!marks.set(Mark::Seeded, true) && !marks.set(Mark::Waits, true));
        assert!(marks.set(Mark::Seeded, false));
        assert_eq!([Mark::Silent, Mark::Seeded, Mark::Waits].map(|mark| marks.has(mark)), [false, false, true]);
    }
}

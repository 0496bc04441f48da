//! [`Marks`]: flags of a peer, in one byte.

/// A flag of a peer.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// A Confirmable message was given up, and nothing has arrived since.
    Silent = 1,
    /// Its congestion state was seeded by its path, and it has no RTT sample of its own yet.
    Seeded = 2,
    /// It waits for a turn on its path.
    Waits = 4,
    /// It will never be reachable again.
    Lost = 8,
    /// It has acknowledged or answered a message since its congestion state was created.
    Answered = 16,
    /// Its source address is validated.
    Validated = 32,
    /// It is in the list of idle unproven peers.
    Listed = 64,
}

/// All flags of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks(u8);

impl Marks {
    #[inline]
    pub(crate) fn has(self, mark: Mark) -> bool {
        self.0 & mark as u8 != 0
    }

    /// Sets or clears a flag; returns its previous value.
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

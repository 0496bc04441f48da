//! [`Shares`]: fair shares of a bounded resource for groups of sources, in constant memory.
//!
//! A group may hold at most as much as is free (the dynamic threshold of Choudhury and Hahne,
//! IEEE/ACM Transactions on Networking 6(2), 1998). One greedy group gets half; n of them leave
//! 1/(n + 1) of the whole. A new group finds room at once.
//!
//! Two rows of counters hold the amounts. A keyed hash assigns a group one cell in each row; the
//! lesser cell is the group's amount. Two groups are confused only if both cells coincide: one pair
//! in 2^20.
//!
//! ```
//! use conche_proto::shares::{Group, Shares};
//!
//! // In earnest the hashes of the two are keyed.
//! let (greedy, modest) = (Group::of(0x1234_5678_9abc_def0), Group::of(0x0fed_cba9_8765_4321));
//! let mut shares = Shares::default();
//! while shares.admits(greedy, 1, 100) {
//!     shares.take(greedy, 1);
//! }
//! assert!(shares.admits(modest, 50, 100), "half is left");
//! ```

use alloc::boxed::Box;

/// Cells per row.
pub(crate) const ROW: u32 = 1024;

/// Number of the oldest table entries compared when the largest holder among them is evicted.
pub(crate) const CANDIDATES: usize = 16;

/// A group of sources, identified by its two cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group([u16; 2]);

impl Group {
    /// No group.
    pub(crate) const NOBODY: Self = Self([u16::MAX; 2]);

    /// Returns the group for a hash. The hash must be keyed and uniform in all bits: otherwise an
    /// attacker could choose the cells of another group.
    #[must_use]
    #[inline]
    pub fn of(hash: u64) -> Self {
        let cell = |bits: u64| u16::try_from(bits % u64::from(ROW)).unwrap_or_default();
        Self([cell(hash), cell(hash >> 32)])
    }

    #[inline]
    pub(crate) fn cells(self) -> [usize; 2] {
        self.0.map(usize::from)
    }
}

/// The amounts of all groups. The rows are allocated on first use.
#[derive(Debug, Default)]
pub struct Shares {
    rows: Option<Box<[[u32; 2]; ROW as usize]>>,
    total: usize,
}

impl Shares {
    pub(crate) const fn new() -> Self {
        Self { rows: None, total: 0 }
    }

    /// Returns `true` if a group may take `amount` more of a total of `capacity`.
    #[must_use]
    #[inline]
    pub fn admits(&self, group: Group, amount: usize, capacity: usize) -> bool {
        self.held(group).saturating_add(amount) <= capacity.saturating_sub(self.total)
    }

    /// Adds `amount` to a group, admitted or not.
    #[inline]
    pub fn take(&mut self, group: Group, amount: usize) {
        let rows = self.rows.get_or_insert_with(|| Box::new([[0; 2]; ROW as usize]));
        for (row, cell) in group.cells().into_iter().enumerate() {
            rows[cell][row] = rows[cell][row].saturating_add(u32::try_from(amount).unwrap_or(u32::MAX));
        }
        self.total += amount;
    }

    /// Subtracts `amount` from a group.
    #[inline]
    pub fn give_back(&mut self, group: Group, amount: usize) {
        let Some(rows) = &mut self.rows else { return };
        for (row, cell) in group.cells().into_iter().enumerate() {
            rows[cell][row] = rows[cell][row].saturating_sub(u32::try_from(amount).unwrap_or(u32::MAX));
        }
        self.total = self.total.saturating_sub(amount);
    }

    #[inline]
    pub(crate) const fn total(&self) -> usize {
        self.total
    }

    /// Returns `true` unless `group` holds more than `other`. `besides` is what `group` holds
    /// elsewhere.
    pub(crate) fn may_displace(&self, group: Group, besides: usize, other: Group) -> bool {
        group == Group::NOBODY || self.excess(group, 1).saturating_add(besides) <= self.held(other)
    }

    /// Returns `true` if a group would be admitted after eviction of all entries counted in
    /// `displaceable`, including its own. If not, nothing should be evicted.
    pub(crate) fn could_admit(&self, group: Group, amount: usize, capacity: usize, displaceable: &Self) -> bool {
        let held = self.held(group).saturating_sub(displaceable.held(group));
        let free = capacity.saturating_sub(self.total.saturating_sub(displaceable.total));
        held.saturating_add(amount) <= free
    }

    /// Returns the group's amount minus the expected contribution of other groups to its cells when
    /// sources are forged at random and each holds `amount`: the mean of a cell plus four standard
    /// deviations.
    pub(crate) fn excess(&self, group: Group, amount: usize) -> usize {
        let mean = self.total / ROW as usize;
        self.held(group).saturating_sub(mean + 4 * (amount * mean).isqrt())
    }

    #[inline]
    pub(crate) fn held(&self, group: Group) -> usize {
        let [first, second] = group.cells();
        self.rows.as_ref().map_or(0, |rows| rows[first][0].min(rows[second][1]) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(n: u64) -> Group {
        Group::of((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn fill(shares: &mut Shares, group: Group) -> usize {
        let mut taken = 0;
        while shares.admits(group, 1, 1_200) {
            shares.take(group, 1);
            taken += 1;
        }
        taken
    }

    #[test]
    fn one_greedy_group_takes_half_and_the_next_half_of_the_rest() {
        let mut shares = Shares::default();
        assert_eq!([0, 1, 2].map(|n| fill(&mut shares, group(n))), [600, 300, 150]);
        assert!(shares.admits(group(3), 1, 1_200), "there is always room for another");
    }

    #[test]
    fn returned_shares_can_be_taken_again_without_a_residue() {
        let mut shares = Shares::default();
        for _ in 0..5 {
            let taken = fill(&mut shares, group(7));
            assert_eq!(taken, 600);
            shares.give_back(group(7), taken);
            assert_eq!((shares.total, shares.held(group(7))), (0, 0));
        }
    }
}

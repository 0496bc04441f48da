//! Figures of one cell at a time, which the reader picks.

use conche_results::CellId;

use crate::html::Html;
use crate::study::label;

/// The drawn cells, in order.
pub(super) struct Picked<T> {
    pub(super) cells: Vec<T>,
    /// Index of the cell shown first.
    pub(super) first: usize,
    /// Number of cells that are not drawn.
    pub(super) more: usize,
}

impl<T> Picked<T> {
    /// Keeps at most `most` cells of lowest rank.
    pub(super) fn new(mut cells: Vec<T>, most: usize, rank: impl Fn(&T) -> usize) -> Self {
        let more = cells.len().saturating_sub(most);
        if more > 0 {
            let mut ranks: Vec<usize> = cells.iter().map(&rank).collect();
            ranks.sort_unstable();
            let last = ranks[most - 1];
            cells.retain(|cell| rank(cell) <= last);
            cells.truncate(most);
        }
        let first = cells.iter().enumerate().min_by_key(|(place, cell)| (rank(cell), *place));
        Self { first: first.map_or(0, |(place, _)| place), cells, more }
    }

    /// Writes the sentence on cells that are not drawn.
    pub(super) fn omitted(&self, html: &mut Html) {
        if self.more > 0 {
            html.write(format_args!(" {} further cells, in which controllers differ less, are not drawn.", self.more));
        }
    }

    pub(super) fn options<'a, S: AsRef<str>>(&'a self, name: impl Fn(&'a T) -> S, html: &mut Html) {
        html.raw("<label>cell <select>");
        for (place, cell) in self.cells.iter().enumerate() {
            let selected = if place == self.first { " selected" } else { "" };
            html.write(format_args!("<option value={place}{selected}>")).text(name(cell).as_ref());
        }
        html.raw("</select></label>");
    }
}

/// Groups by cell, with its label, in the order of cells.
pub(super) fn by_cell<T>(all: &[T], cell: impl Fn(&T) -> &CellId) -> Vec<(String, Vec<&T>)> {
    let mut cells: Vec<(String, Vec<&T>)> = Vec::new();
    for one in all {
        let name = label(cell(one));
        match cells.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of_cell)) => of_cell.push(one),
            None => cells.push((name, vec![one])),
        }
    }
    cells.sort_by_cached_key(|(_, of_cell)| of_cell.first().map(|one| order(cell(one))));
    cells
}

/// Returns a key that sorts cells, numbers by their value.
fn order(CellId { part, axes, mix, .. }: &CellId) -> impl Ord + use<> {
    let point = |point: &String| (point.parse().unwrap_or(u64::MAX), point.clone());
    (part.clone(), axes.values().map(point).collect::<Vec<_>>(), mix.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_lowest_rank_are_kept_in_order() {
        let ranks = [("a", 3), ("b", 0), ("c", 2), ("d", 0)];
        let picked = Picked::new(ranks.to_vec(), 3, |(_, rank)| *rank);
        let names: Vec<&str> = picked.cells.iter().map(|(name, _)| *name).collect();
        assert_eq!((names, picked.first, picked.more), (vec!["b", "c", "d"], 0, 1));
    }
}

//! The cells in which controllers differ most, shown first.

use std::collections::HashMap;

use conche_lab::table::number;

use crate::html::Html;
use crate::study::Study;
use crate::titles;
use crate::unit::symbol;
use crate::values::{Contrast, SchemeValue, contrasts, main_columns};

/// Cells ranked by the first main value.
pub(super) struct Telling<'a> {
    column: &'a str,
    contrasts: Vec<Contrast<'a>>,
    ranks: HashMap<&'a str, usize>,
    of_timelines: HashMap<&'a str, usize>,
}

impl<'a> Telling<'a> {
    pub(super) fn of(study: &'a Study, cells: &'a [SchemeValue<'a>]) -> Self {
        let column = main_columns(study, cells).into_iter().next().unwrap_or_default();
        let contrasts = contrasts(cells, column);
        let ranks: HashMap<&str, usize> = contrasts.iter().zip(0..).map(|(of, rank)| (of.cell, rank)).collect();
        let rank =
            |of: &'a SchemeValue<'a>| Some((study.cells.get(&of.value.row)?.as_str(), *ranks.get(of.cell.as_str())?));
        let mut of_timelines: HashMap<&str, usize> = HashMap::new();
        for (cell, rank) in cells.iter().filter_map(rank) {
            let known = of_timelines.entry(cell).or_insert(rank);
            *known = rank.min(*known);
        }
        Self { column, contrasts, ranks, of_timelines }
    }

    /// Returns a cell's rank, from 0; unknown ones come last.
    pub(super) fn rank(&self, cell: &str) -> usize {
        self.ranks.get(cell).copied().unwrap_or(usize::MAX)
    }

    pub(super) fn rank_of_timelines(&self, cell: &str) -> usize {
        self.of_timelines.get(cell).copied().unwrap_or(usize::MAX)
    }

    pub(super) fn write(&self, study: &Study, html: &mut Html) {
        let Some(Contrast { high, low, .. }) = self.contrasts.first() else { return };
        let show = |of: &SchemeValue<'_>| {
            let number = format!("{} {}", number(of.value.measured, of.value.unit), symbol(of.value.unit));
            format!("{} with {}", number.trim_end(), of.scheme)
        };
        let words = titles::of_column(study, self.column);
        html.raw("<p class=telling>Controllers differ most");
        if !high.labels.is_empty() {
            html.raw(" in the cell <b>").text(&high.place()).raw("</b>");
        }
        html.text(&format!(". {words}: {}, {}.", show(high), show(low))).raw("</p>\n");
    }
}

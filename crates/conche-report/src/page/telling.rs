//! The best controllers, and the cells with the largest differences, shown first.

use std::cmp::Ordering;
use std::collections::HashMap;

use conche_lab::scenario::Better;
use conche_lab::table::number;

use crate::html::Html;
use crate::study::Study;
use crate::titles;
use crate::unit::symbol;
use crate::values::{self, Contrast, SchemeValue, better, distinct, is_below, primary_columns};

/// More controllers are counted.
const MOST_NAMES: usize = 3;

/// Cells ranked by the primary value with the largest difference.
pub(super) struct Telling<'a> {
    columns: Vec<&'a str>,
    cells: &'a [SchemeValue<'a>],
    contrasts: Vec<Contrast<'a>>,
    ranks: HashMap<&'a str, usize>,
    of_timelines: HashMap<&'a str, usize>,
}

/// The controllers that have the best value of a column, or one whose interval overlaps it, in most
/// cells.
struct Leaders<'a> {
    column: &'a str,
    /// Empty if all are.
    schemes: Vec<&'a str>,
    better: Better,
    cells: usize,
    of: usize,
}

impl<'a> Telling<'a> {
    pub(super) fn of(study: &'a Study, cells: &'a [SchemeValue<'a>]) -> Self {
        let columns = primary_columns(study, cells);
        let mut contrasts: Vec<Contrast<'a>> = Vec::new();
        for of_column in columns.iter().map(|column| values::contrasts(cells, column)) {
            let is_more = match (of_column.first(), contrasts.first()) {
                (Some(one), Some(other)) => one.order(other).is_lt(),
                (one, _) => one.is_some(),
            };
            if is_more {
                contrasts = of_column;
            }
        }
        let ranks: HashMap<&str, usize> = contrasts.iter().zip(0..).map(|(of, rank)| (of.cell, rank)).collect();
        let rank =
            |of: &'a SchemeValue<'a>| Some((study.cells.get(&of.value.row)?.as_str(), *ranks.get(of.cell.as_str())?));
        let mut of_timelines: HashMap<&str, usize> = HashMap::new();
        for (cell, rank) in cells.iter().filter_map(rank) {
            let known = of_timelines.entry(cell).or_insert(rank);
            *known = rank.min(*known);
        }
        Self { columns, cells, contrasts, ranks, of_timelines }
    }

    pub(super) fn rank(&self, cell: &str) -> usize {
        self.ranks.get(cell).copied().unwrap_or(usize::MAX)
    }

    pub(super) fn rank_of_timelines(&self, cell: &str) -> usize {
        self.of_timelines.get(cell).copied().unwrap_or(usize::MAX)
    }

    pub(super) fn first(&self) -> Option<&Contrast<'a>> {
        self.contrasts.first()
    }

    pub(super) fn write(&self, study: &Study, html: &mut Html) {
        let leaders: Vec<Leaders<'_>> = self.columns.iter().filter_map(|column| self.leaders(study, column)).collect();
        let place = |of: &Leaders<'_>| {
            let is = if of.better == Better::Lower { "lowest" } else { "highest" };
            let each = if of.schemes.len() > 1 { " each" } else { "" };
            let words = titles::inline(&titles::of_column(study, of.column));
            match of.of {
                1 => format!("{words} ({is})"),
                cells => format!("{words} ({is} in {} of {cells} cells{each})", of.cells),
            }
        };
        let schemes = |of: &Leaders<'_>| match of.schemes.split_at_checked(MOST_NAMES) {
            Some((first, more @ [_, ..])) => format!("{} and {} more", first.join(", "), more.len()),
            _ => of.schemes.join(", "),
        };
        let (ahead, even): (Vec<_>, Vec<_>) = leaders.iter().partition(|of| !of.schemes.is_empty());
        if !leaders.is_empty() {
            html.raw("<p class=telling>Best in most cells, also beside others whose 95 % intervals overlap: ");
        }
        match &ahead[..] {
            [first, _, ..] if even.is_empty() && ahead.iter().all(|of| of.schemes == first.schemes) => {
                let places: Vec<String> = ahead.iter().map(|of| place(of)).collect();
                let all = if ahead.len() == 2 { "in both primary values" } else { "in all primary values" };
                html.raw("<b>").text(&schemes(first)).raw("</b> ").text(&format!("{all}, {}", places.join(", ")));
            }
            _ => {
                for (number, of) in ahead.iter().enumerate() {
                    html.raw(if number > 0 { "; <b>" } else { "<b>" }).text(&schemes(of)).raw("</b> in ");
                    html.text(&place(of));
                }
            }
        }
        if !even.is_empty() {
            let words = even.iter().map(|of| titles::inline(&titles::of_column(study, of.column)));
            let words = words.collect::<Vec<_>>().join(", ");
            html.raw(if ahead.is_empty() { "none" } else { "; none" }).text(&format!(" in {words}"));
        }
        html.raw(if leaders.is_empty() { "" } else { ".</p>\n" });
        self.write_first(study, html);
    }

    fn write_first(&self, study: &Study, html: &mut Html) {
        let Some(Contrast { cell, high, .. }) = self.first() else { return };
        let first = high.value.column.as_str();
        html.raw("<p class=telling>Controllers differ most");
        if !high.labels.is_empty() {
            html.raw(" in the cell <b>").text(&high.place()).raw("</b>");
        }
        let show = |of: &SchemeValue<'_>| {
            let number = format!("{} {}", number(of.value.measured, of.value.unit), symbol(of.value.unit));
            format!("{} with {}", number.trim_end(), of.scheme)
        };
        let by_value = |one: &&SchemeValue<'_>, other: &&SchemeValue<'_>| -> Ordering {
            one.value.measured.total_cmp(&other.value.measured)
        };
        let others = self.columns.iter().copied().filter(|column| *column != first);
        for column in std::iter::once(first).chain(others) {
            let is_here = |of: &&SchemeValue<'_>| of.is_alone() && of.cell == *cell && of.value.column == column;
            let here = || self.cells.iter().filter(is_here);
            let Some((high, low)) = here().max_by(by_value).zip(here().min_by(by_value)) else { continue };
            let words = titles::of_column(study, column);
            if column == first || is_below(low.value, high.value) {
                html.text(&format!(". {words}: {}, {}", show(high), show(low)));
            }
        }
        html.raw(".</p>\n");
    }

    fn leaders(&self, study: &Study, column: &'a str) -> Option<Leaders<'a>> {
        let of_column: Vec<&SchemeValue<'a>> =
            self.cells.iter().filter(|of| of.is_alone() && of.value.column == column).collect();
        let better = better(study, &of_column.first()?.value.item, column)?;
        let mut by_cell: HashMap<&str, Vec<&SchemeValue<'a>>> = HashMap::new();
        for of in &of_column {
            by_cell.entry(&of.cell).or_default().push(of);
        }
        // Alone, a controller is not better than others.
        by_cell.retain(|_, of| of.iter().any(|other| other.scheme != of[0].scheme));
        let mut wins: HashMap<&str, usize> = HashMap::new();
        for of_cell in by_cell.values() {
            let by_value = |one: &&&SchemeValue<'_>, other: &&&SchemeValue<'_>| {
                one.value.measured.total_cmp(&other.value.measured)
            };
            let best = match better {
                Better::Lower => of_cell.iter().min_by(by_value),
                Better::Higher => of_cell.iter().max_by(by_value),
            };
            let Some(best) = best else { continue };
            let is_best = |of: &&&SchemeValue<'_>| !is_below(of.value, best.value) && !is_below(best.value, of.value);
            for scheme in distinct(of_cell.iter().filter(is_best).map(|of| of.scheme)) {
                *wins.entry(scheme).or_default() += 1;
            }
        }
        let cells = wins.values().copied().max()?;
        let all = distinct(of_column.iter().map(|of| of.scheme));
        let mut schemes = all.clone();
        schemes.retain(|scheme| wins.get(scheme) == Some(&cells));
        if schemes.len() == all.len() {
            schemes.clear();
        }
        Some(Leaders { column, schemes, better, cells, of: by_cell.len() })
    }
}

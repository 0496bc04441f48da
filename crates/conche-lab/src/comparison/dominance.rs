//! Dominance: a controller is better than another one in every metric of a point.
//!
//! A *point* is a row with all its primary metrics: several cells. In a point, a controller
//! dominates another if, in each metric, the ratio of the other to it is at least 1.02 and apart
//! from 1. Without the intervals, most of 23 equal controllers would be dominated by accident.
//! A metric is left out if both values count as the floor. If a
//! value is missing, or with one replication, neither dominates.

use conche_results::comparison::Dominated;

use super::{CellComparison, Ratios};

/// Minimum ratio in each metric.
const LEAST: f64 = 1.02;

/// The cells of a row.
pub(super) struct Point<'a>(Vec<&'a CellComparison>);

/// Groups cells by scenario and row, in the order of their first cells.
pub(super) fn points<'a>(cells: impl IntoIterator<Item = &'a CellComparison>) -> Vec<Point<'a>> {
    let mut points: Vec<Point<'_>> = Vec::new();
    for cell in cells {
        let is_row = |other: &CellComparison| other.scenario == cell.scenario && other.name == cell.name;
        match points.iter_mut().find(|Point(cells)| is_row(cells[0])) {
            Some(Point(cells)) => cells.push(cell),
            None => points.push(Point(vec![cell])),
        }
    }
    points
}

impl Point<'_> {
    /// Returns the controllers that dominate this one, if any.
    pub(super) fn dominated(&self, controller: &str) -> Option<Dominated> {
        let first = self.0.first()?;
        let names = first.entries.iter().map(|entry| &entry.controller);
        let by: Vec<String> = names.filter(|other| self.is_dominated(controller, other)).cloned().collect();
        (!by.is_empty()).then(|| Dominated { scenario: first.scenario.clone(), cell: first.name.clone(), by })
    }

    fn is_dominated(&self, controller: &str, by: &str) -> bool {
        let mut is_decided = false;
        for cell in &self.0 {
            let Some(ratios) = Ratios::of_two(cell, controller, by) else { return false };
            if ratios.are_at_the_floor() {
                continue;
            }
            let Some((ratio, Some(interval))) = ratios.estimate(0) else { return false };
            if ratio < LEAST || interval.low <= 1.0 {
                return false;
            }
            is_decided = true;
        }
        is_decided
    }
}

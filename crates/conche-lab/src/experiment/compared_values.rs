//! Selects values to compare controllers by.

use super::cells::View;
use super::claims::Series;
use crate::comparison::{Cell, Entry};
use crate::scenario::{Better, Value};

#[derive(Clone, Debug)]
pub(super) struct ComparedValue {
    /// Row without the scheme.
    cell: String,
    scheme: String,
    better: Better,
    replications: usize,
}

impl ComparedValue {
    /// `None` for a value that is not primary, covers a phase, or has schemes on one network.
    pub(super) fn of(view: View<'_>, value: &Value, replications: usize) -> Option<Self> {
        let is_compared = value.primary && view.phase.is_none() && view.runs.cell.mix.is_none();
        let better = value.better().filter(|_| is_compared)?;
        let row = view.runs.cell.row(value.row.as_deref(), "");
        let labels: Vec<&str> = row.split('/').filter(|label| !label.is_empty()).collect();
        Some(Self { cell: labels.join("/"), scheme: view.scheme.to_owned(), better, replications })
    }
}

pub(super) fn cells(series: &[Series], schemes: &[&str]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for Series { figure, per_replication, compared } in series {
        let Some(ComparedValue { cell, scheme, better, replications }) = compared else { continue };
        let is_it = |known: &Cell| known.name == *cell && known.metric == figure.column;
        let place = cells.iter().position(is_it).unwrap_or_else(|| {
            cells.push(Cell {
                paper: figure.paper.clone(),
                name: cell.clone(),
                metric: figure.column.clone(),
                unit: figure.unit,
                better: *better,
                entries: schemes.iter().map(|scheme| Entry::missing(scheme)).collect(),
            });
            cells.len() - 1
        });
        // An incomplete series covers other replications.
        let is_whole = per_replication.len() == *replications && per_replication.iter().all(|value| value.is_finite());
        if let Some(entry) = cells[place].entries.iter_mut().find(|entry| entry.controller == *scheme) {
            entry.value = Some(figure.measured).filter(|value| is_whole && value.is_finite());
            entry.per_replication = if is_whole { per_replication.clone() } else { Vec::new() };
        }
    }
    cells
}

//! A scenario as it was read, of which cells are made.

use serde::Deserialize;
use toml::Table;

use super::sweep::{SCHEME, combinations};
use super::{AtLeastOne, Axis, Cell, Label, Mix, Scenario, ScenarioError, path, select};
use crate::experiment::Effort;

/// The text of a scenario, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    table: Table,
    scenario: Scenario,
    effort: Effort,
}

impl Document {
    /// Reads a scenario and checks it and all its cells.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        // Read from the text first, so that an error shows its place.
        let mut document =
            Self { scenario: toml::from_str(text)?, table: toml::from_str(text)?, effort: Effort::default() };
        document.scenario = document.concrete(&document.table)?;
        document.cells()?;
        Ok(document)
    }

    /// What it says.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The same with another value at a path such as `nodes.client.count`.
    ///
    /// # Errors
    /// If the path leads nowhere, or the value makes no sense there.
    pub fn with(&self, path: &str, value: impl Into<toml::Value>) -> Result<Self, ScenarioError> {
        let mut changed = self.clone();
        path::set(&mut changed.table, path, value.into())?;
        changed.scenario = self.concrete(&changed.table)?;
        changed.cells()?;
        Ok(changed)
    }

    /// Changes how much is run, and of which schemes.
    ///
    /// # Errors
    /// If a controller is unknown, or what the scenario says of a first impression makes no sense.
    pub fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        if effort.quick {
            for (path, value) in &self.scenario.quick.set {
                path::set(&mut self.table, path, value.clone())?;
            }
        }
        self.effort = effort.clone();
        self.scenario = self.concrete(&self.table)?;
        self.cells().map(drop)
    }

    /// The cells, the last axis changing fastest. A mix has none where there are fewer clients than schemes.
    ///
    /// # Errors
    /// If a point of an axis makes no sense.
    pub fn cells(&self) -> Result<Vec<Cell>, ScenarioError> {
        let place = self.scenario.sweep.iter().position(|axis| axis.name == SCHEME);
        let (before, after) = match place {
            None => (&[] as &[Axis], &self.scenario.sweep[..]),
            Some(place) => (&self.scenario.sweep[..place], &self.scenario.sweep[place + 1..]),
        };
        let alone = self.scenario.schemes.iter().map(|scheme| (None, vec![scheme.name.clone()]));
        let mixed = self.scenario.mixes.iter().map(|Mix { name, schemes }| (Some(name.clone()), schemes.clone()));
        let runs: Vec<_> = alone.chain(mixed).collect();
        let mut cells = Vec::new();
        for outer in combinations(before) {
            for (mix, schemes) in &runs {
                for inner in combinations(after) {
                    let points = [outer.clone(), inner].concat();
                    let mut table = self.table.clone();
                    points.iter().try_for_each(|(axis, point)| point.apply(axis, &mut table))?;
                    let labels = points
                        .iter()
                        .map(|(axis, point)| Label { axis: axis.name.clone(), point: point.name.clone() })
                        .collect();
                    let scenario = self.concrete(&table).map_err(|error| at(error, &points))?;
                    let cell = Cell { scenario, labels, schemes: schemes.clone(), mix: mix.clone() };
                    cells.extend(Some(cell).filter(Cell::has_clients_for_all));
                }
            }
        }
        Ok(cells)
    }

    /// What a changed table says, under the effort that this document was given.
    fn concrete(&self, table: &Table) -> Result<Scenario, ScenarioError> {
        let mut table = table.clone();
        path::complete_changes(&mut table);
        let mut scenario = Scenario::deserialize(toml::Value::Table(table))?;
        let number = self.effort.replications(scenario.replications.get(), scenario.quick.replications.get());
        scenario.replications = AtLeastOne::new(number).unwrap_or(scenario.replications);
        scenario.seed = self.effort.seed.unwrap_or(scenario.seed);
        if !self.effort.controllers.is_empty() {
            let schemes = select(&scenario.schemes, &self.effort.controllers)?;
            let known = |name: &String| schemes.iter().any(|scheme| scheme.name == *name);
            scenario.mixes.retain(|mix| mix.schemes.iter().all(known));
            scenario.schemes = schemes;
        }
        scenario.validate()?;
        Ok(scenario)
    }
}

/// The error with the cell that it is of.
fn at(error: ScenarioError, points: &[(&Axis, super::Point)]) -> ScenarioError {
    let points: Vec<_> = points.iter().map(|(axis, point)| format!("{} {}", axis.name, point.name)).collect();
    if points.is_empty() {
        error
    } else {
        ScenarioError::new(format!("sweep ({})", points.join(", ")), error.to_string())
    }
}

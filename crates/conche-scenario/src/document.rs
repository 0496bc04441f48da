//! [`Document`]: a scenario as read, and the source of its cells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, Deserializer};
use toml::{Spanned, Table};

use super::sweep::{SCHEME, combinations};
use super::{
    AtLeastOne, Axis, Cell, Effort, ErrorSpan, FileError, Files, Label, Mix, NonEmpty, Point, Scenario, ScenarioError,
    files, matches_any, part, path, select,
};

/// A scenario with its parsed text.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    table: Table,
    scenario: Scenario,
    /// Its parts as complete scenarios; without parts, the scenario itself.
    sections: Vec<Scenario>,
    cells: Vec<Cell>,
    effort: Effort,
    /// The labels of all cells on the axes that [`Effort::only`] selects by.
    offered: BTreeMap<String, BTreeSet<String>>,
}

impl Document {
    /// Reads and checks a scenario with all its cells. `file` returns the texts of files it names.
    ///
    /// # Errors
    /// The problem, its place, and a valid alternative.
    pub fn read(text: &str, file: Files<'_>) -> Result<Self, ScenarioError> {
        // The text is parsed first, because errors in a table have no span.
        let parsed = DeTable::parse(text)?;
        if let Some(span) = parsed.get_ref().values().find_map(first_date) {
            return Err(ScenarioError::in_text(span, "a scenario has no dates; write a text in quotation marks"));
        }
        let mut table = Table::deserialize(Deserializer::from(parsed.clone())).map_err(out_of_range)?;
        let scenario = Scenario::deserialize(Deserializer::from(parsed))?;
        files::resolve(&mut table, file)?;
        let (sections, cells, effort, offered) = Default::default();
        let mut document = Self { scenario, table, sections, cells, effort, offered };
        document.reread()?;
        Ok(document)
    }

    /// Reads a scenario without files.
    ///
    /// # Errors
    /// The problem, its place, and a valid alternative.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        Self::read(text, &|_| Err(FileError::NotFound))
    }

    /// Returns the scenario without the overrides of its parts; see [`Document::sections`].
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns its parts as complete scenarios; without parts, the scenario itself.
    #[must_use]
    pub fn sections(&self) -> &[Scenario] {
        &self.sections
    }

    /// Returns the names of its axes, except the axis of schemes.
    #[must_use]
    pub fn axes(&self) -> Vec<String> {
        let axes = self.sections.iter().flat_map(|section| &section.sweep).map(|axis| &axis.name);
        axes.filter(|name| *name != SCHEME).cloned().collect()
    }

    /// Returns a copy with another value at a path such as `nodes.client.count`.
    ///
    /// # Errors
    /// If the path does not exist, or the value is invalid.
    pub fn with(&self, path: &str, value: impl Into<toml::Value>) -> Result<Self, ScenarioError> {
        let mut changed = self.clone();
        path::set(&mut changed.table, path, value.into())?;
        changed.reread()?;
        Ok(changed)
    }

    /// Changes the number of runs, and the schemes. One matching label suffices; see
    /// [`Document::check_labels`] for the others.
    ///
    /// # Errors
    /// If a controller is unknown, a value of `set` or `quick` is invalid, or no cell is selected.
    pub fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        if effort.quick {
            for (path, value) in &self.scenario.quick.set {
                path::set(&mut self.table, path, value.clone())?;
            }
        }
        for (path, value) in &effort.set {
            path::set(&mut self.table, path, path::value(value))?;
        }
        self.effort = effort.clone();
        self.reread()
    }

    /// Returns the cells, the last axis changing fastest. A mix with fewer clients than schemes has
    /// none. The cells of all parts are ordered by scheme unless the axis of schemes is listed
    /// elsewhere, and then by part.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Checks that each label of [`Effort::only`] occurs in a cell of these documents.
    ///
    /// # Errors
    /// The first unknown label, and the known ones.
    pub fn check_labels<'a>(all: impl IntoIterator<Item = &'a Self>) -> Result<(), ScenarioError> {
        let mut wanted = BTreeSet::new();
        let mut offered: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for document in all {
            wanted.extend(
                document.effort.only.iter().flat_map(|(axis, labels)| labels.iter().map(move |label| (axis, label))),
            );
            for (axis, labels) in &document.offered {
                offered.entry(axis).or_default().extend(labels.iter().cloned());
            }
        }
        for (axis, label) in wanted {
            let (label, known) = (std::slice::from_ref(label), offered.entry(axis).or_default());
            if !known.iter().any(|known| matches_any(label, known)) {
                return Err(nothing_on(axis, label, known));
            }
        }
        Ok(())
    }

    /// Reads and checks everything again after a change of the table or the effort.
    fn reread(&mut self) -> Result<(), ScenarioError> {
        self.scenario = self.adjusted(self.table.clone())?;
        let (mut sections, mut cells) = (Vec::new(), Vec::new());
        let tables = part::sections(&self.table)?;
        for (part, table) in &tables {
            let within = |error: ScenarioError| error.within_part(part.as_deref());
            let section = self.concrete(table.clone()).map_err(within)?;
            cells.extend(self.cells_of(part.as_deref(), table, &section).map_err(within)?);
            sections.push(section);
        }
        let of_all = |axis: &String| cells.iter().flat_map(|(_, cell)| cell.labels_on(axis)).collect();
        self.offered = self.effort.only.iter().map(|(axis, _)| (axis.clone(), of_all(axis))).collect();
        self.cells = self.chosen(cells, &sections)?;
        self.sections = sections;
        // Plots are checked last: a wrong axis is not an error of the plots over it.
        let (figures, items) = (&self.scenario.figures, &self.scenario.items);
        figures.iter().try_for_each(|figure| figure.validate(items, &self.sections))
    }

    /// Returns the cells of a part, each with the index of its scheme or mix.
    fn cells_of(
        &self,
        part: Option<&str>,
        table: &Table,
        section: &Scenario,
    ) -> Result<Vec<(usize, Cell)>, ScenarioError> {
        let place = section.sweep.iter().position(|axis| axis.name == SCHEME);
        let (before, after) = match place {
            None => (&[] as &[Axis], &section.sweep[..]),
            Some(place) => (&section.sweep[..place], &section.sweep[place + 1..]),
        };
        let is_compared = section.only_schemes.is_empty() && section.values.iter().any(|value| value.primary);
        if self.effort.compares && !is_compared {
            return Ok(Vec::new());
        }
        let alone = section.schemes.iter().map(|scheme| (None, vec![scheme.name.clone()]));
        let mixed = section.mixes.iter().map(|Mix { name, schemes }| (Some(name.clone()), schemes.clone()));
        let runs: Vec<_> = alone.chain(mixed).collect();
        let mut cells = Vec::new();
        for outer in combinations(before) {
            let inner = combinations(after).into_iter().map(|inner| self.at(table, [outer.clone(), inner].concat()));
            let inner = inner.collect::<Result<Vec<_>, _>>()?;
            for (run, (mix, schemes)) in runs.iter().enumerate() {
                for (labels, scenario) in &inner {
                    let (scenario, part) = (Arc::clone(scenario), part.map(str::to_owned));
                    let cell =
                        Cell { scenario, part, labels: labels.clone(), schemes: schemes.clone(), mix: mix.clone() };
                    cells.extend(Some((run, cell)).filter(|(_, cell)| cell.has_clients_for_all()));
                }
            }
        }
        Ok(cells)
    }

    /// Returns the scenario of a table at these points, independently of schemes.
    fn at(&self, table: &Table, points: Vec<(&Axis, Point)>) -> Result<(Vec<Label>, Arc<Scenario>), ScenarioError> {
        let mut table = table.clone();
        points.iter().try_for_each(|(axis, point)| point.apply(axis, &mut table))?;
        let scenario = self.concrete(table).map_err(|error| of_cell(error, &points))?;
        let label = |(axis, point): (&Axis, Point)| Label { axis: axis.name.clone(), point: point.name };
        Ok((points.into_iter().map(label).collect(), Arc::new(scenario)))
    }

    /// Returns the schemes and mixes to run, in order.
    fn chosen(&self, mut cells: Vec<(usize, Cell)>, sections: &[Scenario]) -> Result<Vec<Cell>, ScenarioError> {
        if self.effort.compares && cells.is_empty() {
            return Err(nothing_compared(sections));
        }
        for (axis, wanted) in &self.effort.only {
            let known: BTreeSet<_> = cells.iter().flat_map(|(_, cell)| cell.labels_on(axis)).collect();
            if !known.iter().any(|label| matches_any(wanted, label)) {
                return Err(nothing_on(axis, wanted, &known));
            }
            cells.retain(|(_, cell)| cell.labels_on(axis).iter().any(|label| matches_any(wanted, label)));
        }
        let is_placed = sections.iter().any(|section| section.sweep.iter().any(|axis| axis.name == SCHEME));
        if !is_placed {
            cells.sort_by_key(|(run, _)| *run);
        }
        Ok(cells.into_iter().map(|(_, cell)| cell).collect())
    }

    /// Returns the scenario of a part's table.
    fn concrete(&self, table: Table) -> Result<Scenario, ScenarioError> {
        let scenario = self.adjusted(table)?;
        scenario.validate()?;
        Ok(scenario)
    }

    /// Returns the scenario of a table, under this document's effort.
    fn adjusted(&self, mut table: Table) -> Result<Scenario, ScenarioError> {
        path::complete_changes(&mut table);
        let mut scenario: Scenario = table.try_into()?;
        let number = self.effort.replications(scenario.replications.get(), scenario.quick.replications.get());
        scenario.replications = AtLeastOne::new(number).unwrap_or(scenario.replications);
        scenario.seed = self.effort.seed.unwrap_or(scenario.seed);
        if self.effort.compares {
            // Claims are about the scenario's schemes, not about controllers of the same names.
            scenario.mixes.clear();
            scenario.claims.clear();
        }
        if !scenario.only_schemes.is_empty() {
            scenario.known_schemes("only_schemes", &scenario.only_schemes)?;
            let only = scenario.schemes.iter().filter(|scheme| scenario.only_schemes.contains(&scheme.name));
            scenario.schemes = NonEmpty::new(only.cloned().collect()).unwrap_or(scenario.schemes);
        } else if let Some(schemes) = select(&scenario.schemes, &self.effort)? {
            if !self.effort.controllers.is_empty() {
                let known = |name: &String| schemes.iter().any(|scheme| scheme.name == *name);
                scenario.mixes.retain(|mix| mix.schemes.iter().all(known));
            }
            scenario.schemes = schemes;
        }
        Ok(scenario)
    }
}

/// Returns the span of the first date in a value.
fn first_date(value: &Spanned<DeValue<'_>>) -> Option<ErrorSpan> {
    match value.get_ref() {
        DeValue::Datetime(_) => Some(value.span()),
        DeValue::Array(values) => values.iter().find_map(first_date),
        DeValue::Table(table) => table.values().find_map(first_date),
        _ => None,
    }
}

/// Reports a number that is valid TOML but does not fit a [`Table`].
fn out_of_range(error: toml::de::Error) -> ScenarioError {
    let limits = "numbers go from -2^63 to 2^63 - 1, and with a decimal point to 1.7e308";
    error.span().map_or_else(|| error.into(), |span| ScenarioError::in_text(span, limits))
}

/// Returns the error that no value compares controllers.
fn nothing_compared(sections: &[Scenario]) -> ScenarioError {
    let of_all = || sections.iter().filter(|section| section.only_schemes.is_empty());
    let columns: BTreeSet<&str> =
        of_all().flat_map(|section| &section.values).map(|value| value.column.as_str()).collect();
    let problem = match of_all().next() {
        None => "all parts have schemes of their own, `only_schemes`".to_owned(),
        Some(_) => {
            let columns: Vec<&str> = columns.into_iter().collect();
            let name = sections.first().map(|section| section.name.as_str()).unwrap_or_default();
            format!("none of {name} is primary; say `primary = true` of those that count, of {}", columns.join(", "))
        }
    };
    ScenarioError::new("values", problem)
}

/// Returns the error that no cell has the selected labels.
fn nothing_on(axis: &str, wanted: &[String], known: &BTreeSet<String>) -> ScenarioError {
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    let problem = match known[..] {
        [] => "no run varies it".to_owned(),
        _ => format!("no run has {}; there are {}", wanted.join(" or "), known.join(", ")),
    };
    ScenarioError::new(axis, problem)
}

/// Adds the cell to an error.
fn of_cell(error: ScenarioError, points: &[(&Axis, Point)]) -> ScenarioError {
    let points: Vec<_> = points.iter().map(|(axis, point)| format!("{} {}", axis.name, point.name)).collect();
    if points.is_empty() {
        error
    } else {
        ScenarioError::new(format!("sweep ({})", points.join(", ")), error.to_string())
    }
}

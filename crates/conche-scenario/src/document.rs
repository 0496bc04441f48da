//! [`Document`]: a parsed scenario with its cells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_path_to_error::Segment;
use toml::de::{DeTable, DeValue, Deserializer};
use toml::{Spanned, Table, Value as Toml};

use super::sweep::{SCHEME, combinations, within_points};
use super::{
    AtLeastOne, Axis, Cell, Change, Controllers, Effort, ErrorSpan, FileError, Files, Label, Link, MAX_REPLICATIONS,
    Mix, Nat, Nodes, NonEmpty, Phase, Point, Radio, Scenario, ScenarioError, Traffic, Value, distinct, ensure, files,
    matches_any, path, select,
};
use crate::units::Span;

/// A scenario with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    table: Table,
    scenario: Scenario,
    sections: Vec<Scenario>,
    cells: Vec<Cell>,
    effort: Effort,
    offered: BTreeMap<String, BTreeSet<String>>,
}

impl Document {
    /// Reads and checks a scenario and its cells; `file` returns the files it names, and
    /// `controllers` are those it can name.
    ///
    /// # Errors
    /// The problem, its place, and an alternative.
    pub fn read(text: &str, file: Files<'_>, controllers: &Controllers) -> Result<Self, ScenarioError> {
        // Errors in a table have no span.
        let parsed = DeTable::parse(text)?;
        if let Some(span) = parsed.get_ref().values().find_map(first_date) {
            return Err(ScenarioError::in_text(span, "a scenario has no dates; write a text in quotation marks"));
        }
        let mut table = Table::deserialize(Deserializer::from(parsed)).map_err(out_of_range)?;
        files::resolve(&mut table, file)?;
        let scenario = read(table.clone(), controllers).map_err(|error| error.located(text).shown_in_text())?;
        let (sections, cells, effort, offered) = Default::default();
        let mut document = Self { scenario, table, sections, cells, effort, offered };
        document.reread().map_err(|error| error.located(text))?;
        Ok(document)
    }

    /// Reads a scenario without files, with conche's controllers.
    ///
    /// # Errors
    /// As [`Document::read`].
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        Self::read(text, &|_| Err(FileError::NotFound), &Controllers::new())
    }

    /// Returns the scenario without parts.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the parts as complete scenarios; without parts, the scenario.
    #[must_use]
    pub fn sections(&self) -> &[Scenario] {
        &self.sections
    }

    /// Returns the axes' labels in all parts, without schemes.
    #[must_use]
    pub fn axes(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let mut axes: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let all = self.sections.iter().flat_map(|section| &section.sweep).filter(|axis| axis.name != SCHEME);
        for axis in all {
            axes.entry(&axis.name).or_default().extend(axis.points().into_iter().map(|point| point.name));
        }
        axes
    }

    /// Returns a copy with a value at a path such as `nodes.client.count`.
    ///
    /// # Errors
    /// If the path does not exist, or the value is invalid.
    pub fn with(&self, path: &str, value: impl Into<toml::Value>) -> Result<Self, ScenarioError> {
        let mut changed = self.clone();
        path::set(&mut changed.table, path, value.into())?;
        changed.reread()?;
        Ok(changed)
    }

    /// Applies an effort.
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
            self.check_effect(path, value)?;
            path::set(&mut self.table, path, path::value(value))?;
        }
        self.effort = effort.clone();
        self.reread()
    }

    /// Checks that a value set by path is not replaced in all cells.
    fn check_effect(&self, path: &str, value: &str) -> Result<(), ScenarioError> {
        let parts = self.scenario.parts.iter().map(|part| part.name.as_str()).map(Some).chain([None]);
        let in_part = |part: &str| path.strip_prefix(PARTS)?.strip_prefix('.')?.strip_prefix(part)?.strip_prefix('.');
        let axis_of = |(section, part): (&Scenario, Option<&str>)| {
            let path = part.and_then(in_part).unwrap_or(path);
            section.sweep.iter().find(|axis| axis.replaces(path)).map(|axis| axis.name.clone())
        };
        let sections = self.sections.iter().zip(parts);
        let one = sections.clone().find(|(_, part)| part.and_then(in_part).is_some());
        let axis = match one {
            Some(section) => axis_of(section),
            None => sections.map(axis_of).collect::<Option<Vec<_>>>().and_then(|axes| axes.into_iter().next()),
        };
        let Some(axis) = axis else { return Ok(()) };
        let problem = format_args!(
            "every point of the sweep `{axis}` sets this value; change the sweep, as in --set \
             'sweep.{axis}.values=[{}]', or select points of it by --only {axis}=…",
            path::value(value)
        );
        Err(ScenarioError::new(path, problem))
    }

    /// Returns the cells of all parts, the last axis changing fastest; by scheme unless listed. A
    /// mix with fewer clients than schemes has none.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Checks that each label of [`Effort::only`] occurs in a cell.
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

    fn reread(&mut self) -> Result<(), ScenarioError> {
        self.scenario = self.adjusted(self.table.clone())?;
        let (mut sections, mut cells) = (Vec::new(), Vec::new());
        let tables = sections_of(&self.table)?;
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
        self.check_columns()?;
        // An axis' error precedes those of its plots.
        let (plots, items) = (&self.scenario.plots, &self.scenario.items);
        plots.iter().enumerate().try_for_each(|(index, plot)| {
            let checked = plot.validate(items, &self.sections);
            checked.map_err(|error| error.at_element(&plot.title, "figure", index))
        })
    }

    /// Checks that no two values of a row have the same column.
    fn check_columns(&self) -> Result<(), ScenarioError> {
        for cell in &self.cells {
            let values = &cell.scenario.values;
            for (index, value) in values.iter().enumerate() {
                let twin = values[..index].iter().find(|other| {
                    let is_same =
                        other.column == value.column && !value.column.contains("{}") && other.row == value.row;
                    let both =
                        |scheme: &String| cell.is_among(&other.only, scheme) && cell.is_among(&value.only, scheme);
                    is_same && cell.schemes.iter().any(both)
                });
                let Some(twin) = twin else { continue };
                let rows: Vec<_> = cell.schemes.iter().map(|scheme| cell.row(value.row.as_deref(), scheme)).collect();
                let problem = format_args!(
                    "the row {} has two values in the column `{}`; give one another name, or restrict both by `only`",
                    rows.join(" and "),
                    twin.column
                );
                let error = ScenarioError::new(format_args!("values.{}.column", value.column), problem);
                return Err(error.at_element(&value.column, "values", index).within_part(cell.part.as_deref()));
            }
        }
        self.check_rows()
    }

    /// Checks that no two cells give the same row a value in the same column.
    fn check_rows(&self) -> Result<(), ScenarioError> {
        let mut rows: BTreeMap<(String, &str, Option<&str>), &Cell> = BTreeMap::new();
        for cell in &self.cells {
            let values = cell.scenario.values.iter().filter(|value| !value.is_across_cells());
            for (value, scheme) in values.flat_map(|value| cell.schemes.iter().map(move |scheme| (value, scheme))) {
                if !cell.is_among(&value.only, scheme) {
                    continue;
                }
                let row = cell.row(value.row.as_deref(), scheme);
                let key = (row.clone(), value.column.as_str(), value.item.as_deref());
                let Some(twin) = rows.insert(key, cell).filter(|twin| !std::ptr::eq(*twin, cell)) else { continue };
                let of = |cell: &Cell| {
                    let points = cell.labels.iter().map(|label| format!("{} {}", label.axis, label.point));
                    cell.part.iter().cloned().chain(points).collect::<Vec<_>>().join(", ")
                };
                let example = match cell.part.as_deref().filter(|_| cell.part != twin.part) {
                    Some(part) => format!("row = \"{part}/{}\" in that part", cell.scenario.row_template()),
                    None => "row = \"{scheme}/{axis}/{another axis}\"".to_owned(),
                };
                let problem = format_args!(
                    "the cells ({}) and ({}) both give the row {row} a value in the column `{}`; tell them apart, as in {example}",
                    of(twin),
                    of(cell),
                    value.column
                );
                return Err(ScenarioError::new("row", problem).within_part(cell.part.as_deref()));
            }
        }
        Ok(())
    }

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

    fn at(&self, table: &Table, points: Vec<(&Axis, Point)>) -> Result<(Vec<Label>, Arc<Scenario>), ScenarioError> {
        let mut table = table.clone();
        points.iter().try_for_each(|(axis, point)| point.apply(axis, &mut table))?;
        let scenario = self.concrete(table).map_err(|error| within_points(error, &points))?;
        let label = |(axis, point): (&Axis, Point)| Label { axis: axis.name.clone(), point: point.name };
        Ok((points.into_iter().map(label).collect(), Arc::new(scenario)))
    }

    fn chosen(&self, mut cells: Vec<(usize, Cell)>, sections: &[Scenario]) -> Result<Vec<Cell>, ScenarioError> {
        if self.effort.compares && cells.is_empty() {
            return Err(nothing_compared(sections));
        }
        let mut only: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (axis, labels) in &self.effort.only {
            only.entry(axis).or_default().extend(labels.iter().cloned());
        }
        for (axis, wanted) in &only {
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

    fn concrete(&self, table: Table) -> Result<Scenario, ScenarioError> {
        let scenario = self.adjusted(table)?;
        scenario.validate()?;
        Ok(scenario)
    }

    fn adjusted(&self, mut table: Table) -> Result<Scenario, ScenarioError> {
        path::complete_changes(&mut table);
        let mut scenario = read(table, &self.scenario.controllers)?;
        let number = self.effort.replications(scenario.replications.get(), scenario.quick.replications.get());
        let many = format_args!("{number}; a cell has at most {MAX_REPLICATIONS}");
        ensure(number <= MAX_REPLICATIONS, "replications", many)?;
        scenario.replications = AtLeastOne::new(number).unwrap_or(scenario.replications);
        scenario.seed = self.effort.seed.unwrap_or(scenario.seed);
        if self.effort.compares {
            // Claims are about the scenario's schemes.
            scenario.mixes.clear();
            scenario.claims.clear();
        }
        if !scenario.only_schemes.is_empty() {
            scenario.known_schemes("only_schemes", &scenario.only_schemes)?;
            let only = scenario.schemes.iter().filter(|scheme| scenario.only_schemes.contains(&scheme.name));
            scenario.schemes = NonEmpty::new(only.cloned().collect()).unwrap_or(scenario.schemes);
        } else if let Some(schemes) = select(&scenario.schemes, &self.effort, &scenario.controllers)? {
            if !self.effort.controllers.is_empty() {
                let known = |name: &String| schemes.iter().any(|scheme| scheme.name == *name);
                scenario.mixes.retain(|mix| mix.schemes.iter().all(known));
            }
            scenario.schemes = schemes;
        }
        Ok(scenario)
    }
}

/// Reads a table without spans: an error has the path of its value, with names of elements.
fn read(table: Table, controllers: &Controllers) -> Result<Scenario, ScenarioError> {
    let names =
        |elements: &Vec<Toml>| elements.iter().map(|element| path::name_of(element).map(str::to_owned)).collect();
    let names: BTreeMap<String, Vec<Option<String>>> =
        table.iter().filter_map(|(key, value)| Some((key.clone(), names(value.as_array()?)))).collect();
    let element = |array: &str, index: usize| {
        names.get(array).and_then(|names| unambiguous(names, index)).unwrap_or_else(|| format!("#{index}"))
    };
    let scenario: Scenario = serde_path_to_error::deserialize(table).map_err(|error| {
        let mut steps: Vec<String> = Vec::new();
        for segment in error.path() {
            steps.push(match segment {
                Segment::Map { key } => key.clone(),
                Segment::Enum { variant } => variant.clone(),
                Segment::Seq { index } => match &steps[..] {
                    [array] => element(array, *index),
                    _ => format!("#{index}"),
                },
                Segment::Unknown => break,
            });
        }
        ScenarioError::of_value(&steps.join("."), error.inner())
    })?;
    let element = &element;
    let schemes = (0..).zip(scenario.schemes.iter());
    let schemes = schemes.map(|(index, of)| (format!("schemes.{}", element("schemes", index)), Some(&of.controller)));
    let traffic = (0..).zip(&scenario.traffic);
    let traffic = traffic.map(|(index, of)| (format!("traffic.{}", element("traffic", index)), of.controller.as_ref()));
    let of_parts = (0..).zip(&scenario.parts).flat_map(|(part, of)| {
        let place = move |index: u32| format!("{PARTS}.{}.traffic.#{index}", element(PARTS, part));
        (0..).zip(of.traffic.iter().flatten()).map(move |(index, of)| (place(index), of.controller.as_ref()))
    });
    for (place, name) in schemes.chain(traffic).chain(of_parts) {
        let Some(name) = name else { continue };
        name.build(controllers).map_err(|error| ScenarioError::new(format_args!("{place}.controller"), error))?;
    }
    Ok(Scenario { controllers: controllers.clone(), ..scenario })
}

/// Returns an element's name if a key path with it leads to the element.
fn unambiguous(names: &[Option<String>], index: usize) -> Option<String> {
    let name = names.get(index)?.as_ref()?;
    let is_only = names.iter().flatten().filter(|other| *other == name).count() == 1;
    (is_only && !name.contains('.')).then(|| name.clone())
}

fn first_date(value: &Spanned<DeValue<'_>>) -> Option<ErrorSpan> {
    match value.get_ref() {
        DeValue::Datetime(_) => Some(value.span()),
        DeValue::Array(values) => values.iter().find_map(first_date),
        DeValue::Table(table) => table.values().find_map(first_date),
        _ => None,
    }
}

fn out_of_range(error: toml::de::Error) -> ScenarioError {
    let limits = "numbers go from -2^63 to 2^63 - 1, and with a decimal point to 1.7e308";
    error.span().map_or_else(|| error.into(), |span| ScenarioError::in_text(span, limits))
}

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

fn nothing_on(axis: &str, wanted: &[String], known: &BTreeSet<String>) -> ScenarioError {
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    let problem = match known[..] {
        [] => "no run varies it".to_owned(),
        _ => format!("no run has {}; there are {}", wanted.join(" or "), known.join(", ")),
    };
    ScenarioError::new(axis, problem)
}

/// Overrides of a part, with the keys of [`Scenario`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "they are the scenario's")]
pub struct Part {
    /// Name in errors and paths.
    pub name: String,
    pub duration: Option<Span>,
    pub time_limit: Option<Span>,
    pub replications: Option<AtLeastOne>,
    pub one_by_one: Option<bool>,
    pub only_schemes: Option<Vec<String>>,
    pub phases: Option<Vec<Phase>>,
    pub nodes: Option<Vec<Nodes>>,
    pub links: Option<Vec<Link>>,
    pub nats: Option<Vec<Nat>>,
    pub radios: Option<Vec<Radio>>,
    pub traffic: Option<Vec<Traffic>>,
    pub changes: Option<Vec<Change>>,
    pub sweep: Option<Vec<Axis>>,
    pub row: Option<String>,
    pub values: Option<Vec<Value>>,
}

const PARTS: &str = "parts";

fn sections_of(whole: &Table) -> Result<Vec<(Option<String>, Table)>, ScenarioError> {
    let mut shared = whole.clone();
    let Some(Toml::Array(parts)) = shared.remove(PARTS) else { return Ok(vec![(None, shared)]) };
    let mut sections = Vec::new();
    for part in parts {
        let Toml::Table(mut part) = part else { continue };
        let name = part.remove("name").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        let mut section = shared.clone();
        // Alternative keys of a run's length.
        if part.contains_key("duration") || part.contains_key("time_limit") {
            section.remove("duration");
            section.remove("time_limit");
        }
        section.extend(part);
        sections.push((Some(name), section));
    }
    distinct(PARTS, sections.iter().filter_map(|(name, _)| name.as_ref()))?;
    Ok(sections)
}

//! [`ScenarioError`]: a problem of a scenario and its place.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::wording;

/// A byte range in the file.
pub type ErrorSpan = Range<usize>;

/// A problem of a scenario, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    place: Option<String>,
    problem: String,
    span: Option<ErrorSpan>,
    path: Option<String>,
}

impl ScenarioError {
    /// Creates a problem at a key path such as `server.response`.
    #[must_use]
    pub fn new(place: impl fmt::Display, problem: impl fmt::Display) -> Self {
        let place = place.to_string();
        Self { path: Some(place.clone()), place: Some(place), problem: problem.to_string(), span: None }
    }

    /// Creates a problem of the scenario as a whole.
    #[must_use]
    pub fn of_whole(problem: impl fmt::Display) -> Self {
        Self { place: None, problem: problem.to_string(), span: None, path: None }
    }

    /// Creates the problem of a value of the wrong type.
    pub(crate) fn of_value(path: &str, error: &toml::de::Error) -> Self {
        let problem = wording::reworded(path, error.message());
        match path {
            "" => Self::of_whole(problem),
            path => Self::new(path, problem),
        }
    }

    pub(crate) fn in_text(span: ErrorSpan, problem: impl fmt::Display) -> Self {
        Self { span: Some(span), ..Self::of_whole(problem) }
    }

    /// Replaces the key path in the file.
    pub(crate) fn at(self, path: impl fmt::Display) -> Self {
        Self { path: Some(path.to_string()), ..self }
    }

    /// Replaces an element's name, perhaps ambiguous, by its index.
    pub(crate) fn at_element(self, name: impl fmt::Display, array: &str, index: usize) -> Self {
        let place = format!("{array}.{name}");
        match self.path.as_deref().and_then(|path| path.strip_prefix(&place)) {
            Some(rest) => {
                let path = format!("{array}.#{index}{rest}");
                self.at(path)
            }
            None => self,
        }
    }

    pub(crate) fn within_part(self, name: Option<&str>) -> Self {
        let Some(name) = name else { return self };
        let within = |of: Option<String>| of.map_or(format!("parts.{name}"), |of| format!("parts.{name}.{of}"));
        Self { place: Some(within(self.place)), path: Some(within(self.path)), ..self }
    }

    /// Names the points of a sweep at which it arises, and the key path of the one that set the
    /// value, if one did.
    pub(crate) fn at_points(self, points: &str, path: Option<String>) -> Self {
        let problem = self.to_string();
        Self { place: Some(format!("sweep ({points})")), problem, path: path.or(self.path), ..self }
    }

    /// Returns whether a key of its path is unknown.
    pub(crate) fn is_unknown_key(&self) -> bool {
        self.problem.starts_with("unknown field")
    }

    /// Returns the key path of its value, if it has one.
    pub(crate) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Adds the span of its value, of an unknown key, or of the nearest table around it.
    #[must_use]
    pub fn located(self, text: &str) -> Self {
        let is_key = self.is_unknown_key();
        let found = || span_of(DeTable::parse(text).ok()?.get_ref(), self.path.as_deref()?, is_key);
        let span = self.span.clone().or_else(found);
        Self { span, ..self }
    }

    /// Omits the key path from the text if there is a span.
    pub(crate) fn shown_in_text(self) -> Self {
        let place = self.place.filter(|_| self.span.is_none());
        Self { place, ..self }
    }

    /// Returns the span, if known.
    #[must_use]
    pub fn span(&self) -> Option<ErrorSpan> {
        self.span.clone()
    }
}

/// Returns the span of the last existing step of a path. A step through an array is the `name` of a
/// table, an index such as `0`, or `#0` if a table may have that name.
fn span_of(table: &DeTable<'_>, path: &str, is_key: bool) -> Option<ErrorSpan> {
    let mut steps = path.split('.');
    let first = steps.next()?;
    let mut at = table.get(first)?;
    let mut key = table.get_key_value(first);
    for step in steps {
        key = at.get_ref().as_table().and_then(|table| table.get_key_value(step));
        let is_named = |table: &DeTable<'_>| {
            table.get("name").is_some_and(|name| matches!(name.get_ref(), DeValue::String(name) if name == step))
        };
        let next = match at.get_ref() {
            DeValue::Table(table) => table.get(step),
            DeValue::Array(elements) => {
                let named = elements.iter().find(|one| matches!(one.get_ref(), DeValue::Table(one) if is_named(one)));
                named.or_else(|| elements.get(step.strip_prefix('#').unwrap_or(step).parse::<usize>().ok()?))
            }
            _ => None,
        };
        let Some(next) = next else { break };
        at = next;
    }
    Some(key.filter(|_| is_key).map_or_else(|| at.span(), |(key, _)| key.span()))
}

pub(super) fn ensure(is_so: bool, place: impl fmt::Display, problem: impl fmt::Display) -> Result<(), ScenarioError> {
    if is_so { Ok(()) } else { Err(ScenarioError::new(place, problem)) }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for ScenarioError {}

impl From<toml::de::Error> for ScenarioError {
    fn from(error: toml::de::Error) -> Self {
        let span = error.span();
        let problem = match span {
            Some(_) => wording::reworded("", error.message()),
            None => error.to_string().trim_end().replace('\n', " "),
        };
        Self { span, ..Self::of_whole(problem) }
    }
}

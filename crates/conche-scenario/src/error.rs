//! What is wrong with a scenario, and where.

use std::fmt;
use std::ops::Range;

/// Bytes of the file's text.
pub type Span = Range<usize>;

/// What is wrong with a scenario. It is displayed on one line; whoever has the file's text can show the place as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    place: Option<String>,
    problem: String,
    span: Option<Span>,
}

impl ScenarioError {
    /// A problem at a place that is named as a path of keys, such as `server.response`.
    #[must_use]
    pub fn new(place: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self { place: Some(place.to_string()), problem: problem.to_string(), span: None }
    }

    /// The same, which is there in the text if it is not known to be at a place within.
    pub(crate) fn at(self, span: Option<Span>) -> Self {
        Self { span: self.span.or(span), ..self }
    }

    /// The same of a part of the scenario.
    pub(crate) fn within_part(self, name: Option<&str>) -> Self {
        let Some(name) = name else { return self };
        let place = self.place.map_or(format!("parts.{name}"), |place| format!("parts.{name}.{place}"));
        Self { place: Some(place), ..self }
    }

    /// Which bytes of the text are wrong, if known.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        self.span.clone()
    }
}

/// Refuses what is not so. The problem says what would be right.
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
        Self { place: None, problem: error.message().to_owned(), span: error.span() }
    }
}

/// What serde says of a value, wherever that is.
impl serde::de::Error for ScenarioError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { place: None, problem: problem.to_string(), span: None }
    }
}

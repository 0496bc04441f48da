//! [`ScenarioError`]: a problem of a scenario and its place.

use std::fmt;
use std::ops::Range;

/// A byte range in the file.
pub type ErrorSpan = Range<usize>;

/// A problem of a scenario, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    place: Option<String>,
    problem: String,
    span: Option<ErrorSpan>,
}

impl ScenarioError {
    /// Creates a problem at a key path such as `server.response`.
    #[must_use]
    pub fn new(place: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self { place: Some(place.to_string()), problem: problem.to_string(), span: None }
    }

    pub(crate) fn in_text(span: ErrorSpan, problem: impl fmt::Display) -> Self {
        Self { place: None, problem: problem.to_string(), span: Some(span) }
    }

    pub(crate) fn within_part(self, name: Option<&str>) -> Self {
        let Some(name) = name else { return self };
        let place = self.place.map_or(format!("parts.{name}"), |place| format!("parts.{name}.{place}"));
        Self { place: Some(place), ..self }
    }

    /// Returns the span, if known.
    #[must_use]
    pub fn span(&self) -> Option<ErrorSpan> {
        self.span.clone()
    }
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
    /// An error in a [`toml::Table`] has no span; its text names the keys.
    fn from(error: toml::de::Error) -> Self {
        let span = error.span();
        let problem = match span {
            Some(_) => reworded(error.message()).to_owned(),
            None => error.to_string().trim_end().replace('\n', " "),
        };
        Self { place: None, problem, span }
    }
}

/// Replaces messages of `toml` about enums.
fn reworded(message: &str) -> &str {
    if message.starts_with("expected table, found ") || message == "expected empty table" {
        "it takes no parameters: write its name alone, as a string"
    } else if message.starts_with("wanted exactly 1 element") {
        "write one key, the name of the variant"
    } else {
        message
    }
}

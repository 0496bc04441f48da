//! Checks controllers against files of event traces with expected timers.
//!
//! conche's own algorithms are checked by [`check`], under the names in [`subject::ALGORITHMS`]. To check one of yours, hand it to [`check_with`]:
//!
//! ```
//! use conche_cc::default::CoapDefault;
//! use conche_conformance::vectors::{check_with, run};
//!
//! let file = r#"{"vectors": [{
//!     "id": "first timer", "algo": "mine",
//!     "events": [{"t": 0, "ev": "start", "u": 0, "expect": {"timeout_ms": 2000}}]
//! }]}"#;
//! let report = check_with(file, |vector| run(CoapDefault::default(), vector))?;
//! assert_eq!((report.passed, report.failed), (1, 0));
//! # Ok::<(), conche_conformance::vectors::Unusable>(())
//! ```
//!
//! The checker is the endpoint: it counts what is on its way, follows the timers that the controller answers, and tells
//! what happened. Event times in a file come from a floating-point reference; `rto` events happen at the controller's own
//! timer instead, all others at the time given, or when the controller's own clock passed it.

mod compare;
mod run;
pub mod schema;
pub mod subject;

use std::fmt;

pub use run::{run, run_observed};
use schema::Vector;
pub use subject::Observer;

/// What came of a file.
#[derive(Debug, Default)]
pub struct Report {
    /// How many vectors met all their expectations.
    pub passed: usize,
    /// How many did not.
    pub failed: usize,
    /// Each expectation that was not met.
    pub failures: Vec<Failure>,
}

/// An expectation that was not met.
#[derive(Debug)]
pub struct Failure {
    /// The vector.
    pub id: String,
    /// Which of its events, from 0, and what it says.
    pub event: String,
    /// The name of the expectation.
    pub key: String,
    /// What was expected.
    pub expected: String,
    /// What the controller did.
    pub got: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, event, key, expected, got } = self;
        write!(f, "{id}: event {event}: {key}: expected {expected}, got {got}")
    }
}

/// Why a file cannot be used at all.
#[derive(Debug)]
pub enum Unusable {
    /// It is not JSON of the schema.
    Malformed(serde_json::Error),
    /// A vector asks for an algorithm that does not exist.
    UnknownAlgorithm {
        /// The vector.
        id: String,
        /// What it asks for.
        algo: String,
    },
    /// A vector contradicts itself or the schema.
    Inconsistent {
        /// The vector.
        id: String,
        /// Which of its events, from 0.
        event: usize,
        /// What is wrong.
        reason: String,
    },
    /// It has no vectors.
    Empty,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "not a file of controller vectors: {error}"),
            Self::UnknownAlgorithm { id, algo } => {
                write!(f, "{id}: no algorithm is called {algo:?}; valid are: {}", subject::ALGORITHMS.join(", "))
            }
            Self::Inconsistent { id, event, reason } => write!(f, "{id}: event {event}: {reason}"),
            Self::Empty => f.write_str("the file holds no vectors"),
        }
    }
}

impl std::error::Error for Unusable {}

/// Checks every vector of a file, given as text, against the algorithm of conche's that it names.
///
/// # Errors
/// If the file is not of the schema, contradicts itself or names an algorithm that is not known.
pub fn check(text: &str) -> Result<Report, Unusable> {
    check_with(text, subject::check)
}

/// The same for any controllers: `run` replays a vector, and answers each expectation that was not met.
///
/// # Errors
/// If the file is not of the schema or contradicts itself, or those of `run`.
pub fn check_with(text: &str, run: impl Fn(&Vector) -> Result<Vec<Failure>, Unusable>) -> Result<Report, Unusable> {
    let file: schema::File = serde_json::from_str(text).map_err(Unusable::Malformed)?;
    if file.vectors.is_empty() {
        return Err(Unusable::Empty);
    }
    let mut report = Report::default();
    for vector in &file.vectors {
        let failures = run(vector)?;
        if failures.is_empty() {
            report.passed += 1;
        } else {
            report.failed += 1;
            report.failures.extend(failures);
        }
    }
    Ok(report)
}

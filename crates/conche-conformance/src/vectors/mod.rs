//! Checks controllers against files of event traces with expected timers.
//!
//! [`check`] checks conche's algorithms by their names in [`subject::algorithms`], [`check_with`]
//! any other:
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
//! The checker is the endpoint. Event times come from a floating-point reference. `rto` events
//! happen at the controller's timer; all others at the given time, or later if the clock has passed
//! it.

mod compare;
mod run;
pub mod schema;
pub mod subject;

pub use run::{run, run_observed};
use schema::Vector;
pub use subject::Observer;

/// The result of checking a file.
#[derive(Debug, Default)]
pub struct Report {
    /// Vectors that met all expectations.
    pub passed: usize,
    /// Vectors that did not.
    pub failed: usize,
    /// Expectations that were not met.
    pub failures: Vec<Failure>,
}

/// An expectation that was not met.
#[derive(Debug, thiserror::Error)]
#[error("{id}: event {event}: {key}: expected {expected}, got {got}")]
pub struct Failure {
    /// Vector.
    pub id: String,
    /// Index of the event, from 0, and its description.
    pub event: String,
    /// Name of the expectation.
    pub key: String,
    /// Expected value.
    pub expected: String,
    /// Result of the controller.
    pub got: String,
}

/// Reasons why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It is not JSON of the schema.
    #[error("not a file of controller vectors: {0}")]
    Malformed(serde_json::Error),
    /// A vector names an unknown algorithm.
    #[error("{id}: no algorithm is called {algo:?}; valid are: {}", subject::algorithms().join(", "))]
    UnknownAlgorithm {
        /// Vector.
        id: String,
        /// Algorithm.
        algo: String,
    },
    /// A vector contradicts itself or the schema.
    #[error("{id}: event {event}: {reason}")]
    Inconsistent {
        /// Vector.
        id: String,
        /// Index of the event, from 0.
        event: usize,
        /// Problem.
        reason: String,
    },
    /// It has no vectors.
    #[error("the file holds no vectors")]
    Empty,
}

/// Checks a file's vectors against conche's algorithms.
///
/// # Errors
/// If the file violates the schema, contradicts itself or names an unknown algorithm.
pub fn check(text: &str) -> Result<Report, Unusable> {
    check_with(text, subject::check)
}

/// Checks a file's vectors against any controllers: `run` replays a vector, and returns the failed
/// expectations.
///
/// # Errors
/// If the file violates the schema or contradicts itself, and errors of `run`.
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

//! [`MetricError`]: why a metric cannot be measured.

use crate::units::Span;

/// Maximum windows of a run: each is a column of a table.
pub const MOST_WINDOWS: u128 = 10_000;

/// Why a metric cannot be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// A percentile is out of range.
    #[error("a percentile of {0}; it must be between 0 and 100")]
    Percentile(f64),
    /// The metric gives one number a run, but the statistic needs several.
    #[error("it is one number a run, which has no percentiles; leave the statistic out for its mean")]
    OneNumber,
    /// A share is out of range.
    #[error("a share of {0}; it must be between 0 and 1")]
    Share(f64),
    /// The metric of classes gives one number a run.
    #[error("classes are of a metric of each flow or exchange, such as rto")]
    ClassesOfOneNumber,
    /// Classes lack a name, or the list is empty.
    #[error("{names} names for {classes} classes; each has one, and there is at least one")]
    ClassNames {
        /// The number of names.
        names: usize,
        /// The number of classes.
        classes: usize,
    },
    /// Classes are out of order.
    #[error("classes must begin one after the other: list `from` in rising order")]
    ClassOrder,
    /// The number of stretches is out of range.
    #[error("{0} stretches; they must be between 1 and {MOST_WINDOWS}")]
    Stretches(u32),
    /// Both a window and a number of stretches are set, or neither.
    #[error("say either how long a `window` is, or how many `stretches` there are")]
    WindowsOrStretches,
    /// A window has no length.
    #[error("a window must be longer than 0s")]
    EmptyWindow,
    /// Windows are too short for the run.
    #[error("{longest} has more than {MOST_WINDOWS} windows of {window}; make them longer")]
    TooManyWindows {
        /// The longest possible duration of a run.
        longest: Span,
        /// The length of a window.
        window: Span,
    },
}

/// Checks that a share is between 0 and 1.
pub(super) fn share_fits(share: f64) -> Result<(), MetricError> {
    let is_share = (0.0..=1.0).contains(&share);
    if is_share { Ok(()) } else { Err(MetricError::Share(share)) }
}

/// Checks that windows have a length, and that a run has at most [`MOST_WINDOWS`].
pub(super) fn windows_fit(window: Span, longest: Span) -> Result<(), MetricError> {
    if window.0.is_zero() {
        Err(MetricError::EmptyWindow)
    } else if longest.0.as_nanos() / window.0.as_nanos() > MOST_WINDOWS {
        Err(MetricError::TooManyWindows { longest, window })
    } else {
        Ok(())
    }
}

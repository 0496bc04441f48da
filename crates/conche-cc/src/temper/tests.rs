//! temper.

//! Results as one self-contained HTML file, which is readable without scripts and prints well.
//!
//! ```no_run
//! use conche_lab::Controllers;
//! use conche_report::{Results, page};
//!
//! let results = Results::read("results".as_ref(), &Controllers::new())?;
//! std::fs::write("report.html", page(&[results]))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chart;
mod figure;
mod html;
mod page;
mod plots;
mod read;
mod series;
mod study;
mod titles;
mod unit;
mod values;

pub use conche_results::{Failure, Manifest, Program, Scenario};
pub use figure::{FigureError, Selection, figure};
pub use page::page;
pub use read::{ReadError, Results, read_experiments};
pub use study::{Runs, Study};

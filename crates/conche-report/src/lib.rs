//! Results of experiments as one self-contained HTML file. It needs no network, is readable without
//! scripts, and prints well.
//!
//! ```no_run
//! use conche_report::{Results, page};
//!
//! let results = Results::read("results".as_ref())?;
//! std::fs::write("report.html", page(&[results]))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `read` | results from a directory |
//! | `plots` | from measured values to the plots that the scenario defines |
//! | `fallback` | plots for a scenario that defines none |
//! | `chart` | a plot as data, and its drawing as SVG |
//! | `page` | the page: overview, tables, claims, comparisons |
//! | `unit_symbol` | symbols of units |
//! | `html` | escaped text |

mod chart;
mod fallback;
mod html;
mod page;
mod plots;
mod read;
mod unit_symbol;

pub use conche_results::{Failure, Manifest, Program, Scenario};
pub use page::page;
pub use read::{ReadError, Results, Runs, Study};

//! Results of experiments as one HTML file that needs nothing else: no network, no script to be read, a printer if need be.
//!
//! ```no_run
//! use conche_report::{Results, page};
//!
//! let results = Results::read("results".as_ref())?;
//! std::fs::write("report.html", page(&[results]))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `read` | results from a directory |
//! | `plots` | from measured values to figures, as the scenario wants them |
//! | `fallback` | figures for a scenario that wants none |
//! | `chart` | a figure as data, and its drawing as SVG |
//! | `page` | the page around it: overview, tables, claims, schemes compared |
//! | `html` | text that is escaped |

mod chart;
mod fallback;
mod html;
mod page;
mod plots;
mod read;

pub use conche_results::{Failure, Manifest, Program, Scenario};
pub use page::page;
pub use read::{ReadError, Results, Runs, Study};

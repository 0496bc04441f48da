//! ANRW'18: Järvinen, Raitahila, Cao, Kojo, "Is CoAP Congestion Safe?", Applied Networking Research Workshop 2018.
//!
//! Up to 400 devices share a narrow link with a drop-tail buffer of several sizes. The default congestion control of CoAP
//! collapses where the buffer lets round-trip times grow beyond its timeouts; CoCoA does so for clients that start anew
//! again and again; full backoff, the paper's proposal, does not.
//!
//! | module | what it holds |
//! |---|---|
//! | [`published`] | the values that the paper states |
//! | [`items`] | which table or figure of the paper a value belongs to |
//! | [`claims`] | what the paper says in words, put to the test |
//! | `tables` | tables of text |
//!
//! The model and its parameters are in `scenarios/anrw18.toml`; `docs/papers/anrw18.md` discusses what comes out.

pub mod claims;
pub mod items;
pub mod published;
mod tables;

use super::Paper;
use crate::metrics::Measurements;
use crate::results::Figure;

/// The paper, as [`PAPERS`](super::PAPERS) lists it.
pub const PAPER: Paper = Paper { name: NAME, figures, tables: tables::tables };

const NAME: &str = "anrw18";

/// Every value of every cell, each under the table or figure of the paper that it belongs to, then the claims.
fn figures(measured: &[Measurements]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = measured
        .iter()
        .flat_map(|cell| {
            cell.figures(NAME, "").map(|figure| {
                let item = items::item_of(&cell.key, &figure.column).to_owned();
                let published = published::of(&figure.row, &figure.column);
                Figure { item, published, ..figure }
            })
        })
        .collect();
    figures.extend(measured.iter().flat_map(items::table_2));
    // Stable, so that the values of an item stay in the scenario's order.
    figures.sort_by_key(|figure| items::rank(&figure.item));
    figures.extend(claims::figures(measured));
    figures
}

#[cfg(test)]
mod tests;

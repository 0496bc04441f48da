//! Metrics of bulk transfers.

use conche_scenario::Transferred;

use super::Sample;
use super::metric::share;
use crate::trial::{Flow, Record, Selection};

pub(super) fn sample(transferred: Transferred, run: &Record, of: Selection) -> Sample {
    let flows = || run.flows_of(of);
    let goodput = |flow: &Flow| {
        let seconds = (flow.tally.done? - flow.start).as_secs_f64();
        Some(8.0 * flow.transfer.as_ref()?.bytes as f64 / seconds)
    };
    match transferred {
        Transferred::Goodput => Sample::OfFlows(flows().map(goodput).collect()),
        Transferred::RoundTrip => {
            Sample::OfFlows(flows().map(|flow| flow.transfer.as_ref()?.mean_round_trip_s).collect())
        }
        Transferred::RouteHops => {
            let lengths = flows().filter_map(|flow| flow.transfer.as_ref()).flat_map(|transfer| &transfer.routes);
            Sample::Each(lengths.map(|hops| u64::from(*hops)).collect(), 1.0)
        }
        Transferred::GivenUp => share(run.given_up as f64, run.handed_over as f64),
    }
}

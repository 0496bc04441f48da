//! Metrics of observations (RFC 7641).

use conche_scenario::Observed;

use super::Sample;
use super::metric::{seconds, share};
use crate::trial::{Flow, Record, Selection};

pub(super) fn sample(observed: Observed, run: &Record, of: Selection) -> Sample {
    let ages: Vec<Option<u128>> = run.flows_of(of).flat_map(ages).collect();
    match observed {
        Observed::Age => seconds(ages.into_iter().flatten()),
        Observed::Known => share(ages.iter().flatten().count() as f64, ages.len() as f64),
    }
}

/// Per change since registration, the nanoseconds until the observer received that or a later
/// state; `None` if never.
fn ages(flow: &Flow) -> Vec<Option<u128>> {
    let Some(observed) = &flow.observed else { return Vec::new() };
    let registered = observed.received.first().map(|received| received.at);
    let counts = observed.changes.iter().filter(|change| registered.is_none_or(|at| at <= **change));
    let age = |change: &conche_netsim::Instant| {
        let known = observed.received.partition_point(|received| received.changed < *change);
        observed.received.get(known).map(|received| (received.at - *change).as_nanos())
    };
    counts.map(age).collect()
}

#[cfg(test)]
mod tests {
    use conche_netsim::Instant;
    use conche_netsim::wired::Topology;

    use super::*;
    use crate::trial;
    use crate::workload::ReceivedState;

    #[test]
    fn a_state_that_was_skipped_is_known_with_the_next_one_and_what_is_before_the_registration_does_not_count() {
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        let mut topology = Topology::new();
        let [observer, server] = ["observer", "server"].map(|name| topology.node(name));
        let changes = [1, 10, 20, 30].map(at).to_vec();
        let received =
            [(5, 1), (23, 20)].map(|(when, changed)| ReceivedState { at: at(when), changed: at(changed) }).to_vec();
        let flow = |received| Flow {
            observed: Some(trial::Observed { changes: changes.clone(), received }),
            ..Flow::new(observer, server)
        };
        let run = Record { flows: vec![flow(received), flow(Vec::new())], ..Record::default() };
        let all = Selection { scheme: 0, traffic: None };
        let second = 1_000_000_000;
        assert_eq!(sample(Observed::Age, &run, all), Sample::Each(vec![13 * second, 3 * second], 1e9));
        assert_eq!(sample(Observed::Known, &run, all), Sample::Ratio(200.0, 7.0), "2 of 3, and none of 4");
    }
}

//! Single runs against closed forms.

use super::*;
use crate::scenario::{Network, reduced};

/// How long one frame of a response occupies the downlink.
const SERVICE: f64 = 94.0 * 8.0 / 30_000.0;
/// The rest of a round trip, on average.
const LATENCY: f64 = 0.637;

struct Case {
    scenario: Scenario,
    workload: usize,
}

impl Case {
    fn new(clients: u32, buffer: &str, scheme: &str) -> Self {
        Self { scenario: reduced::anrw18(&[clients], &[buffer], &[scheme], 1), workload: 0 }
    }

    fn run(&self, seed: u64) -> Result<Outcome, RunError> {
        let Network::SharedBottleneck(network) = &self.scenario.network;
        let controllers = [self.scenario.schemes[0].build().expect("a valid scheme")];
        let setup = Setup {
            scenario: &self.scenario,
            workload: &self.scenario.workloads[self.workload],
            clients: network.clients[0].get(),
            buffer: &network.downlink.buffers[0],
            controllers: &controllers,
        };
        setup.run(seed).map(|mut ran| ran.outcome.remove(0))
    }

    fn outcome(&self, seed: u64) -> Outcome {
        self.run(seed).expect("a run that ends")
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[test]
fn one_client_takes_33_0_to_33_2_seconds() {
    for seed in 1..=5 {
        let outcome = Case::new(1, "inf", "default").outcome(seed);
        let completion = seconds(outcome.completion_nanos[0]);
        assert!((33.0..=33.2).contains(&completion), "{completion} s with seed {seed}");
        assert_eq!((outcome.copies, outcome.dropped, outcome.retransmissions[0]), (50, 0, 50));
    }
}

/// FCT_k = L + (49 N + k)·s for the k-th client: beyond N* = 26 clients the downlink never idles, and the clients take
/// turns.
#[test]
fn fifty_clients_finish_one_after_another_as_the_closed_form_says() {
    for seed in 1..=3 {
        let mut completions = Case::new(50, "14100", "default").outcome(seed).completion_nanos;
        completions.sort_unstable();
        for pair in completions.windows(2) {
            let gap = seconds(pair[1] - pair[0]);
            assert!((gap - SERVICE).abs() < 1e-6, "{gap} s between two clients");
        }
        // L is an average; the busy period of a run begins some milliseconds earlier or later.
        for (k, completion) in (1..).zip(&completions) {
            let expected = LATENCY + (49.0 * 50.0 + f64::from(k)) * SERVICE;
            assert!((seconds(*completion) - expected).abs() < 0.015, "client {k}: {completion} ns, not {expected} s");
        }
    }
}

/// The initial burst of 50 finds room for 26 waiting frames and those served meanwhile.
#[test]
fn fifteen_frames_of_the_initial_burst_are_lost_at_2500_bytes() {
    for seed in 1..=3 {
        let outcome = Case::new(50, "2500", "default").outcome(seed);
        assert_eq!((outcome.dropped, outcome.copies), (15, 2515), "seed {seed}");
        assert_eq!(outcome.retransmissions[..2], [2485, 15]);
        assert_eq!(outcome.unnecessary.iter().sum::<u64>(), 0, "every repetition replaced a lost copy");
    }
}

/// T_end ≈ L + s·Σcopies: without loss each copy takes its turn at the downlink. When the last client is done, only
/// copies that were in vain can be left, fewer than there are clients.
#[test]
fn in_a_collapse_every_copy_takes_its_turn() {
    let outcome = Case::new(100, "inf", "default").outcome(1);
    let last = seconds(*outcome.completion_nanos.iter().max().expect("100 clients"));
    let all = LATENCY + outcome.copies as f64 * SERVICE;
    assert!(last < all + 0.015 && last > all - 100.0 * SERVICE, "{last} s, all copies {all} s");
    assert_eq!(outcome.dropped, 0);
    assert_eq!(outcome.unnecessary.iter().sum::<u64>(), outcome.copies - 5000, "nothing was lost, nothing was needed");
    assert!(outcome.copies > 9500, "half of the copies are in vain: {}", outcome.copies);
}

#[test]
fn forgetting_changes_nothing_for_a_controller_without_memory() {
    let continuous = Case::new(100, "14100", "default");
    let random = Case { workload: 1, ..Case::new(100, "14100", "default") };
    assert_eq!(continuous.outcome(1), random.outcome(1), "common random numbers, and no state to forget");
}

#[test]
fn forgetting_costs_cocoa_its_estimates() {
    let continuous = Case::new(100, "14100", "cocoa").outcome(1);
    let random = Case { workload: 1, ..Case::new(100, "14100", "cocoa") }.outcome(1);
    assert!(random.copies > continuous.copies + 500, "{} and {} copies", random.copies, continuous.copies);
}

#[test]
fn failed_exchanges_do_not_count_towards_the_fifty() {
    let mut case = Case::new(50, "2500", "default");
    case.scenario.endpoint.max_retransmit = 0;
    let outcome = case.outcome(1);
    assert_eq!(outcome.retransmissions, [2500], "50 clients complete 50 exchanges each");
    assert_eq!(outcome.failed, outcome.dropped, "each lost copy was the only one of its exchange");
    assert_eq!(outcome.copies, 2500 + outcome.failed);
    assert!(outcome.failed >= 15, "{}", outcome.failed);
}

#[test]
fn the_seed_decides_everything() {
    let case = Case::new(100, "2500", "cocoa");
    assert_eq!(case.outcome(7), case.outcome(7));
    assert_ne!(case.outcome(7).completion_nanos, case.outcome(8).completion_nanos);
}

#[test]
fn a_run_that_does_not_end_is_an_error() {
    let mut case = Case::new(10, "inf", "default");
    case.scenario.time_limit = "10s".parse().expect("a time");
    let error = case.run(1).expect_err("50 exchanges take 33 s");
    let RunError::Unfinished { completed, exchanges, .. } = error else { panic!("{error}") };
    assert_eq!(exchanges, 50);
    assert!((10..20).contains(&completed), "{completed} exchanges of 0.66 s in 10 s");
}

//! Cases of the ETSI and IRISA test descriptions with both roles ours, over links that lose: most pass, and none goes wrong.
//!
//! What is on the wire where nothing is lost is in `rfc7252`, `blockwise` and `observe`. Here a case that does not pass has
//! to end with a failure that is told.

mod observations;
mod requests;

/// Each case has so many links that lose in another way.
const SEEDS: u64 = 20;

/// Shares of loss in percent, and of cases that have to pass with it.
const LOSSES: [(u32, usize); 3] = [(0, 100), (10, 97), (30, 85)];

/// Runs these cases under all losses; `passes` tells whether one with this seed and loss passes, and panics if it goes wrong.
fn most_pass<C>(cases: &[C], name: impl Fn(&C) -> &'static str, passes: impl Fn(&C, u64, u32) -> bool) {
    for (loss, least_percent) in LOSSES {
        let mut failed = Vec::new();
        for case in cases {
            let seeds = (0..SEEDS).filter(|&seed| !passes(case, seed, loss));
            failed.extend(seeds.map(|seed| (name(case), seed)));
        }
        let all = cases.len() * usize::try_from(SEEDS).expect("a few");
        let passed = all - failed.len();
        assert!(passed * 100 >= all * least_percent, "{passed} of {all} at {loss} %, all but {failed:?}");
    }
}

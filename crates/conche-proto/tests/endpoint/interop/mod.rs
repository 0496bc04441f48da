//! Cases of the ETSI and IRISA test descriptions with both roles ours, over lossy links: most pass,
//! and none misbehaves.
//!
//! `rfc7252`, `blockwise` and `observe` test the messages without loss. Here, a case that does not
//! pass must end with a reported failure.

mod observations;
mod requests;

const SEEDS: u64 = 20;

/// Loss in percent, and the percentage of cases that must pass.
const LOSSES: [(u32, usize); 3] = [(0, 100), (10, 97), (30, 85)];

/// `passes` returns the result for a seed and a loss rate, and panics on misbehaviour.
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

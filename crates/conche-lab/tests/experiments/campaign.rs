//! Failing and continued campaigns.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use conche_lab::campaign::{
    CellId, Kept, Replication, RunOptions, RunResult, RunTables, RunnableCell, Sample, Store, run, seed_of,
};
use conche_results::{Begin, Build, Origin, Program};

struct Seeds {
    panics_in: Option<u32>,
    fails_in: Option<u32>,
    ran: AtomicU32,
}

impl Seeds {
    fn good() -> Self {
        Self { panics_in: None, fails_in: None, ran: AtomicU32::new(0) }
    }
}

impl RunnableCell for Seeds {
    type Outcome = u64;
    type Error = &'static str;

    fn id(&self) -> CellId {
        CellId::default()
    }

    fn name(&self) -> String {
        "seeds".to_owned()
    }

    fn replications(&self) -> u32 {
        4
    }

    fn work(&self) -> u64 {
        1
    }

    fn run(&self, replication: Replication, _: &mut RunTables) -> Result<RunResult<u64>, &'static str> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        assert!(self.panics_in != Some(replication.index), "a hand-made defect");
        match self.fails_in {
            Some(index) if index == replication.index => Err("it does not end"),
            _ => Ok(RunResult { outcome: replication.seed, events: 10 }),
        }
    }

    fn keep(&self, outcome: &u64) -> Vec<Kept> {
        let (scheme, unit, sample) = (String::new(), String::new(), Sample::Each(vec![*outcome], 1.0));
        vec![Kept { phase: None, scheme, unit, values: Vec::new(), sample }]
    }

    fn restore(&self, samples: Vec<Sample>) -> Option<u64> {
        let [Sample::Each(numbers, _)] = &samples[..] else { return None };
        numbers.first().copied()
    }
}

fn origin() -> Origin {
    Origin { name: "test".to_owned(), seed: 7, ..Origin::default() }
}

fn store(directory: &Path) -> Store {
    let program = Program::running(Build { version: "0", commit: None, is_dirty: None });
    let (command, origins) = (Vec::new(), &[origin()]);
    let options = String::new();
    let begin = Begin {
        directory,
        program,
        command,
        options,
        threads: 1,
        origins,
        with_exchanges: false,
        series: None,
        overwrites: false,
    };
    Store::open(begin).expect("it can be opened").0
}

#[test]
fn a_panicked_or_failed_run_leaves_a_gap_and_is_named() {
    let cell = Seeds { panics_in: Some(1), fails_in: Some(2), ..Seeds::good() };
    let (outcomes, completion) = run(&[cell], &origin(), RunOptions::default(), &|_| {}).expect("threads");
    let [of_cell] = &outcomes[..] else { panic!("one cell") };
    assert_eq!(of_cell[..], [Some(seed_of(7, 0)), None, None, Some(seed_of(7, 3))]);
    let failures: Vec<_> = completion.failures.iter().map(ToString::to_string).collect();
    let expected = ["seeds, replication 1: it panicked: a hand-made defect", "seeds, replication 2: it does not end"];
    assert_eq!(failures, expected);
    assert_eq!((completion.runs, completion.cost.events), (4, 20));
}

#[test]
fn stored_runs_are_reused_and_failed_ones_repeated() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let campaign = |cell: Seeds| {
        let store = store(directory.path());
        let options = RunOptions { store: Some(&store), ..RunOptions::default() };
        let cells = [cell];
        let (outcomes, completion) = run(&cells, &origin(), options, &|_| {}).expect("threads");
        (outcomes.concat(), completion.reused, cells[0].ran.load(Ordering::Relaxed))
    };
    let (outcomes, taken, ran) = campaign(Seeds { panics_in: Some(1), ..Seeds::good() });
    assert_eq!((outcomes.iter().flatten().count(), taken, ran), (3, 0, 4));
    let (outcomes, taken, ran) = campaign(Seeds::good());
    let all: Vec<Option<u64>> = (0..4).map(|index| Some(seed_of(7, index))).collect();
    assert_eq!((outcomes, taken, ran), (all, 3, 1));
}

//! Failing and continued campaigns.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use conche_lab::campaign::{
    CellId, Completion, ExperimentError, Failure, Kept, Outcomes, Part, PlannedRun, Replication, RunOptions, RunResult,
    RunTables, RunnableCell, Sample, Store, VERSION, plan, run, seed_of,
};
use conche_lab::networks::Network;
use conche_lab::scenario::{Controllers, Effort};
use conche_lab::value::write_json;
use conche_results::{Begin, Build, Origin, Program, fingerprint};

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

    fn versions(&self) -> Vec<(String, String)> {
        vec![("seeds".to_owned(), "1".to_owned())]
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

fn run_all(cells: &[Seeds], options: RunOptions<'_>) -> Result<(Outcomes<Seeds>, Completion), ExperimentError> {
    run(cells, &origin(), &plan(cells, &origin()), options, &|_| {})
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
        effort: serde_json::Value::Null,
        shard: None,
        threads: 1,
        origins,
        plan: plan(&[Seeds::good()], &origin()).iter().map(|run| run.id).collect(),
        with_exchanges: false,
        series: None,
        overwrites: false,
    };
    Store::open(begin).expect("it can be opened").0
}

#[test]
fn a_cancelled_campaign_begins_no_further_run_and_keeps_the_others() {
    let (directory, cancel) = (tempfile::tempdir().expect("a directory"), AtomicBool::new(false));
    let (cells, kept) = ([Seeds::good()], store(directory.path()));
    let options =
        RunOptions { jobs: NonZeroUsize::new(1), store: Some(&kept), cancel: Some(&cancel), ..RunOptions::default() };
    let runs = plan(&cells, &origin());
    let cancelled = run(&cells, &origin(), &runs, options, &|_| cancel.store(true, Ordering::Relaxed));
    assert!(matches!(cancelled, Err(ExperimentError::Cancelled)));
    assert_eq!(cells[0].ran.load(Ordering::Relaxed), 1);
    assert_eq!(runs.iter().filter(|run| kept.has(run.id)).count(), 1);
}

#[test]
fn a_panicked_or_failed_run_leaves_a_gap_and_is_named() {
    let cell = Seeds { panics_in: Some(1), fails_in: Some(2), ..Seeds::good() };
    let (outcomes, completion) = run_all(&[cell], RunOptions::default()).expect("threads");
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
        let (outcomes, completion) = run_all(&cells, options).expect("threads");
        (outcomes.concat(), completion.reused, cells[0].ran.load(Ordering::Relaxed))
    };
    let (outcomes, taken, ran) = campaign(Seeds { panics_in: Some(1), ..Seeds::good() });
    assert_eq!((outcomes.iter().flatten().count(), taken, ran), (3, 0, 4));
    let (outcomes, taken, ran) = campaign(Seeds::good());
    let all: Vec<Option<u64>> = (0..4).map(|index| Some(seed_of(7, index))).collect();
    assert_eq!((outcomes, taken, ran), (all, 3, 1));
}

#[test]
fn runs_that_are_not_stored_fail_with_the_reason_of_their_part() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = store(directory.path());
    let cells = [Seeds::good()];
    let runs = plan(&cells, &origin());
    let options = RunOptions { store: Some(&store), ..RunOptions::default() };
    run(&cells, &origin(), &runs[..2], options, &|_| {}).expect("threads");
    let (scenario, cell, problem) = ("test".to_owned(), "seeds".to_owned(), "it panicked".to_owned());
    let failure = Failure { run: runs[2].id, scenario, cell, replication: 2, seed: seed_of(7, 2), problem };
    let options = RunOptions { only_stored: Some(std::slice::from_ref(&failure)), ..options };
    let (outcomes, completion) = run_all(&cells, options).expect("threads");
    assert_eq!(outcomes.concat(), [Some(seed_of(7, 0)), Some(seed_of(7, 1)), None, None]);
    let problems: Vec<_> = completion.failures.iter().map(|failure| failure.problem.as_str()).collect();
    assert_eq!(problems, ["it panicked", "it has not been run"]);
    assert_eq!(cells[0].ran.load(Ordering::Relaxed), 2);
}

#[test]
fn shards_have_each_run_once_and_about_the_same_work() {
    let run = |experiment: u64, place: u64| PlannedRun {
        work: 1 + place % 7 + 10 * experiment,
        ..plan(&[Seeds::good()], &Origin { seed: 100 * experiment + place, ..origin() })[0]
    };
    let plans: Vec<Vec<PlannedRun>> = [40, 30]
        .into_iter()
        .enumerate()
        .map(|(of, runs)| (0..runs).map(|place| run(of as u64, place)).collect())
        .collect();
    for count in [1, 3, 8, 100] {
        let shard = |number| format!("{number}/{count}").parse::<Part>().expect("a shard").of(&plans).expect("a part");
        let shards: Vec<Vec<Vec<PlannedRun>>> = (1..=count).map(shard).collect();
        for (experiment, plan) in plans.iter().enumerate() {
            let mut ids: Vec<_> = shards.iter().flat_map(|shard| &shard[experiment]).map(|run| run.id).collect();
            ids.sort_unstable();
            let mut all: Vec<_> = plan.iter().map(|run| run.id).collect();
            all.sort_unstable();
            assert_eq!(ids, all, "{count} shards");
        }
        let work: Vec<u64> = shards.iter().map(|shard| shard.iter().flatten().map(|run| run.work).sum()).collect();
        let (least, most) = (work.iter().min().expect("shards"), work.iter().max().expect("shards"));
        assert!(most - least <= 17, "{count} shards: {work:?}");
    }
    for wrong in ["0/8", "9/8", "1/0", "1", "a/b", "1/-1"] {
        assert!(wrong.parse::<Part>().is_err(), "{wrong}");
    }
    let unknown = Part::Runs(plan(&[Seeds::good()], &origin()).iter().map(|run| run.id).collect());
    assert!(
        unknown.of(&plans).is_err_and(|error| error.to_string().starts_with("no run of these experiments has the ID"))
    );
}

/// Few runs of many models: radios, queues, TCP, sleepy hosts.
const REFERENCE: [(&str, &str); 5] =
    [("star", "6"), ("pie", "tcp"), ("lte-m-edrx", "5.12s"), ("wifi-bursts", "1s"), ("lorawan", "5470")];

#[test]
fn a_change_of_results_asks_for_a_version() {
    let mut texts = Vec::new();
    for (name, point) in REFERENCE {
        let mut experiment = Network::by_name(name).expect("a network").experiment(&Controllers::new());
        let axis = experiment.document().scenario().sweep[0].name.clone();
        let only = vec![(axis, vec![point.to_owned()])];
        experiment.adjust(&Effort { quick: true, runs: Some(1), only, ..Effort::default() }).expect("a point");
        let measured = experiment.measure(RunOptions::default(), &|_| {}).expect("runs");
        let mut text = Vec::new();
        write_json(&measured.values, &mut text).expect("memory");
        texts.push(String::from_utf8(text).expect("text"));
    }
    let hash = fingerprint(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        (VERSION, hash.as_str()),
        ("1", "48ca9de08a857e7f"),
        "the results of reference networks changed. If this is intended, raise `campaign::VERSION`, since results on disk are \
         reused for the same version only, and put both here"
    );
}

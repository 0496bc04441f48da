//! Controllers of an experiment, defined at run time.

use std::sync::Barrier;
use std::thread;

use conche_lab::campaign::RunOptions;
use conche_lab::comparison::CellComparison;
use conche_lab::experiment::{Experiment, Measured};
use conche_lab::networks::Network;
use conche_lab::scenario::{Controllers, Effort, FileError};
use conche_proto::cc::any::Named;

const SCENARIO: &str = r#"
schema = 1
name = "own"
title = "Controllers of one name"
replications = 2
seed = 7
duration = "120s"
nodes = [{ name = "sensor", count = 4 }, { name = "server" }]
links = [{ name = "wire", between = ["sensor", "server"], wire = { delay = "400ms", loss = "20%" } }]
traffic = [{ name = "reports", from = "sensor", to = "server" }]
schemes = [{ name = "scheme", controller = "mine" }]
"#;

/// A controller `mine` that is another one of conche's.
fn mine(same_as: &str) -> Controllers {
    let features = Named::by_name(same_as).expect("one of conche's").features;
    let same_as = same_as.to_owned();
    let make = move || Named::by_name(&same_as).expect("one of conche's").controller();
    Controllers::with([Named::from_fn("mine", features, make)]).expect("a new name")
}

fn measured(experiment: &Experiment) -> Measured {
    experiment.measure(RunOptions::default(), &|_| ()).expect("it runs")
}

fn values(scenario: &str, controllers: &Controllers) -> Vec<u64> {
    let experiment = Experiment::read(scenario, &|_| Err(FileError::NotFound), controllers).expect("a scenario");
    let values = measured(&experiment).values;
    values.into_iter().map(|value| value.measured.to_bits()).collect()
}

#[test]
fn experiments_of_two_threads_have_different_controllers_of_one_name() {
    let began = Barrier::new(2);
    let run = |same_as| {
        let controllers = mine(same_as);
        began.wait();
        values(SCENARIO, &controllers)
    };
    let (linux, basic) = thread::scope(|scope| {
        let threads = ["linux", "basic"].map(|same_as| scope.spawn(move || run(same_as)));
        let [linux, basic] = threads.map(|thread| thread.join().expect("no panic"));
        (linux, basic)
    });
    let alone = |name: &str| values(&SCENARIO.replace("\"mine\"", &format!("\"{name}\"")), &Controllers::new());
    assert_eq!([&linux, &basic], [&alone("linux"), &alone("basic")]);
    assert_ne!(linux, basic);
    let unknown = Experiment::read(SCENARIO, &|_| Err(FileError::NotFound), &Controllers::new());
    let error = unknown.expect_err("no other experiment has it").to_string();
    assert!(error.contains("no congestion controller is called \"mine\""), "{error}");
}

#[test]
fn a_controller_defined_at_run_time_is_compared_on_networks() {
    let compared = |controllers: &Controllers| -> Vec<CellComparison> {
        let mut experiment = Network::by_name("lossy-lan").expect("a network").experiment(controllers);
        let only = vec![("loss".to_owned(), vec!["5%".to_owned()])];
        let names = controllers.own().iter().map(|named| named.name().to_owned());
        let controllers = ["linux".to_owned()].into_iter().chain(names).collect();
        let effort = Effort { controllers, compares: true, quick: true, only, ..Effort::default() };
        experiment.adjust(&effort).expect("both are known");
        measured(&experiment).cells
    };
    let cells = compared(&mine("linux"));
    assert!(!cells.is_empty());
    for cell in &cells {
        let [linux, mine] = &cell.entries[..] else { panic!("{} entries", cell.entries.len()) };
        assert_eq!((linux.controller.as_str(), mine.controller.as_str()), ("linux", "mine"));
        assert_eq!(linux.value, mine.value, "they are the same algorithm");
    }
    assert_eq!(cells.len(), compared(&Controllers::new()).len());
}

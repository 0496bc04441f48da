//! BDP'19, reduced, against hops and rates.

use toml::{Table as Toml, toml};

use super::*;
use conche_lab::metrics::{self, Endpoints, Sample};
use conche_lab::papers::BDP19;
use conche_lab::scenario::{Controllers, Metric, Statistic};
use conche_lab::trial::{Record, RecordOptions, Selection};

const MEDIA: [&str; 3] = ["mrm31", "udgm", "sinr"];

fn whole() -> Experiment {
    Experiment::read(BDP19.scenario, &conche_lab::papers::paper_file, &Controllers::new()).expect("valid")
}

/// Keeps one workload, on all media.
fn bdp19(workload: Toml) -> Experiment {
    whole().with("sweep.workload.points", vec![toml::Value::Table(workload)]).expect("a workload")
}

fn every(interval: &str, duration: &str) -> Toml {
    toml! {
        name = "static"
        set = { "traffic.messages.pace.every.interval" = interval, duration = duration }
    }
}

fn run_on(experiment: &Experiment, medium: &str, scheme: &str, seed: u64) -> Record {
    let cells = experiment.document().cells();
    let is_wanted = |cell: &&Cell| cell.label("medium", "") == Some(medium.into()) && cell.schemes[0] == scheme;
    let cell = cells.iter().find(is_wanted).expect("a cell");
    let replication = campaign::Replication { index: 0, count: 1, seed };
    let wanted = RecordOptions { arrivals: true, ..RecordOptions::default() };
    conche_lab::trial::run(cell, wanted, replication, &Arc::default()).expect("it runs").outcome
}

/// Computes a metric, in scenario syntax, of Confirmable messages.
fn metric(record: &Record, metric: &str) -> Sample {
    let of = Selection { scheme: 0, traffic: Some(0) };
    let table: Toml = toml::from_str(&format!("metric = {metric}")).expect("TOML");
    let endpoints = Endpoints { max_retransmit: 4, features: None };
    let metric = table["metric"].clone().try_into::<Metric>().expect("a metric");
    metrics::sample(&metric, record, of, endpoints)
}

fn number(record: &Record, of: &str) -> f64 {
    metrics::statistic::number(Statistic::Mean, &metric(record, of)).unwrap_or_else(|| panic!("{of} has no value"))
}

fn arrivals(record: &Record) -> usize {
    record.flows.iter().map(|flow| flow.arrivals.len()).sum()
}

#[test]
fn every_mote_has_a_path_on_every_medium_and_in_every_replication() {
    let experiment = bdp19(every("80s", "1ms"));
    for medium in MEDIA {
        for seed in 1..=20 {
            let record = run_on(&experiment, medium, "default", seed);
            assert_eq!(record.flows.len(), 88);
            assert!(record.flows.iter().all(|flow| flow.hops > 0), "{medium}, {seed}");
            assert!(record.flows.iter().any(|flow| flow.hops == 4), "{medium}, {seed}: Fig. 2 shows such a mote");
        }
    }
}

/// 8.5 bit/s of 85 B are a message per 80 s: in 400 s each of 88 motes sends 5 ± 1.
#[test]
fn offered_load_far_below_saturation_arrives_in_full() {
    let experiment = bdp19(every("80s", "400s"));
    for medium in MEDIA {
        let record = run_on(&experiment, medium, "default", 1);
        assert!((434..=440).contains(&arrivals(&record)), "{}", arrivals(&record));
        assert!(number(&record, "'loss'") < 0.5 && number(&record, "{ received = { jain = {} } }") > 0.99);
        let goodput = number(&record, "{ received = 'goodput-of-flow' }");
        assert!((goodput / 8.5 - 1.0).abs() < 0.02, "{goodput} bit/s");
    }
}

/// A message and its response take twice the mean number of hops.
#[test]
fn frames_follow_from_hops_where_nothing_collides() {
    let record = run_on(&bdp19(every("80s", "400s")), "udgm", "default", 1);
    let hops: u16 = record.flows.iter().map(|flow| flow.hops).sum();
    let expected = 2.0 * f64::from(hops) / record.flows.len() as f64;
    let frames = number(&record, "{ received = 'frames' }");
    // At 1.1 messages per second of some 50 ms each, at most a tenth collides.
    assert!(frames >= expected && frames < 1.15 * expected, "{frames} frames a message over {expected} hops");
}

#[test]
fn saturated_motes_get_more_of_the_channel_the_nearer_they_are() {
    let record = run_on(&bdp19(every("1s", "120s")), "udgm", "default", 1);
    let Sample::Labelled(by_hops) = metric(&record, "{ received = 'goodput-by-hops' }") else { panic!("labelled") };
    let of = |hops: &str| by_hops.iter().find(|(label, _)| label == hops).expect("a mote").1;
    assert!(of("1") > 2.0 * of("5") && of("5") > 0.0, "{by_hops:?} bit/s");
}

/// 44 motes send 170 bit/s half of the time: 0.25 messages per second.
#[test]
fn unaware_motes_keep_their_rate_and_their_pauses_beside_those_with_an_endpoint() {
    let mixed = toml! {
        name = "mixed"
        [set]
        duration = "160s"
        "traffic.messages.shuffle" = "mixed"
        "traffic.messages.skip" = 44
        "traffic.unaware.take" = 44
        "traffic.unaware.pace.on-off.on" = "40s"
        "traffic.unaware.pace.on-off.off" = "40s"
    };
    let record = run_on(&bdp19(mixed), "mrm31", "cocoa-plus", 1);
    let (unaware, aware): (Vec<_>, Vec<_>) = record.flows.iter().partition(|flow| !flow.has_endpoint);
    assert_eq!((unaware.len(), aware.len()), (44, 44));
    let clients: HashSet<_> = record.flows.iter().map(|flow| flow.client).collect();
    assert_eq!(clients.len(), 88, "each mote is one or the other");
    let between = |from: u64, to: u64| {
        let times = unaware.iter().flat_map(|flow| &flow.arrivals);
        times.filter(|at| (from..to).contains(&(at.as_nanos() / 1_000_000_000))).count()
    };
    let (on, off, again) = (between(0, 40), between(42, 80), between(80, 120));
    assert!(off == 0 && on > 200 && again > 200, "{on}, {off}, {again} of at most 440 messages");
    assert!(on <= 440 && again <= 440);
    assert!(unaware.iter().all(|flow| flow.exchanges.is_empty() && flow.tally.answered == 0));
    let both = |traffic| record.flows_of(Selection { scheme: 0, traffic }).count();
    assert_eq!((both(None), both(Some(1))), (44, 44), "what is asked for without a name has an endpoint");
}

#[test]
fn each_step_of_the_rate_is_measured_by_itself() {
    let dynamic = toml! {
        name = "dynamic"
        [set]
        duration = "120s"
        "traffic.messages.pace" = { phases = ["20s", "5s", "20s"] }
        phases = [
            { name = "1/34", lasts = "40s" },
            { name = "2/136", lasts = "40s" },
            { name = "3/34", lasts = "40s" },
        ]
    };
    let mut experiment = bdp19(dynamic);
    let controllers = vec!["default".to_owned()];
    experiment.adjust(&Effort { runs: Some(1), controllers, ..Effort::default() }).expect("a scheme");
    let values = measured(&experiment);
    let goodput = |row: &str| value(&values, row, "goodput_mote");
    let [one, two, three] = ["1/34", "2/136", "3/34"].map(|step| goodput(&format!("default/mrm31/dynamic/{step}")));
    assert!((one / 34.0 - 1.0).abs() < 0.05 && (two / 136.0 - 1.0).abs() < 0.1, "{one}, {two}");
    assert!((goodput("default/mrm31/dynamic") - (one + two + three) / 3.0).abs() < 1e-6);
    assert!(values.iter().all(|value| value.item != "fig2"), "only a static workload has that series");
    let counts = [
        toml! {
            column = "copies"
            metric = "copies"
        },
        toml! {
            column = "retries"
            metric = "retries"
        },
    ];
    let counted = experiment.with("figure", toml::Value::Array(Vec::new())).expect("nothing is drawn");
    let counted = counted.with("values", counts.map(toml::Value::Table).to_vec()).expect("values");
    let counted = measured(&counted);
    let rows =
        |column: &str| counted.iter().filter(|value| value.column == column && value.row.contains("mrm31")).count();
    assert_eq!((rows("retries"), rows("copies")), (4, 1), "copies are counted for the whole run");
    let tables = experiment.tables(&values);
    let table = tables.iter().find(|table| table.title.starts_with("Fig. 3")).expect("of the steps");
    assert_eq!(table.header, ["medium", "step", "bit/s", "default Jain", "default bit/s", "default loss %"]);
    let steps: Vec<_> = table.rows.iter().take(4).map(|row| row[..3].join(" ")).collect();
    assert_eq!(steps, ["mrm31 all ", "mrm31 1 34", "mrm31 2 136", "mrm31 3 34"]);
}

#[test]
fn every_controller_runs_and_figures_do_not_depend_on_threads() {
    let mut experiment = bdp19(toml! {
        name = "static/60"
        set = { "traffic.messages.pace.every.interval" = "11333ms", duration = "30s" }
    });
    let udgm = experiment.document().scenario().sweep[1].points().swap_remove(1);
    experiment = experiment.with("sweep.medium.points", vec![point(udgm)]).expect("a medium");
    let names: Vec<&str> = conche_proto::cc::any::ALL.iter().map(|named| named.name()).collect();
    let controllers = names.iter().map(|name| (*name).to_owned()).collect();
    experiment.adjust(&Effort { controllers, runs: Some(1), ..Effort::default() }).expect("controllers");
    assert_eq!(experiment.document().cells().len(), names.len());
    let measure = |threads| experiment.measure(jobs(threads), &|_| {}).expect("a run").values;
    let values = measure(1);
    assert_eq!(values, measure(2));
    for name in names {
        let goodput = value(&values, &format!("{name}/udgm/static/60"), "goodput");
        assert!(goodput > 3000.0, "{name}: {goodput}");
    }
}

#[test]
fn tables_show_every_panel_of_the_run_cells() {
    let mut experiment = whole().with("quick.set.duration", "30s").expect("a duration");
    let points = |paces: [(&str, &str); 2]| {
        let point = |(name, interval): (&str, &str)| {
            toml::Value::Table(toml! {
                name = name
                set = { "traffic.messages.pace.every.interval" = interval }
            })
        };
        toml::Value::Array(paces.map(point).into())
    };
    let both = points([("static/60", "11s"), ("static/saturated", "1s")]);
    experiment = experiment.with("sweep.workload.points", both).expect("workloads");
    experiment = experiment.with("duration", "125s").expect("a duration");
    let controllers = vec!["default".to_owned(), "cocoa-plus".to_owned()];
    experiment.adjust(&Effort { runs: Some(1), controllers, ..Effort::default() }).expect("schemes");
    let tables = experiment.tables(&measured(&experiment));
    let panel = tables.iter().find(|table| table.title.contains("short windows")).expect("Fig. 1");
    assert_eq!(panel.header, ["medium", "bit/s", "default", "cocoa-plus"]);
    let names: Vec<_> = panel.rows.iter().map(|row| row[..2].join(" ")).collect();
    assert_eq!(names, ["mrm31 60", "mrm31 saturated", "udgm 60", "udgm saturated", "sinr 60", "sinr saturated"]);
    let series = tables.iter().find(|table| table.title.starts_with("Fig. 2")).expect("a series");
    assert_eq!((series.rows.len(), series.rows[0][0].as_str(), series.header.len()), (1, "120s", 7));
    let claims = tables.last().expect("the claims");
    let claim = claims.rows.iter().find(|row| row[0] == "jain short default above cocoa-plus/udgm/static/saturated");
    assert_eq!(claim.and_then(|row| row.last()).map(String::as_str), Some("inconclusive"), "one run has no interval");
}

//! Parsing, sweeps and refused values.

use std::collections::BTreeSet;

use conche_proto::cc::AnyController;
use conche_proto::cc::any::Named;
use conche_proto::cc::cocoa::{self, Cocoa};
use conche_proto::cc::full_backoff::CocoaFullBackoff;

use super::*;

const ANRW18: &str = include_str!("../../../scenarios/anrw18.toml");

fn changed(from: &str, to: &str) -> Result<Document, ScenarioError> {
    let text = ANRW18;
    assert!(text.contains(from), "the scenario does not contain {from:?}");
    Document::from_toml(&text.replacen(from, to, 1))
}

fn problem(from: &str, to: &str) -> String {
    changed(from, to).expect_err("it should be refused").to_string()
}

fn anrw18() -> Document {
    Document::from_toml(ANRW18).expect("valid")
}

#[test]
fn the_paper_of_2018_is_as_published() {
    let document = anrw18();
    let scenario = document.scenario();
    let points = |axis: &str| -> Vec<String> {
        let axis = scenario.sweep.iter().find(|known| known.name == axis).expect("an axis");
        axis.points().into_iter().map(|point| point.name).collect()
    };
    assert_eq!(points("clients"), ["1", "10", "50", "100", "200", "400"]);
    assert_eq!(points("buffer"), ["2500", "14100", "28200", "inf"]);
    assert_eq!((scenario.replications.get(), scenario.endpoint.max_retransmit), (20, 20));
    let cocoa =
        scenario.scheme("cocoa").expect("a scheme of the paper").build(&scenario.controllers).expect("valid options");
    assert_eq!(cocoa, Cocoa::anrw18().into());
    let default =
        scenario.scheme("default").expect("a scheme of the paper").build(&scenario.controllers).expect("valid options");
    assert_eq!(Ok(default), AnyController::by_name("default"));
    let full = scenario
        .scheme("cocoa-fb2")
        .expect("a scheme of the paper")
        .build(&scenario.controllers)
        .expect("valid options");
    assert_eq!(full, CocoaFullBackoff { cocoa: Cocoa::anrw18(), ..CocoaFullBackoff::variant_2() }.into());
}

#[test]
fn a_purpose_is_design_or_judgement_and_papers_have_none() {
    let purpose = |to: &str| Ok(changed("replications = ", to)?.scenario().purpose);
    assert_eq!(purpose("purpose = \"design\"\nreplications = "), Ok::<_, ScenarioError>(Some(Purpose::Design)));
    assert_eq!(purpose("purpose = \"judgement\"\nreplications = "), Ok(Some(Purpose::Judgement)));
    assert_eq!(anrw18().scenario().purpose, None);
    let refused = problem("replications = ", "purpose = \"test\"\nreplications = ");
    assert!(refused.contains("expected `design` or `judgement`"), "{refused}");
}

#[test]
fn cells_are_in_the_order_of_the_scenario() {
    let mut document = anrw18().with("sweep.clients.values", vec![1, 2]).expect("an axis of the scenario");
    let controllers = vec!["cocoa".to_owned(), "default".to_owned()];
    document.adjust(&Effort { controllers, ..Effort::default() }).expect("schemes of the scenario");
    let cells = document.cells();
    let rows: Vec<_> = cells
        .iter()
        .flat_map(|cell| cell.schemes.iter().map(|scheme| cell.row(None, scheme)))
        .filter(|row| row.ends_with("/inf"))
        .collect();
    assert_eq!(
        rows,
        [
            "cocoa/continuous/1/inf",
            "cocoa/continuous/2/inf",
            "cocoa/random/1/inf",
            "cocoa/random/2/inf",
            "default/continuous/1/inf",
            "default/continuous/2/inf",
            "default/random/1/inf",
            "default/random/2/inf",
            "default@default+cocoa/continuous/2/inf",
            "cocoa@default+cocoa/continuous/2/inf",
            "default@default+cocoa/random/2/inf",
            "cocoa@default+cocoa/random/2/inf",
        ]
    );
}

#[test]
fn a_sweep_point_sets_only_its_own_values() {
    let document = anrw18();
    let of = |row: &str| {
        let cell = document.cells().iter().find(|cell| cell.row(None, &cell.schemes[0]) == row).expect("a cell");
        (cell.scenario.nodes[4].size(), cell.scenario.links[4].wire, cell.scenario.traffic[0].batch.is_some())
    };
    let (clients, downlink, is_random) = of("default/random/50/14100");
    assert_eq!((clients, is_random), (50, true));
    let (_, other, is_random) = of("default/continuous/50/2500");
    assert!(!is_random && downlink != other);
    assert_eq!(downlink.rate, other.rate);
}

#[test]
fn the_axis_of_schemes_has_its_place_where_it_is_listed() {
    let text = format!("{}\n[[sweep]]\nname = \"scheme\"\n", ANRW18);
    let document = Document::from_toml(&text).expect("valid");
    let rows: Vec<_> = document.cells().iter().take(2).map(|cell| cell.row(None, &cell.schemes[0])).collect();
    assert_eq!(rows, ["default/continuous/1/2500", "cocoa/continuous/1/2500"]);
}

#[test]
fn a_bare_number_is_refused_where_it_stands() {
    let error = changed("rate = \"30kbit/s\"", "rate = 30").expect_err("no unit");
    assert!(error.to_string().contains("write a data rate as in \"30kbit/s\""), "{error}");
    let span = error.span().expect("the place is known");
    let text = ANRW18.replacen("rate = \"30kbit/s\"", "rate = 30", 1);
    assert_eq!(&text[span], "30");
}

#[test]
fn an_error_points_to_the_innermost_wrong_value() {
    for (from, to, wrong, problem) in [
        ("schema = 1", "schema = true", "true", "invalid type: boolean `true`, expected u32"),
        ("replications = 20", "replications = 2.5", "2.5", "invalid type: floating point `2.5`, expected u32"),
        ("max_retransmit = 20", "max_retransmit = 256", "256", "invalid value: integer `256`, expected u8"),
        (
            "replications = 20",
            "replications = 9223372036854775808",
            "9223372036854775808",
            "numbers go from -2^63 to 2^63 - 1",
        ),
        ("ack_random_factor = 1.5", "ack_random_factor = 1e999", "1e999", "numbers go from -2^63 to 2^63 - 1"),
        ("title = ", "title = 1979-05-27 # ", "1979-05-27", "a scenario has no dates"),
        ("values = [1, 10, ", "values = [1, 1979-05-27, ", "1979-05-27", "a scenario has no dates"),
        (
            "nstart = 1",
            "nstrat = 1",
            "nstrat",
            "unknown field `nstrat`; did you mean `nstart`? Expected one of `max_retransmit`, `last_timeout`, ",
        ),
        (
            "metric = \"copies\"",
            "metric = \"copys\"",
            "\"copys\"",
            "unknown variant `copys`; did you mean `copies`? Expected one of ",
        ),
        ("metric = \"copies\"", "metric = { copies = 1 }", "1", "it takes no parameters: write its name alone"),
        (
            "metric = \"copies\"",
            "metric = { copies = 1, loss = 2 }",
            "{ copies = 1, loss = 2 }",
            "write one key, the name of the variant",
        ),
        (
            "metric = \"copies\"",
            "metric = { done = { window = \"1s\", x = 2 } }",
            "x",
            "unknown field `x`, expected `window` or `stretches`",
        ),
    ] {
        let text = ANRW18.replacen(from, to, 1);
        let error = changed(from, to).expect_err(to);
        assert!(error.to_string().starts_with(problem), "{to}: {error}");
        assert_eq!(&text[error.span().expect("the place is known")], wrong, "{to}");
    }
}

#[test]
fn what_is_missing_or_needs_parameters_is_told_with_an_example() {
    for (from, to, wrong, problem) in [
        ("title = ", "#", None, "the scenario has no `title`; write it as title = \"Meters behind a modem\""),
        (
            "to = \"server\"\nexchanges",
            "exchanges",
            Some("[[traffic]]"),
            "`traffic.gets` has no `to`; write it as to = ",
        ),
        (
            "metric = \"copies\"",
            "metric = \"settling\"",
            Some("\"settling\""),
            "it takes parameters: write it as { settling = { share = 0.8 } }",
        ),
        (
            "exchanges = 50 ",
            "pace = \"poisson\"\nexchanges = 50 ",
            Some("\"poisson\""),
            "it takes parameters: write it as { poisson = { interval = \"5s\" } }",
        ),
        (
            "statistic = { percentile = 90 }",
            "statistic = \"percentil\"",
            Some("\"percentil\""),
            "unknown variant `percentil`; did you mean `percentile`?",
        ),
    ] {
        let text = ANRW18.replacen(from, to, 1);
        let error = changed(from, to).expect_err(to);
        assert!(error.to_string().starts_with(problem), "{to}: {error}");
        let marked = error.span().map(|span| &text[span]);
        assert!(wrong.is_none_or(|wrong| marked.is_some_and(|marked| marked.starts_with(wrong))), "{to}: {marked:?}");
    }
}

#[test]
fn a_run_that_no_time_ends_has_traffic_that_does() {
    let endless = PARTS.replacen(", exchanges = 5 }", " }", 1);
    let error = Document::from_toml(&endless).expect_err("an endless flow").to_string();
    assert!(error.contains("parts.first.traffic.gets: it never ends") && error.contains("`duration`"), "{error}");
    let stopped = PARTS.replacen(", exchanges = 5 }", ", stop = \"60s\" }", 1);
    assert_eq!(Document::from_toml(&stopped).map(drop), Ok(()));
}

#[test]
fn two_values_of_a_row_have_different_columns() {
    let value = |only: &str| format!("\n[[values]]\ncolumn = \"twice\"\nmetric = \"copies\"\n{only}\n");
    let text = format!("{ANRW18}{}{}", value(""), value("only = { clients = \"1\" }"));
    let error = Document::from_toml(&text).expect_err("both are of one cell");
    let problem = error.to_string();
    assert!(problem.contains("has two values in the column `twice`; give one another name"), "{problem}");
    assert_eq!(error.span().map(|span| &text[span]), Some("\"twice\""));
    assert!(error.span().is_some_and(|span| span.start > text.rfind("[[values]]").expect("a value")), "the second");
    let apart = format!("{ANRW18}{}{}", value("only = { clients = \"10\" }"), value("only = { clients = \"1\" }"));
    assert_eq!(Document::from_toml(&apart).map(drop), Ok(()));
}

#[test]
fn a_value_that_a_sweep_replaces_cannot_be_set() {
    let set = |path: &str, value: &str| {
        let mut document = anrw18();
        let set = vec![(path.to_owned(), value.to_owned())];
        document.adjust(&Effort { set, ..Effort::default() }).map_err(|error| error.to_string())
    };
    let error = set("nodes.client.count", "20").expect_err("the sweep sets it");
    assert!(error.starts_with("nodes.client.count: every point of the sweep `clients` sets this value"), "{error}");
    assert!(error.contains("sweep.clients.values=[20]") && error.contains("--only clients="), "{error}");
    assert_eq!(set("traffic.gets.batch", "[1, 5]"), Ok(()), "only one point sets it");
    let mut document = Document::from_toml(PARTS).expect("valid");
    let set = vec![("parts.first.traffic.gets.response".to_owned(), "30B".to_owned())];
    let error = document.adjust(&Effort { set, ..Effort::default() }).expect_err("a sweep of the part").to_string();
    assert!(error.contains("every point of the sweep `size`"), "{error}");
}

fn marked(text: &str) -> String {
    let error = Document::from_toml(text).expect_err("it is wrong");
    error.span().map_or_else(|| error.to_string(), |span| text[span].to_owned())
}

#[test]
fn an_error_in_an_element_with_the_name_of_another_or_a_dotted_one_points_to_the_element() {
    for name in ["client", "a.b"] {
        let text = format!("{ANRW18}\n[[nodes]]\nname = \"{name}\"\ncount = \"many\"\n");
        assert_eq!(marked(&text), "\"many\"", "{name}");
    }
}

#[test]
fn an_error_of_a_sweep_points_to_the_value_or_the_path() {
    let axis = "\n[[sweep]]\nname = \"loss\"\npath = \"links.uplink.wire.loss\"\nvalues = [\"0%\", 3]\n";
    let text = format!("{ANRW18}{axis}");
    assert_eq!(marked(&text), "3");
    let error = Document::from_toml(&text).expect_err("a bare number").to_string();
    assert!(error.contains("loss 3): links.uplink.wire.loss: "), "{error}");
    assert_eq!(marked(&text.replace("links.uplink.wire.loss", "links.side.wire.loss")), "\"links.side.wire.loss\"");

    let nowhere = text.replace("links.uplink.wire.loss", "sat.loss").replace(", 3]", "]");
    assert_eq!(marked(&nowhere), "\"sat.loss\"");

    let points = "\n[[sweep]]\nname = \"loss\"\npoints = [\n{ name = \"none\", set = {} },\n\
                  { name = \"0\", set = { \"links.uplink.wire.loss\" = 3 } },\n]\n";
    assert!(marked(&format!("{ANRW18}{points}")).starts_with("{ name = \"0\""));
    let nowhere = points.replace("uplink", "side");
    assert_eq!(marked(&format!("{ANRW18}{nowhere}")), "{ \"links.side.wire.loss\" = 3 }");
}

#[test]
fn an_error_points_to_the_element_even_if_another_has_its_name() {
    let value = "\n[[values]]\ncolumn = \"COLUMN\"\nmetric = \"copies\"\nonly = { size = \"1\" }\n";
    let column = anrw18().scenario().values[0].column.clone();
    assert_eq!(marked(&format!("{ANRW18}{}", value.replace("COLUMN", &column))), "{ size = \"1\" }");
    assert_eq!(marked(&format!("{ANRW18}{}", value.replace("COLUMN", "a.b"))), "{ size = \"1\" }");
}

#[test]
fn an_error_of_a_set_value_names_its_path() {
    let mut document = anrw18();
    let set = vec![("links.uplink.wire.loss".to_owned(), "5".to_owned())];
    let error = document.adjust(&Effort { set, ..Effort::default() }).expect_err("a bare number").to_string();
    assert!(error.starts_with("links.uplink.wire.loss: "), "{error}");
}

#[test]
fn an_error_of_an_array_points_to_it() {
    let text = ANRW18.replacen("exchanges = 50 ", "exchanges = 50\nbatch = [1, 2, 3]", 1);
    assert_eq!(marked(&text), "[1, 2, 3]");
}

#[test]
fn unknown_keys_are_refused() {
    assert!(problem("nstart = 1", "nstrat = 1").contains("nstrat"));
    assert!(problem("rate = \"60kbit/s\"", "rate = \"60kbit/s\"\ncolour = \"red\"").contains("colour"));
}

#[test]
fn nats_translate_for_other_nodes_and_last_five_minutes_by_default() {
    let with = |nats: &str| {
        let nats = format!("[[nats]]\nname = \"home\"\nat = \"hub\"\n{nats}\n[[traffic]]");
        changed("[[traffic]]", &nats)
    };
    let inside = "inside = \"client\"";
    let document = with(inside).expect("valid");
    assert_eq!(document.scenario().nats[0].timeout, "300s".parse().expect("a span"));
    let cellular = "[[nats]]\nname = \"cellular\"\nat = \"router\"\ninside = \"client[3]\"";
    let rebind = "[[changes]]\nat = \"1s\"\nevent = { rebind = { nodes = ";
    for (nats, expected) in [
        (String::new(), "`nats.home` has no `inside`; write it as inside = \"client\", a node or group of [[nodes]]"),
        ("inside = \"clients\"".to_owned(), "nats.home.inside: there are no nodes `clients`; there are hub,"),
        ("inside = \"hub\"".to_owned(), "nats.home.at: `hub` is behind itself; a NAT is a node on the path"),
        (format!("{inside}\ntimeout = \"0s\""), "nats.home.timeout: no answer arrives within 0s; write a timeout"),
        (format!("{inside}\n{cellular}"), "nats.cellular.inside: `client[3]` is behind two NATs; give it one"),
        (
            format!("{inside}\n{}", cellular.replace("cellular", "home").replace("client[3]", "server")),
            "nats: the name `home` is there twice",
        ),
        (format!("{inside}\n{rebind}\"server\" }} }}"), "changes.0.event.rebind.nodes: `server` is behind no NAT; "),
        (
            "inside = \"server\"\n[[nats]]\nname = \"two\"\nat = \"client[0..2]\"\ninside = \"client[2..5]\""
                .to_owned(),
            "nats.two.inside: 3 nodes have no equal shares at 2; make it a multiple",
        ),
    ] {
        let error = with(&nats).expect_err(&nats).to_string();
        assert!(error.starts_with(expected), "{nats}: {error}");
    }
    assert!(with(&format!("{inside}\n{rebind}\"client\" }} }}")).is_ok());
}

#[test]
fn unknown_controllers_and_schemes_are_named_beside_the_known_ones() {
    let error = problem("controller = \"cocoa\"", "controller = \"cacoa\"");
    assert!(error.contains("cacoa") && error.contains("default-fb1"), "{error}");
    let error = problem("schemes = [\"default\", \"cocoa\"]", "schemes = [\"default\", \"coca\"]");
    assert_eq!(
        error,
        "mixes.default+cocoa.schemes: there is no scheme `coca`; the schemes are default, cocoa, default-fb1, \
         default-fb2, cocoa-fb1, cocoa-fb2"
    );
}

#[test]
fn an_unknown_controller_is_marked_where_it_stands() {
    let scheme = "\n[[schemes]]\nname = \"default\"\ncontroller = \"nowhere\"\n";
    assert_eq!(marked(&format!("{ANRW18}{scheme}")), "\"nowhere\"");
    let parameter = "controller = { cocoa = { weak_k = 65 } }";
    let text = ANRW18.replacen("controller = \"cocoa\"", parameter, 1);
    assert_eq!(marked(&text), "{ cocoa = { weak_k = 65 } }");
    let traffic = PARTS.replacen("from = \"b\"", "controller = \"nowhere\", from = \"b\"", 1);
    assert_eq!(marked(&traffic), "\"nowhere\"");
    let axis =
        "\n[[sweep]]\nname = \"cc\"\npath = \"schemes.cocoa.controller\"\nvalues = [\"cocoa:weak_k=2\", \"nowhere\"]\n";
    let text = format!("{ANRW18}{axis}");
    assert_eq!(marked(&text), "\"nowhere\"");
    let error = Document::from_toml(&text).expect_err("an unknown one").to_string();
    assert!(error.contains("cc nowhere): schemes.cocoa.controller: no congestion controller is called"), "{error}");
}

#[test]
fn a_scenario_names_the_controllers_it_is_read_with() {
    let features = conche_proto::cc::features::Features::of::<Cocoa>("defined at run time");
    let own = |weak_k: u8| {
        let make = move || Cocoa { weak_k, ..Cocoa::default() }.into();
        Controllers::with([Named::from_fn("mine", features, make)]).expect("a new name")
    };
    let text = ANRW18.replacen("controller = \"cocoa\"", "controller = \"mine\"", 1);
    let read = |weak_k| Document::read(&text, &|_| Err(FileError::NotFound), &own(weak_k));
    for weak_k in [2, 3] {
        let mut document = read(weak_k).expect("the controller is known");
        let controllers = vec!["mine:max_rto=9s".to_owned(), "cocoa".to_owned()];
        document.adjust(&Effort { controllers, ..Effort::default() }).expect("a controller, and a scheme");
        for cell in document.cells() {
            let scenario = &cell.scenario;
            let built = |scheme: &str| scenario.scheme(scheme).map(|scheme| scheme.build(&scenario.controllers));
            let max_rto = Duration::from_secs(9);
            assert_eq!(built("mine:max_rto=9s"), Some(Ok(Cocoa { weak_k, max_rto, ..Cocoa::default() }.into())));
            assert_eq!(built("cocoa"), Some(Ok(Cocoa { weak_k, ..Cocoa::anrw18() }.into())));
        }
    }
    let error = Document::from_toml(&text).expect_err("it is not conche's").to_string();
    assert!(error.contains("no congestion controller is called \"mine\""), "{error}");
}

#[test]
fn unknown_nodes_are_named_beside_the_known_ones() {
    for (from, to, place) in
        [("from = \"client\"", "from = \"cleint\"", "traffic."), ("to = \"server\"", "to = \"sever[0]\"", "links.")]
    {
        let error = problem(from, to);
        let known = "; there are hub, router";
        assert!(error.contains(place) && error.contains("there are no nodes `") && error.contains(known), "{error}");
    }
}

#[test]
fn options_that_a_controller_does_not_have_are_refused() {
    let error = problem("controller = \"default\"", "controller = \"default\"\naging = \"off\"");
    assert_eq!(
        error,
        "schemes.default.aging: default has no parameter `aging`. Its parameters: ack_timeout (1ms to 60s; default 2s), \
         ack_random_factor (1 to 10; default 1.5), max_timeout (1s to 600s; default 60s)"
    );
}

#[test]
fn invalid_scenario_values_are_refused() {
    for (from, to, expected) in [
        ("replications = 20", "replications = 0", "at least 1"),
        ("replications = 20", "replications = 1048577", "1048577; a cell has at most 1048576"),
        ("schema = 1", "schema = 2", "schema: this conche reads scenarios of schema 1, not 2"),
        ("= [1, 10] }", "= [10, 1] }", "write the least, at least 1, and the most"),
        ("name = \"random\"", "name = \"continuous\"", "sweep.workload: the name `continuous` is there twice"),
        (
            "response = \"66B\"",
            "response = \"5B\"",
            "traffic.gets.response: 5B is not 4B (header and token) or between",
        ),
        ("values = [1, 10, 50, 100, 200, 400]", "values = []", "sweep.clients: it has no point"),
        ("{ name = \"inf\"", "{ name = \"a@b\"", "`a@b` is no name"),
        ("nstart = 1 ", "nstart = 0 ", "endpoint.nstart"),
        ("max_retransmit = 20", "last_timeout = false\nmax_retransmit = 0", "endpoint.last_timeout"),
        ("nstart = 1 ", "max_transmit_span = \"0s\"\nnstart = 1 ", "endpoint.max_transmit_span: 0 s leaves no time"),
        ("ack_random_factor = 1.5", "ack_random_factor = 0.5", "schemes.default.ack_random_factor"),
        ("time_limit = \"48h\"", "time_limit = \"48h\"\nduration = \"1h\"", "duration: say either"),
        ("from = \"hub\"", "between = [\"hub\", \"router\"]", "links.uplink: write its ends"),
        ("path = \"nodes.client.count\"", "path = \"nodes.clients.count\"", "`nodes` has no `clients`; it has hub"),
        (
            "metric = \"copies\"",
            "metric = \"copies\"\nstatistic = { percentile = 50 }",
            "values.copies_per_run: it is one number",
        ),
        ("count = 400", "count = 4000000000", "nodes: 4000000004 nodes are more than"),
        ("metric = \"copies\"", "metric = { done = { window = \"1ns\" } }", "48h has more than 10000 windows of 1ns"),
        ("statistic = { percentile = 90 }", "statistic = { percentile = 900 }", "a percentile of 900"),
        ("only = { clients", "only = { client", "values.{}.only: there is no axis `client`"),
    ] {
        let error = problem(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn a_scenario_has_the_safety_envelope_of_sockets_unless_it_opens_it() {
    let read = |endpoint: &str| {
        let text = PARTS.replacen("timeout_cap = \"60s\"", endpoint, 1);
        Document::from_toml(&text).map(|document| document.scenario().endpoint.safety_envelope())
    };
    assert_eq!(read(""), Ok(conche_proto::Envelope::default()));
    let cap = Duration::from_millis(50);
    let open = read("timeout_cap = \"50ms\"\nenvelope = \"open\"");
    assert_eq!(open, Ok(conche_proto::Envelope::open(cap)));
    let error = read("timeout_cap = \"50ms\"").expect_err("below the minimum").to_string();
    assert!(error.contains("endpoint.timeout_cap: 50ms is below the minimum first timeout"), "{error}");
    assert!(error.contains("100ms") && error.contains("`envelope = \"open\"`"), "{error}");
}

#[test]
fn parameters_of_a_controller_are_set_by_name() {
    let changed = |set: &[(&str, &str)], controllers: &[&str]| -> Result<Document, ScenarioError> {
        let mut document = anrw18();
        let set = set.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        document.adjust(&Effort { set, controllers, ..Effort::default() }).map(|()| document)
    };
    let built = |document: &Document, name: &str| {
        document.scenario().scheme(name).map(|scheme| scheme.build(&Controllers::new()))
    };
    let expected = Cocoa { weak_k: 2, max_rto: core::time::Duration::from_secs(9), ..Cocoa::default() };

    let document = changed(&[], &["cocoa:weak_k=2,max_rto=9s"]).expect("a controller and its parameters");
    assert_eq!(built(&document, "cocoa:weak_k=2,max_rto=9s"), Some(Ok(expected.into())));

    let in_toml = "{ cocoa = { weak_k = 2, max_rto = \"9s\", aging = \"off\" } }";
    let document = changed(&[("schemes.cocoa.controller", in_toml)], &[]).expect("a table");
    let built = built(&document, "cocoa").expect("a scheme").expect("a controller");
    assert_eq!(built, Cocoa { aging: cocoa::Aging::Off, ..expected }.into());

    let error = changed(&[("schemes.cocoa.controller.cocoa.weak_k", "65")], &[]).expect_err("too large").to_string();
    assert!(error.contains("`weak_k = 65` is invalid; valid is 0 to 64") && error.contains("strong_k ("), "{error}");
    let error = changed(&[("schemes.cocoa.controller.cocoa.max_rto", "9")], &[]).expect_err("no unit").to_string();
    assert!(error.contains("1s to 600s"), "{error}");
}

#[test]
fn other_controllers_run_through_the_same_scenario() {
    let names = |document: &Document| -> Vec<String> {
        document.scenario().schemes.iter().map(|scheme| scheme.name.clone()).collect()
    };
    let adjusted = |controllers: &[&str]| {
        let mut document = anrw18();
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        document.adjust(&Effort { controllers, ..Effort::default() }).map(|()| document)
    };
    let changed = adjusted(&["cocoa", "default", "coap-b"]).expect("valid names");
    assert_eq!(names(&changed), ["cocoa", "default", "coap-b"]);
    let own = anrw18();
    assert_eq!(changed.scenario().scheme("cocoa"), own.scenario().scheme("cocoa"), "the scenario's own comes first");
    let mixes: Vec<_> = changed.scenario().mixes.iter().map(|mix| mix.name.as_str()).collect();
    assert_eq!(mixes, ["default+cocoa"]);
    for bad in [&["cacoa"] as &[&str], &["cocoa", "cocoa"]] {
        assert!(adjusted(bad).is_err(), "{bad:?} was accepted");
    }
}

#[test]
fn invalid_phases_paces_and_senders_are_refused() {
    let text = include_str!("../../../scenarios/bdp19.toml");
    for (from, to, expected) in [
        ("lasts = \"300s\"", "lasts = \"0s\"", "phases.1/8.5.lasts: a phase of 0s"),
        ("{ name = \"2/17\"", "{ name = \"1/8.5\"", "phases: the name `1/8.5` is there twice"),
        ("{ name = \"2/17\"", "{ name = \"a@b\"", "phases: `a@b` is no name: it must not be empty nor contain @ or"),
        (
            "duration = \"2700s\"",
            "duration = \"2699s\"",
            "phases: together they last 45min, longer than the run of 2699s",
        ),
        (
            "\"40s\", \"80s\"] }",
            "\"40s\"] }",
            "traffic.messages.pace.phases: 8 intervals for 9 phases; write one for each",
        ),
        (
            "phases = [\"80s\"",
            "phases = [\"0s\"",
            "traffic.messages.pace.interval: 0s would open exchanges without end",
        ),
        ("on = \"360s\", off", "on = \"0s\", off", "traffic.unaware.pace: a turn of 0s is none"),
        (
            "on = \"360s\", off",
            "on = \"3s\", off",
            "traffic.unaware.pace.interval: an interval of 4s is longer than the",
        ),
        ("on = \"360s\", off", "on = 360, off", "write a time as in"),
        ("confirmable = false", "confirmable = true", "traffic.unaware.confirmable: an unaware sender hears of no"),
        (
            "take = 0 ",
            "exchanges = 5\ntake = 0 ",
            "traffic.unaware.exchanges: an unaware sender hears of no end of what",
        ),
        ("take = 0 ", "outstanding = 2\ntake = 0 ", "traffic.unaware.outstanding: an unaware sender"),
        ("take = 0 ", "batch = [1, 2]\ntake = 0 ", "traffic.unaware.batch: an unaware sender"),
        (
            "sender = \"unaware\"",
            "sender = \"aware\"",
            "unknown variant `aware`; did you mean `unaware`? Expected one of `endpoint`, `unaware`, `transfer`",
        ),
        (
            "datagram_overhead = \"37B\"",
            "datagram_overhead = \"5000MB\"",
            "endpoint.datagram_overhead: no headers are as long",
        ),
        (
            "starving = { share = 0.1 }",
            "starving = { share = 2 }",
            "values.starving: a share of 2; it must be between 0",
        ),
        (
            "silent = { window = \"30s\" }",
            "silent = { window = \"0s\" }",
            "values.silent: a window must be longer than 0s",
        ),
        ("silent = { window = \"30s\" }", "silent = { window = \"1us\" }", "values.silent: 30min has more than 10000"),
        ("metric = \"loss\"", "metric = \"loss\"\nstatistic = \"median\"", "values.loss: it is one number a run"),
        ("compare = \"apart\"", "compare = \"apart\"\nrange = [1, 2]", "it is so or not; leave out the `range`"),
        ("range = [0.9, 1.1]\n", "", "say in which `range` it must lie"),
        ("compare = \"ratio\"", "compare = \"value\"", "a value is `of` one row, a spread or a line of any"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = Document::from_toml(&text.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn a_share_of_planned_exchanges_needs_traffic_with_a_number_of_them() {
    let read = |traffic: &str, metric: &str| {
        let text = format!(
            "schema = 1\nname = \"n\"\ntitle = \"t\"\nreplications = 1\nseed = 1\nduration = \"60s\"\n\
             nodes = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             schemes = [{{ name = \"default\", controller = \"default\" }}]\n\
             traffic = [{{ name = \"t\", from = \"a\", to = \"b\"{traffic} }}]\n\
             values = [{{ column = \"done\", metric = {metric} }}]\n"
        );
        Document::from_toml(&text).map(drop).map_err(|error| error.to_string())
    };
    for metric in ["\"completed\"", "{ settling = { share = 0.8 } }"] {
        let error = read("", metric).expect_err("an endless flow");
        assert!(error.starts_with("values.done.metric: `"), "{error}");
        assert!(error.contains("share of the planned exchanges"), "{error}");
        assert_eq!(read(", exchanges = 5", metric), Ok(()));
    }
}

#[test]
fn labels_of_the_same_axis_add_up() {
    let only = |label: &str| ("clients".to_owned(), vec![label.to_owned()]);
    let mut document = anrw18();
    document.adjust(&Effort { only: vec![only("1"), only("10")], ..Effort::default() }).expect("cells of both");
    let labels: BTreeSet<_> = document.cells().iter().flat_map(|cell| cell.labels_on("clients")).collect();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), ["1", "10"]);
}

#[test]
fn plots_with_unknown_names_are_refused_with_the_known_ones() {
    let figure = |keys: &str| {
        let text = format!("{}\n[[figure]]\ntitle = \"F\"\n{keys}", ANRW18);
        Document::from_toml(&text.replace("published = \"anrw18.csv\"", ""))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let plain = "kind = \"line\"\nx = \"clients\"\ny = \"fct_median_s\"\n";
    assert_eq!(figure(plain), Ok(()));
    assert_eq!(figure(&plain.replace("clients", "nodes.client.count")), Ok(()), "the path of what is varied");
    assert_eq!(figure("kind = \"bars\"\nx = \"n\"\ny = \"retransmissions_{n}\"\n"), Ok(()), "labels of a column");
    for (from, to, expected) in [
        (
            "clients",
            "client",
            "figure.F.x: there is no label `client`; the labels are buffer, clients, column, scheme, workload",
        ),
        ("fct_median_s", "median", "figure.F.y: there is no column `median`; the columns are fct_min_s, fct_p10_s, "),
        (
            "y =",
            "items = [\"fig9\"]\ny =",
            "figure.F.items: there is no item `fig9`; the items are table1, table2, fig2a, ",
        ),
        ("y =", "series = \"{scheme}/{rdc}\"\ny =", "figure.F.series: there is no label `rdc`; the labels are "),
        ("y =", "panels = \"medium\"\ny =", "figure.F.panels: there is no label `medium`; the labels are "),
        ("line", "histogram", "unknown variant `histogram`, expected one of `line`, `points`, `bars`, `box`"),
        ("y =", "colour = \"red\"\ny =", "unknown field `colour`"),
    ] {
        let error = figure(&plain.replacen(from, to, 1)).expect_err(expected);
        assert!(error.starts_with(expected), "{error}");
    }
    let boxed = "kind = \"box\"\nx = \"clients\"\ny = [\"fct_min_s\", \"fct_max_s\"]\n";
    assert_eq!(figure(boxed), Err("figure.F.y: 2 columns; a box is of one column or of five".to_owned()));
}

const PARTS: &str = r#"
schema = 1
name = "parts"
title = "Two parts"
replications = 1
seed = 1
duration = "10s"
nodes = [{ name = "a" }, { name = "b" }]
links = [{ name = "wire", between = ["a", "b"] }]
schemes = [{ name = "one", controller = "default" }, { name = "other", controller = "cocoa" }]
row = "{scheme}/plain"

[endpoint]
max_retransmit = 4
nstart = 1
timeout_cap = "60s"
token_length = 2

[[parts]]
name = "first"
time_limit = "1h"
traffic = [{ name = "gets", from = "a", to = "b", exchanges = 5 }]
row = "{scheme}/{size}"
[[parts.sweep]]
name = "size"
path = "traffic.gets.response"
values = ["20B", "40B"]

[[parts]]
name = "second"
traffic = [{ name = "gets", from = "b", to = "a" }]
"#;

#[test]
fn a_part_overrides_its_own_keys_and_inherits_the_others() {
    let document = Document::from_toml(PARTS).expect("valid");
    let rows = |document: &Document| -> Vec<String> {
        document.cells().iter().map(|cell| cell.row(None, &cell.schemes[0])).collect()
    };
    let by_scheme = ["one/20B", "one/40B", "one/plain", "other/20B", "other/40B", "other/plain"];
    assert_eq!(rows(&document), by_scheme, "scheme by scheme");
    let by_part = format!("{PARTS}[[parts.sweep]]\nname = \"scheme\"\n");
    let by_part = Document::from_toml(&by_part).expect("valid");
    assert_eq!(rows(&by_part)[..4], ["one/20B", "one/40B", "other/20B", "other/40B"], "where an axis has its place");
    let [first, second] = document.sections() else { panic!("{:?}", document.sections()) };
    assert_eq!((first.duration, second.duration.map(|span| span.0.as_secs())), (None, Some(10)));
    assert_eq!((&first.nodes, &first.links), (&second.nodes, &second.links));
    let changed = document.with("parts.second.duration", "20s").expect("a path into a part");
    assert_eq!(changed.sections()[1].duration.map(|span| span.0.as_secs()), Some(20));
}

#[test]
fn errors_in_a_part_name_it() {
    for (from, to, expected) in [
        ("name = \"second\"", "name = \"first\"", "parts: the name `first` is there twice"),
        ("name = \"second\"", "name = \"second\"\nseed = 2", "unknown field `seed`"),
        ("time_limit = \"1h\"", "time_limit = \"1h\"\nduration = \"1s\"", "parts.first.duration: say either"),
        ("path = \"traffic.gets.response\"", "path = \"traffic.puts.response\"", "parts.first.traffic.puts.response: "),
        ("traffic = [{ name = \"gets\", from = \"b\", to = \"a\" }]", "", "parts.second.traffic: there is none"),
    ] {
        assert!(PARTS.contains(from), "{from}");
        let error = Document::from_toml(&PARTS.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn values_can_be_set_and_cells_chosen_from_outside() {
    let only = |choices: &[(&str, &str)], set: &[(&str, &str)]| {
        let pair = |(one, other): &(&str, &str)| ((*one).to_owned(), (*other).to_owned());
        let only = choices
            .iter()
            .map(pair)
            .map(|(axis, labels)| (axis, labels.split(',').map(str::to_owned).collect()))
            .collect();
        let mut document = anrw18();
        document.adjust(&Effort { only, set: set.iter().map(pair).collect(), ..Effort::default() })?;
        Document::check_labels([&document])?;
        Ok::<_, ScenarioError>(document.cells().to_vec())
    };
    let cells = only(&[("scheme", "default"), ("clients", "*00")], &[("endpoint.max_retransmit", "7")]);
    let cells = cells.expect("there are such");
    assert!(cells.iter().all(|cell| cell.scenario.endpoint.max_retransmit == 7));
    let labels: BTreeSet<_> = cells.iter().filter_map(|cell| cell.label("clients", "default")).collect();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), ["100", "200", "400"]);
    assert!(cells.iter().all(|cell| cell.schemes.iter().any(|scheme| scheme == "default")));

    let refused = |choices, set| only(choices, set).expect_err("it should be refused").to_string();
    assert_eq!(refused(&[("clients", "3")], &[]), "clients: no run has 3; there are 1, 10, 100, 200, 400, 50");
    assert_eq!(refused(&[("clients", "100,3")], &[]), "clients: no run has 3; there are 1, 10, 100, 200, 400, 50");
    assert_eq!(refused(&[("client", "1")], &[]), "client: no run varies it");
    assert_eq!(refused(&[], &[("links.x.wire.rate", "1")]).split(':').next(), Some("links.x.wire.rate"));
    assert!(refused(&[], &[("endpoint.retries", "1")]).contains("max_retransmit"));
}

#[test]
fn to_compare_a_name_is_a_controllers_before_a_schemes_and_mixes_and_pinned_parts_stay_out() {
    let text = |values: &str| {
        format!(
            r#"
            schema = 1
            name = "n"
            title = "t"
            replications = 1
            seed = 1
            duration = "1s"
            nodes = [{{ name = "a", count = 2 }}, {{ name = "b" }}]
            links = [{{ name = "l", between = ["a", "b"] }}]
            traffic = [{{ name = "t", from = "a", to = "b" }}]
            schemes = [
                {{ name = "cocoa", controller = "default" }},
                {{ name = "own", controller = "linux" }},
            ]
            mixes = [{{ name = "both", schemes = ["own", "cocoa"] }}]
            parts = [
                {{ name = "free", {values} }},
                {{ name = "pinned", row = "pinned/{{scheme}}", only_schemes = ["own", "cocoa"] }},
            ]
            "#
        )
    };
    let compared = |values: &str, controllers: &[&str]| -> Result<Document, ScenarioError> {
        let mut document = Document::from_toml(&text(values))?;
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        document.adjust(&Effort { controllers, compares: true, ..Effort::default() }).map(|()| document)
    };
    let document = compared("", &["cocoa", "own"]).expect("both are known");
    let run: Vec<_> = document.cells().iter().map(|cell| (cell.part.as_deref(), &cell.schemes[..])).collect();
    assert_eq!(run, [(Some("free"), &["cocoa".to_owned()][..]), (Some("free"), &["own".to_owned()][..])]);
    let names: Vec<_> = document.scenario().schemes.iter().map(|scheme| scheme.controller.name()).collect();
    assert_eq!(names, ["cocoa", "linux"]);
    let refused = |values: &str, expected: &str| {
        let problem = compared(values, &["cocoa"]).expect_err(expected).to_string();
        assert!(problem.contains(expected), "{expected}: {problem}");
    };
    refused("values = [{ column = \"loss\", metric = \"loss\" }]", "none of n is primary");
    refused("values = [{ column = \"rto\", metric = \"rto\", primary = true }]", "say which is `better`");
    let told = "values = [{ column = \"rto\", metric = \"rto\", primary = true, better = \"lower\" }]";
    assert_eq!(compared(told, &["cocoa"]).map(|of| of.cells().len()), Ok(1));
}

#[test]
fn a_compared_controller_that_measures_no_rtt_has_nstart_1() {
    // RFC 7252 §4.7.
    let mut document = anrw18().with("endpoint.nstart", 4).expect("a value of the scenario");
    let controllers = ["cocoa", "default"].map(str::to_owned).to_vec();
    document.adjust(&Effort { controllers, compares: true, ..Effort::default() }).expect("both are known");
    assert_eq!(["cocoa", "default"].map(|name| document.scenario().nstart(name)), [4, 1]);
}

#[test]
fn only_queues_of_links_that_know_how_long_a_frame_will_wait_are_watched() {
    let watching = |link: &str, addition: &str| {
        let metric = format!("{{ standing-queue = {{ link = \"{link}\", above = \"2s\" }} }}");
        let value = format!("[[values]]\ncolumn = \"standing_s\"\nmetric = {metric}\n{addition}\n[endpoint]");
        changed("[endpoint]", &value).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(watching("downlink", ""), Ok(()));
    let fails = "[[changes]]\nat = \"1s\"\nevent = { fail = { link = \"downlink\", for = \"1s\" } }";
    for (link, addition, expected) in [
        ("up", "", "there is no link `up`; the links are uplink, to-server, "),
        ("access", "", "the link `access` has no rate, and nothing ever waits for it"),
        ("downlink", fails, "the link `downlink` changes or manages its queue"),
    ] {
        let problem = watching(link, addition).expect_err(expected);
        assert!(problem.contains("values.standing-queue: ") && problem.contains(expected), "{problem}");
    }
    let rate = "rate = \"30kbit/s\"";
    let value = "[[values]]\ncolumn = \"standing_s\"\n\
                 metric = { standing-queue = { link = \"downlink\", above = \"2s\" } }\n";
    for key in ["duty_cycle = \"1%\"", "wakes = { every = \"5s\" }"] {
        let text = format!("{}\n{value}", ANRW18.replacen(rate, &format!("{rate}\n{key}"), 1));
        let problem = Document::from_toml(&text).expect_err(key).to_string();
        assert!(problem.contains("frames wait for `downlink` while it is idle"), "{problem}");
    }
}

#[test]
fn windows_after_uplinks_are_of_one_direction_and_from_the_start() {
    let rate = "rate = \"30kbit/s\"";
    let sleeping = |wakes: &str| format!("{rate}\nwakes = {wakes}");
    assert!(changed(rate, &sleeping("{ every = \"5s\", after_uplink = [\"1s\", \"2s\"] }")).is_ok());
    assert!(changed(rate, &format!("{rate}\nduty_cycle = \"1%\"")).is_ok());
    let both = "between = [\"client\", \"hub\"]\n[links.wire]\n";
    let error = problem(both, &format!("{both}wakes = {{ after_uplink = \"1s\" }}\n"));
    assert!(error.contains("links.access.wire.wakes: each direction would wait"), "{error}");
    let error = problem(rate, &sleeping("{ every = \"1s\", for = \"1s\" }"));
    assert!(error.contains("links.downlink.wire: ") && error.contains("make `for` shorter than `every`"), "{error}");
    let change = "[[changes]]\nat = \"1s\"\nevent = { link = { name = \"downlink\", wire = { wakes = { after_uplink \
                  = \"1s\" } } } }\n[endpoint]";
    let error = problem("[endpoint]", change);
    assert!(error.contains("changes.0.event.link.wire.wakes: ") && error.contains("at the start"), "{error}");
}

#[test]
fn a_trace_replaces_the_rate_of_its_link() {
    let wire = "[links.wire]\nrate = \"30kbit/s\"";
    let traced = |rates: &str, rate: &str| {
        let link = format!("trace = {{ rates = {rates} }}\n[links.wire]\n{rate}");
        assert!(ANRW18.contains(wire));
        let file = |name: &str| match name {
            "lte.csv" => Ok("time_s,bit_per_s\n0,1e6\n1.5,250000\n3,0\n".to_owned()),
            _ => Err(FileError::NotFound),
        };
        Document::read(&ANRW18.replacen(wire, &link, 1), &file, &Controllers::new()).map_err(|error| error.to_string())
    };
    for rates in ["{ csv = \"lte.csv\" }", "[[0, 1e6], [1.5, 250000], [3, 0]]"] {
        let document = traced(rates, "").expect("valid");
        let link = document.scenario().links.iter().find(|link| link.name == "downlink").expect("a link");
        let rates = link.trace.as_ref().map(|trace| trace.rates("downlink").expect("a trace").mean_rate());
        assert_eq!(rates.map(|rate| rate.as_bits()), Some(625_000));
    }
    for (rates, rate, expected) in [
        ("[[0, 1e6], [3, 0]]", "rate = \"1kbit/s\"", "links.downlink.wire.rate: the link has a `trace`"),
        ("[[0, 1e6], [0, 0]]", "", "links.downlink.trace.rates: row 2: 0 s is no time after that of the row above"),
        ("[]", "", "links.downlink.trace.rates: a trace has at least two rows"),
        ("{ csv = \"3g.csv\" }", "", "csv: 3g.csv: there is no such file"),
    ] {
        let error = traced(rates, rate).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_link_is_watched_once_for_all_values_that_are_of_it() {
    let value = |above: &str| {
        format!(
            "[[values]]\ncolumn = \"of_{above}_{{}}\"\nmetric = {{ standing-queue = {{ link = \"uplink\", above = \"{above}\" }} }}\n"
        )
    };
    let text =
        [("2s", "a"), ("2s", "b"), ("5s", "c")].map(|(above, column)| value(above).replace("{}", column)).concat();
    let document = Document::from_toml(&format!("{ANRW18}\n{text}")).expect("valid");
    let watched: Vec<_> = document.scenario().watched_links().map(|(link, above)| (link, above.0.as_secs())).collect();
    assert_eq!(watched, [("uplink", 2), ("uplink", 5)]);
}

#[test]
fn references_select_nodes_by_name() {
    let document = anrw18();
    let scenario = document.scenario();
    let selected = |reference: &str| scenario.selected("--trace-node", reference);
    assert_eq!(selected("server"), Ok(BTreeSet::from(["server".to_owned()])));
    let group = scenario.nodes.iter().find(|nodes| nodes.is_group()).expect("a group");
    let name = |index: u32| format!("{}[{index}]", group.name);
    assert_eq!(selected(&group.name).map(|names| names.len()), Ok(group.size() as usize));
    assert_eq!(selected(&name(0)), Ok(BTreeSet::from([name(0)])));
    let unknown = selected(&name(group.size())).expect_err("one too far").to_string();
    assert!(unknown.starts_with("--trace-node: ") && unknown.contains("exceeds the group"), "{unknown}");
    let unknown = selected("moon").expect_err("no such group").to_string();
    assert!(unknown.contains("there are no nodes `moon`; there are "), "{unknown}");
}

#[test]
fn cells_that_share_a_row_are_refused_with_both_cells() {
    let error = problem("schema = 1", "schema = 1\nrow = \"{scheme}/{workload}/{clients}\"");
    assert!(
        error.contains("both give the row") && error.contains("buffer 2500") && error.contains("buffer 14100"),
        "{error}"
    );
}

//! The page as text.

mod common;

use std::fs;

use conche_lab::Controllers;
use conche_report::{Results, page};

const SCENARIO: &str = r#"
schema = 1
name = "small"
title = "A <small> one"
replications = 2
seed = 1
duration = "10s"
endpoint = { max_retransmit = 4, nstart = 1, timeout_cap = "60s", token_length = 0 }
nodes = [{ name = "client", count = 2 }, { name = "server" }]
links = [{ name = "wire", between = ["client", "server"], wire = { rate = "30kbit/s", delay = "10ms", header_bytes = 28 } }]
traffic = [{ name = "gets", from = "client", to = "server" }]
schemes = [{ name = "slow", controller = "default" }, { name = "fast", controller = "cocoa" }]
sweep = [{ name = "clients", path = "nodes.client.count", values = [1, 2, 10] }]
values = [
    { column = "fct_s", metric = "completion-time" },
    { column = "class_{}", metric = "retransmissions" },
]
[[claims]]
row = "fast_is_faster/{clients}"
column = "fct_s"
compare = "ratio"
of = ["fast/{clients}", "slow/{clients}"]
as = "ratio"
unit = "ratio"
below = 1
each = { clients = ["1", "10"] }
"#;

const FIGURE: &str = r#"
[[figure]]
title = "One & only"
kind = "line"
x = "nodes.client.count"
y = "fct_s"
x_axis = { title = "clients", log = true }
"#;

fn values() -> String {
    let mut lines = String::new();
    for (scheme, factor) in [("slow", 2.0), ("fast", 1.0)] {
        for clients in [1.0, 2.0, 10.0] {
            let (row, value) = (format!("{scheme}/{clients}"), factor * clients);
            for (column, unit) in
                [("fct_s", "s"), ("class_0", "exchanges"), ("class_1", "exchanges"), ("class_2", "exchanges")]
            {
                let (low, high) = (value - 0.5, value + 0.5);
                lines += &format!(
                    "{{\"schema\":1,\"scenario\":\"small\",\"item\":\"grid\",\"row\":\"{row}\",\"column\":\"{column}\",\"unit\":\"{unit}\",\"published\":{value},\"measured\":{value},\"ci95\":[{low},{high}],\"runs\":2}}\n"
                );
            }
        }
    }
    for clients in [1, 10] {
        for (column, unit, value) in [("ratio", "ratio", "0.5"), ("ratio_holds", "verdict", "1")] {
            lines += &format!(
                "{{\"schema\":1,\"scenario\":\"small\",\"item\":\"claims\",\"row\":\"fast_is_faster/{clients}\",\"column\":\"{column}\",\"unit\":\"{unit}\",\"published\":null,\"measured\":{value},\"ci95\":null,\"runs\":2}}\n"
            );
        }
    }
    lines
}

fn runs() -> String {
    let seed = conche_lab::campaign::seed_of(1, 0);
    let of_cell = |clients: u32| {
        let of = |which: &str| {
            format!(
                r#"{{"which":"{which}","scheme":"slow","traffic":"gets","client":0,"server":2,"start_s":1,"lasted_s":6.5,"is_answered":{},"copies":[[0,2],[2,4],[6,8]]}}"#,
                clients == 2
            )
        };
        let cell = format!(r#"{{"part":null,"axes":{{"clients":"{clients}"}},"mix":null,"schemes":["slow"]}}"#);
        let all = ["slowest", "median", "most-copies"].map(of).join(",");
        format!(
            r#"{{"schema":1,"kind":"run","scenario":"small","settings":"","cell":{cell},"replication":0,"seed":{seed},"events":1,"timelines":[{all}],"outcome":[]}}"#
        )
    };
    [10, 2].map(|clients| of_cell(clients) + "\n").concat()
}

fn made(scenario: &str, command: &str) -> String {
    made_with(scenario, command, "")
}

fn made_with(scenario: &str, command: &str, runs: &str) -> String {
    let about = r#""name":"small","title":"A <small> one","seed":1,"file":"small.toml""#;
    let manifest = format!(r#"{{"schema":1,"state":"running","command":["{command}"],"scenarios":[{{{about}}}]}}"#);
    made_of(scenario, &manifest, &values(), runs)
}

fn made_of(scenario: &str, manifest: &str, values: &str, runs: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("written");
    write("small.toml", scenario);
    write("figures.ndjson", values);
    write("manifest.json", manifest);
    write("runs.ndjson", runs);
    page(&[Results::read(directory.path(), &Controllers::new()).expect("results")])
}

#[test]
fn a_plot_has_a_mark_for_each_value_and_a_hollow_one_if_published() {
    let page = made(&format!("{SCENARIO}{FIGURE}"), "conche");
    assert_eq!(page.matches("class=\"drawn\"").count(), 1);
    assert_eq!(page.matches("<g class=\"m s").count(), 6);
    assert_eq!(page.matches("<g class=pub>").count(), 6 + 1, "one of them in the legend");
    assert!(
        page.contains("<title>fast · 10: 10.00 s (9.500 … 10.50), published 10.00 s, 2 runs</title>"),
        "what a mark tells"
    );
    assert!(page.contains("One &amp; only") && page.contains(">Mean completion time (s)</text>"));
}

#[test]
fn without_figures_each_column_of_each_item_has_one() {
    let page = made(SCENARIO, "conche");
    // A panel per number of clients.
    assert_eq!(page.matches("<figure ").count(), 2);
    assert!(page.contains("<figcaption>Mean completion time</figcaption>"));
    assert!(page.contains("<figcaption>Exchanges by number of retransmissions</figcaption>"));
    assert_eq!(page.matches("class=\"drawn\"").count(), 1 + 3);
}

#[test]
fn claims_have_their_verdict_and_tables_match_the_terminal() {
    let page = made(SCENARIO, "conche");
    assert_eq!(page.matches("✓ holds").count(), 2);
    assert!(page.contains("2 of 2 hold") && page.contains("fast is faster · 10"));
    assert!(page.contains("<summary>What was measured of each cell, with 95 % intervals</summary>"));
}

#[test]
fn a_claim_that_does_not_hold_or_is_inconclusive_has_its_reason() {
    let scenario = format!("{SCENARIO}\n[[reasons]]\ntext = \"so it is\"\n");
    let manifest = r#"{"schema":1,"scenarios":[{"name":"small","seed":1,"file":"small.toml"}]}"#;
    for (verdict, words, told) in [("1", ">✓ holds<", 0), ("0.5", ">? inconclusive<", 2), ("0", ">✗ does not hold<", 2)]
    {
        let of = "\"verdict\",\"published\":null,\"measured\":";
        let values = values().replace(&format!("{of}1,"), &format!("{of}{verdict},"));
        let page = made_of(&scenario, manifest, &values, "");
        assert_eq!(page.matches(words).count(), 2, "{words}");
        assert_eq!(page.matches("<p class=note>so it is</p>").count(), told, "{words}");
    }
}

#[test]
fn a_manifest_may_state_any_number_of_runs() {
    let of = |name: &str| format!(r#"{{"name":"{name}","runs":{},"cpu_s":1}}"#, u64::MAX);
    let manifest = format!(r#"{{"schema":1,"scenarios":[{},{}]}}"#, of("small"), of("other"));
    assert!(made_of(SCENARIO, &manifest, &values(), "").contains(&format!("<dd>{} runs, ", u64::MAX)));
}

#[test]
fn an_exchange_is_called_by_its_cell_and_kind() {
    let captions = |page: &str| -> Vec<String> {
        let plots = page.split("<figure class=chart data-at=").skip(1);
        let caption = |plot: &str| Some(plot.split_once("<figcaption>")?.1.split_once("</figcaption>")?.0.to_owned());
        plots.map(|plot| caption(plot).expect("a caption")).collect()
    };
    let kinds = ["the slowest exchange", "the median exchange", "the exchange with most retransmissions"];
    let named = runs().replace(r#"{"clients":"2"}"#, r#"{"clients":"one with 2"}"#);
    let cells = ["clients 10", "clients one with 2"].map(|cell| kinds.map(|kind| format!("{cell}: {kind}")));
    assert_eq!(captions(&made_with(SCENARIO, "conche", &named)), cells.concat());
    let of_all = runs().lines().next().expect("a run").replace(r#"{"clients":"10"}"#, "{}") + "\n";
    assert_eq!(captions(&made_with(SCENARIO, "conche", &of_all)), kinds);
}

#[test]
fn exchanges_are_seen_on_paper_and_without_scripts() {
    let page = made_with(SCENARIO, "conche", &runs());
    let (_, print) = page.split_once("@media print").expect("a style for paper");
    assert!(print.contains(".exchanges [data-at$=\"/0\"] { display: block; }"), "one of each cell");
    assert!(print.contains("<noscript><style>.picked .chart { display: block; }"), "all of them");
    assert_eq!(page.matches("/0\" hidden>").count(), 1, "of the second cell, until it is chosen");
}

#[test]
fn exchanges_are_drawn_copy_by_copy_with_the_timeout_of_each() {
    let page = made_with(SCENARIO, "conche", &runs());
    assert_eq!(page.matches("<figure class=chart data-at=").count(), 2 * 3, "cells, and an exchange of each kind");
    assert_eq!(page.matches("<figure class=chart data-at=\"0/0\">").count(), 1, "the first one is seen");
    assert!(
        page.contains("<option value=0 selected>clients 2<option value=1>clients 10</select>"),
        "in the order of numbers"
    );
    assert_eq!(page.matches("<title>slow: retransmission 2 after 6.000 s, timeout 8.000 s</title>").count(), 6);
    assert_eq!(page.matches("<title>slow: answered after 6.500 s</title>").count(), 3);
    assert_eq!(page.matches("<title>slow: given up after 6.500 s</title>").count(), 3);
}

#[test]
fn the_overview_counts_holding_refuted_and_inconclusive_claims() {
    assert!(made(SCENARIO, "conche").contains("2 hold, 0 refuted, 0 inconclusive"));
}

#[test]
fn comparable_values_are_listed_once_per_scheme_and_cell() {
    let page = made(SCENARIO, "conche");
    let values = page.split("id=values>").nth(1).and_then(|rest| rest.split("</script>").next()).expect("values");
    assert_eq!(
        values,
        r#"[{"name":"small","schemes":["slow","fast"],"cells":["1","2","10"],"metrics":["fct_s"],"units":["s"],"chosen":[0, 0, 1],"values":[[0,0,0,2,1.5,2.5],[0,0,1,4,3.5,4.5],[0,0,2,20,19.5,20.5],[0,1,0,1,0.5,1.5],[0,1,1,2,1.5,2.5],[0,1,2,10,9.5,10.5]]}]"#
    );
}

#[test]
fn nothing_from_a_file_is_markup_and_nothing_is_fetched() {
    let page = made(&format!("{SCENARIO}{FIGURE}"), "</script><img src=x onerror=alert(1)>");
    assert!(page.contains("A &lt;small&gt; one") && !page.contains("<small>") && !page.contains("<img"));
    for outside in ["http://", "https://", "src=", "url(", "@import", "<link"] {
        let without_text = page.replace("&lt;img src=x onerror", "");
        assert!(!without_text.contains(outside), "{outside}");
    }
}

#[test]
fn every_figure_of_every_paper_is_drawn() {
    let directory = tempfile::tempdir().expect("a directory");
    let papers = ["etfa14", "commag16", "bdp19", "wiopt12", "anrw18"];
    common::write(directory.path(), &papers);
    let page = page(&[Results::read(directory.path(), &Controllers::new()).expect("results")]);
    let titles = common::figures_of(&papers);
    for title in &titles {
        assert!(page.contains(&format!("<figcaption>{}</figcaption>", title.replace('\'', "&#39;"))), "{title}");
    }
    let heat_maps = page.matches("<figure class=\"chart heatmap").count();
    assert_eq!(page.matches("<figure class=\"chart").count() - heat_maps, titles.len());
    for drawing in page.split("<svg class=\"drawn").skip(1) {
        let drawing = drawing.split("</svg>").next().expect("an end");
        assert!(drawing.contains("<g class=\"m s") || drawing.contains("<g class=m>"), "no marks: {drawing}");
    }
    assert!(!page.contains("more values have the same place"), "two values of a figure are at one place");
    assert!(page.len() < 6 << 20, "{} bytes", page.len());
}

#[test]
fn controllers_compared_have_a_field_in_each_cell_and_a_gap_where_a_value_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    common::write(directory.path(), &["anrw18"]);
    let without = page(&[Results::read(directory.path(), &Controllers::new()).expect("results")]);
    assert!(!without.contains("id=comparison"), "nothing is compared");
    common::compare(directory.path(), &["anrw18"]);
    let page = page(&[Results::read(directory.path(), &Controllers::new()).expect("results")]);
    assert_eq!(page.matches("<td tabindex=").count(), 2 * 3);
    assert_eq!(page.matches("tabindex=0").count(), 1, "one field is reached by the tabulator, the others by arrows");
    assert!(page.contains("data-at=0 class=\"h5\">2.91") && page.contains("class=\"gap\">–"), "a ratio and a gap");
    assert!(page.contains("&lt;own&gt;: no value in 1 of 2 cells") && !page.contains("<own>"));
    assert!(page.contains(r#""title":"anrw18 · random · 400 · fct median s","unit":"s","better":"lower""#));
    assert!(page.contains("[3.2,2.9091,"), "a value and its ratio, for the drawing of its runs");
}

#[test]
fn networks_of_each_purpose_have_a_ranking_a_grid_and_a_panel_of_times_and_traffic() {
    let directory = tempfile::tempdir().expect("a directory");
    common::series(directory.path(), SCENARIO, 1);
    common::networks(directory.path());
    let page = page(&[Results::read(directory.path(), &Controllers::new()).expect("results")]);
    let comparison = page.split("<section id=comparison>").nth(1).and_then(|rest| rest.split("</section>").next());
    let comparison = comparison.expect("a comparison");
    for purpose in ["design", "judgement"] {
        assert!(comparison.contains(&format!("<p class=sub>Networks of {purpose}: values in 2 cells")), "{purpose}");
        assert!(comparison.contains(&format!("<h5>networks of {purpose}</h5>")), "{purpose}");
        assert!(comparison.contains(&format!("\"title\":\"of-{purpose} · random · 400 · due s\"")), "{purpose}");
    }
    assert_eq!(comparison.matches("<table class=heat").count(), 2);
    assert_eq!(comparison.matches("<td tabindex=").count(), 2 * 2 * 23);
    assert_eq!(comparison.matches("<svg class=\"drawn\"").count(), 2, "a panel for each");
    assert_eq!(comparison.matches("<circle class=hit").count(), 2 * 23, "a point for each controller");
    let panel = comparison.split("</svg>").find(|panel| panel.contains("<circle class=hit")).expect("a panel");
    assert!(panel.contains("<title>default: times ×"), "{panel}");
    assert!(comparison.contains("No other is better in both than controller-"));
}

/// The schemes differ most with 2 clients at rate 5.
fn two_axes(third: &str) -> (String, String, String) {
    let points = r#"[{ name = "5kbit", value = "5kbit/s" }, { name = "9kbit", value = "9kbit/s" }]"#;
    let rates = format!(r#"{{ name = "rate", path = "links.wire.wire.rate", points = {points} }}"#);
    let sweep = format!("[1, 2, 10] }}, {rates}]");
    let claim = SCENARIO.find("[[claims]]").expect("a claim");
    let scenario = SCENARIO[..claim].replace("[1, 2, 10] }]", &sweep);
    let (mut values, mut runs) = (String::new(), String::new());
    for (scheme, factor) in [("slow", 2), ("fast", 1), (third, 3)] {
        for (clients, rate) in [1, 2, 10].into_iter().flat_map(|clients| [(clients, 5), (clients, 9)]) {
            let more = if scheme == "slow" && (clients, rate) == (2, 5) { 50 } else { 0 };
            let (row, value) = (format!("{scheme}/{clients}/{rate}kbit"), factor * clients + more);
            values += &format!(
                "{{\"schema\":1,\"scenario\":\"small\",\"item\":\"grid\",\"row\":\"{row}\",\"column\":\"fct_s\",\"unit\":\"s\",\"published\":null,\"measured\":{value},\"ci95\":[-7.5,{}],\"runs\":1}}\n",
                value + 60
            );
            let seed = conche_lab::campaign::seed_of(1, 0);
            let cell = format!(
                r#"{{"part":null,"axes":{{"clients":"{clients}","rate":"{rate}kbit"}},"mix":null,"schemes":["{scheme}"]}}"#
            );
            let line = format!(
                r#"{{"which":"slowest","scheme":"{scheme}","traffic":"gets","client":0,"server":2,"start_s":1,"lasted_s":6.5,"is_answered":true,"copies":[[0,2],[2,4]]}}"#
            );
            runs += &format!(
                r#"{{"schema":1,"kind":"run","scenario":"small","settings":"","cell":{cell},"replication":0,"seed":{seed},"events":1,"timelines":[{line}],"outcome":[{{"scheme":"{scheme}","unit":"s","figures":[{{"row":"{row}","column":"fct_s"}}],"sample":{{"each":[[{},{},{}],1000.0]}}}}]}}"#,
                value * 500,
                value * 1000,
                value * 1500
            );
            runs += "\n";
        }
    }
    (scenario, values, runs)
}

fn two_axes_page() -> String {
    let (scenario, values, runs) = two_axes("mine");
    let manifest = r#"{"schema":1,"scenarios":[{"name":"small","seed":1,"file":"small.toml","runs":40,"cpu_s":0.1}]}"#;
    made_of(&scenario, manifest, &values, &runs)
}

#[test]
fn controllers_that_the_scenario_does_not_have_are_side_by_side_with_its_schemes() {
    let page = two_axes_page();
    let side = page.split("Schemes side by side").nth(1).and_then(|rest| rest.split("</section>").next());
    let side = side.expect("a table");
    for scheme in ["slow", "fast", "mine"] {
        assert!(side.contains(&format!("</svg>{scheme}<td")), "{scheme}: {side}");
    }
    assert!(side.contains("Factor over slow") && side.contains("<th class=l>Mean completion time"));
}

#[test]
fn two_swept_axes_have_a_heat_map_with_a_panel_for_each_controller() {
    let page = two_axes_page();
    let map = page.split("<figure class=\"chart heatmap\">").nth(1).and_then(|rest| rest.split("</figure>").next());
    let map = map.expect("a heat map");
    assert_eq!(map.matches("<svg class=\"drawn cells\"").count(), 3);
    assert_eq!(map.matches("<g class=m>").count(), 3 * 6);
    assert!(map.contains("<title>slow, clients 2, rate 5kbit: 54.00 s</title>"), "{map}");
    assert!(map.contains("slow,2,5kbit,54\n"), "the same as CSV");
}

#[test]
fn distributions_and_exchanges_open_on_the_cell_in_which_controllers_differ_most() {
    let page = two_axes_page();
    assert!(page.contains("Controllers differ most in the cell <b>clients 2 · rate 5kbit</b>"));
    assert_eq!(page.matches("<option value=2 selected>clients 2 · rate 5kbit").count(), 2);
    assert_eq!(
        page.matches("<figure class=chart data-at=\"2\"><figcaption>Completion time: clients 2 · rate 5kbit<").count(),
        1
    );
    assert_eq!(page.matches("<figure class=chart data-at=\"2/0\"><figcaption>").count(), 1);
    assert!(page.contains("<title>mine: half at most 6.000 s, 90 % at most 9.000 s, 3 values</title>"));
}

#[test]
fn intervals_and_axes_stay_inside_the_domain_of_the_metric_and_runs_are_plain_words() {
    let page = two_axes_page();
    let plot = page.split("<figure class=\"chart").nth(1).and_then(|rest| rest.split("</figure>").next());
    let plot = plot.expect("a plot");
    assert!(plot.contains("54.00 s (0.000 … 114.0)"), "an interval begins at 0: {plot}");
    assert!(!plot.contains("text-anchor=end>\u{2212}"), "the axis begins at 0");
    assert!(page.contains("<dt>runs</dt><dd>40 runs, 0.00 s of CPU each</dd>"));
}

fn percents(better: &str) -> String {
    let (scenario, values, runs) = two_axes("mine");
    let column = "{ column = \"fct_s\", metric = \"completion-time\" }";
    let scenario = scenario.replace(column, &format!("{{ column = \"fct_s\", {better}, primary = true }}"));
    let values = values.replace("\"unit\":\"s\"", "\"unit\":\"%\"");
    let manifest = r#"{"schema":1,"scenarios":[{"name":"small","seed":1,"file":"small.toml"}]}"#;
    made_of(&scenario, manifest, &values, &runs)
}

#[test]
fn worse_values_have_a_stronger_colour_in_a_heat_map() {
    let lower = percents("metric = \"loss\"");
    assert!(lower.contains("<li class=dim>stronger color: higher, worse</li>"));
    assert!(lower.contains(r#"style="fill:var(--h6-ink)">54"#), "the highest value");
    let higher = percents("metric = \"delivered\"");
    assert!(higher.contains("<li class=dim>stronger color: lower, worse</li>"));
    assert!(higher.contains(r#"style="fill:var(--h6-ink)">1"#), "the lowest value");
    assert!(higher.contains("(0.0 … 61.0)") && higher.contains("54.0 % (0.0 … 100.0)"), "percentages end at 100");
}

#[test]
fn the_opening_sentence_names_the_best_controller_of_each_primary_value() {
    let best = "<p class=telling>Best in most cells, also beside others whose 95 % intervals overlap: ";
    let all_overlap = percents("metric = \"loss\"");
    assert!(all_overlap.contains(&format!("{best}none in failed exchanges.</p>")));
    let (scenario, values, runs) = two_axes("mine");
    let column = "{ column = \"fct_s\", metric = \"completion-time\" }";
    let both = "{ column = \"fct_s\", metric = \"completion-time\", primary = true }, { column = \"jain\", metric = \"jain\", primary = true }";
    let scenario = scenario.replace(column, both);
    let values: String = values
        .lines()
        .map(|line| line.split_once("\"ci95\"").expect("an interval").0.to_owned() + "\"ci95\":null,\"runs\":1}\n")
        .collect();
    let more = values.replace("fct_s", "jain").replace("\"unit\":\"s\"", "\"unit\":\"ratio\"");
    let manifest = r#"{"schema":1,"scenarios":[{"name":"small","seed":1,"file":"small.toml"}]}"#;
    let page = made_of(&scenario, manifest, &format!("{values}{more}"), &runs);
    let sentence = page.split("<p class=telling>").nth(1).expect("a sentence");
    assert!(
        sentence.contains("<b>fast</b> in mean completion time (lowest in 6 of 6 cells); <b>mine</b> in"),
        "{sentence}"
    );
    assert!(sentence.contains("(highest in 5 of 6 cells)"), "{sentence}");
    assert!(page.contains("54.00 s with slow, 2.000 s with fast. Jain&#39;s fairness index of successes: 54"));
}

#[test]
fn an_interrupted_campaign_names_the_missing_runs_and_the_command_that_completes_it() {
    let about = r#""name":"small","seed":1,"file":"small.toml","planned":4"#;
    let command = r#""command":["conche","run","my file.toml","-o","d"]"#;
    let manifest = |more: &str| format!(r#"{{"schema":1,{command},"scenarios":[{{{about}}}]{more}}}"#);
    let page = made_of(SCENARIO, &manifest(r#","state":"running""#), "", &runs());
    assert!(page.contains("small: 2 of 4 runs are missing."), "{page}");
    assert!(page.contains("<code><span>conche</span> <span>run</span> <span>&#39;my file.toml&#39;</span> <span>-o</span> <span>d</span></code>"));
    let failed = r#","state":"failed","failures":[{"scenario":"small","cell":"slow/2","replication":1,"seed":1,"problem":"no <route>"}]"#;
    let page = made_of(SCENARIO, &manifest(failed), &values(), &runs());
    assert!(
        page.contains("1 run failed and has no values.") && page.contains("slow/2, replication 1: no &lt;route&gt;")
    );
}

fn with_series(clients: u32) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    common::series(directory.path(), SCENARIO, clients);
    page(&[Results::read(directory.path(), &Controllers::new()).expect("results")])
}

#[test]
fn time_series_have_a_panel_per_quantity_and_a_line_per_client_or_scheme() {
    let page = with_series(2);
    let figure = page.split("<div class=\"picked series\">").nth(1).and_then(|rest| rest.split("</figure>").next());
    let figure = figure.expect("a figure");
    assert_eq!(figure.matches("<svg class=\"drawn\"").count(), 2, "RTO and queue: {figure}");
    assert_eq!(figure.matches("<g class=\"m s").count(), 2 * 2 + 2);
    assert!(figure.contains("<title>slow, client1: at most 31, 31 at 9 s</title>"));
    assert!(figure.contains(">RTO (s)</text>") && figure.contains("<h5>each client</h5>"));
    assert!(figure.contains("<h5>wire</h5>") && figure.contains(">queue (packets)</text>"));
    assert!(figure.contains("\n9,31,4,31,2,7,7\n"), "a row of the CSV: {figure}");
    let page = with_series(10);
    assert!(page.contains("<h5>mean of 10 clients</h5>"));
    assert!(page.contains("<title>fast: at most 8.5, 8.5 at 9 s</title>"), "(55 - 1 + 31) / 10");
}

#[test]
fn without_time_series_the_page_names_the_command_that_records_them() {
    let page = made_with(SCENARIO, "conche", &runs());
    assert!(page.contains("This command adds them: <code><span>conche</span> <span>--series</span></code>"));
}

//! Groups of unequal size.

use super::*;
use conche_lab::trial::Selection;

#[test]
fn the_smaller_group_of_a_link_has_equal_shares_of_the_larger_one_in_their_order() {
    let text = SMALL.replace(
        "{ name = \"client\", count = 2 }, { name = \"hub\" }",
        "{ name = \"client\", count = 6 }, {
        name = \"hub\", count = 2 }, { name = \"router\" }",
    );
    let text = text.replace("between = [\"hub\", \"server\"]", "between = [\"router\", \"server\"]");
    let routers = "[[links]]\nname = \"routers\"\nbetween = [\"hub\", \"router\"]\n[[changes]]\nat = \"0s\"\n\
                   event = { cut-off = { nodes = \"hub[1]\", for = \"60s\" } }\n[endpoint]";
    let text = text.replace("[endpoint]", routers);
    assert_eq!(answered(&record(&text).expect("it runs")), [60, 60, 60, 0, 0, 0]);
    let error = record(&text.replace("count = 6", "count = 7")).expect_err("two hubs for seven clients");
    let expected = "links.access: 7 nodes and 2 do not pair up; one number must be a multiple of the other";
    assert_eq!(error, expected);
}

#[test]
fn traffic_with_a_controller_of_its_own_has_it_under_every_scheme() {
    let beside = "[[traffic]]\nname = \"beside\"\nfrom = \"client[1]\"\nto = \"server[1]\"\ncontroller = \"default\"\n\
                  pace = { every = { interval = \"1s\", spread = false } }\n[endpoint]";
    let text = SMALL.replace("from = \"client\"\nto = \"server\"", "from = \"client[0]\"\nto = \"server[0]\"");
    let text = text.replace("[endpoint]", beside);
    let text = text.replace("name = \"default\"\ncontroller = \"default\"", "name = \"linux\"\ncontroller = \"linux\"");
    let document = Document::from_toml(&text).expect("valid");
    let wanted = RecordOptions { timeouts: true, ..RecordOptions::default() };
    let replication = Replication { index: 0, count: 1, seed: 1 };
    let record = run(&document.cells()[0], wanted, replication, &Routes::default()).expect("it runs").outcome;
    let shortest_ms = |traffic| {
        let of = record.nodes_of(Selection { scheme: 0, traffic });
        of.flat_map(|node| &node.timeouts).map(|timeout| timeout.after.as_millis()).min().expect("some")
    };
    assert!((400..1000).contains(&shortest_ms(Some(0))), "linux measures 200 ms: {}", shortest_ms(Some(0)));
    assert!(shortest_ms(Some(1)) >= 2000, "the default measures nothing: {}", shortest_ms(Some(1)));
    let clients = |traffic| record.flows_of(Selection { scheme: 0, traffic }).map(|flow| flow.client.index());
    assert!(clients(None).eq([0]) && clients(Some(1)).eq([1]), "what runs the scheme is what counts without a traffic");
    let two = text.replace("from = \"client[1]\"", "from = \"client[0]\"");
    let error = Document::from_toml(&two).map(|two| {
        run(&two.cells()[0], wanted, replication, &Routes::default()).expect_err("two controllers").to_string()
    });
    assert!(error.is_ok_and(|error| error.starts_with("traffic.beside: its clients send other traffic under another")));
}

//! libcoap at both ends of an emulated network that loses 5 % each way. Five transmissions are lost
//! with probability 10⁻⁵.

use std::fs;

use super::{CLIENT, SERVER, WITHOUT_TOOLS};
use crate::common::{Ended, conche, run};

const SCENARIO: &str = r#"
schema = 1
name = "lossy"
title = "Clients behind a lossy link"
replications = 1
seed = 1
duration = "10min"
schemes = [{ name = "default", controller = "default" }]
nodes = [{ name = "client", count = 8 }, { name = "router" }, { name = "server" }]

[[links]]
name = "access"
between = ["client", "router"]
wire = { delay = "10ms", loss = "5%" }

[[links]]
name = "core"
between = ["router", "server"]
wire = { rate = "250kbit/s", delay = "20ms", queue = "4000B" }

[[traffic]]
name = "gets"
from = "client"
to = "server"
exchanges = 4
response = "60B"
"#;

fn emulate(nodes: &[String]) -> (Ended, serde_json::Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("lossy.toml");
    fs::write(&file, SCENARIO).expect("it can be written");
    let mut command = conche();
    command.arg("emulate").arg(file).args(["--json", "--max-lateness", "1h"]);
    for node in nodes {
        command.args(["--node", node]);
    }
    let ended = run(&mut command);
    assert_eq!(ended.status, Some(0), "{WITHOUT_TOOLS}; {ended:?}");
    let report = serde_json::from_str(&ended.stdout).expect("an object");
    (ended, report)
}

#[test]
#[ignore = "needs libcoap3-bin"]
fn libcoap_clients_ask_a_libcoap_server_over_an_emulated_network() {
    let server = format!("server={SERVER} -A {{bind.host}} -p {{bind.port}}");
    let client = format!("client=for i in 1 2 3; do {CLIENT} -m get coap://{{server}}/; done");
    let (ended, report) = emulate(&[server, client]);
    // Each response has three lines.
    let answers = ended.stderr.matches("This is a test server made with libcoap").count();
    assert_eq!(answers, 24, "{ended:?}");
    assert!(report["links"][0]["sent"].as_u64() >= Some(24), "{report}");
}

#[test]
#[ignore = "needs libcoap3-bin"]
fn libcoap_and_simulated_endpoints_share_an_emulated_network() {
    let (_, report) = emulate(&[format!("server={SERVER} -A {{bind.host}} -p {{bind.port}}")]);
    let traffic = &report["traffic"][0];
    assert_eq!((traffic["requests"].as_u64(), traffic["answered"].as_u64()), (Some(32), Some(32)), "{report}");

    let (ended, report) = emulate(&[format!("client[2..4]={CLIENT} -m get coap://{{server}}/any; echo")]);
    // Header, token of 8 B and payload marker of a message of 60 B leave room for 47 B or more.
    assert_eq!(ended.stderr.matches(&".".repeat(47)).count(), 2, "{ended:?}");
    assert!(report["traffic"][0]["requests"].as_u64() >= Some(1), "{report}");
}

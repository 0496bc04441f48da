//! Wireshark's dissector reads the captures: all packets are CoAP, none is malformed, and the
//! comments are present.
//!
//! ```text
//!   client0 ─┐        30 kbit/s, 2 frames wait, 20 % lost
//!     ...    ├─ hub ═════════════════════════════════════ server
//!   client4 ─┘
//! ```
//!
//! Needs tshark, so it is not run by default: `cargo test -p conche-netsim -- --ignored`. Without
//! tshark it prints a note and passes, unless `CONCHE_REQUIRE_TOOLS` is set.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use conche_netsim::node::{Application, Context, Node};
use conche_netsim::pcapng::{Capture, PcapNg};
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::wired::{DropTail, LinkConfig, Loss, Topology};
use conche_netsim::{BitRate, Counters, NodeId, Simulation};
use conche_proto::cc::default::CoapDefault;
use conche_proto::codec::{Body, Code};
use conche_proto::{EndpointConfig, Event, Request, Response};

enum Role {
    Client { server: NodeId, left: u32 },
    Server,
}

impl Application for Role {
    type Timer = ();

    fn start(&mut self, context: &mut Context<'_, Self>) {
        if let Role::Client { server, .. } = *self {
            get(context, server);
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        match (self, event) {
            (Role::Server, Event::Request { id, .. }) => {
                let body = Body::builder().payload("21.5 C").build().expect("a short payload");
                context.respond(id, Response::new(Code::CONTENT, body)).expect("it is waiting");
            }
            (Role::Client { server, left }, Event::Response { .. } | Event::Failed { .. }) if *left > 1 => {
                *left -= 1;
                get(context, *server);
            }
            _ => {}
        }
    }

    fn timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}
}

fn get(context: &mut Context<'_, Role>, server: NodeId) {
    let body = Body::builder().path("sensors/temperature").build().expect("a short path");
    context.request(server, Request::new(Code::GET, body)).expect("one request at a time");
}

fn capture(path: &Path) -> Counters {
    let mut net = Topology::new();
    let (hub, server) = (net.node("hub"), net.node("server"));
    let link = LinkConfig {
        rate: Some(BitRate::kbit(30)),
        delay: Duration::from_millis(50),
        queue: DropTail::packets(2),
        loss: Loss::Bernoulli(0.2),
        ..LinkConfig::default()
    };
    net.duplex("bottleneck", hub, server, link);
    let clients: Vec<NodeId> = (0..5).map(|i| net.node(format!("client{i}"))).collect();
    for client in &clients {
        net.duplex(format!("{client}"), *client, hub, LinkConfig::default());
    }
    let file = std::fs::File::create(path).expect("a temporary file");
    let observer = PcapNg::new(std::io::BufWriter::new(file), &net, Capture::Senders).expect("a writable file");
    let mut sim = Simulation::new(&net, 1, observer).expect("a valid topology");
    for node in clients.into_iter().chain([server]) {
        let role = if node == server { Role::Server } else { Role::Client { server, left: 10 } };
        let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
        let host =
            Node::new(EndpointConfig::default(), CoapDefault::default(), seed, role).expect("defaults are valid");
        sim.attach(node, host).expect("a node");
    }
    sim.run();
    let counters = sim.counters();
    sim.into_parts().1.finish().expect("a writable file");
    counters
}

fn tshark(file: &Path, arguments: &[&str]) -> Option<Vec<String>> {
    let output = match Command::new("tshark").arg("-r").arg(file).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            assert!(
                std::env::var_os("CONCHE_REQUIRE_TOOLS").is_none(),
                "tshark does not run ({error}); install the package tshark or unset CONCHE_REQUIRE_TOOLS"
            );
            eprintln!("skipped: tshark does not run ({error})");
            return None;
        }
    };
    assert!(output.status.success(), "tshark failed: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[test]
#[ignore = "needs tshark"]
fn wireshark_reads_every_frame_as_coap_and_shows_its_comment() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("run.pcapng");
    let counters = capture(&file);
    let recorded = usize::try_from(counters.sent + counters.dropped).expect("a short run");
    assert!(counters.dropped > 0);

    let Some(dissected) = tshark(&file, &["-Y", "coap && udp.port == 5683 && !_ws.malformed"]) else { return };
    assert_eq!(dissected.len(), recorded, "a frame for each packet sent and each one dropped");

    let fields = ["frame.interface_name", "frame.time_epoch", "coap.code", "coap.opt.uri_path_recon", "frame.comment"];
    let arguments: Vec<&str> =
        ["-T", "fields"].into_iter().chain(fields.iter().flat_map(|name| ["-e", *name])).collect();
    let lines = tshark(&file, &arguments).expect("tshark ran before");
    let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&[
        "client0\t",
        "\t0.000000000\t1\t/sensors/temperature\t",
        "client0 exchange 1, original transmission"
    ]));
    assert!(has(&["server\t", "\t69\t", "answers packet ", "original transmission"]));
    assert!(has(&["client4\t", "exchange 2, retransmission 1"]) || has(&["client4\t", "retransmission"]));
    assert!(has(&["bottleneck>\t", "dropped: queue of bottleneck> full"]));
    assert!(has(&["bottleneck", "dropped: lost on bottleneck"]));

    // Times are nanoseconds: the first request takes 35 bytes of header, token and path at 30
    // kbit/s.
    let epochs: Vec<&str> = lines.iter().filter_map(|line| line.split('\t').nth(1)).collect();
    assert!(epochs.iter().any(|epoch| !epoch.ends_with("000")), "whole microseconds only: {epochs:?}");

    let names = tshark(&file, &["-N", "n", "-Y", "ip.src_host == \"client3\" && ip.dst_host == \"server\""]);
    assert!(!names.expect("tshark ran before").is_empty(), "addresses have the nodes' names");
}

//! Load tests over DTLS of servers that forget.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conche::security::Secret;
use conche::server::get;
use conche::{Server, Uri};
use conche_bench::{ClientCredentials, Kind, Plan, Until, run};
use tokio::runtime::Runtime;

/// A server that knows a lamp, and what runs it: who drops that ends it without a goodbye.
fn lamp(at: SocketAddr) -> (Runtime, SocketAddr) {
    let runtime = Runtime::new().expect("threads");
    let mut server = runtime.block_on(async {
        let builder = Server::builder().psk(|_: &[u8]| Some(Secret::new(*b"sesame"))).route("/", get(async || "on"));
        builder.bind(at).await.expect("loopback can be bound")
    });
    let address = server.local_addr();
    runtime.spawn(async move { server.wait().await });
    (runtime, address)
}

fn plan(target: SocketAddr) -> Plan {
    let uri: Uri = format!("coaps://{target}/").parse().expect("a URI");
    let mut plan = Plan::new(target, vec![Kind::get(&uri).expect("it can be built")]);
    plan.credentials = Some(ClientCredentials::psk(*b"lamp", Secret::new(*b"sesame")).expect("a key"));
    plan
}

#[test]
fn a_server_that_forgets_its_sessions_is_asked_through_others() {
    let (first, address) = lamp(([127, 0, 0, 1], 0).into());
    let (mut first, mut second, mut before) = (Some(first), None, None);
    let plan =
        Plan { until: Until::Elapsed(Duration::from_secs(60)), timeout: Some(Duration::from_secs(1)), ..plan(address) };
    let stop = AtomicBool::new(false);
    let report = run(&plan, &stop, &mut |live| {
        if let Some(first) = first.take_if(|_| live.answered > 0) {
            first.shutdown_timeout(Duration::from_secs(5));
            second = Some(lamp(address));
        }
        // What is lost was asked through a session that nobody knows; what is answered after that, through another.
        if second.is_some() && live.lost > 0 && live.answered > *before.get_or_insert(live.answered) + 100 {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let handshakes = report.expect("it was measured").handshakes.expect("there were some");
    assert_eq!(handshakes.opened, 2, "{handshakes:?}");
}

//! Servers that lose their DTLS sessions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use conche::security::Secret;
use conche::server::get;
use conche::{Server, Uri};
use conche_bench::{ClientCredentials, Kind, Plan, Until, run};
use tokio::runtime::Runtime;

use crate::own_address::own_address;

fn server(at: SocketAddr, served: &Arc<AtomicU64>) -> (Runtime, SocketAddr) {
    let runtime = Runtime::new().expect("threads");
    let served = Arc::clone(served);
    let handler = move || {
        served.fetch_add(1, Ordering::Relaxed);
        async { "on" }
    };
    let server = runtime.block_on(async {
        let builder = Server::builder().psk(|_: &[u8]| Some(Secret::new(*b"sesame"))).route("/", get(handler));
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
    let [by_first, by_second] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let (first, address) = server(own_address(), &by_first);
    let (mut first, mut second) = (Some(first), None);
    let plan =
        Plan { until: Until::Elapsed(Duration::from_secs(60)), timeout: Some(Duration::from_secs(1)), ..plan(address) };
    let stop = AtomicBool::new(false);
    let report = run(&plan, &stop, &mut |live| {
        if let Some(first) = first.take_if(|_| live.answered > 0) {
            first.shutdown_timeout(Duration::from_secs(5));
            second = Some(server(address, &by_second));
        }
        if by_second.load(Ordering::Relaxed) > 100 {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let handshakes = report.expect("it was measured").handshakes.expect("there were some");
    // The first may open another while it shuts down.
    assert!(handshakes.opened >= 2, "{handshakes:?}");
    assert!(by_second.load(Ordering::Relaxed) > 100, "{handshakes:?}");
}

//! Load tests on the loopback.
#![allow(missing_docs, reason = "a test")]

#[path = "../../../conche/tests/common/own_address.rs"]
mod own_address;
mod secured;

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use conche::server::get;
use conche::{Server, Uri};
use conche_bench::{Arrivals, Error, Kind, Load, Plan, Report, Until, run};

#[derive(Clone, Copy, Debug)]
struct Datagram<'a> {
    from: SocketAddr,
    bytes: &'a [u8],
    before: usize,
}

impl Datagram<'_> {
    fn id(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    fn content(&self) -> Vec<u8> {
        let mut response = self.bytes[..4 + usize::from(self.bytes[0] & 0xf)].to_vec();
        if response[0] & 0x30 == 0 {
            response[0] |= 0x20;
        }
        response[1] = 0x45;
        response
    }

    fn reset(&self) -> Vec<u8> {
        vec![0x70, 0, self.bytes[2], self.bytes[3]]
    }
}

struct Peer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl Peer {
    fn start(mut answer: impl FnMut(Datagram<'_>) -> Option<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("it can be set");
        let address = socket.local_addr().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut buffer, mut before) = ([0; 2000], 0);
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                if let Some(response) = answer(Datagram { from, bytes: &buffer[..length], before }) {
                    socket.send_to(&response, from).expect("it can be sent");
                }
                before += 1;
            }
            before
        });
        Self { address, stop, thread: Some(thread) }
    }

    fn plan(&self) -> Plan {
        plan(self.address)
    }

    fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it does not fail")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn plan(address: SocketAddr) -> Plan {
    Plan::new(address, vec![kind(address, "/test")])
}

fn kind(address: SocketAddr, path: &str) -> Kind {
    let uri: Uri = format!("coap://{address}{path}").parse().expect("a URI");
    Kind::get(&uri).expect("it can be built")
}

fn go(plan: &Plan) -> Report {
    let report = run(plan, &AtomicBool::new(false), &mut |_| {}).expect("the test runs");
    let all = report.answered + report.lost.all() + report.unsent + report.unfinished;
    assert_eq!(report.requests, all, "what became of requests adds up: {report:?}");
    assert_eq!(report.codes.values().sum::<u64>(), report.answered);
    assert_eq!(report.histogram.iter().map(|bar| bar.count).sum::<u64>(), report.answered);
    report
}

#[test]
fn every_request_of_a_closed_loop_is_counted_once() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let server = runtime.block_on(Server::builder().route("/test", get(async || "hello")).bind("127.0.0.1:0"));
    let server = server.expect("loopback can be bound");
    let address = server.local_addr();
    let mut plan = Plan {
        endpoints: 5,
        in_flight: 3,
        threads: 2,
        until: Until::Count(501),
        kinds: vec![kind(address, "/test"), Kind { weight: 2, ..kind(address, "/nothing") }],
        ..plan(address)
    };
    let report = go(&plan);
    assert_eq!((report.requests, report.answered), (501, 501));
    assert_eq!(report.codes.keys().collect::<Vec<_>>(), ["2.05", "4.04"]);
    assert_eq!(report.kinds.iter().map(|kind| kind.requests).sum::<u64>(), 501);
    assert_eq!((report.kinds[0].succeeded, report.kinds[1].succeeded), (report.codes["2.05"], 0));
    assert_eq!(report.kinds[1].answered, report.codes["4.04"]);

    plan.until = Until::Elapsed(Duration::from_millis(500));
    plan.warm_up = Duration::from_millis(120);
    let report = go(&plan);
    assert_eq!(report.intervals.len(), 10);
    let in_intervals: u64 = report.intervals.iter().map(|interval| interval.answered).sum();
    // The measurement also receives earlier responses, and misses later ones.
    assert!(in_intervals.abs_diff(report.answered) <= 2 * 15, "{in_intervals} {}", report.answered);
    assert!(report.requests_per_s > 0.0 && report.bytes_received_per_s > report.requests_per_s);
}

#[test]
fn latency_of_an_open_loop_has_the_wait_for_a_server_that_stalls() {
    const STALL: Duration = Duration::from_millis(400);
    let peer = Peer::start(|came| {
        if came.before == 100 {
            std::thread::sleep(STALL);
        }
        Some(came.content())
    });
    let load = Load::Open { rate: 500.0, arrivals: Arrivals::Constant };
    let report = go(&Plan { load, until: Until::Count(600), ..peer.plan() });
    assert_eq!(report.answered, 600);
    let (latency, service) = (report.latency_ms.expect("responses"), report.service_ms.expect("responses"));
    // 100 of 600 are due in the first half, and wait until its end.
    let half = STALL.as_secs_f64() * 1e3 / 2.0;
    assert!(latency.p90 >= half, "{latency:?}");
    assert!(service.p90 < latency.p90, "{service:?} {latency:?}");
    assert!(report.generator.held >= 100, "{:?}", report.generator);
    assert_eq!(report.unsent, 0);
}

#[test]
fn a_server_stall_counts_as_latency_and_not_as_generator_delay() {
    const STALL: Duration = Duration::from_millis(200);
    let peer = Peer::start(|came| {
        if came.before % 120 == 60 {
            std::thread::sleep(STALL);
        }
        Some(came.content())
    });
    let load = Load::Open { rate: 400.0, arrivals: Arrivals::Constant };
    let report = go(&Plan { load, endpoints: 4, until: Until::Count(600), ..peer.plan() });
    let (latency, late) = (report.latency_ms.expect("responses"), report.generator.late_ms.expect("some left in time"));
    // 80 of 120 are due in a stall; four leave at once.
    assert!(latency.p95 >= STALL.as_secs_f64() * 1e3 / 2.0, "{latency:?}");
    // A busy machine may delay the generator.
    assert!(late.p50 * 2.0 < latency.p50, "{late:?} {latency:?}");
    assert!(report.generator.held >= 50, "{:?}", report.generator);
}

#[test]
fn unsent_due_requests_are_reported() {
    let peer = Peer::start(|_| None);
    let load = Load::Open { rate: 100.0, arrivals: Arrivals::Poisson };
    let until = Until::Elapsed(Duration::from_millis(500));
    let report = go(&Plan { load, until, timeout: Some(Duration::from_secs(1)), ..peer.plan() });
    assert_eq!((report.answered, report.lost.timed_out), (0, 1));
    assert!(report.unsent > 10, "{report:?}");
    assert!(report.warnings.iter().any(|warning| warning.contains("does not keep up")), "{:?}", report.warnings);
}

#[test]
fn losses_are_retransmitted_and_counted() {
    let mut seen = HashSet::new();
    let peer = Peer::start(move |came| {
        let first = seen.insert((came.from, came.id()));
        (!first || seen.len() % 5 != 0).then(|| came.content())
    });
    let report = go(&Plan { endpoints: 5, until: Until::Count(25), ..peer.plan() });
    assert_eq!((report.requests, report.answered), (25, 25));
    assert!(report.retransmissions >= 5, "{report:?}");
    let received = u64::try_from(peer.stop()).expect("few");
    assert_eq!(received, 25 + report.retransmissions, "every copy is counted");
}

#[test]
fn requests_without_a_response_are_counted_by_reason() {
    let silent = Peer::start(|_| None);
    let mut kinds = vec![kind(silent.address, "/").with(true)];
    let timeout = Some(Duration::from_millis(100));
    let report = go(&Plan { kinds: kinds.clone(), endpoints: 3, until: Until::Count(6), timeout, ..silent.plan() });
    assert_eq!((report.lost.timed_out, report.latency_ms), (6, None));
    assert!(report.warnings.iter().any(|warning| warning.contains("6 of 6 requests have no answer")), "{report:?}");

    let rejects = Peer::start(|came| Some(came.reset()));
    kinds = vec![kind(rejects.address, "/")];
    let report = go(&Plan { kinds, until: Until::Count(3), ..rejects.plan() });
    assert_eq!(report.lost.reset, 3);
}

#[test]
fn a_port_without_a_server_is_an_error() {
    // No socket is ever assigned this port.
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let error = run(&plan(address), &AtomicBool::new(false), &mut |_| {}).expect_err("nobody answers");
    assert!(matches!(error, Error::Refused { target } if target == address), "{error}");
}

// RFC 7252 §4.4
#[test]
fn no_port_has_a_message_id_twice() {
    const COUNT: u64 = 70_000;
    let ports = Arc::new(Mutex::new(HashMap::<u16, HashMap<u16, u32>>::new()));
    let seen = Arc::clone(&ports);
    let peer = Peer::start(move |came| {
        let mut ports = seen.lock().unwrap_or_else(PoisonError::into_inner);
        *ports.entry(came.from.port()).or_default().entry(came.id()).or_default() += 1;
        Some(came.content())
    });
    let report = go(&Plan { in_flight: 16, until: Until::Count(COUNT), ..peer.plan() });
    assert_eq!((report.answered, report.generator.ports_renewed), (COUNT, 1));
    let ports = ports.lock().unwrap_or_else(PoisonError::into_inner);
    let sizes: Vec<_> = ports.values().map(HashMap::len).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (2, 70_000), "{sizes:?}");
    let copies: u32 = ports.values().flat_map(HashMap::values).map(|times| times - 1).sum();
    assert_eq!(u64::from(copies), report.retransmissions, "an ID comes again only with a copy");
}

#[test]
fn an_interrupted_test_reports_its_results_so_far() {
    let peer = Peer::start(|came| Some(came.content()));
    let stop = AtomicBool::new(false);
    let plan = Plan { until: Until::Elapsed(Duration::from_secs(3_600)), ..peer.plan() };
    let report = run(&plan, &stop, &mut |live| {
        if live.elapsed > Duration::from_millis(600) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let report = report.expect("the test runs");
    assert!(report.answered > 0 && report.measured_s < 3_600.0);
}

#[test]
fn one_request_has_one_latency() {
    let peer = Peer::start(|came| Some(came.content()));
    let report = go(&Plan { until: Until::Count(1), ..peer.plan() });
    let latency = report.latency_ms.expect("a response");
    assert_eq!((latency.min, latency.p50, latency.p999), (latency.max, latency.max, latency.max), "{latency:?}");
    assert!((latency.mean - latency.max).abs() < 1e-9 && latency.stdev < 1e-9, "{latency:?}");
}

#[test]
fn invalid_plans_are_refused() {
    let address: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let wrong = [
        Plan { kinds: Vec::new(), ..plan(address) },
        Plan { endpoints: 0, ..plan(address) },
        Plan { threads: 2, ..plan(address) },
        Plan { threads: 257, endpoints: 257, ..plan(address) },
        Plan { until: Until::Count(0), ..plan(address) },
        Plan { load: Load::Open { rate: f64::NAN, arrivals: Arrivals::Constant }, ..plan(address) },
        Plan { load: Load::Open { rate: 1e-300, arrivals: Arrivals::Constant }, ..plan(address) },
        Plan { endpoints: u32::MAX, ..plan(address) },
        Plan { observe: true, until: Until::Count(1), ..plan(address) },
        Plan { in_flight: 2, controller: conche::AnyController::by_name("default").expect("known"), ..plan(address) },
    ];
    for plan in wrong {
        let error = run(&plan, &AtomicBool::new(false), &mut |_| {}).expect_err("it makes no sense");
        assert!(matches!(error, Error::Plan(_)), "{error}");
    }
}

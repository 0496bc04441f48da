//! A congestion controller of one's own, at a client and at a server: `cargo run -p conche --example own_controller`
//!
//! Ends with an error unless the client's timer follows what its controller has measured.

use std::time::Duration;

use conche::cc::backoff::{Timer, dithered};
use conche::cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche::cc::dynamic::DynController;
use conche::cc::non::paced_by_rto;
use conche::cc::units::{Factor, Micros};
use conche::cc::{AnyController, Controller, Instant, sample};
use conche::server::get;
use conche::{Client, Server};

// ANCHOR: types
/// Waits twice as long as the slowest of the latest round trips took. Each new one takes an eighth off an older peak.
#[derive(Clone, Copy, Debug)]
struct TwicePeak;

/// What is remembered of a destination.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    /// Zero before the first sample.
    peak: Micros,
}

/// RFC 7252's ACK_TIMEOUT, before anything was measured.
const FIRST: Micros = Micros::from_millis(2_000);
/// No timer is longer.
const LONGEST: Micros = Micros::from_millis(60_000);

impl Path {
    fn rto(self) -> Micros {
        if self.peak == Micros::ZERO { FIRST } else { self.peak.times(2).min(LONGEST) }
    }
}
// ANCHOR_END: types

// ANCHOR: controller
impl Controller for TwicePeak {
    type Peer = Path;
    type Flight = Timer;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> Path {
        Path::default()
    }

    /// Non-confirmable messages are never acknowledged: an RTO apart, they cannot fill a queue.
    fn admit(&self, path: &mut Path, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable { Admission::Send } else { paced_by_rto(now, message, &load.non, path.rto()) }
    }

    /// The first timer of an exchange is 1 to 1.5 times the RTO, so that clients that began together do not go on
    /// together; each copy doubles it.
    fn sent(&self, path: &mut Path, timer: &mut Timer, event: &Sent) -> Duration {
        let first = || dithered(path.rto(), Factor::ONE_AND_HALF, event.random);
        timer.arm(event, first, Factor::TWO, LONGEST)
    }

    fn expired(&self, _path: &mut Path, _timer: &mut Timer, event: &Expired) -> Instant {
        event.now
    }

    /// Only exchanges without a copy are measured: of others nobody knows which copy was acknowledged.
    fn acknowledged(&self, path: &mut Path, _timer: &Timer, event: &Acknowledged<'_>) {
        if let Some(rtt) = sample::strong_rtt(event) {
            path.peak = rtt.max(path.peak.minus(path.peak.shifted(3)));
        }
    }

    fn abandoned(&self, _path: &mut Path, _timer: &Timer, _event: &Abandoned<'_>) {}

    fn drained(&self, _path: &mut Path, _now: Instant, _load: &Load) {}

    fn base(&self, path: &mut Path, _now: Instant) -> Duration {
        path.rto().into()
    }

    fn snapshot(&self, path: &Path) -> Snapshot {
        let measured = (path.peak != Micros::ZERO).then(|| path.peak.into());
        Snapshot { rto: path.rto().into(), srtt: measured, ..Snapshot::default() }
    }
}
// ANCHOR_END: controller

// ANCHOR: main
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where controllers are chosen by name, one of your own is wrapped.
    let wrapped = AnyController::from(DynController::new(TwicePeak));
    let server =
        Server::builder().controller(wrapped).route("/hello", get(async || "world")).bind("127.0.0.1:0").await?;

    // Where all have one type, it goes as it is.
    let client: Client = Client::builder().own_controller(TwicePeak).build()?;
    for _ in 0..10 {
        client.get(format!("coap://{}/hello", server.local_addr())).await?.successful()?;
    }

    let known = client.snapshot(server.local_addr()).await.ok_or("nothing is known of the path")?.congestion;
    let peak = known.srtt.ok_or("nothing was measured")?;
    println!("the slowest round trip took {peak:?}, so the RTO is {:?}", known.rto);
    if known.rto == 2 * peak { Ok(()) } else { Err("the RTO does not follow the peak".into()) }
}
// ANCHOR_END: main

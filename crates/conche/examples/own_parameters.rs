//! A custom controller with parameters by name: `cargo run -p conche --example own_parameters`

use std::time::Duration;

use conche::cc::any::{Controllers, Named};
use conche::cc::backoff::{dithered, grown};
use conche::cc::control::{Acknowledged, Sent};
use conche::cc::features::Features;
use conche::cc::parameters::Range;
use conche::cc::units::{Factor, Micros};
use conche::cc::{Instant, RtoRule};
use conche::server::get;
use conche::{Client, Server};

// ANCHOR: parameters
/// RFC 7252's timer with a settable backoff.
#[derive(Clone, Debug)]
struct Stretched {
    backoff: Factor,
    max_rto: Duration,
}

impl Default for Stretched {
    fn default() -> Self {
        Self { backoff: Factor::TWO, max_rto: Duration::from_secs(60) }
    }
}

conche::cc::parameters! {
    Stretched {
        "backoff" => backoff, Range::permille(1_000, 4_000), "factor per retransmission", "mine";
        "max_rto" => max_rto, Range::millis(2_000, 120_000), "maximum timeout", "mine";
    }
}
// ANCHOR_END: parameters

impl RtoRule for Stretched {
    type Peer = ();
    type Exchange = ();
    const MEASURES_RTT: bool = false;

    fn new_peer(&self, _now: Instant) {}

    fn rto(&self, (): &()) -> Micros {
        Micros::from_millis(2_000)
    }

    fn first_timeout(&self, peer: &mut (), (): &mut (), sent: &Sent) -> Micros {
        dithered(self.rto(peer), Factor::ONE_AND_HALF, sent.random).min(self.max_rto.into())
    }

    fn next_timeout(&self, (): &mut (), (): &mut (), current: Micros, _sent: &Sent) -> Micros {
        grown(current, self.backoff, self.max_rto.into())
    }

    fn on_ack(&self, (): &mut (), _timeout: Option<Micros>, _event: &Acknowledged<'_>) {}
}

const FEATURES: Features = Features {
    dithering: "[1, 1.5]",
    backoff: "by parameter",
    source: "this example",
    ..Features::of::<Stretched>("the default with another backoff")
};

// ANCHOR: name
const OWN: Named = Named::own_with_parameters::<Stretched>("stretched", FEATURES).with_version(2);
// ANCHOR_END: name

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server =
        Server::builder().route("/hello", get(async || "world")).bind("127.0.0.1:0").await?;
    // ANCHOR: configured
    let controllers = Controllers::with([OWN])?;
    let (_, controller) = controllers.configured("stretched:backoff=1.5,max_rto=30s")?;
    for (parameter, value) in controller.parameters() {
        println!("{} = {value}, of {}", parameter.name, parameter.range);
    }
    let client = Client::builder().controller(controller).build()?;
    // ANCHOR_END: configured
    client.get(format!("coap://{}/hello", server.local_addr())).await?.successful()?;

    let error = controllers.configured("stretched:backoff=5").err().ok_or("5 was taken")?;
    println!("{error}");
    if error.to_string().contains("valid is 1 to 4") {
        Ok(())
    } else {
        Err("the error does not name the range".into())
    }
}

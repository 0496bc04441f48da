//! The network of clients behind one GPRS modem.
//!
//! ```text
//!   client 1 ┐        ──uplink──>
//!   client 2 ┼─ modem              server
//!      …     ┘        <─downlink──
//! ```

use conche_netsim::BitRate;
use conche_netsim::wired::{Distribution, Jitter, LinkConfig, Loss, Order, Stalls, Topology};
use conche_proto::codec::Body;

use super::scenario::{Gprs, Link};
use super::site::Site;
use crate::campaign::Replication;
use crate::scenario::Endpoint;
use crate::units::Size;

/// The network of one run. Links and clients come in an order that gives each the same random stream whatever the number
/// of clients.
pub(super) fn site(gprs: &Gprs, endpoint: &Endpoint, clients: u32, replication: Replication) -> Site {
    let mut topology = Topology::new();
    let (modem, server) = (topology.node("modem"), topology.node("server"));
    let mut radio = |name: &str, from, to, link: &Link, frame: Size| {
        let rate = link.spread.map_or(link.rate, |spread| spread.rate(link.rate, name, replication));
        topology.link(name, from, to, configured(link, rate, header_bytes(frame, endpoint)));
    };
    radio("uplink", modem, server, &gprs.uplink, gprs.request);
    radio("downlink", server, modem, &gprs.downlink, gprs.response);
    let pairs = (0..clients)
        .map(|index| {
            let client = topology.node(format!("client {index}"));
            topology.duplex(format!("access {index}"), client, modem, LinkConfig::default());
            (client, server)
        })
        .collect();
    Site { topology, pairs, request: Body::EMPTY, response: Body::EMPTY }
}

/// What a frame has beyond its CoAP message, which is a header and a token.
fn header_bytes(frame: Size, endpoint: &Endpoint) -> u32 {
    let message = 4 + u64::from(endpoint.token_length);
    u32::try_from(frame.0 - message).expect("checked when the scenario was read")
}

fn configured(link: &Link, rate: BitRate, header_bytes: u32) -> LinkConfig {
    LinkConfig {
        rate: Some(rate),
        service: link.service,
        stalls: Stalls { probability: link.stall_probability, mean: link.stall.0 },
        delay: link.delay.0,
        jitter: Jitter { distribution: Distribution::Exponential { mean: link.jitter.0 }, order: Order::Kept },
        loss: Loss::Bernoulli(link.loss),
        header_bytes,
        ..LinkConfig::default()
    }
}

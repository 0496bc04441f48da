//! The network of clients behind one GPRS modem.
//!
//! ```text
//!   client 1 ┐        ──uplink──>
//!   client 2 ┼─ modem              server
//!      …     ┘        <─downlink──
//! ```

use conche_netsim::BitRate;
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::wired::{self, Distribution, Jitter, LinkConfig, Loss, Order, Stalls, Topology};
use conche_proto::codec::Body;

use super::scenario::{Draw, Gprs, Link, Service};
use super::site::Site;
use crate::campaign::Replication;
use crate::scenario::Endpoint;
use crate::stats::normal_quantile;
use crate::units::Size;

/// The network of one run. Links and clients come in an order that gives each the same random stream whatever the number
/// of clients.
pub(super) fn site(gprs: &Gprs, endpoint: &Endpoint, clients: u32, replication: Replication) -> Site {
    let streams = Streams::new(replication.seed);
    let mut topology = Topology::new();
    let (modem, server) = (topology.node("modem"), topology.node("server"));
    let mut radio = |name: &str, from, to, link: &Link, frame: Size| {
        let bits = rate(link, name, &streams, replication);
        topology.link(name, from, to, configured(link, bits, header_bytes(frame, endpoint)));
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

fn configured(link: &Link, bits: u64, header_bytes: u32) -> LinkConfig {
    LinkConfig {
        rate: Some(BitRate::bit(bits)),
        service: match link.service {
            Service::Exact => wired::Service::Exact,
            Service::Rayleigh => wired::Service::Rayleigh,
            Service::Exponential => wired::Service::Exponential,
        },
        stalls: Stalls { probability: link.stall_probability, mean: link.stall.0 },
        delay: link.delay.0,
        jitter: Jitter { distribution: Distribution::Exponential { mean: link.jitter.0 }, order: Order::Kept },
        loss: Loss::Bernoulli(link.loss),
        header_bytes,
        ..LinkConfig::default()
    }
}

/// The rate of a run in bits a second.
///
/// Whole bits: what the last places of the logarithm's inverse are on one machine or another does not matter.
fn rate(link: &Link, name: &str, streams: &Streams, replication: Replication) -> u64 {
    let Some(spread) = link.spread else { return link.rate.as_bits() };
    let z = match spread.draw {
        Draw::Independent => streams.stream(Entity::Run, Purpose::named(name)).normal(),
        Draw::Stratified => normal_quantile((f64::from(replication.index) + 0.5) / f64::from(replication.count)),
    };
    // exp(μ + σ²/2) is the mean of a lognormal distribution.
    let drawn = link.rate.as_bits() as f64 * (spread.sigma * z - spread.sigma * spread.sigma / 2.0).exp();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and casts saturate
    let bits = drawn.round() as u64;
    bits.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::commag16::SCENARIO;
    use crate::papers::commag16::scenario::{Scenario, Spread};

    fn rates(draw: Draw, count: u32) -> Vec<f64> {
        let scenario = Scenario::from_toml(SCENARIO).expect("valid");
        let spread = Some(Spread { sigma: 0.5, draw });
        let link = Link { rate: BitRate::kbit(15), spread, ..scenario.gprs.expect("it is there").uplink };
        let rate = |index| {
            let replication = Replication { index, count, seed: u64::from(index) };
            rate(&link, "uplink", &Streams::new(replication.seed), replication) as f64
        };
        (0..count).map(rate).collect()
    }

    #[test]
    fn rates_of_runs_are_lognormal_around_their_mean() {
        let rates = rates(Draw::Independent, 20_000);
        let mean = rates.iter().sum::<f64>() / 20_000.0;
        // Coefficient of variation √(exp(σ²) − 1) = 0.533.
        assert!((mean / 15_000.0 - 1.0).abs() < 4.0 * 0.533 / 20_000_f64.sqrt(), "{mean}");
        let logarithms: Vec<f64> = rates.iter().map(|rate| (rate / 15_000.0).ln() + 0.125).collect();
        let variance = logarithms.iter().map(|log| log * log).sum::<f64>() / 20_000.0;
        assert!((variance - 0.25).abs() < 4.0 * 0.25 * (2.0_f64 / 20_000.0).sqrt(), "{variance}");
    }

    #[test]
    fn stratified_rates_have_their_mean_with_few_runs_already() {
        let rates = rates(Draw::Stratified, 15);
        assert!(rates.is_sorted(), "each from the next part of the distribution");
        assert!((rates[7] - 15_000.0 * (-0.125_f64).exp()).abs() < 1.0, "the middle one is the median");
        let mean = rates.iter().sum::<f64>() / 15.0;
        assert!((mean / 15_000.0 - 1.0).abs() < 0.02, "{mean}");
    }
}

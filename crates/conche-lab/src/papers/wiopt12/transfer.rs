//! One transfer: a run, and what is measured of it.

use conche_netsim::mote::{Mote, Role, Router};
use conche_netsim::routing::aodv::Aodv;
use conche_netsim::transport::tcp::{Acknowledgments, Receiver, Sender, SenderConfig};
use conche_netsim::{Ended, Instant, NodeId, Simulation};
use conche_proto::cc::AnyController;

use super::scenario::{self, Metric, Scenario};
use super::testbed::{Backoff, Net, Route, Testbed, aodv};
use crate::campaign::Sample;

/// What is varied from one transfer to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Settings {
    /// The MAC's backoff.
    pub backoff: Backoff,
    /// The MAC's retries.
    pub retries: u8,
    /// The limit of the congestion window.
    pub window: u16,
    /// What acknowledgments mean.
    pub acknowledgments: scenario::Acknowledgments,
    /// The timers, as the place of their scheme in the scenario.
    pub scheme: usize,
}

/// How a transfer gets to its sink.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way<'a> {
    /// Over this route.
    Frozen(&'a Route),
    /// Between these motes, over routes that are looked for.
    Searched(usize, usize, Metric),
}

/// What became of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// In bits a second, until the last segment arrived; `None` if not all did.
    pub goodput: Option<f64>,
    /// The mean round-trip time of segments, in seconds; `None` if there is none without doubt.
    pub round_trip: Option<f64>,
    /// Datagrams that the MACs were given, each once a hop.
    pub handed_over: u64,
    /// Datagrams that they gave up.
    pub given_up: u64,
    /// The lengths of the routes that the source found.
    pub routes: Vec<u8>,
    /// Timers that ran out.
    pub timeouts: u32,
}

impl Transfer {
    /// All segments arrived.
    #[must_use]
    pub fn succeeds(&self) -> bool {
        self.goodput.is_some()
    }

    /// What is kept of it, with units.
    pub(super) fn samples(&self) -> [(&'static str, Sample); 4] {
        let number = |value: Option<f64>| value.map_or(Sample::None, Sample::One);
        let counts = vec![self.handed_over, self.given_up, self.timeouts.into()];
        let routes = self.routes.iter().map(|hops| u64::from(*hops)).collect();
        let (goodput, round_trip) = (number(self.goodput), number(self.round_trip));
        [
            ("bit/s", goodput),
            ("s", round_trip),
            ("count", Sample::Each(counts, 1.0)),
            ("count", Sample::Each(routes, 1.0)),
        ]
    }

    /// The transfer of which these were kept.
    pub(super) fn from_samples(samples: &[Sample]) -> Option<Self> {
        let number = |sample: &Sample| if let Sample::One(value) = sample { Some(*value) } else { None };
        let [goodput, round_trip, Sample::Each(counts, _), Sample::Each(routes, _)] = samples else { return None };
        let [handed_over, given_up, timeouts] = counts[..] else { return None };
        let routes = routes.iter().map(|hops| u8::try_from(*hops).ok()).collect::<Option<_>>()?;
        let timeouts = u32::try_from(timeouts).ok()?;
        let (goodput, round_trip) = (number(goodput), number(round_trip));
        Some(Self { goodput, round_trip, handed_over, given_up, routes, timeouts })
    }
}

/// Runs a transfer; the second part of the answer is the number of events.
pub(super) fn run(
    scenario: &Scenario,
    testbed: &Testbed,
    settings: &Settings,
    way: Way<'_>,
    seed: u64,
) -> Result<(Transfer, u64), String> {
    let net = testbed.net(scenario, settings.backoff, settings.retries);
    let (from, to) = match way {
        Way::Frozen(route) => (route.there[0], route.there[usize::from(route.hops())]),
        Way::Searched(from, to, _) => (net.nodes[from], net.nodes[to]),
    };
    let mut sim = Simulation::<Mote<AnyController>>::new(&net.topology, seed, ()).map_err(|error| error.to_string())?;
    for node in &net.nodes {
        let role = role(scenario, settings, *node, (from, to))?;
        let mote = Mote::new(*node, net.mote, router(scenario, way, *node), role);
        sim.attach(*node, mote).map_err(|error| error.to_string())?;
    }
    if sim.run_until(Instant::ZERO + scenario.time_limit.0) == Ended::Limit {
        return Err(format!("the transfer is not over after {}", scenario.time_limit));
    }
    Ok((measure(scenario, &sim, &net, (from, to)), sim.events()))
}

fn router(scenario: &Scenario, way: Way<'_>, node: NodeId) -> Router {
    match way {
        Way::Frozen(route) => Router::Frozen(route.next_hops(node)),
        Way::Searched(_, _, metric) => Router::Aodv(Box::new(Aodv::new(node, aodv(scenario, metric)))),
    }
}

fn role(
    scenario: &Scenario,
    settings: &Settings,
    node: NodeId,
    (from, to): (NodeId, NodeId),
) -> Result<Role<AnyController>, String> {
    let transfer = &scenario.transfer;
    let acknowledgments = match settings.acknowledgments {
        scenario::Acknowledgments::Cumulative => Acknowledgments::Cumulative,
        scenario::Acknowledgments::Positive => Acknowledgments::Positive,
    };
    if node == to {
        return Ok(Role::Sink(from, Receiver::new(transfer.segments.get(), acknowledgments)));
    }
    if node != from {
        return Ok(Role::Relay);
    }
    let config = SenderConfig {
        segments: transfer.segments.get(),
        segment_bytes: u32::try_from(transfer.payload.0 + transfer.header.0).unwrap_or(u32::MAX),
        window_limit: settings.window,
        min_rto: transfer.min_rto.0,
        max_timeouts: transfer.max_timeouts,
        acknowledgments,
    };
    let controller = scenario.schemes[settings.scheme].build().map_err(|error| error.to_string())?;
    Ok(Role::Source(to, Sender::new(config, controller, Instant::ZERO)))
}

fn measure(
    scenario: &Scenario,
    sim: &Simulation<Mote<AnyController>>,
    net: &Net,
    (from, to): (NodeId, NodeId),
) -> Transfer {
    let mote = |node| sim.host(node).expect("every node has its mote");
    let (Role::Source(_, sender), Role::Sink(_, receiver)) = (mote(from).role(), mote(to).role()) else {
        unreachable!("these are their roles")
    };
    let bits = 8.0 * scenario.transfer.payload.0 as f64 * f64::from(scenario.transfer.segments.get());
    let seconds = |at: Instant| at.as_nanos() as f64 / 1e9;
    let stats = sender.stats();
    let sum = |count: fn(&Mote<AnyController>) -> u64| net.nodes.iter().map(|node| count(mote(*node))).sum();
    Transfer {
        goodput: receiver.completed().map(|at| bits / seconds(at)),
        round_trip: (stats.samples > 0).then(|| stats.round_trips.as_secs_f64() / f64::from(stats.samples)),
        handed_over: sum(|mote| mote.stats().handed_over),
        given_up: sum(|mote| mote.stats().given_up),
        routes: mote(from).stats().routes_found.clone(),
        timeouts: stats.timeouts,
    }
}

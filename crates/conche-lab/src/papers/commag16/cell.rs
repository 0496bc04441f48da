//! One run: clients of one scheme over one network, all the time or in a burst.

use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::{Instant, NodeId, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code};

use super::scenario::{Burst, FlockLab, Gprs, Scenario};
use super::site::Site;
use super::{gprs, motes};
use crate::campaign::{self, Ran, Replication};
use crate::workload::{
    Answers, Application, Exchange, Flow, Limit, Parameters, Recorded, Requester, Responder, Timeout, host,
};

/// How clients work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// All of them all the time.
    Continuous,
    /// Some of them all the time; the others join them at once.
    Burst,
}

/// Where clients and servers are.
#[derive(Clone, Copy)]
pub(super) enum Where<'a> {
    /// So many clients behind one modem.
    Gprs(&'a Gprs, u32),
    /// One client for each mote.
    FlockLab(&'a FlockLab),
}

/// One scheme with one workload over one network.
pub(super) struct Cell<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) scheme: &'a str,
    pub(super) controller: AnyController,
    pub(super) workload: Workload,
    pub(super) place: Where<'a>,
}

/// What clients went through in one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Continuous(Continuous),
    /// Seconds from the begin of a burst until it settled, or until that was no longer waited for.
    Burst(f64),
}

/// What clients went through that worked all the time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Continuous {
    /// Of each client: exchanges that succeeded.
    pub(super) transactions: Vec<u32>,
    /// All of them, a second.
    pub(super) throughput: f64,
    /// Copies beyond the first ones, of all copies.
    pub(super) retransmission_share: f64,
    /// Mean seconds from the first copy of a request to its acknowledgement.
    pub(super) round_trip_s: f64,
    /// Mean seconds of the first timeout of an exchange, as drawn.
    pub(super) initial_rto_s: f64,
}

impl campaign::Cell for Cell<'_> {
    type Outcome = Outcome;

    fn name(&self) -> String {
        let burst = match self.workload {
            Workload::Continuous => "",
            Workload::Burst => "-burst",
        };
        match self.place {
            Where::Gprs(_, clients) => format!("{}/gprs{burst}/{clients}", self.scheme),
            Where::FlockLab(_) => format!("{}/flocklab{burst}", self.scheme),
        }
    }

    fn replications(&self) -> u32 {
        self.scenario.replications.get()
    }

    /// The modem limits how much happens in a second, and more clients have more copies. Motes send every frame many times.
    fn work(&self) -> u64 {
        match self.place {
            Where::Gprs(_, clients) => 100 + u64::from(clients),
            Where::FlockLab(_) => 3000,
        }
    }

    fn run(&self, replication: Replication) -> Result<Ran<Outcome>, String> {
        let endpoint = &self.scenario.endpoint;
        let (site, limit) = match self.place {
            Where::Gprs(gprs, clients) => (gprs::site(gprs, endpoint, clients, replication), self.scenario.burst.limit),
            Where::FlockLab(flocklab) => {
                (motes::site(flocklab, endpoint, self.scenario.seed, replication)?, flocklab.limit)
            }
        };
        let parameters = Parameters {
            max_retransmit: endpoint.max_retransmit,
            nstart: endpoint.nstart,
            timeout_cap: endpoint.timeout_cap.0,
            token_length: endpoint.token_length,
            response_timeout: None,
            datagram_overhead: None,
        };
        match self.workload {
            Workload::Continuous => {
                let duration = self.scenario.continuous.duration.0;
                let mut trial =
                    Trial::new(&site, parameters, self.controller.clone(), replication.seed, |_| Part::CONTINUOUS)?;
                trial.simulation.run_until(Instant::ZERO + duration);
                Ok(Ran { outcome: Outcome::Continuous(trial.measure(duration)?), events: trial.simulation.events() })
            }
            Workload::Burst => {
                let burst = self.scenario.burst;
                let part = |index| if index < burst.continuous { Part::CONTINUOUS } else { Part::of(burst) };
                let mut trial = Trial::new(&site, parameters, self.controller.clone(), replication.seed, part)?;
                let settled = trial.settle(burst, limit.0);
                Ok(Ran { outcome: Outcome::Burst(settled), events: trial.simulation.events() })
            }
        }
    }
}

/// What one client does.
#[derive(Clone, Copy)]
struct Part {
    start: Instant,
    exchanges: Option<u64>,
}

impl Part {
    const CONTINUOUS: Self = Self { start: Instant::ZERO, exchanges: None };

    fn of(burst: Burst) -> Self {
        Self { start: Instant::ZERO + burst.start.0, exchanges: Some(burst.exchanges.get().into()) }
    }
}

/// A client, which is a flow of its node's requester.
#[derive(Clone, Copy)]
struct Client {
    node: NodeId,
    flow: u32,
    part: Part,
}

/// A network with its clients and servers at work.
struct Trial {
    simulation: Simulation<Node<Application>>,
    clients: Vec<Client>,
    /// The timeouts of all clients.
    timeouts: std::rc::Rc<std::cell::RefCell<Vec<Timeout>>>,
}

impl Trial {
    fn new(
        site: &Site,
        parameters: Parameters,
        controller: AnyController,
        seed: u64,
        part: impl Fn(u32) -> Part,
    ) -> Result<Self, String> {
        let mut simulation = Simulation::new(&site.topology, seed, ()).map_err(|error| error.to_string())?;
        let streams = simulation.streams();
        let (recorded, timeouts) = Recorded::new(controller.clone());
        let mut attach = |node, controller, application| {
            let host =
                host(node, 0, parameters, controller, &streams, application).map_err(|error| error.to_string())?;
            simulation.attach(node, host).map_err(|error| error.to_string())
        };
        let mut clients: Vec<Client> = Vec::new();
        let mut nodes: Vec<(NodeId, Vec<Flow>)> = Vec::new();
        for (index, (node, server)) in (0..).zip(&site.pairs) {
            let part = part(index);
            let place = nodes.iter().position(|(known, _)| known == node).unwrap_or(nodes.len());
            if place == nodes.len() {
                nodes.push((*node, Vec::new()));
            }
            let flows = &mut nodes[place].1;
            clients.push(Client { node: *node, flow: u32::try_from(flows.len()).unwrap_or(u32::MAX), part });
            flows.push(flow(*server, part, site.request.clone()));
        }
        for (node, flows) in nodes {
            let requester = Some(Requester::new(flows));
            attach(node, recorded.clone(), Application { requester, responder: None })?;
        }
        let mut servers: Vec<NodeId> = site.pairs.iter().map(|(_, server)| *server).collect();
        servers.sort_unstable();
        servers.dedup();
        for server in servers {
            let responder = Some(Responder::new(Answers::All, Code::CONTENT, site.response.clone()));
            attach(server, Recorded::silent(controller.clone()), Application { requester: None, responder })?;
        }
        Ok(Self { simulation, clients, timeouts })
    }

    /// The exchanges of a client that succeeded.
    fn answered(&self, client: Client) -> impl Iterator<Item = &Exchange> {
        let requester = self.simulation.host(client.node).and_then(|host| host.application().requester.as_ref());
        let exchanges = requester.map(Requester::exchanges).unwrap_or_default();
        exchanges.iter().filter(move |exchange| exchange.answered && exchange.flow == client.flow)
    }

    fn measure(&self, duration: Duration) -> Result<Continuous, String> {
        let mut transactions = Vec::new();
        let mut round_trips = Vec::new();
        for client in &self.clients {
            transactions.push(u32::try_from(self.answered(*client).count()).unwrap_or(u32::MAX));
            let spans = self.answered(*client).filter_map(|exchange| exchange.round_trip);
            round_trips.extend(spans.map(|span| span.as_secs_f64()));
        }
        let timeouts = self.timeouts.borrow();
        let firsts = timeouts.iter().filter(|timeout| timeout.attempt == 0);
        let initial: Vec<f64> = firsts.map(|timeout| timeout.after.as_secs_f64()).collect();
        if round_trips.is_empty() {
            return Err(format!("no exchange succeeded within {duration:?}; give the network more time or rate"));
        }
        Ok(Continuous {
            throughput: round_trips.len() as f64 / duration.as_secs_f64(),
            retransmission_share: (timeouts.len() - initial.len()) as f64 / timeouts.len() as f64,
            round_trip_s: mean(&round_trips),
            initial_rto_s: mean(&initial),
            transactions,
        })
    }

    /// Runs until the burst has settled, and answers how long it took.
    fn settle(&mut self, burst: Burst, limit: Duration) -> f64 {
        const STEP: Duration = Duration::from_secs(1);
        let start = Instant::ZERO + burst.start.0;
        let members: Vec<Client> =
            self.clients.iter().filter(|client| client.part.exchanges.is_some()).copied().collect();
        let all = members.len() as f64 * f64::from(burst.exchanges.get());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a whole number
        let enough = ((burst.settled * all).ceil() as usize).max(1);
        let mut until = start;
        while until - start < limit {
            until += STEP;
            self.simulation.run_until(until);
            let answered = members.iter().flat_map(|client| self.answered(*client));
            let mut ends: Vec<Instant> = answered.map(|exchange| exchange.ended).collect();
            if ends.len() >= enough {
                ends.sort_unstable();
                return (ends[enough - 1] - start).as_secs_f64();
            }
        }
        limit.as_secs_f64()
    }
}

fn flow(peer: NodeId, part: Part, body: Body) -> Flow {
    let limit = part.exchanges.map_or(Limit::None, Limit::Opened);
    Flow { start: part.start, limit, body, ..Flow::to(peer) }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

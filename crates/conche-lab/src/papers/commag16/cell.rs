//! One run: clients of one scheme over one network, all the time or in a burst.

use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::{Instant, NodeId, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code};

use super::gprs::{self, Site};
use super::scenario::{Burst, Scenario};
use crate::campaign::{self, Ran, Replication};
use crate::workload::{
    Answers, Application, Exchange, Flow, Pace, Parameters, Recorded, Requester, Responder, Timeout, host,
};

/// How clients work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// All of them all the time.
    Continuous,
    /// Some of them all the time; the others join them at once.
    Burst,
}

/// One scheme with so many clients and one workload.
pub(super) struct Cell<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) scheme: &'a str,
    pub(super) controller: AnyController,
    pub(super) workload: Workload,
    pub(super) clients: u32,
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
        let workload = match self.workload {
            Workload::Continuous => "gprs",
            Workload::Burst => "gprs-burst",
        };
        format!("{}/{workload}/{}", self.scheme, self.clients)
    }

    fn replications(&self) -> u32 {
        self.scenario.replications.get()
    }

    /// The link limits how much happens in a second, and more clients have more copies.
    fn work(&self) -> u64 {
        100 + u64::from(self.clients)
    }

    fn run(&self, replication: Replication) -> Result<Ran<Outcome>, String> {
        let site = gprs::site(&self.scenario.gprs, &self.scenario.endpoint, self.clients, replication);
        let endpoint = &self.scenario.endpoint;
        let parameters = Parameters {
            max_retransmit: endpoint.max_retransmit,
            nstart: endpoint.nstart,
            timeout_cap: endpoint.timeout_cap.0,
            token_length: endpoint.token_length,
            response_timeout: None,
        };
        match self.workload {
            Workload::Continuous => {
                let duration = self.scenario.continuous.duration.0;
                let mut trial = Trial::new(&site, parameters, self.controller, replication.seed, |_| Part::CONTINUOUS)?;
                trial.simulation.run_until(Instant::ZERO + duration);
                Ok(Ran { outcome: Outcome::Continuous(trial.measure(duration)?), events: trial.simulation.events() })
            }
            Workload::Burst => {
                let burst = self.scenario.burst;
                let part = |index| if index < burst.continuous { Part::CONTINUOUS } else { Part::of(burst) };
                let mut trial = Trial::new(&site, parameters, self.controller, replication.seed, part)?;
                let settled = trial.settle(burst);
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

/// A network with its clients and servers at work.
struct Trial {
    simulation: Simulation<Node<Application>>,
    clients: Vec<(NodeId, Part)>,
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
        let (recorded, timeouts) = Recorded::new(controller);
        let mut attach = |node, controller, application| {
            let host = host(node, parameters, controller, &streams, application).map_err(|error| error.to_string())?;
            simulation.attach(node, host).map_err(|error| error.to_string())
        };
        let mut clients = Vec::new();
        for (index, (client, server)) in (0..).zip(&site.pairs) {
            let part = part(index);
            let requester = Some(Requester::new(vec![flow(*server, part)]));
            attach(*client, recorded.clone(), Application { requester, responder: None })?;
            clients.push((*client, part));
        }
        let mut servers: Vec<NodeId> = site.pairs.iter().map(|(_, server)| *server).collect();
        servers.sort_unstable();
        servers.dedup();
        for server in servers {
            let responder = Some(Responder::new(Answers::All, Code::CONTENT, Body::EMPTY));
            attach(server, Recorded::silent(controller), Application { requester: None, responder })?;
        }
        Ok(Self { simulation, clients, timeouts })
    }

    /// The exchanges of a client that are over.
    fn exchanges(&self, client: NodeId) -> &[Exchange] {
        let requester = self.simulation.host(client).and_then(|host| host.application().requester.as_ref());
        requester.map(Requester::exchanges).unwrap_or_default()
    }

    fn measure(&self, duration: Duration) -> Result<Continuous, String> {
        let mut transactions = Vec::new();
        let mut round_trips = Vec::new();
        for (client, _) in &self.clients {
            let answered = || self.exchanges(*client).iter().filter(|exchange| exchange.answered);
            transactions.push(u32::try_from(answered().count()).unwrap_or(u32::MAX));
            round_trips.extend(answered().filter_map(|exchange| exchange.round_trip).map(|span| span.as_secs_f64()));
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
    fn settle(&mut self, burst: Burst) -> f64 {
        const STEP: Duration = Duration::from_secs(1);
        let start = Instant::ZERO + burst.start.0;
        let members: Vec<NodeId> =
            self.clients.iter().filter(|(_, part)| part.exchanges.is_some()).map(|(client, _)| *client).collect();
        let all = members.len() as f64 * f64::from(burst.exchanges.get());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a whole number
        let enough = ((burst.settled * all).ceil() as usize).max(1);
        let mut until = start;
        while until - start < burst.limit.0 {
            until += STEP;
            self.simulation.run_until(until);
            let exchanges = members.iter().flat_map(|client| self.exchanges(*client));
            let mut ends: Vec<Instant> =
                exchanges.filter(|exchange| exchange.answered).map(|exchange| exchange.ended).collect();
            if ends.len() >= enough {
                ends.sort_unstable();
                return (ends[enough - 1] - start).as_secs_f64();
            }
        }
        burst.limit.0.as_secs_f64()
    }
}

fn flow(peer: NodeId, part: Part) -> Flow {
    Flow {
        peer,
        start: part.start,
        stop: None,
        pace: Pace::Closed { outstanding: 1, exchanges: part.exchanges },
        method: Code::GET,
        body: Body::EMPTY,
        confirmable: true,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

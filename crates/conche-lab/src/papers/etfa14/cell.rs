//! One run: a workload of one scheme over one radio duty cycle.

use std::rc::Rc;
use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::rng::{Entity, Purpose, Stream};
use conche_netsim::{Instant, NodeId, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::codec::Code;

use super::scenario::{Rdc, Scenario, Workload};
use crate::campaign::{self, Ran, Replication};
use crate::papers::flocklab::Network;
use crate::scenario::Scheme;
use crate::units::Size;
use crate::workload::{
    Answers, Application, Exchange, Flow, Limit, Parameters, Recorded, Requester, Responder, Timeout, body_of, host,
};

/// A combination of radio duty cycle, workload and scheme.
pub(super) struct Cell<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) rdc: &'a Rdc,
    pub(super) workload: Workload,
    pub(super) scheme: &'a Scheme,
    pub(super) controller: AnyController,
}

/// What one run gives.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) exchanges: Vec<Exchange>,
    pub(super) timeouts: Vec<Timeout>,
    /// How long clients were at it.
    pub(super) elapsed: Duration,
    /// How many exchanges a client had at the same time.
    pub(super) outstanding: u16,
    /// From the begin of the burst to the end of the run.
    pub(super) after_burst: Duration,
    /// The first flow of the burst, and how many exchanges the burst has.
    pub(super) burst: Option<(u32, usize)>,
}

impl Workload {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Many => "many",
            Self::Burst => "burst",
        }
    }
}

impl campaign::Cell for Cell<'_> {
    type Outcome = Outcome;

    fn name(&self) -> String {
        format!("{}/{}/{}", self.scheme.name, self.workload.name(), self.rdc.name)
    }

    fn replications(&self) -> u32 {
        self.scenario.replications.get()
    }

    /// Virtual seconds times clients; the baseline's seconds are a guess.
    fn work(&self) -> u64 {
        let scenario = self.scenario;
        match self.workload {
            Workload::Baseline => 60 * u64::from(scenario.baseline.exchanges.get()),
            Workload::Many => 29 * scenario.many.duration.0.as_secs(),
            Workload::Burst => 4 * scenario.burst.duration.0.as_secs() + 100 * u64::from(scenario.burst.clients),
        }
    }

    fn run(&self, replication: Replication) -> Result<Ran<Outcome>, String> {
        let network = self.network()?;
        match self.workload {
            Workload::Baseline => self.baseline(&network, replication.seed),
            Workload::Many => {
                let until = Instant::ZERO + self.scenario.many.duration.0;
                self.simulate(
                    &network,
                    replication.seed,
                    |servers, _| {
                        servers.iter().map(|server| self.flow(*server, Instant::ZERO, Some(until), None)).collect()
                    },
                    Some(until),
                )
            }
            Workload::Burst => self.burst(&network, replication.seed),
        }
    }
}

impl Cell<'_> {
    /// How many motes are asked.
    pub(super) fn clients(&self) -> usize {
        self.network().map_or(0, |network| network.servers.len())
    }

    fn network(&self) -> Result<Network, String> {
        self.scenario.testbed.network(self.rdc.contikimac, self.rdc.objective, self.scenario.seed)
    }

    /// Each mote by itself, one after the other.
    fn baseline(&self, network: &Network, seed: u64) -> Result<Ran<Outcome>, String> {
        let mut all = Ran { outcome: Outcome { outstanding: self.outstanding(), ..Outcome::default() }, events: 0 };
        for number in 0..network.servers.len() {
            let exchanges = u64::from(self.scenario.baseline.exchanges.get());
            let flows =
                |servers: &[NodeId], _: &mut _| vec![self.flow(servers[number], Instant::ZERO, None, Some(exchanges))];
            // Each mote at another time, and so with random numbers of its own.
            let run = self.simulate(network, seed.wrapping_add(number as u64), flows, None)?;
            all.events += run.events;
            all.outcome.elapsed += run.outcome.elapsed;
            all.outcome.exchanges.extend(run.outcome.exchanges);
            all.outcome.timeouts.extend(run.outcome.timeouts);
        }
        Ok(all)
    }

    /// Some motes all the time, and others from a time on for some exchanges.
    fn burst(&self, network: &Network, seed: u64) -> Result<Ran<Outcome>, String> {
        let burst = &self.scenario.burst;
        let (begin, until) = (Instant::ZERO + burst.begin.0, Instant::ZERO + burst.duration.0);
        let (continuous, clients) = (usize::from(burst.continuous), usize::from(burst.clients));
        let exchanges = u64::from(burst.exchanges.get());
        let flows = |servers: &[NodeId], stream: &mut Stream| {
            let mut servers = servers.to_vec();
            stream.shuffle(&mut servers);
            let steady = servers.iter().take(continuous).map(|to| self.flow(*to, Instant::ZERO, Some(until), None));
            let sudden = servers.iter().skip(continuous).take(clients);
            let sudden = sudden.map(|to| self.flow(*to, begin, None, Some(exchanges)));
            steady.chain(sudden).collect()
        };
        let mut ran = self.simulate(network, seed, flows, Some(until))?;
        let asked = network.servers.len().saturating_sub(continuous).min(clients) * burst.exchanges.get() as usize;
        ran.outcome.after_burst = until - begin;
        ran.outcome.burst = Some((u32::from(burst.continuous), asked));
        Ok(ran)
    }

    fn simulate(
        &self,
        network: &Network,
        seed: u64,
        flows: impl FnOnce(&[NodeId], &mut Stream) -> Vec<Flow>,
        until: Option<Instant>,
    ) -> Result<Ran<Outcome>, String> {
        let mut simulation =
            Simulation::<Node<Application>>::new(&network.topology, seed, ()).map_err(|error| error.to_string())?;
        let streams = simulation.streams();
        let (recorded, log) = Recorded::new(self.controller.clone());
        let mut choice = streams.stream(Entity::Run, Purpose::named("burst"));
        let requester = Requester::new(flows(&network.servers, &mut choice));
        // Control traffic goes on for ever, so that the end must be told.
        let requester = if until.is_none() { requester.ending_the_run(Rc::default()) } else { requester };
        let cloud = Application { requester: Some(requester), responder: None };
        let client =
            host(network.cloud, 0, self.parameters(), recorded, &streams, cloud).map_err(|error| error.to_string())?;
        simulation.attach(network.cloud, client).map_err(|error| error.to_string())?;
        let response = body_of(bytes(self.scenario.sizes.response), self.scenario.endpoint.token_length.into());
        for server in &network.servers {
            let responder = Responder::new(Answers::All, Code::CONTENT, response.clone());
            let answering = Application { requester: None, responder: Some(responder) };
            let server_parameters = Parameters { nstart: 1, ..self.parameters() };
            let node =
                host(*server, 0, server_parameters, Recorded::silent(self.controller.clone()), &streams, answering)
                    .map_err(|error| error.to_string())?;
            simulation.attach(*server, node).map_err(|error| error.to_string())?;
        }
        simulation.run_until(until.unwrap_or(LONGEST));
        let (events, elapsed) = (simulation.events(), simulation.now() - Instant::ZERO);
        let (hosts, ()) = simulation.into_parts();
        let requester = hosts.into_iter().find_map(|(_, host)| host.into_application().requester);
        let exchanges = requester.map(|requester| requester.exchanges().to_vec()).unwrap_or_default();
        let timeouts = log.take();
        Ok(Ran {
            outcome: Outcome { exchanges, timeouts, elapsed, outstanding: self.outstanding(), ..Outcome::default() },
            events,
        })
    }

    fn flow(&self, peer: NodeId, start: Instant, stop: Option<Instant>, exchanges: Option<u64>) -> Flow {
        let outstanding = self.outstanding();
        let body = body_of(bytes(self.scenario.sizes.request), self.scenario.endpoint.token_length.into());
        let limit = exchanges.map_or(Limit::None, Limit::Opened);
        Flow { start, stop, outstanding: Some(outstanding), limit, body, ..Flow::to(peer) }
    }

    fn outstanding(&self) -> u16 {
        self.scheme.nstart.unwrap_or(self.scenario.endpoint.nstart)
    }

    fn parameters(&self) -> Parameters {
        let endpoint = &self.scenario.endpoint;
        Parameters {
            max_retransmit: endpoint.max_retransmit,
            nstart: self.outstanding(),
            timeout_cap: endpoint.timeout_cap.0,
            token_length: endpoint.token_length,
            response_timeout: None,
            datagram_overhead: None,
        }
    }
}

fn bytes(size: Size) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

/// No closed loop of a few exchanges takes longer, whatever is lost.
const LONGEST: Instant = Instant::from_millis(24 * 3600 * 1000);

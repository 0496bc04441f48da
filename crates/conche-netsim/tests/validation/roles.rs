//! CoAP clients in a closed loop, and a server with a processing time.

use std::time::Duration;

use conche_netsim::node::{Application, Context, Node};
use conche_netsim::packet::Cause;
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::trace::Observer;
use conche_netsim::{Instant, NodeId, Simulation};
use conche_proto::cc::default::CoapDefault;
use conche_proto::codec::{Body, Code};
use conche_proto::{
    EndpointConfig, Envelope, Event, ExchangeStats, Failure, Request, RequestId, Response, TransmissionParameters,
};

pub enum Role {
    Client { server: NodeId, left: u32, ended: Vec<Outcome> },
    Server { fastest: Duration, slowest: Duration },
}

#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub at: Instant,
    pub course: ExchangeStats,
    pub failure: Option<Failure>,
}

pub struct Pending {
    request: RequestId,
    cause: Option<Cause>,
}

impl Role {
    pub fn client(server: NodeId, exchanges: u32) -> Self {
        Self::Client { server, left: exchanges, ended: Vec::new() }
    }

    pub fn outcomes(&self) -> &[Outcome] {
        match self {
            Self::Client { ended, .. } => ended,
            Self::Server { .. } => &[],
        }
    }

    fn end(&mut self, context: &mut Context<'_, Self>, course: ExchangeStats, failure: Option<Failure>) {
        let Self::Client { server, left, ended } = self else { return };
        ended.push(Outcome { at: context.now(), course, failure });
        *left -= 1;
        if *left > 0 {
            get(context, *server);
        }
    }
}

impl Application for Role {
    type Timer = Pending;

    fn start(&mut self, context: &mut Context<'_, Self>) {
        if let Self::Client { server, .. } = self {
            get(context, *server);
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        match event {
            Event::Request { id, .. } => {
                let Self::Server { fastest, slowest } = *self else { return context.ignore(id) };
                let span = u64::try_from((slowest - fastest).as_nanos()).expect("milliseconds");
                let delay = fastest + Duration::from_nanos(context.rng().between(0, span));
                context.set_timer(delay, Pending { request: id, cause: context.cause() });
            }
            Event::Response { course, .. } => self.end(context, course, None),
            Event::Failed { reason, course, .. } => self.end(context, course, Some(reason)),
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut Context<'_, Self>, pending: Pending) {
        // Header 4, payload marker 1, payload 61: 66 bytes of UDP payload.
        let body = Body::builder().payload(vec![b'.'; 61]).build().expect("a payload of 61 bytes");
        context
            .respond_to(pending.cause, pending.request, Response::new(Code::CONTENT, body))
            .expect("the request is waiting");
    }
}

fn get(context: &mut Context<'_, Role>, server: NodeId) {
    context.request(server, Request::new(Code::GET, Body::default())).expect("one request at a time");
}

/// Returns ANRW'18's configuration: no tokens, the paper's MAX_RETRANSMIT, timeouts capped at 60 s
/// and otherwise the controller's.
pub fn papers_config(max_retransmit: u8) -> EndpointConfig {
    EndpointConfig {
        transmission: TransmissionParameters { max_retransmit, ..TransmissionParameters::default() },
        envelope: Envelope::open(Duration::from_secs(60)),
        token_length: 0,
        source_validation: conche_proto::SourceValidation::Off,
        ..EndpointConfig::default()
    }
}

pub fn attach<O: Observer>(sim: &mut Simulation<Node<Role>, O>, node: NodeId, config: EndpointConfig, role: Role) {
    let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
    let host = Node::new(config, CoapDefault::default(), seed, role).expect("a valid configuration");
    sim.attach(node, host).expect("a node of the topology");
}

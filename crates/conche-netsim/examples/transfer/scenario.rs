//! One body over one slow link, block-wise or with Q-Block.
//!
//! ```text
//!   client ════════════════════ server
//!            rate, RTT, loss
//! ```

use std::fmt;
use std::time::Duration;

use conche_netsim::node::{Application, Context, Node};
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::wired::{LinkConfig, Loss, Topology};
use conche_netsim::{BitRate, NodeId, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code};
use conche_proto::{EndpointConfig, Event, Failure, Limits, QBlock, Request, Response};

#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// GET fetches the body, PUT writes it.
    pub code: Code,
    pub body_bytes: usize,
    pub kbit: u64,
    pub rtt: Duration,
    /// Loss in each direction.
    pub loss: f64,
    pub controller: &'static str,
    /// MAX_PAYLOADS; `None` uses Block1 and Block2.
    pub max_payloads: Option<u16>,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Went {
    pub elapsed: Duration,
    /// Frames sent in both directions.
    pub frames: u64,
    /// Bytes of the body per second.
    pub goodput: f64,
}

impl fmt::Display for Went {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.0} B/s {:6} s, {} frames", self.goodput, self.elapsed.as_secs(), self.frames)
    }
}

enum Role {
    Client { server: NodeId, code: Code, body: Vec<u8>, ended: Option<Result<Duration, Failure>> },
    Server { body: Vec<u8> },
}

fn body(payload: &[u8]) -> Body {
    Body::builder().path("/f").payload(payload.to_vec()).build().expect("a legal path")
}

impl Application for Role {
    type Timer = ();

    fn start(&mut self, context: &mut Context<'_, Self>) {
        if let Self::Client { server, code, body: payload, .. } = self {
            let payload: &[u8] = if *code == Code::PUT { payload } else { &[] };
            context.request(*server, Request::new(*code, body(payload))).expect("nothing else is sent");
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        match (self, event) {
            (Self::Server { body }, Event::Request { id, message, .. }) => {
                let response = if message.code() == Code::PUT {
                    assert!(message.payload() == body, "what is written is what was sent");
                    Response::new(Code::CHANGED, Body::EMPTY)
                } else {
                    let payload = Body::builder().payload(body.clone()).build();
                    Response::new(Code::CONTENT, payload.expect("no options"))
                };
                context.respond(id, response).expect("it is waiting");
            }
            (Self::Client { code, body, ended, .. }, Event::Response { message, course, .. }) => {
                assert!(*code == Code::PUT || message.payload() == body, "what is fetched is what is there");
                *ended = Some(Ok(course.elapsed));
            }
            (Self::Client { ended, .. }, Event::Failed { reason, .. }) => *ended = Some(Err(reason)),
            _ => {}
        }
    }

    fn timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}
}

impl Transfer {
    pub fn run(&self) -> Result<Went, Failure> {
        let mut net = Topology::new();
        let (client, server) = (net.node("client"), net.node("server"));
        let link = LinkConfig {
            rate: Some(BitRate::kbit(self.kbit)),
            delay: self.rtt / 2,
            loss: Loss::Bernoulli(self.loss),
            ..LinkConfig::default()
        };
        net.duplex("link", client, server, link);
        let mut sim = Simulation::new(&net, self.seed, ()).expect("a valid topology");
        let body: Vec<u8> = (0..self.body_bytes).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let roles = [
            (server, Role::Server { body: body.clone() }),
            (client, Role::Client { server, code: self.code, body, ended: None }),
        ];
        for (node, role) in roles {
            let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
            let controller = AnyController::by_name(self.controller).expect("a known controller");
            let host = Node::new(self.config(), controller, seed, role).expect("a valid configuration");
            sim.attach(node, host).expect("a node of the topology");
        }
        sim.run();
        let frames = sim.counters().sent;
        let ended = match sim.host(client).expect("attached").application() {
            Role::Client { ended, .. } => *ended,
            Role::Server { .. } => None,
        };
        let elapsed = ended.expect("every request ends")?;
        Ok(Went { elapsed, frames, goodput: self.body_bytes as f64 / elapsed.as_secs_f64() })
    }

    fn config(&self) -> EndpointConfig {
        let room = self.body_bytes + (1 << 20);
        let limits = Limits { body_bytes: room, assembly_bytes: 8 * room, ..Limits::default() };
        let q_block = self.max_payloads.map(|max_payloads| QBlock { max_payloads, ..QBlock::default() });
        let transfer_lifetime = Duration::from_secs(1 << 20);
        EndpointConfig {
            limits,
            q_block,
            transfer_lifetime,
            source_validation: conche_proto::SourceValidation::Off,
            ..EndpointConfig::default()
        }
    }
}

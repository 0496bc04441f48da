//! The controller of an agent's nodes: it waits for the agent's decision on each exchange.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use conche::cc::backoff::Timer;
use conche::cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche::cc::non::paced_by_rto;
use conche::cc::path_history::PathHistory;
use conche::cc::sample;
use conche::cc::units::{Factor, Micros};
use conche::cc::{Controller, Instant};
use conche_lab::campaign::Aborted;
use conche_netsim::NodeId;
use conche_netsim::packet::{Packet, Transmission};
use conche_netsim::trace::Observer;
use conche_netsim::wired::{Addresses, Topology};

use super::super::controller::{CAP, events};
use super::measurements::{Measurements, Observation};

/// Names of a run's nodes.
pub type Names = Arc<OnceLock<NodeNames>>;

/// Names by index, and the nodes of addresses.
#[derive(Debug)]
pub struct NodeNames {
    names: Vec<String>,
    addresses: Addresses,
}

impl NodeNames {
    pub fn of(topology: &Topology) -> Self {
        let names = topology.nodes().map(|(_, name)| name.to_owned()).collect();
        Self { names, addresses: topology.addresses() }
    }

    /// Returns the name of the node at an address.
    pub fn at(&self, address: NodeId) -> Option<&String> {
        self.names.get(self.addresses.node(address).index())
    }
}

/// An exchange that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub decision: u64,
    pub node: NodeId,
    pub peer: NodeId,
    pub rto: Micros,
    pub began: Instant,
    pub ended: Instant,
    pub outcome: &'static str,
    pub retransmissions: usize,
    pub spurious: usize,
    pub rtt: Option<Micros>,
    pub min_rtt: Option<Micros>,
}

/// A decision of the agent, or the last one at the end of the run.
pub struct Point {
    pub observation: Observation,
    pub node: NodeId,
    pub peer: NodeId,
    pub now: Instant,
    /// Its number in the run, from 0.
    pub decision: u64,
    /// Exchanges that have ended since the previous point.
    pub ended: Vec<Ended>,
}

/// A message of the run's thread.
pub enum Message {
    /// It waits for the agent's RTO.
    Decision(Point),
    End(End),
}

pub enum End {
    /// By itself; a run over its time limit has a `problem`, and `last` is `None` without a
    /// decision.
    Over { last: Option<Point>, truncated: bool, problem: Option<String> },
    /// The scenario cannot run.
    Invalid(String),
    /// A controller has ended it.
    Failed(String),
}

/// State that the controllers and the observer of a run share, on its thread.
pub struct Run {
    pub names: Names,
    /// Once true, the run ends at its next packet or decision.
    pub cancel: Arc<AtomicBool>,
    state: Mutex<State>,
}

struct State {
    messages: Sender<Message>,
    actions: Receiver<Micros>,
    decisions: u64,
    ended: Vec<Ended>,
    /// The last new destination.
    met: NodeId,
    /// The transmission that the last delivered packet answers.
    answered: Option<Transmission>,
    /// The peer of the last decision after its last event.
    latest: Option<(NodeId, NodeId, Measurements, Instant)>,
}

fn abort() -> ! {
    resume_unwind(Box::new(Aborted("the environment was closed".to_owned())))
}

impl Run {
    pub fn new(names: Names, cancel: Arc<AtomicBool>, messages: Sender<Message>, actions: Receiver<Micros>) -> Self {
        let state = State {
            messages,
            actions,
            decisions: 0,
            ended: Vec::new(),
            met: NodeId::BROADCAST,
            answered: None,
            latest: None,
        };
        Self { names, cancel, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn meet(&self, peer: NodeId) {
        self.state().met = peer;
    }

    /// Returns the last decision, with the observation of its peer after its last event.
    pub fn last(&self) -> Option<Point> {
        let mut state = self.state();
        let ended = std::mem::take(&mut state.ended);
        let (node, peer, measurements, now) = state.latest.take()?;
        let observation = measurements.observe(now, &Load::default());
        Some(Point { observation, node, peer, now, decision: state.decisions.saturating_sub(1), ended })
    }

    /// Returns the agent's RTO for the exchange that begins with `event`.
    fn decide(&self, node: NodeId, peer: &Peer, event: &Sent) -> (u64, Micros) {
        if self.cancel.load(Ordering::Relaxed) {
            abort();
        }
        let state = &mut *self.state();
        let (now, decision) = (event.now, state.decisions);
        state.decisions += 1;
        state.latest = Some((node, peer.peer, peer.measurements.clone(), now));
        let observation = peer.measurements.observe(now, &event.load);
        let ended = std::mem::take(&mut state.ended);
        let point = Point { observation, node, peer: peer.peer, now, decision, ended };
        let sent = state.messages.send(Message::Decision(point));
        let action = sent.ok().and_then(|()| state.actions.recv().ok());
        (decision, action.unwrap_or_else(|| abort()))
    }
}

impl State {
    fn end(&mut self, peer: &Peer, ended: Ended) {
        if let Some((node, of, measurements, now)) = &mut self.latest
            && (*node, *of) == (ended.node, ended.peer)
        {
            (*measurements, *now) = (peer.measurements.clone(), ended.ended);
        }
        self.ended.push(ended);
    }
}

/// Records the transmission that a delivered packet answers.
pub struct Deliveries(pub Arc<Run>);

impl Observer for Deliveries {
    fn on_sent(&mut self, _: Instant, _: &Packet) {
        if self.0.cancel.load(Ordering::Relaxed) {
            abort();
        }
    }

    fn on_delivered(&mut self, _: Instant, packet: &Packet) {
        self.0.state().answered = packet.meta.cause.and_then(|cause| cause.transmission);
    }
}

/// The controller of a node.
#[derive(Clone)]
pub struct Agent {
    pub run: Arc<Run>,
    pub node: NodeId,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("node", &self.node).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct Peer {
    peer: NodeId,
    measurements: Measurements,
    /// Of answered transmissions, as the simulator knows them.
    min_rtt: Option<Micros>,
}

#[derive(Clone, Debug, Default)]
pub struct Flight {
    timer: Timer,
    /// Number of its decision, and the RTO.
    decided: Option<(u64, Micros)>,
}

impl Controller for Agent {
    type Peer = Peer;
    type Flight = Flight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, now: Instant) -> Peer {
        Peer { peer: self.run.state().met, measurements: Measurements::new(now), min_rtt: None }
    }

    fn seed(&self, now: Instant, history: &PathHistory) -> Peer {
        history.as_first_sample(self, now)
    }

    fn admit(&self, peer: &mut Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable {
            return Admission::Send;
        }
        paced_by_rto(now, message, &load.non, peer.measurements.rto())
    }

    fn sent(&self, peer: &mut Peer, flight: &mut Flight, event: &Sent) -> Duration {
        let mut rto = peer.measurements.rto();
        if event.confirmable && event.attempt == 0 {
            let (decision, decided) = self.run.decide(self.node, peer, event);
            flight.decided = Some((decision, decided));
            rto = decided;
        }
        let first = || peer.measurements.decide(rto, event.random);
        flight.timer.arm(event, first, Factor::TWO, CAP)
    }

    fn expired(&self, _: &mut Peer, _: &mut Flight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut Peer, flight: &Flight, event: &Acknowledged<'_>) {
        peer.measurements.acknowledged(event);
        let (Some((decision, rto)), Some(began)) = (flight.decided, event.sent.first()) else { return };
        let mut state = self.run.state();
        let retransmissions = event.retransmissions();
        let answered = state.answered.filter(|answered| answered.node == self.node);
        let attempt = answered.map(|answered| usize::from(answered.attempt)).filter(|of| *of < event.sent.len());
        let rtt = attempt.map(|attempt| sample::between(event.sent[attempt], event.now));
        peer.min_rtt = [peer.min_rtt, rtt].into_iter().flatten().min();
        let ended = Ended {
            decision,
            node: self.node,
            peer: peer.peer,
            rto,
            began: *began,
            ended: event.now,
            outcome: "acknowledged",
            retransmissions,
            spurious: attempt.map_or(0, |attempt| retransmissions - attempt),
            rtt,
            min_rtt: peer.min_rtt,
        };
        state.end(peer, ended);
    }

    fn abandoned(&self, peer: &mut Peer, flight: &Flight, event: &Abandoned<'_>) {
        peer.measurements.abandoned(event);
        let (Some((decision, rto)), Some(began)) = (flight.decided, event.sent.first()) else { return };
        let ended = Ended {
            decision,
            node: self.node,
            peer: peer.peer,
            rto,
            began: *began,
            ended: event.now,
            outcome: events::name_of(event.reason),
            retransmissions: event.sent.len() - 1,
            spurious: 0,
            rtt: None,
            min_rtt: peer.min_rtt,
        };
        self.run.state().end(peer, ended);
    }

    fn drained(&self, _: &mut Peer, _: Instant, _: &Load) {}

    fn base(&self, peer: &mut Peer, _: Instant) -> Duration {
        peer.measurements.rto().into()
    }

    fn snapshot(&self, peer: &Peer) -> Snapshot {
        peer.measurements.snapshot()
    }
}

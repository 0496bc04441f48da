//! The application-independent part of a node, compiled once.

use std::hint::black_box;

use conche_proto::cc::AnyController;
use conche_proto::cc::control::AbandonReason;
use conche_proto::{
    ConfigError, Datagram, Endpoint, Event, ExchangeId, Failure, Input, NotifyError, ObserverId, Output, PeerSnapshot,
    Request, RequestError, RequestId, RespondError, Response, SharedConfig, SubscriptionId, Transmit,
};

use super::monitor::{ReceivedMessage, SharedMonitor};
use super::underlay::{Step, UnderlayState};
use crate::host::{Received, World};
use crate::packet::{Cause, Transmission};
use crate::{Instant, NodeId};

pub(super) struct Stack {
    pub(super) endpoint: Endpoint<NodeId, AnyController>,
    message_bytes: usize,
    pub(super) causes: Causes,
    pub(super) underlay: Option<Box<UnderlayState>>,
    pub(super) monitor: Option<SharedMonitor>,
}

pub(super) enum StackOutput {
    Left(Transmit<NodeId>),
    Event(Event<NodeId>),
    Connected(NodeId, bool),
    Wait,
}

impl Stack {
    pub(super) fn new(config: SharedConfig, controller: AnyController, seed: [u8; 32]) -> Result<Self, ConfigError> {
        let message_bytes = config.limits.message_bytes;
        let endpoint = Endpoint::new(config, controller, seed)?;
        Ok(Self { endpoint, message_bytes, causes: Causes::default(), underlay: None, monitor: None })
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.message_bytes + self.underlay.as_ref().map_or(0, |underlay| underlay.layer.buffer_bytes())
    }

    pub(super) fn turn(&mut self, world: &mut World, node: NodeId, buffer: &mut [u8]) -> StackOutput {
        let now = world.scheduler.now();
        let (message, datagram) = buffer.split_at_mut(self.message_bytes);
        loop {
            match self.endpoint.poll(now, message) {
                Output::Transmit(transmit) => {
                    self.send(world, node, &transmit, &message[..transmit.len]);
                    return StackOutput::Left(transmit);
                }
                Output::Event(event) => {
                    if self.handle_handshake_event(now, &event) {
                        continue;
                    }
                    if let Some(monitor) = &self.monitor {
                        monitor.borrow_mut().event(now, node, &event);
                    }
                    self.causes.forget_ended(&event);
                    self.mark_doubtful(&event);
                    return StackOutput::Event(event);
                }
                Output::Wait(until) => match self.step_underlay(world, node, datagram) {
                    UnderlayStep::On => {}
                    UnderlayStep::Connected(peer, is_open) => return StackOutput::Connected(peer, is_open),
                    UnderlayStep::Waits(due) => {
                        world.wake_at(node, until.into_iter().chain(due).min());
                        self.causes.clear();
                        return StackOutput::Wait;
                    }
                },
            }
        }
    }

    fn send(&mut self, world: &mut World, node: NodeId, transmit: &Transmit<NodeId>, message: &[u8]) {
        if let Some(monitor) = &self.monitor {
            let path = transmit.exchange.and_then(|_| self.endpoint.snapshot(&transmit.to));
            monitor.borrow_mut().sent(world.scheduler.now(), node, transmit, message, path);
        }
        let origin = self.causes.origin_of(transmit, node);
        let Some(underlay) = &mut self.underlay else {
            world.send(node, transmit.to, message, origin.0, origin.1);
            return;
        };
        if !underlay.send(transmit.to, message, origin) {
            self.endpoint.lose_peer(world.scheduler.now(), &transmit.to);
        }
    }

    pub(super) fn receive(&mut self, now: Instant, node: NodeId, packet: &Received<'_>) {
        self.causes.receive(packet.meta.as_cause());
        match &mut self.underlay {
            Some(underlay) => underlay.layer.receive(now, packet.meta.from, packet.bytes),
            None => self.handle(now, node, packet.meta.from, packet.bytes),
        }
    }

    fn handle(&mut self, now: Instant, node: NodeId, from: NodeId, message: &[u8]) {
        let before = self.monitor.is_some().then(|| *self.endpoint.stats());
        let input = Input::datagram(from, message);
        self.endpoint.handle(now, input).expect("the endpoint is drained after every input");
        if let (Some(monitor), Some(before)) = (&self.monitor, &before) {
            let (after, path) = (self.endpoint.stats(), self.endpoint.snapshot(&from));
            monitor.borrow_mut().received(now, node, &ReceivedMessage { from, message, before, after, path });
        }
    }

    pub(super) fn prefetch(&self) {
        self.endpoint.prefetch(None);
        self.causes.prefetch();
        black_box(self.message_bytes);
    }

    pub(super) fn prefetch_for(&self, packet: &Received<'_>) {
        self.endpoint.prefetch([Datagram::new(packet.meta.from, packet.bytes)]);
    }
}

enum UnderlayStep {
    On,
    Connected(NodeId, bool),
    Waits(Option<Instant>),
}

impl Stack {
    pub(super) fn connect(&mut self, now: Instant, to: NodeId) -> bool {
        let Some(underlay) = &mut self.underlay else { return true };
        if underlay.layer.is_open(to) {
            return true;
        }
        if !underlay.handshakes.contains_key(&to) && !underlay.refused.contains(&to) {
            match self.endpoint.begin_handshake(now, to) {
                Ok(handshake) => drop(underlay.handshakes.insert(to, handshake)),
                Err(_) => underlay.refused.push_back(to),
            }
        }
        false
    }

    fn step_underlay(&mut self, world: &mut World, node: NodeId, buffer: &mut [u8]) -> UnderlayStep {
        let now = world.scheduler.now();
        let Some(underlay) = &mut self.underlay else { return UnderlayStep::Waits(None) };
        let handshake = |peer: &NodeId| underlay.handshakes.get(peer).copied();
        let refused = underlay.refused.pop_front().map(Step::Refused);
        match refused.unwrap_or_else(|| underlay.layer.poll(now, buffer)) {
            Step::Transmit { to, len } => {
                let (transmission, cause) = underlay.origin(to);
                world.send(node, to, &buffer[..len], transmission, cause);
            }
            Step::Received { from, len } => self.handle(now, node, from, &buffer[..len]),
            Step::Left(to, flight) => {
                if let Some(handshake) = handshake(&to) {
                    self.endpoint.flight_left(now, handshake, &flight);
                }
            }
            Step::Answered(peer, copy) => {
                if let Some(handshake) = handshake(&peer) {
                    self.endpoint.flight_answered(now, handshake, copy);
                }
            }
            Step::Opened(peer) => {
                if let Some(handshake) = underlay.handshakes.remove(&peer) {
                    self.endpoint.handshake_over(now, handshake, None);
                }
                return UnderlayStep::Connected(peer, true);
            }
            Step::Refused(peer) => {
                if let Some(handshake) = underlay.handshakes.remove(&peer) {
                    self.endpoint.handshake_over(now, handshake, Some(AbandonReason::GaveUp));
                }
                return UnderlayStep::Connected(peer, false);
            }
            Step::Lost(peer) => self.endpoint.lose_peer(now, &peer),
            Step::Wait(due) => {
                underlay.settled();
                return UnderlayStep::Waits(due);
            }
        }
        UnderlayStep::On
    }

    fn handle_handshake_event(&mut self, now: Instant, event: &Event<NodeId>) -> bool {
        let Some(underlay) = &mut self.underlay else { return false };
        let (Event::Flight { exchange, peer } | Event::Failed { exchange, peer, .. }) = event else { return false };
        if underlay.handshakes.get(peer) != Some(exchange) {
            return false;
        }
        match event {
            Event::Flight { .. } => underlay.layer.send_flight(now, *peer),
            _ => {
                underlay.handshakes.remove(peer);
                underlay.layer.give_up(*peer);
            }
        }
        true
    }

    /// Without acknowledgments, the peer may have restarted.
    fn mark_doubtful(&mut self, event: &Event<NodeId>) {
        if let (Some(underlay), Event::Failed { peer, reason: Failure::TimedOut, course, .. }) =
            (&mut self.underlay, event)
            && course.acknowledged_after.is_none()
        {
            underlay.layer.mark_doubtful(*peer);
        }
    }
}

impl Stack {
    pub(super) fn request(&mut self, now: Instant, to: NodeId, request: Request) -> Result<ExchangeId, RequestError> {
        self.endpoint.request(now, to, request)
    }

    pub(super) fn ping(&mut self, now: Instant, to: NodeId) -> Result<ExchangeId, RequestError> {
        self.endpoint.ping(now, to)
    }

    pub(super) fn cancel(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        self.causes.forget(exchange);
        self.endpoint.cancel(now, exchange)
    }

    pub(super) fn respond(
        &mut self,
        now: Instant,
        cause: Option<Cause>,
        request: RequestId,
        response: Response,
    ) -> Result<Option<ExchangeId>, RespondError> {
        let exchange = self.endpoint.respond(now, request, response)?;
        self.causes.state(cause, exchange);
        Ok(exchange)
    }

    pub(super) fn acknowledge(&mut self, now: Instant, request: RequestId) -> Result<(), RespondError> {
        self.endpoint.acknowledge(now, request)
    }

    pub(super) fn ignore(&mut self, now: Instant, request: RequestId) {
        self.endpoint.ignore(now, request);
    }

    pub(super) fn observe(&mut self, now: Instant, request: RequestId, topic: u64) -> Option<ObserverId> {
        self.endpoint.observe(now, request, topic)
    }

    pub(super) fn notify(&mut self, now: Instant, topic: u64, response: Response) -> Result<usize, NotifyError> {
        self.endpoint.notify(now, topic, response)
    }

    pub(super) fn subscribe(
        &mut self,
        now: Instant,
        to: NodeId,
        request: Request,
    ) -> Result<(ExchangeId, SubscriptionId), RequestError> {
        self.endpoint.subscribe(now, to, request)
    }

    pub(super) fn reregister(&mut self, now: Instant, subscription: SubscriptionId) -> Result<(), RequestError> {
        self.endpoint.reregister(now, subscription)
    }

    pub(super) fn forget(&mut self, now: Instant, subscription: SubscriptionId) -> bool {
        self.endpoint.forget(now, subscription)
    }

    pub(super) fn reset_path(&mut self, now: Instant, peer: NodeId) {
        self.endpoint.reset_path(now, &peer);
    }

    pub(super) fn snapshot(&self, peer: NodeId) -> Option<PeerSnapshot> {
        self.endpoint.snapshot(&peer)
    }
}

/// The packets that transmissions answer: the one being handled, or the one that the application
/// states.
#[derive(Debug, Default)]
pub(super) struct Causes {
    received: Option<Cause>,
    stated: Vec<Cause>,
    separate: Vec<(ExchangeId, Cause)>,
}

impl Causes {
    pub(super) fn prefetch(&self) {
        black_box((self.received.is_some(), self.stated.len(), self.separate.len()));
    }

    pub(super) fn receive(&mut self, cause: Cause) {
        self.received = Some(cause);
    }

    pub(super) fn received(&self) -> Option<Cause> {
        self.received
    }

    pub(super) fn state(&mut self, cause: Option<Cause>, separate: Option<ExchangeId>) {
        match (cause, separate) {
            (Some(cause), Some(exchange)) => self.separate.push((exchange, cause)),
            (Some(cause), None) => self.stated.push(cause),
            (None, _) => {}
        }
    }

    pub(super) fn clear(&mut self) {
        self.received = None;
        self.stated.clear();
    }

    pub(super) fn forget(&mut self, exchange: ExchangeId) {
        self.separate.retain(|(of, _)| *of != exchange);
    }

    pub(super) fn origin_of(
        &mut self,
        transmit: &Transmit<NodeId>,
        node: NodeId,
    ) -> (Option<Transmission>, Option<Cause>) {
        let Some(exchange) = transmit.exchange else {
            return (None, self.answered_by_next(transmit.to));
        };
        let transmission = Transmission { node, exchange: exchange.as_u64(), attempt: transmit.attempt };
        let separate = self.separate.iter().find(|(of, _)| *of == exchange);
        (Some(transmission), separate.map(|(_, cause)| *cause))
    }

    fn answered_by_next(&mut self, peer: NodeId) -> Option<Cause> {
        match self.stated.iter().position(|cause| cause.from == peer) {
            Some(first) => Some(self.stated.remove(first)),
            None => self.received.filter(|cause| cause.from == peer),
        }
    }

    pub(super) fn forget_ended(&mut self, event: &Event<NodeId>) {
        if let Event::Acknowledged { exchange, .. } | Event::Failed { exchange, .. } = event {
            self.forget(*exchange);
        }
    }
}

//! The CoAP host: the [`Endpoint`] of real sockets, and an application.

mod monitor;
mod stack;
mod underlay;

use std::fmt;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::{
    ConfigError, Endpoint, Event, ExchangeId, NotifyError, ObserverId, PeerSnapshot, Request, RequestError, RequestId,
    RespondError, Response, SharedConfig, SubscriptionId, Transmit,
};

pub use self::monitor::{Monitor, ReceivedMessage, SharedMonitor};
use self::stack::{Stack, StackOutput};
use self::underlay::UnderlayState;
pub use self::underlay::{Step, Underlay};
use crate::host::{Host, Port, Received, TimerId};
use crate::packet::Cause;
use crate::rng::Stream;
use crate::{Instant, NodeId};

/// A client or server on the node's endpoint.
pub trait Application: Sized {
    /// The value of each timer.
    type Timer;

    /// Called once when the simulation begins.
    fn start(&mut self, context: &mut Context<'_, Self>);

    /// Handles an endpoint event.
    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>);

    /// Handles a timer set with [`Context::set_timer`].
    fn timer(&mut self, context: &mut Context<'_, Self>, timer: Self::Timer);

    /// Handles the outcome of [`Context::connect`].
    #[allow(unused_variables)]
    fn connected(&mut self, context: &mut Context<'_, Self>, peer: NodeId, is_open: bool) {}

    /// Observes a datagram that the endpoint sends.
    #[allow(unused_variables)]
    fn transmitted(&mut self, now: Instant, transmit: &Transmit<NodeId>) {}
}

/// A host with a CoAP endpoint under any controller, custom ones as a
/// [`DynController`](conche_proto::cc::dynamic::DynController).
pub struct Node<A: Application> {
    stack: Stack,
    application: A,
}

/// An application's access to its node. Methods return the endpoint's errors.
pub struct Context<'a, A: Application> {
    port: Port<'a, A::Timer>,
    stack: &'a mut Stack,
    touched: bool,
}

impl<A: Application> Node<A> {
    /// Creates a node; `seed` ([`Streams::seed_bytes`](crate::rng::Streams::seed_bytes)) randomizes
    /// its endpoint.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(
        config: impl Into<SharedConfig>,
        controller: impl Into<AnyController>,
        seed: [u8; 32],
        application: A,
    ) -> Result<Self, ConfigError> {
        Ok(Self { stack: Stack::new(config.into(), controller.into(), seed)?, application })
    }

    /// Puts an [`Underlay`] between the endpoint and the network.
    #[must_use]
    pub fn over(mut self, underlay: Box<dyn Underlay>) -> Self {
        self.stack.underlay = Some(Box::new(UnderlayState::new(underlay)));
        self
    }

    /// Reports the endpoint's messages and events to a monitor.
    #[must_use]
    pub fn monitored(mut self, monitor: SharedMonitor) -> Self {
        self.stack.monitor = Some(monitor);
        self
    }

    /// Returns the application.
    #[must_use]
    pub fn application(&self) -> &A {
        &self.application
    }

    /// Returns the application.
    #[must_use]
    pub fn into_application(self) -> A {
        self.application
    }

    /// Returns the endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint<NodeId, AnyController> {
        &self.stack.endpoint
    }

    /// Returns the endpoint.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint<NodeId, AnyController> {
        &mut self.stack.endpoint
    }

    #[inline(always)]
    fn act(&mut self, port: &mut Port<'_, A::Timer>, act: impl FnOnce(&mut A, &mut Context<'_, A>)) -> bool {
        let mut context = Context { port: port.reborrow(), stack: &mut self.stack, touched: false };
        act(&mut self.application, &mut context);
        context.touched
    }

    fn drain(&mut self, port: &mut Port<'_, A::Timer>) {
        let (now, node) = (port.now(), port.node());
        let mut buffer = port.world().take_buffer(self.stack.buffer_bytes());
        loop {
            match self.stack.turn(port.world(), node, &mut buffer) {
                StackOutput::Left(transmit) => self.application.transmitted(now, &transmit),
                StackOutput::Event(event) => {
                    self.act(port, |application, context| application.event(context, event));
                }
                StackOutput::Connected(peer, is_open) => {
                    self.act(port, |application, context| application.connected(context, peer, is_open));
                }
                StackOutput::Wait => break,
            }
        }
        port.world().return_buffer(buffer);
    }
}

impl<A: Application> Host for Node<A> {
    type Timer = A::Timer;

    fn start(&mut self, port: &mut Port<'_, A::Timer>) {
        self.act(port, |application, context| application.start(context));
        self.drain(port);
    }

    fn receive(&mut self, port: &mut Port<'_, A::Timer>, packet: Received<'_>) {
        self.stack.receive(port.now(), port.node(), &packet);
        self.drain(port);
    }

    fn timer(&mut self, port: &mut Port<'_, A::Timer>, timer: A::Timer) {
        if self.act(port, |application, context| application.timer(context, timer)) {
            self.drain(port);
        }
    }

    fn wake(&mut self, port: &mut Port<'_, A::Timer>) {
        self.drain(port);
    }

    fn prefetch(&self) {
        self.stack.prefetch();
    }

    fn prefetch_for(&self, packet: Received<'_>) {
        self.stack.prefetch_for(&packet);
    }
}

impl<A: Application> Context<'_, A> {
    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.port.now()
    }

    /// Returns the application's node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.port.node()
    }

    /// Returns the node at an address, also at an address of a NAT.
    #[must_use]
    pub fn node_at(&self, address: NodeId) -> NodeId {
        self.port.node_at(address)
    }

    /// Returns the application's random stream; the endpoint has its own.
    pub fn rng(&mut self) -> &mut Stream {
        self.port.rng()
    }

    /// Returns `true` if the connection to a peer is open; always without an [`Underlay`].
    /// Otherwise opens it, and calls [`Application::connected`].
    pub fn connect(&mut self, to: NodeId) -> bool {
        let is_open = self.stack.connect(self.port.now(), to);
        self.touched |= !is_open;
        is_open
    }

    /// Sends a request: [`Endpoint::request`].
    pub fn request(&mut self, to: NodeId, request: Request) -> Result<ExchangeId, RequestError> {
        let now = self.now();
        self.touch().request(now, to, request)
    }

    /// Sends a ping: [`Endpoint::ping`].
    pub fn ping(&mut self, to: NodeId) -> Result<ExchangeId, RequestError> {
        let now = self.now();
        self.touch().ping(now, to)
    }

    /// Cancels an exchange: [`Endpoint::cancel`].
    pub fn cancel(&mut self, exchange: ExchangeId) -> bool {
        let now = self.now();
        self.touch().cancel(now, exchange)
    }

    /// Responds to the current event's request: [`Endpoint::respond`].
    pub fn respond(&mut self, request: RequestId, response: Response) -> Result<Option<ExchangeId>, RespondError> {
        self.respond_to(self.cause(), request, response)
    }

    /// Responds to an earlier request; `cause` is [`Context::cause`] at its arrival.
    pub fn respond_to(
        &mut self,
        cause: Option<Cause>,
        request: RequestId,
        response: Response,
    ) -> Result<Option<ExchangeId>, RespondError> {
        let now = self.now();
        self.touch().respond(now, cause, request, response)
    }

    /// Acknowledges a request before its response: [`Endpoint::acknowledge`].
    pub fn acknowledge(&mut self, request: RequestId) -> Result<(), RespondError> {
        let now = self.now();
        self.touch().acknowledge(now, request)
    }

    /// Drops a request: [`Endpoint::ignore`].
    pub fn ignore(&mut self, request: RequestId) {
        let now = self.now();
        self.touch().ignore(now, request);
    }

    /// Registers the sender as observer of a topic: [`Endpoint::observe`].
    pub fn observe(&mut self, request: RequestId, topic: u64) -> Option<ObserverId> {
        let now = self.now();
        self.touch().observe(now, request, topic)
    }

    /// Notifies a topic's observers: [`Endpoint::notify`].
    pub fn notify(&mut self, topic: u64, response: Response) -> Result<usize, NotifyError> {
        let now = self.now();
        self.touch().notify(now, topic, response)
    }

    /// Observes a resource: [`Endpoint::subscribe`].
    pub fn subscribe(&mut self, to: NodeId, request: Request) -> Result<(ExchangeId, SubscriptionId), RequestError> {
        let now = self.now();
        self.touch().subscribe(now, to, request)
    }

    /// Registers a subscription again: [`Endpoint::reregister`].
    pub fn reregister(&mut self, subscription: SubscriptionId) -> Result<(), RequestError> {
        let now = self.now();
        self.touch().reregister(now, subscription)
    }

    /// Ends a subscription silently: [`Endpoint::forget`].
    pub fn forget(&mut self, subscription: SubscriptionId) -> bool {
        let now = self.now();
        self.touch().forget(now, subscription)
    }

    /// Resets a peer's congestion state: [`Endpoint::reset_path`].
    pub fn reset_path(&mut self, peer: NodeId) {
        let now = self.now();
        self.touch().reset_path(now, peer);
    }

    /// Returns a peer's state: [`Endpoint::snapshot`].
    #[must_use]
    pub fn snapshot(&self, peer: NodeId) -> Option<PeerSnapshot> {
        self.stack.snapshot(peer)
    }

    /// Returns the packet being handled; `None` in a timer.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.stack.causes.received()
    }

    /// Calls [`Application::timer`] after this delay.
    pub fn set_timer(&mut self, after: Duration, timer: A::Timer) -> TimerId {
        self.port.set_timer(after, timer)
    }

    /// Cancels a timer; returns `false` if it has fired or was cancelled.
    pub fn cancel_timer(&mut self, id: TimerId) -> bool {
        self.port.cancel_timer(id)
    }

    /// Ends the run after the current event.
    pub fn stop(&mut self) {
        self.port.stop();
    }

    fn touch(&mut self) -> &mut Stack {
        self.touched = true;
        self.stack
    }
}

impl<A: Application + fmt::Debug> fmt::Debug for Node<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("application", &self.application).finish_non_exhaustive()
    }
}

impl<A: Application> fmt::Debug for Context<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("now", &self.now()).field("node", &self.node()).finish_non_exhaustive()
    }
}

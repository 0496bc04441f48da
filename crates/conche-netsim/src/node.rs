//! The host that speaks CoAP: the very [`Endpoint`] that serves real sockets, and an application on top of it.
//!
//! The node moves bytes and time: packets and wake-ups go into the endpoint, what the endpoint transmits becomes packets,
//! its events go to the application. It retransmits, matches and queues nothing itself.

mod causes;
mod machine;
mod underlay;

use std::fmt;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::{
    ConfigError, Endpoint, Event, ExchangeId, NotifyError, ObserverId, PeerSnapshot, Request, RequestError, RequestId,
    RespondError, Response, SharedConfig, SubscriptionId, Transmit,
};

use self::machine::{Machine, Turn};
use self::underlay::Below;
pub use self::underlay::{Step, Underlay};
use crate::host::{Host, Port, Received, TimerId};
use crate::packet::Cause;
use crate::rng::Stream;
use crate::{Instant, NodeId};

/// What a node does with its endpoint: the client or server of a scenario.
pub trait Application: Sized {
    /// What its timers carry.
    type Timer;

    /// The simulation begins.
    fn start(&mut self, context: &mut Context<'_, Self>);

    /// The endpoint has something to tell.
    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>);

    /// A timer that was set with [`Context::set_timer`] ran out.
    fn timer(&mut self, context: &mut Context<'_, Self>, timer: Self::Timer);

    /// The way to a peer is open that [`Context::connect`] was to open, or there will be none.
    #[allow(unused_variables)]
    fn connected(&mut self, context: &mut Context<'_, Self>, peer: NodeId, is_open: bool) {}

    /// A datagram of the endpoint leaves. Most applications leave that to their endpoint.
    #[allow(unused_variables)]
    fn leaves(&mut self, now: Instant, transmit: &Transmit<NodeId>) {}
}

/// A host that runs a CoAP endpoint, under any controller: an algorithm of your own goes in as a
/// [`DynController`](conche_proto::cc::dynamic::DynController). All nodes have the same endpoint, whatever runs on them, so it is
/// compiled with the simulator, and not with each program that has applications.
pub struct Node<A: Application> {
    machine: Machine,
    application: A,
}

/// An application's access to its node.
pub struct Context<'a, A: Application> {
    port: Port<'a, A::Timer>,
    machine: &'a mut Machine,
    /// The endpoint may have something new to say.
    touched: bool,
}

impl<A: Application> Node<A> {
    /// A node with a new endpoint, whose randomness comes from `seed`
    /// ([`Streams::seed_bytes`](crate::rng::Streams::seed_bytes)).
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn new(
        config: impl Into<SharedConfig>,
        controller: impl Into<AnyController>,
        seed: [u8; 32],
        application: A,
    ) -> Result<Self, ConfigError> {
        Ok(Self { machine: Machine::new(config.into(), controller.into(), seed)?, application })
    }

    /// The same, with something between its endpoint and the network.
    #[must_use]
    pub fn over(mut self, underlay: Box<dyn Underlay>) -> Self {
        self.machine.below = Some(Below::new(underlay));
        self
    }

    /// The application, with what it has gathered.
    #[must_use]
    pub fn application(&self) -> &A {
        &self.application
    }

    /// Gives up the node for its application.
    #[must_use]
    pub fn into_application(self) -> A {
        self.application
    }

    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint<NodeId, AnyController> {
        &self.machine.endpoint
    }

    /// The endpoint, to give it further controllers before the run.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint<NodeId, AnyController> {
        &mut self.machine.endpoint
    }

    /// Lets the application act; the answer is whether the endpoint must be polled.
    #[inline(always)]
    fn act(&mut self, port: &mut Port<'_, A::Timer>, act: impl FnOnce(&mut A, &mut Context<'_, A>)) -> bool {
        let mut context = Context { port: port.reborrow(), machine: &mut self.machine, touched: false };
        act(&mut self.application, &mut context);
        context.touched
    }

    /// Polls the endpoint, and what is below it, until they wait.
    fn drain(&mut self, port: &mut Port<'_, A::Timer>) {
        let (now, node) = (port.now(), port.node());
        let mut buffer = port.world().take_buffer(self.machine.buffer_bytes());
        loop {
            match self.machine.turn(port.world(), node, &mut buffer) {
                Turn::Left(transmit) => self.application.leaves(now, &transmit),
                Turn::Event(event) => {
                    self.act(port, |application, context| application.event(context, event));
                }
                Turn::Connected(peer, is_open) => {
                    self.act(port, |application, context| application.connected(context, peer, is_open));
                }
                Turn::Wait => break,
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
        self.machine.receive(port.now(), &packet);
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

    fn glance(&self) {
        self.machine.glance();
    }

    fn glance_at(&self, packet: Received<'_>) {
        self.machine.glance_at(&packet);
    }
}

impl<A: Application> Context<'_, A> {
    /// The present.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.port.now()
    }

    /// The application's own node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.port.node()
    }

    /// The node's own random stream; the endpoint draws from another one.
    pub fn rng(&mut self) -> &mut Stream {
        self.port.rng()
    }

    /// Whether the way to a peer is open, as it always is without an [`Underlay`]. If it is not, it is being opened, as soon as the endpoint's
    /// congestion control lets that begin, and [`Application::connected`] follows.
    pub fn connect(&mut self, to: NodeId) -> bool {
        let is_open = self.machine.connect(self.port.now(), to);
        self.touched |= !is_open;
        is_open
    }

    /// Sends a request: [`Endpoint::request`].
    ///
    /// # Errors
    /// As the endpoint says.
    pub fn request(&mut self, to: NodeId, request: Request) -> Result<ExchangeId, RequestError> {
        let now = self.now();
        self.touch().request(now, to, request)
    }

    /// Sends a ping: [`Endpoint::ping`].
    ///
    /// # Errors
    /// As the endpoint says.
    pub fn ping(&mut self, to: NodeId) -> Result<ExchangeId, RequestError> {
        let now = self.now();
        self.touch().ping(now, to)
    }

    /// Cancels an exchange: [`Endpoint::cancel`].
    pub fn cancel(&mut self, exchange: ExchangeId) -> bool {
        let now = self.now();
        self.touch().cancel(now, exchange)
    }

    /// Answers the request that the present event tells of: [`Endpoint::respond`].
    ///
    /// # Errors
    /// As the endpoint says.
    pub fn respond(&mut self, request: RequestId, response: Response) -> Result<Option<ExchangeId>, RespondError> {
        self.respond_to(self.cause(), request, response)
    }

    /// Answers a request later: `cause` is what [`Context::cause`] said when the request came.
    ///
    /// # Errors
    /// As the endpoint says.
    pub fn respond_to(
        &mut self,
        cause: Option<Cause>,
        request: RequestId,
        response: Response,
    ) -> Result<Option<ExchangeId>, RespondError> {
        let now = self.now();
        self.touch().respond(now, cause, request, response)
    }

    /// Acknowledges a request whose response comes later: [`Endpoint::acknowledge`].
    ///
    /// # Errors
    /// As the endpoint says.
    pub fn acknowledge(&mut self, request: RequestId) -> Result<(), RespondError> {
        let now = self.now();
        self.touch().acknowledge(now, request)
    }

    /// Will not answer a request: [`Endpoint::ignore`].
    pub fn ignore(&mut self, request: RequestId) {
        let now = self.now();
        self.touch().ignore(now, request);
    }

    /// Takes the sender of a request for an observer of a topic: [`Endpoint::observe`].
    pub fn observe(&mut self, request: RequestId, topic: u64) -> Option<ObserverId> {
        let now = self.now();
        self.touch().observe(now, request, topic)
    }

    /// Tells those who observe a topic its new state: [`Endpoint::notify`].
    ///
    /// # Errors
    /// As the endpoint says.
    pub fn notify(&mut self, topic: u64, response: Response) -> Result<usize, NotifyError> {
        let now = self.now();
        self.touch().notify(now, topic, response)
    }

    /// Observes what a request asks for: [`Endpoint::subscribe`].
    ///
    /// # Errors
    /// As the endpoint says.
    pub fn subscribe(&mut self, to: NodeId, request: Request) -> Result<(ExchangeId, SubscriptionId), RequestError> {
        let now = self.now();
        self.touch().subscribe(now, to, request)
    }

    /// Registers again: [`Endpoint::reregister`].
    ///
    /// # Errors
    /// As the endpoint says.
    pub fn reregister(&mut self, subscription: SubscriptionId) -> Result<(), RequestError> {
        let now = self.now();
        self.touch().reregister(now, subscription)
    }

    /// Ends a subscription without a word: [`Endpoint::forget`].
    pub fn forget(&mut self, subscription: SubscriptionId) -> bool {
        let now = self.now();
        self.touch().forget(now, subscription)
    }

    /// Forgets the congestion state of a peer: [`Endpoint::reset_path`].
    pub fn reset_path(&mut self, peer: NodeId) {
        let now = self.now();
        self.touch().reset_path(now, peer);
    }

    /// What the endpoint knows of a peer: [`Endpoint::snapshot`].
    #[must_use]
    pub fn snapshot(&self, peer: NodeId) -> Option<PeerSnapshot> {
        self.machine.snapshot(peer)
    }

    /// The packet that is being handled, as the cause of what follows from it; `None` when a timer is.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.machine.causes.received()
    }

    /// Calls [`Application::timer`] after this time.
    pub fn set_timer(&mut self, after: Duration, timer: A::Timer) -> TimerId {
        self.port.set_timer(after, timer)
    }

    /// Forgets a timer; `false` if it has fired or was cancelled before.
    pub fn cancel_timer(&mut self, id: TimerId) -> bool {
        self.port.cancel_timer(id)
    }

    /// Ends the run after this event, for example when the last client has finished.
    pub fn stop(&mut self) {
        self.port.stop();
    }

    fn touch(&mut self) -> &mut Machine {
        self.touched = true;
        self.machine
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

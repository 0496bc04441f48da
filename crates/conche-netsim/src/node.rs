//! The host that speaks CoAP: the very [`Endpoint`] that serves real sockets, and an application on top of it.
//!
//! The node moves bytes and time: packets and wake-ups go into the endpoint, what the endpoint transmits becomes packets,
//! its events go to the application. It retransmits, matches and queues nothing itself.

mod causes;
#[cfg(test)]
mod tests;
mod underlay;

use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use conche_proto::cc::Controller;
use conche_proto::{
    ConfigError, Datagram, Endpoint, Event, ExchangeId, Input, NotifyError, ObserverId, Output, PeerSnapshot, Request,
    RequestError, RequestId, RespondError, Response, SharedConfig, SubscriptionId, Transmit,
};

use self::causes::Causes;
use self::underlay::Below;
pub use self::underlay::{Step, Underlay};
use crate::host::{Host, Port, Received, TimerId};
use crate::packet::Cause;
use crate::rng::Stream;
use crate::{Instant, NodeId};

/// What a node does with its endpoint: the client or server of a scenario.
pub trait Application: Sized {
    /// The congestion control of the node.
    type Controller: Controller;
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

/// A host that runs a CoAP endpoint.
pub struct Node<A: Application> {
    endpoint: Endpoint<NodeId, A::Controller>,
    application: A,
    message_bytes: usize,
    causes: Causes,
    below: Option<Below>,
}

/// An application's access to its node.
pub struct Context<'a, A: Application> {
    port: Port<'a, A::Timer>,
    endpoint: &'a mut Endpoint<NodeId, A::Controller>,
    causes: &'a mut Causes,
    below: &'a mut Option<Below>,
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
        controller: A::Controller,
        seed: [u8; 32],
        application: A,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        let message_bytes = config.limits.message_bytes;
        let endpoint = Endpoint::new(config, controller, seed)?;
        Ok(Self { endpoint, application, message_bytes, causes: Causes::default(), below: None })
    }

    /// The same, with something between its endpoint and the network.
    #[must_use]
    pub fn over(self, underlay: Box<dyn Underlay>) -> Self {
        Self { below: Some(Below::new(underlay)), ..self }
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
    pub fn endpoint(&self) -> &Endpoint<NodeId, A::Controller> {
        &self.endpoint
    }

    /// The endpoint, to give it further controllers before the run.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint<NodeId, A::Controller> {
        &mut self.endpoint
    }

    /// Lets the application act; the answer is whether the endpoint must be polled.
    #[inline(always)]
    fn act(&mut self, port: &mut Port<'_, A::Timer>, act: impl FnOnce(&mut A, &mut Context<'_, A>)) -> bool {
        let mut context = Context {
            port: port.reborrow(),
            endpoint: &mut self.endpoint,
            causes: &mut self.causes,
            below: &mut self.below,
            touched: false,
        };
        act(&mut self.application, &mut context);
        context.touched
    }

    /// Polls the endpoint, and what is below it, until they wait.
    fn drain(&mut self, port: &mut Port<'_, A::Timer>) {
        let now = port.now();
        let below = self.below.as_ref().map_or(0, |below| below.layer.buffer_bytes());
        let mut buffer = port.take_buffer(self.message_bytes + below);
        let (message, datagram) = buffer.split_at_mut(self.message_bytes);
        loop {
            match self.endpoint.poll(now, message) {
                Output::Transmit(transmit) => {
                    let origin = self.causes.origin_of(&transmit, port.node());
                    let message = &message[..transmit.len];
                    let is_lost = match &mut self.below {
                        None => {
                            port.send(transmit.to, message, origin.0, origin.1);
                            false
                        }
                        Some(below) => !below.send(transmit.to, message, origin),
                    };
                    if is_lost {
                        self.endpoint.lose_peer(now, &transmit.to);
                    }
                    self.application.leaves(now, &transmit);
                }
                Output::Event(event) if self.hear_of_handshake(now, &event) => {}
                Output::Event(event) => {
                    self.causes.forget_ended(&event);
                    self.doubt(&event);
                    self.act(port, |application, context| application.event(context, event));
                }
                Output::Wait(until) => {
                    let Some(due) = self.step_below(port, datagram) else { continue };
                    port.wake_at(until.into_iter().chain(due).min());
                    break;
                }
            }
        }
        port.return_buffer(buffer);
        self.causes.clear();
    }
}

impl<A: Application> Host for Node<A> {
    type Timer = A::Timer;

    fn start(&mut self, port: &mut Port<'_, A::Timer>) {
        self.act(port, |application, context| application.start(context));
        self.drain(port);
    }

    fn receive(&mut self, port: &mut Port<'_, A::Timer>, packet: Received<'_>) {
        self.causes.receive(packet.meta.as_cause());
        if let Some(below) = &mut self.below {
            below.layer.receive(port.now(), packet.meta.from, packet.bytes);
            return self.drain(port);
        }
        let input = Input::datagram(packet.meta.from, packet.bytes);
        self.endpoint.handle(port.now(), input).expect("the endpoint is drained after every input");
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
        self.endpoint.glance();
        self.causes.glance();
        black_box(self.message_bytes);
    }

    fn glance_at(&self, packet: Received<'_>) {
        self.endpoint.glance_at(&Datagram::new(packet.meta.from, packet.bytes));
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
        let Some(below) = &mut *self.below else { return true };
        if below.layer.is_open(to) {
            return true;
        }
        if !below.handshakes.contains_key(&to) && !below.refused.contains(&to) {
            match self.endpoint.begin_handshake(self.port.now(), to) {
                Ok(handshake) => drop(below.handshakes.insert(to, handshake)),
                Err(_) => below.refused.push_back(to),
            }
        }
        self.touched = true;
        false
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
        self.causes.forget(exchange);
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
        let exchange = self.touch().respond(now, request, response)?;
        self.causes.state(cause, exchange);
        Ok(exchange)
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
        self.touch().reset_path(now, &peer);
    }

    /// What the endpoint knows of a peer: [`Endpoint::snapshot`].
    #[must_use]
    pub fn snapshot(&self, peer: NodeId) -> Option<PeerSnapshot> {
        self.endpoint.snapshot(&peer)
    }

    /// The packet that is being handled, as the cause of what follows from it; `None` when a timer is.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.causes.received()
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

    fn touch(&mut self) -> &mut Endpoint<NodeId, A::Controller> {
        self.touched = true;
        self.endpoint
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

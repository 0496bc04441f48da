//! Opens and records the exchanges of flows.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use conche_netsim::packet::Cause;
use conche_netsim::{Instant, NodeId};
use conche_proto::{Event, ExchangeId, ExchangeStats, Failure, Reliability, Request};

use super::application::{Context, Timer};
use super::flow::{Flow, Limit, Pace};

/// A completed exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Number, unique within the endpoint.
    pub number: u64,
    /// Due time by the flow's pace; in a closed loop, the time of opening.
    pub due: Instant,
    /// First transmission.
    pub began: Instant,
    /// End time.
    pub ended: Instant,
    /// Transmissions of the request; of a body in blocks, 1 and the retransmissions of all blocks.
    pub transmissions: u16,
    /// Spurious transmissions: an earlier one and its response arrived. Unknown, 0, for a body in
    /// blocks.
    pub unnecessary: u16,
    /// Whether a successful response arrived, or the acknowledgement of a request without one.
    pub answered: bool,
    /// Time from the first transmission to the acknowledgement.
    pub round_trip: Option<Duration>,
}

/// Counts of a flow's exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages generated; exchanges opened in a closed loop.
    pub generated: u64,
    /// Exchanges opened.
    pub opened: u64,
    /// Exchanges that succeeded.
    pub answered: u64,
    /// Exchanges that failed.
    pub failed: u64,
    /// Failed exchanges with an error response, 4.xx or 5.xx.
    pub error_responses: u64,
    /// Failed exchanges with a Reset of the peer.
    pub resets: u64,
    /// End of its last exchange.
    pub done: Option<Instant>,
    /// Exchanges left in the batch.
    left_of_batch: u32,
}

/// Sends the requests of several flows.
#[derive(Debug)]
pub struct Requester {
    flows: Vec<FlowState>,
    open: OpenExchanges,
    /// The last unfinished flow ends the run.
    unfinished_flows: Option<Rc<Cell<u64>>>,
}

/// A flow and its exchanges so far.
#[derive(Debug)]
pub struct FlowState {
    flow: Rc<Flow>,
    /// Counts of its exchanges.
    pub tally: Tally,
    /// Completed exchanges by end.
    pub exchanges: Vec<Exchange>,
    /// Times of requests that were due and are not yet open.
    due: VecDeque<Instant>,
}

/// Flow and time due of open exchanges, by number. A single one, the most frequent case, takes no
/// memory on the heap.
#[derive(Debug, Default)]
struct OpenExchanges {
    one: Option<(u64, (u32, Instant))>,
    others: BTreeMap<u64, (u32, Instant)>,
}

impl OpenExchanges {
    fn insert(&mut self, exchange: ExchangeId, flow: u32, due: Instant) {
        match self.one {
            None => self.one = Some((exchange.as_u64(), (flow, due))),
            Some(_) => drop(self.others.insert(exchange.as_u64(), (flow, due))),
        }
    }

    fn remove(&mut self, exchange: ExchangeId) -> Option<(u32, Instant)> {
        match self.one.take_if(|(number, _)| *number == exchange.as_u64()) {
            Some((_, open)) => Some(open),
            None => self.others.remove(&exchange.as_u64()),
        }
    }
}

/// After a refused request without an open exchange (assumption).
const PAUSE: Duration = Duration::from_secs(1);

impl Tally {
    /// Number of open exchanges.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.opened - self.answered - self.failed
    }

    /// Returns the counts of one exchange: successful at `done`, or failed.
    #[must_use]
    pub fn of_one(done: Option<Instant>) -> Self {
        let answered = u64::from(done.is_some());
        Self { generated: 1, opened: 1, answered, failed: 1 - answered, done, ..Self::default() }
    }

    /// Adds the counts of a restarted flow.
    #[must_use]
    pub fn followed_by(&self, next: &Self) -> Self {
        Self {
            generated: self.generated + next.generated,
            opened: self.opened + next.opened,
            answered: self.answered + next.answered,
            failed: self.failed + next.failed,
            error_responses: self.error_responses + next.error_responses,
            resets: self.resets + next.resets,
            ..*next
        }
    }

    /// Counts these exchanges.
    #[must_use]
    pub fn of(exchanges: &[Exchange]) -> Self {
        let all = exchanges.len() as u64;
        let answered = exchanges.iter().filter(|exchange| exchange.answered).count() as u64;
        Self { generated: all, opened: all, answered, failed: all - answered, ..Self::default() }
    }

    fn begin_batch(&mut self, flow: &Flow, ctx: &mut Context<'_>) {
        let Some(batch) = flow.batch else {
            self.left_of_batch = u32::MAX;
            return;
        };
        ctx.reset_path(flow.peer);
        let drawn = ctx.rng().between(u64::from(batch.least()), u64::from(batch.most()));
        self.left_of_batch = u32::try_from(drawn).unwrap_or(u32::MAX);
    }
}

impl Requester {
    /// Creates a requester. The run ends when the shared `unfinished_flows` reaches 0.
    #[must_use]
    pub fn new(flows: Vec<Rc<Flow>>, unfinished_flows: Option<Rc<Cell<u64>>>) -> Self {
        Self {
            flows: flows.into_iter().map(FlowState::new).collect(),
            open: OpenExchanges::default(),
            unfinished_flows,
        }
    }

    /// Its flows in their order.
    #[must_use]
    pub fn flows(&self) -> &[FlowState] {
        &self.flows
    }

    /// Returns its flows in their order.
    #[must_use]
    pub fn into_flows(self) -> Vec<FlowState> {
        self.flows
    }

    pub(super) fn start(&mut self, ctx: &mut Context<'_>) {
        for (number, FlowState { flow, .. }) in (0..).zip(&self.flows) {
            if let Some(first) = flow.first(ctx.rng()) {
                ctx.set_timer(first - ctx.now(), Timer::Flow(number));
            }
        }
    }

    pub(super) fn timer(&mut self, ctx: &mut Context<'_>, number: u32) {
        let FlowState { flow, tally, .. } = &mut self.flows[number as usize];
        if flow.stop.is_some_and(|stop| ctx.now() >= stop) {
            return;
        }
        let now = ctx.now();
        tally.generated += flow.due(now);
        if let Some(next) = flow.next(now, ctx.rng()).filter(|_| flow.needs_more(tally)) {
            ctx.set_timer(next - now, Timer::Flow(number));
        }
        if tally.opened == 0 {
            tally.begin_batch(flow, ctx);
        }
        self.open(ctx, number);
        self.flows[number as usize].queue_due(now);
    }

    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        let (exchange, course, answered) = match event {
            Event::Response { exchange, message, course, .. } => (*exchange, *course, message.code().is_success()),
            Event::Failed { exchange, course, .. } => (*exchange, *course, false),
            _ => return,
        };
        let Some((number, due)) = self.open.remove(exchange) else { return };
        let state = &mut self.flows[number as usize];
        state.record(Exchange { due, ..completed(ctx, exchange, course, answered) });
        let FlowState { flow, tally, .. } = state;
        if answered {
            tally.answered += 1;
            if let Some(left) = flow.enough.as_ref().filter(|left| left.get() > 0) {
                left.set(left.get() - 1);
                if left.get() == 0 {
                    ctx.stop();
                }
            }
        } else {
            tally.failed += 1;
            tally.error_responses += u64::from(matches!(event, Event::Response { .. }));
            tally.resets += u64::from(matches!(event, Event::Failed { reason: Failure::Reset, .. }));
        }
        if flow.has_had_all(tally) {
            tally.done = Some(ctx.now());
            return self.done(ctx);
        }
        if answered {
            tally.left_of_batch = tally.left_of_batch.saturating_sub(1);
            if tally.left_of_batch == 0 {
                tally.begin_batch(flow, ctx);
            }
        }
        self.open(ctx, number);
    }

    /// Counts a failure once per waiting flow.
    pub(super) fn connected(&mut self, ctx: &mut Context<'_>, peer: NodeId, is_open: bool) {
        let waiting = (0..).zip(&self.flows).filter(|(_, state)| state.flow.peer == peer);
        for number in waiting.map(|(number, _)| number).collect::<Vec<u32>>() {
            if is_open {
                self.open(ctx, number);
                continue;
            }
            let FlowState { flow, tally, due, .. } = &mut self.flows[number as usize];
            if !flow.may_open(tally, ctx.now()) {
                continue;
            }
            tally.generated += u64::from(flow.pace == Pace::Closed);
            tally.opened += 1;
            tally.failed += 1;
            due.pop_front();
            if flow.has_had_all(tally) {
                tally.done = Some(ctx.now());
                self.done(ctx);
            } else {
                ctx.set_timer(PAUSE, Timer::Again(number));
            }
        }
    }

    /// Retries a refused session.
    pub(super) fn again(&mut self, ctx: &mut Context<'_>, number: u32) {
        self.open(ctx, number);
    }

    fn open(&mut self, ctx: &mut Context<'_>, number: u32) {
        let FlowState { flow, tally, due, .. } = &mut self.flows[number as usize];
        while flow.may_open(tally, ctx.now()) {
            if !ctx.connect(flow.peer) {
                return;
            }
            let reliability = if flow.confirmable { Reliability::Confirmable } else { Reliability::NonConfirmable };
            let request = Request::new(flow.method, flow.body.clone()).with_reliability(reliability);
            let is_closed = flow.pace == Pace::Closed;
            tally.generated += u64::from(is_closed);
            tally.opened += 1;
            let due = due.pop_front().unwrap_or(ctx.now());
            match ctx.request(flow.peer, request) {
                Ok(exchange) => self.open.insert(exchange, number, due),
                Err(_) => {
                    tally.failed += 1;
                    if is_closed && tally.outstanding() == 0 {
                        ctx.set_timer(PAUSE, Timer::Flow(number));
                    }
                    return;
                }
            }
        }
    }

    fn done(&self, ctx: &mut Context<'_>) {
        if let Some(unfinished_flows) = &self.unfinished_flows {
            unfinished_flows.set(unfinished_flows.get().saturating_sub(1));
            if unfinished_flows.get() == 0 {
                ctx.stop();
            }
        }
    }
}

impl FlowState {
    fn new(flow: Rc<Flow>) -> Self {
        Self { flow, tally: Tally::default(), exchanges: Vec::new(), due: VecDeque::new() }
    }

    /// Grows by an eighth rather than twofold: long runs have millions of exchanges.
    fn record(&mut self, exchange: Exchange) {
        if self.exchanges.len() == self.exchanges.capacity() {
            self.exchanges.reserve_exact((self.exchanges.len() / 8).max(4));
        }
        self.exchanges.push(exchange);
    }

    /// Queues the requests that are due `now` and could not open.
    fn queue_due(&mut self, now: Instant) {
        let waiting = usize::try_from(self.tally.generated - self.tally.opened).unwrap_or(usize::MAX);
        let more = waiting.saturating_sub(self.due.len());
        self.due.extend(std::iter::repeat_n(now, more));
    }
}

impl Flow {
    fn may_open(&self, tally: &Tally, now: Instant) -> bool {
        self.stop.is_none_or(|stop| now < stop) && self.admits(tally)
    }

    fn admits(&self, tally: &Tally) -> bool {
        let is_closed = self.pace == Pace::Closed;
        let is_due = is_closed || tally.opened < tally.generated;
        let is_left = match self.limit {
            Limit::None => true,
            Limit::Opened(limit) => tally.opened < limit,
            Limit::Succeeded(limit) => tally.opened - tally.failed < limit,
        };
        is_due && is_left && tally.outstanding() < u64::from(self.outstanding)
    }

    fn needs_more(&self, tally: &Tally) -> bool {
        match self.limit {
            Limit::None => true,
            Limit::Opened(limit) => tally.generated < limit,
            Limit::Succeeded(limit) => tally.answered < limit,
        }
    }

    fn has_had_all(&self, tally: &Tally) -> bool {
        match self.limit {
            Limit::None => false,
            Limit::Opened(limit) => tally.opened >= limit && tally.outstanding() == 0,
            Limit::Succeeded(limit) => tally.answered >= limit,
        }
    }
}

fn completed(ctx: &Context<'_>, id: ExchangeId, course: ExchangeStats, answered: bool) -> Exchange {
    let began = Instant::ZERO + (ctx.now() - Instant::ZERO).saturating_sub(course.elapsed);
    let is_single = course.messages <= 1;
    Exchange {
        number: id.as_u64(),
        due: began,
        began,
        ended: ctx.now(),
        transmissions: u16::try_from(course.transmissions.saturating_sub(course.messages.saturating_sub(1)))
            .unwrap_or(u16::MAX),
        unnecessary: if answered && is_single { unnecessary(course, ctx.cause()) } else { 0 },
        answered,
        round_trip: course.acknowledged_after,
    }
}

/// Counts arrived retransmissions answered by the first response.
fn unnecessary(course: ExchangeStats, cause: Option<Cause>) -> u16 {
    let retransmissions = u16::try_from(course.transmissions.saturating_sub(1)).unwrap_or(u16::MAX);
    let answered = cause.and_then(|cause| cause.transmission).map_or(0, |copy| u16::from(copy.attempt));
    retransmissions.saturating_sub(answered)
}

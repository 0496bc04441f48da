//! Opens and records the exchanges of flows.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use conche_netsim::packet::Cause;
use conche_netsim::{Instant, NodeId};
use conche_proto::{Event, ExchangeId, ExchangeStats, Reliability, Request};

use super::application::{Context, Timer};
use super::flow::{Flow, Limit, Pace};

/// A completed exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Number of its flow.
    pub flow: u32,
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
    /// End of its last exchange.
    pub done: Option<Instant>,
    /// Exchanges left in the batch.
    left_of_batch: u32,
}

/// Sends the requests of several flows.
#[derive(Debug)]
pub struct Requester {
    flows: Vec<Flow>,
    tallies: Vec<Tally>,
    exchanges: Vec<Exchange>,
    /// Per flow, the times of requests that are due and not yet open.
    due: Vec<VecDeque<Instant>>,
    /// Flow and time due of open exchanges.
    open: BTreeMap<u64, (u32, Instant)>,
    /// The last unfinished flow ends the run.
    unfinished_flows: Option<Rc<Cell<u64>>>,
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
    pub fn new(flows: Vec<Flow>, unfinished_flows: Option<Rc<Cell<u64>>>) -> Self {
        let tallies = vec![Tally::default(); flows.len()];
        let due = vec![VecDeque::new(); flows.len()];
        Self { flows, tallies, exchanges: Vec::new(), due, open: BTreeMap::new(), unfinished_flows }
    }

    /// Completed exchanges by end.
    #[must_use]
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// Counts of each flow.
    #[must_use]
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// Returns the completed exchanges by end.
    #[must_use]
    pub fn into_exchanges(self) -> Vec<Exchange> {
        self.exchanges
    }

    pub(super) fn start(&mut self, ctx: &mut Context<'_>) {
        for (number, flow) in (0..).zip(&self.flows) {
            if let Some(first) = flow.first(ctx.rng()) {
                ctx.set_timer(first - ctx.now(), Timer::Flow(number));
            }
        }
    }

    pub(super) fn timer(&mut self, ctx: &mut Context<'_>, number: u32) {
        let flow = &self.flows[number as usize];
        if flow.stop.is_some_and(|stop| ctx.now() >= stop) {
            return;
        }
        let now = ctx.now();
        let tally = &mut self.tallies[number as usize];
        let due = flow.due(now);
        tally.generated += due;
        self.due[number as usize].extend((0..due).map(|_| now));
        if let Some(next) = flow.next(now, ctx.rng()).filter(|_| flow.needs_more(tally)) {
            ctx.set_timer(next - now, Timer::Flow(number));
        }
        if tally.opened == 0 {
            tally.begin_batch(flow, ctx);
        }
        self.open(ctx, number);
    }

    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        let (exchange, course, answered) = match event {
            Event::Response { exchange, message, course, .. } => (*exchange, *course, message.code().is_success()),
            Event::Failed { exchange, course, .. } => (*exchange, *course, false),
            _ => return,
        };
        let Some((number, due)) = self.open.remove(&exchange.as_u64()) else { return };
        self.exchanges.push(Exchange { flow: number, due, ..completed(ctx, exchange, course, answered) });
        let (flow, tally) = (&self.flows[number as usize], &mut self.tallies[number as usize]);
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
        for number in
            (0..).zip(&self.flows).filter(|(_, flow)| flow.peer == peer).map(|(number, _)| number).collect::<Vec<u32>>()
        {
            let (flow, tally) = (&self.flows[number as usize], &mut self.tallies[number as usize]);
            if is_open {
                self.open(ctx, number);
                continue;
            }
            if !flow.may_open(tally, ctx.now()) {
                continue;
            }
            tally.generated += u64::from(flow.pace == Pace::Closed);
            tally.opened += 1;
            tally.failed += 1;
            self.due[number as usize].pop_front();
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
        let (flow, tally) = (&self.flows[number as usize], &mut self.tallies[number as usize]);
        while flow.may_open(tally, ctx.now()) {
            if !ctx.connect(flow.peer) {
                return;
            }
            let reliability = if flow.confirmable { Reliability::Confirmable } else { Reliability::NonConfirmable };
            let request = Request::new(flow.method, flow.body.clone()).with_reliability(reliability);
            let is_closed = flow.pace == Pace::Closed;
            tally.generated += u64::from(is_closed);
            tally.opened += 1;
            let due = self.due[number as usize].pop_front().unwrap_or(ctx.now());
            match ctx.request(flow.peer, request) {
                Ok(exchange) => {
                    self.open.insert(exchange.as_u64(), (number, due));
                }
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
        flow: 0,
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

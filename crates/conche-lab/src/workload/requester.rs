//! The requester: it opens exchanges as its flows say, and records them.

use std::time::Duration;

use conche_netsim::{Instant, NodeId};
use conche_proto::{Event, ExchangeId, Reliability, Request};

use super::application::{Context, Timer};
use super::flow::{Flow, Pace};

/// An exchange that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The number of its flow.
    pub flow: u32,
    /// When its first copy left.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// Copies of the request.
    pub transmissions: u16,
    /// A response, or the acknowledgement of a request that needs none, came.
    pub answered: bool,
    /// From the first copy to the acknowledgement.
    pub round_trip: Option<Duration>,
}

/// What a flow has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that were generated; in a closed loop, exchanges that were opened.
    pub generated: u64,
    /// Exchanges that were opened.
    pub opened: u64,
    /// Exchanges that ended well.
    pub answered: u64,
    /// Exchanges that failed.
    pub failed: u64,
}

impl Tally {
    /// Exchanges that go on.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.opened - self.answered - self.failed
    }
}

/// Sends requests of several flows.
#[derive(Debug)]
pub struct Requester {
    flows: Vec<Flow>,
    tallies: Vec<Tally>,
    exchanges: Vec<Exchange>,
    /// The flow of each exchange that goes on.
    open: Vec<(ExchangeId, u32)>,
    /// Ends the run when every flow has opened all its exchanges and they are over.
    stops_when_done: bool,
}

impl Requester {
    /// Has these flows to send.
    #[must_use]
    pub fn new(flows: Vec<Flow>) -> Self {
        let tallies = vec![Tally::default(); flows.len()];
        Self { flows, tallies, exchanges: Vec::new(), open: Vec::new(), stops_when_done: false }
    }

    /// The same, but the run ends when every flow has opened all its exchanges and they are over.
    #[must_use]
    pub fn stopping_when_done(self) -> Self {
        Self { stops_when_done: true, ..self }
    }

    /// The exchanges that are over, in the order of their ends.
    #[must_use]
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// What each flow has done.
    #[must_use]
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    pub(super) fn start(&mut self, ctx: &mut Context<'_>) {
        for (number, flow) in (0..).zip(&self.flows) {
            let first = match &flow.pace {
                Pace::Closed { .. } => Some(flow.start),
                Pace::Rate { .. } => flow.pace.first_from(flow.start),
            };
            if let Some(first) = first {
                ctx.set_timer(first - ctx.now(), Timer(number));
            }
        }
    }

    pub(super) fn timer(&mut self, ctx: &mut Context<'_>, Timer(number): Timer) {
        let flow = &self.flows[number as usize];
        if flow.stop.is_some_and(|stop| ctx.now() >= stop) {
            return;
        }
        if let Some(next) = flow.pace.next(ctx.now()) {
            ctx.set_timer(next - ctx.now(), Timer(number));
        }
        if matches!(flow.pace, Pace::Rate { .. }) {
            self.tallies[number as usize].generated += 1;
        }
        self.open(ctx, number);
    }

    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        let (exchange, course, answered) = match event {
            Event::Response { exchange, course, .. } => (*exchange, course, true),
            Event::Failed { exchange, course, .. } => (*exchange, course, false),
            _ => return,
        };
        let Some(place) = self.open.iter().position(|(open, _)| *open == exchange) else { return };
        let (_, number) = self.open.swap_remove(place);
        let tally = &mut self.tallies[number as usize];
        *(if answered { &mut tally.answered } else { &mut tally.failed }) += 1;
        let began = Instant::ZERO + (ctx.now() - Instant::ZERO).saturating_sub(course.elapsed);
        self.exchanges.push(Exchange {
            flow: number,
            began,
            ended: ctx.now(),
            transmissions: u16::try_from(course.transmissions).unwrap_or(u16::MAX),
            answered,
            round_trip: course.acknowledged_after,
        });
        self.open(ctx, number);
        if self.stops_when_done && self.is_done() {
            ctx.stop();
        }
    }

    /// Opens as many exchanges of a flow as its pace allows now.
    fn open(&mut self, ctx: &mut Context<'_>, number: u32) {
        let (flow, tally) = (&self.flows[number as usize], &mut self.tallies[number as usize]);
        while flow.stop.is_none_or(|stop| ctx.now() < stop) && flow.pace.admits(tally) {
            let reliability = if flow.confirmable { Reliability::Confirmable } else { Reliability::NonConfirmable };
            let request = Request::new(flow.method, flow.body.clone()).with_reliability(reliability);
            if matches!(flow.pace, Pace::Closed { .. }) {
                tally.generated += 1;
            }
            tally.opened += 1;
            match ctx.request(flow.peer, request) {
                Ok(exchange) => self.open.push((exchange, number)),
                // A full queue of the endpoint: the message is lost at its source.
                Err(_) => {
                    tally.failed += 1;
                    return;
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.flows.iter().zip(&self.tallies).all(|(flow, tally)| {
            let finite = matches!(flow.pace, Pace::Closed { exchanges: Some(limit), .. } if tally.opened >= limit);
            finite && tally.outstanding() == 0
        })
    }
}

impl Pace {
    fn admits(&self, tally: &Tally) -> bool {
        let (outstanding, limit) = match self {
            Self::Closed { outstanding, exchanges } => (Some(*outstanding), exchanges.unwrap_or(u64::MAX)),
            Self::Rate { outstanding, .. } => (*outstanding, tally.generated),
        };
        tally.opened < limit && outstanding.is_none_or(|most| tally.outstanding() < u64::from(most))
    }
}

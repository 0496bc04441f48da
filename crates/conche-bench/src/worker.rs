//! One thread: an endpoint with source ports as peers, sockets, and its share of the load.
//!
//! ```text
//!   schedule ──due──> free slot ──> endpoint ──> lane's socket ──> server
//!   tally <── slot is free again <── endpoint <── lane's socket <──┘
//! ```
//!
//! A slot is a request in flight of a seat: one of the plan's endpoints, whose lane is a source
//! port with message IDs left.

mod sessions;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::OwnedMessage;
use conche_proto::{
    Endpoint, Event, ExchangeId, ExchangeStats, Failure, Input, Instant, Output, Request, RequestError, Stats,
    SubscriptionId,
};
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

use crate::collector::Sample;
use crate::dtls::{Counts, DtlsLanes};
use crate::error::Error;
use crate::kind::Draw;
use crate::oscore::OscoreContexts;
use crate::plan::{Load, Plan, Until};
use crate::schedule::{Schedule, Share, Span};
use crate::sockets::Sockets;
use crate::source_ports::SourcePorts;
use crate::tally::{Interval, Loss, Tally, nanos};
use crate::worker_result::{Usage, WorkerResult};

const AT_ONCE: usize = 32;

/// More share a poll's cost.
const TAKEN_AT_ONCE: usize = 8;

/// Before other sockets' turn.
const ROUNDS: usize = 64;

/// To notice interruption.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

const GRACE: Duration = Duration::from_secs(5);

/// After an undeliverable request.
const PAUSE: Duration = Duration::from_millis(100);

const NO_SLOT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) start: std::time::Instant,
    pub(crate) interval: Duration,
    pub(crate) stop: &'a AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    seat: u32,
    lane: u32,
    kind: u32,
    open: bool,
    /// Due during the measurement.
    counts: bool,
    due: Instant,
    submitted: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmingUp,
    Measuring,
    Ending(Instant),
}

pub(crate) struct Worker<'a> {
    common: WorkerContext<'a>,
    thread: u32,
    samples: Sender<Sample>,
    endpoint: Endpoint<u32, AnyController>,
    sockets: Sockets,
    dtls: Option<DtlsLanes>,
    oscore: OscoreContexts,
    source_ports: SourcePorts,
    schedule: Schedule,
    draw: Draw,
    seats: Vec<u32>,
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    pausing: VecDeque<(Instant, u32)>,
    /// Slot by the exchange's place.
    places: Vec<u32>,
    in_flight: usize,
    /// Last notification of each.
    subscriptions: BTreeMap<SubscriptionId, Instant>,
    ready: Vec<u32>,
    now: Instant,
    phase: Phase,
    counts_from: Instant,
    until: Instant,
    interval_end: Instant,
    number: u64,
    interval: Interval,
    behind: Option<Instant>,
    has_answer: bool,
    last_end: Instant,
    tally: Tally,
    answered: u64,
    renewed: u64,
    at_start: (Instant, Stats, Usage),
    at_end: Option<(Instant, Stats, Usage)>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(common: WorkerContext<'a>, share: Share, samples: Sender<Sample>) -> Result<Self, Error> {
        let plan = common.plan;
        let mut random = Pcg64Mcg::new(u128::from(plan.seed) << 64 | u128::from(share.index) << 1 | 1);
        let mut stream = || Pcg64Mcg::new(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()));
        let config = plan.config();
        let lifetime = config.transmission.exchange_lifetime();
        let dtls = match &plan.credentials {
            Some(credentials) => {
                Some(DtlsLanes::new(credentials.clone(), self::seed()?).map_err(crate::PlanError::from)?)
            }
            None => None,
        };
        let message_bytes = config.limits.message_bytes;
        let longest = if dtls.is_some() { DtlsLanes::longest_datagram(message_bytes) } else { message_bytes };
        let mut sockets = Sockets::new(plan.target, plan.local, longest).map_err(Error::Socket)?;
        let mut source_ports = SourcePorts::new(lifetime, plan.in_flight);
        let seats = u32::try_from(share.of(plan.endpoints.into())).unwrap_or(u32::MAX);
        let seats = (0..seats).map(|_| open(&mut sockets, &mut source_ports)).collect::<Result<Vec<_>, _>>()?;
        let slots = slots(plan, seats.len());
        let counts_from = Instant::ZERO + plan.warm_up;
        let (until, count) = match plan.until {
            Until::Elapsed(span) => (counts_from + span, u64::MAX),
            Until::Count(count) => (Instant::FAR_FUTURE, share.of(count)),
        };
        let schedule = Schedule::new(plan.load, share, Span { counts_from, until, count }, stream());
        let before = plan.warm_up.as_nanos() % common.interval.as_nanos().max(1);
        let interval_end = Instant::from_nanos(u64::try_from(before).unwrap_or_default());
        let controller = plan.controller.clone();
        let mut endpoint = Endpoint::new(config, controller, self::seed()?).map_err(crate::PlanError::from)?;
        Ok(Self {
            oscore: OscoreContexts::open(&plan.oscore, share, &mut endpoint)?,
            endpoint,
            draw: Draw::new(&plan.kinds, stream()),
            free: (0..u32::try_from(slots.len()).unwrap_or(u32::MAX)).collect(),
            pausing: VecDeque::new(),
            places: vec![NO_SLOT; slots.len()],
            in_flight: 0,
            subscriptions: BTreeMap::new(),
            ready: Vec::new(),
            now: Instant::ZERO,
            phase: Phase::WarmingUp,
            thread: share.index,
            number: 0,
            interval: Interval::new(),
            behind: None,
            has_answer: false,
            last_end: counts_from,
            tally: Tally::new(plan.kinds.len()),
            answered: 0,
            renewed: 0,
            at_start: (counts_from, Stats::default(), Usage::default()),
            at_end: None,
            common,
            samples,
            sockets,
            dtls,
            source_ports,
            schedule,
            seats,
            slots,
            counts_from,
            until,
            interval_end,
        })
    }

    pub(crate) fn run(mut self, start: std::time::Instant) -> Result<WorkerResult, Error> {
        let preparing = start - self.common.start;
        self.schedule.shift(preparing);
        let times = [&mut self.counts_from, &mut self.until, &mut self.interval_end, &mut self.last_end];
        times.into_iter().chain([&mut self.at_start.0]).for_each(|time| *time += preparing);
        loop {
            self.now = self.clock();
            self.run_timers()?;
            let wake = self.drain()?;
            if self.is_over() {
                return Ok(self.finish());
            }
            self.wait(wake)?;
            self.receive()?;
        }
    }

    #[inline]
    fn clock(&self) -> Instant {
        Instant::ZERO + self.common.start.elapsed()
    }

    /// Submits requests up to a limit; returns whether any. Needs an endpoint without events: a
    /// completed exchange's place is reused.
    fn issue(&mut self) -> Result<bool, Error> {
        for number in 0..AT_ONCE {
            let Some(due) = self.schedule.peek(self.now).filter(|due| *due <= self.now) else {
                if !self.free.is_empty() {
                    self.behind = None;
                }
                return Ok(number > 0);
            };
            let Some(slot) = self.free.pop_front() else { return Ok(number > 0) };
            self.schedule.take(due);
            self.submit(slot, due)?;
            if self.free.is_empty() {
                self.behind.get_or_insert(self.now);
            }
        }
        Ok(true)
    }

    fn submit(&mut self, number: u32, due: Instant) -> Result<(), Error> {
        let slot = &mut self.slots[number as usize];
        let lane = self.seats[slot.seat as usize];
        let kind = self.draw.next();
        *slot = Slot {
            lane,
            kind: u32::try_from(kind).unwrap_or_default(),
            open: true,
            counts: due >= self.counts_from,
            due,
            submitted: self.now,
            ..*slot
        };
        if slot.counts {
            self.tally.begins(kind);
            if matches!(self.common.plan.load, Load::Open { .. }) {
                match self.behind {
                    // This program caused the delay.
                    Some(since) if due >= since => self.tally.held += 1,
                    _ => self.tally.late.saturating_record(nanos(self.now - due)),
                }
            }
        }
        if !self.source_ports.has_ids(lane) {
            self.renew(number)?;
        }
        let lane = self.slots[number as usize].lane;
        self.source_ports.begins(lane);
        let plan = self.common.plan;
        let kind = &plan.kinds[kind];
        let mut request = Request::new(kind.code, kind.body.clone()).with_reliability(kind.reliability);
        request.timeout = plan.timeout;
        if let Some(context) = self.oscore.of(self.slots[number as usize].seat) {
            request = request.protected(context);
        }
        let exchange =
            if plan.observe { self.observe(lane, request) } else { self.endpoint.request(self.now, lane, request) };
        let exchange = exchange.map_err(|source| Error::Request { name: kind.name.clone(), source })?;
        self.record_slot(exchange.place(), number);
        self.in_flight += 1;
        Ok(())
    }

    #[inline]
    fn record_slot(&mut self, place: u32, slot: u32) {
        let place = place as usize;
        if place >= self.places.len() {
            self.places.resize(place + 1, NO_SLOT);
        }
        self.places[place] = slot;
    }

    #[cold]
    fn renew(&mut self, slot: u32) -> Result<(), Error> {
        let Slot { seat, lane, .. } = self.slots[slot as usize];
        let fresh = match self.source_ports.rest(lane, self.now) {
            Some(rested) => rested,
            None => open(&mut self.sockets, &mut self.source_ports)?,
        };
        self.renewed += 1;
        self.seats[seat as usize] = fresh;
        self.slots[slot as usize].lane = fresh;
        Ok(())
    }

    fn drain(&mut self) -> Result<Option<Instant>, Error> {
        let mut has_asked = false;
        self.handle_session_output();
        loop {
            match self.endpoint.poll(self.now, self.sockets.buffer()) {
                Output::Transmit(transmit) => self.send(transmit),
                Output::Event(Event::Reserve(reserve)) => self.oscore.keep(&mut self.endpoint, reserve)?,
                Output::Event(event) => self.handle_event(event),
                Output::Wait(_) if !has_asked && self.issue()? => has_asked = true,
                Output::Wait(due) => {
                    self.sockets.flush();
                    self.check_handshakes()?;
                    if !self.report_refusals()? {
                        return Ok(due);
                    }
                }
            }
        }
    }

    fn report_refusals(&mut self) -> Result<bool, Error> {
        if self.sockets.refused.is_empty() {
            return Ok(false);
        }
        if !self.has_answer {
            return Err(Error::Refused { target: self.common.plan.target });
        }
        for lane in std::mem::take(&mut self.sockets.refused) {
            // The endpoint has been polled completely.
            let _ = self.endpoint.handle(self.now, Input::Unreachable { peer: lane, quoted: None });
        }
        Ok(true)
    }

    fn wait(&mut self, wake: Option<Instant>) -> Result<(), Error> {
        let paused = self.pausing.front().map(|(until, _)| *until);
        let phase = match self.phase {
            Phase::WarmingUp => Some(self.counts_from),
            Phase::Measuring => Some(self.until),
            Phase::Ending(deadline) => Some(deadline),
        };
        let sessions = self.dtls.as_ref().and_then(DtlsLanes::due);
        let next = [wake, paused, phase, sessions, Some(self.interval_end)].into_iter().flatten().min();
        let request = self.schedule.peek(self.now).filter(|_| !self.free.is_empty());
        let exact = request.is_some_and(|due| next.is_none_or(|next| due < next));
        let next = next.into_iter().chain(request).min();
        let longest = match next {
            _ if !self.ready.is_empty() => Duration::ZERO,
            Some(next) => (next - self.clock()).min(LONGEST_WAIT),
            None => LONGEST_WAIT,
        };
        self.sockets.wait(longest, exact, &mut self.ready).map_err(Error::Socket)
    }

    fn wait_and_take(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let wait = until.map_or(LONGEST_WAIT, |until| (until - self.clock()).min(LONGEST_WAIT));
        self.sockets.wait(wait, false, &mut self.ready).map_err(Error::Socket)?;
        self.now = self.clock();
        while let Some(lane) = self.ready.pop() {
            loop {
                let read = self.sockets.receive(lane, 1);
                for number in 0..read.datagrams {
                    // The event queue is nearly empty.
                    let _ = self.take(lane, number);
                }
                if !read.more {
                    break;
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), Error> {
        let mut ready = std::mem::take(&mut self.ready);
        let expected = if self.common.plan.observe { AT_ONCE } else { self.common.plan.in_flight.into() };
        let mut taken = 0;
        for lane in ready.drain(..) {
            for round in 0.. {
                let read = self.sockets.receive(lane, expected);
                self.now = self.clock();
                for number in 0..read.datagrams {
                    if self.take(lane, number).is_err() {
                        self.drain()?;
                        let _ = self.take(lane, number);
                    }
                }
                taken += read.datagrams;
                if taken >= TAKEN_AT_ONCE {
                    taken = 0;
                    self.drain()?;
                }
                if !read.more {
                    break;
                }
                if round == ROUNDS {
                    self.ready.push(lane);
                    break;
                }
            }
        }
        if self.ready.is_empty() {
            self.ready = ready;
        }
        self.drain().map(drop)
    }

    #[inline]
    fn take(&mut self, lane: u32, number: usize) -> Result<(), conche_proto::OutputsPending> {
        if self.dtls.is_some() {
            self.take_record(lane, number);
            return Ok(());
        }
        self.endpoint.handle(self.now, Input::datagram(lane, self.sockets.received(number)))
    }

    #[inline]
    fn handle_event(&mut self, event: Event<u32>) {
        match event {
            Event::Response { exchange, message, course, .. } => self.answered(exchange, &message, course),
            Event::Failed { exchange, reason, course, .. } => self.failed(exchange, reason, course),
            Event::Unanswered { exchange, course, .. } => self.failed(exchange, Failure::NoResponse, course),
            event => self.handle_observation_event(event),
        }
    }

    #[inline]
    fn answered(&mut self, exchange: ExchangeId, message: &OwnedMessage, course: ExchangeStats) {
        self.has_answer = true;
        let Some((number, slot)) = self.over(exchange, &course) else { return };
        let end = slot.submitted + course.queued + course.elapsed;
        let latency = nanos(end - slot.due);
        self.ends(end);
        self.interval.answered += 1;
        self.interval.latency.saturating_record(latency);
        if self.phase != Phase::WarmingUp && self.at_end.is_none() {
            self.answered += 1;
        }
        if slot.counts {
            self.tally.answer(slot.kind as usize, message.code(), &course, latency);
        }
        if !self.common.plan.observe {
            self.free.push_back(number);
        }
    }

    fn failed(&mut self, exchange: ExchangeId, reason: Failure, course: ExchangeStats) {
        let Some((number, slot)) = self.over(exchange, &course) else { return };
        self.ends(slot.submitted + course.queued + course.elapsed);
        self.interval.lost += 1;
        if slot.counts {
            self.tally.lose(reason.into(), &course);
        }
        match Loss::from(reason) {
            Loss::TimedOut => {
                self.free.push_back(number);
                self.close_unanswered_session(slot.lane);
            }
            // A retry would fail at once.
            _ => self.pausing.push_back((self.now + PAUSE, number)),
        }
    }

    #[inline]
    fn over(&mut self, exchange: ExchangeId, course: &ExchangeStats) -> Option<(u32, Slot)> {
        let place = self.places.get_mut(exchange.place() as usize)?;
        let number = std::mem::replace(place, NO_SLOT);
        self.in_flight = self.in_flight.saturating_sub(1);
        let slot = self.slots.get_mut(number as usize)?;
        slot.open = false;
        let slot = *slot;
        self.source_ports.ends(slot.lane, course.messages);
        self.close_session(slot.lane);
        Some((number, slot))
    }

    #[inline]
    fn ends(&mut self, at: Instant) {
        self.last_end = self.last_end.max(at);
    }

    fn observe(&mut self, lane: u32, request: Request) -> Result<ExchangeId, RequestError> {
        let (exchange, subscription) = self.endpoint.subscribe(self.now, lane, request)?;
        self.subscriptions.insert(subscription, self.now);
        Ok(exchange)
    }

    fn handle_observation_event(&mut self, event: Event<u32>) {
        match event {
            Event::Notification { subscription, .. } => self.notified(subscription),
            Event::Stale { subscription, .. } => {
                let _ = self.endpoint.reregister(self.now, subscription);
            }
            Event::SubscriptionOver { subscription, .. } => {
                self.subscriptions.remove(&subscription);
                self.tally.not_observed += 1;
            }
            _ => {}
        }
    }

    fn notified(&mut self, subscription: SubscriptionId) {
        self.interval.notifications += 1;
        let Some(heard) = self.subscriptions.get_mut(&subscription) else { return };
        let gap = self.now - std::mem::replace(heard, self.now);
        if self.phase == Phase::Measuring {
            self.tally.notifications += 1;
            self.tally.gaps.saturating_record(nanos(gap));
        }
    }

    fn end_observations(&mut self) {
        for subscription in std::mem::take(&mut self.subscriptions).into_keys() {
            if let Ok(exchange) = self.endpoint.unsubscribe(self.now, subscription) {
                self.record_slot(exchange.place(), NO_SLOT);
                self.in_flight += 1;
            }
        }
    }

    fn run_timers(&mut self) -> Result<(), Error> {
        while let Some(&(until, slot)) = self.pausing.front()
            && until <= self.now
        {
            self.pausing.pop_front();
            self.free.push_back(slot);
        }
        if self.now >= self.interval_end {
            self.close_interval();
        }
        if self.phase == Phase::WarmingUp && self.now >= self.counts_from {
            self.phase = Phase::Measuring;
            self.at_start = self.mark();
            if let Some(dtls) = self.dtls.as_mut().filter(|_| self.common.plan.handshakes) {
                dtls.counts = Counts::new();
            }
        }
        let interrupted = self.common.stop.load(Ordering::Relaxed);
        let counted = self.schedule.left == 0;
        if !matches!(self.phase, Phase::Ending(_)) && (interrupted || counted || self.now >= self.until) {
            while !interrupted && self.issue()? {}
            self.end();
        }
        if interrupted {
            self.phase = Phase::Ending(self.now);
        }
        Ok(())
    }

    fn close_interval(&mut self) {
        let number = self.number;
        while self.now >= self.interval_end {
            self.number += 1;
            self.interval_end += self.common.interval;
        }
        self.send_sample(number, self.number);
    }

    fn send_sample(&mut self, number: u64, next: u64) {
        let has_counts = !self.interval.is_empty() && self.at_end.is_none();
        let interval = has_counts.then(|| (number, std::mem::replace(&mut self.interval, Interval::new())));
        let _ = self.samples.send(Sample { thread: self.thread, interval, next });
    }

    fn end(&mut self) {
        self.tally.unsent = self.schedule.stop(self.now);
        let deadline = match self.common.plan.until {
            Until::Count(_) => Instant::FAR_FUTURE,
            Until::Elapsed(_) => {
                self.at_end = Some(self.mark());
                if let Some(dtls) = &mut self.dtls {
                    dtls.is_counting = false;
                }
                self.now + GRACE
            }
        };
        self.phase = Phase::Ending(deadline);
        self.end_observations();
    }

    fn mark(&self) -> (Instant, Stats, Usage) {
        let stats = *self.endpoint.stats();
        let stats = self.dtls.as_ref().map_or(stats, |dtls| dtls.on_the_wire(stats));
        (self.now, stats, Usage::of_this_thread())
    }

    fn is_over(&self) -> bool {
        match self.phase {
            Phase::Ending(deadline) => self.in_flight == 0 || self.now >= deadline,
            _ => false,
        }
    }

    fn finish(mut self) -> WorkerResult {
        let (ended, stats, usage) = self.at_end.unwrap_or_else(|| self.mark());
        let (started, before, used) = self.at_start;
        let open = self.slots.iter().filter(|slot| slot.open && slot.counts).count();
        self.tally.unfinished = u64::try_from(open).unwrap_or(u64::MAX);
        let measured = match self.common.plan.until {
            Until::Elapsed(_) => ended.min(self.until) - self.counts_from,
            Until::Count(_) => self.last_end - self.counts_from,
        };
        self.send_sample(self.number, u64::MAX);
        self.close_sessions();
        self.oscore.close(&mut self.endpoint);
        WorkerResult {
            tally: self.tally,
            measured,
            answered: self.answered,
            traffic: difference(stats, before),
            usage: usage.since(used),
            used_in: ended - started,
            renewed: self.renewed,
            dropped: self.sockets.dropped,
            handshakes: self.dtls.map(|dtls| dtls.counts),
        }
    }
}

fn seed() -> Result<[u8; 32], Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| Error::NoRandomness(error.to_string()))?;
    Ok(seed)
}

fn open(sockets: &mut Sockets, source_ports: &mut SourcePorts) -> Result<u32, Error> {
    let lane = sockets.open().map_err(|source| Error::NoPort { open: source_ports.len(), source })?;
    source_ports.add();
    Ok(lane)
}

/// A closed loop batches a seat's adjacent requests; an open loop spreads arrivals.
fn slots(plan: &Plan, seats: usize) -> Vec<Slot> {
    let (seats, each) = (u32::try_from(seats).unwrap_or(u32::MAX), u32::from(plan.in_flight));
    let slot = |seat| Slot { seat, ..Slot::default() };
    match plan.load {
        Load::Closed => (0..seats).flat_map(|seat| (0..each).map(move |_| slot(seat))).collect(),
        Load::Open { .. } => (0..each).flat_map(|_| (0..seats).map(slot)).collect(),
    }
}

fn difference(now: Stats, before: Stats) -> Stats {
    let mut difference = now;
    difference.datagrams_sent -= before.datagrams_sent;
    difference.datagrams_received -= before.datagrams_received;
    difference.bytes_sent -= before.bytes_sent;
    difference.bytes_received -= before.bytes_received;
    difference
}

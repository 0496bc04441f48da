//! One thread of a load test: an endpoint to which each source port is a peer of its own, its sockets, and its share of the load.
//!
//! ```text
//!   schedule ──due──> free slot ──> endpoint ──> lane's socket ──> server
//!   tally <── slot is free again <── endpoint <── lane's socket <──┘
//! ```
//!
//! A slot is one request in flight. It belongs to a seat, which is one of the plan's endpoints and has a lane: a source port with
//! message IDs left.

mod ending;
mod events;
mod fresh;
mod observing;
mod sessions;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::{Endpoint, Event, Input, Instant, Output, Request, Stats, SubscriptionId};
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

use crate::error::Error;
use crate::kind::Draw;
use crate::lanes::Lanes;
use crate::plan::{Load, Plan, Until};
use crate::protecting::Protecting;
use crate::schedule::{Schedule, Share};
use crate::secured::Secured;
use crate::sockets::Sockets;
use crate::tally::{Interval, Tally, nanos};
use crate::told::{Done, Sample};
use crate::usage::Usage;

/// Requests that begin before what they send leaves.
const AT_ONCE: usize = 32;

/// Datagrams that are taken in before the endpoint is polled: many share its cost, and with few the server is never idle.
const TAKEN_AT_ONCE: usize = 8;

/// Times that one socket is read before the others have their turn.
const ROUNDS: usize = 64;

/// No wait is longer, so that an interrupted test ends soon.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// How long after its time a test waits for what is in flight.
const GRACE: Duration = Duration::from_secs(5);

/// How long nothing more is asked in the place of a request that the network says cannot arrive.
const PAUSE: Duration = Duration::from_millis(100);

/// Of an exchange that no slot has opened.
const NO_SLOT: u32 = u32::MAX;

/// What the threads of a test have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) start: std::time::Instant,
    pub(crate) interval: Duration,
    pub(crate) stop: &'a AtomicBool,
}

/// One request in flight, or the room for one.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    seat: u32,
    lane: u32,
    kind: u32,
    /// It has an exchange.
    open: bool,
    /// It was due while the test was measuring.
    counts: bool,
    due: Instant,
    submitted: Instant,
}

/// How far the test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmingUp,
    Measuring,
    /// Nothing more is asked, and what is in flight is waited for until then.
    Ending(Instant),
}

/// One thread of a load test.
pub(crate) struct Worker<'a> {
    common: Common<'a>,
    thread: u32,
    samples: Sender<Sample>,
    endpoint: Endpoint<u32, AnyController>,
    sockets: Sockets,
    /// Between both, over DTLS.
    secured: Option<Secured>,
    protecting: Protecting,
    lanes: Lanes,
    schedule: Schedule,
    draw: Draw,
    /// The lane of each seat.
    seats: Vec<u32>,
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    /// Slots that are free again at their time.
    pausing: VecDeque<(Instant, u32)>,
    /// The slot of each exchange, by its place.
    places: Vec<u32>,
    in_flight: usize,
    /// When each was last heard of.
    subscriptions: BTreeMap<SubscriptionId, Instant>,
    /// Lanes on which something may have come.
    ready: Vec<u32>,
    now: Instant,
    phase: Phase,
    counts_from: Instant,
    until: Instant,
    interval_end: Instant,
    /// Which interval this is, from the start of the test.
    number: u64,
    interval: Interval,
    /// Since when all slots were taken, and requests that are due have waited for one; `None` when none does.
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
    /// Opens the sockets of its share of the endpoints.
    pub(crate) fn new(common: Common<'a>, share: Share, samples: Sender<Sample>) -> Result<Self, Error> {
        let plan = common.plan;
        let mut random = Pcg64Mcg::new(u128::from(plan.seed) << 64 | u128::from(share.index) << 1 | 1);
        let mut stream = || Pcg64Mcg::new(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()));
        let config = plan.config();
        let lifetime = config.transmission.exchange_lifetime();
        let secured = match &plan.credentials {
            Some(credentials) => {
                Some(Secured::new(credentials.clone(), self::seed()?).map_err(crate::PlanError::from)?)
            }
            None => None,
        };
        let message_bytes = config.limits.message_bytes;
        let longest = if secured.is_some() { Secured::longest_datagram(message_bytes) } else { message_bytes };
        let mut sockets = Sockets::new(plan.target, plan.local, longest).map_err(Error::Socket)?;
        let mut lanes = Lanes::new(lifetime, plan.in_flight);
        let seats = u32::try_from(share.of(plan.endpoints.into())).unwrap_or(u32::MAX);
        let seats = (0..seats).map(|_| open(&mut sockets, &mut lanes)).collect::<Result<Vec<_>, _>>()?;
        let slots = slots(plan, seats.len());
        let counts_from = Instant::ZERO + plan.warm_up;
        let (until, count) = match plan.until {
            Until::Elapsed(span) => (counts_from + span, u64::MAX),
            Until::Count(count) => (Instant::FAR_FUTURE, share.of(count)),
        };
        let schedule = Schedule::new(plan.load, share, (counts_from, until), count, stream());
        // One of the ends of intervals is when measuring begins.
        let before = plan.warm_up.as_nanos() % common.interval.as_nanos().max(1);
        let interval_end = Instant::from_nanos(u64::try_from(before).unwrap_or_default());
        let controller = plan.controller.clone();
        let mut endpoint = Endpoint::new(config, controller, self::seed()?).map_err(crate::PlanError::from)?;
        Ok(Self {
            protecting: Protecting::open(&plan.oscore, share, &mut endpoint)?,
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
            secured,
            lanes,
            schedule,
            seats,
            slots,
            counts_from,
            until,
            interval_end,
        })
    }

    /// Asks, and hears, until the test is over. It begins at `start`; until then it was prepared, by the same clock.
    pub(crate) fn run(mut self, start: std::time::Instant) -> Result<Done, Error> {
        let preparing = start - self.common.start;
        self.schedule.put_off(preparing);
        let times = [&mut self.counts_from, &mut self.until, &mut self.interval_end, &mut self.last_end];
        times.into_iter().chain([&mut self.at_start.0]).for_each(|time| *time += preparing);
        loop {
            self.now = self.clock();
            self.keep_time()?;
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

    /// Sends what is due, as far as slots are free, but not too much at once. The answer is whether there was something.
    ///
    /// Only to be called when the endpoint has nothing to tell: the place of an exchange that is over is taken again.
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
                    // What was due while slots were free, this program has held up.
                    Some(since) if due >= since => self.tally.held += 1,
                    _ => self.tally.late.saturating_record(nanos(self.now - due)),
                }
            }
        }
        if !self.lanes.has_ids(lane) {
            self.renew(number)?;
        }
        let lane = self.slots[number as usize].lane;
        self.lanes.begins(lane);
        let plan = self.common.plan;
        let kind = &plan.kinds[kind];
        let mut request = Request::new(kind.code, kind.body.clone()).with_reliability(kind.reliability);
        request.timeout = plan.timeout;
        if let Some(context) = self.protecting.of(self.slots[number as usize].seat) {
            request = request.protected(context);
        }
        let exchange =
            if plan.observe { self.observe(lane, request) } else { self.endpoint.request(self.now, lane, request) };
        let exchange = exchange.map_err(|source| Error::Request { name: kind.name.clone(), source })?;
        self.stands(exchange.place(), number);
        self.in_flight += 1;
        Ok(())
    }

    /// The exchange of this place is that of a slot.
    #[inline]
    fn stands(&mut self, place: u32, slot: u32) {
        let place = place as usize;
        if place >= self.places.len() {
            self.places.resize(place + 1, NO_SLOT);
        }
        self.places[place] = slot;
    }

    /// The message IDs of a slot's lane are used up: its seat goes on with another one.
    #[cold]
    fn renew(&mut self, slot: u32) -> Result<(), Error> {
        let Slot { seat, lane, .. } = self.slots[slot as usize];
        let fresh = match self.lanes.rest(lane, self.now) {
            Some(rested) => rested,
            None => open(&mut self.sockets, &mut self.lanes)?,
        };
        self.renewed += 1;
        self.seats[seat as usize] = fresh;
        self.slots[slot as usize].lane = fresh;
        Ok(())
    }

    /// Polls the endpoint until it has nothing more to do, and has it ask for more. The answer is when it wants to be polled
    /// again.
    fn drain(&mut self) -> Result<Option<Instant>, Error> {
        let mut has_asked = false;
        self.hear_sessions();
        loop {
            match self.endpoint.poll(self.now, self.sockets.buffer()) {
                Output::Transmit(transmit) => self.leaves(transmit),
                Output::Event(Event::Reserve(reserve)) => self.protecting.keep(&mut self.endpoint, reserve)?,
                Output::Event(event) => self.hear(event),
                Output::Wait(_) if !has_asked && self.issue()? => has_asked = true,
                Output::Wait(due) => {
                    self.sockets.flush();
                    self.check_handshakes()?;
                    if !self.tell_refusals()? {
                        return Ok(due);
                    }
                }
            }
        }
    }

    /// The endpoint learns on which lanes the network has said that nobody is there; `false` if on none.
    fn tell_refusals(&mut self) -> Result<bool, Error> {
        if self.sockets.refused.is_empty() {
            return Ok(false);
        }
        if !self.has_answer {
            return Err(Error::Refused { target: self.common.plan.target });
        }
        for lane in std::mem::take(&mut self.sockets.refused) {
            // With everything polled it is taken in.
            let _ = self.endpoint.handle(self.now, Input::Unreachable { peer: lane, quoted: None });
        }
        Ok(true)
    }

    /// Waits for datagrams, or until there is something else to do.
    fn wait(&mut self, wake: Option<Instant>) -> Result<(), Error> {
        let paused = self.pausing.front().map(|(until, _)| *until);
        let phase = match self.phase {
            Phase::WarmingUp => Some(self.counts_from),
            Phase::Measuring => Some(self.until),
            Phase::Ending(deadline) => Some(deadline),
        };
        let sessions = self.secured.as_ref().and_then(Secured::due);
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

    /// Before the test begins: waits for datagrams until then, and takes in what has come.
    fn wait_and_take(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let wait = until.map_or(LONGEST_WAIT, |until| (until - self.clock()).min(LONGEST_WAIT));
        self.sockets.wait(wait, false, &mut self.ready).map_err(Error::Socket)?;
        self.now = self.clock();
        while let Some(lane) = self.ready.pop() {
            loop {
                let came = self.sockets.receive(lane, 1);
                for number in 0..came.datagrams {
                    // There is little that it could be.
                    let _ = self.take(lane, number);
                }
                if !came.more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes in what has come.
    fn receive(&mut self) -> Result<(), Error> {
        // While it is read, others become ready only by the next wait.
        let mut ready = std::mem::take(&mut self.ready);
        let expected = if self.common.plan.observe { AT_ONCE } else { self.common.plan.in_flight.into() };
        let mut taken = 0;
        for lane in ready.drain(..) {
            for round in 0.. {
                let came = self.sockets.receive(lane, expected);
                self.now = self.clock();
                for number in 0..came.datagrams {
                    if self.take(lane, number).is_err() {
                        self.drain()?;
                        // With nothing left to poll it is taken in.
                        let _ = self.take(lane, number);
                    }
                }
                taken += came.datagrams;
                if taken >= TAKEN_AT_ONCE {
                    taken = 0;
                    self.drain()?;
                }
                if !came.more {
                    break;
                }
                if round == ROUNDS {
                    self.ready.push(lane);
                    break;
                }
            }
        }
        if self.ready.is_empty() {
            // It keeps its room.
            self.ready = ready;
        }
        self.drain().map(drop)
    }

    #[inline]
    fn take(&mut self, lane: u32, number: usize) -> Result<(), conche_proto::Undrained> {
        if self.secured.is_some() {
            self.take_record(lane, number);
            return Ok(());
        }
        self.endpoint.handle(self.now, Input::datagram(lane, self.sockets.received(number)))
    }
}

/// What nobody can guess.
fn seed() -> Result<[u8; 32], Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| Error::NoRandomness(error.to_string()))?;
    Ok(seed)
}

/// A new source port.
fn open(sockets: &mut Sockets, lanes: &mut Lanes) -> Result<u32, Error> {
    let lane = sockets.open().map_err(|source| Error::NoPort { open: lanes.len(), source })?;
    lanes.add();
    Ok(lane)
}

/// The slots of so many seats. In a closed loop those of one seat come first that are sent together; arrivals of an open loop
/// are spread over the seats.
fn slots(plan: &Plan, seats: usize) -> Vec<Slot> {
    let (seats, each) = (u32::try_from(seats).unwrap_or(u32::MAX), u32::from(plan.in_flight));
    let slot = |seat| Slot { seat, ..Slot::default() };
    match plan.load {
        Load::Closed => (0..seats).flat_map(|seat| (0..each).map(move |_| slot(seat))).collect(),
        Load::Open { .. } => (0..each).flat_map(|_| (0..seats).map(slot)).collect(),
    }
}

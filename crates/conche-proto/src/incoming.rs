//! [`Incoming`]: requests of peers that wait for their response, for as long as the application needs.
//!
//! Apart from deduplication on purpose: what is remembered of a message expires when no copy of it can come any more, but
//! a handler may take longer, and its response has to find its way all the same.
//!
//! ```text
//!  arrived ──┬── answered in time ──> piggybacked on the ACK, over
//!            └── separate_after ──> Empty ACK ──> answered ──> separate response, an exchange of ours
//! ```

#[cfg(feature = "oscore")]
use alloc::collections::BTreeMap;
use core::net::IpAddr;
use core::num::NonZeroU16;
use core::time::Duration;

use crate::blockwise::Asked;
use crate::codec::{MessageId, NoResponse, Token};
use crate::config::SharedConfig;
use crate::message::Remembered;
use crate::security::Security;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Linked, Links, List, Number, Seldom};
use conche_cc::Instant;

/// The bytes of an Empty message (RFC 7252 §4.1).
pub(crate) const EMPTY_BYTES: u16 = 4;

/// Names a request that was received and waits for its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    index: u32,
    generation: u32,
}

/// A request that waits for its response.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<P> {
    pub(crate) from: P,
    /// Which of our addresses it was sent to.
    pub(crate) local: Option<IpAddr>,
    pub(crate) id: MessageId,
    pub(crate) token: Token,
    /// Counts requests; given when it is entered. It is the slot's, and here because there is room for it.
    pub(crate) generation: u32,
    pub(crate) came: Came,
    /// The state of the peer that a response of its own needs: held from the arrival of a Non-confirmable request on, and
    /// from the Empty ACK of a Confirmable one.
    pub(crate) peer: Option<Number>,
    /// Where copies of it find what was answered.
    pub(crate) remembered: Option<Remembered>,
    pub(crate) group: Group,
    pub(crate) rules: ResponseRules,
    pub(crate) asked: Asked,
    /// The bytes that may answer it; `None` without such a limit.
    pub(crate) allowance: Option<NonZeroU16>,
}

/// The responses that a client has no use for, and how the body of one is kept. It takes one byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseRules(u8);

impl ResponseRules {
    /// The bits of [`NoResponse`] that name classes of responses.
    const UNWANTED: u8 = (1 << 5) - 1;
    const RESERVED: u8 = 1 << 6;
    const ONCE: u8 = 1 << 7;

    #[inline]
    pub(crate) const fn new(unwanted: NoResponse, keeping: Keeping) -> Self {
        Self(unwanted.0 & Self::UNWANTED).with(keeping)
    }

    #[inline]
    pub(crate) const fn unwanted(self) -> NoResponse {
        NoResponse(self.0 & Self::UNWANTED)
    }

    #[inline]
    pub(crate) const fn keeping(self) -> Keeping {
        match self.0 & (Self::RESERVED | Self::ONCE) {
            0 => Keeping::IfRoom,
            Self::RESERVED => Keeping::Reserved,
            _ => Keeping::Once,
        }
    }

    #[inline]
    const fn with(self, keeping: Keeping) -> Self {
        let flag = match keeping {
            Keeping::IfRoom => 0,
            Keeping::Reserved => Self::RESERVED,
            Keeping::Once => Self::ONCE,
        };
        Self(self.0 & Self::UNWANTED | flag)
    }
}

/// The claim of a response's body to a place in the table of bodies that leave in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// If there is room. Otherwise the response is refused, and the client asks again later: the
    /// method is safe.
    IfRoom,
    /// A place is reserved for it.
    Reserved,
    /// It is the response to a method that is not safe, which must not be repeated.
    Once,
}

/// How a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Confirmable,
    NonConfirmable,
    /// To a group of which we are a member, not to us alone.
    ToGroup(Interest),
    /// Its last message is answered, and the next one, with another block of its body or for one of its response, is still to
    /// come: until then nothing can be answered.
    Between,
}

/// Which responses the sender of a request to a group wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// It did not say: those that are of use (RFC 7252 §8.2).
    Unsaid,
    /// Those that its No-Response option leaves (RFC 7967 §2.1).
    Said,
}

impl<P> Waiting<P> {
    /// Nothing was sent for it yet, so that its response can be piggybacked.
    pub(crate) fn can_piggyback(&self) -> bool {
        self.came == Came::Confirmable && self.peer.is_none()
    }

    pub(crate) fn is_to_group(&self) -> bool {
        matches!(self.came, Came::ToGroup(_))
    }

    /// An Empty ACK has to be sent when its response takes too long.
    fn is_timed(&self) -> bool {
        self.can_piggyback()
    }
}

#[derive(Debug)]
struct Slot<P> {
    request: Waiting<P>,
    /// Among those whose response may still be piggybacked, in the order of arrival.
    links: Links,
    separate_at: Instant,
}

struct InOrder;

impl<P> Linked<InOrder> for Slot<P> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All requests that wait for their response.
#[derive(Debug)]
pub(crate) struct Incoming<P> {
    slots: Arena<Slot<P>>,
    generation: u32,
    separate_after: Duration,
    /// Those for which something has to be sent in time. The delay is the same for all, so their order is that of their times.
    unacknowledged: List<InOrder>,
    timers: usize,
    /// Requests and separate responses, by source.
    shares: Shares,
    /// Requests with a place [reserved](Keeping::Reserved) for the body of their response, by
    /// source.
    reserved: Shares,
    /// How those are protected that are. Most are not, and have no room for it.
    #[cfg(feature = "oscore")]
    protected: BTreeMap<u32, Security>,
}

impl<P> Seldom for Incoming<P> {
    type Recipe = SharedConfig;

    fn empty<'a>() -> &'a Self
    where
        Self: 'a,
    {
        const { &Self::with(Duration::ZERO) }
    }

    fn make(config: &SharedConfig) -> Self {
        Self::with(config.separate_after)
    }
}

impl<P> Incoming<P> {
    const fn with(separate_after: Duration) -> Self {
        Self {
            slots: Arena::new(),
            generation: 0,
            separate_after,
            unacknowledged: List::new(),
            timers: 0,
            shares: Shares::new(),
            reserved: Shares::new(),
            #[cfg(feature = "oscore")]
            protected: BTreeMap::new(),
        }
    }
}

impl<P: Copy> Incoming<P> {
    /// Bytes of a request that waits.
    pub(crate) const BYTES: usize = Arena::<Slot<P>>::PLACE_BYTES;

    /// There is room, of `capacity` in all, for a request of this group whose token counts as so many places, and for its
    /// response.
    #[inline]
    pub(crate) fn admits(&self, group: Group, places: usize, capacity: usize) -> bool {
        self.shares.admits(group, places, capacity)
    }

    /// There is room to answer the message of a request beside the place that it keeps.
    pub(crate) fn admits_in_parts(&self, group: Group, token: &Token, capacity: usize) -> bool {
        self.shares.admits(group, 2 * token.places(), capacity)
    }

    /// A request that waits keeps its place from now on, and its message has a share of its own.
    pub(crate) fn keep_place(&mut self, id: RequestId) {
        if let Some((group, places)) = self.get(id).map(|request| (request.group, request.token.places())) {
            self.shares.take(group, places);
        }
    }

    /// A request keeps its place no longer: the share of its message is all that it has.
    pub(crate) fn let_place_go(&mut self, id: RequestId) {
        if let Some((group, places)) = self
            .get(id)
            .filter(|request| request.came != Came::Between)
            .map(|request| (request.group, request.token.places()))
        {
            self.shares.give_back(group, places);
        }
    }

    /// There is room for the next message of a request that keeps its place.
    pub(crate) fn admits_next(&self, id: RequestId, group: Group, token: &Token, capacity: usize) -> bool {
        let known = self.get(id).map_or(0, |before| match before.came {
            Came::Between => before.token.places(),
            _ => 2 * before.token.places(),
        });
        self.shares.admits(group, (2 * token.places()).saturating_sub(known), capacity)
    }

    /// A request arrived, and is admitted.
    #[inline]
    pub(crate) fn insert(&mut self, now: Instant, request: impl FnOnce() -> Waiting<P>) -> Option<RequestId> {
        self.generation = self.generation.wrapping_add(1);
        let (generation, separate_at) = (self.generation, now + self.separate_after);
        let slot = || Slot { request: Waiting { generation, ..request() }, links: Links::default(), separate_at };
        let index = self.slots.insert_with(slot)?;
        let request = &self.slots[index].request;
        self.shares.take(request.group, request.token.places());
        if request.rules.keeping() == Keeping::Reserved {
            self.reserved.take(request.group, 1);
        }
        if request.is_timed() {
            self.unacknowledged.push_back(&mut self.slots, index);
            self.timers += 1;
        }
        Some(RequestId { index, generation })
    }

    /// The places that are reserved for the bodies of responses, by source.
    #[inline]
    pub(crate) fn reserved(&self) -> &Shares {
        &self.reserved
    }

    /// A request has no place reserved any more, if it had one.
    fn release(&mut self, keeping: Keeping, group: Group) {
        if keeping == Keeping::Reserved {
            self.reserved.give_back(group, 1);
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&Waiting<P>> {
        let slot = self.slots.get(id.index).filter(|slot| slot.request.generation == id.generation)?;
        Some(&slot.request)
    }

    /// A request was acknowledged with an Empty ACK; its response will need the state of this peer.
    pub(crate) fn acknowledged(&mut self, id: RequestId, peer: u32) {
        if self.get(id).is_some_and(Waiting::can_piggyback) {
            self.disarm(id.index);
            let request = &mut self.slots[id.index].request;
            request.peer = Number::of(peer);
            let rest = request.allowance.map(|allowance| allowance.get().saturating_sub(EMPTY_BYTES));
            request.allowance = rest.map(|rest| NonZeroU16::new(rest).unwrap_or(NonZeroU16::MIN));
        }
    }

    /// The last message of a request is about to be answered, and another one follows: the request keeps its place and the share of that.
    /// The message's own goes with the answer, or must be given back. The answer is what was asked.
    pub(crate) fn pause(&mut self, id: RequestId) -> Option<Waiting<P>> {
        let request = self.get(id)?.clone();
        if request.is_timed() {
            self.disarm(id.index);
        }
        self.release(request.rules.keeping(), request.group);
        let paused = &mut self.slots[id.index].request;
        (paused.came, paused.peer, paused.allowance) = (Came::Between, None, None);
        paused.rules = paused.rules.with(Keeping::IfRoom);
        Some(request)
    }

    /// The next message of a request that was [paused](Self::pause) arrived, and is [admitted](Self::admits_next).
    pub(crate) fn go_on(&mut self, now: Instant, id: RequestId, request: Waiting<P>) {
        let Some(before) = self.get(id) else { return };
        // Each token takes what its length takes.
        let (group, places, keeping) = (before.group, before.token.places(), before.rules.keeping());
        self.shares.give_back(group, places);
        self.release(keeping, group);
        self.shares.take(request.group, 2 * request.token.places());
        if request.rules.keeping() == Keeping::Reserved {
            self.reserved.take(request.group, 1);
        }
        let is_timed = request.is_timed();
        self.slots[id.index].request = Waiting { generation: id.generation, ..request };
        if is_timed {
            self.slots[id.index].separate_at = now + self.separate_after;
            self.unacknowledged.push_back(&mut self.slots, id.index);
            self.timers += 1;
        }
    }

    /// What is answered to a request does not answer a block of its body.
    pub(crate) fn answer_whole(&mut self, id: RequestId) {
        if self.get(id).is_some() {
            self.slots[id.index].request.asked.forget_block1();
        }
    }

    /// A request is answered, or never will be. Its share goes with the answer, or must be given back.
    #[inline]
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Waiting<P>> {
        if self.get(id)?.is_timed() {
            self.disarm(id.index);
        }
        #[cfg(feature = "oscore")]
        if !self.protected.is_empty() {
            self.protected.remove(&id.index);
        }
        let request = self.slots.take(id.index)?.request;
        self.release(request.rules.keeping(), request.group);
        Some(request)
    }

    /// A request that waits, or its next message, was protected like this.
    #[inline]
    pub(crate) fn protect(&mut self, id: RequestId, security: &Security) {
        #[cfg(feature = "oscore")]
        if !security.is_plain() {
            self.protected.insert(id.index, security.clone());
        }
        #[cfg(not(feature = "oscore"))]
        let _ = (self, id, security);
    }

    /// How the response to a request that waits is to be protected.
    #[inline]
    pub(crate) fn security(&self, id: RequestId) -> &Security {
        #[cfg(feature = "oscore")]
        if !self.protected.is_empty()
            && self.get(id).is_some()
            && let Some(security) = self.protected.get(&id.index)
        {
            return security;
        }
        #[cfg(not(feature = "oscore"))]
        let _ = (self, id);
        &Security::PLAIN
    }

    /// A response takes a share although its request does not wait: it leaves in sets. It is given back with its exchange.
    pub(crate) fn take_share(&mut self, group: Group, token: &Token) {
        self.shares.take(group, token.places());
    }

    /// The response to a request is over.
    #[inline]
    pub(crate) fn give_back(&mut self, group: Group, token: &Token) {
        self.shares.give_back(group, token.places());
    }

    /// When something must be sent for the first of them.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        Some(self.slots.get(self.unacknowledged.first()?)?.separate_at)
    }

    /// A request for which something must be sent now.
    pub(crate) fn due(&self, now: Instant) -> Option<RequestId> {
        let index = self.unacknowledged.first()?;
        let slot = self.slots.get(index).filter(|slot| slot.separate_at <= now)?;
        Some(RequestId { index, generation: slot.request.generation })
    }

    /// How many wait for their response.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many wait for a time.
    pub(crate) fn timers(&self) -> usize {
        self.timers
    }

    fn disarm(&mut self, index: u32) {
        self.unacknowledged.remove(&mut self.slots, index);
        self.timers -= 1;
    }
}

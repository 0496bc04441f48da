//! [`PendingRequests`]: received requests that await a response, without a time limit.
//!
//! Separate from deduplication: an entry there expires once no duplicate can arrive, but a handler
//! may take longer, and its response must still be sent.
//!
//! ```text
//!  arrived ──┬── answered in time ──> piggybacked on the ACK, over
//!            └── separate_after ──> Empty ACK ──> answered ──> separate response, an exchange
//! ```

#[cfg(feature = "oscore")]
use alloc::collections::BTreeMap;
use core::net::IpAddr;
use core::num::NonZeroU16;
use core::time::Duration;

use crate::blockwise::BlockOptions;
use crate::codec::{MessageId, NoResponse, Token};
use crate::config::SharedConfig;
use crate::security::Security;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Compact, CreateOnDemand, Linked, Links, List};
use crate::transport::{PeerIndex, Remembered, RequestId, RequestIndex};
use conche_cc::Instant;

pub(crate) const EMPTY_BYTES: u16 = 4;

/// A received request that awaits its response.
#[derive(Clone, Debug)]
pub(crate) struct PendingRequest<P> {
    pub(crate) from: P,
    pub(crate) local: Option<IpAddr>,
    pub(crate) id: MessageId,
    pub(crate) token: Token,
    /// Request counter, assigned on insertion; here to avoid padding.
    pub(crate) generation: u32,
    pub(crate) kind: RequestKind,
    /// Peer state for a separate or Non-confirmable response: held from the arrival of a
    /// Non-confirmable request, or from the Empty ACK.
    pub(crate) peer: Option<Compact<PeerIndex>>,
    pub(crate) remembered: Option<Remembered>,
    pub(crate) group: Group,
    pub(crate) rules: ResponseRules,
    pub(crate) requested: BlockOptions,
    /// In bytes; `None` without limit.
    pub(crate) allowance: Option<NonZeroU16>,
}

/// The unwanted responses, and the storage of the body, in one byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseRules(u8);

impl ResponseRules {
    const UNWANTED: u8 = (1 << 5) - 1;
    const RESERVED: u8 = 1 << 6;
    const ONCE: u8 = 1 << 7;

    #[inline]
    pub(crate) const fn new(unwanted: NoResponse, storage: BodyStorage) -> Self {
        Self(unwanted.0 & Self::UNWANTED).with(storage)
    }

    #[inline]
    pub(crate) const fn unwanted(self) -> NoResponse {
        NoResponse(self.0 & Self::UNWANTED)
    }

    #[inline]
    pub(crate) const fn storage(self) -> BodyStorage {
        match self.0 & (Self::RESERVED | Self::ONCE) {
            0 => BodyStorage::IfRoom,
            Self::RESERVED => BodyStorage::Reserved,
            _ => BodyStorage::Once,
        }
    }

    #[inline]
    const fn with(self, storage: BodyStorage) -> Self {
        let flag = match storage {
            BodyStorage::IfRoom => 0,
            BodyStorage::Reserved => Self::RESERVED,
            BodyStorage::Once => Self::ONCE,
        };
        Self(self.0 & Self::UNWANTED | flag)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyStorage {
    /// Otherwise the client repeats the request later: its method is safe.
    IfRoom,
    Reserved,
    /// The method is not safe, hence must not be repeated.
    Once,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Confirmable,
    NonConfirmable,
    /// Sent to a group that this endpoint is a member of.
    ToGroup(ResponseFilter),
    /// The last message was answered; the next one for another block has not arrived.
    BetweenBlocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseFilter {
    /// Not specified: useful responses only (RFC 7252 §8.2).
    Default,
    /// Those that the No-Response option leaves (RFC 7967 §2.1).
    NoResponseOption,
}

impl<P> PendingRequest<P> {
    /// Returns `true` if nothing was sent for the request.
    pub(crate) fn can_piggyback(&self) -> bool {
        self.kind == RequestKind::Confirmable && self.peer.is_none()
    }

    pub(crate) fn is_to_group(&self) -> bool {
        matches!(self.kind, RequestKind::ToGroup(_))
    }

    /// Returns `true` if a late response requires an Empty ACK first.
    fn is_timed(&self) -> bool {
        self.can_piggyback()
    }
}

#[derive(Debug)]
struct Slot<P> {
    request: PendingRequest<P>,
    /// In the list of Confirmable requests not acknowledged yet, in order of arrival.
    links: Links,
    separate_at: Instant,
}

struct InOrder;

impl<P> Linked<InOrder> for Slot<P> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[derive(Debug)]
pub(crate) struct PendingRequests<P> {
    slots: Arena<Slot<P>, RequestIndex>,
    generation: u32,
    separate_after: Duration,
    /// Requests that need an Empty ACK in time, in order of arrival and of deadlines.
    unacknowledged: List<InOrder, RequestIndex>,
    timers: usize,
    /// Requests and separate responses, by source.
    shares: Shares,
    /// Places reserved for response bodies, by source.
    reserved: Shares,
    /// Apart because most requests have no protection.
    #[cfg(feature = "oscore")]
    protected: BTreeMap<RequestIndex, Security>,
}

impl<P> CreateOnDemand for PendingRequests<P> {
    type Config = SharedConfig;

    fn empty<'a>() -> &'a Self
    where
        Self: 'a,
    {
        const { &Self::with(Duration::ZERO) }
    }

    fn create(config: &SharedConfig) -> Self {
        Self::with(config.separate_after)
    }
}

impl<P> PendingRequests<P> {
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

impl<P: Copy> PendingRequests<P> {
    pub(crate) const BYTES: usize = Arena::<Slot<P>, RequestIndex>::PLACE_BYTES;

    /// Returns `true` if a group may hold a request that counts as `places`, of `capacity` for all
    /// groups.
    #[inline]
    pub(crate) fn admits(&self, group: Group, places: usize, capacity: usize) -> bool {
        self.shares.admits(group, places, capacity)
    }

    /// Returns `true` if there is room for a message beside the lasting place of its request.
    pub(crate) fn admits_in_parts(&self, group: Group, token: &Token, capacity: usize) -> bool {
        self.shares.admits(group, 2 * token.places(), capacity)
    }

    /// Reserves a lasting place for a request; its current message has its own share.
    pub(crate) fn keep_place(&mut self, id: RequestId) {
        if let Some((group, places)) = self.get(id).map(|request| (request.group, request.token.places())) {
            self.shares.take(group, places);
        }
    }

    /// Releases the lasting place of a request; the share of its current message remains.
    pub(crate) fn let_place_go(&mut self, id: RequestId) {
        if let Some((group, places)) = self
            .get(id)
            .filter(|request| request.kind != RequestKind::BetweenBlocks)
            .map(|request| (request.group, request.token.places()))
        {
            self.shares.give_back(group, places);
        }
    }

    pub(crate) fn admits_next(&self, id: RequestId, group: Group, token: &Token, capacity: usize) -> bool {
        let known = self.get(id).map_or(0, |before| match before.kind {
            RequestKind::BetweenBlocks => before.token.places(),
            _ => 2 * before.token.places(),
        });
        self.shares.admits(group, (2 * token.places()).saturating_sub(known), capacity)
    }

    #[inline]
    pub(crate) fn insert(&mut self, now: Instant, request: impl FnOnce() -> PendingRequest<P>) -> Option<RequestId> {
        self.generation = self.generation.wrapping_add(1);
        let (generation, separate_at) = (self.generation, now + self.separate_after);
        let slot =
            || Slot { request: PendingRequest { generation, ..request() }, links: Links::default(), separate_at };
        let index = self.slots.insert_with(slot)?;
        let request = &self.slots[index].request;
        self.shares.take(request.group, request.token.places());
        if request.rules.storage() == BodyStorage::Reserved {
            self.reserved.take(request.group, 1);
        }
        if request.is_timed() {
            self.unacknowledged.push_back(&mut self.slots, index);
            self.timers += 1;
        }
        Some(RequestId { index, generation })
    }

    #[inline]
    pub(crate) fn reserved(&self) -> &Shares {
        &self.reserved
    }

    fn release(&mut self, storage: BodyStorage, group: Group) {
        if storage == BodyStorage::Reserved {
            self.reserved.give_back(group, 1);
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&PendingRequest<P>> {
        let slot = self.slots.get(id.index).filter(|slot| slot.request.generation == id.generation)?;
        Some(&slot.request)
    }

    /// Records an Empty ACK; the separate response needs this peer.
    pub(crate) fn acknowledged(&mut self, id: RequestId, peer: PeerIndex) {
        if self.get(id).is_some_and(PendingRequest::can_piggyback) {
            self.disarm(id.index);
            let request = &mut self.slots[id.index].request;
            request.peer = Compact::of(peer);
            let rest = request.allowance.map(|allowance| allowance.get().saturating_sub(EMPTY_BYTES));
            request.allowance = rest.map(|rest| NonZeroU16::new(rest).unwrap_or(NonZeroU16::MIN));
        }
    }

    /// Pauses a request that will have another message. It keeps its place; the share of the
    /// message goes with its response or must be given back.
    pub(crate) fn pause(&mut self, id: RequestId) -> Option<PendingRequest<P>> {
        let request = self.get(id)?.clone();
        if request.is_timed() {
            self.disarm(id.index);
        }
        self.release(request.rules.storage(), request.group);
        let paused = &mut self.slots[id.index].request;
        (paused.kind, paused.peer, paused.allowance) = (RequestKind::BetweenBlocks, None, None);
        paused.rules = paused.rules.with(BodyStorage::IfRoom);
        Some(request)
    }

    /// Resumes a request; its next message must be [admitted](Self::admits_next).
    pub(crate) fn go_on(&mut self, now: Instant, id: RequestId, request: PendingRequest<P>) {
        let Some(before) = self.get(id) else { return };
        // Weights differ if the token lengths do.
        let (group, places, storage) = (before.group, before.token.places(), before.rules.storage());
        self.shares.give_back(group, places);
        self.release(storage, group);
        self.shares.take(request.group, 2 * request.token.places());
        if request.rules.storage() == BodyStorage::Reserved {
            self.reserved.take(request.group, 1);
        }
        let is_timed = request.is_timed();
        self.slots[id.index].request = PendingRequest { generation: id.generation, ..request };
        if is_timed {
            self.slots[id.index].separate_at = now + self.separate_after;
            self.unacknowledged.push_back(&mut self.slots, id.index);
            self.timers += 1;
        }
    }

    pub(crate) fn answer_whole(&mut self, id: RequestId) {
        if self.get(id).is_some() {
            self.slots[id.index].request.requested.forget_block1();
        }
    }

    /// Its share goes with the response or must be given back.
    #[inline]
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<PendingRequest<P>> {
        if self.get(id)?.is_timed() {
            self.disarm(id.index);
        }
        #[cfg(feature = "oscore")]
        if !self.protected.is_empty() {
            self.protected.remove(&id.index);
        }
        let request = self.slots.take(id.index)?.request;
        self.release(request.rules.storage(), request.group);
        Some(request)
    }

    #[inline]
    pub(crate) fn protect(&mut self, id: RequestId, security: &Security) {
        #[cfg(feature = "oscore")]
        if !security.is_plain() {
            self.protected.insert(id.index, security.clone());
        }
        #[cfg(not(feature = "oscore"))]
        let _ = (self, id, security);
    }

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

    pub(crate) fn take_share(&mut self, group: Group, token: &Token) {
        self.shares.take(group, token.places());
    }

    #[inline]
    pub(crate) fn give_back(&mut self, group: Group, token: &Token) {
        self.shares.give_back(group, token.places());
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        Some(self.slots.get(self.unacknowledged.first()?)?.separate_at)
    }

    pub(crate) fn due(&self, now: Instant) -> Option<RequestId> {
        let index = self.unacknowledged.first()?;
        let slot = self.slots.get(index).filter(|slot| slot.separate_at <= now)?;
        Some(RequestId { index, generation: slot.request.generation })
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn timers(&self) -> usize {
        self.timers
    }

    fn disarm(&mut self, index: RequestIndex) {
        self.unacknowledged.remove(&mut self.slots, index);
        self.timers -= 1;
    }
}

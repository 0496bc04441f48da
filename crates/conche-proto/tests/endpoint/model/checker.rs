//! [`Checker`]: observes an endpoint, and panics when an invariant is violated.

mod settled;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use conche_proto::codec::{Header, Message, MessageId, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::{
    EndpointConfig, Event, ExchangeId, ExchangeStats, IncompleteBody, Instant, Limits, ObserverId, SubscriptionId,
    Transmit,
};

use super::Address;
use super::bursts::Bursts;
use super::configurations::ROOM;
use super::flows::Flows;
use super::track::{Sent, Track};

/// Maximum lifetime of a deduplication entry, for any parameters: 13 days.
const LONGEST_MEMORY: Duration = Duration::from_nanos(1 << 50);

type Handled = (Address, Option<IpAddr>, MessageId, Type, Token);

#[derive(Debug)]
pub struct Checker {
    config: EndpointConfig,
    /// The driver polls exactly when requested: after a clock jump everything is late.
    pub punctual: bool,
    /// Intervals never shrink, unless a controller delays retransmissions.
    pub backoff_shows: bool,
    pub local: Option<IpAddr>,
    exchanges: BTreeMap<ExchangeId, Track>,
    /// Unacknowledged Confirmable messages.
    outstanding: HashMap<Address, u16>,
    ids: HashMap<(Address, MessageId), Instant>,
    answered: HashMap<Address, Instant>,
    /// Received Confirmable messages: how many may still be answered with ACK or RST, and their
    /// tokens.
    answerable: HashMap<(Address, MessageId), (u32, Vec<Token>)>,
    /// By peer and token, which a peer can reject.
    rejectable: Vec<(Address, Token)>,
    /// How long requests are remembered, and whether they may be evicted.
    handled: HashMap<Handled, (Instant, bool)>,
    subscriptions: HashMap<SubscriptionId, ExchangeId>,
    /// Not reported as gone.
    observers: HashMap<ObserverId, (Address, u64)>,
    /// Idempotent entries may have been evicted.
    forgetful: bool,
    bursts: Option<Bursts>,
    pub(super) flows: Flows,
}

impl Checker {
    pub fn new(config: &EndpointConfig) -> Self {
        Self {
            config: config.clone(),
            punctual: true,
            backoff_shows: config.envelope.monotonic_backoff,
            local: None,
            exchanges: BTreeMap::new(),
            outstanding: HashMap::new(),
            ids: HashMap::new(),
            answered: HashMap::new(),
            answerable: HashMap::new(),
            rejectable: Vec::new(),
            handled: HashMap::new(),
            subscriptions: HashMap::new(),
            observers: HashMap::new(),
            forgetful: false,
            bursts: Bursts::of(config),
            flows: Flows::default(),
        }
    }

    pub fn opened(&mut self, now: Instant, id: ExchangeId, to: Address, timeout: Option<Duration>) {
        let ends_by = now + timeout.unwrap_or(Duration::MAX).min(self.longest_exchange());
        assert!(self.exchanges.insert(id, Track::new(to, ends_by)).is_none(), "{id:?} was opened before");
    }

    pub fn lengthened(&self, token: Token) -> Token {
        match (self.config.longest_token, token.as_slice()) {
            (8, _) | (_, []) => token,
            (_, bytes) => Token::extended(&bytes.repeat(usize::from(bytes[0]) % 48)).unwrap_or(token),
        }
    }

    /// The token belongs to the exchange's last message, or to one of its burst (RFC 9177 §6).
    fn used(&self, id: ExchangeId, token: &Token) -> bool {
        let is_first = self.exchanges[&id].first.as_ref().is_some_and(|first| first.token == *token);
        is_first || self.bursts.as_ref().is_some_and(|bursts| bursts.used(id, token))
    }

    /// The statistics count all messages of an exchange, including retransmissions. Not required if
    /// the peer rejected the token.
    fn counted(&self, id: ExchangeId, course: &ExchangeStats) -> bool {
        let track = &self.exchanges[&id];
        let in_bursts = self.bursts.as_ref().map_or(0, |bursts| bursts.left(id));
        let left = track.before + track.sent.len() + in_bursts;
        course.transmissions as usize == left || self.config.token_length > 8
    }

    pub fn notified(&mut self) {
        if let Some(bursts) = &mut self.bursts {
            bursts.notified();
        }
    }

    pub fn subscribed(&mut self, id: SubscriptionId, exchange: ExchangeId) {
        assert!(self.subscriptions.insert(id, exchange).is_none(), "{id:?} was opened before");
    }

    /// `was_open` is the endpoint's answer.
    pub fn unsubscribed(&mut self, id: SubscriptionId, was_open: bool) {
        let exchange = self.subscriptions.remove(&id);
        assert_eq!(was_open, exchange.is_some(), "{id:?}: what the endpoint answers and what events told differ");
        if let Some(exchange) = exchange {
            self.ended_silently(exchange);
        }
    }

    pub fn subscribed_to(&self, id: SubscriptionId) -> Option<Address> {
        self.subscriptions.get(&id).map(|exchange| self.exchanges[exchange].to)
    }

    pub fn observed(&mut self, id: ObserverId, from: Address, topic: u64) {
        assert!(self.observers.insert(id, (from, topic)).is_none(), "{id:?} was entered before");
    }

    pub fn dismissed(&mut self, id: ObserverId, was_there: bool) {
        let known = self.observers.remove(&id).is_some();
        assert!(known || !was_there, "{id:?} was there though it was told to be gone");
    }

    fn ended_silently(&mut self, id: ExchangeId) {
        self.no_longer_outstanding(id);
        self.exchanges.get_mut(&id).expect("only known exchanges end").ended = true;
        let _ = self.bursts.as_mut().map(|bursts| bursts.ended(id));
    }

    /// `was_open` is the endpoint's answer.
    pub fn cancelled(&mut self, id: ExchangeId, was_open: bool) {
        let track = self.exchanges.get_mut(&id).expect("only known exchanges are cancelled");
        assert_eq!(was_open, !track.ended, "{id:?}: what cancel answers and what events told differ");
        if was_open {
            self.ended_silently(id);
            self.subscriptions.retain(|_, exchange| *exchange != id);
        }
    }

    pub fn superseded(&mut self, id: ExchangeId) {
        let longest = self.longest_exchange();
        let track = self.exchanges.get_mut(&id).expect("only known exchanges are superseded");
        assert!(!track.ended, "{id:?} is over");
        // Unsent content is replaced without a trace.
        track.superseded = !track.sent.is_empty();
        track.ends_by += longest;
    }

    fn waits_for_us(&mut self, id: ExchangeId) {
        self.no_longer_outstanding(id);
        let track = self.exchanges.get_mut(&id).expect("only known exchanges wait");
        assert!(!track.ended, "{id:?} goes on after its end");
        track.ends_by = Instant::FAR_FUTURE;
    }

    pub fn goes_on(&mut self, now: Instant, id: ExchangeId) {
        let longest = self.longest_exchange();
        let track = self.exchanges.get_mut(&id).expect("only known exchanges go on");
        assert!(!track.ended, "{id:?} goes on after its end");
        track.ends_by = now + longest + longest;
    }

    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    pub fn retention(&self) -> Duration {
        self.config.idle_lifetime.max(self.config.transmission.exchange_lifetime())
    }

    pub fn received(&mut self, now: Instant, from: Address, bytes: &[u8]) {
        let decoded = match self.config.longest_token {
            8 => Message::decode(bytes),
            _ => Message::decode_extended(bytes),
        };
        if let Ok(message) = &decoded {
            self.flows.received(message);
        }
        if let (Some(bursts), Ok(message)) = (&mut self.bursts, &decoded) {
            bursts.received(now, from, self.local, message);
        }
        let header = match decoded {
            Ok(message) => Some((message.header(), message.token())),
            Err(error) => error.header.map(|header| (header, Token::EMPTY)),
        };
        // A rejected long token is followed by a shorter one, which may have to wait.
        let ends_wait = |ty| ty == Type::Acknowledgement || ty == Type::Reset && self.config.token_length > 8;
        if let Some((header, _)) = header.as_ref().filter(|(header, _)| ends_wait(header.ty)) {
            self.perhaps_acknowledged(from, |sent| sent.id == header.id);
        }
        if let Some((_, token)) = header.as_ref().filter(|(header, _)| header.code.is_response()) {
            // The response continues a transfer, which may have to wait.
            self.perhaps_acknowledged(from, |sent| sent.code.is_request() && sent.token == *token);
        }
        // An unwanted notification is rejected even if it is Non-confirmable (RFC 7641 §3.6).
        let answerable = |header: &Header| {
            header.ty == Type::Confirmable || header.ty == Type::NonConfirmable && header.code.is_response()
        };
        if let Some((header, token)) = header.filter(|(header, _)| answerable(header)) {
            let (count, tokens) = self.answerable.entry((from, header.id)).or_default();
            *count += 1;
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
    }

    pub fn transmitted(&mut self, now: Instant, transmit: &Transmit<Address>, bytes: &[u8]) {
        assert!(bytes.len() <= self.config.limits.message_bytes, "a message of {} bytes was sent", bytes.len());
        let message = Message::decode_extended(bytes).expect("an endpoint sends well-formed messages");
        let sent = Sent { ty: message.ty(), code: message.code(), id: message.id(), token: message.token() };
        self.flows.transmitted(transmit.exchange, &message);
        if let Some(id) = transmit.exchange.filter(|id| !self.exchanges.contains_key(id)) {
            let registers = sent.code.is_request() && message.uint(OptionNumber::OBSERVE) == Some(0);
            let pings = sent.code.is_empty() && !self.observers.is_empty();
            assert!(sent.code.is_response() || registers || pings, "{message} of an exchange that nobody opened");
            let track = Track { own: true, ..Track::new(transmit.to, Instant::FAR_FUTURE) };
            self.exchanges.insert(id, track);
        }
        match sent.ty {
            Type::Acknowledgement | Type::Reset => self.answered(transmit, &message),
            Type::Confirmable | Type::NonConfirmable => {
                assert!(
                    sent.ty == Type::Confirmable || !sent.code.is_empty(),
                    "an Empty Non-confirmable message was sent (RFC 7252 §4.3)"
                );
                let repeats = |id| self.exchanges[&id].first.as_ref().is_some_and(|first: &Sent| first.id == sent.id);
                if !transmit.exchange.is_some_and(repeats) {
                    self.id_used(now, transmit.to, sent.id);
                }
            }
        }
        if sent.ty == Type::NonConfirmable && sent.code.is_response() {
            self.rejectable.push((transmit.to, sent.token.clone()));
        }
        match self.bursts.as_mut().and_then(|bursts| bursts.transmitted(now, transmit, &message)) {
            Some(Some(of_burst)) => return self.continues_in_bursts(of_burst),
            Some(None) => return,
            None => {}
        }
        if let Some(id) = transmit.exchange {
            use OptionNumber as N;
            // Protected messages may contain blocks.
            let cut = [N::BLOCK1, N::BLOCK2, N::Q_BLOCK1, N::Q_BLOCK2, N::OSCORE];
            let blocks = cut.map(|number| message.option(number).is_some());
            let begins_anew = self.bursts.as_ref().is_some_and(|bursts| bursts.fell_back(id));
            self.copy_left(now, id, transmit, sent, blocks.contains(&true) || begins_anew);
        }
    }

    pub fn event(&mut self, now: Instant, event: &Event<Address>) {
        self.flows.event(event);
        match event {
            Event::Request { from, message, .. } => {
                let ty = message.header().ty;
                assert!(message.code().is_request() && matches!(ty, Type::Confirmable | Type::NonConfirmable));
                self.request_handled(now, *from, message, ty);
            }
            Event::Response { exchange, from, message, course } => {
                let track = &self.exchanges[exchange];
                let sent = track.first.as_ref().expect("a response follows a request that left");
                assert!(
                    track.to == *from && self.used(*exchange, &message.token()),
                    "a response of somebody or something else"
                );
                if message.header().ty == Type::Acknowledgement {
                    assert_eq!(sent.id, message.header().id, "a piggybacked response has its request's message ID");
                }
                assert!(course.acknowledged_after.is_some());
                assert!(self.counted(*exchange, course), "{course:?} of {track:?}");
                self.ended(now, *exchange);
                self.answered.insert(*from, now);
            }
            Event::Acknowledged { exchange, from, .. } => {
                let track = &self.exchanges[exchange];
                assert_eq!(track.to, *from);
                assert!(!track.acknowledged, "{exchange:?} was acknowledged before");
                self.answered.insert(*from, now);
                // A request awaits its response; a separate response or a ping ends.
                let is_request = track.first.as_ref().is_some_and(|sent| sent.code.is_request());
                self.no_longer_outstanding(*exchange);
                self.exchanges.get_mut(exchange).expect("indexed above").acknowledged = true;
                if !is_request {
                    self.ended(now, *exchange);
                }
            }
            Event::Failed { exchange, peer, course, .. } | Event::Unanswered { exchange, peer, course } => {
                if self.flows.answers {
                    // A block of a response, sent by the endpoint itself.
                    let track = || Track { own: true, ..Track::new(*peer, Instant::FAR_FUTURE) };
                    self.exchanges.entry(*exchange).or_insert_with(track);
                }
                let track = &self.exchanges[exchange];
                assert_eq!(track.to, *peer);
                // A message superseded and acknowledged starts again.
                let begun_anew = track.superseded && course.transmissions == 0;
                let counted = self.counted(*exchange, course);
                assert!(begun_anew || counted, "{course:?} of {track:?}");
                assert!(course.timeout <= self.config.envelope.timeout_cap, "a timeout of {:?}", course.timeout);
                self.ended(now, *exchange);
            }
            Event::Block { exchange, from, .. } => {
                let track = &self.exchanges[exchange];
                assert!(track.to == *from && !track.ended, "a block of somebody else, or after the end");
                self.waits_for_us(*exchange);
            }
            Event::Wanted { body: IncompleteBody::Request(exchange), .. } => self.waits_for_us(*exchange),
            Event::Wanted { .. } | Event::Part { .. } | Event::StreamOver { .. } => {}
            Event::Rejected { from, token } => {
                let left = self.rejectable.iter().position(|(to, sent)| (to, sent) == (from, token));
                self.rejectable.swap_remove(left.expect("a response that left, and was not rejected before"));
            }
            Event::Notification { subscription, .. } | Event::Stale { subscription, .. } => {
                assert!(self.subscriptions.contains_key(subscription), "{event:?} of a subscription that is over");
            }
            Event::SubscriptionOver { subscription, .. } => {
                let exchange = self.subscriptions.remove(subscription).expect("a subscription is over once");
                assert!(self.exchanges[&exchange].ended, "{exchange:?} has no end of its own");
            }
            Event::ObserverGone { observer, from, topic, .. } => {
                let gone = self.observers.remove(observer);
                assert_eq!(gone, Some((*from, *topic)), "{observer:?} is gone once");
            }
            #[cfg(feature = "oscore")]
            Event::Reserve(_) => {}
            event => panic!("the checker does not know {event:?}"),
        }
    }

    pub fn finish(&self) {
        let open: Vec<_> = self.exchanges.iter().filter(|(_, track)| !track.ended && !track.own).collect();
        assert!(open.is_empty(), "exchanges without an end: {open:?}");
        assert!(self.outstanding.is_empty(), "slots that were never freed: {:?}", self.outstanding);
    }

    /// Queueing or a pause, all transmissions, and the wait for a separate response.
    fn longest_exchange(&self) -> Duration {
        let EndpointConfig { transmission, envelope, queue_lifetime, longest_pause, response_timeout, .. } =
            &self.config;
        let transmissions = transmission.max_transmit_span().saturating_add(envelope.timeout_cap);
        let response = response_timeout.unwrap_or(transmission.exchange_lifetime());
        let pause = longest_pause.unwrap_or(queue_lifetime.saturating_add(transmission.exchange_lifetime()));
        pause.max(*queue_lifetime).max(response).saturating_add(transmissions).saturating_add(response)
    }

    /// A sent ACK or RST answers exactly one received Confirmable message.
    fn answered(&mut self, transmit: &Transmit<Address>, message: &Message<'_>) {
        let (id, code) = (message.id(), message.code());
        assert!(transmit.exchange.is_none() && transmit.attempt == 0);
        let answerable = self.answerable.get_mut(&(transmit.to, id)).filter(|(count, _)| *count > 0);
        let Some((count, tokens)) = answerable else {
            panic!("{message} answers no Confirmable message of {}, or the same one twice", transmit.to)
        };
        *count -= 1;
        assert!(!code.is_request() && (message.ty() == Type::Acknowledgement || code.is_empty()), "{message}");
        assert!(code.is_empty() || tokens.contains(&message.token()), "{message} echoes none of {tokens:?}");
    }

    fn id_used(&mut self, now: Instant, to: Address, id: MessageId) {
        let lifetime = self.config.transmission.exchange_lifetime();
        let Some(before) = self.ids.insert((to, id), now) else { return };
        // An unproven peer is evicted from a full table and loses its IDs; when it returns, the
        // first ID may be one that it had. A peer that has answered stays until its state is old.
        let answered = self.answered.get(&to);
        let proven = answered.is_some_and(|&at| at <= before && before - at < lifetime);
        let stays = self.config.limits.peers >= ROOM || proven && self.config.idle_lifetime >= lifetime;
        assert!(!stays || now - before >= lifetime, "{id} is used again toward {to} after {:?}", now - before);
    }

    fn continues_in_bursts(&mut self, id: ExchangeId) {
        self.no_longer_outstanding(id);
        let longest = self.longest_exchange();
        let track = self.exchanges.get_mut(&id).expect("only known exchanges send bursts");
        assert!(!track.ended, "{id:?} sends after its end");
        (track.acknowledged, track.ends_by) = (true, track.ends_by + longest);
    }

    fn copy_left(&mut self, now: Instant, id: ExchangeId, transmit: &Transmit<Address>, sent: Sent, blocks: bool) {
        // A transfer continues, or the peer rejected a long token.
        let goes_on = |first: &Sent| blocks || first.token.is_extended() && !sent.token.is_extended();
        let in_blocks = sent.code.is_request() || blocks && sent.ty == Type::Confirmable && self.exchanges[&id].own;
        let another = |first: &Sent| goes_on(first) && first.id != sent.id && first.code == sent.code && in_blocks;
        if transmit.attempt == 0 && self.exchanges[&id].first.as_ref().is_some_and(another) {
            // Previous messages of the exchange were answered.
            self.no_longer_outstanding(id);
            let longest = self.longest_exchange();
            let track = self.exchanges.get_mut(&id).expect("looked up above");
            track.before += track.sent.len();
            (track.acknowledged, track.doubtful, track.first) = (false, false, None);
            track.sent.clear();
            track.ends_by += longest;
        }
        let track = self.exchanges.get_mut(&id).expect("only opened exchanges send");
        assert!(!track.ended, "{id:?} sends after its end");
        let follows = transmit.attempt == 0 && !track.sent.is_empty() && track.superseded;
        if follows {
            track.sent.clear();
        }
        assert_eq!((transmit.to, usize::from(transmit.attempt)), (track.to, track.sent.len()));
        if track.own && track.first.as_ref().is_some_and(|first| first.id != sent.id) {
            let first = track.first.as_ref();
            // A ping of the observer has no token.
            let is_token = |first: &Sent| first.token == sent.token || first.code.is_empty();
            let same = first.is_some_and(|first| is_token(first) && first.ty == sent.ty);
            assert!(same, "{sent:?} supersedes another message: {track:?}");
            track.first = Some(sent.clone());
        } else if track.first.as_ref().is_some_and(|first| first.id != sent.id) {
            assert!(std::mem::take(&mut track.superseded), "all copies of a message are the same: {track:?}, {sent:?}");
            track.first = Some(sent.clone());
        }
        assert_eq!(*track.first.get_or_insert(sent.clone()), sent, "all copies of a message are the same");
        track.sent.push(now);
        if transmit.attempt == 0 {
            if sent.ty == Type::Confirmable && !track.own && (!follows || std::mem::take(&mut track.doubtful)) {
                *self.outstanding.entry(transmit.to).or_default() += 1;
            }
            return;
        }
        assert_eq!(sent.ty, Type::Confirmable, "a Non-confirmable message is sent once");
        assert!(!track.acknowledged, "{id:?} is repeated after it was acknowledged");
        let transmission = &self.config.transmission;
        assert!(transmit.attempt <= transmission.max_retransmit, "{transmit:?}");
        assert!(now - track.sent[0] <= transmission.max_transmit_span(), "beyond MAX_TRANSMIT_SPAN: {track:?}");
        let gaps: Vec<_> = track.sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (&last, before) = gaps.split_last().expect("a retransmission follows a transmission");
        let envelope = &self.config.envelope;
        assert!(last >= envelope.timeout_floor.min(envelope.timeout_cap), "a gap of {last:?}: {track:?}");
        if self.punctual && self.backoff_shows {
            assert!(last <= envelope.timeout_cap, "a gap of {last:?}: {track:?}");
            assert!(before.last().is_none_or(|&before| before <= last), "gaps shrink: {gaps:?}");
        }
    }

    fn request_handled(&mut self, now: Instant, from: Address, message: &OwnedMessage, ty: Type) {
        let (id, code) = (message.header().id, message.code());
        let transmission = &self.config.transmission;
        let lifetime =
            if ty == Type::Confirmable { transmission.exchange_lifetime() } else { transmission.non_lifetime() };
        let lifetime = lifetime.min(LONGEST_MEMORY);
        let request = (now + lifetime, code.is_idempotent());
        if let Some((until, idempotent)) = self.handled.insert((from, self.local, id, ty, message.token()), request) {
            let excused = self.forgetful && idempotent;
            assert!(until <= now || excused, "{code:?} {id} of {from} is handled twice within its lifetime");
        }
    }

    fn ended(&mut self, now: Instant, id: ExchangeId) {
        self.no_longer_outstanding(id);
        let track = self.exchanges.get_mut(&id).expect("only opened exchanges end");
        assert!(!std::mem::replace(&mut track.ended, true), "{id:?} ends twice");
        let _ = self.bursts.as_mut().map(|bursts| bursts.ended(id));
        assert!(!self.punctual || now <= track.ends_by, "{id:?} ends at {now:?}: {track:?}");
    }

    fn perhaps_acknowledged(&mut self, from: Address, is_it: impl Fn(&Sent) -> bool) {
        let fits = |track: &Track| track.to == from && !track.ended && track.first.as_ref().is_some_and(&is_it);
        let Some(exchange) = self.exchanges.iter().find_map(|(&id, track)| fits(track).then_some(id)) else { return };
        self.no_longer_outstanding(exchange);
        self.exchanges.get_mut(&exchange).expect("found above").doubtful = true;
    }

    fn no_longer_outstanding(&mut self, id: ExchangeId) {
        let track = &self.exchanges[&id];
        let occupies = track.first.as_ref().is_some_and(|sent| sent.ty == Type::Confirmable);
        if occupies
            && !track.acknowledged
            && !track.doubtful
            && !track.ended
            && !track.own
            && let Some(count) = self.outstanding.get_mut(&track.to)
        {
            *count -= 1;
            if *count == 0 {
                self.outstanding.remove(&track.to);
            }
        }
    }
}

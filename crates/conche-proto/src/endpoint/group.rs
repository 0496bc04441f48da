//! Received group requests (RFC 7252 §8): accepted without an answer, and responded to within the
//! leisure.

use super::leisure::Leisurely;
use super::options::Said;
use super::receive::Arrival;
use super::{Datagram, Endpoint, Event};
use crate::PeerKey;
use crate::codec::{Message, OptionNumber, OwnedMessage, Type};
use crate::exchange::Response;
use crate::incoming::{Came, Interest, RequestId, Waiting};
use crate::security::Security;
use crate::shares::Group;
use crate::transport::Source;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Returns `true` if the request was sent to a group. The response leaves at a random time
    /// within the leisure, and only if it is useful. Returns `false` also if the request no longer
    /// awaits a response.
    #[must_use]
    pub fn came_to_group(&self, request: RequestId) -> bool {
        self.incoming.get(request).is_some_and(|waiting| waiting.is_to_group())
    }

    /// Handles a datagram sent to a group. Only Non-confirmable requests are accepted. Everything
    /// else, malformed or not, is ignored: even a Reset would come from all members at once (§8.1).
    pub(super) fn receive_by_group(&mut self, now: Instant, datagram: &Datagram<'_, P>) {
        let &Datagram { from, bytes, .. } = datagram;
        let message = Message::read(bytes, self.transport.config.longest_echoed_token()).ok().filter(|message| {
            self.transport.config.multicast.is_some()
                && message.ty() == Type::NonConfirmable
                && message.code().is_request()
        });
        let Some(message) = message else {
            self.transport.stats.multicast += 1;
            return;
        };
        // A group address cannot be a source address: the operating system chooses one (§8.2).
        let source = Source { from, local: None };
        let hash = self.transport.peers.hash(&from);
        if let Some(peer) = self.transport.peers.find(&from, hash) {
            self.transport.peers.get_mut(peer).heard();
        }
        self.receive_group_request(now, source, hash, &message);
    }

    fn receive_group_request(&mut self, now: Instant, source: Source<P>, hash: u64, message: &Message<'_>) {
        let limiter = self.transport.limiters.as_mut().and_then(|limiters| limiters.requests.as_mut());
        if limiter.is_some_and(|limiter| !limiter.admits(now, Group::of(hash))) {
            self.transport.stats.limited += 1;
            return;
        }
        let what = self.transport.fingerprint(source, hash, message);
        if self.transport.received.find(now, what).is_some() {
            self.transport.stats.duplicates += 1;
            return;
        }
        // An error would be suppressed (§8.2). Blocks of a response after the first must be
        // requested from a single server (RFC 7959 §2.8), and Q-Block2 is ignored (RFC 9177 §4.8).
        let Some(said) = self.acceptable(message, &Security::PLAIN).ok().filter(|Said { asked, .. }| {
            !asked.is_in_sets() && asked.block1().is_none() && asked.block2().is_none_or(|block| block.num == 0)
        }) else {
            return;
        };
        let group = self.transport.group_of(&source.from, hash);
        if !self.leisure.admits(group, self.transport.config.limits.group_requests) {
            self.transport.stats.no_leisure += 1;
            return;
        }
        let interest =
            if message.option(OptionNumber::NO_RESPONSE).is_some() { Interest::Said } else { Interest::Unsaid };
        let arrival = Arrival {
            source,
            hash,
            what,
            group,
            allowance: None,
            came: Came::ToGroup(interest),
            security: Security::PLAIN,
        };
        let Some(id) = self.take_in(now, &arrival, message, &said) else {
            self.transport.stats.overloaded += 1;
            return;
        };
        self.leisure.take(group);
        self.transport.stats.requests_received += 1;
        let message = OwnedMessage::pooled(*message, &mut self.requests);
        self.announce(Event::Request { id, from: source.from, message });
    }

    /// Returns `true` if the client does not want this response: according to No-Response (RFC
    /// 7967), or because it is useless as a response to a group request.
    pub(super) fn is_unwanted(waiting: &Waiting<P>, response: &Response) -> bool {
        match waiting.came {
            Came::ToGroup(Interest::Unsaid) if response.even_to_group => false,
            Came::ToGroup(Interest::Unsaid) => !response.code.is_success() || response.body.payload().is_empty(),
            _ => waiting.rules.unwanted().suppresses(response.code),
        }
    }

    /// Stores the response to a group request for later.
    pub(super) fn respond_at_leisure(&mut self, now: Instant, waiting: Waiting<P>, response: Response) {
        let by_default = self.transport.config.transmission.default_leisure;
        let leisure = self.transport.config.multicast.and_then(|multicast| multicast.leisure).unwrap_or(by_default);
        self.leisure.push(now, leisure, &mut self.transport.random, (waiting, response.code, response.body));
    }

    /// Sends the next due response to a group request as a Non-confirmable message from a unicast
    /// address. It is dropped if no message ID is free. Returns `false` if none is due.
    pub(super) fn leisure_over(&mut self, now: Instant) -> bool {
        let due = self.leisure.made().and_then(|leisure| leisure.pop_due(now));
        let Some(Leisurely { waiting, code, body, .. }) = due else { return false };
        match waiting.peer.map(|peer| self.transport.message_id(now, peer.get())) {
            Some(Ok(id)) => self.send_rejectable(&waiting, id, code, &body),
            _ => self.transport.stats.responses_expired += 1,
        }
        self.answered(now, &waiting);
        true
    }
}

//! Received group requests (RFC 7252 §8): accepted without an answer, and responded to within the
//! leisure.

use crate::PeerKey;
use crate::codec::{Message, OptionNumber, OwnedMessage, Type};
use crate::event::Event;
use crate::exchange::Response;
use crate::incoming::{Came, Interest, RequestId, Waiting};
use crate::layers::Layers;
use crate::security::Security;
use crate::server::Server;
use crate::server::leisure::Leisurely;
use crate::server::options::Said;
use crate::server::receive::Arrival;
use crate::shares::Group;
use crate::transport::{Datagram, Source};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Returns `true` if the request was sent to a group.
    #[must_use]
    pub(crate) fn came_to_group(&self, request: RequestId) -> bool {
        self.incoming.get(request).is_some_and(|waiting| waiting.is_to_group())
    }

    /// Handles a datagram sent to a group. Only Non-confirmable requests are accepted. Everything
    /// else, malformed or not, is ignored: even a Reset would come from all members at once (§8.1).
    pub(crate) fn receive_by_group(&mut self, layers: &mut Layers<P, C>, now: Instant, datagram: &Datagram<'_, P>) {
        let &Datagram { from, bytes, .. } = datagram;
        let message = Message::read(bytes, layers.transport.config.longest_echoed_token()).ok().filter(|message| {
            layers.transport.config.multicast.is_some()
                && message.ty() == Type::NonConfirmable
                && message.code().is_request()
        });
        let Some(message) = message else {
            layers.transport.stats.multicast += 1;
            return;
        };
        // A group address cannot be a source address: the operating system chooses one (§8.2).
        let source = Source { from, local: None };
        let hash = layers.transport.peers.hash(&from);
        if let Some(peer) = layers.transport.peers.find(&from, hash) {
            layers.transport.peers.get_mut(peer).heard();
        }
        self.receive_group_request(layers, now, source, hash, &message);
    }

    pub(crate) fn receive_group_request(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        source: Source<P>,
        hash: u64,
        message: &Message<'_>,
    ) {
        let limiter = layers.transport.limiters.as_mut().and_then(|limiters| limiters.requests.as_mut());
        if limiter.is_some_and(|limiter| !limiter.admits(now, Group::of(hash))) {
            layers.transport.stats.limited += 1;
            return;
        }
        let what = layers.transport.fingerprint(source, hash, message);
        if layers.transport.received.find(now, what).is_some() {
            layers.transport.stats.duplicates += 1;
            return;
        }
        // An error would be suppressed (§8.2). Blocks of a response after the first must be
        // requested from a single server (RFC 7959 §2.8), and Q-Block2 is ignored (RFC 9177 §4.8).
        let Some(said) = self.acceptable(layers, message, &Security::PLAIN).ok().filter(|Said { asked, .. }| {
            !asked.is_in_sets() && asked.block1().is_none() && asked.block2().is_none_or(|block| block.num == 0)
        }) else {
            return;
        };
        let group = layers.transport.group_of(&source.from, hash);
        if !self.leisure.admits(group, layers.transport.config.limits.group_requests) {
            layers.transport.stats.no_leisure += 1;
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
        let Some(id) = self.take_in(layers, now, &arrival, message, &said) else {
            layers.transport.stats.overloaded += 1;
            return;
        };
        self.leisure.take(group);
        layers.transport.stats.requests_received += 1;
        let message = OwnedMessage::pooled(*message, &mut layers.pool);
        layers.announce(Event::Request { id, from: source.from, message });
    }

    /// Returns `true` if the client does not want this response: according to No-Response (RFC
    /// 7967), or because it is useless as a response to a group request.
    pub(crate) fn is_unwanted(waiting: &Waiting<P>, response: &Response) -> bool {
        match waiting.came {
            Came::ToGroup(Interest::Unsaid) if response.even_to_group => false,
            Came::ToGroup(Interest::Unsaid) => !response.code.is_success() || response.body.payload().is_empty(),
            _ => waiting.rules.unwanted().suppresses(response.code),
        }
    }

    /// Stores the response to a group request for later.
    pub(crate) fn respond_at_leisure(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        waiting: Waiting<P>,
        response: Response,
    ) {
        let by_default = layers.transport.config.transmission.default_leisure;
        let leisure = layers.transport.config.multicast.and_then(|multicast| multicast.leisure).unwrap_or(by_default);
        self.leisure.push(now, leisure, &mut layers.transport.random, (waiting, response.code, response.body));
    }

    /// Sends the next due response to a group request as a Non-confirmable message from a unicast
    /// address. It is dropped if no message ID is free. Returns `false` if none is due.
    pub(crate) fn leisure_over(&mut self, layers: &mut Layers<P, C>, now: Instant) -> bool {
        let due = self.leisure.made().and_then(|leisure| leisure.pop_due(now));
        let Some(Leisurely { waiting, code, body, .. }) = due else { return false };
        match waiting.peer.map(|peer| layers.transport.message_id(now, peer.get())) {
            Some(Ok(id)) => self.send_rejectable(layers, &waiting, id, code, &body),
            _ => layers.transport.stats.responses_expired += 1,
        }
        self.answered(layers, now, &waiting);
        true
    }
}

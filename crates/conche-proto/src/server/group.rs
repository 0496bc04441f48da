//! Received requests to groups (RFC 7252 §8), whose responses leave within the leisure.

use crate::PeerKey;
use crate::codec::{Message, OptionNumber, OwnedMessage, Type};
use crate::event::Event;
use crate::incoming::{Came, Interest, RequestId};
use crate::layers::Layers;
use crate::security::Security;
use crate::server::Server;
use crate::server::options::RequestOptions;
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

    fn receive_group_request(
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
        let Some(said) =
            self.acceptable(layers, message, &Security::PLAIN).ok().filter(|RequestOptions { asked, .. }| {
                !asked.is_in_sets() && asked.block1().is_none() && asked.block2().is_none_or(|block| block.num == 0)
            })
        else {
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
}

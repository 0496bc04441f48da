//! Sources of messages: their groups, hosts and rate limits, and the fingerprints of their messages.

use alloc::boxed::Box;

use super::{Source, Transport};
use crate::PeerKey;
use crate::codec::{Header, Message, MessageId, Token, Type};
use crate::config::ResponseLimit;
use crate::hash::{Fingerprint, Keyed};
use crate::limit::Limiter;
use crate::shares::Group;
use conche_cc::Controller;

/// Returns the same number for sources that belong together.
type SourceGroups<P> = Box<dyn Fn(&P) -> u64 + Send + Sync>;

/// The application's grouping of sources.
pub(crate) struct Sources<P> {
    /// Sources with the same number share one part of a limited table.
    pub(crate) groups: Option<SourceGroups<P>>,
    /// Sources with the same number are on the same host.
    pub(crate) hosts: Option<SourceGroups<P>>,
}

impl<P> Default for Sources<P> {
    fn default() -> Self {
        Self { groups: None, hosts: None }
    }
}

/// Rate limits for the messages of each source.
#[derive(Debug, Default)]
pub(crate) struct Limiters {
    /// For requests, if configured.
    pub(crate) requests: Option<Limiter>,
    /// For Resets that reject responses, created with the first one.
    pub(crate) resets: Option<Limiter>,
}

impl Limiters {
    pub(super) fn of_requests(limit: ResponseLimit) -> Self {
        Self { requests: Some(Limiter::new(limit)), resets: None }
    }
}

impl<P: PeerKey, C: Controller> Transport<P, C> {
    /// Returns the fingerprint of a message: sender, local address, message ID, type and token.
    ///
    /// A retransmission is the same message, hence has the same type and token as the original.
    /// With both in the fingerprint, forged messages that use up the message IDs of a client do not
    /// turn the client's own messages into duplicates.
    pub(crate) fn fingerprint(&self, source: Source<P>, hash: u64, message: &Message<'_>) -> Fingerprint {
        let ty = u8::from(message.ty() == Type::Confirmable);
        self.fingerprint_of(source, hash, (ty, message.id(), message.token_bytes()))
    }

    /// Returns the fingerprint of an undecoded datagram, if it looks like a request with a token of
    /// at most 8 bytes.
    pub(crate) fn fingerprint_of_request(&self, source: Source<P>, datagram: &[u8]) -> Option<Fingerprint> {
        let header = Header::of(datagram).filter(|header| header.code.is_request())?;
        let length = usize::from(datagram.first()? & 0x0f);
        let token = datagram.get(4..4 + length).filter(|token| token.len() <= Token::MAX_LENGTH)?;
        let ty = u8::from(header.ty == Type::Confirmable);
        Some(self.fingerprint_of(source, self.peers.hash(&source.from), (ty, header.id, token)))
    }

    /// Returns the fingerprint of a message with this type (1 for Confirmable), message ID and
    /// token.
    pub(crate) fn fingerprint_of(
        &self,
        source: Source<P>,
        hash: u64,
        (ty, id, token): (u8, MessageId, &[u8]),
    ) -> Fingerprint {
        let local = source.local.map_or(0, |local| self.hash.hash(&local));
        Keyed::fingerprint(hash, local ^ self.hash.digest(ty, token), id.0)
    }

    /// Returns the host of a source.
    pub(crate) fn host_of(&self, from: &P) -> Group {
        let hosts = self.sources.as_ref().and_then(|sources| sources.hosts.as_ref());
        Group::of(hosts.map_or_else(|| self.peers.hash(from), |hosts| self.hash.hash(&hosts(from))))
    }

    /// Returns the group of a source.
    pub(crate) fn group_of(&self, from: &P, hash: u64) -> Group {
        let groups = self.sources.as_ref().and_then(|sources| sources.groups.as_ref());
        Group::of(groups.map_or(hash, |groups| self.hash.hash(&groups(from))))
    }
}

//! One observer, and one peer that observes: what [`Observers`](super::observers::Observers) keeps of each.

use core::net::IpAddr;

use super::topics::OfTopic;
use crate::blockwise::Asked;
use crate::codec::{Body, Code, MessageId, OptionNumber, Token};
use crate::exchange::ExchangeId;
use crate::incoming::RequestId;
use crate::security::Security;
use crate::shares::Group;
use crate::store::{Linked, Links, List};
use conche_cc::Instant;
use conche_cc::units::Stamp;

/// Where an observer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The request that registered it waits for its response.
    Unanswered(RequestId),
    Idle,
    /// A notification is under way.
    Sending(ExchangeId),
}

/// An observer.
#[derive(Debug)]
pub(super) struct Observer {
    pub(super) generation: u32,
    pub(super) watcher: u32,
    pub(super) topic: u32,
    /// The version of the topic that it has, or that is on the way to it.
    pub(super) seen: u32,
    pub(super) progress: Progress,
    pub(super) token: Token,
    pub(super) local: Option<IpAddr>,
    /// What its registration asks for, and in which blocks.
    pub(super) asked: Asked,
    /// Its notifications are protected like its registration.
    pub(super) security: Security,
    /// Of the notification that left last, so that a late Reset finds it.
    pub(super) last: Option<MessageId>,
    /// When that was.
    pub(super) left: Stamp,
    /// The exchange of its first response, if that is a separate one: the [generation](crate::exchange::ExchangeId) of it.
    pub(super) first: Option<u32>,
    /// The Content-Format of the first representation that it was sent, which all notifications
    /// must have (RFC 7641 §4.2).
    pub(super) format: Option<ContentFormat>,
    /// 4.06 is its last notification, as the newest state has another Content-Format.
    pub(super) over: bool,
    /// Non-confirmable notifications since it acknowledged one.
    pub(super) unconfirmed: u8,
    /// It has acknowledged a notification, or its round-trip time was known when it registered.
    pub(super) acknowledged: bool,
    pub(super) presence: Presence,
    /// When its presence was last proven, or it registered.
    pub(super) confirmed: Instant,
    pub(super) of_presence: Links,
    pub(super) of_topic: Links,
    pub(super) of_watcher: Links,
}

/// The Content-Format of a representation, which may have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentFormat(Option<u16>);

impl ContentFormat {
    /// Returns the Content-Format of a response, or `None` for a response without a representation
    /// of its own: an error, 2.03, or an empty payload without the option.
    pub(super) fn of(code: Code, body: &Body) -> Option<Self> {
        let content = body.content(code).filter(|_| code.is_success() && code != Code::VALID)?;
        let format = content.uint(OptionNumber::CONTENT_FORMAT).and_then(|format| u16::try_from(format).ok());
        (format.is_some() || !body.payload().is_empty()).then_some(Self(format))
    }
}

/// Whether an observer has proven that messages to its address reach it. Anybody can forge a
/// registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It has not, and is to be checked.
    Unproven,
    /// It is being checked: a Confirmable message is under way, or leaves as soon as it may.
    Checked,
    Proven,
}

/// A peer that observes.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) peer: u32,
    pub(super) len: u32,
    pub(super) group: Group,
    /// The host that it counts for.
    pub(super) host: Group,
    pub(super) observers: List<OfWatcher>,
}

#[derive(Debug)]
pub(super) struct OfWatcher;

/// The kind of the lists of observers by [`Presence`].
#[derive(Debug)]
pub(super) struct OfPresence;

impl Linked<OfPresence> for Observer {
    fn links(&mut self) -> &mut Links {
        &mut self.of_presence
    }
}

impl Linked<OfTopic> for Observer {
    fn links(&mut self) -> &mut Links {
        &mut self.of_topic
    }
}

impl Linked<OfWatcher> for Observer {
    fn links(&mut self) -> &mut Links {
        &mut self.of_watcher
    }
}

//! The state of one observer, and of one observing peer, in
//! [`Observers`](super::observers::Observers).

use core::net::IpAddr;

use super::topics::OfTopic;
use crate::blockwise::Asked;
use crate::codec::{Body, Code, MessageId, OptionNumber, Token};
use crate::security::Security;
use crate::shares::Group;
use crate::store::{Linked, Links, List};
use crate::transport::{ExchangeId, RequestId};
use conche_cc::Instant;
use conche_cc::units::Stamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The registration awaits its response.
    Unanswered(RequestId),
    Idle,
    /// A notification is in progress.
    Sending(ExchangeId),
}

#[derive(Debug)]
pub(super) struct Observer {
    pub(super) generation: u32,
    pub(super) watcher: u32,
    pub(super) topic: u32,
    /// Version of the topic that was sent to the observer.
    pub(super) seen: u32,
    pub(super) progress: Progress,
    pub(super) token: Token,
    pub(super) local: Option<IpAddr>,
    /// Identity and block options of the registration.
    pub(super) asked: Asked,
    /// Protection of the registration, also used for notifications.
    pub(super) security: Security,
    /// Message ID of the last notification sent, to match a late Reset.
    pub(super) last: Option<MessageId>,
    /// When it was sent.
    pub(super) left: Stamp,
    /// [Generation](crate::transport::ExchangeId) of the exchange of a separate first response.
    pub(super) first: Option<u32>,
    /// Content-Format of the first representation sent, required of all notifications (RFC 7641
    /// §4.2).
    pub(super) format: Option<ContentFormat>,
    /// The last notification is 4.06, because the newest state has another Content-Format.
    pub(super) over: bool,
    /// Number of Non-confirmable notifications since the last acknowledgement.
    pub(super) unconfirmed: u8,
    /// The observer has acknowledged a notification, or its RTT was known at registration.
    pub(super) acknowledged: bool,
    pub(super) presence: Presence,
    /// Time of the last proof of presence, or of the registration.
    pub(super) confirmed: Instant,
    pub(super) of_presence: Links,
    pub(super) of_topic: Links,
    pub(super) of_watcher: Links,
}

/// The Content-Format of a representation, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentFormat(Option<u16>);

impl ContentFormat {
    /// Returns the Content-Format of a response; `None` for a response without its own
    /// representation: an error, 2.03, or an empty payload without the option.
    pub(super) fn of(code: Code, body: &Body) -> Option<Self> {
        let content = body.content(code).filter(|_| code.is_success() && code != Code::VALID)?;
        let format = content.uint(OptionNumber::CONTENT_FORMAT).and_then(|format| u16::try_from(format).ok());
        (format.is_some() || !body.payload().is_empty()).then_some(Self(format))
    }
}

/// Whether an observer has proven that it receives at its address; registrations can be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Not proven, to be checked.
    Unproven,
    /// Check in progress: a Confirmable message was sent, or is to be sent as soon as possible.
    Checked,
    Proven,
}

/// A peer with observers.
#[derive(Debug)]
pub(super) struct ObservingPeer {
    pub(super) peer: u32,
    pub(super) len: u32,
    pub(super) group: Group,
    /// The host charged for its observers.
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

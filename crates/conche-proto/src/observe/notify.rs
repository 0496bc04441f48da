//! Selects the observers to be notified of a state, and tracks which have received it (RFC 7641
//! §4.2 to §4.5).

use super::entry::{ContentFormat, ObservingPeer, Presence, Progress};
use super::observers::{Notification, Observers, Place};
use super::topics::State;
use crate::codec::{Body, Code, MessageId, OptionNumber};
use crate::config::ObserverChecks;
use crate::transport::{Content, ExchangeId, Reliability, Response};
use conche_cc::Instant;
use conche_cc::units::Stamp;

/// Maximum number of consecutive Non-confirmable notifications before one must be acknowledged:
/// limits traffic to a forged address, and detects clients that have left silently.
const NON_IN_A_ROW: u8 = 4;

impl Observers {
    pub(crate) fn progress(&self, index: u32) -> Progress {
        self.slots[index].progress
    }

    /// Adds the Observe option to the first response, which is also a notification, with the number
    /// of the state at registration.
    pub(crate) fn first_response(&mut self, now: Instant, index: u32, response: &Response) -> Body {
        let Response { code, body, .. } = response;
        let observer = &mut self.slots[index];
        observer.format = ContentFormat::of(*code, body);
        let topic = &mut self.topics[observer.topic];
        // The response is older than a state published since the registration.
        let sequence = if observer.seen == topic.version { topic.sequence.at(now) } else { topic.sequence.before() };
        body.with_uint(OptionNumber::OBSERVE, sequence)
    }

    /// Records that the registration was answered, by `exchange` if not with the acknowledgement.
    pub(crate) fn answered(&mut self, index: u32, exchange: Option<ExchangeId>) {
        self.end_registration(index);
        let observer = &mut self.slots[index];
        (observer.progress, observer.first) = (Progress::Idle, exchange.map(|exchange| exchange.generation));
    }

    /// Records that the first response was sent as a Non-confirmable message with this ID.
    pub(crate) fn answer_left(&mut self, now: Instant, index: u32, id: MessageId) {
        let observer = &mut self.slots[index];
        (observer.last, observer.left) = (Some(id), Stamp::at(now));
    }

    /// Returns the notification for a state of a topic, if the topic has observers.
    pub(crate) fn notification(&mut self, now: Instant, name: u64, response: &Response) -> Option<Body> {
        let topic = self.topic(name)?;
        // An error ends the observation and has no sequence number (RFC 7641 §4.2).
        Some(match response.code.is_success() {
            true => response.body.with_uint(OptionNumber::OBSERVE, self.topics[topic].sequence.next(now)),
            false => response.body.clone(),
        })
    }

    /// Returns `true` if this fits as the new state of a topic. An error, which is the last state,
    /// always fits.
    pub(crate) fn has_room(&mut self, name: u64, response: &Response, capacity: usize) -> bool {
        let topic = self.topic(name).filter(|_| response.code.is_success());
        topic.is_none_or(|topic| self.payer(topic, response.body.len(), capacity).is_some())
    }

    /// Sets the new state of a topic and starts to visit its observers.
    ///
    /// Returns the number of observers; `None` if the state does not fit into `state_bytes`. An
    /// error, which is the last state, always fits.
    pub(crate) fn changed(&mut self, now: Instant, name: u64, state: State, state_bytes: usize) -> Option<usize> {
        let Some(index) = self.topic(name) else { return Some(0) };
        let capacity = state.content.code.is_success().then_some(state_bytes);
        if !self.resize(index, state.content.body.len(), capacity) {
            return None;
        }
        let topic = &mut self.topics[index];
        topic.version = topic.version.wrapping_add(1);
        let settles = now + state.settles_after();
        (topic.state, topic.settled) = (Some(state), false);
        let (len, over) = (topic.len as usize, topic.is_over());
        self.walk(index);
        self.settling.set(index, settles);
        if over {
            // The last state is sent as a Confirmable message by default, so it need not settle.
            self.settling.cancel(index);
            self.topics[index].named = false;
            self.by_name.remove(index);
        }
        Some(len)
    }

    /// Starts to visit each observer of a topic once.
    fn walk(&mut self, index: u32) {
        let topic = &mut self.topics[index];
        topic.to_visit = topic.len;
        if !core::mem::replace(&mut topic.walks, true) {
            self.walking.push_back(&mut self.topics, index);
        }
    }

    /// Returns when the next state settles or the next observer is to be checked.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.settling.next().into_iter().chain(self.next_check()).min()
    }

    /// Returns the number of states that have not settled.
    pub(crate) fn timers(&self) -> usize {
        self.settling.len()
    }

    /// Returns the next observer to be notified or checked; topics take turns.
    pub(crate) fn visit(&mut self, now: Instant) -> Option<u32> {
        if let Some(observer) = self.take_check(now) {
            return Some(observer);
        }
        while let Some(settled) = self.settling.pop_due(now) {
            self.topics[settled].settled = true;
            self.walk(settled);
        }
        while let Some(index) = self.walking.first() {
            self.walking.remove(&mut self.topics, index);
            let topic = &mut self.topics[index];
            let observer = topic.observers.first().filter(|_| topic.to_visit > 0);
            topic.walks = observer.is_some();
            let Some(observer) = observer else { continue };
            topic.to_visit -= 1;
            topic.observers.remove(&mut self.slots, observer);
            topic.observers.push_back(&mut self.slots, observer);
            self.walking.push_back(&mut self.topics, index);
            if self.is_behind(observer) || self.is_doubtful(observer) {
                return Some(observer);
            }
        }
        None
    }

    /// Returns `true` if the newest state was not sent to the observer and can be.
    pub(crate) fn is_behind(&self, index: u32) -> bool {
        let observer = &self.slots[index];
        let unanswered = matches!(observer.progress, Progress::Unanswered(_));
        !unanswered && !observer.over && observer.seen != self.topics[observer.topic].version
    }

    /// Returns `true` if the newest state has settled, but was sent only in Non-confirmable
    /// messages: it is sent once more as a Confirmable one, for eventual consistency (RFC 7641
    /// §1.3, §4.5).
    pub(crate) fn is_doubtful(&self, index: u32) -> bool {
        let observer = &self.slots[index];
        let topic = &self.topics[observer.topic];
        let never = |state: &State| state.reliability == Some(Reliability::NeverConfirmable);
        topic.settled && !observer.over && observer.unconfirmed > 0 && !topic.state.as_ref().is_some_and(never)
    }

    /// Returns `true` if the observer must prove its presence, and has no message in progress that
    /// it could acknowledge.
    pub(crate) fn is_in_question(&self, index: u32) -> bool {
        let observer = &self.slots[index];
        observer.presence == Presence::Checked && observer.progress == Progress::Idle
    }

    /// Returns `true` if the observer was sent the last state of its topic.
    pub(crate) fn is_over(&self, index: u32) -> bool {
        let topic = &self.topics[self.slots[index].topic];
        topic.is_over() && !self.is_behind(index)
    }

    /// Returns `true` if the observer was sent 4.06, because the newest state has another
    /// Content-Format than its first response (RFC 7641 §4.2).
    pub(crate) fn has_other_format(&self, index: u32) -> bool {
        self.slots[index].over
    }

    /// Returns the newest state as a notification, and records it as sent.
    pub(crate) fn message(&mut self, now: Instant, index: u32) -> Option<Notification> {
        let observer = &mut self.slots[index];
        let topic = &self.topics[observer.topic];
        let State { content, reliability } = topic.state.as_ref()?;
        observer.seen = topic.version;
        let format = ContentFormat::of(content.code, &content.body);
        observer.over = observer.format.is_some() && format.is_some() && observer.format != format;
        observer.format = observer.format.or(format);
        let content = match observer.over {
            true => Content { code: Code::NOT_ACCEPTABLE, body: Body::EMPTY },
            false => content.clone(),
        };
        // Without checks enabled, a notification after half a day serves as one.
        let overdue = observer.presence == Presence::Checked || now - observer.confirmed >= ObserverChecks::EVERY;
        let first = self.checks.is_some() && !observer.acknowledged;
        let doubtful = first || topic.settled || observer.unconfirmed >= NON_IN_A_ROW;
        let reliability = match reliability {
            _ if overdue => Reliability::Confirmable,
            None if topic.is_over() || observer.over => Reliability::Confirmable,
            None | Some(Reliability::NonConfirmable) if doubtful => Reliability::Confirmable,
            None => Reliability::NonConfirmable,
            Some(reliability) => *reliability,
        };
        let &ObservingPeer { peer, group, .. } = &self.watchers[observer.watcher];
        let place = Place { peer, token: observer.token.clone(), local: observer.local };
        let (asked, security) = (observer.asked, observer.security.clone());
        Some(Notification { place, group, asked, security, content, reliability })
    }

    /// Records a notification in progress.
    pub(crate) fn sending(&mut self, index: u32, exchange: ExchangeId) {
        self.slots[index].progress = Progress::Sending(exchange);
    }

    pub(crate) fn left(&mut self, now: Instant, index: u32, id: MessageId, confirmable: bool) {
        let observer = &mut self.slots[index];
        (observer.last, observer.left) = (Some(id), Stamp::at(now));
        if !confirmable {
            observer.unconfirmed = observer.unconfirmed.saturating_add(1);
        }
    }

    /// Records a sent payload of a Q-Block notification; `begins` for its first one.
    pub(crate) fn payload_left(&mut self, now: Instant, index: u32, id: MessageId, begins: bool) {
        let observer = &mut self.slots[index];
        (observer.last, observer.left) = (Some(id), Stamp::at(now));
        observer.unconfirmed = observer.unconfirmed.saturating_add(u8::from(begins));
    }

    /// Records the end of a notification.
    pub(crate) fn idle(&mut self, index: u32) {
        self.slots[index].progress = Progress::Idle;
    }

    /// Records an acknowledgement of a notification, a first response or a ping. It proves the
    /// observer's presence if message IDs from its peer are trusted.
    pub(crate) fn acknowledged(&mut self, now: Instant, index: u32, trusted: bool) {
        let observer = &mut self.slots[index];
        (observer.acknowledged, observer.unconfirmed) = (true, 0);
        if trusted {
            self.set_presence(now, index, Presence::Proven);
        } else if observer.presence != Presence::Proven {
            self.set_presence(now, index, Presence::Unproven);
        }
    }

    /// Records that the notification in progress was never sent.
    pub(crate) fn missed(&mut self, index: u32) {
        let observer = &mut self.slots[index];
        (observer.seen, observer.over) = (observer.seen.wrapping_sub(1), false);
    }
}

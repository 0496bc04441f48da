//! Input: passes records to the cookie verifier, a handshake, or the open session.

use conche_proto::{Instant, PeerKey};

use super::event::{Role, SessionId};
use super::flight::Flights;
use super::handshake::{EarlyFinished, Expected};
use super::table::{Associations, Initiator, State};
use super::{Reply, Sessions};
use crate::cookie::{Hello, Issued, Verdict};
use crate::engine::{Engine, Engines, Failure, Opening, catch_panic};
use crate::wire::{self, HANDSHAKE_HEADER, Record, alert, content, message};

impl<P: PeerKey, E: Engines> Sessions<P, E> {
    /// Handles a datagram. [`poll`](Self::poll) until it waits before the next.
    pub fn handle(&mut self, now: Instant, from: P, datagram: &[u8]) {
        let mut records = wire::records(datagram);
        let Some(first) = records.next() else { return };
        match self.config.server.as_ref().and_then(|_| Hello::read(&first)) {
            Some(hello) => self.hello(now, from, &hello, &first, datagram.len()),
            None => self.record(now, from, &first),
        }
        // The rest of a ClientHello may follow, but no second one: one answer per datagram.
        for record in records {
            self.record(now, from, &record);
        }
        // Keys may exist now. Engines take records already read for duplicates, and drop
        // undecryptable ones.
        if let Some(place) = self.table.associations(&from).pending
            && let Some(record) = self.early_finished(place).and_then(|early_finished| early_finished.readable())
        {
            self.feed(place, &record);
        }
    }

    fn hello(&mut self, now: Instant, from: P, hello: &Hello<'_>, record: &Record<'_>, bytes: usize) {
        match self.cookie_verifier.judge(now, &from, hello, bytes, &mut self.random) {
            Verdict::Ignore => self.stats.dropped += 1,
            Verdict::Reply(bytes) => {
                self.stats.cookie_requests += 1;
                self.reply(Reply { to: from, bytes, len: bytes.len() });
            }
            Verdict::Valid(issued) => self.accept_hello(now, from, hello, record, issued, bytes),
        }
    }

    /// An open session with this address stays open until the new one is (RFC 6347 §4.2.8).
    fn accept_hello(
        &mut self,
        now: Instant,
        from: P,
        hello: &Hello<'_>,
        record: &Record<'_>,
        issued: Issued,
        bytes: usize,
    ) {
        let Associations { open, pending } = self.table.associations(&from);
        match self.role_in(now, pending, hello) {
            // A retransmission of this handshake's ClientHello.
            Some((place, Role::Server, true)) => return self.retransmitted_hello(place, record),
            // A local handshake with this peer takes precedence.
            Some((_, Role::Client, _)) => {
                self.stats.refused += 1;
                return;
            }
            _ => {}
        }
        if self.role_in(now, open, hello).is_some_and(|(_, _, is_retransmission)| is_retransmission) {
            self.stats.dropped += 1;
            return;
        }
        if !self.cookie_verifier.is_unspent(now, &from, issued) {
            return match self.cookie_verifier.ask(now, &from, hello, bytes) {
                // A reply would disturb a running handshake.
                Verdict::Reply(bytes) if pending.is_none() => {
                    self.stats.cookie_requests += 1;
                    self.reply(Reply { to: from, bytes, len: bytes.len() });
                }
                _ => self.stats.dropped += 1,
            };
        }
        if !self.admit_unfinished(now, &from) {
            self.stats.refused += 1;
            return;
        }
        // The client has restarted.
        if let Some(before) = pending {
            self.finish(before, Failure::Silence.into());
        }
        if !self.has_room_for_handshake(now, &from) {
            self.uncount_unfinished(&from);
            self.stats.refused += 1;
            return;
        }
        self.cookie_verifier.spend(now, &from, issued);
        let opening = Opening {
            sequence: hello.sequence,
            number: hello.number,
            opening: hello.opening,
            cookie: hello.cookie,
            suites: hello.suites,
            compression: hello.compression,
        };
        match catch_panic(|| self.engines.accept(now, &opening)) {
            Ok(engine) => {
                let initiator = Initiator::Peer { random: *hello.random };
                let certificate = self.config.trusted_clients().is_some();
                let expected = Expected::Client { hello: hello.number, certificate };
                let flights = Flights::new(self.config.flight_timeout, Some(issued.age), false);
                let SessionId { place, .. } = self.begin(now, from, engine, initiator, expected, flights);
                self.feed(place, record.bytes);
            }
            Err(failure) => {
                self.stats.failed += 1;
                self.stats.panicked += u64::from(failure == Failure::Panicked);
                let description = failure.alert().unwrap_or(alert::HANDSHAKE_FAILURE);
                self.reply(Reply::alert(from, hello.sequence, description));
            }
        }
    }

    fn retransmitted_hello(&mut self, place: u32, record: &Record<'_>) {
        let Some(session) = self.table.at(place) else { return };
        let State::Pending(handshake) = &mut session.state else { return };
        if handshake.flights.takes_copy() {
            self.feed(place, record.bytes);
        } else {
            self.stats.dropped += 1;
        }
    }

    /// Returns the local role, and whether the ClientHello repeats the association's first. A
    /// restarted client may repeat its random.
    fn role_in(&mut self, now: Instant, place: Option<u32>, hello: &Hello<'_>) -> Option<(u32, Role, bool)> {
        let session = self.table.at(place?)?;
        let is_retransmission = matches!(&session.initiator, Initiator::Peer { random } if random == hello.random)
            && now < session.deadline;
        Some((session.id.place, session.initiator.role(), is_retransmission))
    }

    /// A handshake beside an open session gets unprotected records and protected handshake
    /// messages; the session gets the others.
    fn record(&mut self, now: Instant, from: P, record: &Record<'_>) {
        let Associations { open, pending } = self.table.associations(&from);
        let of_handshake = record.epoch == 0 || record.content == content::HANDSHAKE;
        let place = if of_handshake { pending.or(open) } else { open.or(pending) };
        let longest = self.config.max_message;
        let session = place.and_then(|place| Some((place, self.table.at(place)?)));
        let Some((place, session)) = session.filter(|_| may_pass(record, longest)) else {
            self.stats.dropped += 1;
            return;
        };
        // The peer retransmits its last flight: the local one was lost.
        let is_open = matches!(session.state, State::Open);
        if is_open
            && record.content == content::HANDSHAKE
            && session.final_flight.may_answer(now)
            && let Err(failure) = session.engine.repeat()
        {
            return self.fail(place, failure);
        }
        let admitted = match &mut session.state {
            _ if record.epoch > 0 => true,
            State::Pending(handshake) if record.content == content::ALERT => {
                handshake.alerted(now, record.fragment);
                return self.table.mark_ready(place);
            }
            State::Pending(handshake) => {
                let admitted = handshake.admits(now, record);
                if admitted {
                    session.last_received = now;
                }
                admitted
            }
            // Retransmitted handshake messages, answered by a retransmission.
            State::Open | State::Closing(_) => record.content == content::HANDSHAKE,
        };
        if !admitted {
            self.stats.dropped += 1;
            return;
        }
        match self
            .early_finished(place)
            .filter(|early_finished| of_handshake && record.epoch > 0 && !early_finished.changed)
        {
            Some(early_finished) => early_finished.keep(record.bytes),
            None => self.feed(place, record.bytes),
        }
    }

    fn early_finished(&mut self, place: u32) -> Option<&mut EarlyFinished> {
        match &mut self.table.at(place)?.state {
            State::Pending(handshake) => Some(&mut handshake.early_finished),
            State::Open | State::Closing(_) => None,
        }
    }

    fn feed(&mut self, place: u32, record: &[u8]) {
        let Some(session) = self.table.at(place) else { return };
        match session.engine.receive(record) {
            Ok(()) => self.table.mark_ready(place),
            // Not polled for long: a full queue loses records, as any network.
            Err(Failure::Full) if matches!(session.state, State::Open) => self.stats.dropped += 1,
            Err(failure) => self.fail(place, failure),
        }
    }
}

/// Data are protected, handshake messages and their records at most `longest` long, and a
/// ClientHello's start only goes to the cookie verifier.
fn may_pass(record: &Record<'_>, longest: usize) -> bool {
    match (record.epoch, record.content) {
        (0, content::HANDSHAKE) if record.fragment.len() > longest + HANDSHAKE_HEADER => false,
        (0, content::HANDSHAKE) => wire::handshakes(record.fragment).all(|handshake| {
            handshake.length <= longest && (handshake.message != message::CLIENT_HELLO || handshake.offset > 0)
        }),
        (0, content::CHANGE_CIPHER_SPEC | content::ALERT) => true,
        (1, content::HANDSHAKE | content::ALERT | content::APPLICATION_DATA) => true,
        _ => false,
    }
}

//! Output: engines' actions, one at a time.

use conche_proto::{Instant, PeerKey};
use rand_core::RngCore;

use super::event::{Ended, Output, Progress, Role};
use super::flight::FinalFlightLimiter;
use super::table::{Initiator, Shares, State};
use super::{Reply, Sessions};
use crate::BUFFER;
use crate::credentials::{ClientCredentials, Identity};
use crate::engine::{Engine, Engines, Failure, Step, catch_panic};

impl<P: PeerKey, E: Engines> Sessions<P, E> {
    /// Returns the next output.
    ///
    /// # Panics
    ///
    /// If the buffer has fewer than [`BUFFER`] bytes, which could lose a record.
    pub fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Output<P> {
        assert!(buffer.len() >= BUFFER, "a buffer of {} bytes: {BUFFER} are needed", buffer.len());
        loop {
            if let Some(Reply { to, bytes, len }) = self.replies.pop_front() {
                buffer[..len].copy_from_slice(&bytes[..len]);
                return Output::Transmit { to, len };
            }
            if let Some(ended) = self.ended.pop_front() {
                return ended;
            }
            if let Some(place) = self.table.next_ready() {
                match self.step(now, place, buffer) {
                    Some(output) => return output,
                    None => continue,
                }
            }
            let Some(place) = self.table.due(now) else { return Output::Wait(self.table.next_timer()) };
            let Some(session) = self.table.at(place) else { continue };
            let State::Pending(handshake) = &mut session.state else { continue };
            if handshake.until().unwrap_or(session.deadline).min(session.deadline) <= now {
                self.fail(place, Failure::Silence);
                continue;
            }
            match if handshake.flights.take_due(now) { session.engine.repeat() } else { Ok(()) } {
                Ok(()) => self.table.mark_ready(place),
                Err(failure) => self.fail(place, failure),
            }
        }
    }

    fn step(&mut self, now: Instant, place: u32, buffer: &mut [u8]) -> Option<Output<P>> {
        let session = self.table.at(place)?;
        let (id, peer) = (session.id, session.peer);
        let told = |progress| Some(Output::Flight { session: id, peer, progress });
        if let State::Pending(handshake) = &mut session.state {
            let answer = handshake.flights.take_answer();
            if let Some(copy) = answer.filter(|_| handshake.flights.is_controlled()) {
                return told(Progress::Answered(copy));
            }
        }
        let step = match session.engine.poll(buffer) {
            Ok(step) => step,
            Err(failure) => {
                self.fail(place, failure);
                return None;
            }
        };
        match step {
            Step::Transmit(len) => {
                if let State::Pending(handshake) = &mut session.state {
                    handshake.flights.leaves(now, &buffer[..len]);
                }
                Some(Output::Transmit { to: peer, len })
            }
            Step::Data(len) => {
                session.last_received = now;
                // Plaintext after the local close_notify is discarded.
                matches!(session.state, State::Open).then_some(Output::Received { session: id, len })
            }
            Step::Certificate(len) => {
                let certificate = buffer.get(..len)?.to_vec();
                if let Err(failure) = catch_panic(|| self.check_certificate(now, place, &certificate)) {
                    self.fail(place, failure);
                }
                None
            }
            Step::Connected => self.connected(now, place),
            Step::Closed => {
                self.finish(place, Ended::ByPeer);
                None
            }
            Step::Wait => {
                let wake = match &mut session.state {
                    State::Pending(handshake) => {
                        let left = handshake.flights.have_left(now, || self.random.next_u32());
                        if let Some(flight) = left.filter(|_| handshake.flights.is_controlled()) {
                            return told(Progress::Left(flight));
                        }
                        let repeat = handshake.flights.due();
                        [repeat, handshake.until(), Some(session.deadline)].into_iter().flatten().min()
                    }
                    State::Open => None,
                    State::Closing(_) => {
                        self.finish(place, Ended::Closed);
                        return None;
                    }
                };
                self.table.mark_idle(place);
                self.table.set_timer(place, wake);
                None
            }
        }
    }

    fn connected(&mut self, now: Instant, place: u32) -> Option<Output<P>> {
        let session = self.table.at(place)?;
        let (id, peer, role) = (session.id, session.peer, session.initiator.role());
        let State::Pending(handshake) = &mut session.state else { return None };
        session.final_flight = FinalFlightLimiter::new(now, handshake.flights.first_timeout());
        let (source, proved) = (handshake.source, handshake.proved.take());
        let by_key = session.engine.identity().map(|identity| Identity::Psk(identity.to_vec()));
        let identity = proved.or(by_key).unwrap_or(Identity::Anonymous);
        session.last_received = now;
        // A peer without a required certificate is rejected; a server that knows the key has no
        // other name.
        let asked = match &session.initiator {
            Initiator::Local(expected) => !matches!(**expected, ClientCredentials::Psk { .. }),
            Initiator::Peer { .. } => self.config.trusted_clients().is_some(),
        };
        if identity == Identity::Anonymous && asked {
            self.fail(place, Failure::NoCertificate);
            return None;
        }
        self.release(place, role, source);
        if role == Role::Server {
            self.uncount_unfinished(&peer);
        }
        if let Some(before) = self.table.associations(&peer).open {
            self.finish(before, Ended::Replaced);
        }
        let of_client = role == Role::Server;
        let (group, host) = (of_client.then_some(source), of_client.then(|| self.host_of(&peer)));
        let bounded = self.config.max_sessions_per_identity.and(Some(&identity));
        let identity_share = match bounded {
            Some(Identity::Psk(identity)) => Some(self.hash(identity)),
            _ => None,
        };
        let shares = Shares { group, host, identity: identity_share };
        self.make_room(shares);
        self.table.promote(now, place, shares);
        self.stats.sessions += 1;
        self.stats.established += 1;
        Some(Output::Established { session: id, peer, role, identity })
    }
}

//! Lanes whose messages go through sessions: opened before the test, and kept while it lasts; or, as a load of their own, opened for each
//! request.

use std::sync::atomic::Ordering;

use conche_proto::{Input, Transmit};

use super::Worker;
use crate::error::Error;
use crate::secured::{Next, is_silence};

/// Handshakes that go on at once: a server has room for some hundreds from all of its clients.
const AT_ONCE: usize = 64;

impl Worker<'_> {
    /// With a session on each lane, before the test begins.
    pub(crate) fn prepared(mut self) -> Result<Self, Error> {
        if !self.common.plan.handshakes {
            self.open_sessions()?;
        }
        self.show_freshness()?;
        Ok(self)
    }

    fn open_sessions(&mut self) -> Result<(), Error> {
        let share = (AT_ONCE / self.common.plan.threads as usize).max(1);
        let mut next = 0;
        loop {
            self.now = self.clock();
            let Some(secured) = &mut self.secured else { return Ok(()) };
            while secured.opening() < share && next < self.seats.len() {
                secured.connect(self.now, self.seats[next]);
                next += 1;
            }
            self.hear_sessions();
            self.sockets.flush();
            self.check_handshakes()?;
            let Some(secured) = &mut self.secured else { return Ok(()) };
            if secured.opening() == 0 && next == self.seats.len() || self.common.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let due = secured.due();
            self.wait_and_take(due)?;
        }
    }

    /// Without any session the test has no result. Later, what fails is counted.
    pub(super) fn check_handshakes(&self) -> Result<(), Error> {
        let target = self.common.plan.target;
        let Some(secured) = self.secured.as_ref().filter(|_| !self.has_answer) else { return Ok(()) };
        if !self.sockets.refused.is_empty() {
            return Err(Error::Refused { target });
        }
        match &secured.failure {
            Some(why) => {
                let (opened, is_silent) = (secured.counts.opened, is_silence(why));
                Err(Error::Handshake { target, opened, is_silent, why: why.to_string() })
            }
            None => Ok(()),
        }
    }

    /// A message that the endpoint has written is to leave.
    #[inline]
    pub(super) fn leaves(&mut self, transmit: Transmit<u32>) {
        match &mut self.secured {
            None => {
                if self.sockets.send(transmit.to, transmit.len) {
                    self.now = self.clock();
                }
            }
            Some(secured) => {
                secured.send(self.now, transmit.to, &self.sockets.buffer()[..transmit.len]);
                self.hear_sessions();
            }
        }
    }

    /// What the sessions have to say.
    pub(super) fn hear_sessions(&mut self) {
        while let Some(next) = self.secured.as_mut().and_then(|secured| secured.poll(self.now)) {
            match next {
                Next::Datagram { lane, bytes } => {
                    self.sockets.buffer()[..bytes.len()].copy_from_slice(bytes);
                    let len = bytes.len();
                    if self.sockets.send(lane, len) {
                        self.now = self.clock();
                    }
                }
                Next::Message { lane, bytes } => {
                    if self.endpoint.handle(self.now, Input::datagram(lane, bytes)).is_err() {
                        // As if the network had lost it.
                        self.sockets.dropped += 1;
                    }
                }
                Next::Lost { lane } => {
                    // If it is not taken in, what was asked times out.
                    let _ = self.endpoint.handle(self.now, Input::Unreachable { peer: lane, quoted: None });
                }
            }
        }
    }

    /// Takes in one of the datagrams that came last.
    pub(super) fn take_record(&mut self, lane: u32, number: usize) {
        if let Some(secured) = &mut self.secured {
            secured.take(self.now, lane, self.sockets.received(number));
        }
        self.hear_sessions();
    }

    /// A request got no answer: the server may have restarted, and cannot say that it has forgotten the session. The next request opens another,
    /// and what is in flight does not go on there (RFC 7252 §9.1).
    pub(super) fn doubt_session(&mut self, lane: u32) {
        if let Some(secured) = &mut self.secured {
            secured.close(lane);
            self.hear_sessions();
            // If it is not taken in, what was asked times out.
            let _ = self.endpoint.handle(self.now, Input::Unreachable { peer: lane, quoted: None });
        }
    }

    /// The test is over, and the server need not keep what it will not be asked through again.
    pub(super) fn close_sessions(&mut self) {
        for lane in 0..self.lanes.len() {
            if let Some(secured) = &mut self.secured {
                secured.close(u32::try_from(lane).unwrap_or(u32::MAX));
            }
            self.hear_sessions();
        }
        self.sockets.flush();
    }

    /// A request is over, and with it the session that it had of its own.
    pub(super) fn close_session(&mut self, lane: u32) {
        if let Some(secured) = self.secured.as_mut().filter(|_| self.common.plan.handshakes) {
            secured.close(lane);
            self.hear_sessions();
        }
    }
}

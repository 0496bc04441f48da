//! Lanes' DTLS sessions: opened before the test and kept, or, as a load of handshakes, per request.

use std::sync::atomic::Ordering;

use conche_proto::{Input, Transmit};

use super::Worker;
use crate::error::Error;
use crate::secured::{Next, is_silence};

/// A server has room for some hundreds, from all clients.
const AT_ONCE: usize = 64;

impl Worker<'_> {
    pub(crate) fn prepared(mut self) -> Result<Self, Error> {
        if !self.common.plan.handshakes {
            self.open_sessions()?;
        }
        self.verify_freshness()?;
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
            self.handle_session_output();
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

    /// Later failures are counted.
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

    #[inline]
    pub(super) fn send(&mut self, transmit: Transmit<u32>) {
        match &mut self.secured {
            None => {
                if self.sockets.send(transmit.to, transmit.len) {
                    self.now = self.clock();
                }
            }
            Some(secured) => {
                secured.send(self.now, transmit.to, &self.sockets.buffer()[..transmit.len]);
                self.handle_session_output();
            }
        }
    }

    pub(super) fn handle_session_output(&mut self) {
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
                        // Lost in the network.
                        self.sockets.dropped += 1;
                    }
                }
                Next::Lost { lane } => {
                    // On an error, requests time out.
                    let _ = self.endpoint.handle(self.now, Input::Unreachable { peer: lane, quoted: None });
                }
            }
        }
    }

    pub(super) fn take_record(&mut self, lane: u32, number: usize) {
        if let Some(secured) = &mut self.secured {
            secured.take(self.now, lane, self.sockets.received(number));
        }
        self.handle_session_output();
    }

    /// Closes an unanswered request's session, which a restarted server may have lost silently.
    /// Exchanges in flight do not continue on the next (RFC 7252 §9.1).
    pub(super) fn doubt_session(&mut self, lane: u32) {
        if let Some(secured) = &mut self.secured {
            secured.close(lane);
            self.handle_session_output();
            // On an error, requests time out.
            let _ = self.endpoint.handle(self.now, Input::Unreachable { peer: lane, quoted: None });
        }
    }

    pub(super) fn close_sessions(&mut self) {
        for lane in 0..self.source_ports.len() {
            if let Some(secured) = &mut self.secured {
                secured.close(u32::try_from(lane).unwrap_or(u32::MAX));
            }
            self.handle_session_output();
        }
        self.sockets.flush();
    }

    pub(super) fn close_session(&mut self, lane: u32) {
        if let Some(secured) = self.secured.as_mut().filter(|_| self.common.plan.handshakes) {
            secured.close(lane);
            self.handle_session_output();
        }
    }
}

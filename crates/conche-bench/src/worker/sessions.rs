//! Lanes' DTLS sessions: kept, or, as a load of handshakes, per request.

use std::sync::atomic::Ordering;
use std::time::Duration;

use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use conche_proto::{Event, Failure, Input, Output, Request, Transmit};

use super::Worker;
use crate::dtls::{Next, is_silence};
use crate::error::Error;

/// A server has room for some hundreds, from all clients.
const AT_ONCE: usize = 64;

/// As for handshakes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

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
            let Some(dtls) = &mut self.dtls else { return Ok(()) };
            while dtls.opening() < share && next < self.seats.len() {
                dtls.connect(self.now, self.seats[next]);
                next += 1;
            }
            self.handle_session_output();
            self.sockets.flush();
            self.check_handshakes()?;
            let Some(dtls) = &mut self.dtls else { return Ok(()) };
            if dtls.opening() == 0 && next == self.seats.len() || self.common.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let due = dtls.due();
            self.wait_and_take(due)?;
        }
    }

    /// Later failures are counted.
    pub(super) fn check_handshakes(&self) -> Result<(), Error> {
        let target = self.common.plan.target;
        let Some(dtls) = self.dtls.as_ref().filter(|_| !self.has_answer) else { return Ok(()) };
        if !self.sockets.refused.is_empty() {
            return Err(Error::Refused { target });
        }
        match &dtls.failure {
            Some(why) => {
                let (opened, is_silent) = (dtls.counts.opened, is_silence(why));
                Err(Error::Handshake { target, opened, is_silent, why: why.to_string() })
            }
            None => Ok(()),
        }
    }

    #[inline]
    pub(super) fn send(&mut self, transmit: Transmit<u32>) {
        match &mut self.dtls {
            None => {
                if self.sockets.send(transmit.to, transmit.len) {
                    self.now = self.clock();
                }
            }
            Some(dtls) => {
                dtls.send(self.now, transmit.to, &self.sockets.buffer()[..transmit.len]);
                self.handle_session_output();
            }
        }
    }

    pub(super) fn handle_session_output(&mut self) {
        while let Some(next) = self.dtls.as_mut().and_then(|dtls| dtls.poll(self.now)) {
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
        if let Some(dtls) = &mut self.dtls {
            dtls.take(self.now, lane, self.sockets.received(number));
        }
        self.handle_session_output();
    }

    /// Closes an unanswered request's session, perhaps lost. Its exchanges do not continue on the
    /// next (RFC 7252 §9.1).
    pub(super) fn close_unanswered_session(&mut self, lane: u32) {
        if let Some(dtls) = &mut self.dtls {
            dtls.close(lane);
            self.handle_session_output();
            let _ = self.endpoint.handle(self.now, Input::Unreachable { peer: lane, quoted: None });
        }
    }

    pub(super) fn close_sessions(&mut self) {
        for lane in 0..self.source_ports.len() {
            if let Some(dtls) = &mut self.dtls {
                dtls.close(u32::try_from(lane).unwrap_or(u32::MAX));
            }
            self.handle_session_output();
        }
        self.sockets.flush();
    }

    pub(super) fn close_session(&mut self, lane: u32) {
        if let Some(dtls) = self.dtls.as_mut().filter(|_| self.common.plan.handshakes) {
            dtls.close(lane);
            self.handle_session_output();
        }
    }

    /// Sends one request per security context: a restarted server would challenge all for freshness
    /// (RFC 8613 appendix B.1.2).
    fn verify_freshness(&mut self) -> Result<(), Error> {
        let contexts = u32::try_from(self.oscore.len()).unwrap_or(u32::MAX);
        for seat in 0..contexts {
            let (Some(context), Some(&lane)) = (self.oscore.of(seat), self.seats.get(seat as usize)) else { break };
            let mut body = Body::EMPTY;
            // Freshness and address.
            for _ in 0..3 {
                let request =
                    Request { timeout: Some(RESPONSE_TIMEOUT), ..Request::new(Code::GET, body).protected(context) };
                self.now = self.clock();
                let asked = self.endpoint.request(self.now, lane, request);
                asked.map_err(|source| Error::Request { name: "the first request".to_owned(), source })?;
                let Some(answer) = self.first_answer()? else { return Ok(()) };
                let echo = answer.option(OptionNumber::ECHO).filter(|_| answer.code() == Code::UNAUTHORIZED);
                let Some(echo) = echo else { break };
                let rebuilt = Body::builder().option(OptionNumber::ECHO, echo).build();
                body = rebuilt.unwrap_or(Body::EMPTY);
            }
            self.close_session(lane);
        }
        Ok(())
    }

    fn first_answer(&mut self) -> Result<Option<OwnedMessage>, Error> {
        let target = self.common.plan.target;
        while !self.common.stop.load(Ordering::Relaxed) {
            self.now = self.clock();
            self.handle_session_output();
            let wake = match self.endpoint.poll(self.now, self.sockets.buffer()) {
                Output::Transmit(transmit) => {
                    self.send(transmit);
                    continue;
                }
                Output::Event(Event::Response { message, .. }) => return Ok(Some(message)),
                Output::Event(Event::Failed { reason, .. }) => {
                    let is_silent = matches!(
                        reason,
                        Failure::TimedOut | Failure::NoResponse | Failure::Deadline | Failure::Unreachable
                    );
                    return Err(Error::NotProtected { target, is_silent, why: reason.to_string() });
                }
                Output::Event(Event::Reserve(reserve)) => {
                    self.oscore.keep(&mut self.endpoint, reserve)?;
                    continue;
                }
                Output::Event(_) => continue,
                Output::Wait(wake) => wake,
            };
            self.sockets.flush();
            if !self.sockets.refused.is_empty() {
                return Err(Error::Refused { target });
            }
            self.wait_and_take(wake)?;
        }
        Ok(None)
    }
}

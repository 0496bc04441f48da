//! One request per security context before the test: a restarted server would challenge all
//! requests in flight for freshness (RFC 8613 appendix B.1.2).

use std::sync::atomic::Ordering;
use std::time::Duration;

use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use conche_proto::{Event, Failure, Output, Request};

use super::Worker;
use crate::error::Error;

/// As for handshakes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

impl Worker<'_> {
    pub(super) fn verify_freshness(&mut self) -> Result<(), Error> {
        let contexts = u32::try_from(self.protecting.len()).unwrap_or(u32::MAX);
        for seat in 0..contexts {
            let (Some(context), Some(&lane)) = (self.protecting.of(seat), self.seats.get(seat as usize)) else { break };
            let mut body = Body::EMPTY;
            // One challenge each for freshness and the address.
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
                    self.protecting.keep(&mut self.endpoint, reserve)?;
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

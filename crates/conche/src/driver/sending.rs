//! Sends datagrams, and handles those that cannot be sent.

use std::io;

use conche_proto::{ExchangeId, Transmit};
use tracing::debug;

use super::handle::ExchangeError;
use super::{Address, Driver, Service, SharedController};
use crate::dtls::is_record;
use crate::socket::is_passing;

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Prepares state for a datagram that is about to be sent.
    pub(super) fn on_departure(&mut self, transmit: &Transmit<Address>) {
        if let Some(exchange) = transmit.exchange {
            let rto = || self.endpoint.snapshot(&transmit.to).map(|peer| peer.congestion.rto);
            self.exchanges.on_departure(exchange, transmit, rto);
            self.expect_answer(&transmit.to);
            #[cfg(feature = "edhoc")]
            self.on_combined_sent(exchange, transmit.attempt);
        }
    }

    /// Sends all queued datagrams, and returns whether all were sent. One that cannot be sent does
    /// not hold up the others.
    pub(super) async fn send_all(&mut self) -> bool {
        let (mut next, mut all_left) = (0, true);
        while next < self.outgoing.len() {
            let sent = self.socket.send(&self.outgoing, next).await;
            if self.socket.has_waited() {
                self.now = self.clock.now();
            }
            match sent {
                Ok(count) => {
                    if self.telemetry.is_enabled() {
                        (next..next + count).for_each(|index| self.on_sent(index, Ok(())));
                    }
                    next += count;
                }
                Err(error) => {
                    self.on_sent(next, Err(error));
                    next += 1;
                    all_left = false;
                }
            }
        }
        self.outgoing.clear();
        self.now = self.clock.now();
        all_left
    }

    /// Reports a datagram that was sent or could not be.
    fn on_sent(&mut self, index: usize, sent: io::Result<()>) {
        let transmit = *self.outgoing.transmit(index);
        // Protected messages were reported before encryption.
        if !is_record(self.outgoing.datagram(index)) {
            self.telemetry.departed(self.now, &transmit, self.outgoing.datagram(index), &sent);
        }
        if self.telemetry.is_watched() && transmit.exchange.is_some() {
            self.telemetry.path(self.now, transmit.to, self.endpoint.snapshot(&transmit.to));
        }
        if let Err(error) = sent {
            debug!(peer = %transmit.to, %error, "a datagram could not be sent");
            if let Some(exchange) = transmit.exchange.filter(|_| !is_passing(&error)) {
                self.on_send_refused(exchange, transmit.attempt, error);
            }
        }
    }

    /// Ends an exchange whose datagram the operating system permanently refuses.
    fn on_send_refused(&mut self, exchange: ExchangeId, attempt: u8, source: io::Error) {
        self.endpoint.cancel(self.now, exchange);
        #[cfg(feature = "edhoc")]
        self.on_combined_failed(exchange);
        if let Some(caller) = self.exchanges.remove(exchange) {
            let error = ExchangeError::Send { source, transmissions: attempt.into() };
            caller.outcome.send(Err(error));
        }
    }
}

//! Receives from the socket and passes datagrams to the endpoint.

use std::io;

use conche_proto::{Datagram, Endpoint, Input, Instant, Undrained};
use tokio::task::{consume_budget, coop};
use tracing::{debug, warn};

use super::sessions::SessionDriver;
use super::{BATCH, Driver, PAUSE, Service, SharedController};
use crate::address::Address;
use crate::dtls::is_record;
use crate::socket::{self, Received};
use crate::telemetry::{Handled, Telemetry};

impl<C: SharedController, S: Service> Driver<C, S> {
    pub(super) async fn receive(&mut self, ready: io::Result<()>) {
        // Yields if this task has used up its budget.
        consume_budget().await;
        self.now = self.clock.now();
        let taken = match ready {
            Ok(()) => self.take_batch().await,
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            if let Some(held_back) = self.receive_errors.passes(tokio::time::Instant::now()) {
                warn!(%error, held_back, "receiving failed");
            }
            tokio::time::sleep(PAUSE).await;
            self.now = self.clock.now();
        }
    }

    /// Receives a batch. Each datagram counts against the task's budget, so that endless arrivals
    /// cannot starve other tasks of the thread.
    async fn take_batch(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            if !coop::has_budget_remaining() {
                break;
            }
            consume_budget().await;
            let is_first = !self.socket.has_more();
            let received = match self.socket.receive(&mut self.incoming) {
                Ok(Received::Nothing) => break,
                Ok(received) => received,
                // An error of an earlier datagram, which the error queue also reports.
                Err(error) if socket::is_about_a_peer(&error) => continue,
                Err(error) => return Err(error),
            };
            if is_first
                && let Received::Datagram(first) = received
                && self.socket.has_more()
            {
                let batch = [first].into_iter().chain(self.socket.more());
                self.endpoint.glance_at_all(batch.map(|arrival| arrival.datagram(&self.incoming)));
            }
            if let Received::Datagram(arrival) = received
                && self.take_record(arrival)
            {
                if self.outgoing.is_full() {
                    self.send_all().await;
                }
                continue;
            }
            if let Received::Datagram(arrival) = received
                && self.telemetry.is_enabled()
            {
                self.telemetry.arrived(self.now, &arrival.datagram(&self.incoming));
            }
            if self.handle_received(&received).is_err() {
                self.drain().await;
                // After draining, the endpoint accepts it.
                let _ = self.handle_received(&received);
            }
        }
        Ok(())
    }

    fn handle_received(&mut self, received: &Received) -> Result<(), Undrained> {
        let input = match *received {
            Received::Datagram(arrival) => {
                let datagram = arrival.datagram(&self.incoming);
                return handle(&mut self.endpoint, &self.telemetry, self.now, datagram);
            }
            Received::Unreachable { peer, quoted } => {
                debug!(%peer, "the network reports the peer unreachable");
                self.telemetry.unreachable(self.now, peer);
                let quoted = &self.incoming[..quoted];
                if is_record(quoted) {
                    if !self.retry_unreachable {
                        let quoted = quoted.to_vec();
                        self.on_record_unreachable(peer, &quoted);
                    }
                    return Ok(());
                }
                if self.retry_unreachable && is_confirmable(quoted) {
                    return Ok(());
                }
                Input::Unreachable { peer, quoted: Some(quoted) }
            }
            Received::Nothing => return Ok(()),
        };
        self.endpoint.handle(self.now, input)
    }
}

/// Passes a datagram to the endpoint, and reports the result to watchers.
#[inline]
pub(super) fn handle<C: SharedController>(
    endpoint: &mut Endpoint<Address, C>,
    telemetry: &Telemetry,
    now: Instant,
    datagram: Datagram<'_, Address>,
) -> Result<(), Undrained> {
    if !telemetry.is_watched() {
        return endpoint.handle(now, Input::Datagram(datagram));
    }
    let before = *endpoint.stats();
    endpoint.handle(now, Input::Datagram(datagram))?;
    let path = endpoint.snapshot(&datagram.from);
    telemetry.handled(now, &Handled { datagram: &datagram, before: &before, after: endpoint.stats(), path });
    Ok(())
}

/// Whether the quoted start of our datagram is a Confirmable message (RFC 7252 §3).
fn is_confirmable(quoted: &[u8]) -> bool {
    quoted.first().is_some_and(|first| first >> 4 & 0b11 == 0)
}

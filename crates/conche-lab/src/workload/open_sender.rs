//! A sender without congestion control or CoAP endpoint.

use std::rc::Rc;

use conche_netsim::host::{Host, Port, Received};
use conche_proto::codec::{Encoder, MessageId, Token, Type};

use super::application::Timer;
use super::flow::Flow;
use super::requester::Tally;

/// Sends Non-confirmable requests at its flows' pace; ignores responses.
#[derive(Debug)]
pub struct OpenSender {
    flows: Vec<Rc<Flow>>,
    tallies: Vec<Tally>,
    message_id: u16,
}

impl OpenSender {
    /// Creates a sender; only peer, pace, start, stop and content of its flows matter.
    #[must_use]
    pub fn new(flows: Vec<Rc<Flow>>) -> Self {
        let tallies = vec![Tally::default(); flows.len()];
        Self { flows, tallies, message_id: 0 }
    }

    /// Counts of each flow.
    #[must_use]
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }
}

impl Host for OpenSender {
    type Timer = Timer;

    fn start(&mut self, port: &mut Port<'_, Timer>) {
        // A restart changes message IDs.
        self.message_id = (port.now().as_nanos() / 1_000_000 % (1 << 16)).try_into().unwrap_or_default();
        for (number, flow) in (0..).zip(&self.flows) {
            if let Some(first) = flow.first(port.rng()) {
                port.set_timer(first - port.now(), Timer::Flow(number));
            }
        }
    }

    fn timer(&mut self, port: &mut Port<'_, Timer>, timer: Timer) {
        let Timer::Flow(number) = timer else { return };
        let flow = &self.flows[number as usize];
        let now = port.now();
        if flow.stop.is_some_and(|stop| now >= stop) {
            return;
        }
        for _ in 0..flow.due(now) {
            let message = encoded(flow, MessageId(self.message_id));
            self.message_id = self.message_id.wrapping_add(1);
            port.send(flow.peer, &message, None, None);
            let tally = &mut self.tallies[number as usize];
            tally.generated += 1;
            tally.opened += 1;
        }
        if let Some(next) = flow.next(now, port.rng()) {
            port.set_timer(next - now, Timer::Flow(number));
        }
    }

    fn receive(&mut self, _: &mut Port<'_, Timer>, _: Received<'_>) {}

    fn wake(&mut self, _: &mut Port<'_, Timer>) {}
}

/// Encodes without a token: no response is matched.
fn encoded(flow: &Flow, id: MessageId) -> Vec<u8> {
    const HEADER_BYTES: usize = 4;
    let mut message = vec![0; HEADER_BYTES + flow.body.len()];
    Encoder::new(&mut message, Type::NonConfirmable, flow.method, id, &Token::EMPTY)
        .and_then(|mut encoder| encoder.body(&flow.body).map(|_| ()))
        .expect("there is room for the header and the body");
    message
}

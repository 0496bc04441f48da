//! What sits on a mote: a CoAP endpoint, or a source that knows of no congestion.

use std::time::Duration;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::node::Node;
use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Code, Encoder, MessageId, Token, Type};

use crate::workload::{Application, Timer};

/// A mote, or the sink.
#[derive(Debug)]
pub(super) enum Mote {
    /// CoAP, with congestion control.
    Coap(Box<Node<Application>>),
    /// Messages at a rate, whatever happens to them.
    Unaware(Unaware),
}

/// Sends Non-confirmable POST requests in an interval, for a time on and for as long off. It is no endpoint: what RFC 7252
/// and the controllers hold against such traffic is what it must not have.
#[derive(Clone, Debug)]
pub(super) struct Unaware {
    pub(super) sink: NodeId,
    /// When the first message leaves, within the first interval.
    pub(super) phase: Duration,
    pub(super) interval: Duration,
    pub(super) on_off: Duration,
    /// The size of a message.
    pub(super) bytes: usize,
    pub(super) sent: u16,
}

impl Unaware {
    fn send(&mut self, port: &mut Port<'_, Timer>) {
        let mut buffer = vec![0; self.bytes];
        let id = MessageId(self.sent);
        Encoder::new(&mut buffer, Type::NonConfirmable, Code::POST, id, &Token::EMPTY)
            .and_then(|mut encoder| {
                encoder.payload(&vec![b'.'; self.bytes.saturating_sub(HEADER_BYTES)])?;
                Ok(encoder.finish())
            })
            .expect("the payload is what the header leaves room for");
        port.send(self.sink, &buffer, None, None);
        self.sent = self.sent.wrapping_add(1);
    }

    /// When the next message leaves.
    fn next(&self, now: Instant) -> Instant {
        let at = now - Instant::ZERO + self.interval;
        let period = self.on_off.as_nanos();
        match at.as_nanos() / period {
            odd if odd % 2 == 1 => {
                let turns = u32::try_from(odd + 1).unwrap_or(u32::MAX);
                Instant::ZERO + self.on_off.saturating_mul(turns) + self.phase
            }
            _ => Instant::ZERO + at,
        }
    }
}

/// Header and payload marker.
const HEADER_BYTES: usize = 5;

impl Host for Mote {
    type Timer = Timer;

    fn start(&mut self, port: &mut Port<'_, Timer>) {
        match self {
            Self::Coap(node) => node.start(port),
            Self::Unaware(source) => {
                port.set_timer(source.phase, Timer(0));
            }
        }
    }

    fn receive(&mut self, port: &mut Port<'_, Timer>, packet: Received<'_>) {
        match self {
            Self::Coap(node) => node.receive(port, packet),
            Self::Unaware(_) => {}
        }
    }

    fn timer(&mut self, port: &mut Port<'_, Timer>, timer: Timer) {
        match self {
            Self::Coap(node) => node.timer(port, timer),
            Self::Unaware(source) => {
                source.send(port);
                port.set_timer(source.next(port.now()) - port.now(), Timer(0));
            }
        }
    }

    fn wake(&mut self, port: &mut Port<'_, Timer>) {
        match self {
            Self::Coap(node) => node.wake(port),
            Self::Unaware(_) => {}
        }
    }
}

//! Host at either end of a bulk transfer over wired links.

use std::marker::PhantomData;

use conche_proto::cc::Controller;

use super::tcp::{Output, Receiver, Segment, Sender};
use crate::NodeId;
use crate::host::{Host, Port, Received};

/// Sends or receives one transfer. `T` is the simulation's timer type; no timers are set.
#[derive(Debug)]
pub struct Bulk<C: Controller, T> {
    peer: NodeId,
    end: End<C>,
    header_bytes: usize,
    payload_bytes: usize,
    timers: PhantomData<fn() -> T>,
}

/// One end of a transfer.
#[derive(Debug)]
pub enum End<C: Controller> {
    /// The sender.
    Source(Sender<C>),
    /// The receiver.
    Sink(Receiver),
}

impl<C: Controller, T> Bulk<C, T> {
    /// Creates one end. A data segment has `header_bytes`, besides the links' headers, and
    /// `payload_bytes`.
    #[must_use]
    pub fn new(peer: NodeId, end: End<C>, header_bytes: usize, payload_bytes: usize) -> Self {
        Self { peer, end, header_bytes, payload_bytes, timers: PhantomData }
    }

    /// Returns the end and its progress.
    #[must_use]
    pub fn end(&self) -> &End<C> {
        &self.end
    }

    fn send(&self, port: &mut Port<'_, T>, segment: Segment) {
        let mut octets = segment.encode().to_vec();
        let payload = if segment.has_payload() { self.payload_bytes } else { 0 };
        octets.resize(octets.len().max(self.header_bytes.saturating_add(payload)), 0);
        port.send(self.peer, &octets, None, None);
    }

    fn proceed(&mut self, port: &mut Port<'_, T>) {
        while let End::Source(sender) = &mut self.end {
            match sender.poll(port.now(), port.rng()) {
                Output::Transmit(segment) => self.send(port, segment),
                Output::Wait(until) => return port.wake_at(until),
            }
        }
    }
}

impl<C: Controller, T> Host for Bulk<C, T> {
    type Timer = T;

    fn start(&mut self, port: &mut Port<'_, T>) {
        self.proceed(port);
    }

    fn receive(&mut self, port: &mut Port<'_, T>, packet: Received<'_>) {
        let Some(segment) = Segment::decode(packet.bytes).filter(|_| packet.meta.from == self.peer) else { return };
        match &mut self.end {
            End::Source(sender) => sender.receive(port.now(), segment),
            End::Sink(receiver) => {
                if let Some(answer) = receiver.receive(port.now(), segment) {
                    self.send(port, answer);
                }
            }
        }
        self.proceed(port);
    }

    fn timer(&mut self, _: &mut Port<'_, T>, _: T) {}

    fn wake(&mut self, port: &mut Port<'_, T>) {
        self.proceed(port);
    }
}

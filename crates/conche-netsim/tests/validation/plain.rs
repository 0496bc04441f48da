//! Hosts without a protocol.

use std::time::Duration;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::{Instant, NodeId};

pub enum Plain {
    /// Sends `left` numbered packets of `bytes` bytes.
    Source {
        to: NodeId,
        left: u32,
        bytes: usize,
        interval: Interval,
    },
    Echo,
    Sink(Vec<Arrival>),
}

#[derive(Clone, Copy)]
pub enum Interval {
    /// Constant; zero for a burst.
    Constant(Duration),
    /// Exponential with this mean: a Poisson process.
    Poisson(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub number: u32,
    pub sent_at: Instant,
    pub at: Instant,
}

impl Plain {
    pub fn arrivals(&self) -> &[Arrival] {
        match self {
            Self::Sink(arrivals) => arrivals,
            _ => &[],
        }
    }
}

impl Host for Plain {
    type Timer = u32;

    fn start(&mut self, port: &mut Port<'_, u32>) {
        if let Self::Source { interval, .. } = self {
            let first = interval.draw(port);
            port.set_timer(first, 0);
        }
    }

    fn timer(&mut self, port: &mut Port<'_, u32>, number: u32) {
        let Self::Source { to, left, bytes, interval } = self else { return };
        let mut payload = vec![0; (*bytes).max(4)];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        port.send(*to, &payload, None, None);
        *left -= 1;
        if *left > 0 {
            let next = interval.draw(port);
            port.set_timer(next, number + 1);
        }
    }

    fn receive(&mut self, port: &mut Port<'_, u32>, packet: Received<'_>) {
        match self {
            Self::Echo => {
                port.send(packet.meta.from, packet.bytes, None, Some(packet.meta.as_cause()));
            }
            Self::Sink(arrivals) => {
                let number = u32::from_be_bytes(packet.bytes[..4].try_into().expect("packets are at least 4 bytes"));
                arrivals.push(Arrival { number, sent_at: packet.meta.sent_at, at: port.now() });
            }
            Self::Source { .. } => {}
        }
    }

    fn wake(&mut self, _: &mut Port<'_, u32>) {}
}

impl Interval {
    fn draw(self, port: &mut Port<'_, u32>) -> Duration {
        match self {
            Self::Constant(interval) => interval,
            Self::Poisson(mean) => mean.mul_f64(port.rng().exponential()),
        }
    }
}

pub fn mean(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.into_iter().collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

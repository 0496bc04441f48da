//! What is measured of a run.

use std::time::Duration;

use conche_netsim::Instant;

use crate::results::Unit;
use crate::stats::jain_index;
use crate::workload::Exchange;

/// What remains of a run.
pub(super) struct Record {
    pub(super) motes: Vec<Sent>,
    /// When the sink received a message, and which mote it was from. Copies do not count.
    pub(super) arrivals: Vec<(Instant, usize)>,
    /// Frames on the air, acknowledgments not counted.
    pub(super) frames: u64,
}

/// What a mote sent.
pub(super) struct Sent {
    pub(super) hops: u16,
    /// Its messages are Confirmable.
    pub(super) confirmable: bool,
    /// Those of its exchanges that are over.
    pub(super) exchanges: Vec<Exchange>,
}

/// A stretch of a run, and how it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) from: Instant,
    pub(super) to: Instant,
    /// The window of the short-term fairness.
    pub(super) window: Duration,
    /// Bits that count for a message.
    pub(super) message_bits: f64,
}

/// A value of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) column: String,
    pub(super) unit: Unit,
    pub(super) value: f64,
}

/// A mote whose goodput is below this share of the mean of all starves.
const STARVING: f64 = 0.1;

impl Record {
    /// What the motes with Confirmable messages achieved in a stretch of the run.
    pub(super) fn values(&self, stretch: Stretch) -> Vec<Value> {
        let mut values = Vec::new();
        let mut value = |column: &str, unit, value: f64| values.push(Value { column: column.to_owned(), unit, value });
        let seconds = (stretch.to - stretch.from).as_secs_f64();
        let received = self.received(stretch.from, stretch.to, true);
        let goodput = |messages: f64| messages * stretch.message_bits / seconds;
        let total: f64 = received.iter().sum();
        let windows = self.windows(stretch);
        let fairness: Vec<f64> = windows.iter().filter_map(|window| jain_index(window)).collect();
        value("jain_short", Unit::Ratio, mean(&fairness));
        value("jain_long", Unit::Ratio, jain_index(&received).unwrap_or(0.0));
        value("goodput", Unit::BitsPerSecond, goodput(total));
        value("goodput_mote", Unit::BitsPerSecond, goodput(total) / received.len() as f64);
        let starving = received.iter().filter(|messages| **messages < STARVING * total / received.len() as f64);
        value("starving", Unit::Count, starving.count() as f64);
        let silent = windows.iter().flatten().filter(|messages| **messages == 0.0).count();
        value("silent", Unit::Percent, 100.0 * silent as f64 / (windows.len() * received.len()).max(1) as f64);

        let over = self.motes.iter().flat_map(|mote| &mote.exchanges);
        let over: Vec<&Exchange> =
            over.filter(|exchange| stretch.from <= exchange.ended && exchange.ended < stretch.to).collect();
        let copies: f64 = over.iter().map(|exchange| f64::from(exchange.transmissions)).sum();
        let retransmissions: f64 =
            over.iter().map(|exchange| f64::from(exchange.transmissions.saturating_sub(1))).sum();
        let failed = over.iter().filter(|exchange| !exchange.answered).count() as f64;
        value("retransmission_index", Unit::Ratio, retransmissions / copies.max(1.0));
        value("loss", Unit::Percent, 100.0 * failed / over.len().max(1) as f64);
        let mut times: Vec<f64> = over.iter().filter_map(|exchange| Some(exchange.round_trip?.as_secs_f64())).collect();
        times.sort_by(f64::total_cmp);
        if !times.is_empty() {
            value("rtt_median", Unit::Seconds, times[times.len() / 2]);
        }
        let farthest = self.motes.iter().map(|mote| mote.hops).max().unwrap_or(0);
        for hops in 1..=farthest {
            let of: Vec<f64> =
                self.confirmable().zip(&received).filter(|(mote, _)| mote.hops == hops).map(|(_, n)| *n).collect();
            if !of.is_empty() {
                value(&format!("goodput_mote_{hops}_hops"), Unit::BitsPerSecond, goodput(mean(&of)));
            }
        }
        values
    }

    /// Goodput of the first mote with Confirmable messages that is so many hops away, window by window, in bit/s.
    pub(super) fn series(&self, hops: u16, stretch: Stretch) -> Vec<f64> {
        let Some(mote) = self.confirmable().position(|mote| mote.hops == hops) else { return Vec::new() };
        let seconds = stretch.window.as_secs_f64();
        self.windows(stretch).iter().map(|window| window[mote] * stretch.message_bits / seconds).collect()
    }

    /// Goodput of all motes whose traffic knows of no congestion, in bit/s.
    pub(super) fn unaware_goodput(&self, stretch: Stretch) -> f64 {
        let received = self.received(stretch.from, stretch.to, false);
        received.iter().sum::<f64>() * stretch.message_bits / (stretch.to - stretch.from).as_secs_f64()
    }

    fn confirmable(&self) -> impl Iterator<Item = &Sent> {
        self.motes.iter().filter(|mote| mote.confirmable)
    }

    /// Messages that the sink received from each of the motes with Confirmable messages, or of the others.
    fn received(&self, from: Instant, to: Instant, confirmable: bool) -> Vec<f64> {
        let mut counts = vec![0.0; self.motes.len()];
        for (_, mote) in self.arrivals.iter().filter(|(at, _)| from <= *at && *at < to) {
            counts[*mote] += 1.0;
        }
        let of = self.motes.iter().zip(counts).filter(|(mote, _)| mote.confirmable == confirmable);
        of.map(|(_, count)| count).collect()
    }

    /// The same in each whole window of the stretch.
    fn windows(&self, stretch: Stretch) -> Vec<Vec<f64>> {
        let window = stretch.window.as_nanos().max(1);
        let count = usize::try_from((stretch.to - stretch.from).as_nanos() / window).unwrap_or(0);
        let mut windows = vec![vec![0.0; self.motes.len()]; count];
        for (at, mote) in self.arrivals.iter().filter(|(at, _)| stretch.from <= *at) {
            let place = usize::try_from((*at - stretch.from).as_nanos() / window).unwrap_or(usize::MAX);
            if let Some(counts) = windows.get_mut(place) {
                counts[*mote] += 1.0;
            }
        }
        let confirmable = |counts: Vec<f64>| {
            let of = self.motes.iter().zip(counts).filter(|(mote, _)| mote.confirmable);
            of.map(|(_, count)| count).collect()
        };
        windows.into_iter().map(confirmable).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

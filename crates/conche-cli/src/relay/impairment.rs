//! Loss and delay of the datagrams of one direction.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conche_netsim::rng::Stream;
use conche_netsim::wired::{Distribution, Loss, LossProcess};

/// Loss and delay of one direction. Default: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairment {
    /// Loss process.
    pub loss: Loss,
    /// Delay of each datagram.
    pub delay: Duration,
    /// Additional delay of each datagram, drawn independently, so datagrams may be reordered.
    pub jitter: Distribution,
    /// Maximum number of losses of the same datagram; `None` for no bound.
    ///
    /// With a bound of 2 in both directions every Confirmable exchange succeeds (MAX_RETRANSMIT 4,
    /// RFC 7252 §4.8), as tests can require: of 5 transmissions at least 3 arrive, each causes a
    /// copy of the same reply, and at least 1 of these arrives.
    pub most_losses_per_datagram: Option<u8>,
}

#[derive(Debug)]
pub(super) struct Direction {
    impairment: Impairment,
    loss: LossProcess,
    started: Instant,
    jitter: Stream,
    copies: RetransmissionLosses,
}

impl Direction {
    /// `stream` returns the stream of a purpose.
    pub(super) fn new(impairment: Impairment, stream: impl Fn(&str) -> Stream) -> Self {
        Self {
            impairment,
            loss: LossProcess::new(impairment.loss, stream("loss"), stream("sojourns")),
            started: Instant::now(),
            jitter: stream("jitter"),
            copies: RetransmissionLosses::default(),
        }
    }

    /// Returns `None` if it is lost.
    pub(super) fn fate(&mut self, client: SocketAddr, datagram: &[u8]) -> Option<Duration> {
        let at = conche_netsim::Instant::ZERO + self.started.elapsed();
        if self.loss.next_is_lost(at) && self.may_be_lost(client, datagram) {
            return None;
        }
        Some(self.impairment.delay + self.impairment.jitter.sample(&mut self.jitter))
    }

    fn may_be_lost(&mut self, client: SocketAddr, datagram: &[u8]) -> bool {
        match self.impairment.most_losses_per_datagram {
            None => true,
            Some(most) => self.copies.lose_another(client, datagram, most),
        }
    }
}

#[derive(Debug, Default)]
struct RetransmissionLosses {
    hasher: RandomState,
    lost: HashMap<u64, u8>,
    order: VecDeque<u64>,
}

impl RetransmissionLosses {
    const REMEMBERED: usize = 65_536;

    fn lose_another(&mut self, client: SocketAddr, datagram: &[u8], most: u8) -> bool {
        let key = self.hasher.hash_one((client, datagram));
        if !self.lost.contains_key(&key) {
            if self.order.len() >= Self::REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.lost.remove(&oldest);
            }
            self.order.push_back(key);
        }
        let lost = self.lost.entry(key).or_default();
        let allowed = *lost < most;
        *lost += u8::from(allowed);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conche_netsim::rng::{Entity, Purpose, Streams};

    fn direction(impairment: Impairment) -> Direction {
        Direction::new(impairment, |of| Streams::new(7).stream(Entity::Run, Purpose::named(of)))
    }

    const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    #[test]
    fn no_more_copies_of_a_datagram_are_lost_than_allowed() {
        let mut direction = direction(Impairment {
            loss: Loss::Bernoulli(1.0),
            most_losses_per_datagram: Some(2),
            ..Impairment::default()
        });
        let mut lost = |datagram: &[u8]| direction.fate(CLIENT, datagram).is_none();
        assert_eq!(
            [lost(b"a"), lost(b"a"), lost(b"b"), lost(b"a"), lost(b"a"), lost(b"b"), lost(b"b")],
            [true, true, true, false, false, true, false]
        );
    }

    #[test]
    fn without_impairment_everything_passes_at_once() {
        let mut direction = direction(Impairment::default());
        assert!((0..100).all(|_| direction.fate(CLIENT, b"a") == Some(Duration::ZERO)));
    }
}

//! temper: conche's own controller. One loss timer, one delay gate, one floor, and no change on the wire.
//!
//! A loss alone is a fade, and is repaired fast. A round-trip time above its least alone is a queue, and the *gate* lets exchanges
//! start further apart. Both together are a congested radio: the *floor* under the timer waits as long as a sender that
//! measures nothing would. What an acknowledgement after a retransmission says is decided by when it comes: one round trip after the
//! last copy it answers that copy, and something was lost; at any other time it is a late answer to the original, an
//! upper bound of the round-trip time.
//!
//! Source: this crate; `docs/controllers/temper.md` has the reasons, what each part is worth, and the requirements of RFC 8085 and RFC 8961 one
//! by one. Divergences: backoff is let go after *one* ambiguous exchange (RFC 8961 §4 (4)), see [`Temper::grace`]; and a late
//! answer enters the estimate as an upper bound (§4 (2d)), see [`Ambiguity`].

use core::time::Duration;

use crate::backoff::{Timer, bounded, dithered, spread};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::features::Features;
use crate::group::Group;
use crate::non::paced_by_rto;
pub use crate::path::Ambiguity;
use crate::path::PathState;
use crate::time::Instant;
use crate::units::{Factor, Micros, Stamp};

/// Loss timer, delay gate and floor.
///
/// ```
/// use conche_cc::temper::Temper;
/// use conche_cc::units::Factor;
///
/// let temper = Temper::default();
/// assert_eq!(temper.blind_backoff, Factor::THREE);
/// // RFC 8961's backoff to the letter.
/// let strict = Temper { blind_backoff: Factor::TWO, blind_room: None, grace: 0, ..temper };
/// assert_ne!(strict, temper);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temper {
    /// The first timer while the peer is blind, before dithering (`ACK_TIMEOUT`, RFC 7252 §4.8).
    pub ack_timeout: Duration,
    /// The first timer while blind is up to this many times that.
    pub ack_random_factor: Factor,
    /// Neither an RTO nor a timer is longer.
    pub max_timeout: Duration,
    /// How a timer grows from copy to copy in an exchange that began blind. Three keeps it out of a full queue.
    pub blind_backoff: Factor,
    /// Timers of an exchange that knows nothing of its peer grow up to so many times the longest first one, until there are four copies:
    /// with 5.5 all of them leave within MAX_TRANSMIT_SPAN (RFC 7252 §4.8.2), and none sooner than if timers doubled. `None`: no bound.
    pub blind_room: Option<Factor>,
    /// How it grows in one that began with a round-trip time.
    pub backoff: Factor,
    /// The RTO is at least this above the smoothed round-trip time: the granularity of clocks.
    pub least_spread: Duration,
    /// Two exchanges start at least this many queueing delays apart, unless that is less than a millisecond; zero takes the gate away.
    pub gate: Factor,
    /// But no more than this many RTOs: a forged early answer must not shut the gate.
    pub gate_limit: Factor,
    /// The RTO is this for every copy that a mean exchange needs beyond the first; zero takes the floor away.
    pub floor: Duration,
    /// The floor under an exchange's first timer is this even where nothing is lost, and dithered as a blind one: in a busy mesh of
    /// radios collisions look like a queue, and a copy that is sent soon is one more. It is divided by the square of the
    /// exchanges outstanding, which lengthen each other's round trips. Inflation counts from
    /// [`least_spread`](Self::least_spread) on: what is shorter is the hosts' own time, as in a local network.
    pub queue_floor: Duration,
    /// Both floors count in proportion to the inflation of the round-trip time over its least, from 0 to 1.
    pub floor_follows_inflation: bool,
    /// The timer of an exchange's first copy is no shorter: a second loss in a row is a fade or a collision.
    pub first_copy: Duration,
    /// That of its second copy is no shorter, and this bound doubles with every further one.
    pub later_copies: Duration,
    /// What an acknowledgement after a retransmission is taken for.
    pub ambiguity: Ambiguity,
    /// So many ambiguous exchanges in a row are forgiven before the next one's RTO doubles. One loss is noise; zero keeps to
    /// RFC 8961 §4 (4).
    pub grace: u8,
    /// The RTO doubles up to this often, less the grace.
    pub max_doubt: u8,
    /// Round trips that exceed the least one by more than so many of their variations are those of a longer route, to be got used to in
    /// tens of exchanges, and no queue's. Zero: only the age of the least one tells.
    pub steady: u8,
}

impl Default for Temper {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            ack_random_factor: Factor::ONE_AND_HALF,
            max_timeout: Duration::from_secs(60),
            blind_backoff: Factor::THREE,
            blind_room: Some(Factor::from_permille(5_500)),
            backoff: Factor::TWO,
            least_spread: Duration::from_millis(10),
            gate: Factor::from_permille(4_000),
            gate_limit: Factor::from_permille(4_000),
            floor: Duration::from_secs(4),
            queue_floor: Duration::from_secs(2),
            floor_follows_inflation: true,
            first_copy: Duration::from_millis(750),
            later_copies: Duration::from_secs(3),
            ambiguity: Ambiguity::Likely,
            grace: 1,
            max_doubt: 5,
            steady: 16,
        }
    }
}

/// What temper remembers of a peer: 36 bytes.
pub type TemperPeer = PathState;

impl Temper {
    /// Without a floor under what is not lost, with a least round trip that only time changes, and without room for four copies: as it was
    /// first specified, and as a prototype's traces have it.
    #[must_use]
    pub fn first_specified() -> Self {
        Self { queue_floor: Duration::ZERO, steady: 0, blind_room: None, ..Self::default() }
    }

    /// The RTO without doubt.
    fn timer(&self, peer: &TemperPeer) -> Micros {
        let Some(srtt) = peer.estimator.srtt() else {
            return self.bounded(peer.provisional().unwrap_or(self.ack_timeout.into()));
        };
        let spread = peer.estimator.rto(4).max(srtt.plus(self.least_spread.into()));
        self.bounded(spread.max(self.floor(peer)))
    }

    /// What loss and inflation together hold the RTO at.
    fn floor(&self, peer: &TemperPeer) -> Micros {
        self.inflated(peer, peer.copies.times(self.floor.into()), Micros::ZERO)
    }

    /// What inflation alone holds the first timer of an exchange at, beside so many others. Zero while blind.
    fn queue_floor(&self, peer: &TemperPeer, others: u16) -> Micros {
        if peer.estimator.is_blind() {
            return Micros::ZERO;
        }
        self.inflated(peer, Micros::from(self.queue_floor).divided(squared(others)), self.least_spread.into())
    }

    fn inflated(&self, peer: &TemperPeer, floor: Micros, least: Micros) -> Micros {
        let in_full = floor == Micros::ZERO || !self.floor_follows_inflation;
        if in_full { floor } else { peer.inflation(least).of(floor) }
    }

    /// The RTO, before it is dithered and held.
    fn rto(&self, peer: &TemperPeer) -> Micros {
        let doublings = peer.doubt.saturating_sub(self.grace).min(31);
        self.bounded(self.timer(peer).times(1 << doublings))
    }

    /// What the next exchange starts from, before dithering.
    fn next(&self, peer: &TemperPeer) -> Micros {
        self.bounded(self.rto(peer).max(self.queue_floor(peer, 0)))
    }

    /// The first timer of an exchange beside so many others.
    fn first(&self, peer: &TemperPeer, others: u16, random: u32) -> Micros {
        let rto = self.rto(peer);
        match peer.estimator.srtt() {
            None => dithered(rto, self.ack_random_factor, random),
            Some(srtt) => {
                let held = dithered(self.queue_floor(peer, others), self.ack_random_factor, random);
                spread(rto, srtt, random).max(held)
            }
        }
    }

    fn begun(&self, peer: &TemperPeer) -> Begun {
        match peer.estimator.is_blind() {
            false => Begun::Measured,
            true if self.rto(peer) > Micros::from(self.ack_timeout) => Begun::Blind,
            true => Begun::Unknown,
        }
    }

    /// How the timer of an exchange grows, and up to what.
    fn growth(&self, begun: Begun, attempt: u8) -> (Factor, Micros) {
        let longest = self.max_timeout.into();
        match begun {
            Begun::Measured => (self.backoff, longest),
            Begun::Unknown if attempt < MAX_RETRANSMIT => (self.blind_backoff, longest.min(self.room())),
            Begun::Unknown | Begun::Blind => (self.blind_backoff, longest),
        }
    }

    /// The longest first timer of an exchange that knows nothing of its peer.
    fn longest_first(&self) -> Micros {
        Micros::from(self.ack_timeout).scaled(self.ack_random_factor)
    }

    fn room(&self) -> Micros {
        self.blind_room.map_or(Micros::MAX, |factor| self.longest_first().scaled(factor))
    }

    /// The least timer of a copy.
    fn least_of_copy(&self, attempt: u8) -> Micros {
        match attempt {
            0 | 1 => self.first_copy.into(),
            _ => Micros::from(self.later_copies).times(1 << (attempt - 2).min(31)),
        }
    }

    /// How far apart exchanges start, of which `others` are under way beside the one that is to.
    fn gap(&self, peer: &TemperPeer, others: u16) -> Micros {
        let queueing_delay = peer.queueing_delay();
        if queueing_delay == Micros::ZERO {
            return Micros::ZERO;
        }
        let gap =
            queueing_delay.scaled(self.gate).min(self.timer(peer).scaled(self.gate_limit)).divided(squared(others));
        // No timer is finer: on a loopback the wait would be longer than the queue.
        if gap < Micros::MILLISECOND { Micros::ZERO } else { gap }
    }

    fn bounded(&self, timer: Micros) -> Micros {
        bounded(timer, self.max_timeout.into())
    }
}

/// The square of the exchanges outstanding, this one included.
fn squared(others: u16) -> u32 {
    (u32::from(others) + 1).saturating_pow(2)
}

/// What an exchange remembers: its timer, and what it backs off by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemperFlight {
    timer: Timer,
    begun: Begun,
}

/// What is known of the peer when an exchange begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    #[default]
    Measured,
    /// No round-trip time, but that it takes longer than a first timer or that exchanges fail.
    Blind,
    Unknown,
}

/// RFC 7252 §4.8.
const MAX_RETRANSMIT: u8 = 4;

/// The feature table's row of temper.
pub const FEATURES: Features = Features {
    about: "temper: a fast timer for losses, a gate for queues, a floor where both come together",
    strong_rtt: true,
    weak_rtt: Some(u8::MAX),
    dithering: "blind [1, 1.5], else RTO + SRTT·[1/4, 1]",
    backoff: "blind x3 up to 16.5 s, else binary; copies no sooner than 750 ms, 3 s, 6 s, ...",
    ageing: "none; the least RTT is that of 5 to 10 minutes",
    reuses_backed_off_rto: false,
    source: "conche",
    peer_bytes: size_of::<TemperPeer>(),
    flight_bytes: size_of::<TemperFlight>(),
    published_bytes: None,
};

impl Controller for Temper {
    type Peer = TemperPeer;
    type Flight = TemperFlight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> TemperPeer {
        TemperPeer::default()
    }

    fn seed(&self, now: Instant, group: &Group) -> TemperPeer {
        group.path(now)
    }

    fn admit(&self, peer: &mut TemperPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if !message.confirmable {
            return paced_by_rto(now, message, &load.non, self.rto(peer));
        }
        let gap = self.gap(peer, load.exchanges);
        if gap == Micros::ZERO {
            return Admission::Send;
        }
        let earliest = peer.last_start.instant(now) + Duration::from(gap);
        if now >= earliest { Admission::Send } else { Admission::At(earliest) }
    }

    fn sent(&self, peer: &mut TemperPeer, flight: &mut TemperFlight, event: &Sent) -> Duration {
        let begins = event.confirmable && (event.attempt == 0 || flight.timer.armed().is_none());
        if begins {
            flight.begun = self.begun(peer);
            peer.last_start = Stamp::at(event.now);
        }
        let (factor, longest) = self.growth(flight.begun, event.attempt);
        let first = || self.first(peer, event.load.exchanges, event.random);
        let armed = flight.timer.arm(event, first, factor, longest);
        if begins || !event.confirmable {
            return armed;
        }
        flight.timer.raise(self.least_of_copy(event.attempt), self.max_timeout.into())
    }

    fn expired(&self, _peer: &mut TemperPeer, _flight: &mut TemperFlight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut TemperPeer, _flight: &TemperFlight, event: &Acknowledged<'_>) {
        peer.acknowledged(event, self.ambiguity, self.max_doubt);
        peer.learn_route(self.steady.into());
    }

    fn abandoned(&self, peer: &mut TemperPeer, flight: &TemperFlight, event: &Abandoned<'_>) {
        if flight.timer.armed().is_some() {
            peer.abandoned(event, self.max_doubt);
        }
    }

    fn drained(&self, _peer: &mut TemperPeer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut TemperPeer, _now: Instant) -> Duration {
        self.next(peer).into()
    }

    fn snapshot(&self, peer: &TemperPeer) -> Snapshot {
        Snapshot {
            rto: self.next(peer).into(),
            srtt: peer.estimator.srtt().map(Duration::from),
            rttvar: peer.estimator.rttvar().map(Duration::from),
            bandwidth: None,
        }
    }
}

#[cfg(test)]
mod tests;

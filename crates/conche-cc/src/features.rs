//! What distinguishes the algorithms, as data: the feature table of ComMag'16 (Table 1), continued.

use crate::control::Controller;

/// One algorithm's row of the feature table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// One line on what it is.
    pub about: &'static str,
    /// Round-trip times of exchanges without a retransmission are used.
    pub strong_rtt: bool,
    /// Round-trip times of exchanges with retransmissions are used, with so many of them at most; `None`: they are not.
    pub weak_rtt: Option<u8>,
    /// How the first timer of an exchange is spread.
    pub dithering: &'static str,
    /// How the timer grows from copy to copy.
    pub backoff: &'static str,
    /// What idleness does to the RTO.
    pub ageing: &'static str,
    /// A backed-off timer carries over to the next exchange.
    pub reuses_backed_off_rto: bool,
    /// Where the algorithm is defined.
    pub source: &'static str,
    /// Bytes of state for each peer, as measured here.
    pub peer_bytes: usize,
    /// Bytes of state for each exchange, as measured here.
    pub flight_bytes: usize,
    /// Bytes of state for each peer according to ComMag'16, Table 1.
    pub published_bytes: Option<u16>,
}

impl Features {
    /// Whether the round-trip time of an exchange with so many retransmissions is used.
    #[must_use]
    pub const fn samples(&self, retransmissions: u16) -> bool {
        match (retransmissions, self.weak_rtt) {
            (0, _) => self.strong_rtt,
            (_, Some(most)) => retransmissions <= most as u16,
            (_, None) => false,
        }
    }

    /// Those of a controller of which only this and its sizes are told: no samples, a plain timer, no published size. Write
    /// what differs: `Features { strong_rtt: true, ..Features::of::<Mine>("what it is") }`.
    #[must_use]
    pub const fn of<C: Controller>(about: &'static str) -> Self {
        Self {
            about,
            strong_rtt: false,
            weak_rtt: None,
            dithering: "-",
            backoff: "-",
            ageing: "-",
            reuses_backed_off_rto: false,
            source: "-",
            peer_bytes: size_of::<C::Peer>(),
            flight_bytes: size_of::<C::Flight>(),
            published_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{basic, cocoa, default};

    #[test]
    fn an_algorithm_samples_the_exchanges_that_its_row_says() {
        let used = |of: super::Features| [0, 1, 2, 3, 300].map(|retransmissions| of.samples(retransmissions));
        assert_eq!(used(default::FEATURES), [false; 5]);
        assert_eq!(used(cocoa::strong::FEATURES), [true, false, false, false, false]);
        assert_eq!(used(cocoa::draft03::PLUS_FEATURES), [true, true, true, false, false]);
        assert_eq!(used(cocoa::v2014::OPTIMIZED_FEATURES), [true, true, false, false, false]);
        assert_eq!(used(basic::FEATURES)[..4], [true; 4]);
    }
}

//! ComMag'16's feature table (Table 1) as data, extended to all algorithms.

use crate::control::Controller;

/// An algorithm's row in the feature table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// One-line description.
    pub about: &'static str,
    /// Exchanges without a retransmission give RTT samples.
    pub strong_rtt: bool,
    /// Maximum retransmissions of an exchange that gives a sample; `None`: no weak samples.
    pub weak_rtt: Option<u8>,
    /// Randomisation of the first timeout; `none` without, `until measured: ...` if samples end it.
    pub dithering: &'static str,
    /// Growth of the timeout with retransmissions; starts with `none` without.
    pub backoff: &'static str,
    /// Change of the RTO while idle; starts with `none` or `-` without.
    pub ageing: &'static str,
    /// A backed-off timeout carries over to the next exchange.
    pub reuses_backed_off_rto: bool,
    /// Definition of the algorithm.
    pub source: &'static str,
    /// Bytes of state per peer (`size_of`).
    pub peer_bytes: usize,
    /// Bytes of state per exchange (`size_of`).
    pub flight_bytes: usize,
    /// Bytes per peer in ComMag'16, Table 1.
    pub published_bytes: Option<u16>,
}

impl Features {
    /// Returns whether this number of retransmissions gives a sample.
    #[must_use]
    pub const fn samples(&self, retransmissions: u16) -> bool {
        match (retransmissions, self.weak_rtt) {
            (0, _) => self.strong_rtt,
            (_, Some(most)) => retransmissions <= most as u16,
            (_, None) => false,
        }
    }

    /// Returns a row with this description and `C`'s sizes, as a base: `Features { strong_rtt:
    /// true, ..Features::of::<Mine>("description") }`.
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
    fn each_algorithm_samples_the_exchanges_of_its_features() {
        let used = |of: super::Features| [0, 1, 2, 3, 300].map(|retransmissions| of.samples(retransmissions));
        assert_eq!(used(default::FEATURES), [false; 5]);
        assert_eq!(used(cocoa::strong::FEATURES), [true, false, false, false, false]);
        assert_eq!(used(cocoa::draft03::PLUS_FEATURES), [true, true, true, false, false]);
        assert_eq!(used(cocoa::v2014::OPTIMIZED_FEATURES), [true, true, false, false, false]);
        assert_eq!(used(basic::FEATURES)[..4], [true; 4]);
    }
}

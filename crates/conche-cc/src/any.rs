//! [`AnyController`]: an algorithm that is chosen when the program runs, by name or from its configuration.
//!
//! It is an enum, so it needs no heap and its size is known; each call costs one jump. A program that knows its algorithm
//! names the type instead and pays for nothing else.
//!
//! To add an algorithm, write its file and give it one line in the table at the end of this one.

use core::fmt;
use core::time::Duration;

use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::features::Features;
use crate::time::Instant;

/// A name that [`AnyController::by_name`] knows.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The name, in lower case with dashes.
    pub name: &'static str,
    /// What distinguishes the algorithm.
    pub features: Features,
    make: fn() -> AnyController,
}

impl Named {
    /// The algorithm with its production defaults.
    #[must_use]
    pub fn controller(&self) -> AnyController {
        (self.make)()
    }
}

impl AnyController {
    /// The algorithm of this name with its production defaults; underscores count as dashes.
    ///
    /// ```
    /// use conche_cc::any::AnyController;
    ///
    /// assert!(AnyController::by_name("cocoa-fb1").is_ok());
    /// assert!(AnyController::by_name("cocoa_fb1").is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`UnknownController`], which tells the nearest name and all others.
    pub fn by_name(name: &str) -> Result<Self, UnknownController> {
        let found = ALL.iter().find(|named| same(named.name, name));
        found.map(Named::controller).ok_or_else(|| UnknownController::new(name))
    }
}

fn letters(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() })
}

fn same(a: &str, b: &str) -> bool {
    letters(a).eq(letters(b))
}

/// No controller has the name that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownController {
    /// The valid name that is spelled most alike, if one is.
    pub nearest: Option<&'static str>,
    asked: [u8; Self::SHOWN],
    len: usize,
}

impl UnknownController {
    /// As much of the wrong name is shown.
    const SHOWN: usize = 32;

    fn new(name: &str) -> Self {
        let len = (0..=Self::SHOWN.min(name.len())).rev().find(|len| name.is_char_boundary(*len)).unwrap_or(0);
        let mut asked = [0; Self::SHOWN];
        asked[..len].copy_from_slice(&name.as_bytes()[..len]);
        let nearest = ALL
            .iter()
            .map(|named| (edits(named.name, name), named.name))
            .min()
            .filter(|(edits, nearest)| *edits <= nearest.len() / 2)
            .map(|(_, nearest)| nearest);
        Self { nearest, asked, len }
    }
}

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = core::str::from_utf8(&self.asked[..self.len]).unwrap_or("");
        write!(f, "no congestion controller is called {asked:?}")?;
        if let Some(nearest) = self.nearest {
            write!(f, "; did you mean {nearest}?")?;
        }
        f.write_str(" Valid names: ")?;
        for (n, named) in ALL.iter().enumerate() {
            if n > 0 {
                f.write_str(", ")?;
            }
            f.write_str(named.name)?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownController {}

/// The Levenshtein distance between two names, of which only the first 32 letters count.
fn edits(a: &str, b: &str) -> usize {
    const LONGEST: usize = 32;
    let mut row: [usize; LONGEST + 1] = core::array::from_fn(|n| n);
    let columns = b.len().min(LONGEST);
    for (i, from) in letters(a).enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, to) in letters(b).take(LONGEST).enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[columns]
}

/// Writes the enums and their dispatch from the table below.
macro_rules! algorithms {
    ($($variant:ident($type:ty) { $($name:literal => $make:expr, $features:expr;)+ })+) => {
        /// Any of this crate's algorithms, with its configuration.
        ///
        /// ```
        /// use conche_cc::any::AnyController;
        /// use conche_cc::cocoa::{Aging, Cocoa};
        ///
        /// let by_name = AnyController::by_name("cocoa")?;
        /// let configured = AnyController::from(Cocoa { aging: Aging::Off, ..Cocoa::default() });
        /// assert_ne!(by_name, configured);
        /// # Ok::<(), conche_cc::any::UnknownController>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum AnyController {
            $(#[doc = concat!("See [`", stringify!($type), "`].")] $variant($type),)+
        }

        /// The state of a destination under any algorithm, as large as the largest.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "one variant an algorithm")]
        pub enum AnyPeer {
            $($variant(<$type as Controller>::Peer),)+
        }

        /// The state of an exchange under any algorithm, as large as the largest.
        #[derive(Clone, Copy, Debug, Default)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "one variant an algorithm")]
        pub enum AnyFlight {
            /// Before the first transmission, under an algorithm not yet known.
            #[default]
            New,
            $($variant(<$type as Controller>::Flight),)+
        }

        $(impl From<$type> for AnyController {
            fn from(controller: $type) -> Self {
                Self::$variant(controller)
            }
        })+

        /// Every name, in the order in which tables show them.
        pub const ALL: &[Named] = &[
            $($(Named { name: $name, features: $features, make: || AnyController::$variant($make) },)+)+
        ];

        /// Runs `$call` with the algorithm `$c`, its peer `$p` and its flight `$f`. State that another algorithm left
        /// behind, which happens when a program changes its mind, is replaced by the state of a new peer or exchange.
        macro_rules! dispatch {
            ($self:ident, $peer:ident, $flight:ident, $now:expr, |$c:ident, $p:ident, $f:ident| $call:expr) => {
                match $self {
                    $(AnyController::$variant($c) => {
                        if !matches!($peer, AnyPeer::$variant(_)) {
                            *$peer = AnyPeer::$variant($c.peer($now));
                        }
                        if !matches!($flight, AnyFlight::$variant(_)) {
                            *$flight = AnyFlight::$variant(Default::default());
                        }
                        match ($peer, $flight) {
                            (AnyPeer::$variant($p), AnyFlight::$variant($f)) => $call,
                            _ => unreachable!("both were just made to match"),
                        }
                    })+
                }
            };
        }

        impl Controller for AnyController {
            type Peer = AnyPeer;
            type Flight = AnyFlight;

            fn peer(&self, now: Instant) -> AnyPeer {
                match self {
                    $(Self::$variant(controller) => AnyPeer::$variant(controller.peer(now)),)+
                }
            }

            fn admit(&self, peer: &mut AnyPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
                let flight = &mut AnyFlight::New;
                dispatch!(self, peer, flight, now, |c, p, _f| c.admit(p, now, message, load))
            }

            fn sent(&self, peer: &mut AnyPeer, flight: &mut AnyFlight, event: &Sent) -> Duration {
                dispatch!(self, peer, flight, event.now, |c, p, f| c.sent(p, f, event))
            }

            fn expired(&self, peer: &mut AnyPeer, flight: &mut AnyFlight, event: &Expired) -> Instant {
                dispatch!(self, peer, flight, event.now, |c, p, f| c.expired(p, f, event))
            }

            fn acknowledged(&self, peer: &mut AnyPeer, flight: &AnyFlight, event: &Acknowledged<'_>) {
                let flight = &mut { *flight };
                dispatch!(self, peer, flight, event.now, |c, p, f| c.acknowledged(p, f, event));
            }

            fn abandoned(&self, peer: &mut AnyPeer, flight: &AnyFlight, event: &Abandoned<'_>) {
                let flight = &mut { *flight };
                dispatch!(self, peer, flight, event.now, |c, p, f| c.abandoned(p, f, event));
            }

            fn drained(&self, peer: &mut AnyPeer, now: Instant, load: &Load) {
                let flight = &mut AnyFlight::New;
                dispatch!(self, peer, flight, now, |c, p, _f| c.drained(p, now, load));
            }

            fn base(&self, peer: &mut AnyPeer, now: Instant) -> Duration {
                let flight = &mut AnyFlight::New;
                dispatch!(self, peer, flight, now, |c, p, _f| c.base(p, now))
            }

            fn snapshot(&self, peer: &AnyPeer) -> Snapshot {
                match (self, peer) {
                    $((Self::$variant(controller), AnyPeer::$variant(peer)) => controller.snapshot(peer),)+
                    _ => Snapshot::default(),
                }
            }
        }
    };
}

use crate::{basic, bdp, cocoa, default, fasor, full_backoff, linux, peak_hopper, wiopt};

algorithms! {
    Default(default::CoapDefault) {
        "default" => default::CoapDefault::default(), default::FEATURES;
        "coap-b" => default::CoapDefault::coap_b(), default::COAP_B_FEATURES;
        "static" => default::CoapDefault::default(), wiopt::STATIC_FEATURES;
    }
    Cocoa2014(cocoa::Cocoa2014) {
        "cocoa2014" => cocoa::Cocoa2014::default(), cocoa::v2014::FEATURES;
        "cocoa2014-opt" => cocoa::Cocoa2014::optimized(), cocoa::v2014::OPTIMIZED_FEATURES;
    }
    Cocoa(cocoa::Cocoa) {
        "cocoa" => cocoa::Cocoa::draft03(), cocoa::draft03::FEATURES;
        "cocoa-plus" => cocoa::Cocoa::plus(), cocoa::draft03::PLUS_FEATURES;
    }
    CocoaS(cocoa::CocoaS) {
        "cocoa-s" => cocoa::CocoaS::default(), cocoa::strong::FEATURES;
    }
    Basic(basic::Basic) { "basic" => basic::Basic::default(), basic::FEATURES; }
    Linux(linux::Linux) { "linux" => linux::Linux::default(), linux::FEATURES; }
    PeakHopper(peak_hopper::PeakHopper) {
        "peak-hopper" => peak_hopper::PeakHopper::default(), peak_hopper::FEATURES;
        "peak-hopper-cf" => peak_hopper::PeakHopper::californium_2014(), peak_hopper::CALIFORNIUM_FEATURES;
    }
    DefaultFullBackoff(full_backoff::DefaultFullBackoff) {
        "default-fb1" => full_backoff::DefaultFullBackoff::variant_1(), full_backoff::DEFAULT_FB1_FEATURES;
        "default-fb2" => full_backoff::DefaultFullBackoff::variant_2(), full_backoff::DEFAULT_FB2_FEATURES;
    }
    CocoaFullBackoff(full_backoff::CocoaFullBackoff) {
        "cocoa-fb1" => full_backoff::CocoaFullBackoff::variant_1(), full_backoff::COCOA_FB1_FEATURES;
        "cocoa-fb2" => full_backoff::CocoaFullBackoff::variant_2(), full_backoff::COCOA_FB2_FEATURES;
    }
    Fasor(fasor::Fasor) {
        "fasor" => fasor::Fasor::default(), fasor::FEATURES;
        "fasor-pseudo" => fasor::Fasor::pseudocode(), fasor::PSEUDOCODE_FEATURES;
    }
    Bdp(bdp::Bdp) {
        "bdp" => bdp::Bdp::default(), bdp::FEATURES;
        "bdp-literal" => bdp::Bdp::literal(), bdp::LITERAL_FEATURES;
    }
    SemiDynamic(wiopt::SemiDynamic) {
        "semi-dynamic" => wiopt::SemiDynamic::default(), wiopt::SEMI_DYNAMIC_FEATURES;
    }
    Rfc6298(wiopt::Rfc6298) { "rfc6298" => wiopt::Rfc6298::default(), wiopt::RFC6298_FEATURES; }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::testing::Drive;

    #[test]
    fn names_are_unique_and_in_lower_case_with_dashes() {
        for (n, named) in ALL.iter().enumerate() {
            assert!(named.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert!(ALL[..n].iter().all(|other| other.name != named.name), "{} twice", named.name);
        }
    }

    #[test]
    fn every_name_is_found_with_dashes_underscores_and_capitals() {
        for named in ALL {
            let found = Ok(named.controller());
            assert_eq!(AnyController::by_name(named.name), found);
            assert_eq!(AnyController::by_name(&named.name.replace('-', "_")), found);
            assert_eq!(AnyController::by_name(&named.name.to_uppercase()), found);
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_and_all_others() {
        let nearest = |name| AnyController::by_name(name).expect_err("no such name").nearest;
        assert_eq!(nearest("coco"), Some("cocoa"));
        assert_eq!(nearest("peakhopper"), Some("peak-hopper"));
        assert_eq!(nearest("fasr"), Some("fasor"));
        assert_eq!(nearest("x"), None);
        assert_eq!(nearest(""), None);
        let message = AnyController::by_name("lynux").expect_err("no such name").to_string();
        assert!(message.starts_with("no congestion controller is called \"lynux\"; did you mean linux?"), "{message}");
        assert!(ALL.iter().all(|named| message.contains(named.name)), "{message}");
    }

    #[test]
    fn a_long_wrong_name_is_cut_between_letters() {
        let name = "ü".repeat(40);
        let message = AnyController::by_name(&name).expect_err("no such name").to_string();
        assert!(message.contains(&"ü".repeat(16)) && !message.contains(&"ü".repeat(17)), "{message}");
    }

    #[test]
    fn the_state_of_another_algorithm_is_replaced() {
        let (linux, cocoa) = (AnyController::by_name("linux"), AnyController::by_name("cocoa"));
        let (linux, cocoa) = (linux.expect("a name"), cocoa.expect("a name"));
        let mut old = Drive::new(&linux);
        old.clean(300);
        let mut new = Drive::new(&cocoa);
        new.peer = old.peer.clone();
        new.flight = old.flight;
        assert_eq!(cocoa.snapshot(&new.peer), Snapshot::default());
        assert_eq!(new.base(), 2_000);
        assert_eq!(new.clean(300), 1_450);
    }

    #[test]
    fn any_state_is_little_larger_than_the_largest() {
        let largest = ALL.iter().map(|named| named.features.peer_bytes).max();
        assert!(largest.is_some_and(|bytes| size_of::<AnyPeer>() <= bytes + 8), "{} bytes", size_of::<AnyPeer>());
    }
}

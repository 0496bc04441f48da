//! [`AnyController`]: an algorithm that is chosen when the program runs, by name or from its configuration.
//!
//! It is an enum, so it needs no heap and its size is known; each call costs one jump. A program that knows its algorithm
//! names the type instead and pays for nothing else.
//!
//! To add an algorithm, write its file and give it one line in the table at the end of this one.

mod unknown;

use core::time::Duration;

use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::features::Features;
use crate::time::Instant;
pub use unknown::UnknownController;
use unknown::same;

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

            fn measures_rtt(&self) -> bool {
                match self {
                    $(Self::$variant(controller) => controller.measures_rtt(),)+
                }
            }

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
mod tests;

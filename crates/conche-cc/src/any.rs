//! [`AnyController`]: an algorithm chosen at run time, by name or by its configuration.
//!
//! An enum without heap state. With the feature `alloc`, CoCoA++'s state and most of BDP-CoAP's are
//! boxed, and other crates' algorithms are a variant (module `dynamic`). A new algorithm needs its
//! file and a line in the table below.

mod configured;
mod named;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod own;

use core::time::Duration;

pub use configured::{ConfigurationError, ParameterError};
pub use named::{Controllers, Named, UnknownController};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use own::DuplicateName;

use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::parameters::{Description, Parameters, Value};
use crate::path_history::PathHistory;
use crate::time::Instant;

impl AnyController {
    /// Returns the algorithm of this name with production defaults; case is ignored, and `_` equals
    /// `-`.
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
    /// [`UnknownController`].
    pub fn by_name(name: &str) -> Result<Self, UnknownController> {
        Named::by_name(name).map(Named::controller)
    }
}

/// Keeps [`AnyPeer`] small.
#[cfg(feature = "alloc")]
pub(crate) type Boxed<T> = alloc::boxed::Box<T>;
#[cfg(not(feature = "alloc"))]
pub(crate) type Boxed<T> = T;

trait Variant: Controller {
    fn peer_in<'a>(&self, any: &'a mut AnyPeer, now: Instant) -> &'a mut Self::Peer;

    fn flight_in(any: &mut AnyFlight) -> &mut Self::Flight;
}

macro_rules! algorithms {
    ($($(#[$attribute:meta])* $variant:ident($type:ty) {
        $($name:literal => $make:expr, $features:expr $(, version $version:literal)?;)*
    })+) => {
        /// An algorithm of this crate with its configuration.
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
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum AnyController {
            $($(#[$attribute])* #[doc = concat!("See [`", stringify!($type), "`].")] $variant($type),)+
        }

        /// A destination's state; with the feature `alloc`, at most 40 bytes on 64-bit machines
        /// (temper's).
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "one variant per algorithm")]
        pub enum AnyPeer {
            $($(#[$attribute])* $variant(<$type as Controller>::Peer),)+
        }

        /// An exchange's state.
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "one variant per algorithm")]
        pub enum AnyFlight {
            /// Before the first transmission.
            #[default]
            New,
            $($(#[$attribute])* $variant(<$type as Controller>::Flight),)+
        }

        /// Every name in table order.
        pub const ALL: &[Named] = &[
            $($(Named::fixed($name, $features, || AnyController::$variant($make), Some(1))$(.with_version($version))?,)*)+
        ];

        $(
            $(#[$attribute])*
            impl From<$type> for AnyController {
                fn from(controller: $type) -> Self {
                    Self::$variant(controller)
                }
            }

            $(#[$attribute])*
            impl Variant for $type {
                fn peer_in<'a>(&self, any: &'a mut AnyPeer, now: Instant) -> &'a mut Self::Peer {
                    if !matches!(any, AnyPeer::$variant(_)) {
                        *any = AnyPeer::$variant(self.peer(now));
                    }
                    let AnyPeer::$variant(peer) = any else { unreachable!("just made to match") };
                    peer
                }

                fn flight_in(any: &mut AnyFlight) -> &mut Self::Flight {
                    if !matches!(any, AnyFlight::$variant(_)) {
                        *any = AnyFlight::$variant(Default::default());
                    }
                    let AnyFlight::$variant(flight) = any else { unreachable!("just made to match") };
                    flight
                }
            }
        )+

        impl Parameters for AnyController {
            fn parameter(&self, index: usize) -> Option<(&'static Description, Value)> {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => c.parameter(index),)+
                }
            }

            fn assign(&mut self, index: usize, value: Value) -> bool {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => c.assign(index, value),)+
                }
            }
        }

        impl Controller for AnyController {
            type Peer = AnyPeer;
            type Flight = AnyFlight;

            fn measures_rtt(&self) -> bool {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => c.measures_rtt(),)+
                }
            }

            fn peer(&self, now: Instant) -> AnyPeer {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => AnyPeer::$variant(c.peer(now)),)+
                }
            }

            fn seed(&self, now: Instant, history: &PathHistory) -> AnyPeer {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => AnyPeer::$variant(c.seed(now, history)),)+
                }
            }

            fn admit(&self, peer: &mut AnyPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => c.admit(c.peer_in(peer, now), now, message, load),)+
                }
            }

            fn sent(&self, peer: &mut AnyPeer, flight: &mut AnyFlight, event: &Sent) -> Duration {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => {
                        c.sent(c.peer_in(peer, event.now), <$type>::flight_in(flight), event)
                    })+
                }
            }

            fn expired(&self, peer: &mut AnyPeer, flight: &mut AnyFlight, event: &Expired) -> Instant {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => {
                        c.expired(c.peer_in(peer, event.now), <$type>::flight_in(flight), event)
                    })+
                }
            }

            fn acknowledged(&self, peer: &mut AnyPeer, flight: &AnyFlight, event: &Acknowledged<'_>) {
                match (self, flight) {
                    $($(#[$attribute])* (Self::$variant(c), AnyFlight::$variant(flight)) => {
                        c.acknowledged(c.peer_in(peer, event.now), flight, event);
                    })+
                    $($(#[$attribute])* (Self::$variant(c), _) => {
                        c.acknowledged(c.peer_in(peer, event.now), &Default::default(), event);
                    })+
                }
            }

            fn abandoned(&self, peer: &mut AnyPeer, flight: &AnyFlight, event: &Abandoned<'_>) {
                match (self, flight) {
                    $($(#[$attribute])* (Self::$variant(c), AnyFlight::$variant(flight)) => {
                        c.abandoned(c.peer_in(peer, event.now), flight, event);
                    })+
                    $($(#[$attribute])* (Self::$variant(c), _) => {
                        c.abandoned(c.peer_in(peer, event.now), &Default::default(), event);
                    })+
                }
            }

            fn drained(&self, peer: &mut AnyPeer, now: Instant, load: &Load) {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => c.drained(c.peer_in(peer, now), now, load),)+
                }
            }

            fn base(&self, peer: &mut AnyPeer, now: Instant) -> Duration {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => c.base(c.peer_in(peer, now), now),)+
                }
            }

            fn snapshot(&self, peer: &AnyPeer) -> Snapshot {
                match (self, peer) {
                    $($(#[$attribute])* (Self::$variant(c), AnyPeer::$variant(peer)) => c.snapshot(peer),)+
                    _ => Snapshot::default(),
                }
            }
        }
    };
}

use crate::{
    basic, bdp, cocoa, default, eifel, fasor, fibonacci, full_backoff, linux, mrp, peak_hopper, temper, wiopt,
};

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
        "cocoa-cf" => cocoa::Cocoa::californium(), cocoa::draft03::CALIFORNIUM_FEATURES;
    }
    CocoaContiki(cocoa::CocoaContiki) {
        "cocoa-contiki" => cocoa::CocoaContiki::default(), cocoa::contiki::FEATURES;
    }
    CocoaPlusPlus(cocoa::CocoaPlusPlus) {
        "cocoa-plus-plus" => cocoa::CocoaPlusPlus::default(), cocoa::plus_plus::FEATURES;
    }
    CocoaS(cocoa::CocoaS) {
        "cocoa-s" => cocoa::CocoaS::default(), cocoa::strong::FEATURES;
    }
    Fibonacci(fibonacci::Fibonacci) { "fpb" => fibonacci::Fibonacci::default(), fibonacci::FEATURES; }
    Mrp(mrp::Mrp) { "mrp" => mrp::Mrp::default(), mrp::FEATURES; }
    Basic(basic::Basic) { "basic" => basic::Basic::default(), basic::FEATURES; }
    Linux(linux::Linux) { "linux" => linux::Linux::default(), linux::FEATURES; }
    Eifel(eifel::Eifel) { "eifel" => eifel::Eifel::default(), eifel::FEATURES; }
    PeakHopper(peak_hopper::PeakHopper) {
        "peak-hopper" => peak_hopper::PeakHopper::default(), peak_hopper::FEATURES;
        "peak-hopper-cf" => peak_hopper::PeakHopper::californium_2014(), peak_hopper::CALIFORNIUM_FEATURES;
    }
    DefaultFullBackoff(full_backoff::DefaultFullBackoff) {
        "default-fb1" => full_backoff::DefaultFullBackoff::variant_1(), full_backoff::DEFAULT_FB1_FEATURES;
        "default-fb2" => full_backoff::DefaultFullBackoff::variant_2(), full_backoff::DEFAULT_FB2_FEATURES;
        "default-fb3" => full_backoff::DefaultFullBackoff::variant_3(), full_backoff::DEFAULT_FB3_FEATURES;
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
    Temper(temper::Temper) { "temper" => temper::Temper::default(), temper::FEATURES, version 2; }
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    Own(crate::dynamic::DynController) {}
}

#[cfg(test)]
mod tests;

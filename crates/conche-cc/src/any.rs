//! [`AnyController`]: an algorithm that is chosen when the program runs, by name or from its configuration.
//!
//! It is an enum, so it needs no heap and its size is known; each call costs one jump. A program that knows its algorithm
//! names the type instead and pays for nothing else.
//!
//! An enum's state is as large as its largest. With the feature `alloc` most of BDP-CoAP's lies behind a pointer, so
//! that a server with a million peers does not pay for it where it runs CoCoA, and an algorithm from outside this crate can stand
//! among them: see the module `dynamic`.
//!
//! To add an algorithm, write its file and give it one line in the table at the end of this one.

mod unknown;

use core::time::Duration;

use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::features::Features;
use crate::group::Group;
use crate::time::Instant;
use unknown::same;
pub use unknown::{UnknownController, nearest};

/// A controller under a name: one that [`AnyController::by_name`] knows, or one of yours.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The name, in lower case with dashes.
    pub name: &'static str,
    /// What distinguishes the algorithm.
    pub features: Features,
    make: fn() -> AnyController,
}

impl Named {
    /// An algorithm from outside this crate, with its `Default` as its configuration. See [`Controllers`].
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[must_use]
    pub const fn own<C>(name: &'static str, features: Features) -> Self
    where
        C: Controller + Default + core::fmt::Debug + Send + Sync + 'static,
        C::Peer: Send + Sync + 'static,
        C::Flight: Send + Sync + 'static,
    {
        Self { name, features, make: || crate::dynamic::DynController::new(C::default()).into() }
    }

    /// The algorithm with its production defaults.
    #[must_use]
    pub fn controller(&self) -> AnyController {
        (self.make)()
    }

    /// What is known under this name, with the tolerance of [`AnyController::by_name`].
    ///
    /// # Errors
    ///
    /// [`UnknownController`], which tells the nearest name and all others.
    pub fn by_name(name: &str) -> Result<&'static Self, UnknownController> {
        Controllers::default().by_name(name)
    }
}

/// All controllers of a program: this crate's, and its own behind them.
///
/// ```
/// use conche_cc::any::Controllers;
///
/// let names: Vec<_> = Controllers::default().iter().map(|named| named.name).collect();
/// assert!(names.contains(&"cocoa"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Controllers {
    own: &'static [Named],
}

/// Equal are those whose own ones are the same list.
impl PartialEq for Controllers {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.own, other.own)
    }
}

impl Eq for Controllers {}

impl Controllers {
    /// This crate's and these.
    ///
    /// # Errors
    ///
    /// The first name that two would have: one of them could not be chosen.
    pub fn with(own: &'static [Named]) -> Result<Self, &'static str> {
        for (place, named) in own.iter().enumerate() {
            if ALL.iter().chain(&own[..place]).any(|known| same(known.name, named.name)) {
                return Err(named.name);
            }
        }
        Ok(Self { own })
    }

    /// Each of them, in the order in which tables show them.
    pub fn iter(self) -> impl Iterator<Item = &'static Named> + Clone {
        ALL.iter().chain(self.own)
    }

    /// Those that are not of this crate.
    #[must_use]
    pub fn own(self) -> &'static [Named] {
        self.own
    }

    /// What is known under this name, with the tolerance of [`AnyController::by_name`].
    ///
    /// # Errors
    ///
    /// [`UnknownController`], which tells the nearest name and all others.
    pub fn by_name(self, name: &str) -> Result<&'static Named, UnknownController> {
        self.iter().find(|named| same(named.name, name)).ok_or_else(|| UnknownController::new(name, self))
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
        Named::by_name(name).map(Named::controller)
    }
}

/// What each line of the table below has: its state among all others'.
trait Variant: Controller {
    /// Its state in `any`. What another algorithm left there, which happens when a program changes its mind, is replaced by
    /// the state of a new peer.
    fn peer_in<'a>(&self, any: &'a mut AnyPeer, now: Instant) -> &'a mut Self::Peer;

    /// Its state in `any`, or that of a new exchange, likewise.
    fn flight_in(any: &mut AnyFlight) -> &mut Self::Flight;
}

/// Writes the enums and their dispatch from the table below.
macro_rules! algorithms {
    ($($(#[$attribute:meta])* $variant:ident($type:ty) {
        $($name:literal => $make:expr, $features:expr;)*
    })+) => {
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
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum AnyController {
            $($(#[$attribute])* #[doc = concat!("See [`", stringify!($type), "`].")] $variant($type),)+
        }

        /// The state of a destination under any algorithm, as large as the largest; with the feature `alloc`, at most 40
        /// bytes on machines of 64 bits, which is temper's.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "one variant an algorithm")]
        pub enum AnyPeer {
            $($(#[$attribute])* $variant(<$type as Controller>::Peer),)+
        }

        /// The state of an exchange under any algorithm, as large as the largest.
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "one variant an algorithm")]
        pub enum AnyFlight {
            /// Before the first transmission, under an algorithm not yet known.
            #[default]
            New,
            $($(#[$attribute])* $variant(<$type as Controller>::Flight),)+
        }

        /// Every name, in the order in which tables show them.
        pub const ALL: &[Named] = &[
            $($(Named { name: $name, features: $features, make: || AnyController::$variant($make) },)*)+
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

            fn seed(&self, now: Instant, group: &Group) -> AnyPeer {
                match self {
                    $($(#[$attribute])* Self::$variant(c) => AnyPeer::$variant(c.seed(now, group)),)+
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

use crate::{basic, bdp, cocoa, default, fasor, full_backoff, linux, peak_hopper, temper, wiopt};

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
    Temper(temper::Temper) { "temper" => temper::Temper::default(), temper::FEATURES; }
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    Own(crate::dynamic::DynController) {}
}

#[cfg(test)]
mod tests;

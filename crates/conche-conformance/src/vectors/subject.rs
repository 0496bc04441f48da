//! Algorithms by their name in vector files, and their observable values.

use core::time::Duration;

use conche_cc::basic::Basic;
use conche_cc::bdp::{Bdp, BdpFlight, BdpPeer, BdpState};
use conche_cc::cocoa::{Aging, Cocoa, Cocoa2014, CocoaContiki, CocoaPlusPlus, CocoaS, SmallAging, Vbf};
use conche_cc::default::CoapDefault;
use conche_cc::eifel::Eifel;
use conche_cc::fasor::{Fasor, FasorPeer, FasorPhase};
use conche_cc::fibonacci::Fibonacci;
use conche_cc::full_backoff::{CocoaFullBackoff, DefaultFullBackoff};
use conche_cc::linux::Linux;
use conche_cc::mrp::Mrp;
use conche_cc::peak_hopper::PeakHopper;
use conche_cc::temper::Temper;
use conche_cc::units::Factor;
use conche_cc::wiopt::{Rfc6298, SemiDynamic};
use conche_cc::{Controller, Instant};

use super::run::{run, run_observed};
use super::schema::{self, Params, Vector};
use super::{Failure, Unusable};

/// Accessors to observe a controller beyond the trait.
#[derive(Clone, Copy, Debug)]
pub struct Observer<C: Controller> {
    /// The initial RTO of an exchange beside this many others, before dithering.
    pub initial_rto: fn(&C, &mut C::Peer, Instant, u16) -> Duration,
    /// The name of a peer's phase.
    pub phase: fn(&C::Peer) -> Option<&'static str>,
    /// The estimates of a rate-based algorithm.
    pub rate: fn(&C::Peer) -> Option<BdpState>,
    /// Whether an exchange was the first after the path had been empty.
    pub is_first: fn(&C::Flight) -> Option<bool>,
}

/// Observes the trait only.
impl<C: Controller> Default for Observer<C> {
    fn default() -> Self {
        Self {
            initial_rto: |controller, peer, now, _running| controller.base(peer, now),
            phase: |_| None,
            rate: |_| None,
            is_first: |_| None,
        }
    }
}

type Check = fn(&Params, &Vector) -> Result<Vec<Failure>, Unusable>;

const ALGORITHMS: [(&str, Check); 28] = [
    ("default", |p, vector| run(coap_default(CoapDefault::default(), p), vector)),
    ("default_b", |p, vector| run(coap_default(CoapDefault::coap_b(), p), vector)),
    ("cocoa2014", |p, vector| run_cocoa2014(cocoa2014(Cocoa2014::default(), p), vector)),
    ("cocoa2014_opt", |p, vector| run_cocoa2014(cocoa2014(Cocoa2014::optimized(), p), vector)),
    ("cocoa03", |p, vector| run_cocoa(cocoa(Cocoa::draft03(), p), vector)),
    ("cocoa_plus", |p, vector| run_cocoa(cocoa(Cocoa::plus(), p), vector)),
    ("cocoa_cf", |p, vector| run_cocoa(cocoa(Cocoa::californium(), p), vector)),
    ("cocoa_contiki", |p, vector| run_cocoa_contiki(cocoa_contiki(p), vector)),
    ("cocoa_plus_plus", |p, vector| {
        run(CocoaPlusPlus { contiki: cocoa_contiki(p), ..CocoaPlusPlus::default() }, vector)
    }),
    ("cocoa_s", |p, vector| run_cocoa_s(cocoa_s(p), vector)),
    ("fpb", |p, vector| run(Fibonacci { default: coap_default(CoapDefault::default(), p) }, vector)),
    ("mrp", |_, vector| run(Mrp::default(), vector)),
    ("eifel", |p, vector| run(eifel(p), vector)),
    ("basic", |p, vector| run(basic(p), vector)),
    ("linux", |p, vector| run(linux(p), vector)),
    ("ph", |p, vector| run(peak_hopper(PeakHopper::default(), p), vector)),
    ("ph_cf", |p, vector| run(peak_hopper(PeakHopper::californium_2014(), p), vector)),
    ("default_fb1", |p, vector| run(default_fb(DefaultFullBackoff::variant_1(), p), vector)),
    ("default_fb2", |p, vector| run(default_fb(DefaultFullBackoff::variant_2(), p), vector)),
    ("default_fb3", |p, vector| run(default_fb(DefaultFullBackoff::variant_3(), p), vector)),
    ("cocoa_fb1", |p, vector| run(cocoa_fb(CocoaFullBackoff::variant_1(), p), vector)),
    ("cocoa_fb2", |p, vector| run(cocoa_fb(CocoaFullBackoff::variant_2(), p), vector)),
    ("fasor", |p, vector| run_fasor(fasor(Fasor::default(), p), vector)),
    ("fasor_pseudo", |p, vector| run_fasor(fasor(Fasor::pseudocode(), p), vector)),
    ("bdp", |p, vector| run_bdp(bdp(p), vector)),
    ("semi_dynamic", |p, vector| run(SemiDynamic { default: coap_default(CoapDefault::default(), p) }, vector)),
    ("rfc6298", |p, vector| run(rfc6298(p), vector)),
    ("temper", |p, vector| run(temper(p), vector)),
];

/// Returns the names in vector files.
#[must_use]
pub fn algorithms() -> Vec<&'static str> {
    ALGORITHMS.iter().map(|(name, _)| *name).collect()
}

/// Runs a vector against the algorithm that it names.
pub fn check(vector: &Vector) -> Result<Vec<Failure>, Unusable> {
    match ALGORITHMS.iter().find(|(name, _)| *name == vector.algo) {
        Some((_, check)) => check(&vector.params, vector),
        None => Err(Unusable::UnknownAlgorithm { id: vector.id.clone(), algo: vector.algo.clone() }),
    }
}

impl Params {
    fn ack_timeout(&self, default: Duration) -> Duration {
        self.ack_timeout.map_or(default, schema::Millis::as_span)
    }

    fn random_factor(&self, default: Factor) -> Factor {
        self.rand.map_or(default, schema::Thousandths::as_factor)
    }

    fn nstart(&self) -> u16 {
        self.nstart.unwrap_or(1)
    }

    fn aging(&self) -> Aging {
        match self.aging {
            None | Some(schema::Aging::Literal) => Aging::Literal,
            Some(schema::Aging::SinceActivity) => Aging::SinceActivity,
            Some(schema::Aging::Off) => Aging::Off,
        }
    }

    fn vbf(&self, default: Vbf) -> Vbf {
        match self.vbf {
            None => default,
            Some(schema::Vbf::Current) => Vbf::Current,
            Some(schema::Vbf::Frozen) => Vbf::Frozen,
        }
    }
}

fn coap_default(base: CoapDefault, p: &Params) -> CoapDefault {
    CoapDefault {
        ack_timeout: p.ack_timeout(base.ack_timeout),
        ack_random_factor: p.random_factor(base.ack_random_factor),
        ..base
    }
}

fn cocoa2014(base: Cocoa2014, p: &Params) -> Cocoa2014 {
    Cocoa2014 {
        ack_timeout: p.ack_timeout(base.ack_timeout),
        ack_random_factor: p.random_factor(base.ack_random_factor),
        small_aging: match p.small_aging {
            None => base.small_aging,
            Some(schema::SmallAging::Mul16) => SmallAging::Mul16,
            Some(schema::SmallAging::Double) => SmallAging::Double,
        },
        ..base
    }
}

fn cocoa(base: Cocoa, p: &Params) -> Cocoa {
    Cocoa {
        ack_timeout: p.ack_timeout(base.ack_timeout),
        ack_random_factor: p.random_factor(base.ack_random_factor),
        vbf: p.vbf(base.vbf),
        aging: p.aging(),
        ..base
    }
}

fn cocoa_contiki(p: &Params) -> CocoaContiki {
    let base = CocoaContiki::default();
    CocoaContiki {
        ack_timeout: p.ack_timeout(base.ack_timeout),
        ack_random_factor: p.random_factor(base.ack_random_factor),
        ..base
    }
}

fn eifel(p: &Params) -> Eifel {
    let base = Eifel::default();
    Eifel {
        ack_timeout: p.ack_timeout(base.ack_timeout),
        ack_random_factor: p.random_factor(base.ack_random_factor),
        ..base
    }
}

fn cocoa_s(p: &Params) -> CocoaS {
    let base = CocoaS::default();
    CocoaS {
        ack_timeout: p.ack_timeout(base.ack_timeout),
        ack_random_factor: p.random_factor(base.ack_random_factor),
        vbf: p.vbf(base.vbf),
        aging: p.aging(),
        ..base
    }
}

fn basic(p: &Params) -> Basic {
    let base = Basic::default();
    Basic {
        ack_timeout: p.ack_timeout(base.ack_timeout),
        ack_random_factor: p.random_factor(base.ack_random_factor),
        ..base
    }
}

fn linux(p: &Params) -> Linux {
    let base = Linux::default();
    Linux { ack_timeout: p.ack_timeout(base.ack_timeout), ..base }
}

fn peak_hopper(base: PeakHopper, p: &Params) -> PeakHopper {
    let samples_per_flight = u8::try_from(p.nstart()).unwrap_or(u8::MAX);
    PeakHopper { ack_timeout: p.ack_timeout(base.ack_timeout), samples_per_flight, ..base }
}

fn default_fb(base: DefaultFullBackoff, p: &Params) -> DefaultFullBackoff {
    DefaultFullBackoff { default: coap_default(base.default, p), ..base }
}

fn cocoa_fb(base: CocoaFullBackoff, p: &Params) -> CocoaFullBackoff {
    CocoaFullBackoff { cocoa: cocoa(base.cocoa, p), ..base }
}

fn fasor(base: Fasor, p: &Params) -> Fasor {
    Fasor { ack_timeout: p.ack_timeout(base.ack_timeout), ..base }
}

fn bdp(p: &Params) -> Bdp {
    // Without resolutions 12 and 13.
    let base = Bdp { first_after_give_up: false, initial_rate: false, ..Bdp::literal() };
    Bdp { cocoa: cocoa(base.cocoa, p), min_rate: p.floor.unwrap_or(base.min_rate), ..base }
}

fn rfc6298(p: &Params) -> Rfc6298 {
    let base = Rfc6298::default();
    Rfc6298 { initial_rto: p.ack_timeout(base.initial_rto), ..base }
}

fn temper(p: &Params) -> Temper {
    let base = Temper::default();
    Temper {
        ack_timeout: p.ack_timeout(base.ack_timeout),
        ack_random_factor: p.random_factor(base.ack_random_factor),
        ..base
    }
}

fn run_cocoa2014(controller: Cocoa2014, vector: &Vector) -> Result<Vec<Failure>, Unusable> {
    run_observed(controller, Observer { initial_rto: Cocoa2014::initial_rto, ..Observer::default() }, vector)
}

fn run_cocoa(controller: Cocoa, vector: &Vector) -> Result<Vec<Failure>, Unusable> {
    run_observed(controller, Observer { initial_rto: Cocoa::initial_rto, ..Observer::default() }, vector)
}

fn run_cocoa_contiki(controller: CocoaContiki, vector: &Vector) -> Result<Vec<Failure>, Unusable> {
    run_observed(controller, Observer { initial_rto: CocoaContiki::initial_rto, ..Observer::default() }, vector)
}

fn run_cocoa_s(controller: CocoaS, vector: &Vector) -> Result<Vec<Failure>, Unusable> {
    run_observed(controller, Observer { initial_rto: CocoaS::initial_rto, ..Observer::default() }, vector)
}

fn run_fasor(controller: Fasor, vector: &Vector) -> Result<Vec<Failure>, Unusable> {
    let phase = |peer: &FasorPeer| {
        Some(match peer.phase() {
            FasorPhase::Fast => "FAST",
            FasorPhase::FastSlowFast => "FSF",
            FasorPhase::SlowFast => "SF",
        })
    };
    run_observed(controller, Observer { phase, ..Observer::default() }, vector)
}

fn run_bdp(controller: Bdp, vector: &Vector) -> Result<Vec<Failure>, Unusable> {
    let observer = Observer {
        rate: |peer: &BdpPeer| Some(peer.state()),
        is_first: |flight: &BdpFlight| Some(flight.is_first()),
        ..Observer::default()
    };
    run_observed(controller, observer, vector)
}

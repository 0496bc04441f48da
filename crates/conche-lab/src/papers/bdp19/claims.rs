//! What the paper says in words, put to the test with the measured values, on each medium by itself.
//!
//! "Above" means that the 95 % confidence intervals do not overlap. Where words leave open how much is meant, the bounds
//! here are our reading of them.

use std::ops::RangeInclusive;

use super::scenario::Scenario;
use crate::papers::{Claim, Values};
use crate::results::{Figure, Unit};

const DEFAULT: &str = "default";
const COCOA: &str = "cocoa-plus";
/// BDP-CoAP as printed.
const BDP: &str = "bdp-literal";

/// "About equal".
const ABOUT_EQUAL: RangeInclusive<f64> = 0.9..=1.1;
/// "Equal", where nothing is lost.
const EQUAL: RangeInclusive<f64> = 0.98..=1.02;
/// The share of the offered rate that a network carries at least, unless it is saturated.
const SATURATED: f64 = 0.95;
/// The rate up to which the schemes do not differ, in bit/s.
const LIGHT: f64 = 60.0;
/// At least one starving mote in two replications.
const SOME: RangeInclusive<f64> = 0.5..=f64::INFINITY;
/// None in any replication.
const NONE: RangeInclusive<f64> = 0.0..=0.0;

/// All claims whose schemes were run.
pub(super) fn figures(scenario: &Scenario, figures: &[Figure]) -> Vec<Figure> {
    let values = Values::new(figures);
    let mut claims = Vec::new();
    for (medium, _) in scenario.network.media.all() {
        let on = OnMedium { values: &values, medium };
        claims.extend(on.saturated(scenario));
        claims.extend(on.light(scenario));
        claims.extend(on.fairest("dynamic").into_iter().flatten());
        claims.extend(on.mixed());
    }
    claims.into_iter().flat_map(|claim| claim.figures(&scenario.name)).collect()
}

struct OnMedium<'a> {
    values: &'a Values<'a>,
    medium: &'a str,
}

impl OnMedium<'_> {
    fn get(&self, scheme: &str, workload: &str, column: &str) -> Option<&Figure> {
        self.values.get(&format!("{scheme}/{}/{workload}", self.medium), column)
    }

    /// One scheme's value is above another's.
    fn above(&self, higher: &str, lower: &str, workload: &str, column: &str) -> Option<Claim> {
        let (of_higher, of_lower) = self.get(higher, workload, column).zip(self.get(lower, workload, column))?;
        let row = format!("{column}_{higher}_above_{lower}/{}/{workload}", self.medium);
        Some(Claim::clearly_above(row, of_higher, of_lower))
    }

    /// What is said of rates that are more than the network carries.
    fn saturated(&self, scenario: &Scenario) -> Vec<Claim> {
        let is_saturated = |rate: &f64| {
            let goodput = self.get(DEFAULT, &format!("static/{rate}"), "goodput_mote");
            goodput.is_some_and(|goodput| goodput.measured < SATURATED * rate)
        };
        scenario
            .fixed
            .rates
            .iter()
            .filter(|rate| is_saturated(rate))
            .flat_map(|rate| self.saturated_at(*rate))
            .collect()
    }

    fn saturated_at(&self, rate: f64) -> Vec<Claim> {
        let workload = format!("static/{rate}");
        let mut claims = self.fairest(&workload);
        claims.extend([
            self.above(DEFAULT, COCOA, &workload, "jain_short"),
            self.goodput_about_equal(&workload),
            self.goodput_more_spread(DEFAULT, &workload),
            self.goodput_more_spread(BDP, &workload),
        ]);
        for column in ["retransmission_index", "loss"] {
            claims.push(self.above(DEFAULT, COCOA, &workload, column));
            claims.push(self.above(COCOA, BDP, &workload, column));
        }
        claims.into_iter().flatten().collect()
    }

    /// BDP-CoAP is fairer than both others.
    fn fairest(&self, workload: &str) -> Vec<Option<Claim>> {
        [DEFAULT, COCOA].map(|other| self.above(BDP, other, workload, "jain_short")).into()
    }

    fn goodput_about_equal(&self, workload: &str) -> Option<Claim> {
        let bdp = self.get(BDP, workload, "goodput")?;
        let default = self.get(DEFAULT, workload, "goodput")?;
        let row = format!("goodput_{BDP}_about_{DEFAULT}/{}/{workload}", self.medium);
        let ratio = (bdp.measured / default.measured, bdp.runs);
        Some(Claim::in_range(row, "ratio", Unit::Ratio, ratio, &ABOUT_EQUAL))
    }

    /// Goodput of CoCoA+ differs more from replication to replication.
    fn goodput_more_spread(&self, other: &str, workload: &str) -> Option<Claim> {
        let width = |scheme| {
            let figure = self.get(scheme, workload, "goodput")?;
            figure.ci95.map(|interval| (interval.high - interval.low, figure.runs))
        };
        let ((cocoa, runs), (other_width, _)) = width(COCOA).zip(width(other))?;
        let row = format!("goodput_{COCOA}_more_spread_than_{other}/{}/{workload}", self.medium);
        let ratio = if other_width > 0.0 { cocoa / other_width } else { 0.0 };
        Some(Claim::in_range(row, "ratio_of_widths", Unit::Ratio, (ratio, runs), &(1.0..=f64::INFINITY)))
    }

    /// What is said of low rates: all schemes carry what is offered.
    fn light(&self, scenario: &Scenario) -> Vec<Claim> {
        let light = scenario.fixed.rates.iter().copied().filter(|rate| *rate <= LIGHT).fold(0.0, f64::max);
        let workload = format!("static/{light}");
        let claim = |scheme: &&str| {
            let (of_scheme, default) =
                self.get(scheme, &workload, "goodput").zip(self.get(DEFAULT, &workload, "goodput"))?;
            let row = format!("goodput_{scheme}_equals_{DEFAULT}/{}/{workload}", self.medium);
            let ratio = (of_scheme.measured / default.measured, of_scheme.runs);
            Some(Claim::in_range(row, "ratio", Unit::Ratio, ratio, &EQUAL))
        };
        [COCOA, BDP].iter().filter_map(claim).collect()
    }

    /// Beside traffic that knows of no congestion, no mote with BDP-CoAP starves, and motes with the others do.
    fn mixed(&self) -> Vec<Claim> {
        let claim = |(scheme, what, range): (&str, &str, &RangeInclusive<f64>)| {
            let starving = self.get(scheme, "mixed", "starving")?;
            let row = format!("{what}_of_{scheme}_starves/{}/mixed", self.medium);
            Some(Claim::in_range(row, "starving", Unit::Count, (starving.measured, starving.runs), range))
        };
        let starving = [(BDP, "none", &NONE), (DEFAULT, "some", &SOME), (COCOA, "some", &SOME)];
        let silent = [DEFAULT, COCOA].into_iter().filter_map(|other| self.above(other, BDP, "mixed", "silent"));
        starving.into_iter().filter_map(claim).chain(silent).collect()
    }
}

/// Why a claim does not hold, where that is known.
pub(super) fn reason(figure: &Figure) -> Option<&'static str> {
    let starts = |prefix: &str| figure.row.starts_with(prefix);
    Some(if figure.item != "claims" {
        return None;
    } else if starts("jain_short_bdp-literal") {
        "BDP-CoAP, fairness: rates grow and shrink by factors; motes with few losses grow to what is offered, the others shrink"
    } else if starts("goodput_bdp-literal_about") {
        "BDP-CoAP, goodput: it slows down while a fifth of its copies are retransmissions, and grows by 4 % in ten messages at most"
    } else if starts("retransmission_index_default") || starts("loss_default") {
        "CoCoA+ probably repeats sooner than the default, whose 2 s are long where round trips are short"
    } else if starts("loss_cocoa-plus") || starts("retransmission_index_cocoa-plus") {
        "BDP-CoAP, copies: its timer does not back off, so that all copies of a message meet the same congestion"
    } else if starts("none_of_bdp-literal_starves") {
        "BDP-CoAP, starving: the rate of motes with many losses shrinks from message to message"
    } else {
        return None;
    })
}

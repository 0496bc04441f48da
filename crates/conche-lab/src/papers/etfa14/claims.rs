//! What the paper says in words, put to the test with the measured values.

use crate::papers::{Claim, Values};
use crate::results::{Figure, Unit};

/// "A third": in many-to-many, throughput times the mean duration of successful exchanges is about a third of the number
/// of clients, in per cent.
const A_THIRD: std::ops::RangeInclusive<f64> = 20.0..=45.0;

/// All claims whose schemes were run.
pub(super) fn claims(figures: &[Figure]) -> Vec<Claim> {
    let values = Values::new(figures);
    let mut claims = Vec::new();
    let mut first = |of: &str, scheme: &str, others: &[&str], column: &str| {
        for other in others {
            let (higher, lower) = (format!("{scheme}/{of}"), format!("{other}/{of}"));
            if let (Some(higher), Some(lower)) = (values.get(&higher, column), values.get(&lower, column)) {
                claims.push(Claim::above(format!("{column}/{of}/{scheme}_above_{other}"), higher, lower));
            }
        }
    };
    first("many/nullrdc", "cocoa", &["coap", "coap-b", "cocoa-4"], "throughput");
    first("many/nullrdc", "coap", &["coap-b"], "throughput");
    first("many/nullrdc", "cocoa-4", &["coap-b"], "throughput");
    first("many/contikimac", "cocoa", &["coap", "coap-b"], "throughput");
    first("many/contikimac", "cocoa-4", &["coap", "coap-b"], "throughput");
    first("many/contikimac", "coap", &["coap-b"], "throughput");
    first("burst/nullrdc", "cocoa", &["coap", "coap-b", "cocoa-4"], "throughput");
    first("burst/nullrdc", "coap", &["cocoa-4"], "throughput");
    first("burst/contikimac", "cocoa-4", &["coap", "coap-b", "cocoa"], "throughput");
    first("burst/contikimac", "coap", &["coap-b"], "throughput");
    first("burst/contikimac", "cocoa", &["coap-b"], "throughput");
    // The default takes longer until it settles.
    first("burst/nullrdc", "coap", &["cocoa"], "settling_s");
    // With ContikiMAC the run ends before bursts settle.
    first("burst/contikimac", "cocoa", &["coap"], "burst_done");
    for rdc in ["nullrdc", "contikimac"] {
        for scheme in ["coap", "coap-b", "cocoa", "cocoa-4"] {
            let row = format!("{scheme}/many/{rdc}");
            if let Some(useful) = values.get(&row, "useful") {
                let measured = (useful.measured, useful.runs);
                let name = format!("two_thirds_of_time_are_lost/{row}");
                claims.push(Claim::in_range(name, "useful", Unit::Percent, measured, &A_THIRD));
            }
        }
    }
    claims
}

//! Observations after an event, and their comparison with expectations.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_cc::Instant;
use conche_cc::bdp::BdpState;
use serde_json::{Value, json};

const KEYS: [(&str, Tolerance); 18] = [
    ("timeout_ms", Tolerance::Schema),
    ("base_ms", Tolerance::Schema),
    ("next_base_ms", Tolerance::Schema),
    ("send_at_ms", Tolerance::Schema),
    ("earliest_start_ms", Tolerance::Millisecond),
    ("next_send_ms", Tolerance::Schema),
    ("rtprop_ms", Tolerance::Schema),
    ("th_Bps", Tolerance::Schema),
    ("btlbw_Bps", Tolerance::Schema),
    ("bdp_B", Tolerance::Schema),
    ("f_r", Tolerance::Relative),
    ("alpha", Tolerance::Relative),
    ("pacing_gain", Tolerance::Relative),
    ("inflight", Tolerance::Exact),
    ("gave_up", Tolerance::Exact),
    ("as_con", Tolerance::Exact),
    ("state", Tolerance::Exact),
    ("tagged_first", Tolerance::Exact),
];

#[derive(Clone, Copy)]
enum Tolerance {
    /// max(0.006 · expected, 1): three significant digits, and integer milliseconds, bytes or bytes
    /// per second.
    Schema,
    /// 1 ms, for times relative to now.
    Millisecond,
    /// 0.006 · expected: three significant digits of a dimensionless value.
    Relative,
    Exact,
}

/// The absolute difference that the schema allows around an expected time, in milliseconds.
pub fn tolerance_ms(expected: f64) -> f64 {
    (0.006 * expected.abs()).max(1.0)
}

/// A vector has an expectation that is not in [`KEYS`].
#[derive(Debug, thiserror::Error)]
#[error("unknown expectation {0:?}; known are: {known}", known = KEYS.map(|(known, _)| known).join(", "))]
pub struct UnknownExpectation(String);

/// Observable values after an event, by the name of their expectation.
#[derive(Debug, Default)]
pub struct Observed(BTreeMap<&'static str, Value>);

impl Observed {
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.insert(key, value.into());
    }

    pub fn set_span(&mut self, key: &'static str, span: Duration) {
        self.set(key, span.as_secs_f64() * 1_000.0);
    }

    pub fn set_instant(&mut self, key: &'static str, instant: Instant) {
        self.set_span(key, instant - Instant::ZERO);
    }

    pub fn set_rate(&mut self, state: &BdpState) {
        let permille = |factor: conche_cc::units::Factor| f64::from(factor.permille()) / 1_000.0;
        self.set("pacing_gain", permille(state.pacing_gain));
        self.set("f_r", permille(state.retransmitted));
        self.set("alpha", permille(state.alpha));
        self.set("th_Bps", state.throughput.get());
        self.set("btlbw_Bps", json!(state.bandwidth.map(|rate| rate.get())));
        self.set("bdp_B", json!(state.bdp));
        self.set("rtprop_ms", json!(state.rtprop.map(|span| span.as_secs_f64() * 1_000.0)));
        self.set("next_send_ms", json!(state.next_send.map(|at| (at - Instant::ZERO).as_secs_f64() * 1_000.0)));
    }

    /// Returns the observed value if it differs from its expectation. An unknown key is an error.
    pub fn compare(&self, key: &str, expected: &Value) -> Result<Option<String>, UnknownExpectation> {
        let Some((_, tolerance)) = KEYS.iter().find(|(known, _)| *known == key) else {
            return Err(UnknownExpectation(key.to_owned()));
        };
        let Some(got) = self.0.get(key) else {
            return Ok(Some("nothing: not observable after this event".to_owned()));
        };
        let same = match (got.as_f64(), expected.as_f64(), tolerance) {
            (Some(got), Some(expected), Tolerance::Schema) => (got - expected).abs() <= tolerance_ms(expected),
            (Some(got), Some(expected), Tolerance::Millisecond) => (got - expected).abs() <= 1.0,
            // Rounding to thousandths adds at most half of one.
            (Some(got), Some(expected), Tolerance::Relative) => (got - expected).abs() <= 0.006 * expected.abs(),
            (Some(got), Some(expected), Tolerance::Exact) => (got - expected).abs() < f64::EPSILON,
            _ => got == expected,
        };
        Ok((!same).then(|| got.to_string()))
    }
}

//! The schema of a vector file, with times in milliseconds. Unknown fields are errors.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_cc::Instant;
use conche_cc::units::Factor;
use serde::Deserialize;
use serde_json::Value;

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Documentation.
    #[serde(default, rename = "schema")]
    pub _schema: Value,
    /// Traces, each for a new controller.
    pub vectors: Vec<Vector>,
}

/// One trace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Unique name.
    pub id: String,
    /// Algorithm.
    pub algo: String,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    pub params: Params,
    /// Documentation.
    #[serde(default, rename = "note")]
    pub _note: Option<String>,
    /// Events in order.
    pub events: Vec<Event>,
}

/// The parameters of a vector.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// RTO before the first sample, in ms.
    pub ack_timeout: Option<Millis>,
    /// `ACK_RANDOM_FACTOR`.
    pub rand: Option<Thousandths>,
    /// `MAX_RETRANSMIT`; 4 unless given.
    pub max_rtx: Option<u8>,
    /// `NSTART`; 1 unless given.
    pub nstart: Option<u16>,
    /// Start of CoCoA's idle time; `literal` unless given.
    pub aging: Option<Aging>,
    /// Growth of a small RTO of `cocoa2014` when idle; `mul16` unless given.
    pub small_aging: Option<SmallAging>,
    /// Timer that determines CoCoA's backoff factor.
    pub vbf: Option<Vbf>,
    /// Minimum bandwidth estimate of `bdp`, in bytes per second. Its other floor is off in vectors.
    #[serde(rename = "floor_Bps")]
    pub floor: Option<u32>,
    /// Start of `bdp`'s gain cycle: only 1 is supported.
    pub cycle_start: Option<u8>,
}

/// See `Params::aging`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aging {
    /// From the last change of the RTO.
    Literal,
    /// From the last acknowledgement.
    SinceActivity,
    /// Never.
    Off,
}

/// See `Params::small_aging`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmallAging {
    /// By 16.
    Mul16,
    /// By two.
    Double,
}

/// See `Params::vbf`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vbf {
    /// By the expired timer.
    Current,
    /// By the first timer of the exchange.
    Frozen,
}

/// An event and its expectations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Time.
    pub t: Millis,
    /// Kind.
    pub ev: Kind,
    /// Exchange; 0 unless given.
    #[serde(default)]
    pub x: u32,
    /// Uniform draw in [0, 1] for dithering.
    #[serde(default)]
    pub u: Draw,
    /// Retransmissions of the exchange so far.
    pub rtx: Option<u8>,
    /// Message size in bytes; 100 unless given.
    pub size: Option<u32>,
    /// Expected values by name.
    #[serde(default)]
    pub expect: BTreeMap<String, Value>,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A Confirmable exchange begins.
    Start,
    /// Its retransmission timer fires.
    Rto,
    /// Its first acknowledgement arrives; the acknowledged transmission is unknown.
    Ack,
    /// The clock is read, nothing else.
    Query,
    /// A Non-confirmable message is submitted.
    NonSubmit,
    /// A Confirmable message is sent as soon as pacing and window permit.
    Send,
    /// It is retransmitted as soon as pacing permits.
    Resend,
}

/// The longest time, in milliseconds: thirty years.
const MAX_MS: f64 = 1e12;

/// A number is out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum OutOfRange {
    /// A time, in milliseconds.
    #[error("{0} ms: must be from 0 to {MAX_MS}")]
    Millis(f64),
    /// A random factor.
    #[error("a random factor of {0}: must be from 1 to 65")]
    Factor(f64),
    /// A random draw.
    #[error("a draw of {0}: must be from 0 to 1")]
    Draw(f64),
}

/// A time or a duration, exact to a nanosecond.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub struct Millis(Duration);

impl TryFrom<f64> for Millis {
    type Error = OutOfRange;

    fn try_from(ms: f64) -> Result<Self, OutOfRange> {
        let span = Duration::try_from_secs_f64(ms / 1_000.0).ok().filter(|_| ms < MAX_MS);
        span.map(Self).ok_or(OutOfRange::Millis(ms))
    }
}

impl Millis {
    /// Returns the value as a duration.
    #[must_use]
    pub fn as_span(self) -> Duration {
        self.0
    }

    /// Returns the value as a time on the clock.
    #[must_use]
    pub fn as_instant(self) -> Instant {
        Instant::ZERO + self.0
    }

    /// Returns the value in milliseconds.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0.as_secs_f64() * 1_000.0
    }
}

/// A factor from 1 to 65, exact to a thousandth.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub struct Thousandths(Factor);

impl TryFrom<f64> for Thousandths {
    type Error = OutOfRange;

    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    fn try_from(factor: f64) -> Result<Self, OutOfRange> {
        if (1.0..=65.0).contains(&factor) {
            Ok(Self(Factor::from_permille((factor * 1_000.0).round() as u16)))
        } else {
            Err(OutOfRange::Factor(factor))
        }
    }
}

impl Thousandths {
    /// Returns the value as a factor.
    #[must_use]
    pub fn as_factor(self) -> Factor {
        self.0
    }
}

/// A uniform draw from [0, 1], as the 32 random bits that produce it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(try_from = "f64")]
pub struct Draw(u32);

impl TryFrom<f64> for Draw {
    type Error = OutOfRange;

    #[expect(clippy::cast_possible_truncation, reason = "saturates at u = 1, as it should")]
    fn try_from(u: f64) -> Result<Self, OutOfRange> {
        let bits = (u * 4_294_967_296.0) as u32;
        if (0.0..=1.0).contains(&u) { Ok(Self(bits)) } else { Err(OutOfRange::Draw(u)) }
    }
}

impl Draw {
    /// Returns the value as 32 random bits.
    #[must_use]
    pub fn as_bits(self) -> u32 {
        self.0
    }
}

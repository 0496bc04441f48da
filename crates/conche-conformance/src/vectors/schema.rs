//! The schema of a vector file, as types. Unknown fields are errors: an expectation that is not understood must not pass.
//!
//! All times are milliseconds. `params` override a controller's defaults; what they may hold is said at [`Params`].

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
    /// Prose for people.
    #[serde(default, rename = "schema")]
    pub _schema: Value,
    /// The traces, each for a fresh controller.
    pub vectors: Vec<Vector>,
}

/// One trace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// A unique name.
    pub id: String,
    /// The algorithm.
    pub algo: String,
    /// What is configured differently.
    #[serde(default)]
    pub params: Params,
    /// Prose for people.
    #[serde(default, rename = "note")]
    pub _note: Option<String>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// What a vector configures.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The RTO before the first sample, in ms.
    pub ack_timeout: Option<Millis>,
    /// `ACK_RANDOM_FACTOR`.
    pub rand: Option<Thousandths>,
    /// `MAX_RETRANSMIT`; 4 unless given.
    pub max_rtx: Option<u8>,
    /// `NSTART`; 1 unless given.
    pub nstart: Option<u16>,
    /// From when CoCoA counts idleness; `literal` unless given.
    pub aging: Option<Aging>,
    /// How a small RTO of `cocoa2014` grows when idle; `mul16` unless given.
    pub small_aging: Option<SmallAging>,
    /// Which timer CoCoA's backoff factor is chosen by.
    pub vbf: Option<Vbf>,
    /// The least bandwidth that `bdp` estimates, in bytes a second. Its other floor is off in vectors.
    #[serde(rename = "floor_Bps")]
    pub floor: Option<u32>,
    /// Where `bdp` starts its gain cycle: only 1 is known.
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
    /// By the timer that ran out.
    Current,
    /// By the first timer of the exchange.
    Frozen,
}

/// Something that happens, and what is expected of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub t: Millis,
    /// What.
    pub ev: Kind,
    /// Of which exchange; 0 unless given.
    #[serde(default)]
    pub x: u32,
    /// The uniform draw in [0, 1] for dithering.
    #[serde(default)]
    pub u: Draw,
    /// How many retransmissions the exchange has made.
    pub rtx: Option<u8>,
    /// The message's bytes; 100 unless given.
    pub size: Option<u32>,
    /// Names and values of what is expected.
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
    /// Its first acknowledgement arrives; which copy it is for is not known.
    Ack,
    /// The clock is read, nothing else.
    Query,
    /// A Non-confirmable message is submitted.
    NonSubmit,
    /// A Confirmable message is sent as soon as pacing and window let it.
    Send,
    /// A copy of it is sent as soon as pacing lets it.
    Resend,
}

/// A time or a span, exact to a nanosecond.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub struct Millis(Duration);

impl TryFrom<f64> for Millis {
    type Error = String;

    fn try_from(ms: f64) -> Result<Self, String> {
        const THIRTY_YEARS_MS: f64 = 1e12;
        let span = Duration::try_from_secs_f64(ms / 1_000.0).ok().filter(|_| ms < THIRTY_YEARS_MS);
        span.map(Self).ok_or_else(|| format!("{ms} ms: must be from 0 to {THIRTY_YEARS_MS}"))
    }
}

impl Millis {
    /// The same as a span.
    #[must_use]
    pub fn as_span(self) -> Duration {
        self.0
    }

    /// The same on the clock.
    #[must_use]
    pub fn as_instant(self) -> Instant {
        Instant::ZERO + self.0
    }

    /// The same in milliseconds.
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
    type Error = String;

    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    fn try_from(factor: f64) -> Result<Self, String> {
        if (1.0..=65.0).contains(&factor) {
            Ok(Self(Factor::from_permille((factor * 1_000.0).round() as u16)))
        } else {
            Err(format!("a random factor of {factor}: must be from 1 to 65"))
        }
    }
}

impl Thousandths {
    /// The same as a factor.
    #[must_use]
    pub fn as_factor(self) -> Factor {
        self.0
    }
}

/// A uniform draw from [0, 1], as the 32 random bits that give it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(try_from = "f64")]
pub struct Draw(u32);

impl TryFrom<f64> for Draw {
    type Error = String;

    #[expect(clippy::cast_possible_truncation, reason = "saturates at u = 1, as it should")]
    fn try_from(u: f64) -> Result<Self, String> {
        let bits = (u * 4_294_967_296.0) as u32;
        if (0.0..=1.0).contains(&u) { Ok(Self(bits)) } else { Err(format!("a draw of {u}: must be from 0 to 1")) }
    }
}

impl Draw {
    /// The same as 32 random bits.
    #[must_use]
    pub fn as_bits(self) -> u32 {
        self.0
    }
}

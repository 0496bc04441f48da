//! Events as Python objects. They keep Rust's values; attributes convert when they are read.

use std::time::Duration;

use conche::cc::Instant;
use conche::cc::control::{self, AbandonReason, AckKind};
use conche::cc::path_history;
use conche::cc::sample;
use conche::cc::units::Micros;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Seconds since the start.
pub fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// The nearest instant; `None` for a negative number, one beyond the clock, or none.
pub fn instant(seconds: f64) -> Option<Instant> {
    let after = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(after.as_nanos()).ok().map(Instant::from_nanos)
}

pub fn of_test(at: f64) -> PyResult<Instant> {
    instant(at).ok_or_else(|| PyValueError::new_err(format!("{at} is no time in seconds")))
}

fn sample_of(micros: Option<Micros>) -> Option<f64> {
    micros.map(|micros| Duration::from(micros).as_secs_f64())
}

/// Non-confirmable messages sent to a peer.
#[pyclass(frozen, eq, module = "conche.controller")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonHistory(control::NonHistory);

#[pymethods]
impl NonHistory {
    #[new]
    #[pyo3(signature = (last=None, since_confirmable=0, unanswered_since=None, unanswered_bytes=0))]
    fn new(
        last: Option<f64>,
        since_confirmable: u8,
        unanswered_since: Option<f64>,
        unanswered_bytes: u32,
    ) -> PyResult<Self> {
        Ok(Self(control::NonHistory {
            last: last.map(of_test).transpose()?,
            since_confirmable,
            unanswered_since: unanswered_since.map(of_test).transpose()?,
            unanswered_bytes,
        }))
    }

    /// Time of the last in seconds; None if its response came while outstanding (RFC 7252 §4.7).
    #[getter]
    fn last(&self) -> Option<f64> {
        self.0.last.map(seconds)
    }

    /// Number since the last Confirmable message, at most 255.
    #[getter]
    fn since_confirmable(&self) -> u8 {
        self.0.since_confirmable
    }

    /// Time of the first since the peer's last message, in seconds, if any.
    #[getter]
    fn unanswered_since(&self) -> Option<f64> {
        self.0.unanswered_since.map(seconds)
    }

    /// Bytes since the peer's last message.
    #[getter]
    fn unanswered_bytes(&self) -> u32 {
        self.0.unanswered_bytes
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A peer's other messages, in flight and queued.
#[pyclass(frozen, eq, module = "conche.controller")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load(pub control::Load);

#[pymethods]
impl Load {
    #[new]
    #[pyo3(signature = (exchanges=0, bytes=0, queued=0, non=None))]
    fn new(exchanges: u16, bytes: u32, queued: u16, non: Option<PyRef<'_, NonHistory>>) -> Self {
        let non = non.map(|non| non.0).unwrap_or_default();
        Self(control::Load { exchanges, bytes, queued, non })
    }

    /// Other exchanges in NSTART slots.
    #[getter]
    fn exchanges(&self) -> u16 {
        self.0.exchanges
    }

    /// Bytes of their messages.
    #[getter]
    fn bytes(&self) -> u32 {
        self.0.bytes
    }

    /// Other messages awaiting admission.
    #[getter]
    fn queued(&self) -> u16 {
        self.0.queued
    }

    /// Non-confirmable messages sent.
    #[getter]
    fn non(&self) -> NonHistory {
        NonHistory(self.0.non)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

fn load_of(load: Option<PyRef<'_, Load>>) -> control::Load {
    load.map(|load| load.0).unwrap_or_default()
}

/// A message awaiting admission.
#[pyclass(frozen, eq, module = "conche.controller")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission(pub control::Submission);

#[pymethods]
impl Submission {
    #[new]
    #[pyo3(signature = (confirmable=true, may_confirm=true, bytes=60, probing_rate=1))]
    fn new(confirmable: bool, may_confirm: bool, bytes: u32, probing_rate: u32) -> Self {
        Self(control::Submission { confirmable, may_confirm, bytes, probing_rate })
    }

    /// Confirmable or Non-confirmable.
    #[getter]
    fn confirmable(&self) -> bool {
        self.0.confirmable
    }

    /// May be sent as Confirmable, to detect a dead peer.
    #[getter]
    fn may_confirm(&self) -> bool {
        self.0.may_confirm
    }

    /// UDP payload plus configured overhead.
    #[getter]
    fn bytes(&self) -> u32 {
        self.0.bytes
    }

    /// The endpoint's PROBING_RATE (RFC 7252 §4.7, §4.8) in bytes per second.
    #[getter]
    fn probing_rate(&self) -> u32 {
        self.0.probing_rate
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A transmission.
#[pyclass(frozen, eq, module = "conche.controller")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent(pub control::Sent);

#[pymethods]
impl Sent {
    #[new]
    #[pyo3(signature = (now, attempt=0, confirmable=true, bytes=60, random=0, load=None))]
    fn new(
        now: f64,
        attempt: u8,
        confirmable: bool,
        bytes: u32,
        random: u32,
        load: Option<PyRef<'_, Load>>,
    ) -> PyResult<Self> {
        let (now, load) = (of_test(now)?, load_of(load));
        Ok(Self(control::Sent { now, attempt, confirmable, bytes, random, load }))
    }

    /// Time of the transmission in seconds.
    #[getter]
    fn now(&self) -> f64 {
        seconds(self.0.now)
    }

    /// 0 for the original, n for retransmission n.
    #[getter]
    fn attempt(&self) -> u8 {
        self.0.attempt
    }

    /// Sent as Confirmable.
    #[getter]
    fn confirmable(&self) -> bool {
        self.0.confirmable
    }

    /// UDP payload plus overhead.
    #[getter]
    fn bytes(&self) -> u32 {
        self.0.bytes
    }

    /// 32 uniform random bits for the timeout, the only randomness.
    #[getter]
    fn random(&self) -> u32 {
        self.0.random
    }

    /// Other messages of this peer.
    #[getter]
    fn load(&self) -> Load {
        Load(self.0.load)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// An expired retransmission timer.
#[pyclass(frozen, eq, module = "conche.controller")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired(pub control::Expired);

#[pymethods]
impl Expired {
    #[new]
    #[pyo3(signature = (now, attempt=0, load=None))]
    fn new(now: f64, attempt: u8, load: Option<PyRef<'_, Load>>) -> PyResult<Self> {
        Ok(Self(control::Expired { now: of_test(now)?, attempt, load: load_of(load) }))
    }

    /// Time of the call in seconds, not before the deadline.
    #[getter]
    fn now(&self) -> f64 {
        seconds(self.0.now)
    }

    /// The timer's transmission: 0 for the original.
    #[getter]
    fn attempt(&self) -> u8 {
        self.0.attempt
    }

    /// Other messages of this peer.
    #[getter]
    fn load(&self) -> Load {
        Load(self.0.load)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// The transmission that an acknowledgement answers.
#[pyclass(frozen, eq, get_all, module = "conche.controller")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedCopy {
    certainty: &'static str,
    /// 0 for the original, n for retransmission n.
    number: u8,
}

impl AckedCopy {
    const fn of(copy: control::AckedCopy) -> Self {
        match copy {
            control::AckedCopy::Exact(number) => Self { certainty: "exact", number },
            control::AckedCopy::AtLeast(number) => Self { certainty: "at-least", number },
            control::AckedCopy::Unknown => Self { certainty: "unknown", number: 0 },
        }
    }

    fn native(self) -> control::AckedCopy {
        match self.certainty {
            "exact" => control::AckedCopy::Exact(self.number),
            "at-least" => control::AckedCopy::AtLeast(self.number),
            _ => control::AckedCopy::Unknown,
        }
    }
}

#[pymethods]
impl AckedCopy {
    #[new]
    #[pyo3(signature = (certainty, number=0))]
    fn new(certainty: &str, number: u8) -> PyResult<Self> {
        let known = ["exact", "at-least", "unknown"].into_iter().find(|known| *known == certainty);
        let certainty = known.ok_or_else(|| {
            PyValueError::new_err(format!("{certainty:?} is no certainty: exact, at-least or unknown"))
        })?;
        Ok(Self { certainty, number })
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.native())
    }
}

/// An exchange's first acknowledgement.
///
/// Its samples of the round-trip time differ after retransmissions: `rtt` counts from the original
/// transmission, `strong_rtt` is None, and `rtt_of_known_copy` counts from the answered
/// transmission if `copy` identifies it.
#[pyclass(frozen, eq, module = "conche.controller")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    now: Instant,
    sent: Box<[Instant]>,
    copy: control::AckedCopy,
    kind: AckKind,
    load: control::Load,
}

impl Acknowledged {
    pub fn of(event: &control::Acknowledged<'_>) -> Self {
        let control::Acknowledged { now, sent, copy, kind, load } = *event;
        Self { now, sent: sent.into(), copy, kind, load }
    }

    pub fn native(&self) -> control::Acknowledged<'_> {
        let Self { now, ref sent, copy, kind, load } = *self;
        control::Acknowledged { now, sent, copy, kind, load }
    }
}

#[pymethods]
impl Acknowledged {
    #[new]
    #[pyo3(signature = (now, sent, copy=None, kind="piggybacked", load=None))]
    fn new(
        now: f64,
        sent: Vec<f64>,
        copy: Option<PyRef<'_, AckedCopy>>,
        kind: &str,
        load: Option<PyRef<'_, Load>>,
    ) -> PyResult<Self> {
        let kind = match kind {
            "piggybacked" => AckKind::Piggybacked,
            "empty" => AckKind::Empty,
            "separate" => AckKind::Separate,
            _ => return Err(PyValueError::new_err(format!("{kind:?} is no kind: piggybacked, empty or separate"))),
        };
        let sent = sent.into_iter().map(of_test).collect::<PyResult<_>>()?;
        let copy = copy.map_or(control::AckedCopy::Unknown, |copy| copy.native());
        Ok(Self { now: of_test(now)?, sent, copy, kind, load: load_of(load) })
    }

    /// Time of arrival in seconds.
    #[getter]
    fn now(&self) -> f64 {
        seconds(self.now)
    }

    /// Times of all transmissions in seconds, at least one.
    #[getter]
    fn sent<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sent.iter().copied().map(seconds))
    }

    /// The acknowledged transmission.
    #[getter]
    fn copy(&self) -> AckedCopy {
        AckedCopy::of(self.copy)
    }

    /// An ACK with the response, an Empty ACK, or a separate response without an ACK before.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.kind {
            AckKind::Piggybacked => "piggybacked",
            AckKind::Empty => "empty",
            AckKind::Separate => "separate",
        }
    }

    /// Other messages of this peer.
    #[getter]
    fn load(&self) -> Load {
        Load(self.load)
    }

    /// Number of retransmissions.
    #[getter]
    fn retransmissions(&self) -> usize {
        self.native().retransmissions()
    }

    /// Seconds since the original transmission.
    #[getter]
    fn since_first(&self) -> f64 {
        self.native().since_first().as_secs_f64()
    }

    /// Seconds from the original transmission to `now`, up to 247; None for a separate response.
    #[getter]
    fn rtt(&self) -> Option<f64> {
        sample_of(sample::rtt(&self.native()))
    }

    /// `rtt` in seconds if there was no retransmission, so that it is unambiguous (Karn's algorithm); else
    /// None.
    #[getter]
    fn strong_rtt(&self) -> Option<f64> {
        sample_of(sample::strong_rtt(&self.native()))
    }

    /// Seconds from the only or identified transmission to `now`; None if `copy` is not `exact` after
    /// retransmissions, and for a separate response.
    #[getter]
    fn rtt_of_known_copy(&self) -> Option<f64> {
        sample_of(sample::rtt_of_known_copy(&self.native()))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.native())
    }
}

pub fn name_of(reason: AbandonReason) -> &'static str {
    match reason {
        AbandonReason::GaveUp => "gave-up",
        AbandonReason::Cancelled => "cancelled",
        AbandonReason::Reset => "reset",
        AbandonReason::Unreachable => "unreachable",
    }
}

/// An exchange's end without acknowledgement.
#[pyclass(frozen, eq, module = "conche.controller")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    now: Instant,
    reason: AbandonReason,
    sent: Box<[Instant]>,
    load: control::Load,
}

impl Abandoned {
    pub fn of(event: &control::Abandoned<'_>) -> Self {
        let control::Abandoned { now, reason, sent, load } = *event;
        Self { now, reason, sent: sent.into(), load }
    }

    pub fn native(&self) -> control::Abandoned<'_> {
        let Self { now, reason, ref sent, load } = *self;
        control::Abandoned { now, reason, sent, load }
    }
}

#[pymethods]
impl Abandoned {
    #[new]
    #[pyo3(signature = (now, sent, reason="gave-up", load=None))]
    fn new(now: f64, sent: Vec<f64>, reason: &str, load: Option<PyRef<'_, Load>>) -> PyResult<Self> {
        let reason = match reason {
            "gave-up" => AbandonReason::GaveUp,
            "cancelled" => AbandonReason::Cancelled,
            "reset" => AbandonReason::Reset,
            "unreachable" => AbandonReason::Unreachable,
            _ => {
                let expected = "gave-up, cancelled, reset or unreachable";
                return Err(PyValueError::new_err(format!("{reason:?} is no reason: {expected}")));
            }
        };
        let sent = sent.into_iter().map(of_test).collect::<PyResult<_>>()?;
        Ok(Self { now: of_test(now)?, reason, sent, load: load_of(load) })
    }

    /// Time of the end in seconds.
    #[getter]
    fn now(&self) -> f64 {
        seconds(self.now)
    }

    /// MAX_RETRANSMIT is exhausted, the application cancels, the peer resets, or the network
    /// reports the peer unreachable.
    #[getter]
    fn reason(&self) -> &'static str {
        name_of(self.reason)
    }

    /// Times of all transmissions in seconds, at least one.
    #[getter]
    fn sent<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sent.iter().copied().map(seconds))
    }

    /// Other messages of this peer.
    #[getter]
    fn load(&self) -> Load {
        Load(self.load)
    }

    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

/// A path's state from all its peers' exchanges.
#[pyclass(frozen, eq, module = "conche.controller")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathHistory(pub path_history::PathHistory);

#[pymethods]
impl PathHistory {
    /// Time of the last exchange in seconds.
    #[getter]
    fn heard(&self) -> f64 {
        seconds(self.0.heard())
    }

    /// Smoothed round-trip time in seconds, if measured.
    #[getter]
    fn srtt(&self) -> Option<f64> {
        self.0.learnt().map(|(srtt, _)| srtt.as_secs_f64())
    }

    /// Variation of round-trip times in seconds, if measured.
    #[getter]
    fn rttvar(&self) -> Option<f64> {
        self.0.learnt().map(|(_, rttvar)| rttvar.as_secs_f64())
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Adds the classes to the extension module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NonHistory>()?;
    module.add_class::<Load>()?;
    module.add_class::<Submission>()?;
    module.add_class::<Sent>()?;
    module.add_class::<Expired>()?;
    module.add_class::<AckedCopy>()?;
    module.add_class::<Acknowledged>()?;
    module.add_class::<Abandoned>()?;
    module.add_class::<PathHistory>()
}

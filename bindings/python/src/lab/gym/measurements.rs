//! The state of a peer as an agent observes it.

use conche::cc::Instant;
use conche::cc::backoff::{bounded, dithered};
use conche::cc::control::{self, Load};
use conche::cc::estimator::{Estimator, Gains, Snapshot};
use conche::cc::sample;
use conche::cc::units::{Factor, Micros};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::super::controller::{CAP, events, span};

/// Number of features in an [`Observation`].
pub const FEATURES: usize = 10;

/// The features in the order of `conche.gym.FEATURES`.
pub type Observation = [f32; FEATURES];

/// ACK_TIMEOUT.
const INITIAL_RTO: Micros = Micros::from_millis(2_000);

/// Measurements of a peer, which a real endpoint could make.
#[pyclass(module = "conche._conche")]
#[derive(Clone, Debug)]
pub struct Measurements {
    rto: Micros,
    estimator: Estimator,
    min_rtt: Option<Micros>,
    last: LastExchange,
    heard: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct LastExchange {
    elapsed: Micros,
    retransmissions: usize,
    failed: bool,
}

impl Measurements {
    pub fn new(now: Instant) -> Self {
        Self {
            rto: INITIAL_RTO,
            estimator: Estimator::default(),
            min_rtt: None,
            last: LastExchange::default(),
            heard: now,
        }
    }

    pub fn rto(&self) -> Micros {
        self.rto
    }

    pub fn snapshot(&self) -> Snapshot {
        let [srtt, rttvar] = [self.estimator.srtt(), self.estimator.rttvar()].map(|estimate| estimate.map(Into::into));
        Snapshot { rto: self.rto.into(), srtt, rttvar, ..Snapshot::default() }
    }

    pub fn acknowledged(&mut self, event: &control::Acknowledged<'_>) {
        if let Some(rtt) = sample::strong_rtt(event) {
            self.estimator.sample(rtt, Gains::RFC6298);
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let retransmissions = event.retransmissions();
        self.last = LastExchange { elapsed: event.since_first().into(), retransmissions, failed: false };
        self.heard = event.now;
    }

    pub fn abandoned(&mut self, event: &control::Abandoned<'_>) {
        let elapsed = event.sent.first().map_or(Micros::ZERO, |first| Micros::between(*first, event.now));
        self.last = LastExchange { elapsed, retransmissions: event.sent.len().saturating_sub(1), failed: true };
    }

    pub fn observe(&self, now: Instant, load: &Load) -> Observation {
        let seconds = |micros: Micros| f64::from(micros.get()) / 1e6;
        let or_none = |micros: Option<Micros>| micros.map_or(0.0, seconds);
        let features = [
            seconds(self.rto),
            or_none(self.estimator.srtt()),
            or_none(self.estimator.rttvar()),
            or_none(self.min_rtt),
            seconds(self.last.elapsed),
            self.last.retransmissions as f64,
            f64::from(u8::from(self.last.failed)),
            seconds(Micros::between(self.heard, now)),
            f64::from(load.exchanges),
            f64::from(load.queued),
        ];
        #[allow(clippy::cast_possible_truncation, reason = "rounds")]
        features.map(|feature| feature as f32)
    }

    /// Sets the RTO of a new exchange; returns its first timeout.
    pub fn decide(&mut self, rto: Micros, random: u32) -> Micros {
        self.rto = rto;
        dithered(rto, Factor::ONE_AND_HALF, random)
    }
}

/// Returns the observation as NumPy reads it.
pub fn bytes<'py>(py: Python<'py>, observation: &Observation) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = observation.iter().flat_map(|feature| feature.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}

#[pymethods]
impl Measurements {
    #[new]
    fn of_controller(now: f64) -> PyResult<Self> {
        events::of_test(now).map(Self::new)
    }

    #[pyo3(name = "acknowledged")]
    fn py_acknowledged(&mut self, event: PyRef<'_, events::Acknowledged>) {
        self.acknowledged(&event.native());
    }

    #[pyo3(name = "abandoned")]
    fn py_abandoned(&mut self, event: PyRef<'_, events::Abandoned>) {
        self.abandoned(&event.native());
    }

    #[pyo3(name = "observe")]
    fn py_observe<'py>(&self, py: Python<'py>, event: PyRef<'_, events::Sent>) -> Bound<'py, PyBytes> {
        bytes(py, &self.observe(event.0.now, &event.0.load))
    }

    /// Sets the RTO of the exchange that begins with `event`; returns its first timeout in seconds.
    #[pyo3(name = "decide")]
    fn py_decide(&mut self, rto: &Bound<'_, PyAny>, event: PyRef<'_, events::Sent>) -> PyResult<f64> {
        let rto = span(rto).ok_or_else(|| PyValueError::new_err(format!("{rto} is no RTO in seconds")))?;
        let timeout = bounded(self.decide(rto, event.0.random), CAP);
        Ok(f64::from(timeout.get()) / 1e6)
    }

    /// Smoothed round-trip time and its variation in seconds.
    #[getter]
    fn estimates(&self) -> (Option<f64>, Option<f64>) {
        let Snapshot { srtt, rttvar, .. } = self.snapshot();
        (srtt.map(|srtt| srtt.as_secs_f64()), rttvar.map(|rttvar| rttvar.as_secs_f64()))
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.clone()
    }
}

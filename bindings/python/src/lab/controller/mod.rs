//! Controllers written in Python. Only overridden methods call Python; the others compute here what
//! the base class states in Python.

pub mod events;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use conche::cc::any::Named;
use conche::cc::backoff::{Timer, dithered};
use conche::cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche::cc::dynamic::DynController;
use conche::cc::features::Features;
use conche::cc::non::paced_by_rto;
use conche::cc::path_history::PathHistory;
use conche::cc::units::{Factor, Micros};
use conche::cc::{Controller, Instant};
use conche_conformance::Bounds;
use conche_conformance::checks::{Violation, violations};
use conche_lab::campaign::{Aborted, Enter};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::campaign::in_background;
use events::{instant, seconds};

/// Maximum timeout of the default methods.
pub const CAP: Micros = Micros::from_millis(60_000);
/// Maximum number of seconds that a method may return: [`Micros::MAX`].
const MOST_SECONDS: f64 = 4294.0;
const SPAN: &str = "a number of seconds from 0 to 4294";

/// A controller in Python, with the name and the version in results.
#[pyclass(frozen, module = "conche._conche")]
pub struct OwnController {
    shared: Arc<Shared>,
    features: FeatureFields,
    version: u32,
}

/// Row of the feature table: about, strong and weak samples, dithering, backoff, ageing, and
/// whether exchanges inherit a backed-off RTO.
type FeatureFields = (String, bool, Option<u8>, String, String, String, bool);

/// What all runs share.
struct Shared {
    name: String,
    object: Py<PyAny>,
    measures_rtt: bool,
    methods: Methods,
    flight: Py<PyAny>,
}

/// The overridden methods.
struct Methods {
    seed: Option<Py<PyAny>>,
    admit: Option<Py<PyAny>>,
    sent: Option<Py<PyAny>>,
    expired: Option<Py<PyAny>>,
    acknowledged: Option<Py<PyAny>>,
    abandoned: Option<Py<PyAny>>,
    drained: Option<Py<PyAny>>,
    base: Option<Py<PyAny>>,
    snapshot: Option<Py<PyAny>>,
}

#[pymethods]
impl OwnController {
    /// Checks the values that do not depend on a run.
    #[new]
    fn new(
        controller: &Bound<'_, PyAny>,
        base: &Bound<'_, PyType>,
        name: String,
        version: u32,
        features: FeatureFields,
    ) -> PyResult<Self> {
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let is_own = !controller.get_type().getattr(name)?.is(&base.getattr(name)?);
            is_own.then(|| controller.getattr(name).map(Bound::unbind)).transpose()
        };
        let methods = Methods {
            seed: method("seed")?,
            admit: method("admit")?,
            sent: method("sent")?,
            expired: method("expired")?,
            acknowledged: method("acknowledged")?,
            abandoned: method("abandoned")?,
            drained: method("drained")?,
            base: method("base")?,
            snapshot: method("snapshot")?,
        };
        let measures_rtt = controller.call_method0("measures_rtt")?;
        let shared = Shared {
            measures_rtt: measures_rtt
                .extract()
                .map_err(|_| wrong(&name, "measures_rtt", "returned", &measures_rtt, "True or False"))?,
            flight: match method("flight")? {
                Some(flight) => flight,
                None => flights(controller.py())?.unbind(),
            },
            name,
            object: controller.clone().unbind(),
            methods,
        };
        shared.new_peer(controller.py(), Instant::ZERO)?;
        Ok(Self { shared: Arc::new(shared), features, version })
    }

    /// Pickles the controller with its version: its source may be absent elsewhere.
    #[allow(clippy::type_complexity, reason = "arguments of `new`")]
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Py<PyAny>, Bound<'py, PyAny>, String, u32, FeatureFields))> {
        let (py, this) = (slf.py(), slf.get());
        let base = py.import("conche.controller")?.getattr("Controller")?;
        let arguments =
            (this.shared.object.clone_ref(py), base, this.shared.name.clone(), this.version, this.features.clone());
        Ok((slf.get_type().into_any(), arguments))
    }

    #[getter]
    fn controller(&self, py: Python<'_>) -> Py<PyAny> {
        self.shared.object.clone_ref(py)
    }

    #[getter]
    fn version(&self) -> u32 {
        self.version
    }

    #[getter]
    fn name(&self) -> &str {
        &self.shared.name
    }

    /// Runs the checks of the conformance suite that apply; returns names and problems of the
    /// violated ones.
    fn violations(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, String)>> {
        let controller = InPython { shared: Arc::clone(&self.shared), abort: of_check };
        let features = self.features();
        let found = in_background(py, true, None, move |_| Ok(violations(&controller, &features, Bounds::default())))?;
        Ok(found.into_iter().map(|Violation { check, problem }| (check.name(), problem)).collect())
    }
}

impl OwnController {
    /// Returns it as one of an experiment's controllers.
    pub fn named(&self) -> Named {
        let shared = Arc::clone(&self.shared);
        let make = move || DynController::new(InPython { shared: Arc::clone(&shared), abort: of_run }).into();
        Named::from_fn(self.shared.name.clone(), self.features(), make).with_version(self.version)
    }

    pub fn features(&self) -> Features {
        let (about, strong_rtt, weak_rtt, dithering, backoff, ageing, reuses_backed_off_rto) = &self.features;
        Features {
            about: kept(about),
            strong_rtt: *strong_rtt,
            weak_rtt: *weak_rtt,
            dithering: kept(dithering),
            backoff: kept(backoff),
            ageing: kept(ageing),
            reuses_backed_off_rto: *reuses_backed_off_rto,
            source: "Python",
            peer_bytes: 0,
            flight_bytes: 0,
            published_bytes: None,
        }
    }
}

/// Keeps each different text for the rest of the process, as the feature table needs.
fn kept(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    let new: &'static str = Box::leak(text.into());
    texts.insert(new);
    new
}

thread_local! {
    /// Once true, the calls of this thread end their runs.
    static CANCEL: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
    /// Address of the controller in Python that this thread calls; 0 without a call.
    static CALLED: Cell<usize> = const { Cell::new(0) };
    /// Held during a call, by the worker threads of a campaign.
    static TURN: RefCell<Option<Arc<Mutex<()>>>> = const { RefCell::new(None) };
}

/// Threads that may call Python: what cancels them, and their `threading.get_ident()`.
static THREADS: Mutex<Vec<(Arc<AtomicBool>, u64)>> = Mutex::new(Vec::new());
/// Number of these threads that hold the interpreter or wait for it.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Whether the interpreter ends: entering it would end the process.
static EXITING: AtomicBool = AtomicBool::new(false);

/// A thread's stay in the interpreter, which the end of the interpreter awaits.
struct Inside;

impl Inside {
    fn enter() -> Self {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Keeps the interpreter's state of each worker thread: every call would make it anew. Once `cancel`
/// is true, runs end at their next call.
pub fn enter(cancel: Arc<AtomicBool>) -> Enter {
    let turn = Arc::<Mutex<()>>::default();
    Enter::new(move |work| {
        TURN.set(Some(Arc::clone(&turn)));
        attached(Arc::clone(&cancel), work);
    })
}

/// Runs a thread's work that calls Python, until `cancel` is true.
pub fn attached<T: Send>(cancel: Arc<AtomicBool>, work: impl FnOnce() -> T + Send) -> T {
    CANCEL.set(Some(Arc::clone(&cancel)));
    let entered = enter_or_park();
    Python::attach(|py| {
        let identity = py.import("threading").and_then(|module| module.call_method0("get_ident")?.extract::<u64>());
        let identity = identity.unwrap_or_default();
        threads().push((Arc::clone(&cancel), identity));
        let (result, _entered) = py.detach(|| {
            drop(entered);
            let result = catch_unwind(AssertUnwindSafe(work));
            (result, enter_or_park())
        });
        let mut threads = threads();
        let is_this = |(of, known): &(Arc<AtomicBool>, u64)| Arc::ptr_eq(of, &cancel) && *known == identity;
        if let Some(place) = threads.iter().position(is_this) {
            threads.swap_remove(place);
        }
        drop(threads);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn threads() -> MutexGuard<'static, Vec<(Arc<AtomicBool>, u64)>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters the interpreter, or stops this thread for good if the interpreter ends.
fn enter_or_park() -> Inside {
    let entered = Inside::enter();
    if is_exiting() {
        drop(entered);
        loop {
            thread::park();
        }
    }
    entered
}

/// Returns whether the interpreter ends: threads that call Python may have stopped for good.
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::SeqCst)
}

/// Cancels work, and raises KeyboardInterrupt in its methods that compute now.
pub fn interrupt(py: Python<'_>, cancel: &Arc<AtomicBool>) -> PyResult<()> {
    cancel.store(true, Ordering::SeqCst);
    let of: Vec<u64> = threads().iter().filter(|(of, _)| Arc::ptr_eq(of, cancel)).map(|(_, known)| *known).collect();
    raise_in(py, &of)
}

/// Raises KeyboardInterrupt in threads. No other thread of Python runs meanwhile.
fn raise_in(py: Python<'_>, threads: &[u64]) -> PyResult<()> {
    if threads.is_empty() {
        return Ok(());
    }
    let ctypes = py.import("ctypes")?;
    let raise = ctypes.getattr("pythonapi")?.getattr("PyThreadState_SetAsyncExc")?;
    let exception = ctypes.getattr("py_object")?.call1((py.get_type::<PyKeyboardInterrupt>(),))?;
    let unsigned = ctypes.getattr("c_ulong")?;
    threads.iter().try_for_each(|thread| raise.call1((unsigned.call1((*thread,))?, &exception)).map(drop))
}

/// Ends the calls of background threads before the interpreter ends: a thread that returned to it
/// later would end the process. Another Ctrl-C ends the process at once.
#[pyfunction]
fn end_calls(py: Python<'_>, process: u32) -> PyResult<()> {
    const POLL: Duration = Duration::from_millis(20);
    // The child of a fork has none of these threads.
    if process != process::id() {
        return Ok(());
    }
    EXITING.store(true, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) > 0 {
        let known: Vec<u64> =
            threads().iter().map(|(cancel, known)| (cancel.store(true, Ordering::SeqCst), *known).1).collect();
        raise_in(py, &known)?;
        py.detach(|| thread::sleep(POLL));
        if py.check_signals().is_err() {
            py.import("os")?.call_method1("_exit", (130,))?;
        }
    }
    Ok(())
}

/// Returns whether this thread runs methods of the controller in an experiment or in the suite.
#[pyfunction]
fn is_called(controller: &Bound<'_, PyAny>) -> bool {
    CALLED.get() == controller.as_ptr().addr()
}

/// Adds the functions to the extension module, and has the interpreter call [`end_calls`] at its end.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(is_called, module)?)?;
    let end = wrap_pyfunction!(end_calls, module)?;
    module.py().import("atexit")?.call_method1("register", (end, process::id())).map(drop)
}

fn is_cancelled() -> bool {
    is_exiting() || CANCEL.with_borrow(|cancel| cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::SeqCst)))
}

/// Runs `call` while no other worker thread of the campaign calls Python.
///
/// Calls take microseconds. A thread that waits for the interpreter's lock sleeps, and waking takes
/// longer than the call; this one spins first.
fn in_turn<T>(call: impl FnOnce() -> T) -> T {
    const SPINS: u32 = 10_000;
    let Some(turn) = TURN.with_borrow(Option::clone) else { return call() };
    let mut spins = 0;
    let _held = loop {
        match turn.try_lock() {
            Ok(held) => break held,
            Err(TryLockError::Poisoned(held)) => break held.into_inner(),
            Err(TryLockError::WouldBlock) if spins < SPINS => {
                spins += 1;
                hint::spin_loop();
            }
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    };
    call()
}

/// Unwinds without the message of a panic: the run's failure has it.
fn of_run(problem: String) -> ! {
    resume_unwind(Box::new(Aborted(problem)))
}

/// A check takes the text of a panic for its problem.
fn of_check(problem: String) -> ! {
    resume_unwind(Box::new(problem))
}

/// Returns a function that makes the base class's flights: its class attributes are their initial
/// values, so that `__init__`, which is in Python, has nothing to do.
fn flights(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let of = py.import("conche.controller")?.getattr("Flight")?;
    let new = py.import("builtins")?.getattr("object")?.getattr("__new__")?;
    py.import("functools")?.getattr("partial")?.call1((new, of))
}

fn wrong(name: &str, method: &str, did: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let shown = value.repr().map_or_else(|_| "a value without repr()".to_owned(), |text| text.to_string());
    let text = format!("{name}.{method} {did} {shown}; it must be {expected}");
    if value.extract::<f64>().is_ok() { PyValueError::new_err(text) } else { PyTypeError::new_err(text) }
}

/// A number of seconds that is neither negative nor too long.
pub fn span(value: &Bound<'_, PyAny>) -> Option<Micros> {
    let seconds = value.extract::<f64>().ok().filter(|seconds| (0.0..=MOST_SECONDS).contains(seconds))?;
    Some(Duration::from_secs_f64(seconds).into())
}

impl Shared {
    /// Reads the estimates, which only calls of Python change.
    fn estimates(&self, method: &str, object: &Bound<'_, PyAny>) -> PyResult<Estimates> {
        let py = object.py();
        let rto = object.getattr(intern!(py, "rto"))?;
        let estimate = |name| -> PyResult<Option<Micros>> {
            let value = object.getattr(name)?;
            if value.is_none() {
                return Ok(None);
            }
            let expected = "None or a number of seconds from 0 to 4294";
            span(&value)
                .map(Some)
                .ok_or_else(|| wrong(&self.name, method, &format!("set peer.{name} to"), &value, expected))
        };
        Ok(Estimates {
            rto: span(&rto).ok_or_else(|| wrong(&self.name, method, "set peer.rto to", &rto, SPAN))?,
            srtt: estimate(intern!(py, "srtt"))?,
            rttvar: estimate(intern!(py, "rttvar"))?,
        })
    }

    fn new_peer(&self, py: Python<'_>, now: Instant) -> PyResult<Peer> {
        let object = self.object.bind(py).call_method1(intern!(py, "peer"), (seconds(now),))?;
        self.of_object("peer", object)
    }

    fn of_object(&self, method: &str, object: Bound<'_, PyAny>) -> PyResult<Peer> {
        if !object.hasattr(intern!(object.py(), "rto"))? {
            return Err(wrong(&self.name, method, "returned", &object, "a conche.controller.Peer"));
        }
        Ok(Peer { estimates: self.estimates(method, &object)?, object: object.unbind() })
    }
}

/// The controller of an experiment or of the conformance suite.
#[derive(Clone)]
pub struct InPython {
    shared: Arc<Shared>,
    /// Ends the run with a problem.
    abort: fn(String) -> !,
}

impl fmt::Debug for InPython {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shared.name)
    }
}

#[derive(Clone, Copy, Debug)]
struct Estimates {
    rto: Micros,
    srtt: Option<Micros>,
    rttvar: Option<Micros>,
}

/// A peer's Python object, and its estimates after the last call.
pub struct Peer {
    object: Py<PyAny>,
    estimates: Estimates,
}

/// Clones change nothing of each other.
impl Clone for Peer {
    fn clone(&self) -> Self {
        Self { object: copied(&self.object), estimates: self.estimates }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.estimates.fmt(f)
    }
}

/// An exchange's timer, and its Python object once a method has used it.
#[derive(Default)]
pub struct Flight {
    timer: Timer,
    object: Option<Py<PyAny>>,
}

impl Clone for Flight {
    fn clone(&self) -> Self {
        Self { timer: self.timer, object: self.object.as_ref().map(copied) }
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timer.fmt(f)
    }
}

fn copied(object: &Py<PyAny>) -> Py<PyAny> {
    let copied = Python::attach(|py| {
        let copied = py.import("copy").and_then(|copy| copy.call_method1("deepcopy", (object,)));
        copied.map(Bound::unbind).map_err(|error| error.to_string())
    });
    copied.unwrap_or_else(|problem| resume_unwind(Box::new(problem)))
}

impl InPython {
    /// Runs `work` in the interpreter. An error ends the run.
    fn call<T>(&self, method: &str, work: impl FnOnce(Python<'_>, &Shared) -> PyResult<T>) -> T {
        let shared = &*self.shared;
        let entered = Inside::enter();
        if is_cancelled() {
            drop(entered);
            (self.abort)("the experiment was cancelled".to_owned());
        }
        let call = |py: Python<'_>| work(py, shared).map_err(|error| problem(py, shared, method, &error));
        let before = CALLED.replace(shared.object.as_ptr().addr());
        let result = in_turn(|| Python::attach(call));
        CALLED.set(before);
        drop(entered);
        result.unwrap_or_else(|problem| (self.abort)(problem))
    }

    /// Calls a method, and reads the estimates.
    fn updates<T>(
        &self,
        method: &str,
        peer: &mut Peer,
        work: impl FnOnce(Python<'_>, &Shared, &Py<PyAny>) -> PyResult<T>,
    ) -> T {
        self.call(method, |py, shared| {
            let result = work(py, shared, &peer.object)?;
            peer.estimates = shared.estimates(method, peer.object.bind(py))?;
            Ok(result)
        })
    }

    /// Returns the exchange's object, with its timeout if [`Controller::sent`] is not overridden.
    fn flight(&self, py: Python<'_>, flight: &Flight) -> PyResult<Py<PyAny>> {
        let object = match &flight.object {
            Some(object) => object.clone_ref(py),
            None => self.shared.flight.call0(py)?,
        };
        if self.shared.methods.sent.is_none() {
            let timeout = flight.timer.armed().map(|timeout| Duration::from(timeout).as_secs_f64());
            object.setattr(py, intern!(py, "timeout"), timeout)?;
        }
        Ok(object)
    }
}

/// Text of an exception: an invalid value's alone, with the traceback for one of the method.
fn problem(py: Python<'_>, shared: &Shared, method: &str, error: &PyErr) -> String {
    let formatted = py.import("traceback").and_then(|module| {
        let arguments = (error.get_type(py), error.value(py), error.traceback(py));
        let lines = module.call_method1("format_exception", arguments)?;
        lines.extract::<Vec<String>>()
    });
    let has_traceback = error.traceback(py).is_some();
    match formatted {
        Ok(lines) if has_traceback => format!("{}.{method} raised:\n{}", shared.name, lines.concat().trim_end()),
        _ => error.value(py).to_string(),
    }
}

impl Controller for InPython {
    type Peer = Peer;
    type Flight = Flight;

    fn measures_rtt(&self) -> bool {
        self.shared.measures_rtt
    }

    fn peer(&self, now: Instant) -> Peer {
        self.call("peer", |py, shared| shared.new_peer(py, now))
    }

    fn seed(&self, now: Instant, history: &PathHistory) -> Peer {
        let Some(seed) = &self.shared.methods.seed else { return history.as_first_sample(self, now) };
        self.call("seed", |py, shared| {
            let object = seed.bind(py).call1((seconds(now), events::PathHistory(*history)))?;
            shared.of_object("seed", object)
        })
    }

    fn admit(&self, peer: &mut Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        let Some(admit) = &self.shared.methods.admit else {
            if message.confirmable {
                return Admission::Send;
            }
            let rto = self.base(peer, now);
            return paced_by_rto(now, message, &load.non, rto.into());
        };
        self.updates("admit", peer, |py, shared, peer| {
            let arguments = (peer, seconds(now), events::Submission(*message), events::Load(*load));
            let value = admit.bind(py).call1(arguments)?;
            admission(&value, now, message).ok_or_else(|| {
                let expected = "an Admission (SEND_CONFIRMABLE if message.may_confirm), or a later time in seconds";
                wrong(&shared.name, "admit", "returned", &value, expected)
            })
        })
    }

    fn sent(&self, peer: &mut Peer, flight: &mut Flight, event: &Sent) -> Duration {
        let Some(sent) = &self.shared.methods.sent else {
            let base = self.base(peer, event.now).into();
            let first = || dithered(base, Factor::ONE_AND_HALF, event.random);
            return flight.timer.arm(event, first, Factor::TWO, CAP);
        };
        self.updates("sent", peer, |py, shared, peer| {
            let object = self.flight(py, flight)?;
            let value = sent.bind(py).call1((peer, &object, events::Sent(*event)))?;
            flight.object = Some(object);
            span(&value).map(Duration::from).ok_or_else(|| wrong(&shared.name, "sent", "returned", &value, SPAN))
        })
    }

    fn expired(&self, peer: &mut Peer, flight: &mut Flight, event: &Expired) -> Instant {
        let Some(expired) = &self.shared.methods.expired else { return event.now };
        self.updates("expired", peer, |py, shared, peer| {
            let object = self.flight(py, flight)?;
            let value = expired.bind(py).call1((peer, &object, events::Expired(*event)))?;
            flight.object = Some(object);
            let time = value.extract::<f64>().ok().filter(|time| *time >= seconds(event.now)).and_then(instant);
            let expected = "a time in seconds, event.now or later";
            let time = time.ok_or_else(|| wrong(&shared.name, "expired", "returned", &value, expected))?;
            Ok(time.max(event.now))
        })
    }

    fn acknowledged(&self, peer: &mut Peer, flight: &Flight, event: &Acknowledged<'_>) {
        let Some(acknowledged) = &self.shared.methods.acknowledged else { return };
        self.updates("acknowledged", peer, |py, _, peer| {
            let object = self.flight(py, flight)?;
            acknowledged.bind(py).call1((peer, object, events::Acknowledged::of(event))).map(drop)
        });
    }

    fn abandoned(&self, peer: &mut Peer, flight: &Flight, event: &Abandoned<'_>) {
        let Some(abandoned) = &self.shared.methods.abandoned else { return };
        self.updates("abandoned", peer, |py, _, peer| {
            let object = self.flight(py, flight)?;
            abandoned.bind(py).call1((peer, object, events::Abandoned::of(event))).map(drop)
        });
    }

    fn drained(&self, peer: &mut Peer, now: Instant, load: &Load) {
        let Some(drained) = &self.shared.methods.drained else { return };
        self.updates("drained", peer, |py, _, peer| {
            drained.bind(py).call1((peer, seconds(now), events::Load(*load))).map(drop)
        });
    }

    fn base(&self, peer: &mut Peer, now: Instant) -> Duration {
        let Some(base) = &self.shared.methods.base else { return peer.estimates.rto.into() };
        self.updates("base", peer, |py, shared, peer| {
            let value = base.bind(py).call1((peer, seconds(now)))?;
            span(&value).map(Duration::from).ok_or_else(|| wrong(&shared.name, "base", "returned", &value, SPAN))
        })
    }

    fn snapshot(&self, peer: &Peer) -> Snapshot {
        let Some(snapshot) = &self.shared.methods.snapshot else {
            let Estimates { rto, srtt, rttvar } = peer.estimates;
            let [srtt, rttvar] = [srtt, rttvar].map(|estimate| estimate.map(Duration::from));
            return Snapshot { rto: rto.into(), srtt, rttvar, ..Snapshot::default() };
        };
        self.call("snapshot", |py, shared| {
            let value = snapshot.bind(py).call1((&peer.object,))?;
            if !value.hasattr(intern!(py, "rto"))? {
                return Err(wrong(&shared.name, "snapshot", "returned", &value, "a conche.controller.Snapshot"));
            }
            let Estimates { rto, srtt, rttvar } = shared.estimates("snapshot", &value)?;
            let [srtt, rttvar] = [srtt, rttvar].map(|estimate| estimate.map(Duration::from));
            Ok(Snapshot { rto: rto.into(), srtt, rttvar, ..Snapshot::default() })
        })
    }
}

fn admission(value: &Bound<'_, PyAny>, now: Instant, message: &Submission) -> Option<Admission> {
    if let Ok(time) = value.extract::<f64>() {
        return instant(time).filter(|time| *time > now).map(Admission::At);
    }
    let name: String = value.getattr("value").ok()?.extract().ok()?;
    match name.as_str() {
        "send" => Some(Admission::Send),
        "send-confirmable" if message.may_confirm => Some(Admission::SendConfirmable),
        "on-event" => Some(Admission::OnEvent),
        _ => None,
    }
}

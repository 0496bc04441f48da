//! Simulations that wait for an agent's decisions, for `conche.gym`. Each is on a thread of its
//! own, which ends with it.

mod agent;
mod measurements;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use conche::AnyController;
use conche::cc::dynamic::DynController;
use conche::cc::units::Micros;
use conche_lab::campaign::{Aborted, Replication, seed_of};
use conche_lab::scenario::{Cell, Scenario as Read};
use conche_lab::trial::{Control, Routes, Substitute, Trace, TrialError, run_substituted};
use conche_netsim::NodeId;
use conche_netsim::wired::Topology;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::controller::events::seconds;
use super::controller::span;
use super::controller::{attached, interrupt, is_exiting};
use super::experiment::Scenario;
use super::{RunFailure, ScenarioError};
use agent::{Agent, Deliveries, End, Ended, Message, Names, NodeNames, Point, Run};
use measurements::Measurements;

/// Time between two looks at signals.
const POLL: Duration = Duration::from_millis(100);

const OVER: &str = "the episode is over; call reset()";

/// Adds the classes and the function to the extension module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Exchange>()?;
    module.add_class::<Measurements>()?;
    module.add_class::<Simulation>()?;
    module.add_function(wrap_pyfunction!(wait, module)?)
}

/// A run of a cell with an agent on some nodes.
#[pyclass(frozen, module = "conche._conche")]
pub struct Simulation {
    names: Names,
    cancel: Arc<AtomicBool>,
    /// The process that has the thread: a fork has none.
    process: u32,
    /// `None` once closed.
    running: Mutex<Option<Running>>,
}

struct Running {
    actions: Sender<Micros>,
    messages: Receiver<Message>,
    thread: JoinHandle<()>,
}

#[pymethods]
impl Simulation {
    /// Checks that each of these nodes exists, by its name or its group's.
    #[staticmethod]
    fn check(scenario: &Scenario, cell: usize, nodes: Vec<String>) -> PyResult<()> {
        let Cell { scenario, .. } = cell_of(scenario, cell)?;
        nodes.iter().try_for_each(|node| check_node(scenario, node))
    }

    /// Begins the run of a cell with the experiment's seed of the replication, or another one. Its
    /// agent controls these nodes, or all with a scheme.
    #[staticmethod]
    #[pyo3(signature = (scenario, cell, replication, seed, nodes))]
    fn begin(
        scenario: &Scenario,
        cell: usize,
        replication: u32,
        seed: Option<u64>,
        nodes: Vec<String>,
    ) -> PyResult<(u64, Self)> {
        let cell = cell_of(scenario, cell)?.clone();
        let count = cell.scenario.replications.get();
        if replication >= count {
            return Err(PyValueError::new_err(format!("replication {replication}: the cell has 0 to {}", count - 1)));
        }
        let seed = seed.unwrap_or_else(|| seed_of(cell.scenario.seed, replication));
        let replication = Replication { index: replication, count, seed };
        let (names, cancel) = (Names::default(), Arc::<AtomicBool>::default());
        let (to_agent, messages) = mpsc::channel();
        let (actions, from_agent) = mpsc::channel();
        let run = Run::new(Arc::clone(&names), Arc::clone(&cancel), to_agent.clone(), from_agent);
        let calls_python = scenario.calls_python();
        let builder = thread::Builder::new().name("conche-gym".to_owned());
        let thread = builder.spawn(move || {
            let cancel = Arc::clone(&run.cancel);
            let work = || simulate(&cell, replication, &nodes, &Arc::new(run));
            let end = if calls_python { attached(cancel, work) } else { work() };
            // A closed simulation has no receiver.
            let _ = to_agent.send(Message::End(end));
        })?;
        let running = Mutex::new(Some(Running { actions, messages, thread }));
        Ok((seed, Self { names, cancel, process: process::id(), running }))
    }

    /// Sends the RTO of the exchange that waits for it, in seconds.
    fn act(&self, rto: &Bound<'_, PyAny>) -> PyResult<()> {
        let micros = span(rto).ok_or_else(|| PyValueError::new_err(format!("{rto} is no RTO in seconds")))?;
        self.with(|running| {
            // A run that is over has no receiver; `wait` reports its end.
            let _ = running.actions.send(micros);
            Ok(())
        })
    }

    /// Ends the run and its thread.
    fn close(&self, py: Python<'_>) {
        self.cancel.store(true, Ordering::Relaxed);
        if self.process != process::id() {
            return;
        }
        // A failure leaves the controller to its own end.
        let _ = interrupt(py, &self.cancel);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { actions, messages, thread }) = running {
            drop((actions, messages));
            // It catches panics.
            if !is_exiting() {
                py.detach(|| drop(thread.join()));
            }
        }
    }
}

impl Drop for Simulation {
    /// The thread ends in the background: waiting for it might need the interpreter.
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
        if self.process != process::id() {
            let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            std::mem::forget(running);
        }
    }
}

impl Simulation {
    fn with<T>(&self, work: impl FnOnce(&mut Running) -> PyResult<T>) -> PyResult<T> {
        if self.process != process::id() {
            let problem = "the episode belongs to another process, from which this one was forked; call reset()";
            return Err(PyRuntimeError::new_err(problem));
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        work(running.as_mut().ok_or_else(|| PyRuntimeError::new_err(OVER))?)
    }

    fn moment<'py>(&self, py: Python<'py>, message: Message) -> PyResult<Moment<'py>> {
        let (point, end, problem) = match message {
            Message::Decision(point) => (Some(point), None, None),
            Message::End(End::Over { last, truncated, problem }) => {
                (last, Some(if truncated { "truncated" } else { "terminated" }), problem)
            }
            Message::End(End::Invalid(problem)) => return Err(ScenarioError::new_err(problem)),
            Message::End(End::Failed(problem)) => return Err(RunFailure::new_err(problem)),
        };
        let Some(Point { observation, node, peer, now, decision, ended }) = point else {
            return Ok((None, String::new(), String::new(), 0.0, 0, Vec::new(), end, problem));
        };
        let name = |node| name_of(&self.names, node);
        let ended = ended.into_iter().map(|ended| Exchange { names: Arc::clone(&self.names), ended }).collect();
        let observation = Some(measurements::bytes(py, &observation));
        Ok((observation, name(node), name(peer), seconds(now), decision, ended, end, problem))
    }

    /// Waits for the next message, at most [`POLL`].
    fn poll(&self) -> PyResult<Option<Message>> {
        self.with(|running| match running.messages.recv_timeout(POLL) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(PyRuntimeError::new_err(OVER)),
        })
    }
}

fn cell_of(scenario: &Scenario, place: usize) -> PyResult<&Cell> {
    let cells = scenario.planned();
    cells.get(place).ok_or_else(|| PyValueError::new_err(format!("cell {place}: there are {}", cells.len())))
}

/// Returns whether a reference is a node's name, such as `client[3]`, or its group's.
fn names(reference: &str, node: &str) -> bool {
    node.strip_prefix(reference).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

fn check_node(scenario: &Read, reference: &str) -> PyResult<()> {
    if scenario.nodes.iter().any(|nodes| nodes.names().any(|node| names(reference, &node))) {
        return Ok(());
    }
    let groups: Vec<&str> = scenario.nodes.iter().map(|nodes| nodes.name.as_str()).collect();
    let problem = format!("no node is called {reference:?}; groups are {}", groups.join(", "));
    Err(PyValueError::new_err(problem))
}

fn simulate(cell: &Cell, replication: Replication, nodes: &[String], run: &Arc<Run>) -> End {
    let mut trace = |topology: &Topology| {
        // Set once: a simulation has one topology.
        let _ = run.names.set(NodeNames::of(topology));
        Trace::Packets(Rc::new(RefCell::new(Deliveries(Arc::clone(run)))))
    };
    let substitutes = |node: NodeId, control: Control| {
        let name = run.names.get().and_then(|names| names.at(node))?;
        let is_chosen = match nodes {
            [] => matches!(control, Control::Scheme(_)),
            nodes => nodes.iter().any(|reference| names(reference, name)),
        };
        let of_run = Arc::clone(run);
        is_chosen.then(|| Substitute {
            controller: AnyController::from(DynController::new(Agent { run: Arc::clone(run), node })),
            meet: Box::new(move |peer| of_run.meet(peer)),
        })
    };
    let routes = Routes::default();
    let simulate = || run_substituted(cell, replication, &routes, &mut trace, &substitutes);
    match catch_unwind(AssertUnwindSafe(simulate)) {
        Ok(Ok(_)) => End::Over { last: run.last(), truncated: cell.scenario.duration.is_some(), problem: None },
        Ok(Err(error @ TrialError::Unfinished { .. })) => {
            End::Over { last: run.last(), truncated: true, problem: Some(error.to_string()) }
        }
        Ok(Err(error)) => End::Invalid(cell.locate(error.into()).to_string()),
        Err(panic) => match panic.downcast::<Aborted>() {
            Ok(aborted) => End::Failed(aborted.0),
            Err(_) => End::Failed("the simulation has panicked".to_owned()),
        },
    }
}

/// Observation, node, peer, time in seconds and number of a decision, at the end of the run of the
/// last one; exchanges that have ended since; `terminated` or `truncated` at the end; and
/// its problem.
type Moment<'py> =
    (Option<Bound<'py, PyBytes>>, String, String, f64, u64, Vec<Exchange>, Option<&'static str>, Option<String>);

/// Waits for the next decision in each of these runs, or its end.
#[pyfunction]
fn wait<'py>(py: Python<'py>, simulations: Vec<PyRef<'py, Simulation>>) -> PyResult<Vec<Moment<'py>>> {
    let mut moments = Vec::with_capacity(simulations.len());
    while let Some(simulation) = simulations.get(moments.len()) {
        let simulation: &Simulation = simulation;
        match py.detach(|| simulation.poll())? {
            Some(message) => moments.push(simulation.moment(py, message)?),
            None => py.check_signals()?,
        }
    }
    Ok(moments)
}

/// An exchange of an agent that has ended.
#[pyclass(frozen, module = "conche.gym")]
struct Exchange {
    names: Names,
    ended: Ended,
}

#[pymethods]
impl Exchange {
    #[getter]
    fn decision(&self) -> u64 {
        self.ended.decision
    }

    #[getter]
    fn node(&self) -> String {
        name_of(&self.names, self.ended.node)
    }

    #[getter]
    fn peer(&self) -> String {
        name_of(&self.names, self.ended.peer)
    }

    #[getter]
    fn rto(&self) -> f64 {
        Duration::from(self.ended.rto).as_secs_f64()
    }

    #[getter]
    fn began(&self) -> f64 {
        seconds(self.ended.began)
    }

    #[getter]
    fn ended(&self) -> f64 {
        seconds(self.ended.ended)
    }

    #[getter]
    fn duration(&self) -> f64 {
        (self.ended.ended - self.ended.began).as_secs_f64()
    }

    #[getter]
    fn outcome(&self) -> &'static str {
        self.ended.outcome
    }

    #[getter]
    fn retransmissions(&self) -> usize {
        self.ended.retransmissions
    }

    #[getter]
    fn spurious(&self) -> usize {
        self.ended.spurious
    }

    #[getter]
    fn rtt(&self) -> Option<f64> {
        self.ended.rtt.map(|rtt| Duration::from(rtt).as_secs_f64())
    }

    #[getter]
    fn min_rtt(&self) -> Option<f64> {
        self.ended.min_rtt.map(|rtt| Duration::from(rtt).as_secs_f64())
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.ended)
    }
}

fn name_of(names: &Names, node: NodeId) -> String {
    names.get().and_then(|names| names.at(node)).cloned().unwrap_or_default()
}

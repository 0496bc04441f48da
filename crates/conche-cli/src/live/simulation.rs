//! `conche run --live`: one run of a scenario, at the pace of its page.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant as WallInstant};

use conche_lab::campaign::{Replication, seed_of};
use conche_lab::experiment::Experiment;
use conche_lab::scenario::ScenarioError;
use conche_lab::trial::Emulation;
use conche_netsim::Instant;

use super::{Control, Progress, Recording, Refusal, Request, Shown, State, View, check};
use crate::Global;
use crate::error::UsageError;
use crate::runtime;

/// Maximum time between controls, and between moves of the clock.
const SLICE: Duration = Duration::from_millis(50);

/// Wakes the loop.
enum Input {
    Control(Request),
    Stop,
}

/// How the time goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Paused,
    /// With the wall clock, or as fast as possible.
    Running,
    /// To the next event of a counted message.
    Step,
    Ended,
}

struct Player<'a> {
    emulation: Emulation<'a>,
    view: View,
    pace: Pace,
    speed: Option<f64>,
    /// The latest frame is older than the last control.
    is_stale: bool,
    /// A time of the run and of the wall clock that belong together.
    anchor: (Instant, WallInstant),
}

/// Runs the first replication of the experiment's first cell, until Ctrl-C.
pub fn run(address: SocketAddr, experiment: &Experiment, global: &Global) -> anyhow::Result<()> {
    let Some(cell) = experiment.document().cells().first() else {
        return Err(UsageError("no cell is left to run; select one by --only".to_owned()).into());
    };
    check(cell)?;
    let seed = seed_of(cell.scenario.seed, 0);
    let replication = Replication { index: 0, count: cell.scenario.replications.get(), seed };
    let recording = Recording::default();
    let emulation = Emulation::changeable(cell, replication, &[], &mut |topology| recording.start(topology).into());
    let emulation = emulation.map_err(|error| UsageError::of(cell.locate(ScenarioError::from(error))))?;
    let (sender, inputs) = channel();
    let interrupted = sender.clone();
    let (waiting, stop) = (runtime::start()?, runtime::stop_signal(runtime::GRACE)?);
    thread::spawn(move || {
        runtime::run(&waiting, stop);
        // The receiver has gone.
        let _ = interrupted.send(Input::Stop);
    });
    let controls = Box::new(move |request| sender.send(Input::Control(request)).is_ok());
    let advice = "paused: press Play; Ctrl-C ends it";
    let cells = experiment.document().cells().len();
    let shown = Shown { cell, cells, emulation: &emulation, is_simulation: true, advice };
    let view = View::open(address, shown, recording, controls, global)?;
    let anchor = (emulation.now(), WallInstant::now());
    let mut player = Player { emulation, view, pace: Pace::Paused, speed: Some(1.0), is_stale: false, anchor };
    player.publish()?;
    player.run(&inputs)?;
    player.view.close();
    Ok(())
}

impl Player<'_> {
    fn run(&mut self, inputs: &Receiver<Input>) -> anyhow::Result<()> {
        loop {
            let input = match self.wait() {
                None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => inputs.recv_timeout(wait),
            };
            match input {
                Ok(Input::Control(Request { control, answer })) => {
                    let outcome = self.control(control);
                    self.is_stale |= outcome.is_ok();
                    // The page has gone.
                    let _ = answer.send(outcome);
                }
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let before = self.pace;
            self.advance()?;
            if self.pace != before || ((self.is_running() || self.is_stale) && self.view.is_due()) {
                self.publish()?;
            }
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.pace, Pace::Running | Pace::Step)
    }

    /// Returns how long to wait for a control; `None` without a limit.
    fn wait(&self) -> Option<Duration> {
        let due = || self.view.due().saturating_duration_since(WallInstant::now());
        match (self.pace, self.speed) {
            (Pace::Paused | Pace::Ended, _) => self.is_stale.then(due),
            (Pace::Step, _) | (_, None) => Some(Duration::ZERO),
            (Pace::Running, Some(_)) => Some(due().min(SLICE)),
        }
    }

    fn control(&mut self, control: Control) -> Result<(), Refusal> {
        if self.pace == Pace::Ended {
            return Err(Refusal::Now("the run has ended; start the command again"));
        }
        match control {
            Control::Play {} => self.pace = Pace::Running,
            Control::Pause {} => self.pace = Pace::Paused,
            Control::Step { nodes } => {
                let count = self.emulation.all_nodes().count();
                if nodes.iter().any(|node| *node >= count) {
                    return Err(Refusal::Invalid(format!("nodes: there are {count}, counted from 0")));
                }
                self.view.count(nodes);
                self.pace = Pace::Step;
            }
            Control::Speed { value } => self.speed = value,
            Control::Link(link) => return link.apply(&mut self.emulation).map(drop),
        }
        self.anchor = (self.emulation.now(), WallInstant::now());
        Ok(())
    }

    /// Runs for at most a slice.
    fn advance(&mut self) -> anyhow::Result<()> {
        let began = WallInstant::now();
        while self.is_running() && began.elapsed() < SLICE {
            let target = match (self.pace, self.speed) {
                (Pace::Running, Some(speed)) => self.target(speed),
                _ => Instant::FAR_FUTURE,
            };
            let next = self.emulation.next_time().unwrap_or(Instant::ZERO + self.emulation.limit());
            if self.emulation.simulate_to(next.min(target))? {
                self.pace = Pace::Ended;
            } else if next > target {
                return Ok(());
            } else if self.pace == Pace::Step && self.view.counted() > 0 {
                self.pace = Pace::Paused;
            }
        }
        Ok(())
    }

    /// Returns the time of the run that belongs to now.
    fn target(&self, speed: f64) -> Instant {
        let (at, wall) = self.anchor;
        let elapsed = Duration::try_from_secs_f64(wall.elapsed().as_secs_f64() * speed);
        at + elapsed.unwrap_or(Duration::MAX)
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        self.is_stale = false;
        let state = match self.pace {
            Pace::Paused => State::Paused,
            Pace::Running | Pace::Step => State::Running,
            Pace::Ended => State::Ended,
        };
        self.view.publish(&self.emulation, Progress { state, speed: self.speed, lateness_ms: None })
    }
}

//! Runs steps that mostly wait beside the rest, as child processes, and shows their output in
//! order.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};

use super::Step;
use crate::project::Project;

/// Steps running in a second lane, one after the other.
pub struct Background {
    passed: Receiver<Result<bool>>,
    directory: PathBuf,
    given_up: Arc<AtomicBool>,
    lane: Option<JoinHandle<()>>,
}

impl Background {
    pub fn begin(
        project: &Project,
        steps: &[&'static Step],
        command: impl Fn(&Step) -> Result<process::Command> + Send + 'static,
    ) -> Self {
        let (done, passed) = mpsc::channel();
        let directory = project.target().join("ci");
        let given_up = Arc::new(AtomicBool::new(false));
        let (steps, logs, stop) = (steps.to_vec(), directory.clone(), Arc::clone(&given_up));
        let lane = thread::spawn(move || {
            for step in steps {
                if stop.load(Ordering::Relaxed) || done.send(run(step, &logs, &command)).is_err() {
                    return;
                }
            }
        });
        Self { passed, directory, given_up, lane: Some(lane) }
    }

    /// Waits for the next step, which must be this one, and shows its output.
    pub fn wait_for(&self, step: &Step) -> Result<()> {
        let passed = self.passed.recv().context("the lane beside has ended early")??;
        // The output comes from other programs, in any encoding.
        let output = fs::read(log(&self.directory, step)).context("its output cannot be read")?;
        io::stdout().write_all(&output)?;
        if !passed {
            bail!("see above");
        }
        Ok(())
    }
}

/// Waits for a running step, and begins no further one.
impl Drop for Background {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
        if self.lane.as_ref().is_some_and(|lane| !lane.is_finished()) {
            eprintln!("waiting for the step that runs beside: {}/*.log", self.directory.display());
        }
        if let Some(lane) = self.lane.take() {
            // A panicking lane has printed its message.
            let _ = lane.join();
        }
    }
}

fn log(directory: &Path, step: &Step) -> PathBuf {
    directory.join(step.name).with_extension("log")
}

fn run(step: &Step, directory: &Path, command: impl Fn(&Step) -> Result<process::Command>) -> Result<bool> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let log = log(directory, step);
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("the file of the output cannot be shared")?;
    let status = command(step)?.stdin(Stdio::null()).stdout(output).stderr(errors).status();
    Ok(status.with_context(|| format!("cannot start step `{}`", step.name))?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(name: &'static str) -> Step {
        Step { name, what: "b", advice: "c", prefetch: None, background: true, run: |_| Ok(()) }
    }

    static GOOD: Step = step("beside-good");
    static BAD: Step = step("beside-bad");

    fn shell(step: &Step) -> Result<process::Command> {
        let mut command = process::Command::new("sh");
        command.args(["-c", "echo $0; test $0 != beside-bad", step.name]);
        Ok(command)
    }

    #[test]
    fn each_step_is_shown_and_judged_in_its_turn() {
        let project = Project::find().expect("a checkout");
        let lane = Background::begin(&project, &[&GOOD, &BAD, &GOOD], shell);
        assert!(lane.wait_for(&GOOD).is_ok());
        assert!(lane.wait_for(&BAD).is_err());
        assert!(lane.wait_for(&GOOD).is_ok());
        assert!(lane.wait_for(&GOOD).is_err(), "there is no fourth");
        let shown = fs::read_to_string(log(&lane.directory, &BAD)).expect("a log");
        assert_eq!(shown, "beside-bad\n");
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        let project = Project::find().expect("a checkout");
        let lane = Background::begin(&project, &[&GOOD], |_| Ok(process::Command::new("no-such-program")));
        assert!(lane.wait_for(&GOOD).is_err());
    }
}

//! Installs and compiles dependencies of later steps while earlier steps leave a core idle.

use std::sync::mpsc::{self, Receiver};
use std::thread;

use anyhow::{Context, Result};

use super::Step;
use crate::project::Project;

/// Preparations in progress, in the order of the steps.
pub struct Prefetch(Receiver<Result<()>>);

impl Prefetch {
    /// Begins to prepare these steps one after the other. A failing step abandons the preparation.
    pub fn begin(project: &Project, steps: &[&'static Step]) -> Self {
        let (done, under_way) = mpsc::channel();
        let (project, preparations) = (project.clone(), preparations(steps));
        thread::spawn(move || preparations.into_iter().try_for_each(|prepare| done.send(prepare(&project))));
        Self(under_way)
    }

    /// Waits until this step is prepared.
    ///
    /// # Errors
    /// Those of its preparation.
    pub fn wait_for(&self, step: &Step) -> Result<()> {
        match step.prefetch {
            Some(_) => self.0.recv().context("the preparation has ended early")?,
            None => Ok(()),
        }
    }
}

fn preparations(steps: &[&'static Step]) -> Vec<fn(&Project) -> Result<()>> {
    steps.iter().filter_map(|step| step.prefetch).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    const fn step(prefetch: Option<fn(&Project) -> Result<()>>) -> Step {
        Step { name: "a", what: "b", advice: "c", prefetch, background: false, run: |_| Ok(()) }
    }

    static PLAIN: Step = step(None);
    static READY: Step = step(Some(|_| Ok(())));
    static FAILING: Step = step(Some(|_| bail!("no network")));

    #[test]
    fn each_step_receives_the_result_of_its_own_preparation() {
        let project = Project::find().expect("a checkout");
        let prefetch = Prefetch::begin(&project, &[&PLAIN, &READY, &FAILING, &READY]);
        assert!(prefetch.wait_for(&PLAIN).is_ok());
        assert!(prefetch.wait_for(&READY).is_ok());
        assert!(prefetch.wait_for(&FAILING).is_err());
        assert!(prefetch.wait_for(&READY).is_ok());
        assert!(prefetch.wait_for(&READY).is_err(), "there is no third");
    }
}

//! Experiments of the crate `conche-lab`, and their results as Arrow tables.

mod campaign;
mod controller;
mod experiment;
mod gym;
mod parameters;
mod part;
mod results;
mod table;

use conche_lab::{campaign as lab, scenario};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    conche,
    ScenarioError,
    PyValueError,
    "A scenario, or a change to it, is invalid. The text names the place and the expected form."
);

create_exception!(
    conche,
    RunFailure,
    PyRuntimeError,
    "All runs of an experiment failed. The text has the reason of the first."
);

/// Adds the classes and exceptions to the extension module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("ScenarioError", py.get_type::<ScenarioError>())?;
    module.add("LAB_VERSION", lab::VERSION)?;
    module.add("MAX_JOBS", lab::MAX_JOBS)?;
    module.add("MAX_REPLICATIONS", scenario::MAX_REPLICATIONS)?;
    module.add("RunFailure", py.get_type::<RunFailure>())?;
    controller::register(module)?;
    controller::events::register(module)?;
    module.add_function(wrap_pyfunction!(parameters::controllers, module)?)?;
    module.add_function(wrap_pyfunction!(parameters::parameters, module)?)?;
    module.add_function(wrap_pyfunction!(parameters::configured, module)?)?;
    module.add_class::<controller::OwnController>()?;
    module.add_class::<experiment::Scenario>()?;
    gym::register(module)?;
    module.add_class::<part::Collected>()?;
    module.add_class::<results::Stored>()?;
    module.add_class::<table::ArrowTable>()
}

fn invalid(error: &scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

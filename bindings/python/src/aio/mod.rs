//! Client and server of the crate `conche` for asyncio.
//!
//! The crate's tasks run on a [thread of their own](runtime), which never enters the Python
//! interpreter: it leaves each result in the [queue](queue) of an event loop. The loop's thread
//! empties the queue and creates all Python objects.

mod client;
mod message;
mod observation;
mod queue;
mod runtime;
mod server;
mod settings;

use pyo3::prelude::*;

/// Adds the classes and functions to the extension module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<queue::Queue>()?;
    module.add_class::<settings::OscoreKeys>()?;
    module.add_class::<message::Failure>()?;
    module.add_class::<message::Received>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<observation::Observation>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<server::Notifier>()?;
    module.add_class::<server::Call>()?;
    module.add_function(wrap_pyfunction!(server::serve, module)?)
}

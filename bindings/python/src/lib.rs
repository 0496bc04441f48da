//! The extension module `conche._conche`, on which the Python modules of the package `conche` are
//! built.
//!
//! | module | for |
//! |---|---|
//! | [`aio`] | `conche.aio`: client and server for asyncio |
//! | [`lab`] | experiments and their results |

mod aio;
mod lab;

use pyo3::prelude::*;

/// Internals of the package `conche`; they may change at any time.
#[pymodule]
fn _conche(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    aio::register(module)?;
    lab::register(module)
}

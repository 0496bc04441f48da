//! Tables for any library with Arrow's PyCapsule interface.

use std::fs::File;
use std::path::PathBuf;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use pyo3::exceptions::{PyFileNotFoundError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Rows in memory, or of a Parquet file, which each reader streams.
#[pyclass(frozen, module = "conche._conche")]
pub struct ArrowTable {
    rows: Rows,
    columns: Vec<String>,
    length: u64,
}

enum Rows {
    Batch(RecordBatch),
    File(PathBuf),
}

impl ArrowTable {
    pub fn new(batch: RecordBatch) -> Self {
        let columns = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        Self { columns, length: batch.num_rows() as u64, rows: Rows::Batch(batch) }
    }

    fn reader(file: &PathBuf) -> PyResult<ParquetRecordBatchReaderBuilder<File>> {
        let wrong = |error: &dyn std::fmt::Display| PyOSError::new_err(format!("{}: {error}", file.display()));
        let open = File::open(file).map_err(|error| wrong(&error))?;
        ParquetRecordBatchReaderBuilder::try_new(open).map_err(|error| wrong(&error))
    }

    fn stream(file: &PathBuf) -> PyResult<ParquetRecordBatchReader> {
        let reader = Self::reader(file)?.build();
        reader.map_err(|error| PyOSError::new_err(format!("{}: {error}", file.display())))
    }
}

#[pymethods]
impl ArrowTable {
    /// Opens a Parquet file.
    #[staticmethod]
    fn parquet(py: Python<'_>, file: PathBuf) -> PyResult<Self> {
        if !file.exists() {
            return Err(PyFileNotFoundError::new_err(file));
        }
        let reader = py.detach(|| Self::reader(&file))?;
        let columns = reader.schema().fields().iter().map(|field| field.name().clone()).collect();
        let length = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
        Ok(Self { rows: Rows::File(file), columns, length })
    }

    #[getter]
    fn columns(&self) -> Vec<String> {
        self.columns.clone()
    }

    #[getter]
    fn length(&self) -> u64 {
        self.length
    }

    /// Returns the rows as a capsule with an `ArrowArrayStream`, always with the schema of the
    /// table.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let reader: Box<dyn RecordBatchReader + Send> = match &self.rows {
            Rows::Batch(batch) => Box::new(RecordBatchIterator::new([Ok(batch.clone())], batch.schema())),
            Rows::File(file) => Box::new(py.detach(|| Self::stream(file))?),
        };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }
}

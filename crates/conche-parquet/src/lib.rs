//! Flat tables as [Apache Parquet](https://parquet.apache.org/docs/file-format/), with no dependency.
//!
//! ```
//! use conche_parquet::{Column, Kind, Rows, Value, Writer};
//!
//! let columns = vec![Column::new("scheme", Kind::Text), Column::optional("rtt_s", Kind::Double)];
//! let mut rows = Rows::new(&columns);
//! rows.push([Value::Text("default"), Value::Double(0.63)])?;
//! rows.push([Value::Text("cocoa"), Value::None])?;
//! let mut table = Writer::begin(Vec::new(), columns)?;
//! table.write(&rows)?;
//! let file: Vec<u8> = table.finish()?;
//! # assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `column` | columns, and the values of one |
//! | `rows` | rows in memory, which become a row group |
//! | `page` | the pages of a column: dictionary, levels, values |
//! | `thrift` | the compact protocol of headers and footer |
//! | `footer` | what tells a reader where all is |
//! | `writer` | the file |
//!
//! What is left out, as the format allows: nested columns, compression, statistics, page indexes, checksums, encryption.

#![forbid(unsafe_code)]

mod column;
mod footer;
mod page;
mod rows;
mod thrift;
mod writer;

pub use column::{Column, Kind, Value};
pub use footer::RowGroup;
pub use rows::Rows;
pub use writer::Writer;

//! The payload, from an argument, a file or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::error::unreadable;
use crate::serve::LARGEST;

/// Read from a source without a length, such as a pipe, before sending: the largest block.
const FIRST: u64 = 1024;

#[derive(Debug, clap::Args)]
#[group(id = "payload-source", multiple = false)]
pub struct Args {
    /// Payload as text; '' is an empty one
    #[arg(short = 'e', long, value_name = "TEXT")]
    payload: Option<String>,
    /// Payload from a file; - is standard input
    ///
    /// Bodies over 16 MiB, and standard input, are sent while they are read: at most 1 GiB.
    #[arg(short = 'f', long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    payload_file: Option<PathBuf>,
}

pub enum Payload {
    Whole(Vec<u8>),
    /// Streamed.
    Read {
        from: Box<dyn Read + Send>,
        bytes: Option<u32>,
    },
}

impl Args {
    pub fn is_given(&self) -> bool {
        self.payload.is_some() || self.payload_file.is_some()
    }

    /// In memory if `whole`.
    pub fn read(&self, whole: bool) -> anyhow::Result<Option<Payload>> {
        if let Some(path) = &self.payload_file {
            return read_from(path, whole).map(Some);
        }
        Ok(self.payload.as_ref().map(|text| Payload::Whole(text.as_bytes().to_vec())))
    }
}

fn read_from(path: &Path, whole: bool) -> anyhow::Result<Payload> {
    if path == Path::new("-") {
        return read(io::stdin(), None, whole).context("standard input cannot be read");
    }
    let opened = File::open(path).and_then(|file| {
        let metadata = file.metadata()?;
        read(file, metadata.is_file().then_some(metadata.len()), whole)
    });
    Ok(opened.map_err(unreadable(path))?)
}

fn read(mut from: impl Read + Send + 'static, length: Option<u64>, whole: bool) -> io::Result<Payload> {
    let mut bytes = Vec::new();
    if whole {
        from.read_to_end(&mut bytes)?;
        return Ok(Payload::Whole(bytes));
    }
    let first = length.map_or(FIRST, |length| length.min(LARGEST as u64));
    // One more byte shows the end.
    from.by_ref().take(first + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= first {
        return Ok(Payload::Whole(bytes));
    }
    let rest = Box::new(io::Cursor::new(bytes).chain(from));
    Ok(Payload::Read { from: rest, bytes: length.and_then(|length| u32::try_from(length).ok()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_payloads_are_read_whole_and_larger_ones_streamed() {
        let is_whole = |count: usize, length: Option<u64>, whole| {
            let payload = read(io::Cursor::new(vec![7; count]), length, whole).expect("memory can be read");
            let (bytes, is_whole) = match payload {
                Payload::Whole(bytes) => (bytes, true),
                Payload::Read { mut from, .. } => {
                    let mut bytes = Vec::new();
                    from.read_to_end(&mut bytes).expect("memory can be read");
                    (bytes, false)
                }
            };
            assert_eq!(bytes, vec![7; count]);
            is_whole
        };
        assert!(is_whole(1_024, None, false) && !is_whole(1_025, None, false) && is_whole(1_025, None, true));
        assert!(is_whole(50_000, Some(50_000), false) && is_whole(0, Some(0), false));
        let large = LARGEST + 1;
        assert!(!is_whole(large, Some(large as u64), false), "{large} bytes are sent while they are read");
    }
}

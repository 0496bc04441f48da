//! The payload, from wherever it is.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;

#[derive(Debug, clap::Args)]
#[group(id = "payload-source", multiple = false)]
pub struct Args {
    /// The payload as text.
    #[arg(short = 'e', value_name = "TEXT")]
    text: Option<String>,
    /// The payload from a file; - is standard input.
    #[arg(short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// The payload as text, from a file (@FILE), or from standard input (@-).
    #[arg(long, value_name = "TEXT|@FILE|@-")]
    payload: Option<String>,
}

impl Args {
    /// The payload's bytes, if there is one.
    pub fn read(&self) -> anyhow::Result<Option<Vec<u8>>> {
        if let Some(path) = &self.file {
            return read_from(path).map(Some);
        }
        if let Some(path) = self.payload.as_deref().and_then(|payload| payload.strip_prefix('@')) {
            return read_from(Path::new(path)).map(Some);
        }
        Ok(self.text.as_ref().or(self.payload.as_ref()).map(|text| text.as_bytes().to_vec()))
    }
}

fn read_from(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("the payload cannot be read from {}", path.display()))
}

//! `--event-log FILE` and `--capture FILE`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use conche::watch::{Capture, EventLog, Recorder};
use conche::{Builder, SharedController};

use crate::error::UsageError;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Records")]
pub struct Recording {
    /// Write messages and congestion control events in qlog.
    ///
    /// The file has no payloads.
    #[arg(long, value_name = "FILE")]
    event_log: Option<PathBuf>,
    /// Write all datagrams in pcapng, for Wireshark.
    ///
    /// Messages of a coaps session are written unencrypted, and port 5684 as 5683, on which
    /// Wireshark expects CoAP.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

/// Open recordings.
#[derive(Debug, Default)]
#[must_use = "the end of a record may be lost if it is not finished"]
pub struct Records(Vec<(PathBuf, Recorder)>);

impl Recording {
    pub fn start(&self, log: EventLog) -> anyhow::Result<Records> {
        let mut records = Records::default();
        if self.event_log.is_some() && self.event_log == self.capture {
            return Err(UsageError("--event-log and --capture need different files".to_owned()).into());
        }
        if let Some(path) = &self.event_log {
            records.begin(path, |file| log.write_to(file))?;
        }
        if let Some(path) = &self.capture {
            records.begin(path, |file| Capture::new().write_to(file))?;
        }
        Ok(records)
    }
}

impl Records {
    fn begin(&mut self, path: &Path, write_to: impl FnOnce(File) -> io::Result<Recorder>) -> anyhow::Result<()> {
        let recorder = File::create(path).and_then(write_to).with_context(|| unwritable(path))?;
        self.0.push((path.to_owned(), recorder));
        Ok(())
    }

    pub fn watch<R, C: SharedController>(&self, builder: Builder<R, C>) -> Builder<R, C> {
        self.0.iter().fold(builder, |builder, (_, recorder)| builder.watch(recorder.clone()))
    }

    pub fn recorders(&self) -> Vec<Recorder> {
        self.0.iter().map(|(_, recorder)| recorder.clone()).collect()
    }

    /// Completes the files. An error in `outcome` takes precedence.
    pub async fn finish<T>(self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        let mut finished = Ok(());
        for (path, recorder) in self.0 {
            match recorder.finish().await.with_context(|| unwritable(&path)) {
                Ok(recorded) if recorded.lost > 0 => {
                    crate::show::note(format_args!(
                        "{}: {} records are missing: the file was written too slowly",
                        path.display(),
                        recorded.lost
                    ));
                }
                Ok(_) => {}
                Err(error) => finished = Err(error),
            }
        }
        outcome.and_then(|outcome| finished.map(|()| outcome))
    }
}

fn unwritable(path: &Path) -> String {
    let path = path.display();
    format!("{path} cannot be written: name a file in a directory that exists, where there is room and you may write")
}

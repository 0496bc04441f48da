//! `conche serve`: a server with demonstration resources.

use std::io::{self, Write};
use std::time::Duration;

use conche::{AnyController, Server};
use serde::Serialize;

use crate::Global;
use crate::demo;
use crate::exit::UsageError;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Serve the demonstration resources /test, /count, /separate and /a/b.
    #[arg(long)]
    demo: bool,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:5683", env = "CONCHE_BIND")]
    bind: String,
    /// Congestion control of separate responses; `conche controllers` lists the names.
    #[arg(long, value_name = "NAME", env = "CONCHE_CC", default_value = "cocoa", value_parser = AnyController::by_name)]
    cc: AnyController,
}

/// How long a server that is told to stop waits for what it has begun.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Listening {
    schema: u32,
    listening: String,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    if !args.demo {
        let message = "there is nothing to serve yet but the demonstration resources: pass --demo";
        return Err(UsageError(message.to_owned()).into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = stop_signal()?;
        let server = Server::builder().router(demo::router()).controller(args.cc).bind(&args.bind).await?;
        announce(format!("coap://{}", server.local_addr()), global)?;
        stop.await;
        server.shutdown(GRACE).await;
        Ok(())
    })
}

/// A script waits for this line, so it is complete and on its way before anything else happens.
fn announce(listening: String, global: &Global) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if global.json {
        writeln!(out, "{}", serde_json::to_string(&Listening { schema: 1, listening })?)?;
    } else {
        writeln!(out, "listening on {listening}")?;
    }
    out.flush()
}

/// Ends with Ctrl-C or SIGTERM. The signals are caught from the call on.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Ends with Ctrl-C.
#[cfg(not(unix))]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        // Without a handler the server cannot be told to stop gracefully, but it serves.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

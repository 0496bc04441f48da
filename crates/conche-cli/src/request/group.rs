//! `conche get --multicast URI`: prints the responses of a group's members (RFC 7252 §8).

use std::io::{self, Write};
use std::time::Duration;

use conche::client::{GroupResponses, Response};
use conche::watch::EventLog;
use conche::{Code, Error, Uri};

use super::{Args, render};
use crate::Global;
use crate::error::{Interrupted, NoAnswer, UsageError};
use crate::runtime;

/// Default of `--timeout`: members respond within their leisure, which is 5 s by default.
const TIMEOUT: Duration = Duration::from_secs(10);

pub fn run(method: Code, args: &Args, global: &Global) -> anyhow::Result<()> {
    args.message.check(method)?;
    if args.uri.parse::<Uri>().map_err(Error::from)?.is_secured() {
        return Err(UsageError("a group cannot be asked over DTLS: use coap://".to_owned()).into());
    }
    let payload = args.message.payload.read(true)?;
    let records = args.recording.start(EventLog::client())?;
    let runtime = runtime::start()?;
    let outcome = runtime::run(&runtime, async {
        let client = args.client(&records, global)?;
        let (request, _) = args.request(&client, method, payload)?;
        let request = request.timeout(args.timeout.timeout.unwrap_or(TIMEOUT));
        let show = |response: &Response| match global.json {
            true => render::json(method, &args.uri, None, response, None),
            false => print(response),
        };
        let stop = runtime::stop_signal(runtime::GRACE)?;
        let mut count = 0;
        let is_interrupted = tokio::select! {
            done = async { collect(request.multicast().await?, &mut count, show).await } => {
                done?;
                false
            }
            () = stop => true,
        };
        match count {
            0 if is_interrupted => Err(Interrupted::default().into()),
            0 => Err(NoAnswer(args.uri.clone()).into()),
            _ => Ok(()),
        }
    });
    let finished = runtime::run(&runtime, records.finish(outcome));
    runtime::end(runtime);
    finished
}

/// Shows responses as they arrive, and counts them.
async fn collect(
    mut responses: GroupResponses,
    count: &mut u64,
    show: impl Fn(&Response) -> io::Result<()>,
) -> anyhow::Result<()> {
    while let Some(response) = responses.next().await {
        let (_, response) = response?;
        *count += 1;
        show(&response)?;
    }
    Ok(())
}

/// Prints the source and the code, then the payload.
fn print(response: &Response) -> io::Result<()> {
    writeln!(io::stdout(), "{} answers {}", response.from(), response.code())?;
    render::payload(response)?;
    render::end_line(response)
}

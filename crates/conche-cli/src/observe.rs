//! `conche observe URI`, and `conche get -s SECS URI`: a resource's state, and each change of it
//! (RFC 7641).

use std::time::Duration;

use conche::Code;

use crate::Global;
use crate::request::{self, Cancel, Progress, Until, parse_seconds};

#[derive(Debug, clap::Args)]
// `request::Args` already defines a group of this name.
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    request: request::Args,
    /// Stop after so many seconds; without it, with Ctrl-C.
    #[arg(short = 's', long = "for", value_name = "SECS", value_parser = parse_seconds, allow_negative_numbers = true, help_heading = None::<&str>)]
    seconds: Option<Duration>,
    /// Stop after so many states, the first one included.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = None::<&str>)]
    count: Option<u64>,
    /// How to end it: get tells the server at once; rst rejects its next notification, and waits a minute at most for that.
    #[arg(long, value_enum, default_value_t, help_heading = None::<&str>)]
    cancel: Cancel,
}

pub fn run(args: Args, global: &Global, progress: &Progress) -> anyhow::Result<()> {
    let Args { request, seconds, count, cancel } = args;
    request::run(Code::GET, request, Some(Until { seconds, count, cancel }), global, progress)
}

//! `conche reproduce [PAPER]`: a paper's tables and figures, regenerated.

use conche_lab::papers::{PAPERS, Paper};

use crate::Global;
use crate::exit::UsageError;
use crate::experiment::Options;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The paper.
    #[arg(default_value = "anrw18")]
    paper: String,
    #[command(flatten)]
    options: Options,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let paper = Paper::by_name(&args.paper).ok_or_else(|| unknown(&args.paper))?;
    args.options.execute(paper.experiment(), global)
}

fn unknown(name: &str) -> UsageError {
    let known: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
    UsageError(format!("there is no paper `{name}`; the papers are: {}", known.join(", ")))
}

//! `conche reproduce [PAPER]`: a paper's tables and figures, regenerated.

use crate::Global;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: Args, _global: &Global) -> anyhow::Result<()> {
    anyhow::bail!("no paper can be reproduced yet")
}

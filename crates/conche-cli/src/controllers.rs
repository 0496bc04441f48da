//! `conche controllers`: the family's feature table.

use crate::Global;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: Args, _global: &Global) -> anyhow::Result<()> {
    anyhow::bail!("the controllers cannot be listed yet")
}

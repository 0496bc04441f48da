//! `conche completions SHELL` and `conche man`.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;

#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

pub fn completions(args: &Completions) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "conche", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

/// One page with all subcommands, to be read with `conche man | man -l -`.
pub fn man() -> anyhow::Result<()> {
    let mut page = Vec::new();
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        let part = clap_mangen::Man::new(subcommand.clone());
        writeln!(page, ".SH \"CONCHE {}\"", subcommand.get_name().to_uppercase())?;
        part.render_description_section(&mut page)?;
        part.render_synopsis_section(&mut page)?;
        part.render_options_section(&mut page)?;
    }
    Ok(io::stdout().write_all(&page)?)
}

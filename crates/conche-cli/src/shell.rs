//! `conche completions SHELL` and `conche man`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::Cli;

#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Shell to generate for.
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct Manual {
    /// Write conche.1 and one page per subcommand, such as conche-get.1, into this directory
    /// instead of one page to standard output.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn completions(args: &Completions) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "conche", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

/// Writes all pages, or a single one with all subcommands for `conche man | man -l -`.
pub fn man(args: &Manual) -> anyhow::Result<()> {
    match &args.dir {
        Some(directory) => {
            pages(directory).with_context(|| format!("the manual pages cannot be written into {}", directory.display()))
        }
        None => Ok(io::stdout().write_all(&page()?)?),
    }
}

fn pages(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    // `conche help get` prints the contents of conche-get(1), so it needs no page.
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), directory)
}

/// Renders everything in one page.
fn page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let whole = Man::new(command.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_options_section(&mut page)?;
    for subcommand in command.get_subcommands() {
        let part = Man::new(subcommand.clone());
        writeln!(page, ".SH \"CONCHE {}\"", subcommand.get_name().to_uppercase())?;
        part.render_description_section(&mut page)?;
        part.render_synopsis_section(&mut page)?;
        part.render_options_section(&mut page)?;
    }
    whole.render_extra_section(&mut page)?;
    whole.render_version_section(&mut page)?;
    Ok(page)
}

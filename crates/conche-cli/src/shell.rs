//! `conche completions SHELL` and `conche man`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Arg, ArgAction, Command, Id};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use conche::cc::any::Controllers;

use crate::{command_with, exit};

#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Shell.
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct Manual {
    /// Write one page per subcommand into this directory.
    ///
    /// Such as conche-get.1; without it, one page goes to standard output.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn completions(args: &Completions, controllers: &Controllers) -> anyhow::Result<()> {
    let mut script = Vec::new();
    // The generators list hidden subcommands, too.
    let whole = command_with(controllers);
    let command = Command::new("conche").version(env!("CARGO_PKG_VERSION"));
    let mut command = command.args(whole.get_arguments().cloned()).subcommands(shown(&whole).cloned());
    clap_complete::generate(args.shell, &mut command, "conche", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

/// Without a directory, one page for `conche man | man -l -`.
pub fn man(args: &Manual, controllers: &Controllers) -> anyhow::Result<()> {
    match &args.dir {
        Some(directory) => pages(directory, controllers)
            .with_context(|| format!("the manual pages cannot be written into {}", directory.display())),
        None => Ok(io::stdout().write_all(&page(controllers)?)?),
    }
}

fn pages(directory: &Path, controllers: &Controllers) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    write_pages(&command(controllers), directory)
}

fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    let manual = Man::new(command.clone());
    let mut page = Vec::new();
    manual.render_title(&mut page)?;
    manual.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    manual.render_description_section(&mut page)?;
    manual.render_options_section(&mut page)?;
    if command.has_subcommands() {
        manual.render_subcommands_section(&mut page)?;
    }
    examples(command).to_writer(&mut page)?;
    statuses().to_writer(&mut page)?;
    fs::write(directory.join(manual.get_filename()), page)?;
    shown(command).try_for_each(|subcommand| write_pages(subcommand, directory))
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

/// `conche help get` prints conche-get(1), so it needs no page.
fn command(controllers: &Controllers) -> Command {
    let mut command = command_with(controllers).disable_help_subcommand(true);
    command.build();
    command
}

fn page(controllers: &Controllers) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let command = command(controllers);
    let whole = Man::new(command.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    synopsis(&command).to_writer(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_options_section(&mut page)?;
    for subcommand in shown(&command) {
        let part = Man::new(subcommand.clone());
        writeln!(page, ".SH \"CONCHE {}\"", subcommand.get_name().to_uppercase())?;
        part.render_description_section(&mut page)?;
        synopsis(subcommand).to_writer(&mut page)?;
        part.render_options_section(&mut page)?;
        examples(subcommand).to_writer(&mut page)?;
    }
    statuses().to_writer(&mut page)?;
    whole.render_version_section(&mut page)?;
    Ok(page)
}

/// With the values of options, which clap_mangen omits.
fn synopsis(command: &Command) -> Roff {
    let name = bold(command.get_bin_name().unwrap_or_else(|| command.get_name()));
    let mut line = vec![name.clone()];
    let groups: Vec<Vec<&Id>> =
        command.get_groups().filter(|group| group.is_required_set()).map(|group| group.get_args().collect()).collect();
    let is_grouped = |argument: &Arg| groups.iter().flatten().any(|id| *id == argument.get_id());
    let is_own = |argument: &&Arg| !argument.is_hide_set() && !is_grouped(argument);
    let (positionals, options): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(is_own).partition(|of| of.is_positional());
    for option in
        options.into_iter().filter(|option| !matches!(option.get_action(), ArgAction::Help | ArgAction::Version))
    {
        line.extend(bracketed(option, written(option)));
    }
    for group in &groups {
        let members = group.iter().filter_map(|id| command.get_arguments().find(|argument| argument.get_id() == *id));
        let written: Vec<_> = members.map(written).collect();
        line.push(roman(" "));
        line.extend(written.join(&roman("|")));
    }
    for positional in positionals {
        line.extend(bracketed(positional, written(positional)));
    }
    let subcommand = [roman(" "), italic("COMMAND")];
    let mut section = Roff::new();
    section.control("SH", ["SYNOPSIS"]);
    if command.is_args_conflicts_with_subcommands_set() {
        section.text(line);
        section.control("br", []);
        section.text([vec![name], subcommand.to_vec()].concat());
        return section;
    }
    if command.has_subcommands() {
        line.extend(subcommand);
    }
    section.text(line);
    section
}

fn written(argument: &Arg) -> Vec<Inline> {
    let name = argument.get_short().map(|short| format!("-{short}"));
    let name = name.or_else(|| argument.get_long().map(|long| format!("--{long}")));
    let values = argument.get_value_names().filter(|_| argument.get_action().takes_values());
    let value = values.map(|names| italic(names.join(" ")));
    match (name, value) {
        (Some(name), Some(value)) => vec![bold(name), roman(" "), value],
        (Some(name), None) => vec![bold(name)],
        (None, value) => vec![value.unwrap_or_else(|| italic(argument.get_id().as_str().to_uppercase()))],
    }
}

fn bracketed(argument: &Arg, written: Vec<Inline>) -> Vec<Inline> {
    let (before, after) = if argument.is_required_set() { (" ", "") } else { (" [", "]") };
    let is_repeatable = match argument.get_action() {
        ArgAction::Append | ArgAction::Count => true,
        _ => argument.is_positional() && argument.get_num_args().is_some_and(|count| count.max_values() > 1),
    };
    let mut all = vec![roman(before)];
    all.extend(written);
    all.push(roman(after));
    all.extend(is_repeatable.then(|| roman("...")));
    all
}

fn examples(command: &Command) -> Roff {
    let mut section = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let Some(examples) = help.strip_prefix("Examples:\n") else { return section };
    section.control("SH", ["EXAMPLES"]);
    section.control("nf", []);
    for line in examples.lines() {
        section.text([roman(line.trim_start())]);
    }
    section.control("fi", []);
    section
}

fn statuses() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in exit::STATUSES {
        section.control("TP", []);
        section.text([bold(status.to_string())]);
        section.text([roman(meaning)]);
    }
    section
}

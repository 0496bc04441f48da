//! `conche compare [PAPER|NETWORK|SCENARIO.toml]...`: runs controllers over all cells and ranks
//! them by regret.

use std::collections::HashSet;
use std::io::{self, Write};

use anyhow::Context;
use conche::cc::any::Controllers;
use conche_lab::comparison::{self, CellComparison, rankings};
use conche_lab::directory::ResultDirectory;
use conche_lab::experiment::Experiment;
use conche_lab::networks::NETWORKS;
use conche_lab::papers::PAPERS;
use conche_lab::results::comparison::{Row, to_ndjson};

use crate::Global;
use crate::error::UsageError;
use crate::experiment::{CompletedExperiment, Options};
use crate::names::{self, Source};
use crate::show;

const EXAMPLES: &str = "\
Examples:
  conche compare                                    all controllers, all papers, a first impression
  conche compare --full -o results                  as often as the papers ran; goes on after Ctrl-C
  conche compare networks                           all controllers on networks beside those of papers
  conche compare anrw18 --controllers default,cocoa,fasor
  conche compare mine.toml --baseline default --runs 20 --json
  conche report results                             the same as a page: cells by controllers, run by run";

#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("controllers", |arg| arg.help("Compare these; by default all controllers"))
)]
pub struct Args {
    /// Papers, networks and scenario files; by default all papers.
    ///
    /// `networks` are all networks. A quick run, unless --full or --runs is given.
    #[arg(value_name = "PAPER|NETWORK|SCENARIO.toml", value_parser = names::SOURCE, hide_possible_values = true)]
    sources: Vec<Source>,
    /// Show ratios to this controller instead of the best.
    #[arg(long, value_name = "NAME", value_parser = names::SCHEME, hide_possible_values = true)]
    baseline: Option<String>,
    /// Use the replications of the papers and scenarios.
    #[arg(long, conflicts_with_all = ["quick", "runs"])]
    full: bool,
    #[command(flatten)]
    options: Options,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<()> {
    let baseline = args.baseline.clone();
    let (options, experiments) = experiments(args, global)?;
    let (done, store) = options.execute_all(experiments, global)?;
    if !options.is_part() {
        rank(&done, store.as_ref(), baseline.as_deref(), options.controllers(), global)?;
    }
    // Under some controllers runs do not end, and the ranking marks them.
    match options.close(&done, store, global)? {
        Some(failed) if failed.is_all => return Err(failed.into()),
        Some(failed) if !global.quiet => show::note(show::escape_lines(&failed.to_string())),
        _ => {}
    }
    Ok(())
}

/// Ranks the controllers, stores and prints the ranking.
pub fn rank(
    done: &[CompletedExperiment],
    directory: Option<&ResultDirectory>,
    baseline: Option<&str>,
    controllers: &[String],
    global: &Global,
) -> anyhow::Result<()> {
    check_baseline(baseline, controllers)?;
    let cells: Vec<CellComparison> = done.iter().flat_map(|done| done.measured.cells.iter().cloned()).collect();
    let rows = comparison::rows(&cells, baseline);
    if let Some(directory) = directory {
        directory.save_comparison(done.iter().map(|done| &done.experiment), &rows)?;
    }
    print(done, &rows, global).context("cannot write to standard output")
}

fn check_baseline(baseline: Option<&str>, controllers: &[String]) -> anyhow::Result<()> {
    let checked = baseline.map_or(Ok(()), |name| comparison::check_baseline(name, controllers));
    checked.map_err(|error| UsageError(error.to_string()).into())
}

/// Returns the experiments, and the options to run them with.
pub fn experiments(args: Args, global: &Global) -> anyhow::Result<(Options, Vec<Experiment>)> {
    let Args { sources, baseline, full, options } = args;
    let options = options.comparing(&global.controllers);
    let options = if full { options } else { options.quick() };
    let controllers = options.controllers();
    check_baseline(baseline.as_deref(), controllers)?;
    if let Some(duplicate) = first_duplicate(controllers) {
        return Err(UsageError(format!("the controller `{duplicate}` is there twice; name it once")).into());
    }
    let experiments = of_sources(&sources, &options, &global.controllers)?;
    Ok((options, experiments))
}

fn of_sources(sources: &[Source], options: &Options, controllers: &Controllers) -> anyhow::Result<Vec<Experiment>> {
    if sources.is_empty() {
        return PAPERS.iter().map(|paper| options.checked(paper.experiment(controllers))).collect();
    }
    let (mut experiments, mut files): (Vec<Experiment>, HashSet<String>) = Default::default();
    for source in sources {
        let of_source = match source {
            Source::Paper(paper) => vec![options.checked(paper.experiment(controllers))?],
            Source::Network(network) => vec![options.checked(network.experiment(controllers))?],
            Source::Networks => {
                let all = NETWORKS.iter().map(|network| options.checked(network.experiment(controllers)));
                all.collect::<anyhow::Result<_>>()?
            }
            Source::File(file) => vec![crate::run::read(file, options, controllers)?],
        };
        for experiment in of_source {
            let name = experiment.name();
            let (is_file, is_known) =
                (matches!(source, Source::File(_)), experiments.iter().any(|of| of.name() == name));
            if is_known && (is_file || files.contains(name)) {
                let problem = format!("two scenarios are called `{name}`: give one another `name`");
                return Err(UsageError(problem).into());
            }
            if is_file {
                files.insert(name.to_owned());
            }
            // `networks` may precede one of them.
            if !is_known {
                experiments.push(experiment);
            }
        }
    }
    Ok(experiments)
}

fn first_duplicate(names: &[String]) -> Option<&String> {
    names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)).map(|(_, name)| name)
}

fn print(done: &[CompletedExperiment], rows: &[Row], global: &Global) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if global.json {
        out.write_all(&to_ndjson(rows)?)?;
    } else {
        let origins: String = done.iter().map(|done| format!("{}\n", done.experiment.summary())).collect();
        let tables: String = rankings(rows).iter().map(|ranking| format!("\n{}", show::titled(ranking))).collect();
        write!(out, "{origins}{tables}")?;
    }
    out.flush()
}

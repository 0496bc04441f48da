//! Congestion control arguments, and parsers of names with completions: of controllers, papers and
//! networks.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Command};
use conche::cc::any::{Controllers, Named};
use conche::cc::parameters::nearest;
use conche::{AnyController, Builder};
use conche_lab::networks::{NETWORKS, Network};
use conche_lab::papers::{PAPERS, Paper};

/// Name of the default controller.
pub const DEFAULT: &str = "temper";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Congestion control")]
pub struct Controller {
    /// Congestion controller.
    ///
    /// With parameters, as in `cocoa:weak_k=1,max_rto=30s`. `conche controllers` lists the names,
    /// and `conche controllers --parameters` the parameters.
    #[arg(
        long,
        value_name = "NAME[:PARAMETER=VALUE,...]",
        env = "CONCHE_CC",
        default_value = DEFAULT,
        value_parser = CONTROLLER,
        hide_possible_values = true
    )]
    pub cc: AnyController,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Congestion control")]
pub struct Control {
    #[command(flatten)]
    controller: Controller,
    /// File to load and save path state.
    ///
    /// Path state is the RTT and loss of each path. A command starts with that of earlier ones.
    #[arg(long, value_name = "FILE", env = "CONCHE_PATH_STORE", conflicts_with = "no_shared_paths")]
    path_store: Option<PathBuf>,
    /// Do not share path state between peers.
    ///
    /// Otherwise peers with the same address or IPv6 /64 share it.
    #[arg(long)]
    no_shared_paths: bool,
}

impl Control {
    pub fn of<R: Default>(&self, builder: Builder<R>) -> Builder<R> {
        let builder = builder.controller(self.controller.cc.clone()).share_paths(!self.no_shared_paths);
        match &self.path_store {
            Some(file) => builder.path_store(file),
            None => builder,
        }
    }
}

#[derive(Clone)]
pub struct NameParser<T> {
    controllers: Controllers,
    parse: fn(&Controllers, &Command, Option<&Arg>, &OsStr) -> Result<T, Error>,
    names: fn(&Controllers) -> Vec<PossibleValue>,
}

impl<T> NameParser<T> {
    fn of(self, controllers: &Controllers) -> Self {
        Self { controllers: controllers.clone(), ..self }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for NameParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        (self.parse)(&self.controllers, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)(&self.controllers).into_iter()))
    }
}

/// Lets the arguments that name controllers take these; arguments are declared with conche's.
pub fn with_controllers(command: Command, controllers: &Controllers) -> Command {
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "cc" => arg.value_parser(CONTROLLER.of(controllers)),
        "controller" => arg.value_parser(NAMED.of(controllers)),
        "controllers" | "baseline" => arg.value_parser(SCHEME.of(controllers)),
        _ => arg,
    });
    command.mut_subcommands(|command| with_controllers(command, controllers))
}

/// As tolerant as [`AnyController::by_name`], with its suggestions.
pub const CONTROLLER: NameParser<AnyController> = NameParser {
    controllers: Controllers::new(),
    parse: |controllers, command, arg, value| {
        let controllers = controllers.clone();
        let configured = move |text: String| controllers.configured(&text).map(|(_, controller)| controller);
        StringValueParser::new().try_map(configured).parse_ref(command, arg, value)
    },
    names: known,
};

pub const NAMED: NameParser<Named> = NameParser {
    controllers: Controllers::new(),
    parse: |controllers, command, arg, value| {
        let controllers = controllers.clone();
        let named = move |name: String| controllers.by_name(&name).cloned();
        StringValueParser::new().try_map(named).parse_ref(command, arg, value)
    },
    names: known,
};

/// Accepts any name: scenarios define schemes. Completions offer controllers.
pub const SCHEME: NameParser<String> = NameParser {
    controllers: Controllers::new(),
    parse: |_, command, arg, value| StringValueParser::new().parse_ref(command, arg, value),
    names: known,
};

/// Joins parts split at the commas between parameters: `cocoa:weak_k=1` and `max_rto=30s`.
pub fn with_parameters(parts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in parts {
        match names.last_mut().filter(|last| last.contains(':') && part.contains('=') && !part.contains(':')) {
            Some(name) => *name += &format!(",{part}"),
            None => names.push(part),
        }
    }
    names
}

fn known(controllers: &Controllers) -> Vec<PossibleValue> {
    let named = |named: &Named| PossibleValue::new(named.name().to_owned()).help(named.features.about);
    controllers.iter().map(named).collect()
}

#[derive(Clone, Debug)]
pub enum Source {
    Paper(&'static Paper),
    Network(&'static Network),
    /// All networks.
    Networks,
    File(PathBuf),
}

/// Name of all networks.
pub const ALL_NETWORKS: &str = "networks";

/// A name without a dot or slash means a paper or network, unless such a file exists.
pub const SOURCE: NameParser<Source> = NameParser {
    controllers: Controllers::new(),
    parse: |_, command, arg, value| {
        let name = value.to_str().unwrap_or_default();
        if let Some(paper) = Paper::by_name(name) {
            return Ok(Source::Paper(paper));
        }
        if let Some(network) = Network::by_name(name) {
            return Ok(Source::Network(network));
        }
        if name == ALL_NETWORKS {
            return Ok(Source::Networks);
        }
        if Path::new(value).exists() || value.to_string_lossy().contains(['.', '/', '\\']) {
            return Ok(Source::File(value.into()));
        }
        let name = StringValueParser::new().parse_ref(command, arg, value)?;
        let meant = nearest_paper(&name).or_else(|| nearest(&name, networks()));
        let (papers, networks) = (listed(paper_names()), listed(networks()));
        let known = format!("the papers are: {papers}; the networks are: {networks}; all of them: {ALL_NETWORKS}");
        Err(unknown(command, &format!("no paper or network `{name}`"), meant, &known))
    },
    names: |_| {
        let networks = [ALL_NETWORKS].into_iter().chain(networks());
        paper_names().chain(networks).map(PossibleValue::new).collect()
    },
};

pub const PAPER: NameParser<&'static Paper> = NameParser {
    controllers: Controllers::new(),
    parse: |_, command, arg, value| {
        let name = StringValueParser::new().parse_ref(command, arg, value)?;
        Paper::by_name(&name).ok_or_else(|| {
            // Other commands accept networks and files too.
            let other = match Network::by_name(&name) {
                Some(_) => "; it is a network: `conche run` and `conche compare` take networks",
                None if Path::new(&name).exists() => "; it is a file: `conche run` takes scenarios",
                None => "",
            };
            let known = format!("the papers are: {}{other}", listed(paper_names()));
            unknown(command, &format!("no paper `{name}`"), nearest_paper(&name), &known)
        })
    },
    names: |_| paper_names().map(PossibleValue::new).collect(),
};

fn unknown(command: &Command, missing: &str, meant: Option<&str>, known: &str) -> Error {
    let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    Error::raw(ErrorKind::ValueValidation, format!("there is {missing}{meant}; {known}\n")).with_cmd(command)
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn paper_names() -> impl Iterator<Item = &'static str> {
    PAPERS.iter().map(|paper| paper.name)
}

pub fn networks() -> impl Iterator<Item = &'static str> {
    NETWORKS.iter().map(|network| network.name)
}

/// With or without the year.
fn nearest_paper(name: &str) -> Option<&'static str> {
    let stem = |name: &'static str| name.trim_end_matches(|character: char| character.is_ascii_digit());
    nearest(name, paper_names()).or_else(|| {
        let nearest = nearest(name, paper_names().map(stem))?;
        paper_names().find(|name| stem(name) == nearest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stay_with_their_controller() {
        let names = "default,cocoa:weak_k=1,max_rto=30s,temper:grace=0,linux".split(',').map(str::to_owned);
        let expected = ["default", "cocoa:weak_k=1,max_rto=30s", "temper:grace=0", "linux"];
        assert_eq!(with_parameters(names), expected);
    }
}

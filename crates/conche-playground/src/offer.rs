//! Scenarios and controllers to choose from.

use conche_lab::Controllers;
use conche_lab::networks::NETWORKS;
use conche_lab::papers::PAPERS;
use serde::Serialize;

/// A scenario to start from.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Example {
    /// Heading in a menu.
    pub group: &'static str,
    /// Short name.
    pub name: &'static str,
    /// Text.
    pub scenario: &'static str,
}

/// The files of `scenarios/examples`; a `static`, so that texts are linked once.
static EXAMPLES: &[(&str, &str)] = &[
    ("codel", include_str!("../../../scenarios/examples/codel.toml")),
    ("failing-link", include_str!("../../../scenarios/examples/failing-link.toml")),
    ("half-and-half", include_str!("../../../scenarios/examples/half-and-half.toml")),
    ("nat", include_str!("../../../scenarios/examples/nat.toml")),
];

/// Returns the examples, networks and papers of the repository.
#[must_use]
pub fn examples() -> Vec<Example> {
    let group = |group| move |(name, scenario)| Example { group, name, scenario };
    let examples = EXAMPLES.iter().copied().map(group("Examples"));
    let networks = NETWORKS.iter().map(|of| (of.name, of.scenario)).map(group("Networks"));
    let papers = PAPERS.iter().map(|of| (of.name, of.scenario)).map(group("Papers"));
    examples.chain(networks).chain(papers).collect()
}

/// A congestion controller.
#[derive(Clone, Debug, Serialize)]
pub struct Controller {
    /// Name.
    pub name: String,
    /// Description in one line.
    pub about: &'static str,
    /// Parameters.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a controller.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// Name.
    pub name: &'static str,
    /// Default value.
    pub default: String,
    /// Unit.
    pub unit: &'static str,
    /// Valid values.
    pub range: String,
    /// Effect in one line.
    pub about: &'static str,
}

/// Returns all controllers, with their parameters.
#[must_use]
pub fn controllers() -> Vec<Controller> {
    let mut all = Vec::new();
    for named in Controllers::new().iter() {
        let configured = named.controller();
        let parameters = configured.parameters().map(|(of, default)| Parameter {
            name: of.name,
            default: default.to_string(),
            unit: of.range.unit(),
            range: of.range.to_string(),
            about: of.about,
        });
        let (name, about) = (named.name().to_owned(), named.features.about);
        all.push(Controller { name, about, parameters: parameters.collect() });
    }
    all
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_menu_has_all_files_of_the_directory_of_examples() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/examples");
        let files = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("a file").path());
        let mut names: Vec<_> = files.filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
        names.sort_unstable();
        assert_eq!(names, EXAMPLES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn parameters_have_defaults_and_ranges() {
        let controllers = controllers();
        let cocoa = controllers.iter().find(|of| of.name == "cocoa").expect("CoCoA");
        let weak = cocoa.parameters.iter().find(|of| of.name == "weak_k").expect("a parameter");
        assert_eq!((weak.default.as_str(), weak.range.is_empty()), ("1", false), "{weak:?}");
    }
}

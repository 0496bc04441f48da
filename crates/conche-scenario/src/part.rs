//! Parts of an experiment: several networks or workloads with the same schemes.
//!
//! The keys of a part override those of the document. Merged with it, a part is a complete
//! scenario.

use serde::Deserialize;
use toml::{Table, Value as Toml};

use super::{AtLeastOne, Axis, Change, Link, Nodes, Phase, Radio, ScenarioError, Traffic, Value, distinct};
use crate::units::Span;

/// The overrides of a part. See [`Scenario`](super::Scenario) for the keys.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "they are the scenario's")]
pub struct Part {
    /// Its name in errors and paths.
    pub name: String,
    pub duration: Option<Span>,
    pub time_limit: Option<Span>,
    pub replications: Option<AtLeastOne>,
    pub one_by_one: Option<bool>,
    pub only_schemes: Option<Vec<String>>,
    pub phases: Option<Vec<Phase>>,
    pub nodes: Option<Vec<Nodes>>,
    pub links: Option<Vec<Link>>,
    pub radios: Option<Vec<Radio>>,
    pub traffic: Option<Vec<Traffic>>,
    pub changes: Option<Vec<Change>>,
    pub sweep: Option<Vec<Axis>>,
    pub row: Option<String>,
    pub values: Option<Vec<Value>>,
}

/// The key of parts in a document.
const PARTS: &str = "parts";

/// Returns the names and complete tables of a document's parts; without parts, the document without
/// a name.
///
/// # Errors
/// If two parts have the same name.
pub(super) fn sections(whole: &Table) -> Result<Vec<(Option<String>, Table)>, ScenarioError> {
    let mut shared = whole.clone();
    let Some(Toml::Array(parts)) = shared.remove(PARTS) else { return Ok(vec![(None, shared)]) };
    let mut sections = Vec::new();
    for part in parts {
        let Toml::Table(mut part) = part else { continue };
        let name = part.remove("name").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        let mut section = shared.clone();
        // A run's length has two alternative keys.
        if part.contains_key("duration") || part.contains_key("time_limit") {
            section.remove("duration");
            section.remove("time_limit");
        }
        section.extend(part);
        sections.push((Some(name), section));
    }
    distinct(PARTS, sections.iter().filter_map(|(name, _)| name.as_ref()))?;
    Ok(sections)
}

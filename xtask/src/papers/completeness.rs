//! Checks that results cover whole papers, as pages must not show partial or quick runs.

use anyhow::{Context, Result, bail};
use conche_results::{Manifest, State};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Scenario {
    replications: u32,
}

/// Treatment of results with failed runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    Refused,
    /// Accepted, as the page names the gaps.
    Stated,
}

/// Refuses results that are incomplete, or smaller than the scenarios of their papers.
pub fn check(manifest: &Manifest, gaps: Gaps, scenario: impl Fn(&str) -> Result<String>) -> Result<()> {
    match manifest.state {
        State::Complete => {}
        State::Running => bail!("these results are not complete: they go on, or were interrupted"),
        State::Partial => bail!("these results are a part of the runs: merge all parts first"),
        State::Failed if gaps == Gaps::Stated => {}
        State::Failed => bail!("these results are not complete: {} runs failed", manifest.failures.len()),
    }
    if manifest.scenarios.is_empty() {
        bail!("these results are of no paper");
    }
    let options = manifest.effort.as_object().context("manifest.json does not state the options")?;
    // A ranking names its controllers.
    let allowed = |name: &str| gaps == Gaps::Stated && ["controllers", "compares"].contains(&name);
    let is_given = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        _ => true,
    };
    if let Some((option, value)) = options.iter().find(|(name, value)| is_given(value) && !allowed(name)) {
        bail!("these results are not of whole papers: they were run with --{option} {value}");
    }
    for of in &manifest.scenarios {
        let text = scenario(&of.name)?;
        let Scenario { replications } =
            toml::from_str(&text).with_context(|| format!("the scenario of {}", of.name))?;
        // As in `20 replications of 3min`; a quick run has fewer.
        if of.extent.split(' ').next() != Some(&replications.to_string()) {
            bail!("{} has {} instead of {replications} replications: run it with `--full`", of.name, of.extent);
        }
        if of.score.is_none() {
            bail!("{} has no score", of.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use conche_results::{Scenario, Score};
    use serde_json::json;

    use super::*;

    fn manifest() -> Manifest {
        let of = |name: &str, extent: &str| Scenario {
            name: name.to_owned(),
            extent: extent.to_owned(),
            score: Some(Score::default()),
            ..Scenario::default()
        };
        Manifest {
            state: State::Complete,
            effort: json!({"quick": false, "runs": null, "seed": null, "controllers": [], "set": [], "only": []}),
            scenarios: vec![of("p", "10 replications"), of("q", "10 replications of 3min")],
            ..Manifest::default()
        }
    }

    fn checked(change: impl FnOnce(&mut Manifest)) -> Result<()> {
        let mut manifest = manifest();
        change(&mut manifest);
        check(&manifest, Gaps::Refused, |_| Ok("replications = 10\n[quick]\nreplications = 2\n".to_owned()))
    }

    #[test]
    fn whole_papers_are_taken_all_or_some() {
        checked(|_| {}).expect("all");
        checked(|manifest| drop(manifest.scenarios.pop())).expect("some");
    }

    #[test]
    fn interrupted_or_partial_results_are_refused() {
        let refused = |expected: &str, change: fn(&mut Manifest)| {
            let problem = checked(change).expect_err(expected).to_string();
            assert!(problem.contains(expected), "{expected}: {problem}");
        };
        refused("interrupted", |manifest| manifest.state = State::Running);
        refused("0 runs failed", |manifest| manifest.state = State::Failed);
        refused("of no paper", |manifest| manifest.scenarios.clear());
        refused("with --quick true", |manifest| manifest.effort["quick"] = true.into());
        refused("with --only [[\"a\",[\"b\"]]]", |manifest| manifest.effort["only"] = json!([["a", ["b"]]]));
        refused("does not state the options", |manifest| manifest.effort = Value::Null);
        refused("p has 2 replications", |manifest| manifest.scenarios[0].extent = "2 replications".to_owned());
        refused("q has 1 replication", |manifest| manifest.scenarios[1].extent = "1 replication of 3min".to_owned());
        refused("q has no score", |manifest| manifest.scenarios[1].score = None);
    }

    #[test]
    fn failed_runs_are_accepted_where_gaps_are_stated() {
        let failed = Manifest { state: State::Failed, scenarios: vec![manifest().scenarios.remove(0)], ..manifest() };
        check(&failed, Gaps::Stated, |_| Ok("replications = 10\n".to_owned())).expect("all else is whole");
    }

    #[test]
    fn a_board_may_be_of_some_controllers_and_a_paper_may_not() {
        let mut some = Manifest { scenarios: vec![manifest().scenarios.remove(0)], ..manifest() };
        some.effort["controllers"] = json!(["cocoa"]);
        some.effort["compares"] = true.into();
        let check = |gaps| check(&some, gaps, |_| Ok("replications = 10\n".to_owned()));
        check(Gaps::Stated).expect("its rows tell which");
        check(Gaps::Refused).expect_err("a paper has all of its schemes");
    }

    #[test]
    fn an_unknown_paper_is_refused() {
        let problem = check(&manifest(), Gaps::Refused, |name| bail!("there is no {name}")).expect_err("no scenario");
        assert_eq!(problem.to_string(), "there is no p");
    }
}

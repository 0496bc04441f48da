//! Checks the dependencies between crates, from cargo, against the last column of ARCHITECTURE.md's
//! table of crates.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::project::{Finding, Project};

/// Dependencies of [`OF_EXPERIMENTS`] only, so that work on the protocol builds in seconds.
const HEAVY: &str = "\
    anyhow arrow arrow-array axum clap clap_complete clap_mangen comfy-table indicatif miette \
    minijinja parquet petgraph polars rayon rust-embed statrs toml";

const OF_EXPERIMENTS: [&str; 6] =
    ["conche-stats", "conche-results", "conche-scenario", "conche-lab", "conche-bench", "conche-cli"];

#[derive(Debug, Deserialize)]
pub struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `None` for a normal dependency, otherwise `dev` or `build`.
    kind: Option<String>,
}

pub fn packages(project: &Project) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let metadata: Metadata = metadata(project, &["--no-deps"])?;
    Ok(metadata.packages)
}

pub fn metadata<T: for<'a> Deserialize<'a>>(project: &Project, arguments: &[&str]) -> Result<T> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .current_dir(&project.root)
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cannot read cargo's metadata")
}

pub fn check(architecture: &str, packages: &[Package]) -> Vec<Finding> {
    let allowed = allowed_edges(architecture);
    let mut findings = Vec::new();
    let mut add = |package: &Package, message: String| {
        findings.push(Finding::new(&format!("crates/{}/Cargo.toml", package.name), 0, message));
    };
    for package in packages.iter().filter(|package| package.name.starts_with("conche")) {
        let Some((_, may_use)) = allowed.iter().find(|(name, _)| *name == package.name) else {
            add(package, "the table of crates in ARCHITECTURE.md does not name this crate".to_owned());
            continue;
        };
        for dependency in &package.dependencies {
            let (name, needed) = (dependency.name.as_str(), dependency.kind.as_deref() != Some("dev"));
            let ours = packages.iter().any(|other| other.name == name);
            if ours && name != package.name && !may_use.contains(&name) {
                add(package, format!("depends on {name}; ARCHITECTURE.md lets it use {may_use:?} only"));
            }
            if needed && package.name == "conche-cc" {
                add(package, format!("depends on {name}; conche-cc has no dependencies"));
            }
            if needed
                && HEAVY.split_whitespace().any(|heavy| heavy == name)
                && !OF_EXPERIMENTS.contains(&package.name.as_str())
            {
                add(package, format!("depends on {name}, which belongs in one of {OF_EXPERIMENTS:?}"));
            }
        }
    }
    findings
}

/// Returns the rows of the table of crates: a crate, and the crates in its last cell.
fn allowed_edges(architecture: &str) -> Vec<(&str, Vec<&str>)> {
    architecture.lines().filter(|line| line.starts_with("| `conche")).filter_map(edges_of_row).collect()
}

pub fn edges_of_row(row: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = row.strip_prefix('|')?.trim_end_matches('|').split('|');
    Some((names(cells.next()?).next()?, names(cells.next_back()?).collect()))
}

pub fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| crate | what | may use |\n|---|---|---|\n| `conche-cc` | x | nothing |\n\
                         | `conche-proto` | no `std` | `conche-cc` |\n| `conche-lab` | x | `conche-proto` |\n";

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: kind.map(str::to_owned) })
            .collect();
        Package { name: name.to_owned(), dependencies }
    }

    fn found(changed: Package) -> Vec<String> {
        let mut packages = vec![
            package("conche-cc", &[("proptest", Some("dev"))]),
            package("conche-proto", &[("conche-cc", None), ("slab", None)]),
            package("conche-lab", &[("conche-proto", None), ("rayon", None)]),
        ];
        packages.retain(|other| other.name != changed.name);
        packages.push(changed);
        check(TABLE, &packages).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn the_edges_of_the_table_are_allowed() {
        assert_eq!(found(package("conche-proto", &[("conche-cc", None)])), Vec::<String>::new());
    }

    #[test]
    fn an_edge_against_the_layers_is_refused_even_for_tests() {
        assert_eq!(found(package("conche-proto", &[("conche-lab", None)])).len(), 1);
        assert_eq!(found(package("conche-proto", &[("conche-lab", Some("dev"))])).len(), 1);
    }

    #[test]
    fn any_dependency_of_conche_cc_is_refused_except_for_tests() {
        assert_eq!(found(package("conche-cc", &[("libm", None)])).len(), 1);
    }

    #[test]
    fn heavy_dependencies_below_the_lab_are_refused() {
        assert_eq!(found(package("conche-proto", &[("clap", None)])).len(), 1);
        assert_eq!(found(package("conche-proto", &[("rayon", Some("dev"))])), Vec::<String>::new());
    }

    #[test]
    fn a_crate_that_the_table_does_not_name_is_refused() {
        assert_eq!(found(package("conche-extra", &[])).len(), 1);
    }
}

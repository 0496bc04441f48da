//! Checks that every dependency has a licence compatible with MIT OR Apache-2.0.

use anyhow::Result;
use serde::Deserialize;
use spdx::Expression;

use super::layers::metadata;
use crate::project::{Finding, Project};

/// Permissive licences; the Unicode and data licences require only their notice.
const ALLOWED: &str = "\
    0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 BlueOak-1.0.0 CC0-1.0 CDLA-Permissive-2.0 \
    ISC MIT MIT-0 Unicode-3.0 Unlicense Zlib";

#[derive(Debug, Deserialize)]
pub struct Licensed {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for the workspace's own crates.
    source: Option<String>,
}

/// Returns all dependencies, including those of tests.
pub fn dependencies(project: &Project) -> Result<Vec<Licensed>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Licensed>,
    }
    let metadata: Metadata = metadata(project, &["--filter-platform", "x86_64-unknown-linux-gnu"])?;
    Ok(metadata.packages.into_iter().filter(|package| package.source.is_some()).collect())
}

pub fn check(dependencies: &[Licensed]) -> Vec<Finding> {
    let refused = dependencies.iter().filter(|package| !package.license.as_deref().is_some_and(is_allowed));
    refused
        .map(|package| {
            let licence = package.license.as_deref().unwrap_or("no licence");
            Finding::new("Cargo.lock", 0, format!("{} {} comes under {licence}", package.name, package.version))
        })
        .collect()
}

fn is_allowed(licence: &str) -> bool {
    Expression::parse_mode(licence, spdx::ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|requirement| {
            requirement.license.id().is_some_and(|id| ALLOWED.split_whitespace().any(|allowed| allowed == id.name))
                && requirement.addition.is_none()
                || requirement.to_string() == "Apache-2.0 WITH LLVM-exception"
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copyleft_and_unknown_licences_are_refused() {
        for licence in ["GPL-3.0-only", "MIT AND MPL-2.0", "Proprietary", ""] {
            assert!(!is_allowed(licence), "{licence}");
        }
    }

    #[test]
    fn one_allowed_alternative_suffices() {
        for licence in [
            "MIT OR GPL-2.0-only",
            "Unlicense/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(licence), "{licence}");
        }
    }

    #[test]
    fn a_dependency_without_a_licence_is_named() {
        let package = Licensed { name: "x".to_owned(), version: "1.0.0".to_owned(), license: None, source: None };
        assert_eq!(check(&[package])[0].message, "x 1.0.0 comes under no licence");
    }
}

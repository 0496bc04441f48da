//! Runs the interoperability cases, some of them over emulated networks, and tests marked
//! `#[ignore = "needs …"]` that require other programs.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::project::{Project, TextFile, files};
use crate::source::{self, Token};
use tool_support::Command;
use tool_support::packages;
use tool_support::peers;

/// Installs the required programs and compiles the peers' programs, if missing.
pub fn prepare(project: &Project) -> Result<()> {
    packages::ensure_programs(project)?;
    packages::ensure_pyarrow(project)?;
    peers::leshan(project)?;
    Command::cargo("run --quiet --package interop -- --prepare").run(project)
}

pub fn run(project: &Project) -> Result<()> {
    packages::ensure_programs(project)?;
    let python = packages::ensure_pyarrow(project)?;
    let (aiocoap, leshan) = (peers::secured_aiocoap(project)?, peers::leshan(project)?);
    let tests = tests_with_needs(&files(project)?);
    if tests.is_empty() {
        bail!("no test is marked `#[ignore = \"needs …\"]`; the interop tests must be");
    }
    let targets: Vec<_> = tests.keys().map(String::as_str).collect();
    let names: Vec<_> = tests.values().flatten().map(String::as_str).collect();
    // The features of the step `test`, so that nothing is compiled again.
    let line = format!("test --workspace --all-features {} -- --ignored {}", targets.join(" "), names.join(" "));
    // Makes tests fail that would otherwise skip themselves without their program.
    let tests = Command::cargo(&line).env("CONCHE_REQUIRE_TOOLS", "1");
    tests.env("CONCHE_PYTHON", &python).env("CONCHE_AIOCOAP", &aiocoap).env("CONCHE_LESHAN", &leshan).run(project)?;
    Command::cargo("run --quiet --package interop -- --check").run(project)?;
    // All cases over emulated networks take ten minutes.
    Command::cargo("run --quiet --package interop -- --emulated --case EMULATED_GET --mode radio").run(project)
}

/// Returns the names of tests that need programs, by the arguments that select their target.
fn tests_with_needs(files: &[TextFile]) -> BTreeMap<String, Vec<String>> {
    let mut tests = BTreeMap::<_, Vec<_>>::new();
    for file in files.iter().filter(|file| file.extension() == "rs" && file.text.contains("#[ignore = \"needs ")) {
        let Some((target, tokens)) = target(&file.path).zip(source::tokens(&file.text)) else { continue };
        tests.entry(target).or_default().extend(names(&tokens));
    }
    tests
}

/// Returns the functions marked `#[ignore = "needs …"]`.
fn names(tokens: &[Token]) -> impl Iterator<Item = String> {
    tokens.windows(6).enumerate().filter_map(|(at, window)| {
        let ignore = source::starts_with(window, &["#", "[", "ignore", "="]);
        if !ignore || !window[4].text.starts_with("\"needs ") {
            return None;
        }
        let keyword = at + tokens[at..].iter().position(|token| token.text == "fn")?;
        Some(tokens.get(keyword + 1)?.text.clone())
    })
}

/// Returns `--test TARGET` for a file of a crate's `tests`, `--lib --bins` for one of its `src`,
/// without the package: with fewer packages cargo would rebuild dependencies with fewer features.
fn target(path: &str) -> Option<String> {
    let mut parts = path.strip_prefix("crates/")?.split('/').skip(1);
    Some(match (parts.next()?, parts.next()?) {
        ("tests", name) => format!("--test {}", name.trim_end_matches(".rs")),
        _ => "--lib --bins".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    #[test]
    fn only_tests_that_need_a_program_are_chosen() {
        let text = "#[test]\n#[ignore = \"needs tshark\"]\nfn reads() {}\n#[test]\nfn plain() {}\n\
                    #[ignore = \"takes hours\"]\n#[test]\nfn long() {}\n#[ignore = \"needs libcoap\"]\n#[test]\nfn fetches() {}\n";
        let found = tests_with_needs(&[fixture("crates/a/tests/b.rs", text), fixture("crates/a/tests/c/main.rs", "")]);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("--test b".to_owned(), vec!["reads".to_owned(), "fetches".to_owned()])]
        );
    }

    #[test]
    fn a_target_is_chosen_by_the_place_of_its_file() {
        assert_eq!(target("crates/a/tests/b/c.rs").as_deref(), Some("--test b"));
        assert_eq!(target("crates/a/src/b.rs").as_deref(), Some("--lib --bins"));
        assert_eq!(target("xtask/src/b.rs"), None);
    }
}

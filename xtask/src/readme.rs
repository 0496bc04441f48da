//! README.md, held to its word. Every fenced block of commands or Rust stands under a comment that says how:
//!
//! | comment | what happens |
//! |---|---|
//! | `<!-- ci: test -->` | its one command is the test step of `cargo xtask ci` |
//! | `<!-- ci: run -->` | its commands (lines that start with `$ `) run as one script, with `conche` built and on the PATH |
//! | `<!-- ci: run with ARGUMENTS -->` | the same, each command with these arguments in addition |
//! | `<!-- ci: skip: why -->` | nothing |
//! | `<!-- ci: same as FILE -->` | its code must be that file, without the file's `//!` header |

use std::env;

use anyhow::{Context, Result, bail};

use crate::ci::command::Command;
use crate::project::Project;

/// The test command that README.md tells its readers.
pub const TEST_COMMAND: &str = "cargo test --workspace --all-features";

/// Runs and compares what README.md asks for.
pub fn run(project: &Project) -> Result<()> {
    let blocks = blocks(&project.read("README.md")?)?;
    for block in &blocks {
        match &block.rule {
            Rule::Test if block.commands() != [TEST_COMMAND] => {
                bail!("README.md:{}: the test command is `{TEST_COMMAND}`", block.line);
            }
            Rule::SameAs(path) if body(&project.read(path)?) != block.text.trim() => {
                bail!("README.md:{}: this code is no longer that of {path}; copy it", block.line);
            }
            _ => {}
        }
    }
    if !blocks.iter().any(|block| block.rule == Rule::Test) {
        bail!("README.md has no block marked `<!-- ci: test -->`");
    }
    Command::cargo("build --release").run(project)?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([project.target().join("release")].into_iter().chain(env::split_paths(&path)))?;
    for block in &blocks {
        let Rule::Run(additional) = &block.rule else { continue };
        let script = script(&block.commands(), additional);
        Command::new("bash", ["-c", &script])
            .env("PATH", &path)
            .run(project)
            .with_context(|| format!("README.md:{}: the commands of this block fail", block.line))?;
    }
    Ok(())
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// The line of its opening fence.
    line: usize,
    rule: Rule,
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Rule {
    Test,
    /// With these arguments in addition.
    Run(String),
    Skip,
    SameAs(String),
}

impl Block {
    fn commands(&self) -> Vec<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
    }
}

/// The blocks of commands and code, each with its rule.
fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().zip(1..);
    let mut before = "";
    while let Some((line, number)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body: Vec<_> = lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```").collect();
            if !matches!(language, "" | "text" | "toml") {
                let rule = rule(before).with_context(|| format!("README.md:{number}"))?;
                blocks.push(Block { line: number, rule, text: body.join("\n") });
            }
        }
        before = line;
    }
    Ok(blocks)
}

fn rule(comment: &str) -> Result<Rule> {
    let rule = comment.strip_prefix("<!-- ci: ").and_then(|rest| rest.strip_suffix(" -->"));
    Ok(match rule {
        Some("test") => Rule::Test,
        Some("run") => Rule::Run(String::new()),
        Some(rule) if rule.starts_with("run with ") => Rule::Run(rule["run with".len()..].to_owned()),
        Some(rule) if rule.starts_with("skip: ") => Rule::Skip,
        Some(rule) if rule.starts_with("same as ") => Rule::SameAs(rule["same as ".len()..].to_owned()),
        _ => bail!("say on the line before this block what CI does with it: `<!-- ci: run -->`, for example"),
    })
}

/// One script that stops at the first failure and takes along what it started in the background.
fn script(commands: &[&str], additional: &str) -> String {
    let mut script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -x\n".to_owned();
    for command in commands {
        script += &format!("{command}{additional}\n");
        if command.ends_with('&') {
            // A reader takes longer than that to type the next command.
            script += "sleep 1\n";
        }
    }
    script
}

/// A Rust file without its header.
fn body(text: &str) -> &str {
    let header = text.split_inclusive('\n').take_while(|line| line.starts_with("//!")).map(str::len).sum();
    text[header..].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_says_nothing_of_ci_is_refused() {
        assert!(blocks("text\n```console\n$ a\n```\n").is_err());
        assert!(blocks("<!-- ci: perhaps -->\n```rust\na\n```\n").is_err());
    }

    #[test]
    fn commands_are_what_follows_a_dollar_sign() {
        let blocks = blocks("<!-- ci: run -->\n```console\n$ a b\nout\n$ c\n```\n```text\nx\n```\n").expect("marked");
        assert_eq!(blocks.len(), 1);
        assert_eq!((blocks[0].line, &blocks[0].rule), (2, &Rule::Run(String::new())));
        assert_eq!(blocks[0].commands(), ["a b", "c"]);
    }

    #[test]
    fn additional_arguments_go_to_each_command() {
        let rule = rule("<!-- ci: run with --quick -->").expect("known");
        assert_eq!(rule, Rule::Run(" --quick".to_owned()));
        assert!(script(&["a", "b c"], " --quick").ends_with("\na --quick\nb c --quick\n"));
    }

    #[test]
    fn what_starts_in_the_background_has_time_to_start() {
        assert!(script(&["a &", "b"], "").ends_with("\na &\nsleep 1\nb\n"));
    }

    #[test]
    fn code_is_compared_without_the_header_of_its_file() {
        assert_eq!(body("//! H.\n//! More.\n\nfn main() {}\n"), "fn main() {}");
        assert_eq!(rule("<!-- ci: same as a/b.rs -->").expect("known"), Rule::SameAs("a/b.rs".to_owned()));
    }
}

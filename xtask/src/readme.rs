//! Runs the commands of README.md and the guide. A comment with a rule precedes every fenced block
//! of commands or Rust:
//! | comment | rule |
//! |---|---|
//! | `<!-- ci: test -->` | its one command is the test step of `cargo xtask ci` |
//! | `<!-- ci: run -->` | its commands (`$ ` lines) run as one script and print the shown lines |
//! | `<!-- ci: run; numbers vary -->` | as `run`, but words with a digit match any other |
//! | `<!-- ci: fails -->` | its commands, except those ending in `&`, fail and print the shown lines |
//! | `<!-- ci: skip: why -->` | no check |
//! | `<!-- ci: same as FILE:ANCHOR -->` | its code is a quote, which [`tidy::quotes`] checks |
//!
//! In a shown line, `…` matches any text. Widths of tables do not count.

use std::io::ErrorKind;
use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::project::{Project, files};
use crate::{fenced, tidy};
use tool_support::Command;

pub const TEST_COMMAND: &str = "cargo test --workspace --all-features";

const README: &str = "README.md";

pub fn run(project: &Project) -> Result<()> {
    let mut blocks = Vec::new();
    for file in files(project)? {
        if tidy::quotes::is_quoting(&file) {
            blocks.extend(self::blocks(&file.path, &file.text)?);
        }
    }
    for Block { place, rule, text } in &blocks {
        if *rule == Rule::Test && commands(text) != [TEST_COMMAND] {
            bail!("{place}: the test command is `{TEST_COMMAND}`");
        }
    }
    if !blocks.iter().any(|block| block.rule == Rule::Test) {
        bail!("{README} has no block marked `<!-- ci: test -->`");
    }
    Command::cargo("build --release").run(project)?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([project.target().join("release")].into_iter().chain(env::split_paths(&path)))?;
    let bash = |script: &str| Command::new("bash", ["-c", script]).env("PATH", &path);
    for Block { place, rule, text } in &blocks {
        let failure = || format!("{place}: the commands of this block do not do what they should");
        let (script, numbers) = match rule {
            Rule::Run(numbers) => (script(&commands(text)), *numbers),
            Rule::Fails => (failing(&commands(text)), Numbers::Exact),
            Rule::Test | Rule::Skip | Rule::Quote => continue,
        };
        for results in results(&commands(text)) {
            remove_all(&project.root.join(results))?;
        }
        let printed = bash(&script).output(project).with_context(failure)?;
        if let Some(line) = unprinted(text, &printed, numbers) {
            bail!("{place}: no command of this block prints `{line}`; they print\n{printed}");
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Block {
    place: String,
    rule: Rule,
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Rule {
    Test,
    Run(Numbers),
    Fails,
    Skip,
    Quote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Exact,
    Vary,
}

fn commands(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// Returns the directories under `target` to which commands write results. An earlier build's results
/// there would be refused.
fn results<'a>(commands: &[&'a str]) -> Vec<&'a str> {
    let words: Vec<_> = commands.iter().flat_map(|command| command.split_whitespace()).collect();
    let after_option = words.windows(2).filter(|pair| pair[0] == "-o").map(|pair| pair[1]);
    after_option.filter(|path| path.starts_with("target/") && !path.contains("..")).collect()
}

/// Removes a directory or file, if it exists.
fn remove_all(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the blocks of commands and code with their rules.
fn blocks(path: &str, text: &str) -> Result<Vec<Block>> {
    fenced::blocks(text)
        .filter(|block| !matches!(block.language, "" | "text" | "toml" | "json"))
        .map(|block| {
            let place = format!("{path}:{}", block.line);
            let rule = rule(block.before).with_context(|| place.clone())?;
            Ok(Block { place, rule, text: block.body.join("\n") })
        })
        .collect()
}

fn rule(comment: &str) -> Result<Rule> {
    if tidy::quotes::source(comment).is_some() {
        return Ok(Rule::Quote);
    }
    let rule = comment.strip_prefix("<!-- ci: ").and_then(|rest| rest.strip_suffix(" -->"));
    Ok(match rule {
        Some("test") => Rule::Test,
        Some("run") => Rule::Run(Numbers::Exact),
        Some("run; numbers vary") => Rule::Run(Numbers::Vary),
        Some("fails") => Rule::Fails,
        Some(rule) if rule.starts_with("skip: ") => Rule::Skip,
        _ => bail!("say on the line before this block what CI does with it: `<!-- ci: run -->`, for example"),
    })
}

/// Ends background processes, and waits until their ports are free.
const TIDY_UP: &str = "trap 'kill $(jobs -p) 2>/dev/null && wait || true' EXIT\n";

/// Stops at the first failure; all output goes to standard output.
fn script(commands: &[&str]) -> String {
    let lines = commands.iter().map(|command| format!("{command}\n{}", pause_after(command)));
    format!("set -euo pipefail\nexec 2>&1\n{TIDY_UP}{}", lines.collect::<String>())
}

/// Stops at the first success; all output goes to standard output.
fn failing(commands: &[&str]) -> String {
    let lines = commands.iter().map(|command| {
        if command.ends_with('&') {
            format!("{command}\n{}", pause_after(command))
        } else {
            format!("if {command}; then exit 1; fi\n")
        }
    });
    format!("set -uo pipefail\nexec 2>&1\n{TIDY_UP}{}true\n", lines.collect::<String>())
}

/// Pauses after starting a background process; ends the last line of others.
fn pause_after(command: &str) -> &'static str {
    if command.ends_with('&') { "sleep 1\n" } else { "echo\n" }
}

fn unprinted<'a>(shown: &'a str, printed: &str, numbers: Numbers) -> Option<&'a str> {
    let printed: Vec<_> = printed.lines().map(|line| comparable(line, numbers)).collect();
    let was_printed = |shown: &str| printed.iter().any(|line| matches(&comparable(shown, numbers), line));
    shown.lines().filter(|line| !line.starts_with("$ ") && !line.is_empty()).find(|line| !was_printed(line))
}

/// Independent of the terminal's width: single spaces, short rules of tables and, if numbers vary,
/// `#` for words with digits.
fn comparable(line: &str, numbers: Numbers) -> String {
    let word = |word: &str| match word {
        _ if numbers == Numbers::Vary && word.contains(|c: char| c.is_ascii_digit()) => "#".to_owned(),
        _ if word.chars().all(|c| "─═━".contains(c)) => "─".to_owned(),
        _ => word.to_owned(),
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Parts are separated by `…`.
fn matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…').map(str::trim);
    let (first, last) = (parts.next().unwrap_or_default(), parts.next_back());
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let Some(last) = last else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_without_a_ci_rule_is_refused() {
        assert!(blocks("a.md", "text\n```console\n$ a\n```\n").is_err());
        assert!(blocks("a.md", "<!-- ci: perhaps -->\n```rust\na\n```\n").is_err());
    }

    #[test]
    fn commands_follow_a_dollar_sign() {
        let blocks = blocks("a.md", "<!-- ci: run -->\n```console\n$ a b\nout\n$ c\n```\n```text\nx\n```\n");
        let blocks = blocks.expect("marked");
        assert_eq!(blocks.len(), 1);
        assert_eq!((blocks[0].place.as_str(), &blocks[0].rule), ("a.md:2", &Rule::Run(Numbers::Exact)));
        assert_eq!(commands(&blocks[0].text), ["a b", "c"]);
    }

    #[test]
    fn results_of_commands_are_under_target() {
        let commands = ["conche run a.toml -o target/a", "conche get x -o b && conche report target/a -o target/../c"];
        assert_eq!(results(&commands), ["target/a"]);
    }

    #[test]
    fn background_commands_have_time_to_start() {
        assert!(script(&["a &", "b"]).ends_with("\na &\nsleep 1\nb\necho\n"));
        assert!(failing(&["a &", "b"]).ends_with("\na &\nsleep 1\nif b; then exit 1; fi\ntrue\n"));
    }

    #[test]
    fn commands_that_shall_fail_and_do_not_are_a_failure() {
        let project = Project::find().expect("a checkout");
        let run = |commands: &[&str]| Command::new("bash", ["-c", &failing(commands)]).output(&project);
        assert_eq!(run(&["sh -c 'echo a; echo b >&2; exit 4'", "false"]).expect("both fail"), "a\nb\n");
        assert!(run(&["false", "true"]).is_err());
    }

    #[test]
    fn a_line_that_no_command_prints_is_found() {
        let unprinted = |shown, printed| unprinted(shown, printed, Numbers::Exact);
        assert_eq!(unprinted("$ a\n\none\nlong and …\n", "long and more\none\n"), None);
        assert_eq!(unprinted("$ a\n…\na … c … e\n", "a b c d e\n"), None);
        assert_eq!(unprinted("$ a\none\ntwo\n", "one\ntwo more\n"), Some("two"));
        assert_eq!(unprinted("a … c\n", "a b\n"), Some("a … c"));
        assert_eq!(unprinted("1 s\n", "2 s\n"), Some("1 s"));
    }

    #[test]
    fn numbers_that_vary_match_others_but_words_do_not() {
        let unprinted = |shown, printed| unprinted(shown, printed, Numbers::Vary);
        assert_eq!(unprinted("> 0.009 s  CON GET [0xdd43]\n────\n", "> 12.0 s CON GET [0x1]\n──────\n"), None);
        assert_eq!(unprinted("1 request\n", "2 requests\n"), Some("1 request"));
    }

    #[test]
    fn quotes_are_left_to_tidy() {
        assert_eq!(rule("<!-- ci: same as a/b.rs:c -->").expect("known"), Rule::Quote);
    }
}

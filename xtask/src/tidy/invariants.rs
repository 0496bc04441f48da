//! Checks product code for constructs that would make conche nondeterministic or less portable.
//!
//! | crate | must not contain |
//! |---|---|
//! | conche-cc, conche-proto | floating point, `std::`, clocks, random sources |
//! | conche-netsim | clocks, random sources, `std::env`, inexact functions of `f64` |

use crate::project::{Finding, TextFile};
use crate::source::{self, Kind, Token};

/// Names that read a clock or the system's randomness, or whose output changes between versions.
const SOURCES: &str = "\
    SystemTime UNIX_EPOCH thread_rng ThreadRng OsRng StdRng SmallRng getrandom from_entropy \
    from_os_rng";

/// Methods of floating-point numbers whose last bit depends on the platform's libm.
const INEXACT: [&str; 16] = [
    "ln", "ln_1p", "log", "log2", "log10", "exp", "exp2", "exp_m1", "powf", "sin", "cos", "tan", "tanh", "cbrt",
    "hypot", "atan2",
];

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "rs" && !file.is_test_code()) {
        let crate_name = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        let Some((crate_name @ ("conche-cc" | "conche-proto" | "conche-netsim"), _)) = crate_name else { continue };
        let Some(tokens) = source::tokens_outside_tests(&file.text) else {
            findings.push(Finding::new(&file.path, 0, "this is no Rust"));
            continue;
        };
        for at in 0..tokens.len() {
            let wrong = match crate_name {
                "conche-netsim" => outside_influence(&tokens, at).or_else(|| inexact(&tokens, at)),
                _ => outside_influence(&tokens, at).or_else(|| float(&tokens[at])).or_else(|| standard(&tokens, at)),
            };
            if let Some(wrong) = wrong {
                let message = format!("{} in {crate_name}: {wrong}", tokens[at].text);
                findings.push(Finding::new(&file.path, tokens[at].line, message));
            }
        }
    }
    findings
}

fn outside_influence(tokens: &[Token], at: usize) -> Option<&'static str> {
    let token = &tokens[at];
    let forbidden = match token.text.as_str() {
        "env" => preceded_by_path(tokens, at),
        "now" => at >= 3 && source::matches(&tokens[at - 3..at], &["Instant", ":", ":"]),
        name => SOURCES.split_whitespace().any(|source| source == name),
    };
    (forbidden && token.kind == Kind::Identifier).then_some("time and randomness come in as arguments")
}

fn float(token: &Token) -> Option<&'static str> {
    let text = token.text.as_str();
    let found = match token.kind {
        Kind::Identifier => matches!(text, "f32" | "f64"),
        Kind::Literal => {
            let number = text.starts_with(|first: char| first.is_ascii_digit());
            let radix = ["0x", "0b", "0o"].iter().any(|prefix| text.starts_with(prefix));
            number && !radix && (text.contains('.') || text.ends_with("f32") || text.ends_with("f64"))
        }
        Kind::Punctuation => false,
    };
    found.then_some("compute in integers, so that every machine gets the same result")
}

fn standard(tokens: &[Token], at: usize) -> Option<&'static str> {
    let path = source::starts_with(&tokens[at..], &["std", ":", ":"]);
    let linked = at > 0 && tokens[at].text == "std" && tokens[at - 1].text == "crate";
    (path || linked).then_some("this crate is no_std; use core or alloc")
}

fn inexact(tokens: &[Token], at: usize) -> Option<&'static str> {
    let call = tokens.get(at + 1).is_some_and(|next| next.text == "(");
    let method = at > 0 && tokens[at - 1].text == "." || of_float(tokens, at);
    let found = call && method && INEXACT.contains(&tokens[at].text.as_str());
    found.then_some("its last bit depends on the machine; use integers, or the libm crate")
}

fn of_float(tokens: &[Token], at: usize) -> bool {
    at >= 3 && matches!(tokens[at - 3].text.as_str(), "f32" | "f64") && preceded_by_path(tokens, at)
}

fn preceded_by_path(tokens: &[Token], at: usize) -> bool {
    at >= 2 && source::matches(&tokens[at - 2..at], &[":", ":"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    fn found(path: &str, text: &str) -> usize {
        check(&[fixture(path, text)]).len()
    }

    #[test]
    fn floating_point_is_refused_in_controllers_and_protocol() {
        for path in ["crates/conche-cc/src/a.rs", "crates/conche-proto/src/b/a.rs"] {
            assert_eq!(found(path, "fn a(x: f64) {}"), 1);
            assert_eq!(found(path, "const A: u8 = (1.5 * 2f32) as u8;"), 2);
            assert_eq!(found(path, "fn a(x: u64) -> u64 { x.1 + 0x1f32 } // f64"), 0);
        }
    }

    #[test]
    fn std_is_refused_where_the_crate_is_no_std() {
        assert_eq!(found("crates/conche-proto/src/a.rs", "use std::vec::Vec;"), 1);
        assert_eq!(found("crates/conche-proto/src/lib.rs", "extern crate std;"), 1);
        assert_eq!(found("crates/conche-netsim/src/a.rs", "use std::vec::Vec;"), 0);
        assert_eq!(found("crates/conche-proto/src/a.rs", "#[cfg(test)] mod tests { use std::vec::Vec; }"), 0);
    }

    #[test]
    fn clocks_random_sources_and_the_environment_are_refused() {
        for text in ["Instant::now()", "SystemTime::UNIX_EPOCH", "rand::thread_rng()", "std::env::var(x)"] {
            let text = format!("fn a() {{ {text}; }}");
            assert!(found("crates/conche-netsim/src/a.rs", &text) > 0, "{text}");
            assert_eq!(found("crates/conche/src/a.rs", &text), 0, "{text}");
        }
        assert_eq!(found("crates/conche-netsim/src/a.rs", "fn a(now: Instant) { env(now) }"), 0);
    }

    #[test]
    fn functions_that_differ_between_machines_are_refused_in_the_simulator() {
        assert_eq!(found("crates/conche-netsim/src/a.rs", "fn a(x: f64) { x.ln(); f64::exp(x); x.sqrt(); }"), 2);
    }

    #[test]
    fn test_code_is_free() {
        assert_eq!(found("crates/conche-cc/src/a/tests.rs", "fn a(x: f64) {}"), 0);
        assert_eq!(found("crates/conche-cc/benches/a.rs", "fn a(x: f64) {}"), 0);
    }
}

//! Checks that protocol, simulator, lab and relay do not iterate over hash maps.
//!
//! Maps and sets are found by their declaration in the same file (`name: HashMap<…>`, `let name =
//! HashMap::new()`). If the order is irrelevant, as in a sum, a comment on the line or the one
//! above states why: `// order-free: why`.

use crate::project::{Finding, TextFile};
use crate::source::{self, Kind, Token};

/// Directories whose results must not depend on an arbitrary order.
const CRATES: [&str; 5] = [
    "crates/conche-proto/src/",
    "crates/conche-netsim/src/",
    "crates/conche-scenario/src/",
    "crates/conche-lab/src/",
    "crates/conche-cli/src/relay/",
];

const WALKS: &str = "\
    iter iter_mut keys values values_mut into_iter into_keys into_values drain retain extract_if";

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "rs" && !file.is_test_code()) {
        if CRATES.iter().any(|directory| file.path.starts_with(directory)) {
            check_file(file, &mut findings);
        }
    }
    findings
}

fn check_file(file: &TextFile, findings: &mut Vec<Finding>) {
    let Some(tokens) = source::tokens_outside_tests(&file.text) else { return };
    let lines: Vec<_> = file.text.lines().collect();
    let names = hashed_names(&tokens);
    for (at, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Identifier || !names.contains(&token.text.as_str()) || !is_walk(&tokens, at) {
            continue;
        }
        let excused = [token.line, token.line - 1]
            .iter()
            .filter_map(|line| lines.get(line.checked_sub(1)?))
            .any(|line| line.contains("// order-free: "));
        if !excused {
            let message = format!(
                "walks over the hash map `{}`, whose order no one chose; use a BTreeMap, slab or Vec, or say `// order-free: why`",
                token.text
            );
            findings.push(Finding::new(&file.path, token.line, message));
        }
    }
}

/// Returns names declared as a hash map or set.
fn hashed_names(tokens: &[Token]) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token.text.as_str(), "HashMap" | "HashSet") {
            names.extend(declared_before(&tokens[..at]));
        }
    }
    names
}

/// Returns the name declared where `tokens` end in `name:` or `name =`, followed by a path,
/// wrappers or `&`.
fn declared_before(tokens: &[Token]) -> Option<&str> {
    let mut at = tokens.len();
    while at >= 2 {
        let (mark, before) = (&tokens[at - 1], &tokens[at - 2]);
        match mark.text.as_str() {
            ":" if before.text == ":" => at -= 2,
            ":" | "=" if before.kind == Kind::Identifier => return Some(&before.text),
            "<" | "&" | "mut" => at -= 1,
            _ if mark.kind == Kind::Identifier => at -= 1,
            _ => return None,
        }
    }
    None
}

/// Whether this is `name.iter()` or similar, or `in &name {`.
fn is_walk(tokens: &[Token], at: usize) -> bool {
    let next = |n: usize| tokens.get(at + n).map_or("", |token| token.text.as_str());
    if next(1) == "." && WALKS.split_whitespace().any(|walk| walk == next(2)) && next(3) == "(" {
        return true;
    }
    let mut before = tokens[..at].iter().rev().map(|token| token.text.as_str());
    next(1) == "{" && before.find(|text| !matches!(*text, "." | "self" | "&" | "mut")) == Some("in")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    fn found(text: &str) -> usize {
        check(&[fixture("crates/conche-netsim/src/a.rs", text)]).len()
    }

    #[test]
    fn walking_over_a_hash_map_is_refused() {
        assert_eq!(found("struct A { m: std::collections::HashMap<u8, u8> }\nfn f(a: &A) { a.m.values(); }"), 1);
        assert_eq!(found("fn f() { let mut s = HashSet::new(); for x in &s { } }"), 1);
        assert_eq!(found("fn f(m: &mut HashMap<u8, u8>) { m.retain(|_, v| *v > 0); }"), 1);
        assert_eq!(found("struct A { m: HashMap<u8, u8> }\nimpl A { fn f(&self) { for x in &self.m { } } }"), 1);
    }

    #[test]
    fn looking_up_and_other_containers_are_fine() {
        assert_eq!(found("fn f(m: &HashMap<u8, u8>, v: &Vec<u8>) { m.get(&1); v.iter(); }"), 0);
        assert_eq!(found("fn f(m: &BTreeMap<u8, u8>) { for x in m { } }"), 0);
    }

    #[test]
    fn a_reason_excuses_a_walk() {
        assert_eq!(found("fn f(m: &HashMap<u8, u8>) {\n// order-free: a sum\nm.values().sum() }"), 0);
    }

    #[test]
    fn crates_without_the_promise_are_not_checked() {
        let text = "fn f(m: &HashMap<u8, u8>) { m.iter(); }";
        assert_eq!(check(&[fixture("crates/conche-cli/src/a.rs", text)]), []);
    }
}

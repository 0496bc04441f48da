//! The requirements that tests cite: `// RFC 7252 §4.2 (Q08, Q10)` directly above a test function,
//! on it or in it.

use regex_lite::Regex;

use crate::project::{Finding, TextFile};
use crate::source;

/// A test that cites a requirement.
#[derive(Debug, PartialEq, Eq)]
pub struct Citation {
    /// ID of the requirement, such as `Q08`.
    pub id: String,
    /// RFC and section in the comment, such as `RFC 7252 §4.2`.
    pub source: String,
    /// File of the test.
    pub path: String,
    /// Line of the comment.
    pub line: usize,
    /// Name of the test function.
    pub test: String,
}

/// Collects all citations in the crates' tests, and findings about malformed ones.
pub fn collect(files: &[TextFile]) -> (Vec<Citation>, Vec<Finding>) {
    let (mut citations, mut findings) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.path.starts_with("crates/") && file.extension() == "rs") {
        collect_file(file, &mut citations, &mut findings);
    }
    (citations, findings)
}

fn collect_file(file: &TextFile, citations: &mut Vec<Citation>, findings: &mut Vec<Finding>) {
    let cited = Regex::new(r"(?:RFC (\d+) )?§(\d+(?:\.\d+)*) \((Q\d+(?:, Q\d+)*)\)").expect("a constant pattern");
    let id = Regex::new(r"\bQ\d{2,3}\b").expect("a constant pattern");
    let Some(tokens) = source::tokens(&file.text) else { return };
    let lines: Vec<_> = file.text.lines().collect();
    for function in source::test_functions(&tokens) {
        let first = first_line_with_comments(&lines, function.first_line);
        for number in first..=function.last_line {
            let Some(comment) = lines.get(number - 1).and_then(|line| comment(line)) else { continue };
            let before = citations.len();
            // Several sections of one RFC name it once.
            let mut rfc = "7252";
            for found in cited.captures_iter(comment) {
                rfc = found.get(1).map_or(rfc, |number| number.as_str());
                citations.extend(found[3].split(", ").map(|id| Citation {
                    id: id.to_owned(),
                    source: format!("RFC {rfc} §{}", &found[2]),
                    path: file.path.clone(),
                    line: number,
                    test: function.name.clone(),
                }));
            }
            if id.find_iter(comment).count() != citations.len() - before {
                let message = "names a requirement in a form that does not count; write `// RFC 7252 §4.2 (Q08, Q10)`";
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
}

/// Returns the first line of the comments directly above line `first`.
fn first_line_with_comments(lines: &[&str], first: usize) -> usize {
    let above = lines[..first - 1].iter().rev();
    first - above.take_while(|line| line.trim_start().starts_with("//")).count()
}

fn comment(line: &str) -> Option<&str> {
    line.find("//").map(|start| &line[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    fn of(text: &str) -> (Vec<String>, usize) {
        let (citations, findings) = collect(&[fixture("crates/a/src/b.rs", text)]);
        (citations.iter().map(|one| format!("{} {} {}", one.id, one.source, one.test)).collect(), findings.len())
    }

    #[test]
    fn comments_above_on_and_in_a_test_count() {
        let text =
            "/// T.\n// RFC 7252 §4.2 (Q08, Q10)\n#[test]\n// RFC 7252 §5.3.1 (Q66)\nfn a() {\n    // §4.4 (Q24)\n}\n";
        assert_eq!(
            of(text),
            (
                ["Q08 RFC 7252 §4.2 a", "Q10 RFC 7252 §4.2 a", "Q66 RFC 7252 §5.3.1 a", "Q24 RFC 7252 §4.4 a"]
                    .map(str::to_owned)
                    .to_vec(),
                0
            )
        );
    }

    #[test]
    fn the_rfc_is_the_last_one_that_the_comment_names() {
        let text = "// RFC 7641 §3.2 (Q81), §4.2 (Q83); RFC 7959 §2.4 (Q120)\n#[test]\nfn a() {}\n";
        assert_eq!(of(text).0, ["Q81 RFC 7641 §3.2 a", "Q83 RFC 7641 §4.2 a", "Q120 RFC 7959 §2.4 a"]);
    }

    #[test]
    fn comments_elsewhere_do_not_count() {
        assert_eq!(of("// RFC 7252 §4.2 (Q08)\nfn a() {}\n// §4.2 (Q10)\n\n#[test]\nfn b() {}\n"), (Vec::new(), 0));
    }

    #[test]
    fn tests_in_proptest_blocks_count() {
        let text = "proptest! {\n    // RFC 7252 §4.4 (Q24)\n    #[test]\n    fn a(x in 0..1u8) {}\n}\n";
        assert_eq!(of(text), (vec!["Q24 RFC 7252 §4.4 a".to_owned()], 0));
    }

    #[test]
    fn a_form_that_would_not_count_is_refused() {
        assert_eq!(of("// Q08\n#[test]\nfn a() {}\n"), (Vec::new(), 1));
        assert_eq!(of("// RFC 7252 §4.2 (Q08-Q10)\n#[test]\nfn a() {}\n"), (Vec::new(), 1));
    }
}

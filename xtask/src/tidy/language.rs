//! Checks the language of comments and Markdown: indirect phrases are rare, and terms of the field
//! stand where an invented one stood before.

use regex_lite::Regex;

use crate::project::{Finding, TextFile};

/// Phrases that hide the subject of a sentence. A few are good English; many make a text a riddle.
const INDIRECT: [&str; 10] = [
    r"\bwhat(ever)? (is|are|has|have|was|were|comes?|came|goes|leaves?|waits?|follows?|happens?|it|they|to|a|an|the|an?other|there|becomes|does|do|can|else)\b",
    r"\b(who(ever)?|whom|whose|nobody|somebody|no one)\b",
    r"\b(of|by|from|to|in|for|with|on|at|under|behind|over|after|before) (which|whom|what)\b",
    r"\b(told|tells?|telling|says?|said|heard?|hears)\b",
    r"\b(has|have|had|having) ((the|a|an|its|their|each|every|all|it|them) )?[\w`:]+ (be|go|do|wait|leave|come|say|run|begin|give|take|have|made|done|sent)\b",
    r"\b(so|as) (many|much|often|long|far|soon|well) ",
    r"\b(that|those) (of|in|to|from|with|at)\b",
    r"\bf(ind|inds|ound|inding) out\b|\b(known of|is known|gone on|goes on|go on)\b",
    r"\bas (it|they|he) (is|are|was|were|does|do|did)\b",
    r"\bthere (is|are|was|were) (no|none|nothing|one|what)\b",
];

/// A file may have two, and one more for this many words.
const WORDS_PER_PHRASE: usize = 200;

/// Terms of earlier texts, and the term to write.
const REPLACED: [(&str, &str); 8] = [
    (r"\bin vain\b", "spurious or unnecessary retransmission"),
    (r"\bneedless cop(y|ies)\b", "unnecessary retransmission"),
    (r"\bstrangers?\b", "unverified address, or unauthenticated client"),
    (r"\bvouch(es|ed)?\b", "authenticate"),
    (r"\binquir(y|ies)\b", "group request"),
    (r"\b(found|find|finds) out\b", "path state, peer state, measures"),
    (r"\bcop(y|ies) of (a |the )?questions?\b", "retransmission"),
    (r"\bkeys that both ends agree on\b", "EDHOC key exchange"),
];

pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let pattern = |text: &str| Regex::new(&format!("(?i){text}")).expect("the pattern is a constant");
    let indirect = INDIRECT.map(pattern);
    let replaced = REPLACED.map(|(term, instead)| (pattern(term), instead));
    let markup = Regex::new(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|https?://\S+").expect("the pattern is a constant");
    let mut findings = Vec::new();
    for file in files {
        let (mut words, mut phrases) = (0, Vec::new());
        for (number, text) in prose(file) {
            let text = markup.replace_all(text, " x ");
            words += text.split(|c: char| !c.is_alphabetic() && c != '\'').filter(|word| !word.is_empty()).count();
            for pattern in &indirect {
                phrases.extend(pattern.find_iter(&text).map(|found| (number, found.as_str().trim().to_owned())));
            }
            for (pattern, instead) in &replaced {
                if let Some(found) = pattern.find(&text) {
                    let message = format!("\"{}\": write {instead}", found.as_str());
                    findings.push(Finding::new(&file.path, number, message));
                }
            }
        }
        let most = 2 + words / WORDS_PER_PHRASE;
        if phrases.len() > most {
            let listed: Vec<_> = phrases.iter().map(|(number, phrase)| format!("{number} \"{phrase}\"")).collect();
            let count = phrases.len();
            let message = format!(
                "{count} indirect phrases, at most {most} in {words} words: name the subject. Lines {}",
                listed.join(", ")
            );
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    findings
}

/// Returns comments and Markdown outside of code blocks, with their line numbers.
fn prose(file: &TextFile) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(file.text.lines()).filter_map(move |(number, line)| {
        let text = match file.extension() {
            "md" => Some(line),
            "rs" | "c" | "h" | "java" | "js" | "go" => comment(line),
            "py" | "toml" | "sh" => line.trim_start().strip_prefix('#').filter(|text| !text.starts_with('!')),
            _ => None,
        };
        let Some(text) = text else {
            in_code = false;
            return None;
        };
        if text.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then_some((number, text))
    })
}

fn comment(line: &str) -> Option<&str> {
    let start = if line.trim_start().starts_with("//") { line.find("//") } else { line.find(" // ").map(|at| at + 1) };
    start.map(|at| line[at + 2..].trim_start_matches(['/', '!']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    const RIDDLE: &str = "What is full is an error. Nobody is told. Those of which it is known wait.";

    #[test]
    fn indirect_text_is_rejected_with_its_lines() {
        let findings = check(&[fixture("a.md", &format!("# A\n\n{RIDDLE}\n"))]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("3 \"What is\""), "{}", findings[0]);
    }

    #[test]
    fn code_blocks_and_code_do_not_count() {
        let markdown = format!("```text\n{RIDDLE}\n```\n`{RIDDLE}`\n");
        let rust = format!("//! A.\nconst A: &str = \"{RIDDLE}\";\n");
        assert_eq!(check(&[fixture("a.md", &markdown), fixture("a.rs", &rust)]), []);
    }

    #[test]
    fn comments_count() {
        let findings = check(&[fixture("a.rs", &format!("//! A.\nlet a = 1; // {RIDDLE}\n"))]);
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn a_long_text_may_have_more() {
        let text = format!("{RIDDLE} {}", "word ".repeat(WORDS_PER_PHRASE * 4));
        assert_eq!(check(&[fixture("a.md", &text)]), []);
    }

    #[test]
    fn a_replaced_term_is_rejected_with_the_term_to_write() {
        let findings = check(&[fixture("a.toml", "# retransmitted in vain\n")]);
        assert_eq!(findings[0].to_string(), "a.toml:1: \"in vain\": write spurious or unnecessary retransmission");
    }
}

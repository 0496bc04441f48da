//! Rust files as lists of tokens with line numbers, optionally without test code.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
    pub kind: Kind,
}

const GATE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Or keyword.
    Identifier,
    Literal,
    Punctuation,
}

/// `None` if it is not Rust.
pub fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut all = Vec::new();
    flatten(text.parse().ok()?, &mut all);
    Some(all)
}

/// Without items under `#[cfg(test)]`.
pub fn tokens_outside_tests(text: &str) -> Option<Vec<Token>> {
    let all = tokens(text)?;
    if starts_with(&all, &["#", "!", "[", "cfg", "(", "test", ")", "]"]) {
        return Some(Vec::new());
    }
    let mut kept = Vec::new();
    let mut rest = all.into_iter();
    while let Some(token) = rest.next() {
        kept.push(token);
        if ends_with(&kept, &GATE) {
            kept.truncate(kept.len() - GATE.len());
            skip_item(&mut rest);
        }
    }
    Some(kept)
}

/// Returns the names of the modules declared by `#[cfg(test)] mod …;`.
pub fn test_modules(tokens: &[Token]) -> Vec<&str> {
    let declarations = tokens.windows(GATE.len() + 3).filter(|window| {
        let (gate, item) = window.split_at(GATE.len());
        matches(gate, &GATE) && item[0].text == "mod" && item[2].text == ";"
    });
    declarations.map(|window| window[GATE.len() + 1].text.as_str()).collect()
}

pub fn matches(tokens: &[Token], pattern: &[&str]) -> bool {
    tokens.len() == pattern.len() && tokens.iter().zip(pattern).all(|(token, text)| token.text == *text)
}

/// In a module or in a `proptest!` block.
#[derive(Debug, PartialEq, Eq)]
pub struct TestFunction {
    pub name: String,
    pub first_line: usize,
    pub last_line: usize,
}

pub fn starts_with(tokens: &[Token], pattern: &[&str]) -> bool {
    tokens.get(..pattern.len()).is_some_and(|start| matches(start, pattern))
}

/// Returns the functions marked `#[test]`, `#[tokio::test]` or similar.
pub fn test_functions(tokens: &[Token]) -> Vec<TestFunction> {
    let mut functions = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(after) = test_attribute(&tokens[at..])
            && let Some(function) = function_after(&tokens[at..], after)
        {
            functions.push(function);
        }
        at += 1;
    }
    functions
}

fn test_attribute(tokens: &[Token]) -> Option<usize> {
    if !starts_with(tokens, &["#", "["]) {
        return None;
    }
    let end = tokens.iter().position(|token| token.text == "]")?;
    let path_end = tokens[2..end].iter().position(|token| token.text == "(").map_or(end, |open| open + 2);
    (tokens[path_end - 1].text == "test").then_some(end + 1)
}

fn function_after(tokens: &[Token], after: usize) -> Option<TestFunction> {
    let keyword = after + tokens[after..].iter().position(|token| token.text == "fn")?;
    // Only attributes and qualifiers may come between.
    if tokens[after..keyword].iter().any(|token| token.text == "{" || token.text == ";") {
        return None;
    }
    let mut depth = 0_usize;
    for token in &tokens[keyword..] {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => {
                return Some(TestFunction {
                    name: tokens.get(keyword + 1)?.text.clone(),
                    first_line: tokens[0].line,
                    last_line: token.line,
                });
            }
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

fn flatten(stream: TokenStream, all: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(name) => all.push(Token { text: name.to_string(), line, kind: Kind::Identifier }),
            TokenTree::Literal(literal) => all.push(Token { text: literal.to_string(), line, kind: Kind::Literal }),
            TokenTree::Punct(mark) => {
                all.push(Token { text: mark.as_char().to_string(), line, kind: Kind::Punctuation });
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let last = group.span_close().end().line;
                all.push(Token { text: open.to_owned(), line, kind: Kind::Punctuation });
                flatten(group.stream(), all);
                all.push(Token { text: close.to_owned(), line: last, kind: Kind::Punctuation });
            }
        }
    }
}

fn ends_with(tokens: &[Token], pattern: &[&str]) -> bool {
    tokens.len() >= pattern.len() && matches(&tokens[tokens.len() - pattern.len()..], pattern)
}

/// Consumes an item: up to its `;`, or to the end of its first braces.
fn skip_item(rest: &mut impl Iterator<Item = Token>) {
    let mut depth = 0_usize;
    for token in rest {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" if depth == 1 => return,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tokens: &[Token]) -> Vec<&str> {
        tokens.iter().filter(|token| token.kind == Kind::Identifier).map(|token| token.text.as_str()).collect()
    }

    #[test]
    fn comments_and_strings_are_no_identifiers() {
        let tokens = tokens("// f64\nlet a = \"f64\"; /* f64 */").expect("lexes");
        assert_eq!(names(&tokens), ["let", "a"]);
    }

    #[test]
    fn test_modules_are_removed_and_later_code_stays() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c(); } }\n#[cfg(test)] extern crate std;\nfn d() {}";
        assert_eq!(names(&tokens_outside_tests(text).expect("lexes")), ["fn", "a", "fn", "d"]);
    }

    #[test]
    fn a_gate_that_is_more_than_test_takes_nothing_out() {
        let text = "#[cfg(any(test, fuzzing))] fn a() {}";
        assert!(names(&tokens_outside_tests(text).expect("lexes")).contains(&"a"));
    }

    #[test]
    fn test_functions_are_found_in_modules_and_in_proptest_blocks() {
        let text = "mod tests {\n#[test]\n#[allow(x)]\nfn one() {\n}\nfn helper() {}\n}\n\
                    proptest! {\n#[test]\nfn two(a in 0..1u8) { if a { b } }\n}\n#[tokio::test(flavor = \"x\")]\nasync fn three() {}";
        let tokens = tokens(text).expect("lexes");
        let found = test_functions(&tokens);
        let names: Vec<_> = found.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "three"]);
        assert_eq!((found[0].first_line, found[0].last_line), (2, 5));
    }
}

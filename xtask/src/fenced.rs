//! Fenced blocks of Markdown.

/// A fenced block whose fence is not indented.
pub struct FencedBlock<'a> {
    /// Line of the opening fence, from 1.
    pub line: usize,
    /// What follows the opening fence.
    pub language: &'a str,
    /// The line before the opening fence.
    pub before: &'a str,
    pub body: Vec<&'a str>,
}

pub fn blocks(text: &str) -> impl Iterator<Item = FencedBlock<'_>> {
    let mut lines = (1..).zip(text.lines());
    let mut before = "";
    std::iter::from_fn(move || {
        loop {
            let (line, content) = lines.next()?;
            if let Some(language) = content.strip_prefix("```") {
                let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
                return Some(FencedBlock { line, language, before: std::mem::take(&mut before), body });
            }
            before = content;
        }
    })
}

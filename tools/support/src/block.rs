//! Generated parts of pages, between two comments that name the command that writes them.

use anyhow::{Context, Result};

/// The comments before and after it.
#[derive(Debug)]
pub struct Block([&'static str; 2]);

/// The claims on a paper's page.
pub const CLAIMS: Block =
    Block(["<!-- claims, written by `cargo xtask papers --pages DIR` -->\n", "<!-- end of claims -->"]);

/// The overview of all papers in the README.
pub const OVERVIEW: Block =
    Block(["<!-- papers, written by `cargo xtask papers --pages DIR` -->\n", "<!-- end of papers -->"]);

/// The comparison of controllers.
pub const COMPARISON: Block =
    Block(["<!-- comparison, written by `cargo xtask papers --pages DIR` -->\n", "<!-- end of comparison -->"]);

/// The performance comparison with other implementations.
pub const PEERS: Block =
    Block(["<!-- peers, written by `cargo xtask bench-peers --write` -->\n", "<!-- end of peers -->"]);

/// Other implementations over emulated networks.
pub const IMPLEMENTATIONS: Block = Block([
    "<!-- implementations, written by `cargo xtask implementations --write` -->\n",
    "<!-- end of implementations -->",
]);

/// Interoperation over emulated networks.
pub const INTEROPERATION: Block =
    Block(["<!-- interoperation, written by `cargo xtask interop --emulated` -->\n", "<!-- end of interoperation -->"]);

impl Block {
    /// Returns the text between the comments of a page.
    pub fn of<'a>(&self, page: &'a str) -> Result<&'a str> {
        Ok(self.around(page)?[1])
    }

    /// Replaces the text between the comments of a page.
    pub fn replaced(&self, page: &str, text: &str) -> Result<String> {
        let [before, _, behind] = self.around(page)?;
        let [begin, end] = self.0;
        Ok(format!("{before}{begin}{text}{end}{behind}"))
    }

    fn around<'a>(&self, page: &'a str) -> Result<[&'a str; 3]> {
        let [begin, end] = self.0;
        let missing = |comment: &str| format!("the comment `{}` is missing", comment.trim());
        let (before, rest) = page.split_once(begin).with_context(|| missing(begin))?;
        let (between, behind) = rest.split_once(end).with_context(|| missing(end))?;
        Ok([before, between, behind])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_all_around_its_block() {
        let page = format!("above\n{}old\n{}\nbelow\n", CLAIMS.0[0], CLAIMS.0[1]);
        let written = CLAIMS.replaced(&page, "new\n").expect("a block");
        assert_eq!(written, page.replace("old", "new"));
        assert_eq!(CLAIMS.of(&written).expect("a block"), "new\n");
    }

    #[test]
    fn a_page_without_one_of_the_comments_is_an_error_that_names_it() {
        for (page, missing) in [("nothing", CLAIMS.0[0]), (CLAIMS.0[0], CLAIMS.0[1])] {
            let error = CLAIMS.replaced(page, "").expect_err("no block").to_string();
            assert!(error.contains(missing.trim()), "{error}");
        }
    }
}

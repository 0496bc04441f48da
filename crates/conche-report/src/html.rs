//! Builds a page; text from files is escaped.

use std::fmt::{self, Write};

#[derive(Debug, Default)]
pub(crate) struct Html(String);

/// With one decimal.
#[derive(Clone, Copy)]
pub(crate) struct Px(pub(crate) f64);

impl Html {
    /// Adds trusted markup.
    pub(crate) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    pub(crate) fn write(&mut self, markup: fmt::Arguments<'_>) -> &mut Self {
        let _ = self.0.write_fmt(markup);
        self
    }

    /// Adds untrusted text, or a quoted attribute.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' => self.0.push(' '),
                // HTML does not allow control characters.
                other if other.is_control() => self.0.push('\u{fffd}'),
                other => self.0.push(other),
            }
        }
        self
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = (self.0 * 10.0).round() / 10.0;
        write!(f, "{}", if rounded == 0.0 { 0.0 } else { rounded })
    }
}

/// Formats a JSON string that is safe inside a `<script>`.
pub(crate) fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_file_becomes_markup() {
        let mut html = Html::default();
        html.raw("<b title=\"").text("\"><script>'&\u{1b}").raw("\">");
        assert_eq!(html.finish(), "<b title=\"&quot;&gt;&lt;script&gt;&#39;&amp;\u{fffd}\">");
        assert_eq!(json_text("</script>\""), "\"\\u003c/script>\\\"\"");
    }

    #[test]
    fn lengths_are_short() {
        assert_eq!([Px(1.25), Px(-0.01), Px(3.0)].map(|px| px.to_string()), ["1.3", "0", "3"]);
    }
}

//! A plot's data as CSV (RFC 4180), in a `<template>` that the page's script saves.

use crate::html::Html;

pub(crate) struct Csv<'a> {
    html: &'a mut Html,
    is_first: bool,
}

impl<'a> Csv<'a> {
    pub(crate) fn new(html: &'a mut Html) -> Self {
        html.raw("<template>");
        Self { html, is_first: true }
    }

    fn separate(&mut self) {
        if !self.is_first {
            self.html.raw(",");
        }
        self.is_first = false;
    }

    /// Adds a field, quoted if necessary.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.separate();
        if text.contains([',', '"']) {
            self.html.text(&format!("\"{}\"", text.replace('"', "\"\"")));
        } else {
            self.html.text(text);
        }
        self
    }

    pub(crate) fn columns(&mut self, names: &str) -> &mut Self {
        self.separate();
        self.html.raw(names);
        self
    }

    /// Adds a number, if any.
    pub(crate) fn number(&mut self, number: Option<f64>) -> &mut Self {
        self.separate();
        if let Some(number) = number.filter(|number| number.is_finite()) {
            self.html.write(format_args!("{number}"));
        }
        self
    }

    pub(crate) fn end(&mut self) {
        self.html.raw("\n");
        self.is_first = true;
    }

    pub(crate) fn finish(self) {
        self.html.raw("</template>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted_and_markup_is_escaped() {
        let mut html = Html::default();
        let mut csv = Csv::new(&mut html);
        csv.text("a, \"b\"").text("<c>").number(Some(0.5)).number(None).end();
        csv.columns("d,e").number(Some(f64::NAN)).end();
        csv.finish();
        assert_eq!(
            html.finish(),
            "<template>&quot;a, &quot;&quot;b&quot;&quot;&quot;,&lt;c&gt;,0.5,\nd,e,\n</template>"
        );
    }
}

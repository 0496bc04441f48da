//! How results are shown: which table or figure each value belongs to, tables, and what was published.

use serde::Deserialize;

/// A table or figure of a paper, or any group of values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What results call it. A value belongs to the first item that matches both its row and its column.
    pub name: String,
    /// What it shows.
    #[serde(default)]
    pub title: String,
    /// Patterns of rows, with `*` for anything. Default: all rows.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Patterns of columns. Default: none, for an item that values name themselves.
    #[serde(default)]
    pub columns: Vec<String>,
}

/// A table of text over the results.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Only values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// Only rows that match one of these patterns. Default: all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Only columns that match one of these patterns. Default: all.
    #[serde(default = "anything")]
    pub columns: Vec<String>,
    /// The names at the left: a heading and a template of the row's labels, of `{column}` too, and of `{label}`, which is
    /// what stands for `{}` in a column.
    pub names: Vec<Head>,
    /// Templates by which labels are read out of rows, where they are not the scenario's; a row that fits none is not shown.
    #[serde(default)]
    pub labels: Vec<String>,
    /// What is side by side: a template. Default: nothing.
    #[serde(default)]
    pub across: String,
    /// What is shown of each, as templates of columns. Without, the published value, the measured one, its deviation and
    /// its interval: such a table has a line for each value.
    #[serde(default)]
    pub cells: Vec<Head>,
    /// Remarks below.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A heading and a template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The heading.
    #[serde(default)]
    pub head: String,
    /// The template.
    pub show: String,
    /// Of a name, what is shown for rows that do not have its labels. Default: such rows are not shown.
    pub missing: Option<String>,
}

/// How near a value must be to what was published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Of the values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// In rows that match one of these patterns. Default: in all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// By so many per cent of the published value at most. Without, within the interval that was published with it.
    pub percent: Option<f64>,
}

/// Published values that parameters were fitted on; what comes out for all others is a prediction.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// In rows that match one of these patterns. Default: in all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
}

/// Why values are not as published.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The values of these items. Default: of all.
    #[serde(default)]
    pub items: Vec<String>,
    /// In rows that match one of these patterns. Default: in all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Why.
    pub text: String,
}

pub(super) fn anything() -> Vec<String> {
    vec!["*".to_owned()]
}

/// What distinguishes the schemes, shown beside what is measured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// The item of each scheme's bytes of state for a peer.
    pub item: String,
    /// The title of the table.
    pub title: String,
}

/// Whether a text matches a pattern, in which `*` stands for anything.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(after, &rest[at..]))
}

/// Whether a text matches one of these.
#[must_use]
pub fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

/// A template with `{name}` replaced by what `of` knows of it; `None` if it does not know one.
#[must_use]
pub fn filled<'a>(template: &str, of: impl Fn(&str) -> Option<std::borrow::Cow<'a, str>>) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) = after.split_once('}')?;
        text.push_str(before);
        text.push_str(&of(name)?);
        rest = behind;
    }
    text.push_str(rest);
    Some(text)
}

/// The labels in a text that a template made: what [`filled`] put in.
#[must_use]
pub fn parsed<'a>(template: &'a str, row: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    let mut labels = Vec::new();
    let (mut template, mut row) = (template, row);
    while let Some((literal, rest)) = template.split_once('{') {
        row = row.strip_prefix(literal)?;
        let (name, behind) = rest.split_once('}')?;
        let next = behind.split('{').next().unwrap_or_default();
        let end = if next.is_empty() { row.len() } else { row.find(next)? };
        labels.push((name, &row[..end]));
        (template, row) = (behind, &row[end..]);
    }
    (template == row && !labels.iter().any(|(_, label)| label.contains('/'))).then_some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_what_its_stars_stand_for() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("default/*/2500", "default/random/50/2500", true),
            ("default/*/2500", "default/random/50/25000", false),
            ("default/*", "default@a+b/random", false),
            ("*-fb*", "cocoa-fb1/x", true),
            ("fct_*_s", "fct_median_s", true),
            ("a", "b", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_template_is_filled_or_not_at_all() {
        let of = |name: &str| (name == "a").then_some("1".into());
        assert_eq!(filled("x{a}y{a}", of).as_deref(), Some("x1y1"));
        assert_eq!(filled("plain", of).as_deref(), Some("plain"));
        assert_eq!(filled("{a}{b}", of), None);
    }

    #[test]
    fn labels_are_read_out_of_a_row() {
        let template = "{scheme}/{workload}/{clients}";
        let expected = vec![("scheme", "a@b"), ("workload", "random"), ("clients", "400")];
        assert_eq!(parsed(template, "a@b/random/400"), Some(expected));
        assert_eq!(parsed(template, "a/random"), None);
        assert_eq!(parsed(template, "a/random/400/inf"), None);
    }
}

//! Items, tables, and published values.

use serde::Deserialize;

/// A table or figure of a paper, or another group of values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Name in results. A value belongs to the first item that matches its row and column.
    pub name: String,
    /// Title.
    #[serde(default)]
    pub title: String,
    /// Patterns of rows, with `*` as a wildcard.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Column patterns. Default: none; values name the item.
    #[serde(default)]
    pub columns: Vec<String>,
}

/// A table of text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Items of the values. Default: all.
    #[serde(default)]
    pub items: Vec<String>,
    /// Patterns of rows. Default: all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// Patterns of columns. Default: all.
    #[serde(default = "anything")]
    pub columns: Vec<String>,
    /// Columns of names: a heading and a template of row labels, `{column}`, and `{label}` (the
    /// text for `{}`).
    pub names: Vec<Head>,
    /// Templates that parse row labels, instead of the scenario's.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Template of the groups of columns.
    #[serde(default)]
    pub across: String,
    /// Templates of the columns per group. Default: a line per value with published and measured
    /// value, deviation and interval.
    #[serde(default)]
    pub cells: Vec<Head>,
    /// Notes below.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A heading and a template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Heading.
    #[serde(default)]
    pub head: String,
    /// Template.
    pub show: String,
    /// Text for rows without the template's labels. Default: they are hidden.
    pub missing: Option<String>,
}

/// The maximum deviation from published values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Items of the values. Default: all.
    #[serde(default)]
    pub items: Vec<String>,
    /// Patterns of rows. Default: all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// In per cent of the published value. Default: the published interval.
    pub percent: Option<f64>,
}

/// Published values that parameters were fitted on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// Items of the values. Default: all.
    #[serde(default)]
    pub items: Vec<String>,
    /// Patterns of rows. Default: all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
}

/// Why values differ from published ones.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Items of the values. Default: all.
    #[serde(default)]
    pub items: Vec<String>,
    /// Patterns of rows. Default: all.
    #[serde(default = "anything")]
    pub rows: Vec<String>,
    /// The reason.
    pub text: String,
}

pub(super) fn anything() -> Vec<String> {
    vec!["*".to_owned()]
}

/// Shows static properties of the schemes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Features {
    /// Item of the state bytes per peer.
    pub item: String,
    /// Title of the table.
    pub title: String,
}

/// Returns whether a text matches a pattern with `*`.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(after, &rest[at..]))
}

/// Returns whether a text matches any pattern.
#[must_use]
pub fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

/// Replaces each `{name}` of a template by the value of `of`; `None` if it has none.
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

/// Parses the labels from a text that [`filled`] made.
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
    fn stars_of_a_pattern_match_any_text() {
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

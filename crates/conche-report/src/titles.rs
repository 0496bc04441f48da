//! Titles such as `Median completion time of firmware, s`.

use conche_lab::scenario::{Statistic, Unit, Value, parsed};

use crate::study::Study;
use crate::unit::symbol;

/// Returns a column's definition, perhaps a template.
pub(crate) fn definition<'a>(study: &'a Study, item: &str, column: &str) -> Option<&'a Value> {
    let all = || study.sections().iter().flat_map(|section| &section.values);
    let is_column = |value: &&Value| {
        value.column == column || {
            let template = value.column.replace("{}", "{label}");
            value.column.contains("{}") && parsed(&template, column).is_some()
        }
    };
    let of_item = all().filter(|value| value.item.as_deref() == Some(item)).find(is_column);
    of_item.or_else(|| all().filter(|value| value.item.is_none()).find(is_column)).or_else(|| all().find(is_column))
}

/// Returns the words for a column without its unit.
pub(crate) fn words(study: &Study, item: &str, column: &str) -> String {
    match definition(study, item, column) {
        Some(value) if value.by.is_none() => of_value(value),
        _ => capitalised(&column.replace(['_', '{', '}'], " ").split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

/// Returns the words with the unit.
pub(crate) fn with_unit(words: String, unit: Unit) -> String {
    match symbol(unit) {
        "" => words,
        unit => format!("{words}, {unit}"),
    }
}

/// Returns the words for a column of any item without its unit, for the heads of tables.
pub(crate) fn of_column(study: &Study, column: &str) -> String {
    let unit = study.values.iter().find(|value| value.column == column).map(|value| value.unit);
    plain(study, "", column, unit.map(symbol).unwrap_or_default())
}

/// Returns the words for a column; of a column that the scenario does not define, its name without
/// the unit that it ends in.
pub(crate) fn plain(study: &Study, item: &str, column: &str, unit: &str) -> String {
    let words = words(study, item, column);
    match words.strip_suffix(unit).and_then(|rest| rest.strip_suffix(' ')) {
        Some(rest) if !unit.is_empty() => rest.to_owned(),
        _ => words,
    }
}

/// Returns the words as they stand inside a sentence: `RTO`, `mean RTO`, `Jain's fairness index`.
pub(crate) fn inline(words: &str) -> String {
    let mut characters = words.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() && !words.starts_with("Jain") => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => words.to_owned(),
    }
}

/// Returns the words for the sample of a column: `Completion time of firmware`.
pub(crate) fn of_sample(value: &Value) -> String {
    let noun = value.metric.properties().noun;
    let traffic = value.traffic.as_ref().map(|traffic| format!(" of {traffic}"));
    capitalised(&(noun.into_owned() + &traffic.unwrap_or_default()))
}

fn of_value(value: &Value) -> String {
    let noun = value.metric.properties().noun;
    let is_single = !value.metric.has_many();
    let words = match value.statistic {
        Statistic::Mean if is_single => noun.into_owned(),
        Statistic::Mean => format!("mean {noun}"),
        Statistic::Median => format!("median {noun}"),
        Statistic::Deviation => format!("standard deviation of {noun}"),
        Statistic::Sum => format!("{noun}, all runs"),
        Statistic::SumOf(runs) => format!("{noun}, as in {runs} runs"),
        Statistic::Percentile(percent) => match percent {
            0.0 => format!("minimum {noun}"),
            50.0 => format!("median {noun}"),
            100.0 => format!("maximum {noun}"),
            percent => format!("{percent}{} percentile of {noun}", suffix(percent)),
        },
    };
    let words = match &value.traffic {
        Some(traffic) => format!("{words} of {traffic}"),
        None => words,
    };
    capitalised(&words)
}

fn suffix(percent: f64) -> &'static str {
    let digits = percent.to_string();
    let ends = |with: &str, but: &str| digits.ends_with(with) && !digits.ends_with(but) && !digits.contains('.');
    match () {
        () if ends("1", "11") => "st",
        () if ends("2", "12") => "nd",
        () if ends("3", "13") => "rd",
        () => "th",
    }
}

fn capitalised(words: &str) -> String {
    let mut characters = words.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_statistic_metric_and_traffic() {
        let title = |toml: &str| of_value(&toml_value(toml));
        assert_eq!(
            title(r#"{"metric":"completion-time","statistic":{"percentile":50},"traffic":"firmware"}"#),
            "Median completion time of firmware"
        );
        assert_eq!(title(r#"{"metric":"completion-time"}"#), "Mean completion time");
        assert_eq!(
            title(r#"{"metric":"exchange-time","statistic":{"percentile":95}}"#),
            "95th percentile of time of an exchange"
        );
        assert_eq!(title(r#"{"metric":"rto","statistic":{"percentile":0}}"#), "Minimum RTO");
        assert_eq!(title(r#"{"metric":"copies"}"#), "Transmissions per run");
    }

    fn toml_value(json: &str) -> Value {
        let mut value: serde_json::Value = serde_json::from_str(json).expect("JSON");
        value["column"] = "c".into();
        serde_json::from_value(value).expect("a value")
    }

    #[test]
    fn ordinals_are_english() {
        assert_eq!([1.0, 2.0, 3.0, 11.0, 22.0, 95.0, 99.9].map(suffix), ["st", "nd", "rd", "th", "nd", "th", "th"]);
    }
}

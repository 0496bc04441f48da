//! Recorded values, one line `item,row,column,measured` each, in the order of the output.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Items that no paper shows: cells around its plots', and whole distributions of its mixed runs.
const UNRECORDED: [&str; 2] = ["grid", "mixed"];

/// The values of a paper by item, row and column.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recorded(Vec<(String, String)>);

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "scenario")]
    paper: String,
    item: String,
    row: String,
    column: String,
    measured: serde_json::Number,
}

/// Reads the values of each paper from the output of `conche reproduce --json`.
pub fn of_output(json: &str) -> Result<BTreeMap<String, Recorded>> {
    let mut papers = BTreeMap::<_, Recorded>::new();
    for line in json.lines() {
        let Line { paper, item, row, column, measured } =
            serde_json::from_str(line).with_context(|| format!("this is no figure: {line}"))?;
        if !UNRECORDED.contains(&item.as_str()) {
            papers.entry(paper).or_default().0.push((format!("{item},{row},{column}"), measured.to_string()));
        }
    }
    Ok(papers)
}

impl Recorded {
    /// Parses the output of [`Recorded::to_csv`].
    pub fn from_csv(text: &str) -> Result<Self> {
        let figures = text.lines().map(|line| {
            let (name, measured) = line.rsplit_once(',').with_context(|| format!("`{line}` has no comma"))?;
            Ok((name.to_owned(), measured.to_owned()))
        });
        Ok(Self(figures.collect::<Result<_>>()?))
    }

    pub fn to_csv(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (name, measured)| {
            let _ = writeln!(text, "{name},{measured}");
            text
        })
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Lists the differences to `now`, one line per value.
    pub fn moved(&self, now: &Self) -> Vec<String> {
        let index = |recorded: &Self| recorded.0.iter().cloned().collect::<BTreeMap<_, _>>();
        let (before, after) = (index(self), index(now));
        let gone =
            before.iter().filter(|(name, _)| !after.contains_key(*name)).map(|(name, _)| format!("{name}: gone"));
        let changed = after.iter().filter_map(|(name, new)| match before.get(name) {
            None => Some(format!("{name}: new, {new}")),
            Some(old) if old != new => Some(format!("{name}: {old} -> {new}{}", change(old, new))),
            Some(_) => None,
        });
        gone.chain(changed).collect()
    }
}

/// Formats the relative change, if defined.
fn change(old: &str, new: &str) -> String {
    match (old.parse::<f64>(), new.parse::<f64>()) {
        (Ok(old), Ok(new)) if old != 0.0 => format!(" ({:+.1} %)", 100.0 * (new / old - 1.0)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(item: &str, column: &str, measured: &str) -> String {
        format!(r#"{{"scenario":"p","item":"{item}","row":"a/b","column":"{column}","measured":{measured},"runs":2}}"#)
    }

    fn recorded(lines: &[String]) -> Recorded {
        of_output(&lines.join("\n")).expect("figures").remove("p").expect("the paper")
    }

    #[test]
    fn recorded_values_round_trip_without_items_of_no_paper() {
        let figures = recorded(&[line("fig1", "x", "1.50"), line("grid", "x", "2"), line("fig1", "y", "3")]);
        assert_eq!(figures.to_csv(), "fig1,a/b,x,1.5\nfig1,a/b,y,3\n");
        assert_eq!(Recorded::from_csv(&figures.to_csv()).expect("figures"), figures);
        assert_eq!(figures.moved(&figures), Vec::<String>::new());
    }

    #[test]
    fn each_changed_added_or_removed_value_is_listed() {
        let before = recorded(&[line("fig1", "x", "2"), line("fig1", "y", "3")]);
        let after = recorded(&[line("fig1", "x", "2.2"), line("fig1", "z", "4")]);
        let expected = ["fig1,a/b,y: gone", "fig1,a/b,x: 2 -> 2.2 (+10.0 %)", "fig1,a/b,z: new, 4"];
        assert_eq!(before.moved(&after), expected);
    }

    #[test]
    fn a_malformed_value_is_an_error() {
        assert!(of_output("not JSON").is_err());
        assert!(Recorded::from_csv("no comma").is_err());
    }
}

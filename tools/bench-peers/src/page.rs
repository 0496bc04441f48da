//! [`Page`]: tables with titles and conditions, merged with an earlier page.

use std::fmt::{self, Display, Formatter};

use clap::ValueEnum;

use crate::load::Load;
use crate::results::Doubt;

const TITLE: &str = "\n### ";

const CONDITIONS: &str = "Measured on ";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    conditions: String,
    sections: Vec<Section>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Section {
    title: String,
    conditions: String,
    text: String,
}

impl Page {
    pub fn new(conditions: String, tables: impl Iterator<Item = (Load, String)>) -> Self {
        let conditions = conditions.trim().to_owned();
        let section = |(load, text): (Load, String)| Section {
            title: load.title(),
            conditions: conditions.clone(),
            text: text.trim().to_owned(),
        };
        Self { sections: tables.map(section).collect(), conditions }
    }

    pub fn read(text: &str) -> Self {
        let without_marks = |text: &str| {
            let is_mark = |line: &&str| Doubt::ALL.into_iter().any(|doubt| *line == explained(doubt));
            text.lines().filter(|line| !is_mark(line)).collect::<Vec<_>>().join("\n").trim().to_owned()
        };
        let mut parts = format!("\n{text}");
        let sections = parts.split_off(parts.find(TITLE).unwrap_or(parts.len()));
        let conditions = parts.trim().to_owned();
        let sections = sections.split(TITLE).skip(1).map(|section| {
            let (title, text) = section.split_once('\n').unwrap_or((section, ""));
            let text = without_marks(text);
            let (own, text) = match text.split_once("\n\n").filter(|_| text.starts_with(CONDITIONS)) {
                Some((own, text)) => (own.to_owned(), text.trim().to_owned()),
                None => (conditions.clone(), text),
            };
            Section { title: title.trim().to_owned(), conditions: own, text }
        });
        Self { sections: sections.collect(), conditions }
    }

    /// Keeps tables of loads that were not measured again, with their conditions.
    pub fn over(mut self, earlier: &Self) -> Self {
        let own: Vec<_> = self.sections.iter().map(|section| section.title.clone()).collect();
        self.sections.extend(earlier.sections.iter().filter(|section| !own.contains(&section.title)).cloned());
        let place =
            |section: &Section| Load::value_variants().iter().copied().position(|load| load.title() == section.title);
        // Drops tables of loads that no longer exist.
        self.sections.retain(|section| place(section).is_some());
        self.sections.sort_by_key(place);
        // The most frequent conditions are stated once, above all tables.
        let count = |conditions: &str| self.sections.iter().filter(|section| section.conditions == conditions).count();
        if count(&earlier.conditions) > count(&self.conditions) {
            self.conditions.clone_from(&earlier.conditions);
        }
        self
    }

    pub fn lost(&self, earlier: &Self) -> Vec<String> {
        let here: Vec<_> = self.rows().collect();
        let lost = earlier.rows().filter(|row| !here.contains(row));
        lost.map(|(title, name)| format!("{name} in “{title}”")).collect()
    }

    fn rows(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sections.iter().flat_map(|section| {
            let rows = section.text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
            rows.skip(2).map(|name| (section.title.as_str(), name.trim()))
        })
    }
}

impl Display for Page {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.conditions)?;
        for Section { title, conditions, text } in &self.sections {
            writeln!(formatter, "{TITLE}{title}")?;
            if *conditions != self.conditions {
                writeln!(formatter, "\n{conditions}")?;
            }
            writeln!(formatter, "\n{text}")?;
        }
        let marked = |doubt: &Doubt| self.sections.iter().any(|section| section.text.contains(doubt.mark()));
        Doubt::ALL.into_iter().filter(marked).try_for_each(|doubt| writeln!(formatter, "\n{}", explained(doubt)))
    }
}

fn explained(doubt: Doubt) -> String {
    format!("{} {}", doubt.mark(), doubt.meaning())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&str]) -> String {
        let rows: String = rows.iter().map(|row| format!("| {row} |\n")).collect();
        format!("| server | requests/s |\n| ------ | ---------: |\n{rows}")
    }

    fn page(date: &str, tables: &[(Load, &[&str])]) -> Page {
        let tables = tables.iter().map(|(load, rows)| (*load, table(rows)));
        Page::new(format!("Measured on {date} with 2 cores.\nMedians.\n"), tables)
    }

    fn first() -> Page {
        page("2026-01-01", &[(Load::Many, &["conche | 3", "aiocoap | 2†"]), (Load::Blocks, &["conche | 4~"])])
    }

    #[test]
    fn a_written_page_is_read_back() {
        let merged = page("2026-01-02", &[(Load::Many, &["conche | 5"])]).over(&first());
        for page in [first(), merged] {
            assert_eq!(Page::read(&page.to_string()), page, "{page}");
        }
        assert_eq!(Page::read("").sections, []);
    }

    #[test]
    fn tables_of_other_loads_are_kept_with_their_measurement_conditions() {
        let merged = page("2026-01-02", &[(Load::Wide, &["conche | 5‡"])]).over(&first());
        let text = merged.to_string();
        let titles: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(TITLE.trim_start())).collect();
        assert_eq!(titles, [Load::Many, Load::Wide, Load::Blocks].map(Load::title));
        assert!(text.starts_with("Measured on 2026-01-01"), "what most have in common: {text}");
        assert_eq!(text.matches("Measured on").count(), 2, "{text}");
        assert_eq!(text.matches("Measured on 2026-01-02 with 2 cores.\nMedians.\n\n| server").count(), 1, "{text}");
        let marks: Vec<_> =
            text.lines().filter(|line| !line.starts_with('|') && line.contains(['~', '†', '‡'])).collect();
        assert_eq!(marks, Doubt::ALL.map(explained), "{text}");
        assert_eq!(merged.lost(&first()), [] as [String; 0]);
        let again = first().over(&merged);
        assert_eq!(again.to_string(), text, "the same tables");
    }

    #[test]
    fn rows_that_a_run_does_not_have_are_named() {
        let merged = page("2026-01-02", &[(Load::Many, &["conche | 5"])]).over(&first());
        assert_eq!(merged.lost(&first()), [format!("aiocoap in “{}”", Load::Many.title())]);
    }

    #[test]
    fn a_table_of_no_load_is_lost_and_named() {
        let earlier = Page::read(&first().to_string().replace(&Load::Blocks.title(), "A load of old"));
        let merged = page("2026-01-02", &[(Load::Many, &["conche | 5", "aiocoap | 1"])]).over(&earlier);
        assert_eq!(merged.lost(&earlier), ["conche in “A load of old”"]);
    }
}

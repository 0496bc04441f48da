//! Checks that data of tests and experiments states its origin: in a top-level `"source"` or
//! `"origin"` of a JSON file, in a `#` comment on the first line, or by name in a README.md beside
//! it or above.

use crate::project::{Finding, TextFile};

/// Extensions of data. Snapshots (`.snap`) state their test.
const DATA: [&str; 8] = ["json", "jsonl", "csv", "txt", "hex", "pcap", "pcapng", "tsv"];

/// Finds data files of crates and documents without a stated origin.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let data = files.iter().filter(|file| {
        DATA.contains(&file.extension()) && (file.path.starts_with("crates/") || file.path.starts_with("docs/"))
    });
    data.filter(|file| !states_origin(file) && !named_in_readme(file, files))
        .map(|file| {
            let message = "states no origin: add a top-level \"source\" (JSON), a `#` comment on the first line, or name it in a README.md beside it";
            Finding::new(&file.path, 0, message)
        })
        .collect()
}

fn states_origin(file: &TextFile) -> bool {
    if file.extension() != "json" {
        return file.text.starts_with('#');
    }
    let value: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(&file.text);
    value.is_ok_and(|object| ["source", "origin"].iter().any(|key| object.contains_key(*key)))
}

fn named_in_readme(file: &TextFile, files: &[TextFile]) -> bool {
    let mut directory = file.directory();
    // Excludes the crate's own README, which is for users.
    while directory.matches('/').count() >= 2 {
        let readme = format!("{directory}/README.md");
        let within = &file.path[directory.len() + 1..];
        let names = [within, within.split('/').next().unwrap_or(within)];
        if let Some(readme) = files.iter().find(|other| other.path == readme) {
            return names.iter().any(|name| readme.text.contains(name));
        }
        directory = directory.rsplit_once('/').map_or("", |(up, _)| up);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    #[test]
    fn data_without_an_origin_is_refused() {
        let files = [
            fixture("crates/a/tests/data/x.json", "{\"cases\": []}"),
            fixture("crates/a/tests/data/y.csv", "1,2\n"),
            fixture("crates/a/README.md", "x.json y.csv"),
        ];
        assert_eq!(check(&files).len(), 2);
    }

    #[test]
    fn an_origin_inside_or_in_a_readme_suffices() {
        let files = [
            fixture("crates/a/tests/data/x.json", "{\"source\": \"RFC 7252\"}"),
            fixture("crates/a/tests/data/y.csv", "# measured by z\n1,2\n"),
            fixture("crates/a/tests/data/z/1.hex", "00"),
            fixture("crates/a/tests/data/README.md", "`z/`: captured from libcoap"),
            fixture("crates/a/tests/snapshots/s.snap", "x"),
        ];
        assert_eq!(check(&files), []);
    }
}

//! Results as a table on the terminal, as JSON, and as docs/interop.md.

use std::fmt::Write;

use anyhow::Result;
use serde_json::json;

use super::case::Case;
use super::party::{Peer, Role};

/// How a case ended with a peer, in a role of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that must be seen was.
    Pass,
    /// Something was not, and this is it.
    Fail(String),
    /// It failed, as it is known to: the peer does otherwise.
    PeerDiffers(String),
    /// We cannot do it yet; it was not run.
    NotYet(String),
    /// A test in virtual time is it.
    VirtualTime(String),
    /// The peer cannot be made to do that; it was not run.
    NotApplicable(String),
}

impl Outcome {
    /// In a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "FAIL",
            Self::PeerDiffers(_) => "peer differs",
            Self::NotYet(_) => "not yet",
            Self::VirtualTime(_) => "virtual time",
            Self::NotApplicable(_) => "n/a",
        }
    }

    /// Why it is not a pass.
    pub fn note(&self) -> &str {
        match self {
            Self::Pass => "",
            Self::Fail(note)
            | Self::PeerDiffers(note)
            | Self::NotYet(note)
            | Self::VirtualTime(note)
            | Self::NotApplicable(note) => note,
        }
    }
}

/// The results of one column: a peer in a role of ours, a result for each case.
pub struct Column {
    /// The peer.
    pub peer: Peer,
    /// What we are.
    pub role: Role,
    /// In the order of the cases.
    pub outcomes: Vec<Outcome>,
}

impl Column {
    /// Its heading.
    fn title(&self) -> String {
        match (self.peer, self.role) {
            (Peer::Conche, _) => "both conche".to_owned(),
            (peer, Role::Client) => format!("server {}", peer.name()),
            (peer, Role::Server) => format!("client {}", peer.name()),
        }
    }

    fn count(&self, name: &str) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.name() == name).count()
    }
}

/// The names of results, in the order of the summary.
const NAMES: [&str; 6] = ["pass", "FAIL", "peer differs", "not yet", "virtual time", "n/a"];

/// A table, and a line for each column that says how many there are of what.
pub fn text(cases: &[Case], columns: &[Column]) -> String {
    let mut out = format!("{:<16}", "case");
    for column in columns {
        let _ = write!(out, "{:<20}", column.title());
    }
    out.push('\n');
    for (at, case) in cases.iter().enumerate() {
        let _ = write!(out, "{:<16}", case.id);
        for column in columns {
            let _ = write!(out, "{:<20}", column.outcomes[at].name());
        }
        let _ = writeln!(out, "{}", case.title);
    }
    out.push('\n');
    for column in columns {
        let counts: Vec<_> = NAMES.iter().map(|name| format!("{} {name}", column.count(name))).collect();
        let _ = writeln!(out, "{:<20}{}", column.title(), counts.join(", "));
    }
    out
}

/// An object with `schema` and `rows`.
pub fn json(cases: &[Case], columns: &[Column]) -> Result<String> {
    let mut rows = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        for column in columns {
            rows.push(json!({
                "case": case.id,
                "title": case.title,
                "peer": column.peer,
                "role": column.role,
                "result": column.outcomes[at].name(),
                "note": column.outcomes[at].note(),
            }));
        }
    }
    Ok(serde_json::to_string_pretty(&json!({ "schema": 1, "rows": rows }))?)
}

/// What stands above the tables of docs/interop.md.
const INTRODUCTION: &str = "# Interoperability

Written by `cargo xtask interop`; `cargo xtask interop --check` compares it. Each case of the ETSI and IRISA test
descriptions for CoAP over UDP is run over the loopback with conche in one role and another implementation in the other,
with a tap in between: what must be seen on the wire, and what the client must tell, is in [interop/cases](../interop/cases).
What a case is not expected to do, with whom, why, and what is seen instead, is in
[interop/exceptions.toml](../interop/exceptions.toml).

With both roles ours, most of these cases run in virtual time besides, over links that lose nothing, 10 % and 30 %, twenty
of each: `crates/conche-proto/tests/endpoint/interop`. There a case has to pass or to end with a failure that is told.

Peers: libcoap of Debian 12 (4.3.1), aiocoap 0.4.17, Californium 3.14.0, through the small programs in
[interop](../interop). \"Server libcoap\" means that conche is the client.

";

/// The document.
pub fn markdown(cases: &[Case], columns: &[Column]) -> String {
    let mut out = INTRODUCTION.to_owned();
    let titles: Vec<_> = columns.iter().map(Column::title).collect();
    let _ = writeln!(out, "| result | {} |\n|---|{}", titles.join(" | "), "---|".repeat(columns.len()));
    for name in NAMES {
        let counts: Vec<_> = columns.iter().map(|column| column.count(name).to_string()).collect();
        let _ = writeln!(out, "| {name} | {} |", counts.join(" | "));
    }
    let _ = writeln!(out, "\n| case | what | {} |\n|---|---|{}", titles.join(" | "), "---|".repeat(columns.len()));
    let mut notes: Vec<&str> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let _ = write!(out, "| {} | {} |", case.id, case.title.replace('|', "\\|"));
        for column in columns {
            let outcome = &column.outcomes[at];
            let _ = write!(out, " {}", outcome.name());
            // A failure's note is what came by, which no two runs have alike.
            if !outcome.note().is_empty() && !matches!(outcome, Outcome::Fail(_)) {
                let number = notes.iter().position(|note| *note == outcome.note()).unwrap_or_else(|| {
                    notes.push(outcome.note());
                    notes.len() - 1
                });
                let _ = write!(out, " ({})", number + 1);
            }
            out.push_str(" |");
        }
        out.push('\n');
    }
    out.push_str("\n## Notes\n\n");
    for (note, number) in notes.iter().zip(1..) {
        let _ = writeln!(out, "{number}. {note}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_names_case_result_and_note() {
        let case = Case {
            id: "CORE_01".to_owned(),
            title: "GET".to_owned(),
            before: Vec::new(),
            steps: Vec::new(),
            virtual_time: None,
        };
        let cases = [case.clone(), Case { id: "CORE_02".to_owned(), ..case }];
        let outcomes = vec![Outcome::Pass, Outcome::NotYet("blocks".to_owned())];
        let columns = [Column { peer: Peer::Libcoap, role: Role::Client, outcomes }];
        assert!(text(&cases, &columns).contains("1 pass, 0 FAIL, 0 peer differs, 1 not yet, 0 virtual time, 0 n/a"));
        let document = markdown(&cases, &columns);
        assert!(document.contains("| CORE_01 | GET | pass |\n| CORE_02 | GET | not yet (1) |\n"), "{document}");
        assert!(document.ends_with("1. blocks\n"));
        let json: serde_json::Value = serde_json::from_str(&json(&cases, &columns).expect("renders")).expect("parses");
        assert_eq!(json["rows"][1]["result"], "not yet");
        assert_eq!(json["rows"][0]["peer"], "libcoap");
    }
}

//! Results as a table on the terminal, as JSON, and as docs/interop.md.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::case::Case;
use crate::endpoint::{Peer, Role};
use crate::mode::Mode;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Pass,
    Fail(String),
    /// In a documented way.
    PeerDiffers(String),
    /// conche does not support it yet; not run.
    NotYet(String),
    /// Covered by a test in virtual time.
    VirtualTime(String),
    /// The peer cannot do it; not run.
    NotApplicable(String),
}

impl Outcome {
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

#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub mode: Mode,
    pub case: &'a Case,
}

pub struct Table<'a> {
    pub rows: Vec<Row<'a>>,
    pub columns: Vec<Column>,
}

pub struct Column {
    pub peer: Peer,
    /// conche's role.
    pub role: Role,
    pub outcomes: Vec<Outcome>,
    /// Of cases over emulated networks: from the first datagram to the last.
    pub spans: Vec<Option<Duration>>,
}

impl Column {
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

const NAMES: [&str; 6] = ["pass", "FAIL", "peer differs", "not yet", "virtual time", "n/a"];

pub fn text(tables: &[Table<'_>]) -> String {
    let mut out = String::new();
    for Table { rows, columns } in tables {
        let _ = write!(out, "{:<28}", "case");
        for column in columns {
            let _ = write!(out, "{:<26}", column.title());
        }
        out.push('\n');
        for (at, Row { mode, case }) in rows.iter().enumerate() {
            let id = match mode {
                Mode::Plain => case.id.clone(),
                secured => format!("{} {}", case.id, secured.name()),
            };
            let _ = write!(out, "{id:<28}");
            for column in columns {
                let _ = write!(out, "{:<26}", column.outcomes[at].name());
            }
            let _ = writeln!(out, "{}", case.title);
        }
        out.push('\n');
        for column in columns {
            let counts: Vec<_> = NAMES.iter().map(|name| format!("{} {name}", column.count(name))).collect();
            let _ = writeln!(out, "{:<26}{}", column.title(), counts.join(", "));
        }
        out.push('\n');
    }
    out
}

pub fn json(tables: &[Table<'_>]) -> Result<String> {
    let mut results = Vec::new();
    for Table { rows, columns } in tables {
        for (at, Row { mode, case }) in rows.iter().enumerate() {
            for column in columns {
                results.push(json!({
                    "case": case.id,
                    "mode": mode,
                    "title": case.title,
                    "peer": column.peer,
                    "role": column.role,
                    "result": column.outcomes[at].name(),
                    "note": column.outcomes[at].note(),
                }));
            }
        }
    }
    Ok(serde_json::to_string_pretty(&json!({ "schema": 1, "rows": results }))?)
}

const INTRODUCTION: &str = "# Interoperability

Written by `cargo xtask interop`, compared by `cargo xtask interop --check`. Each ETSI and IRISA test case for CoAP over UDP runs over
the loopback, with conche in one role and another implementation in the other, and a tap in between.
[tools/interop/cases](../tools/interop/cases) lists the expected datagrams and the results of the client,
[tools/interop/exceptions.toml](../tools/interop/exceptions.toml) the deviations of each peer and their reasons.

With conche in both roles, most cases also run in virtual time over links with no loss, 10 % and 30 %, twenty runs each
(`crates/conche-proto/tests/endpoint/interop`). There a case must pass, or end with a reported failure.
[Further cases](implementations.md#interoperation) run over emulated networks.

Peers: libcoap of Debian 12 (4.3.1), aiocoap 0.4.17, Californium 3.14.0 (its OSCORE 3.13.0), go-coap 3.8.0 (on pion/dtls 3.1.15) and
node-coap 1.5.0, through the programs in [interop](../tools/interop). \"Server libcoap\" means that conche is the client.

";

const LWM2M: &str = "
## LwM2M

With Eclipse Leshan 2.0.0-M18 (on Californium 4.0.0-M6), over `coaps` with a pre-shared key and with certificates of both ends. Each direction
is a test in [lwm2m_leshan.rs](../crates/conche/tests/library/lwm2m_leshan.rs), which `cargo xtask ci interop` runs.

| device | server | steps, in the session that the device has opened |
|---|---|---|
| conche | Leshan | registration, read of `/3/0` (SenML JSON), observation of `/3/0/9` with two changes, deregistration |
| Leshan | conche | registration, read of `/3/0` (SenML JSON), observation of `/3/0/9` with two changes |
";

const SECURED: &str = "
## Secured

A few cases run in each protected mode: a GET, a body of 64 KiB in both directions, two changes of an observed resource.
[secured.toml](../tools/interop/cases/secured.toml) lists the expected results. Every datagram must be a DTLS record, a message with the
OSCORE option, or an Empty message. With \"certificates of both ends\" the server requires a client certificate. \"Not yet\" marks a limit of
conche, \"n/a\" a limit of the peer.

";

pub fn markdown(tables: &[Table<'_>]) -> String {
    let (mut out, mut notes) = (INTRODUCTION.to_owned(), Vec::new());
    for (number, Table { rows, columns }) in tables.iter().enumerate() {
        let titles: Vec<_> = columns.iter().map(Column::title).collect();
        let (titles, rule) = (titles.join(" | "), "---|".repeat(columns.len()));
        if number == 0 {
            let _ = writeln!(out, "| result | {titles} |\n|---|{rule}");
            for name in NAMES {
                let counts: Vec<_> = columns.iter().map(|column| column.count(name).to_string()).collect();
                let _ = writeln!(out, "| {name} | {} |", counts.join(" | "));
            }
            let _ = writeln!(out, "\n| case | what | {titles} |\n|---|---|{rule}");
        } else {
            let _ = writeln!(out, "{}| mode | what | {titles} |\n|---|---|{rule}", SECURED);
        }
        let mut passed = String::new();
        for (at, Row { mode, case }) in rows.iter().enumerate() {
            if number == 0 && columns.iter().all(|column| matches!(column.outcomes[at], Outcome::Pass)) {
                let _ = writeln!(passed, "- {}: {}", case.id, case.title);
                continue;
            }
            let id = if *mode == Mode::Plain { case.id.as_str() } else { mode.title() };
            let _ = write!(out, "| {id} | {} |", case.title.replace('|', "\\|"));
            for column in columns {
                let _ = write!(out, " {} |", cell(&column.outcomes[at], &mut notes));
            }
            out.push('\n');
        }
        if !passed.is_empty() {
            let _ = write!(out, "\nThese cases pass with every implementation in both roles:\n\n{passed}");
        }
    }
    out.push_str(LWM2M);
    out.push_str("\n## Notes\n\n");
    for (note, number) in notes.iter().zip(1..) {
        let _ = writeln!(out, "{number}. {note}");
    }
    out
}

/// Returns the text of the block in docs/implementations.md.
pub fn emulated(tables: &[Table<'_>], conditions: &str) -> String {
    let (mut out, mut notes) = (format!("{conditions}\n"), Vec::new());
    for Table { rows, columns } in tables {
        let titles: Vec<_> = columns.iter().map(Column::title).collect();
        let rule = "---|".repeat(columns.len());
        let _ = writeln!(out, "\n| network | what | {} |\n|---|---|{rule}", titles.join(" | "));
        for (at, Row { mode, case }) in rows.iter().enumerate() {
            let _ = write!(out, "| {} | {} |", mode.title(), case.title);
            for column in columns {
                let span = column.spans[at].map_or_else(String::new, |span| {
                    let digits = if span < Duration::from_secs(10) { 1 } else { 0 };
                    format!(", {:.digits$} s", span.as_secs_f64())
                });
                let _ = write!(out, " {}{span} |", cell(&column.outcomes[at], &mut notes));
            }
            out.push('\n');
        }
    }
    for (note, number) in notes.iter().zip(1..) {
        let _ = writeln!(out, "{}{number}. {note}", if number == 1 { "\n" } else { "" });
    }
    out
}

fn cell<'a>(outcome: &'a Outcome, notes: &mut Vec<&'a str>) -> String {
    let (name, note) = (outcome.name(), outcome.note());
    // A failure's note differs between runs.
    if note.is_empty() || matches!(outcome, Outcome::Fail(_)) {
        return name.to_owned();
    }
    let number = notes.iter().position(|known| *known == note).unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    });
    format!("{name} ({})", number + 1)
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
        let table = |mode, peer, note: &str| Table {
            rows: cases.iter().map(|case| Row { mode, case }).collect(),
            columns: vec![Column {
                peer,
                role: Role::Client,
                outcomes: vec![Outcome::Pass, Outcome::NotYet(note.to_owned())],
                spans: vec![None, None],
            }],
        };
        let tables =
            [table(Mode::Plain, Peer::Libcoap, "blocks"), table(Mode::Psk, Peer::LibcoapGnutls, "more blocks")];
        assert!(text(&tables).contains("1 pass, 0 FAIL, 0 peer differs, 1 not yet, 0 virtual time, 0 n/a"));
        let document = markdown(&tables);
        assert!(document.contains("| CORE_02 | GET | not yet (1) |\n"), "{document}");
        assert!(
            document.contains("These cases pass with every implementation in both roles:\n\n- CORE_01: GET\n"),
            "{document}"
        );
        assert!(document.contains("| coaps, a pre-shared key | GET | not yet (2) |\n"), "{document}");
        assert!(document.ends_with("1. blocks\n2. more blocks\n"));
        let json: serde_json::Value = serde_json::from_str(&json(&tables).expect("renders")).expect("parses");
        assert_eq!(json["rows"][1]["result"], "not yet");
        assert_eq!(json["rows"][0]["peer"], "libcoap");
        assert_eq!(json["rows"][3]["mode"], "psk");
    }
}

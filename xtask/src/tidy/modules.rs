//! Checks the dependencies between modules of `conche-proto` and of `conche`, the paths `crate::…`,
//! against the last column of the crate's table in docs/modules.md. A module may use only modules
//! above it, so the table permits no cycle.

use std::collections::BTreeSet;

use crate::project::{Finding, TextFile};
use crate::source::{self, Token};

pub const DOCUMENT: &str = "docs/modules.md";

struct Crate {
    section: &'static str,
    sources: &'static str,
    /// Names in the crate root that every module may use.
    root: &'static [&'static str],
    /// Modules, and those that each must not use even if the table allows it.
    apart: &'static [(&'static str, &'static [&'static str])],
}

const CRATES: [Crate; 2] = [
    Crate {
        section: "conche-proto",
        sources: "crates/conche-proto/src/",
        root: &["PeerKey"],
        apart: &[
            // The message layer knows no role, and the roles do not know each other.
            ("transport", &["event", "layers", "server", "client", "endpoint"]),
            ("layers", &["server", "client", "endpoint"]),
            ("server", &["client", "endpoint"]),
            ("client", &["server", "endpoint"]),
        ],
    },
    Crate { section: "conche", sources: "crates/conche/src/", root: &[], apart: &[] },
];

/// A module, and the modules that it may use.
type Row<'a> = (&'a str, Vec<&'a str>);

pub fn check(document: &str, files: &[TextFile]) -> Vec<Finding> {
    CRATES.iter().flat_map(|checked| check_crate(checked, document, files)).collect()
}

fn check_crate(checked: &Crate, document: &str, files: &[TextFile]) -> Vec<Finding> {
    let Crate { section, sources, root, apart } = checked;
    let rows = rows(document, section);
    let mut findings = against_the_order(&rows);
    findings.extend(against_the_roles(apart, &rows));
    let mut modules = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension() == "rs" && !file.is_test_code()) {
        let Some(path) = file.path.strip_prefix(sources).filter(|path| *path != "lib.rs") else { continue };
        let module = path.split(['/', '.']).next().unwrap_or(path);
        modules.insert(module);
        let Some((_, may_use)) = rows.iter().find(|(name, _)| *name == module) else { continue };
        let Some(tokens) = source::tokens_outside_tests(&file.text) else { continue };
        for used in uses(&tokens, depth(path)) {
            let name = used.text.as_str();
            if name != module && !may_use.contains(&name) && !root.contains(&name) {
                let message = format!(
                    "{module} uses crate::{name}; by the table in {DOCUMENT}, it may use {may_use:?} and {root:?}"
                );
                findings.push(Finding::new(&file.path, used.line, message));
            }
        }
    }
    let named: BTreeSet<_> = rows.iter().map(|(name, _)| *name).collect();
    findings.extend(modules.symmetric_difference(&named).map(|module| {
        let message = match named.contains(module) {
            true => format!("the table of modules names {module}, which is not in {sources}"),
            false => format!("the table of modules does not name {module}, which is in {sources}"),
        };
        Finding::new(DOCUMENT, 0, message)
    }));
    findings
}

fn against_the_order(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, (module, may_use)) in rows.iter().enumerate() {
        for used in may_use.iter().filter(|used| !rows[..at].iter().any(|(name, _)| name == *used)) {
            let message = format!("the table of modules lets {module} use {used}, which does not stand above it");
            findings.push(Finding::new(DOCUMENT, 0, message));
        }
    }
    findings
}

fn against_the_roles(apart: &[(&str, &[&str])], rows: &[Row<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (module, others) in apart {
        let row = rows.iter().find(|(name, _)| name == module);
        for other in others.iter().filter(|other| row.is_some_and(|(_, may_use)| may_use.contains(other))) {
            let message = format!("the table of modules lets {module} use {other}, which must be independent");
            findings.push(Finding::new(DOCUMENT, 0, message));
        }
    }
    findings
}

fn rows<'a>(document: &'a str, section: &str) -> Vec<Row<'a>> {
    let lines = super::section(document, section).map(|(_, line)| line);
    lines.filter_map(super::layers::edges_of_row).collect()
}

fn depth(path: &str) -> usize {
    path.split('/').count() - usize::from(path.ends_with("/mod.rs"))
}

/// Returns the first name, or those of a group, after `crate::` or the `super::` that lead to the
/// root.
fn uses(tokens: &[Token], depth: usize) -> Vec<&Token> {
    let to_the_root = ["super", ":", ":"].repeat(depth);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let rest = &tokens[at..];
        let path = if source::starts_with(rest, &["crate", ":", ":"]) {
            &rest[3..]
        } else if source::starts_with(rest, &to_the_root) {
            &rest[to_the_root.len()..]
        } else {
            continue;
        };
        match path.first() {
            Some(brace) if brace.text == "{" => found.extend(names_of_group(path)),
            name => found.extend(name),
        }
    }
    found
}

fn names_of_group(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    let mut depth = 0_usize;
    tokens
        .windows(2)
        .map_while(move |pair| {
            match pair[0].text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            let first = depth == 1 && matches!(pair[0].text.as_str(), "{" | ",") && pair[1].text != "}";
            (depth > 0).then_some(first.then_some(&pair[1]))
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::fixture;

    const TABLE: &str = "# A\n\n## conche-proto\n\n| module | what | may use |\n|---|---|---|\n\
                         | `codec` | x | none |\n| `store` | x | none |\n| `peer` | x `y` | `codec` `store` |\n\n## B\n\n| `b` | `c` |\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut files = vec![
            fixture("crates/conche-proto/src/codec/mod.rs", "//! A.\nmod decode;\n"),
            fixture("crates/conche-proto/src/store.rs", "//! Of [`crate::peer`].\n/// [`crate::peer`]\nfn a() {}\n"),
            fixture("crates/conche-proto/src/peer/table.rs", "use crate::{PeerKey, codec::{Body, Code}, store::List};"),
        ];
        files.retain(|file| file.path != path);
        files.push(fixture(path, text));
        check(TABLE, &files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn imports_listed_in_the_table_are_allowed() {
        assert_eq!(found("crates/conche-proto/src/lib.rs", "pub use peer::PeerSnapshot;"), Vec::<String>::new());
    }

    #[test]
    fn an_edge_against_the_table_is_refused_however_it_is_written() {
        for text in [
            "use crate::peer::Peer;",
            "use crate::{codec::Body, peer::{Peer}};",
            "fn a() -> crate::peer::Peer { b }",
            "use super::peer::Peer;",
            "fn a() { crate::PeerSnapshot::b() }",
        ] {
            let findings = found("crates/conche-proto/src/codec/mod.rs", text);
            assert_eq!(findings.len(), 1, "{text}: {findings:?}");
        }
        assert_eq!(found("crates/conche-proto/src/codec/decode.rs", "use super::super::peer::Peer;").len(), 1);
        assert_eq!(found("crates/conche-proto/src/peer/table.rs", "use super::trust::Trust;").len(), 0);
    }

    #[test]
    fn each_crate_has_a_table_of_its_own() {
        let table = format!("{TABLE}\n## conche\n\n| `driver` | x | none |\n| `server` | x | `driver` |\n");
        let upward = [
            fixture("crates/conche/src/driver/mod.rs", "use crate::server::Router;"),
            fixture("crates/conche/src/server.rs", "use crate::driver::Driver;"),
        ];
        let findings: Vec<_> = check(&table, &upward).iter().map(ToString::to_string).collect();
        let found: Vec<_> = findings.iter().filter(|finding| finding.starts_with("crates/")).collect();
        assert_eq!(found.len(), 1, "{findings:?}");
        assert!(found[0].contains("driver uses crate::server"), "{found:?}");
    }

    #[test]
    fn tests_may_look_anywhere() {
        let test = "#[cfg(test)]\nmod tests {\nuse crate::peer::Peer;\n}\n";
        assert_eq!(found("crates/conche-proto/src/store.rs", test), Vec::<String>::new());
        let path = "crates/conche-proto/src/store/tests.rs";
        assert_eq!(found(path, "use crate::peer::Peer;"), Vec::<String>::new());
    }

    #[test]
    fn table_and_sources_name_the_same_modules() {
        assert_eq!(
            found("crates/conche-proto/src/extra.rs", ""),
            ["docs/modules.md: the table of modules does not name extra, which is in crates/conche-proto/src/"]
        );
        let missing = check(TABLE, &[]);
        assert_eq!(missing.len(), 3, "{missing:?}");
    }

    #[test]
    fn a_table_that_allows_a_circle_is_refused() {
        let table = TABLE.replace("| `store` | x | none |", "| `store` | x | `peer` |");
        let findings = against_the_order(&rows(&table, CRATES[0].section));
        assert_eq!(findings.len(), 1, "{findings:?}");
    }

    #[test]
    fn a_table_in_which_roles_or_transport_name_each_other_is_refused() {
        for (module, used) in [
            ("server", "client"),
            ("client", "server"),
            ("transport", "server"),
            ("transport", "client"),
            ("transport", "event"),
            ("layers", "endpoint"),
        ] {
            let planted = [(used, vec![]), (module, vec![used])];
            assert_eq!(against_the_roles(CRATES[0].apart, &planted).len(), 1, "{module} uses {used}");
        }
        assert_eq!(
            against_the_roles(CRATES[0].apart, &[("transport", vec![]), ("server", vec!["transport"])]).len(),
            0
        );
    }

    #[test]
    fn a_role_that_names_the_other_one_is_refused() {
        let table = TABLE.replace("| `peer` |", "| `server` | x | `codec` |\n| `client` | x | `codec` |\n| `peer` |");
        let files = [
            fixture("crates/conche-proto/src/codec/mod.rs", ""),
            fixture("crates/conche-proto/src/store.rs", ""),
            fixture("crates/conche-proto/src/peer.rs", ""),
            fixture("crates/conche-proto/src/server/mod.rs", "use crate::codec::Body;"),
            fixture("crates/conche-proto/src/client/mod.rs", "fn a(server: &crate::server::Server) {}"),
        ];
        let findings = check(&table, &files);
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}

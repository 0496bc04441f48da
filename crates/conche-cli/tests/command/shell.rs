//! Completions and manual pages.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{Ended, conche, run};

fn subcommands() -> Vec<String> {
    let help = ask(&["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Descriptions may continue on further lines.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let names: Vec<_> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() > 10 && names.contains(&"observe".to_owned()), "{names:?}");
    names
}

fn ask(arguments: &[&str]) -> Ended {
    run(conche().args(arguments))
}

#[test]
fn help_texts_are_wrapped_and_list_options_of_the_command_first() {
    for subcommand in subcommands() {
        let help = ask(&[&subcommand, "--help"]).stdout;
        let too_wide: Vec<_> = help.lines().filter(|line| line.chars().count() > 100).collect();
        // Examples are not wrapped.
        assert!(too_wide.iter().all(|line| line.starts_with("  conche ")), "{subcommand}: {too_wide:?}");
    }
    let help = ask(&["observe", "--help"]).stdout;
    let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text} in {help}"));
    let order = [
        "-N, --non",
        "--cancel",
        "-v, --verbose",
        "Security:",
        "--ca <FILE>",
        "Congestion control:",
        "--cc",
        "Records:",
        "--capture",
    ];
    assert!(order.is_sorted_by_key(|text| at(text)), "{help}");
}

#[test]
fn the_short_help_has_one_line_for_each_flag() {
    for subcommand in subcommands().into_iter().filter(|name| name != "new-controller") {
        let help = ask(&[&subcommand, "-h"]).stdout;
        let continued: Vec<_> = help.lines().filter(|line| line.starts_with(&" ".repeat(12))).collect();
        assert!(continued.is_empty(), "{subcommand}: {continued:#?}");
        let long = ask(&[&subcommand, "--help"]).stdout;
        assert!(long.lines().count() >= help.lines().count(), "{subcommand}");
    }
}

fn flags(subcommand: &str) -> Vec<(String, String)> {
    let help = ask(&[subcommand, "-h"]).stdout;
    let flag = |line: &str| line.trim_start().starts_with('-').then(|| line.trim().to_owned());
    let flags = help.lines().filter_map(flag).filter_map(|line| {
        let (names, about) = line.split_once("  ").unwrap_or((&line, ""));
        Some((
            names.split_whitespace().find(|name| name.starts_with("--"))?.to_owned(),
            format!("{names}|{}", about.trim()),
        ))
    });
    flags.collect()
}

#[test]
fn a_flag_has_one_letter_and_one_kind_of_value_in_all_subcommands_that_send_requests() {
    let clients = ["get", "put", "post", "delete", "fetch", "patch", "ipatch", "observe", "ping", "discover", "bench"];
    let mut known: std::collections::BTreeMap<String, (String, &str)> = Default::default();
    let mut letters: std::collections::BTreeMap<String, (String, &str)> = Default::default();
    for client in clients {
        for (long, line) in flags(client) {
            let names = line.split('|').next().unwrap_or_default().replace("ADDR[:PORT]", "ADDR").to_owned();
            if long != "--observe" {
                let (first, of) = known.entry(long.clone()).or_insert_with(|| (names.clone(), client));
                assert_eq!(*first, names, "{long} of {of} and {client}");
            }
            if let Some((letter, _)) = names.split_once(", --") {
                let (first, of) = letters.entry(letter.to_owned()).or_insert_with(|| (long.clone(), client));
                // Both limit an observation.
                let limits = ["--observe", "--for"];
                let is_limit = letter == "-s" && limits.contains(&first.as_str()) && limits.contains(&long.as_str());
                assert!(*first == long || is_limit, "{letter} is {first} of {of} and {long} of {client}");
            }
        }
        let of_all = ["--timeout", "--cc", "--psk-identity", "--ca", "--config", "--bind"];
        let flags: Vec<_> = flags(client).into_iter().map(|(long, _)| long).collect();
        assert!(of_all.iter().all(|flag| flags.iter().any(|known| known == flag)), "{client}: {flags:?}");
    }
}

#[test]
fn completions_know_subcommands_controllers_and_papers() {
    for shell in ["bash", "zsh", "fish"] {
        let script = ask(&["completions", shell]);
        assert!(!script.stdout.contains("emulate-node"), "{shell} offers the hidden subcommand");
        assert_eq!(script.status, Some(0));
        for word in subcommands().iter().map(String::as_str).chain(["peak-hopper", "cocoa-fb1"]) {
            assert!(script.stdout.contains(word), "{word} for {shell}");
        }
        // The fish completions of clap_complete lack values of positional arguments.
        assert!(shell == "fish" || script.stdout.contains("anrw18"), "{shell}");
    }
}

#[test]
fn the_one_page_has_every_subcommand_and_refers_to_no_other_page() {
    let manual = ask(&["man"]);
    assert_eq!(manual.status, Some(0));
    for subcommand in subcommands() {
        assert!(manual.stdout.contains(&format!("CONCHE {}", subcommand.to_uppercase())), "{subcommand}");
    }
    assert!(references(&manual.stdout).is_empty(), "{:?}", references(&manual.stdout));
}

#[test]
fn every_page_that_is_referred_to_is_written() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("man1");
    assert_eq!(ask(&["man", "--dir", path.to_str().expect("a UTF-8 path")]).status, Some(0));
    for subcommand in subcommands() {
        assert!(path.join(format!("conche-{subcommand}.1")).is_file(), "{subcommand}");
    }
    for page in fs::read_dir(&path).expect("it was made") {
        let text = fs::read_to_string(page.expect("an entry").path()).expect("text");
        for name in references(&text) {
            assert!(path.join(format!("{name}.1")).is_file(), "{name}(1) is referred to");
        }
    }
}

#[test]
fn a_page_has_a_complete_synopsis_the_exit_statuses_and_the_examples() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().to_str().expect("a UTF-8 path");
    assert_eq!(ask(&["man", "--dir", path]).status, Some(0));
    let page = |name: &str| fs::read_to_string(directory.path().join(name)).expect("a page").replace('\\', "");
    let get = page("conche-get.1");
    let synopsis = get.split(".SH").find(|section| section.starts_with(" SYNOPSIS")).expect("a synopsis");
    for part in ["fB-AfR fIFORMATfR", "fB-BfR fITIMEfR", "fB-efR fITEXTfR", "fB--cafR fIFILEfR", "[fB-NfR]", " fIURIfR"]
    {
        assert!(synopsis.contains(part), "{part} in {synopsis}");
    }
    for page in [&get, &page("conche.1"), &page("conche-bench-compare.1")] {
        assert!(page.contains(".SH \"EXIT STATUS\"") && page.contains("timeout or unreachable"), "{page}");
        assert!(!page.contains(".SH EXTRA"), "{page}");
    }
    let serve = page("conche-serve.1");
    assert!(serve.contains(" fIDIRfR|fB--demofR"), "{serve}");
    let bench = page("conche-bench.1");
    assert!(bench.contains(".SH EXAMPLES\n.nf\nconche bench coap://"), "{bench}");
    assert!(bench.contains(" fIURIfR\n.br\nfBconche bench"), "{bench}");
}

fn references(page: &str) -> BTreeSet<String> {
    let page = page.replace('\\', "");
    let words = page.split(|character: char| character.is_whitespace() || character == ',');
    words.filter_map(|word| word.strip_suffix("(1)")).map(str::to_owned).collect()
}

//! Names, places and written files. A step of CI builds and tests the written crate.

use super::*;

fn refusal(name: &str) -> String {
    Name::new(name, &Controllers::new()).expect_err("no name").0
}

#[test]
fn a_name_is_written_as_each_place_wants_it() {
    let name = Name::new("my-2nd-rto", &Controllers::new()).expect("a name");
    assert_eq!([&name.dashed, &name.snake, &name.camel].map(String::as_str), ["my-2nd-rto", "my_2nd_rto", "My2ndRto"]);
}

#[test]
fn names_that_would_not_build_or_are_taken_are_refused_with_the_reason() {
    for name in ["", "-", "a--b", "My", "my_rto", "2nd", "rto-", "ü", "a/b", "../x"] {
        assert!(refusal(name).contains("such as my-rto"), "{name}");
    }
    assert!(refusal("cocoa").contains("one of conche's"));
    assert!(refusal("timer").contains("reserved") && refusal("match").contains("reserved"));
}

#[test]
fn a_crate_has_its_own_name_everywhere_and_builds_on_the_checkout_that_is_given() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("crate");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let args =
        Args { name: "my-rto".to_owned(), directory: Some(directory.clone()), conche: Some(checkout), full: false };
    run(&args, &Controllers::new()).expect("it is written");
    let read = |file: &str| fs::read_to_string(directory.join(file)).expect("it is there");
    let manifest = read("Cargo.toml");
    assert!(manifest.contains("name = \"my-rto\"") && manifest.contains("/crates/conche-cc\" }"), "{manifest}");
    assert!(read("src/main.rs").contains("Named::own_with_parameters::<MyRto>(\"my-rto\", FEATURES)"));
    for (file, _) in FILES {
        let text = read(file).to_lowercase();
        assert!(!text.contains("anchor"), "{file}");
        assert!(!text.contains("twice-peak") && !text.contains("twicepeak") && !text.contains("twice_peak"), "{file}");
        assert!(!text.contains("from conche\n") && !text.contains("from conche,"), "{file}");
    }
    let again = run(&args, &Controllers::new()).expect_err("it is there").to_string();
    assert!(again.contains("exists already"), "{again}");
}

#[test]
fn a_crate_starts_from_a_rule_and_with_full_from_the_whole_trait() {
    let parent = tempfile::tempdir().expect("a directory");
    for (full, implemented) in [(false, "impl RtoRule for MyRto"), (true, "impl Controller for MyRto")] {
        let directory = parent.path().join(if full { "full" } else { "rule" });
        let args = Args { name: "my-rto".to_owned(), directory: Some(directory.clone()), conche: None, full };
        run(&args, &Controllers::new()).expect("it is written");
        let lib = fs::read_to_string(directory.join("src/lib.rs")).expect("it is there");
        assert!(lib.contains(implemented), "{lib}");
    }
}

#[test]
fn a_crate_in_or_beside_a_checkout_names_it_by_a_relative_path() {
    let parent = tempfile::tempdir().expect("a directory");
    let checkout = parent.path().join("conche");
    for place in ["conche/crates/conche-cli", "conche/inside", "beside"] {
        fs::create_dir_all(parent.path().join(place)).expect("a directory");
    }
    let seen_from =
        |place: &str| Source::Checkout(checkout.clone()).seen_from(&parent.path().join(place)).expect("both exist");
    assert_eq!(seen_from("conche/inside"), Source::Checkout("..".into()));
    assert_eq!(seen_from("beside"), Source::Checkout("../conche".into()));
}

#[test]
fn a_place_without_conche_is_no_checkout() {
    let elsewhere = tempfile::tempdir().expect("a directory");
    let error = Source::find(Some(elsewhere.path()), Path::new("new")).expect_err("nothing is there").to_string();
    assert!(error.contains("is no checkout of conche"), "{error}");
    let source = Source::find(None, &elsewhere.path().join("new")).expect("the repository");
    assert_eq!(source, Source::Repository);
    let manifest = source.fill_in("{ conche-cli from CONCHE }");
    assert_eq!(manifest, "{ git = \"https://github.com/conche/conche\" }");
}

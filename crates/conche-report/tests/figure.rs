//! Single figures as SVG files.

mod common;

use conche_lab::Controllers;
use conche_report::{FigureError, Results, Selection, figure};

fn results() -> (tempfile::TempDir, Results) {
    let directory = tempfile::tempdir().expect("a directory");
    common::write(directory.path(), &["anrw18"]);
    let results = Results::read(directory.path(), &Controllers::new()).expect("results");
    (directory, results)
}

fn only(labels: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
    labels.iter().map(|(axis, label)| ((*axis).to_owned(), label.split(',').map(str::to_owned).collect())).collect()
}

#[test]
fn a_figure_has_a_named_line_for_each_chosen_scheme() {
    let (_directory, results) = results();
    let only = only(&[("buffer", "inf"), ("workload", "random"), ("scheme", "default,cocoa")]);
    let selection = Selection { column: "fct_median_s", only: &only, command: "conche report <d>" };
    let svg = figure(&[results], &selection).expect("a figure");
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert!(svg.contains("Median completion time, s</text>"));
    assert_eq!(svg.matches("class=\"name\"").count(), 2);
    assert_eq!(svg.matches("class=\"line\"").count(), 2);
    assert!(svg.contains("<desc>Drawn by: conche reproduce; conche report &lt;d&gt;</desc>"));
    assert!(svg.contains("prefers-color-scheme:dark") && !svg.contains("default-fb1"));
}

#[test]
fn a_figure_that_cannot_be_drawn_names_the_labels_to_choose() {
    let (_directory, results) = results();
    let results = [results];
    let draw = |column, labels: &[(&str, &str)]| {
        figure(&results, &Selection { column, only: &only(labels), command: "" }).expect_err("no figure")
    };
    let open = draw("fct_median_s", &[("buffer", "inf"), ("scheme", "default")]);
    let labels = ["continuous", "random"].map(str::to_owned).to_vec();
    assert_eq!(open, FigureError::Open { axis: "workload".to_owned(), labels });
    assert_eq!(
        open.to_string(),
        "several labels of workload; choose one with `--only workload=continuous` (continuous, random)"
    );
    assert!(
        matches!(draw("none", &[]), FigureError::Unknown { known, .. } if known.contains(&"fct_median_s".to_owned()))
    );
    assert!(matches!(draw("fct_median_s", &[("buffer", "7")]), FigureError::Empty(_)));
    let single = [("buffer", "inf"), ("workload", "random"), ("clients", "400")];
    assert_eq!(draw("fct_median_s", &single), FigureError::NoAxis);
}

//! The tables of text that the terminal shows.

use conche_lab::table::Table;

use crate::html::Html;
use crate::study::Study;

pub(super) fn write(study: &Study, html: &mut Html) {
    let Some(experiment) = &study.experiment else { return };
    let values: Vec<_> = study.values.iter().filter(|value| value.item != "claims").cloned().collect();
    let tables = experiment.tables(&values);
    if tables.is_empty() {
        return;
    }
    html.raw("<h3>Tables</h3>\n<div class=tables>\n");
    for of in &tables {
        html.raw("<details><summary>").text(&of.title).raw("</summary><div class=scroll>");
        table(of, html);
        html.raw("</div></details>\n");
    }
    html.raw("</div>\n");
}

pub(super) fn table(of: &Table, html: &mut Html) {
    html.raw("<table><thead><tr>");
    for (place, head) in of.header.iter().enumerate() {
        html.raw(if place < of.names { "<th class=l>" } else { "<th>" }).text(head);
    }
    html.raw("</thead><tbody>");
    for row in &of.rows {
        html.raw("<tr>");
        for (place, cell) in row.iter().enumerate() {
            // A long cell among values is prose.
            let is_prose = cell.lines().any(|line| line.len() > 24 && line.starts_with(char::is_alphabetic));
            html.raw(match (place < of.names, is_prose) {
                (true, _) => "<td class=l>",
                (false, true) => "<td class=prose>",
                (false, false) => "<td>",
            });
            for (number, line) in cell.lines().enumerate() {
                if number > 0 {
                    html.raw("<br>");
                }
                match line.split_once(" ± ") {
                    Some((value, error)) => html.text(value).raw(" <i>± ").text(error).raw("</i>"),
                    None => html.text(line),
                };
            }
        }
    }
    html.raw("</tbody></table>");
    for note in &of.notes {
        html.raw("<p class=note>").text(note).raw("</p>");
    }
}

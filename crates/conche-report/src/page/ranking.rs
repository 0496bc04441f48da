//! The rankings of controllers, each with a heat map of its cells, and their latency and traffic.

use std::collections::HashMap;

use conche_lab::comparison::rankings;
use conche_results::comparison::{Compared, InCell, Row, Standing, shown};

use super::two_schemes::short;
use super::{pareto, tables};
use crate::html::{Html, json_text};
use crate::read::Results;
use crate::values::distinct;

pub(super) fn is_there(results: &[Results]) -> bool {
    results.iter().any(|of| !of.comparison.is_empty())
}

pub(super) fn write(results: &[Results], html: &mut Html) {
    let compared: Vec<&Results> = results.iter().filter(|of| !of.comparison.is_empty()).collect();
    if compared.is_empty() {
        return;
    }
    html.raw("<section id=comparison><h2>Controllers compared</h2>\n");
    let mut grids: Vec<Grid<'_>> = Vec::new();
    for of in &compared {
        if compared.len() > 1 {
            html.raw("<h3>").text(&of.directory.display().to_string()).raw("</h3>");
        }
        let standings: Vec<&Standing> = of.comparison.iter().filter_map(standing).collect();
        let blocks: Vec<&[&Standing]> = standings.chunk_by(|one, other| one.purpose == other.purpose).collect();
        pareto::write(&blocks, html);
        // A ranking and a block of standings for each purpose.
        for (table, block) in rankings(&of.comparison).iter().zip(&blocks) {
            html.raw("<p class=sub>").text(&table.title).raw("</p>\n<div class=scroll>");
            tables::table(table, html);
            html.raw("</div>\n");
            let grid = Grid::new(&of.comparison, block);
            grid.heat(grids.len(), html);
            grids.push(grid);
        }
    }
    html.raw(
        "<div id=field class=field role=region aria-live=polite aria-label=\"the runs of a cell\" hidden></div>\n",
    );
    html.raw("<script type=\"application/json\" id=fields>[");
    for (number, grid) in grids.iter().enumerate() {
        html.raw(if number > 0 { "," } else { "" });
        grid.json(html);
    }
    html.raw("]</script>\n</section>\n");
}

fn standing(row: &Row) -> Option<&Standing> {
    if let Compared::Controller(standing) = &row.of { Some(standing) } else { None }
}

struct Grid<'a> {
    /// The best first.
    controllers: Vec<&'a str>,
    /// In order; cells of a paper are adjacent.
    cells: Vec<Vec<Option<&'a InCell>>>,
}

impl<'a> Grid<'a> {
    fn new(rows: &'a [Row], block: &[&'a Standing]) -> Self {
        let controllers = distinct(block.iter().map(|of| of.controller.as_str()));
        let purpose = block.first().and_then(|of| of.purpose.as_deref());
        let columns: HashMap<&str, usize> = controllers.iter().zip(0..).map(|(name, column)| (*name, column)).collect();
        let mut places: HashMap<[&str; 3], usize> = HashMap::new();
        let mut cells: Vec<Vec<Option<&InCell>>> = Vec::new();
        for row in rows {
            let Compared::Cell(of) = &row.of else { continue };
            if of.purpose.as_deref() != purpose {
                continue;
            }
            let Some(column) = columns.get(of.controller.as_str()) else { continue };
            let place = *places.entry([&of.scenario, &of.cell, &of.column]).or_insert_with(|| {
                cells.push(vec![None; controllers.len()]);
                cells.len() - 1
            });
            cells[place][*column] = Some(of);
        }
        cells.sort_by_key(|cell| {
            let paper = of(cell).map(|of| &of.scenario);
            rows.iter().position(|row| matches!(&row.of, Compared::Cell(other) if Some(&other.scenario) == paper))
        });
        Self { controllers, cells }
    }

    fn heat(&self, number: usize, html: &mut Html) {
        html.raw("<p class=sub>Each field is a ratio; grey ones are not apart from 1. A field shows, when it is chosen with the ");
        html.raw("pointer or with arrows and Enter, what all controllers gave in its cell, run by run.</p>\n<ul class=scale>");
        for (class, words) in STEPS {
            html.write(format_args!("<li><i class=\"{class}\"></i>{words}"));
        }
        html.raw("</ul>\n<noscript><p class=warning>The runs of a cell are shown by a script.</p></noscript>\n");
        html.write(format_args!("<div class=scroll><table class=heat role=grid data-of={number}>"));
        html.raw("<thead><tr><th class=l>cell<th class=l>value");
        for controller in &self.controllers {
            html.raw("<th scope=col><span>").text(controller).raw("</span>");
        }
        html.raw("</thead>\n");
        let mut paper = None;
        for (place, cell) in self.cells.iter().enumerate() {
            let Some(of) = of(cell) else { continue };
            if paper != Some(&of.scenario) {
                paper = Some(&of.scenario);
                html.write(format_args!("<tbody><tr><th class=\"l paper\" colspan={}>", self.controllers.len() + 2));
                html.text(&of.scenario).raw("\n");
            }
            html.raw("<tr><th class=l scope=row>").text(&of.cell.replace('/', " · ")).raw("<td class=\"l dim\">");
            html.text(&of.column.replace('_', " "));
            for (column, field) in cell.iter().enumerate() {
                let tab = if place + column == 0 { "0" } else { "-1" };
                html.write(format_args!("<td tabindex={tab} data-at={place} class=\"{}\">", class(*field)));
                html.text(&shown(field.and_then(|of| of.ratio)));
            }
            html.raw("\n");
        }
        html.raw("</table></div>\n");
    }

    /// Writes controllers and, per cell, names and each controller's value, ratio, interval and
    /// runs.
    fn json(&self, html: &mut Html) {
        let names: Vec<String> = self.controllers.iter().map(|name| json_text(name)).collect();
        html.raw("{\"controllers\":[").raw(&names.join(",")).raw("],\"cells\":[");
        for (place, cell) in self.cells.iter().enumerate() {
            let Some(of) = of(cell) else { continue };
            let title = format!("{} · {} · {}", of.scenario, of.cell.replace('/', " · "), of.column.replace('_', " "));
            html.raw(if place > 0 { ",{\"title\":" } else { "{\"title\":" }).raw(&json_text(&title));
            html.raw(",\"unit\":").raw(&json_text(&of.unit)).raw(",\"better\":").raw(&json_text(&of.better));
            let fields: Vec<String> = cell.iter().map(|field| field.map_or("null".to_owned(), json)).collect();
            html.raw(",\"of\":[").raw(&fields.join(",")).raw("]}");
        }
        html.raw("]}");
    }
}

fn of<'a>(cell: &[Option<&'a InCell>]) -> Option<&'a InCell> {
    cell.iter().copied().flatten().next()
}

fn json(of: &InCell) -> String {
    let number = |value: Option<f64>| value.map_or("null".to_owned(), short);
    let runs: Vec<String> = of.runs.iter().map(|run| short(*run)).collect();
    let [low, high] = of.ci95.map_or([None, None], |bounds| bounds.map(Some)).map(number);
    format!("[{},{},{low},{high},[{}]]", number(of.value), number(of.ratio), runs.join(","))
}

const STEPS: [(&str, &str); 8] = [
    ("ahead", "ahead"),
    ("h0", "best"),
    ("h1", "up to 1.05"),
    ("h2", "1.2"),
    ("h3", "1.5"),
    ("h4", "2"),
    ("h5", "4"),
    ("h6", "more"),
];

fn class(field: Option<&InCell>) -> &'static str {
    let Some((of, ratio)) = field.and_then(|of| Some((of, of.ratio?))) else { return "gap" };
    match (ratio, of.apart) {
        (1.0, _) => "h0",
        (_, false) => "tied",
        (..1.0, _) => "ahead",
        (..1.05, _) => "h1",
        (..1.2, _) => "h2",
        (..1.5, _) => "h3",
        (..2.0, _) => "h4",
        (..4.0, _) => "h5",
        _ => "h6",
    }
}

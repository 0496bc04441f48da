//! Controllers by latency and unnecessary traffic.

use conche_results::comparison::{Standing, Tally, shown};

use crate::chart::{Scatter, ScatterPanel, ScatterPoint};
use crate::html::Html;

/// The controller of RFC 7252.
const REFERENCE: &str = "default";

/// Draws a panel for each purpose that has times and unnecessary transmissions.
pub(super) fn write(blocks: &[&[&Standing]], html: &mut Html) {
    let panels: Vec<ScatterPanel> = blocks.iter().filter_map(|block| panel(block)).collect();
    if panels.is_empty() {
        return;
    }
    let baseline = blocks.iter().copied().flatten().find_map(|of| of.baseline.as_deref());
    let over = baseline.unwrap_or("the best");
    let chart = Scatter {
        title: "Latency and unnecessary traffic: geometric means of ratios, less is better".to_owned(),
        x: format!("unnecessary retransmissions, over {over}"),
        y: format!("times, over {over}"),
        reference: REFERENCE.to_owned(),
        panels,
    };
    html.raw("<div class=charts>\n");
    chart.html(html);
    html.raw("</div>\n");
}

fn panel(block: &[&Standing]) -> Option<ScatterPanel> {
    let first = block.first()?;
    let (mut points, mut gaps) = (Vec::new(), Vec::new());
    for of in block {
        match of.unnecessary.mean.zip(of.times.mean) {
            Some((x, y)) => points.push(ScatterPoint {
                name: of.controller.clone(),
                x: (x, of.unnecessary.ci95),
                y: (y, of.times.ci95),
                tooltip: format!(
                    "{}: times {}, unnecessary retransmissions {}",
                    of.controller,
                    with_interval(&of.times),
                    with_interval(&of.unnecessary)
                ),
            }),
            None => gaps.push(of.controller.as_str()),
        }
    }
    let cells = [first.times.cells, first.unnecessary.cells];
    if points.is_empty() || cells.contains(&0) {
        return None;
    }
    let mut notes = vec![format!("Over {} cells of times and {} of unnecessary retransmissions.", cells[0], cells[1])];
    if !gaps.is_empty() {
        notes.push(format!("Without a value in all of them: {}.", gaps.join(", ")));
    }
    let title = first.purpose.as_ref().map(|purpose| format!("networks of {purpose}")).unwrap_or_default();
    Some(ScatterPanel { title, points, notes })
}

fn with_interval(of: &Tally) -> String {
    match of.ci95 {
        Some(_) => format!("×{} ({})", shown(of.mean), of.shown_interval()),
        None => format!("×{}", shown(of.mean)),
    }
}

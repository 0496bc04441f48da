//! Progress of a running load test, as a line on standard error if that is a terminal.

use std::time::Duration;

use conche_bench::{Live, Plan, Until};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::Global;

/// Shorter tests show no progress.
const SHOW_AFTER: Duration = Duration::from_secs(2);

/// A progress line that disappears on drop.
pub(super) struct Display {
    bar: Option<ProgressBar>,
    /// Total of the test: seconds or, if `counts`, requests.
    all: u64,
    counts: bool,
    warm_up: Duration,
}

impl Display {
    pub(super) fn new(plan: &Plan, global: &Global) -> Self {
        let (all, counts) = match plan.until {
            Until::Elapsed(span) => (span.as_secs().max(1), false),
            Until::Count(count) => (count, true),
        };
        let bar = global.shows_progress().then(|| {
            let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::hidden());
            let template =
                if counts { "[{bar:20}] {pos} of {len}  {msg}" } else { "[{bar:20}] {pos} of {len} s  {msg}" };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.with_finish(ProgressFinish::AndClear)
        });
        Self { bar, all, counts, warm_up: plan.warm_up }
    }

    pub(super) fn show(&mut self, live: &Live) {
        let Some(bar) = self.bar.as_ref().filter(|_| live.elapsed >= SHOW_AFTER) else { return };
        let measured = live.elapsed.saturating_sub(self.warm_up);
        let position = if self.counts { live.answered + live.lost } else { measured.as_secs() };
        bar.set_position(position.min(self.all));
        bar.set_message(message(live, measured.is_zero()));
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.tick();
    }
}

fn message(live: &Live, warms_up: bool) -> String {
    let mut text = format!("{:.0} requests/s", live.rate);
    if let Some([median, slow]) = live.latency {
        text += &format!(", median {median:.2?}, p99 {slow:.2?}");
    }
    if live.lost > 0 {
        text += &format!(", {} lost", live.lost);
    }
    if live.notifications > 0 {
        text += &format!(", {} notifications", live.notifications);
    }
    if warms_up {
        text += " (warming up)";
    }
    text
}

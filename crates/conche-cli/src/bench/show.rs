//! The progress and the result of a load test as text.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use conche::Uri;
use conche_bench::report::{Bar, Handshakes, Latency, Setup};
use conche_bench::{Live, Plan, Report, Until};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::{Global, show};

/// Columns of the longest bar.
const WIDTH: f64 = 40.0;

pub(super) fn report(report: &Report, uri: &Uri) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text(report, &show::escape(uri.as_str())).as_bytes())?;
    out.flush()
}

fn text(report: &Report, uri: &str) -> String {
    let mut text = format!("{uri}: {}\n\n", setup(&report.plan, report.measured_s));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<16}{value}");
    };
    line("requests/s", format!("{:.1}", report.requests_per_s));
    line("requests", format!("{}, {} answered", report.requests, report.answered));
    let codes: Vec<_> = report.codes.iter().map(|(code, count)| format!("{code}: {count}")).collect();
    line("responses", if codes.is_empty() { "none".to_owned() } else { codes.join(", ") });
    if let Some(lost) = lost(report) {
        line("without one", lost);
    }
    line("retransmissions", report.retransmissions.to_string());
    line("sent", rate(report.bytes_sent_per_s));
    line("received", rate(report.bytes_received_per_s));
    if let Some(notifications) = &report.notifications {
        line("notifications", format!("{}, {:.1} a second", notifications.count, notifications.per_s));
        if notifications.refused > 0 {
            line("not observed", notifications.refused.to_string());
        }
    }
    if let Some(handshakes) = &report.handshakes {
        line("handshakes", opened(handshakes));
    }
    let generator = &report.generator;
    let each = generator.cpu_us_per_request.map_or(String::new(), |each| format!(", {each:.2} µs of a core a request"));
    line("generator", format!("{:.0} % busy{each}", generator.busy * 100.0));
    if generator.ports_renewed > 0 {
        line("ports", format!("{} taken when message IDs were used up", generator.ports_renewed));
    }
    if let Some(latency) = &report.latency_ms {
        text += &percentiles("latency", latency);
        text += &bars(&report.histogram);
    }
    let gaps = report.notifications.and_then(|notifications| notifications.gap_ms);
    if let Some(gaps) = gaps {
        text += &percentiles("from one notification to the next", &gaps);
    }
    for kind in &report.kinds {
        let share = format!("{}: {} of {} answered, {} 2.xx", kind.name, kind.answered, kind.requests, kind.succeeded);
        let latency = kind
            .latency_ms
            .map_or(String::new(), |latency| format!(", median {:.3} ms, p99 {:.3} ms", latency.p50, latency.p99));
        let _ = write!(text, "\n{}{latency}", show::escape(&share));
    }
    if !report.kinds.is_empty() {
        text.push('\n');
    }
    text
}

fn setup(plan: &Setup, measured_s: f64) -> String {
    let load = match plan.rate {
        Some(rate) => format!("{rate} requests a second, {}", plan.load),
        None => format!("{} loop", plan.load),
    };
    let endpoints = if plan.endpoints == 1 { "endpoint" } else { "endpoints" };
    format!("{load}, {} {endpoints} x {} in flight, {measured_s:.1} s", plan.endpoints, plan.in_flight)
}

fn lost(report: &Report) -> Option<String> {
    let lost = &report.lost;
    let parts = [
        ("timed out", lost.timed_out),
        ("reset", lost.reset),
        ("unreachable", lost.unreachable),
        ("unusable", lost.other),
        ("never sent", report.unsent),
        ("not over", report.unfinished),
    ];
    let parts: Vec<_> =
        parts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn opened(handshakes: &Handshakes) -> String {
    let mut text = handshakes.opened.to_string();
    if let (Some(per_s), Some(bytes), Some(time)) = (handshakes.per_s, handshakes.bytes, handshakes.time_ms) {
        text +=
            &format!(", {per_s:.1} a second, {bytes:.0} bytes each, median {:.3} ms, p99 {:.3} ms", time.p50, time.p99);
    }
    for (name, count) in [("failed", handshakes.failed), ("sessions ended by the server", handshakes.lost)] {
        if count > 0 {
            text += &format!(", {count} {name}");
        }
    }
    text
}

fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s {
        large if large >= 1e6 => format!("{:.2} MB/s", large / 1e6),
        medium if medium >= 1e3 => format!("{:.2} kB/s", medium / 1e3),
        small => format!("{small:.0} B/s"),
    }
}

fn percentiles(name: &str, latency: &Latency) -> String {
    let mut text = format!("\n{name} in ms: mean {:.3}, standard deviation {:.3}\n", latency.mean, latency.stdev);
    let rows = [
        ("min", latency.min),
        ("50 %", latency.p50),
        ("75 %", latency.p75),
        ("90 %", latency.p90),
        ("95 %", latency.p95),
        ("99 %", latency.p99),
        ("99.9 %", latency.p999),
        ("max", latency.max),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "{name:>8} {value:>12.3}");
    }
    text
}

fn bars(histogram: &[Bar]) -> String {
    let most = histogram.iter().map(|bar| bar.count).max().unwrap_or_default().max(1) as f64;
    let mut text = String::from("\n   to ms        count\n");
    for bar in histogram {
        // At most `WIDTH`.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let length = (bar.count as f64 / most * WIDTH).ceil() as usize;
        let line = format!("{:>8.3} {:>12} {}", bar.to_ms, bar.count, "■".repeat(length));
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Minimum elapsed time before progress is shown.
const SHOW_AFTER: Duration = Duration::from_secs(2);

pub(super) struct Display {
    bar: Option<ProgressBar>,
    /// Seconds or, if `counts`, requests.
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

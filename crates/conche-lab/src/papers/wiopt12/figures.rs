//! What the paper's figures show, out of the transfers that were run.

use super::NAME;
use super::plan::{Key, Plan, Results};
use super::samples::{self, Samples};
use super::scenario::{Acknowledgments, Metric, Scenario};
use super::testbed::Backoff;
use crate::results::{Figure, Row, Unit};

/// All items, in the order of the paper.
pub(super) const ITEMS: &[(&str, &str)] = &[
    ("fig2", "Goodput with TinyOS's backoff and with binary exponential backoff, static"),
    ("fig3", "What fails with either backoff"),
    ("fig4", "Goodput and round-trip time by retries of the MAC, static"),
    ("fig5", "Transfers that succeed by retries of the MAC"),
    ("fig6", "Routes, goodput and success by route metric, dynamic"),
    ("fig7", "Goodput with positive and with cumulative acknowledgments, static"),
    ("fig8", "Goodput by retransmission timer, static"),
    ("fig9", "Goodput by window"),
    ("table1", "Recommended window: the first one whose successor gains less than 1 %"),
];

/// A window is recommended if the next one gains less than this, in per cent.
const FURTHER_GAIN_PERCENT: f64 = 1.0;

/// All of them.
pub(super) fn figures(scenario: &Scenario, results: &Results) -> Vec<Figure> {
    let builder = Builder { scenario, plan: Plan(scenario), samples: Samples(results), figures: Vec::new() };
    builder.fig2().fig3().fig4().fig5().fig6().fig7().fig8().fig9().table1().figures
}

struct Builder<'a> {
    scenario: &'a Scenario,
    plan: Plan<'a>,
    samples: Samples<'a>,
    figures: Vec<Figure>,
}

impl Builder<'_> {
    fn fig2(mut self) -> Self {
        let fixed = &self.scenario.fixed;
        for (hops, window) in fixed.hops.iter().flat_map(|hops| fixed.windows.iter().map(move |window| (hops, window)))
        {
            let row = format!("static/{hops}/{window}");
            let tinyos = self.plan.fixed(*hops, *window);
            let beb = tinyos.with_backoff(Backoff::Beb);
            self.goodput("fig2", &row, "goodput_tinyos", tinyos);
            self.goodput("fig2", &row, "goodput_beb", beb);
            self.gain("fig2", &row, "beb_gain", beb, tinyos);
        }
        self
    }

    fn fig3(mut self) -> Self {
        let Scenario { fixed, dynamic, .. } = self.scenario;
        let mut places: Vec<(String, Vec<Key>)> = Vec::new();
        for hops in fixed.hops.iter() {
            places
                .push((hops.to_string(), fixed.windows.iter().map(|window| self.plan.fixed(*hops, *window)).collect()));
        }
        places.push(("dynamic".to_owned(), dynamic.windows.iter().map(|window| self.plan.dynamic(*window)).collect()));
        for (place, tinyos) in places {
            let beb: Vec<Key> = tinyos.iter().map(|key| key.with_backoff(Backoff::Beb)).collect();
            for (column, more, of) in [
                ("failed_transfers", "more_failed_transfers", samples::failed as samples::Value),
                ("frames_given_up", "more_frames_given_up", samples::given_up),
            ] {
                for (name, keys) in [("tinyos", &tinyos), ("beb", &beb)] {
                    self.mean("fig3", &format!("{name}/{place}"), column, Unit::Percent, &self.samples.each(keys, of));
                }
                let difference = self.samples.difference(&beb, &tinyos, of);
                self.mean("fig3", &format!("beb/{place}"), more, Unit::Percent, &difference);
            }
        }
        self
    }

    fn fig4(mut self) -> Self {
        let Scenario { variations, fixed, .. } = self.scenario;
        let fewest = variations.retries.iter().copied().min().unwrap_or(0);
        for window in variations.retries_windows.iter() {
            for hops in fixed.hops.iter() {
                for retries in variations.retries.iter() {
                    let key = |retries| self.plan.fixed(*hops, *window).with_retries(retries);
                    let (key, fewest) = (key(*retries), key(fewest));
                    let row = format!("retries/{hops}/{window}/{retries}");
                    self.goodput("fig4", &row, "goodput", key);
                    self.gain("fig4", &row, "goodput_gain", key, fewest);
                    let round_trips = self.samples.each(&[key], samples::round_trip);
                    self.mean("fig4", &row, "round_trip", Unit::Seconds, &round_trips);
                    let gains = self.samples.gain(&[key], &[fewest], samples::round_trip);
                    self.mean("fig4", &row, "round_trip_gain", Unit::Percent, &gains);
                }
            }
        }
        self
    }

    fn fig5(mut self) -> Self {
        let Scenario { variations, fixed, .. } = self.scenario;
        let fewest = variations.retries.iter().copied().min().unwrap_or(0);
        let windows = || variations.retries_windows.iter();
        let fixed = fixed.hops.iter().flat_map(|hops| windows().map(|window| self.plan.fixed(*hops, *window)));
        let places = [
            ("static", fixed.collect::<Vec<_>>()),
            ("dynamic", vec![self.plan.dynamic(variations.retries_dynamic_window)]),
        ];
        for (place, keys) in places {
            for retries in variations.retries.iter() {
                let with = |retries: u8| keys.iter().map(|key| key.with_retries(retries)).collect::<Vec<_>>();
                let row = format!("retries/{place}/{retries}");
                let success = self.samples.each(&with(*retries), samples::success);
                self.mean("fig5", &row, "success", Unit::Percent, &success);
                let more = self.samples.difference(&with(*retries), &with(fewest), samples::success);
                self.mean("fig5", &row, "more_success", Unit::Percent, &more);
            }
        }
        self
    }

    fn fig6(mut self) -> Self {
        let windows = &self.scenario.dynamic.windows;
        let each = windows.iter().map(|window| (window.to_string(), std::slice::from_ref(window)));
        let sets: Vec<(String, &[u16])> = each.chain([("all".to_owned(), &windows[..])]).collect();
        for (name, windows) in sets {
            let with = |metric| -> Vec<Key> {
                windows.iter().map(|window| self.plan.dynamic(*window).with_metric(metric)).collect()
            };
            let (hop_count, path_dr) = (with(Metric::HopCount), with(Metric::PathDr));
            for (column, more, unit, of) in [
                ("route_hops", "more_route_hops", Unit::Count, samples::route_hops as samples::Value),
                ("route_hops_sd", "more_route_hops_sd", Unit::Count, samples::route_hops_sd),
                ("success", "more_success", Unit::Percent, samples::success),
                ("goodput", "", Unit::BitsPerSecond, samples::goodput),
            ] {
                for (metric, keys) in [("hop-count", &hop_count), ("path-dr", &path_dr)] {
                    self.mean("fig6", &format!("{metric}/{name}"), column, unit, &self.samples.each(keys, of));
                }
                if !more.is_empty() {
                    let difference = self.samples.difference(&path_dr, &hop_count, of);
                    self.mean("fig6", &format!("path-dr/{name}"), more, unit, &difference);
                }
            }
            let gain = self.samples.gain(&path_dr, &hop_count, samples::goodput);
            self.mean("fig6", &format!("path-dr/{name}"), "goodput_gain", Unit::Percent, &gain);
        }
        self
    }

    fn fig7(mut self) -> Self {
        for hops in self.scenario.fixed.hops.iter() {
            for window in self.scenario.variations.positive_windows.iter() {
                let row = format!("static/{hops}/{window}");
                let key = |acknowledgments| self.plan.fixed(*hops, *window).with_acknowledgments(acknowledgments);
                let (cumulative, positive) = (key(Acknowledgments::Cumulative), key(Acknowledgments::Positive));
                self.goodput("fig7", &row, "goodput_cumulative", cumulative);
                self.goodput("fig7", &row, "goodput_positive", positive);
                self.gain("fig7", &row, "cumulative_gain", cumulative, positive);
            }
        }
        self
    }

    fn fig8(mut self) -> Self {
        let default = &self.scenario.transfer.scheme;
        for window in self.scenario.variations.schemes_windows.iter() {
            for hops in self.scenario.fixed.hops.iter() {
                for (index, scheme) in self.scenario.schemes.iter().enumerate() {
                    let key = self.plan.fixed(*hops, *window);
                    let row = format!("timer/{}/{window}/{hops}", scheme.name);
                    self.goodput("fig8", &row, "goodput", key.with_scheme(index));
                    if scheme.name != *default {
                        self.gain("fig8", &row, &format!("gain_of_{default}"), key, key.with_scheme(index));
                    }
                }
            }
        }
        self
    }

    fn fig9(mut self) -> Self {
        let Scenario { fixed, dynamic, .. } = self.scenario;
        for hops in fixed.hops.iter() {
            for pair in fixed.windows.windows(2) {
                let row = format!("static/{hops}/{}", pair[1]);
                let key = |window| self.plan.fixed(*hops, window);
                self.gain("fig9", &row, "further_gain", key(pair[1]), key(pair[0]));
            }
        }
        for window in dynamic.windows.iter() {
            self.goodput("fig9", &format!("dynamic/{window}"), "goodput", self.plan.dynamic(*window));
        }
        for pair in dynamic.windows.windows(2) {
            let row = format!("dynamic/{}", pair[1]);
            self.gain("fig9", &row, "further_gain", self.plan.dynamic(pair[1]), self.plan.dynamic(pair[0]));
        }
        self
    }

    fn table1(mut self) -> Self {
        let Scenario { fixed, dynamic, .. } = self.scenario;
        let mut places: Vec<(String, Vec<Key>)> = Vec::new();
        for hops in fixed.hops.iter() {
            places
                .push((hops.to_string(), fixed.windows.iter().map(|window| self.plan.fixed(*hops, *window)).collect()));
        }
        places.push(("dynamic".to_owned(), dynamic.windows.iter().map(|window| self.plan.dynamic(*window)).collect()));
        for (place, keys) in places {
            let (row, mean) = (format!("window/{place}"), |key: Key| self.mean_goodput(key).unwrap_or(0.0));
            let enough = |pair: &[Key]| mean(pair[1]) < mean(pair[0]) * (1.0 + FURTHER_GAIN_PERCENT / 100.0);
            let first = keys[keys.windows(2).position(enough).unwrap_or(keys.len() - 1)];
            let recommended = f64::from(first.settings.window);
            let runs = u32::try_from(self.samples.replications(first)).unwrap_or(u32::MAX);
            let named = Row { paper: NAME, item: "table1", row: &row };
            self.figures.push(Figure { runs, ..named.mean("recommended", Unit::Count, &[recommended], None) });
            self.gain("table1", &row, "gain_over_largest", first, keys[keys.len() - 1]);
        }
        self
    }

    fn mean_goodput(&self, key: Key) -> Option<f64> {
        let goodput = self.samples.each(&[key], samples::goodput);
        (!goodput.is_empty()).then(|| goodput.iter().sum::<f64>() / goodput.len() as f64)
    }

    fn goodput(&mut self, item: &str, row: &str, column: &str, key: Key) {
        self.mean(item, row, column, Unit::BitsPerSecond, &self.samples.each(&[key], samples::goodput));
    }

    fn gain(&mut self, item: &str, row: &str, column: &str, one: Key, other: Key) {
        self.mean(item, row, column, Unit::Percent, &self.samples.gain(&[one], &[other], samples::goodput));
    }

    /// A figure, if there is a replication that has the value.
    fn mean(&mut self, item: &str, row: &str, column: &str, unit: Unit, values: &[f64]) {
        if !values.is_empty() {
            self.figures.push(Row { paper: NAME, item, row }.mean(column, unit, values, None));
        }
    }
}

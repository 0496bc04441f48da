//! What the paper says in words, put to the test with the measured values.
//!
//! What is more or better is so if the 95 % confidence interval of the difference, replication by replication, is above 0.
//! Where the words leave open how much is meant, the bounds here are our reading of them.

use std::ops::RangeInclusive;

use super::NAME;
use super::scenario::Scenario;
use crate::papers::{Claim, Values};
use crate::results::{Figure, Unit};

/// A gain of nothing, in per cent.
const NOTHING: RangeInclusive<f64> = -2.0..=2.0;
/// The recommended window's gain over the largest one where goodput has flattened, in per cent.
const FLAT: RangeInclusive<f64> = -10.0..=10.0;
/// A success that is near-certain, in per cent.
const NEAR_CERTAIN: RangeInclusive<f64> = 95.0..=100.0;
/// Windows from here on are large.
const LARGE_WINDOW: u16 = 4;
/// A gain is erratic if it spreads over so many percentage points or more.
const ERRATIC: RangeInclusive<f64> = 10.0..=f64::INFINITY;
/// A gain is linear in the window if a line through no gain at a window of 1 crosses so many of the intervals, as a share:
/// one of seven may be missed by chance.
const LINEAR: RangeInclusive<f64> = 0.8..=1.0;

/// Why a claim does not hold, where that is known.
pub(super) fn reason(figure: &Figure) -> Option<&'static str> {
    if figure.unit != Unit::Verdict || figure.measured > 0.5 {
        return None;
    }
    REASONS.iter().find(|(claim, _)| figure.row.starts_with(claim)).map(|(_, reason)| *reason)
}

/// By the beginning of a claim's row.
const REASONS: &[(&str, &str)] = &[
    (
        "rfc6298_above_semi-dynamic",
        "the handshake's round-trip time still fits while routes are frozen and nothing else uses the channel, and the \
         floor of 500 ms covers what the window adds to it",
    ),
    (
        "path_dr_has_more",
        "losses are independent from frame to frame, so that retries repair what poor links lose, and longer routes cost \
         more than they save: which of both metrics is ahead depends on the draw of the shadowing",
    ),
    (
        "beb_fails_more_transfers",
        "the difference has the sign that it should have, but five replications leave it within its interval",
    ),
];

/// All claims whose values were measured.
pub(super) fn figures(scenario: &Scenario, figures: &[Figure]) -> Vec<Figure> {
    let judge = Judge { scenario, values: Values::new(figures) };
    let claims = [
        judge.fig2(),
        judge.fig3(),
        judge.fig4(),
        judge.fig5(),
        judge.fig6(),
        judge.fig7(),
        judge.fig8(),
        judge.fig9(),
    ];
    claims.into_iter().flatten().flat_map(|claim| claim.figures(NAME)).collect()
}

struct Judge<'a> {
    scenario: &'a Scenario,
    values: Values<'a>,
}

/// A difference or gain is above 0.
fn clear(row: String, column: &'static str, found: &Figure) -> Claim {
    let holds = found.ci95.is_some_and(|interval| interval.low > 0.0);
    Claim { row, column: column.to_owned(), unit: found.unit, measured: found.measured, runs: found.runs, holds }
}

fn in_range(row: String, column: &'static str, found: &Figure, range: &RangeInclusive<f64>) -> Claim {
    Claim::in_range(row, column, found.unit, (found.measured, found.runs), range)
}

impl<'a> Judge<'a> {
    /// The gain of binary exponential backoff is clear with small windows, rises with the hops with a window of 1, and is
    /// erratic with large windows.
    fn fig2(&self) -> Vec<Claim> {
        let gain = |hops: u8, window: u16| self.get(&format!("static/{hops}/{window}"), "beb_gain");
        let small = self.scenario.fixed.hops.iter().flat_map(|hops| [(*hops, 1), (*hops, 2)]);
        let mut claims: Vec<Claim> = small
            .filter_map(|(hops, window)| {
                let row = format!("beb_gain_clear_at_small_windows/{hops}/{window}");
                Some(clear(row, "gain", gain(hops, window)?))
            })
            .collect();
        let hops = || self.scenario.fixed.hops.iter().copied();
        let ends = hops().max().zip(hops().min()).and_then(|(last, first)| gain(last, 1).zip(gain(first, 1)));
        claims.extend(
            ends.map(|(last, first)| Claim::clearly_above("beb_gain_rises_with_hops_at_window_1", last, first)),
        );
        let windows = || self.scenario.fixed.windows.iter().copied().filter(|window| *window >= LARGE_WINDOW);
        let large: Vec<&Figure> = hops()
            .flat_map(|hops| windows().map(move |window| (hops, window)))
            .filter_map(|(h, w)| gain(h, w))
            .collect();
        let of = |pick: fn(f64, f64) -> f64| large.iter().map(|figure| figure.measured).reduce(pick);
        claims.extend(of(f64::max).zip(of(f64::min)).map(|(most, least)| {
            let spread = (most - least, large[0].runs);
            Claim::in_range("beb_gain_erratic_at_large_windows", "spread", Unit::Percent, spread, &ERRATIC)
        }));
        claims
    }

    /// Binary exponential backoff has more failures and drops.
    fn fig3(&self) -> Vec<Claim> {
        let places = self.multihop().map(|hops| hops.to_string()).chain(["dynamic".to_owned()]);
        let drops = places.filter_map(|place| {
            let found = self.get(&format!("beb/{place}"), "more_frames_given_up")?;
            Some(clear(format!("beb_drops_more_frames/{place}"), "difference", found))
        });
        let failures = self.get("beb/dynamic", "more_failed_transfers");
        let failures = failures.map(|found| clear("beb_fails_more_transfers/dynamic".to_owned(), "difference", found));
        drops.chain(failures).collect()
    }

    /// Goodput and round-trip time rise with retries with large windows over several hops, and not with a window of 1.
    fn fig4(&self) -> Vec<Claim> {
        let windows = self.scenario.variations.retries_windows.iter();
        let cells = windows.flat_map(|window| self.multihop().map(move |hops| (*window, hops)));
        let judge = |(window, hops): (u16, u8), column: &str, what: &str| {
            let found = self.get(&format!("retries/{hops}/{window}/{}", self.most_retries()?), column)?;
            Some(if window == 1 {
                in_range(format!("retries_leave_{what}_at_window_1/{hops}"), "gain", found, &NOTHING)
            } else {
                clear(format!("{what}_rises_with_retries/{hops}/{window}"), "gain", found)
            })
        };
        cells
            .flat_map(|cell| [judge(cell, "goodput_gain", "goodput"), judge(cell, "round_trip_gain", "rtt")])
            .flatten()
            .collect()
    }

    /// Success rises with retries, to near-certain.
    fn fig5(&self) -> Vec<Claim> {
        let Some(most) = self.most_retries() else { return Vec::new() };
        let row = format!("retries/dynamic/{most}");
        let rises = self.get(&row, "more_success");
        let rises = rises.map(|found| clear("success_rises_with_retries/dynamic".to_owned(), "difference", found));
        let certain = self.get(&row, "success");
        let certain = certain
            .map(|found| in_range(format!("success_near_certain/dynamic/{most}"), "success", found, &NEAR_CERTAIN));
        rises.into_iter().chain(certain).collect()
    }

    /// PATH-DR has longer routes of a larger spread, more goodput and more success.
    fn fig6(&self) -> Vec<Claim> {
        let claims = [
            ("more_route_hops", "path_dr_has_longer_routes"),
            ("more_route_hops_sd", "path_dr_has_routes_of_more_spread"),
            ("goodput_gain", "path_dr_has_more_goodput"),
            ("more_success", "path_dr_has_more_success"),
        ];
        let judge = |(column, claim): (&str, &str)| {
            Some(clear(claim.to_owned(), "difference", self.get("path-dr/all", column)?))
        };
        claims.into_iter().filter_map(judge).collect()
    }

    /// The gain of cumulative acknowledgments is linear in the window.
    fn fig7(&self) -> Vec<Claim> {
        let of_hops = |hops: u8| {
            let points: Vec<(f64, &Figure)> = self
                .scenario
                .variations
                .positive_windows
                .iter()
                .filter(|window| **window > 1)
                .filter_map(|window| {
                    Some((f64::from(*window), self.get(&format!("static/{hops}/{window}"), "cumulative_gain")?))
                })
                .collect();
            let share = (share_on_a_line(&points)?, points.first()?.1.runs);
            let row = format!("cumulative_gain_linear_in_window/{hops}");
            Some(Claim::in_range(row, "intervals_on_a_line", Unit::Ratio, share, &LINEAR))
        };
        self.multihop().filter_map(of_hops).collect()
    }

    /// RFC 6298 is best over several hops, and over one all are equal.
    fn fig8(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        for other in ["static", "semi-dynamic"] {
            for window in self.scenario.variations.schemes_windows.iter() {
                for hops in self.scenario.fixed.hops.iter() {
                    let gain = self.get(&format!("timer/{other}/{window}/{hops}"), "gain_of_rfc6298");
                    claims.extend(gain.map(|found| {
                        if *hops == 1 {
                            in_range(format!("timers_equal_over_one_hop/{other}/{window}"), "gain", found, &NOTHING)
                        } else {
                            clear(format!("rfc6298_above_{other}/{hops}/{window}"), "gain", found)
                        }
                    }));
                }
            }
        }
        claims
    }

    /// Over frozen routes goodput flattens at a window that depends on the hops; over others it falls beyond it.
    fn fig9(&self) -> Vec<Claim> {
        let hops = || self.scenario.fixed.hops.iter();
        let mut claims: Vec<Claim> = hops()
            .filter_map(|hops| {
                let found = self.get(&format!("window/{hops}"), "gain_over_largest")?;
                Some(in_range(format!("static_goodput_flattens/{hops}"), "gain_of_recommended", found, &FLAT))
            })
            .collect();
        let recommended: Vec<&Figure> =
            hops().filter_map(|hops| self.get(&format!("window/{hops}"), "recommended")).collect();
        let of = |pick: fn(f64, f64) -> f64| recommended.iter().map(|figure| figure.measured).reduce(pick);
        claims.extend(of(f64::max).zip(of(f64::min)).map(|(most, least)| {
            let spread = (most - least, recommended[0].runs);
            let range = 1.0..=f64::INFINITY;
            Claim::in_range("recommended_window_depends_on_hops", "spread", Unit::Count, spread, &range)
        }));
        let falls = self.get("window/dynamic", "gain_over_largest");
        claims.extend(
            falls.map(|found| {
                clear("dynamic_goodput_falls_beyond_recommended".to_owned(), "gain_of_recommended", found)
            }),
        );
        claims
    }

    fn get(&self, row: &str, column: &str) -> Option<&'a Figure> {
        self.values.get(row, column)
    }

    fn multihop(&self) -> impl Iterator<Item = u8> + '_ {
        self.scenario.fixed.hops.iter().copied().filter(|hops| *hops > 1)
    }

    fn most_retries(&self) -> Option<u8> {
        self.scenario.variations.retries.iter().copied().max()
    }
}

/// How many of these intervals are crossed by the rising line through (1, 0) that is nearest to their means by least
/// squares, as a share; 0 if that line does not rise. `None` without intervals.
fn share_on_a_line(points: &[(f64, &Figure)]) -> Option<f64> {
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(x - 1.0, y.measured)).sum::<f64>();
    let (xx, xy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
    let intervals: Vec<_> = points.iter().filter_map(|(x, y)| Some((*x, y.ci95?))).collect();
    if intervals.is_empty() || xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let crossed = intervals.iter().filter(|(x, interval)| slope > 0.0 && interval.contains(slope * (x - 1.0))).count();
    Some(crossed as f64 / intervals.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Row;

    fn share(points: &[(f64, f64)]) -> Option<f64> {
        let row = Row { paper: NAME, item: "fig7", row: "" };
        // Intervals of ±1.27: t(1; .975) = 12.7 times a standard error of 0.1.
        let figures: Vec<_> =
            points.iter().map(|(x, y)| (*x, row.mean("", Unit::Percent, &[y - 0.1, y + 0.1], None))).collect();
        share_on_a_line(&figures.iter().map(|(x, figure)| (*x, figure)).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_crosses_the_intervals_of_what_lies_on_it() {
        assert_eq!(share(&[(2.0, 3.0), (3.0, 6.5), (4.0, 8.8)]), Some(1.0));
        // Of a constant of 5 the nearest line has a slope of 15/7, and is near enough at 3 only.
        assert_eq!(share(&[(2.0, 5.0), (3.0, 5.0), (4.0, 5.0)]), Some(1.0 / 3.0));
        assert_eq!(share(&[(2.0, -3.0), (3.0, -6.0)]), Some(0.0), "it falls");
        assert_eq!(share(&[]), None);
    }
}

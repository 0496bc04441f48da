//! Scales from values to positions on an axis, and tick values.

/// Up to this ratio of its ends, 1, 2 and 5 times powers of ten are too few ticks of a logarithmic
/// axis.
const FEW_TICKS: f64 = 6.0;

/// An axis from its lowest to its highest value, between two positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// Returns an axis over these values with round ends, from 0 with `zero`. A logarithmic one
    /// ignores values that are not positive.
    pub(crate) fn over(values: impl Iterator<Item = f64>, log: bool, zero: bool, ticks: u32) -> Self {
        let usable = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (mut low, mut high) =
            usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if log {
            (low, high) = around(low, high);
        } else {
            // Small differences would be a flat line.
            if zero || (low > 0.0 && low < 0.6 * high) {
                low = low.min(0.0);
                high = high.max(0.0);
            }
            if high - low <= f64::EPSILON * high.abs().max(1.0) {
                let room = if high == 0.0 { 1.0 } else { high.abs() * 0.1 };
                (low, high) = if zero || high == 0.0 { (low, high + room) } else { (low - room, high + room) };
            }
            let step = step(high - low, ticks);
            (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        }
        Self { low, high, log, from: 0.0, to: 1.0 }
    }

    pub(crate) fn up_to(self, high: f64) -> Self {
        if high > self.low && high.is_finite() { Self { high, ..self } } else { self }
    }

    /// Ends the axis at possible values.
    pub(crate) fn within(self, low: f64, high: f64) -> Self {
        Self { low: self.low.max(low), high: self.high.min(high), ..self }
    }

    pub(crate) fn between(self, from: f64, to: f64) -> Self {
        Self { from, to, ..self }
    }

    pub(crate) fn contains(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }

    /// Clamps a position to the axis.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            if value <= 0.0 { 0.0 } else { (value / self.low).ln() / (self.high / self.low).ln() }
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns the base of bars: 0, or a logarithmic axis' lowest value.
    pub(crate) fn ground(&self) -> f64 {
        if self.log { self.from } else { self.at(0.0) }
    }

    /// Returns about `wanted` round values.
    pub(crate) fn ticks(&self, wanted: u32) -> Vec<f64> {
        if self.log && self.high > FEW_TICKS * self.low {
            return self.decades(wanted);
        }
        let step = step(self.high - self.low, wanted);
        let count = ((self.high - self.low) / step + 1e-6).floor().clamp(0.0, 100.0);
        // The ends of a logarithmic axis need not be round.
        let first = (self.low / step - 1e-6).ceil();
        // A sum of steps would accumulate errors.
        let ticks = (0..=whole(count)).map(|tick| (first + f64::from(tick)) * step);
        ticks.filter(|tick| *tick <= self.high + 1e-6 * step).collect()
    }

    fn decades(&self, wanted: u32) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor(), self.high.log10().ceil());
        let decades = whole(last - first);
        let factors: &[f64] = match decades {
            0..=3 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = (decades / wanted.max(1)).max(1);
        let powers = (0..=decades).step_by(every as usize).map(|power| 10_f64.powf(first + f64::from(power)));
        let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
        let tolerance = 1e-9;
        all.filter(|tick| *tick >= self.low * (1.0 - tolerance) && *tick <= self.high * (1.0 + tolerance)).collect()
    }
}

/// Returns ends of 1, 2 or 5 times a power of ten.
fn around(low: f64, high: f64) -> (f64, f64) {
    let power = |value: f64| 10_f64.powf(value.log10().floor());
    let below = [5.0, 2.0, 1.0].into_iter().map(|factor| factor * power(low)).find(|tick| *tick <= low);
    let above = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power(high)).find(|tick| *tick >= high);
    let (below, above) = (below.unwrap_or(low), above.unwrap_or(high));
    if below < above { (below, above) } else { (below / 2.0, above * 2.0) }
}

fn step(range: f64, wanted: u32) -> f64 {
    let rough = range / f64::from(wanted.max(1));
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999).unwrap_or(10.0);
    factor * power
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped, and a float cast saturates")]
fn whole(count: f64) -> u32 {
    count.clamp(0.0, 1000.0) as u32
}

/// Formats a tick value briefly: `0.25`, `1500`, `20k`, `3M`.
pub(crate) fn label(value: f64) -> String {
    let magnitude = value.abs();
    let (scaled, unit) = match magnitude {
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" || (text == "0" && magnitude > 0.0) { format!("{value:.0e}") } else { text.to_owned() };
    format!("{text}{unit}").replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(values: &[f64], log: bool, zero: bool) -> Vec<String> {
        Scale::over(values.iter().copied(), log, zero, 5).ticks(5).into_iter().map(label).collect()
    }

    #[test]
    fn ticks_are_round_and_enclose_all_values() {
        assert_eq!(ticks(&[0.03, 0.29], false, true), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(ticks(&[61.0, 63.9], false, false), ["61", "62", "63", "64"]);
        assert_eq!(ticks(&[12.0, 381_954.0], false, true), ["0", "100k", "200k", "300k", "400k"]);
        assert_eq!(ticks(&[33.0, 2463.0], true, false), ["20", "50", "100", "200", "500", "1000", "2000", "5000"]);
        assert_eq!(ticks(&[1.0, 381_954.0], true, false), ["1", "10", "100", "1000", "10k", "100k"]);
    }

    #[test]
    fn a_short_logarithmic_axis_has_ticks_at_equal_steps() {
        assert_eq!(ticks(&[1.1, 1.9], true, false), ["1", "1.2", "1.4", "1.6", "1.8", "2"]);
        let scale = Scale::over([1.1, 1.9].into_iter(), true, false, 5).within(1.07, 1.93);
        assert_eq!(scale.ticks(5).into_iter().map(label).collect::<Vec<_>>(), ["1.2", "1.4", "1.6", "1.8"]);
    }

    #[test]
    fn values_that_are_all_alike_or_none_still_have_an_axis() {
        assert_eq!(ticks(&[], false, true).first().map(String::as_str), Some("0"));
        assert!(ticks(&[0.0, 0.0], false, true).len() > 2);
        assert!(ticks(&[100.0], true, false).len() > 1);
        assert!(ticks(&[f64::NAN, f64::INFINITY, -1.0], true, false).len() > 1);
    }

    #[test]
    fn an_axis_ends_at_possible_values() {
        let scale = Scale::over([100.0, 100.0].into_iter(), false, false, 5);
        assert!(scale.contains(105.0) && !scale.within(0.0, 100.0).contains(105.0));
        assert_eq!(scale.within(0.0, 100.0).ticks(5).last(), Some(&100.0));
    }

    #[test]
    fn equal_factors_are_equally_far_apart_on_a_logarithmic_axis() {
        let scale = Scale::over([1.0, 100.0].into_iter(), true, false, 5).between(100.0, 0.0);
        assert!((scale.at(10.0) - 50.0).abs() < 1e-9);
        assert!((scale.at(0.0) - 100.0).abs() < 1e-9, "what is not above 0 is at the lower end");
    }
}

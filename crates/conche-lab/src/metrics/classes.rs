//! Shares of flows or exchanges by class.

use serde::Deserialize;

use super::{Metric, Sample};

/// Which share, in per cent, of what a metric gives for each flow or exchange is in each class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// The metric.
    pub of: Box<Metric>,
    /// Where each class begins, in the metric's unit; it ends where the next one begins.
    pub from: Vec<f64>,
    /// What results call each.
    pub names: Vec<String>,
}

impl Classes {
    pub(super) fn validate(&self) -> Result<(), String> {
        if !self.of.has_many() {
            return Err("classes are of a metric of each flow or exchange, such as rto".to_owned());
        }
        if self.from.is_empty() || self.from.len() != self.names.len() {
            let (names, bounds) = (self.names.len(), self.from.len());
            return Err(format!("{names} names for {bounds} classes; each has one, and there is at least one"));
        }
        match self.from.is_sorted_by(|low, high| low < high) {
            true => Ok(()),
            false => Err("classes must begin one after the other: list `from` in rising order".to_owned()),
        }
    }

    /// The shares, of which there are none of nothing.
    pub(super) fn of(&self, sample: &Sample) -> Sample {
        let Sample::Each(values, base) = sample else { return Sample::None };
        if values.is_empty() {
            return Sample::None;
        }
        let mut counts = vec![0_u32; self.from.len()];
        for value in values.iter().map(|value| *value as f64 / base) {
            let begun = self.from.iter().take_while(|from| **from <= value).count();
            if let Some(class) = begun.checked_sub(1) {
                counts[class] += 1;
            }
        }
        let share = |count: u32| 100.0 * (f64::from(count) / values.len() as f64);
        Sample::Labelled(self.names.iter().cloned().zip(counts.into_iter().map(share)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(from: &[f64]) -> Classes {
        let names = from.iter().map(|from| format!("from {from}")).collect();
        Classes { of: Box::new(Metric::FlowSuccesses), from: from.to_vec(), names }
    }

    #[test]
    fn each_value_is_in_one_class_and_what_is_below_all_in_none() {
        let sample = Sample::Each(vec![0, 9, 10, 99, 100, 250, 300, 400], 1.0);
        let shares = |from: &[f64]| match classes(from).of(&sample) {
            Sample::Labelled(shares) => shares.into_iter().map(|(_, share)| share).collect::<Vec<f64>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shares(&[0.0, 10.0, 100.0]), [25.0, 25.0, 50.0]);
        assert_eq!(shares(&[100.0]), [50.0]);
        assert_eq!(classes(&[0.0]).of(&Sample::Each(Vec::new(), 1.0)), Sample::None);
    }

    #[test]
    fn classes_without_sense_are_refused() {
        let of = |of, from: &[f64]| Classes { of: Box::new(of), ..classes(from) }.validate();
        assert!(of(Metric::Rto, &[0.0, 0.5]).is_ok());
        assert!(of(Metric::Jain, &[0.0]).is_err_and(|problem| problem.contains("of each flow or exchange")));
        assert!(of(Metric::Rto, &[1.0, 1.0]).is_err_and(|problem| problem.contains("rising order")));
        assert!(of(Metric::Rto, &[]).is_err_and(|problem| problem.contains("0 names for 0 classes")));
    }
}

//! The time series of a run.

use conche_results::CellId;

/// The time series of a run at equal times: 0, `step_s`, 2 · `step_s`, …
#[derive(Clone, Debug)]
pub(crate) struct RunSeries {
    pub(crate) cell: CellId,
    pub(crate) step_s: f64,
    pub(crate) lines: Vec<Line>,
}

/// A quantity over time; `None` before its first value.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) quantity: String,
    pub(crate) scheme: Option<String>,
    pub(crate) of: Of,
    pub(crate) values: Vec<Option<f64>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Of {
    Client(String),
    /// The mean of this many clients.
    Clients(usize),
    Link(String),
}

impl RunSeries {
    /// Returns the time of the last values.
    pub(crate) fn end_s(&self) -> f64 {
        let most = self.lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
        most.saturating_sub(1) as f64 * self.step_s
    }

    /// Replaces the clients of each scheme by their mean.
    pub(crate) fn with_means(self) -> Self {
        let Self { cell, step_s, lines } = self;
        let (clients, mut others): (Vec<Line>, Vec<Line>) =
            lines.into_iter().partition(|line| matches!(line.of, Of::Client(_)));
        let mut groups: Vec<Vec<Line>> = Vec::new();
        for line in clients {
            let is_like = |of: &&mut Vec<Line>| of[0].quantity == line.quantity && of[0].scheme == line.scheme;
            match groups.iter_mut().find(is_like) {
                Some(group) => group.push(line),
                None => groups.push(vec![line]),
            }
        }
        others.extend(groups.into_iter().map(mean));
        Self { cell, step_s, lines: others }
    }
}

impl Line {
    pub(crate) fn at(&self, time_s: f64, step_s: f64) -> Option<f64> {
        // A small share of a step is a rounding error.
        let place = (time_s / step_s + 1e-6).floor();
        let last = self.values.len().checked_sub(1)?;
        (place >= 0.0 && place <= last as f64 + 0.5).then(|| self.values.get(whole(place)).copied().flatten())?
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
pub(crate) fn whole(number: f64) -> usize {
    number as usize
}

fn mean(group: Vec<Line>) -> Line {
    let longest = group.iter().map(|line| line.values.len()).max().unwrap_or(0);
    let values = (0..longest).map(|place| {
        let here: Vec<f64> = group.iter().filter_map(|line| line.values.get(place).copied().flatten()).collect();
        (!here.is_empty()).then(|| here.iter().sum::<f64>() / here.len() as f64)
    });
    let values = values.collect();
    let of = Of::Clients(group.len());
    let [first, ..] = &group[..] else { return Line { quantity: String::new(), scheme: None, of, values } };
    Line { quantity: first.quantity.clone(), scheme: first.scheme.clone(), of, values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_scheme_have_a_mean_of_those_with_a_value() {
        let line = |scheme: &str, of, values: &[Option<f64>]| Line {
            quantity: "rto_s".to_owned(),
            scheme: Some(scheme.to_owned()),
            of,
            values: values.to_vec(),
        };
        let client = |name: &str| Of::Client(name.to_owned());
        let run = RunSeries {
            cell: CellId::default(),
            step_s: 2.0,
            lines: vec![
                line("a", client("1"), &[None, Some(1.0), Some(2.0)]),
                line("a", client("2"), &[None, None, Some(4.0)]),
                line("b", client("3"), &[Some(5.0)]),
                line("b", Of::Link("wire".to_owned()), &[Some(9.0)]),
            ],
        };
        let run = run.with_means();
        let lines: Vec<_> = run.lines.iter().map(|line| (line.of.clone(), line.values.clone())).collect();
        let link = (Of::Link("wire".to_owned()), vec![Some(9.0)]);
        let of_a = (Of::Clients(2), vec![None, Some(1.0), Some(3.0)]);
        assert_eq!(lines, [link, of_a, (Of::Clients(1), vec![Some(5.0)])]);
        assert!((run.end_s() - 4.0).abs() < 1e-9);
        let of_a = &run.lines[1];
        assert_eq!([0.0, 2.0, 3.9, 4.0, 6.0].map(|at| of_a.at(at, 2.0)), [None, Some(1.0), Some(1.0), Some(3.0), None]);
    }
}

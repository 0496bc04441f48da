//! The results of all measurements: medians over rounds, and their ratios.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::load::Load;
use crate::peer::Peer;
use crate::sample::Sample;

/// A round counts as disturbed if other processes used more of a core than this.
pub const MOST_FOREIGN: f64 = 0.05;

/// Minimum share of busy time that makes a generator, or a client's server, the bottleneck.
pub const MOST_BUSY: f64 = 0.95;

/// Maximum share of requests without a proper response in reliable results.
pub const MOST_MISSING: f64 = 0.001;

/// The samples of all rounds.
#[derive(Clone, Debug, Default)]
pub struct Results {
    samples: BTreeMap<(Load, Peer), Vec<Sample>>,
}

/// Accessor of a sample's value.
pub type Of = fn(&Sample) -> Option<f64>;

/// A reason to doubt a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// Other processes used the machine in all rounds.
    Disturbed,
    /// The generator, or a client's server, was the bottleneck.
    Generator,
    /// Requests lacked the expected response.
    Missing,
}

impl Doubt {
    /// All doubts.
    pub const ALL: [Self; 3] = [Self::Disturbed, Self::Generator, Self::Missing];

    /// Returns its mark.
    pub fn mark(self) -> char {
        match self {
            Self::Disturbed => '~',
            Self::Generator => '†',
            Self::Missing => '‡',
        }
    }

    /// Returns the meaning of its mark.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Disturbed => "others used more than 5 % of a core in every round",
            Self::Generator => "what it was measured with was busy all the time: it can do more",
            Self::Missing => "more than one request of 1000 had no response 2.05",
        }
    }
}

impl Results {
    /// Adds the sample of a round.
    pub fn add(&mut self, load: Load, peer: Peer, sample: Sample) {
        self.samples.entry((load, peer)).or_default().push(sample);
    }

    /// Returns all samples of a load and peer.
    pub fn samples(&self, load: Load, peer: Peer) -> &[Sample] {
        self.samples.get(&(load, peer)).map_or(&[], Vec::as_slice)
    }

    /// Returns the peers with samples of a load, in the order of the tables.
    pub fn measured(&self, load: Load) -> impl Iterator<Item = Peer> {
        Peer::ALL.into_iter().filter(move |&peer| !self.samples(load, peer).is_empty())
    }

    /// Returns the median of a value over undisturbed rounds; over all rounds if none is
    /// undisturbed.
    pub fn median(&self, load: Load, peer: Peer, of: Of) -> Option<f64> {
        let samples = self.samples(load, peer);
        let quiet: Vec<f64> = samples.iter().filter(|sample| !is_disturbed(sample)).filter_map(of).collect();
        median(if quiet.is_empty() { samples.iter().filter_map(of).collect() } else { quiet })
    }

    /// Returns the ratio of a value to the same value of another load or peer.
    pub fn ratio(&self, (load, peer): (Load, Peer), (than, other): (Load, Peer), of: Of) -> Option<f64> {
        let (number, other) = (self.median(load, peer, of)?, self.median(than, other, of)?);
        (other > 0.0).then(|| number / other)
    }

    /// Returns the reasons to doubt a peer's values.
    pub fn doubts(&self, load: Load, peer: Peer) -> Vec<Doubt> {
        let samples = self.samples(load, peer);
        let is_in = |doubt: &Doubt| match doubt {
            Doubt::Disturbed => !samples.is_empty() && samples.iter().all(is_disturbed),
            Doubt::Generator => self.median(load, peer, |sample| Some(sample.generator)) > Some(MOST_BUSY),
            Doubt::Missing => self.median(load, peer, |sample| Some(sample.missing)) > Some(MOST_MISSING),
        };
        Doubt::ALL.into_iter().filter(is_in).collect()
    }
}

fn is_disturbed(sample: &Sample) -> bool {
    sample.foreign > MOST_FOREIGN
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    Some(if numbers.len() % 2 == 1 { upper } else { f64::midpoint(numbers[middle - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Of = |sample| Some(sample.per_s);

    fn results(rounds: &[(f64, f64)]) -> Results {
        let mut results = Results::default();
        for &(per_s, foreign) in rounds {
            results.add(Load::Many, Peer::Conche, Sample { per_s, foreign, ..Sample::default() });
        }
        results
    }

    fn rate(results: &Results) -> f64 {
        results.median(Load::Many, Peer::Conche, RATE).expect("a median")
    }

    #[test]
    fn medians_are_of_undisturbed_rounds_if_there_are_any() {
        assert!((rate(&results(&[(3.0, 0.0), (1.0, 0.0), (2.0, 0.0)])) - 2.0).abs() < 1e-9);
        assert!((rate(&results(&[(3.0, 0.0), (2.0, 0.0)])) - 2.5).abs() < 1e-9);
        let mixed = results(&[(3.0, 0.0), (1.0, 0.5), (2.0, 0.5)]);
        assert!((rate(&mixed) - 3.0).abs() < 1e-9);
        assert_eq!(mixed.doubts(Load::Many, Peer::Conche), []);
        let disturbed = results(&[(3.0, 0.5), (1.0, 0.5), (2.0, 0.5)]);
        assert!((rate(&disturbed) - 2.0).abs() < 1e-9);
        assert_eq!(disturbed.doubts(Load::Many, Peer::Conche), [Doubt::Disturbed]);
    }

    #[test]
    fn ratios_need_both_and_no_division_by_nothing() {
        let mut results = results(&[(30.0, 0.0)]);
        let ratio = |results: &Results| results.ratio((Load::Many, Peer::Conche), (Load::Many, Peer::Libcoap), RATE);
        assert_eq!(ratio(&results), None);
        results.add(Load::Many, Peer::Libcoap, Sample::default());
        assert_eq!(ratio(&results), None);
        results.add(Load::Many, Peer::Libcoap, Sample { per_s: 20.0, ..Sample::default() });
        assert!((ratio(&results).expect("both are there") - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_busy_generator_and_missing_responses_are_doubts() {
        let mut results = Results::default();
        let sample = Sample { generator: 0.99, missing: 0.01, ..Sample::default() };
        results.add(Load::Wide, Peer::Raw, sample);
        assert_eq!(results.doubts(Load::Wide, Peer::Raw), [Doubt::Generator, Doubt::Missing]);
        assert_eq!(results.doubts(Load::Wide, Peer::Conche), [], "of nothing nothing is said");
    }
}

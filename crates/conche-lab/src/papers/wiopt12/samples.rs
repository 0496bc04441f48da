//! One value for each replication, out of the transfers that it ran, and comparisons of the same replication under two
//! settings: it has the same routes, pairs and random numbers in both.

use super::plan::{Key, Results};
use super::transfer::Transfer;

/// The transfers of all combinations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Samples<'a>(pub(super) &'a Results);

/// What is measured of the transfers of a replication.
pub(super) type Value = fn(&[&Transfer]) -> Option<f64>;

impl<'a> Samples<'a> {
    /// The value of each replication that has it, over all transfers of these combinations.
    pub(super) fn each(self, keys: &[Key], of: Value) -> Vec<f64> {
        self.pooled(keys).iter().filter_map(|transfers| of(transfers)).collect()
    }

    /// By how much it is more in one than in the other.
    pub(super) fn difference(self, one: &[Key], other: &[Key], of: Value) -> Vec<f64> {
        let pairs = self.pooled(one).into_iter().zip(self.pooled(other));
        pairs.filter_map(|(one, other)| Some(of(&one)? - of(&other)?)).collect()
    }

    /// By how many per cent it is more, over the transfers that succeed in both.
    pub(super) fn gain(self, one: &[Key], other: &[Key], of: Value) -> Vec<f64> {
        let both = |(one, other): (Vec<&'a Transfer>, Vec<&'a Transfer>)| {
            let succeed = one.into_iter().zip(other).filter(|(one, other)| one.succeeds() && other.succeeds());
            let (one, other): (Vec<_>, Vec<_>) = succeed.unzip();
            Some(100.0 * (of(&one)? / of(&other)? - 1.0))
        };
        self.pooled(one).into_iter().zip(self.pooled(other)).filter_map(both).collect()
    }

    /// How many replications a combination has.
    pub(super) fn replications(self, key: Key) -> usize {
        self.0.get(&key).map_or(0, Vec::len)
    }

    /// For each replication its transfers, in the order of the combinations.
    fn pooled(self, keys: &[Key]) -> Vec<Vec<&'a Transfer>> {
        let all: Vec<&Vec<Vec<Transfer>>> = keys.iter().filter_map(|key| self.0.get(key)).collect();
        let replications = all.iter().map(|of_key| of_key.len()).max().unwrap_or(0);
        (0..replications).map(|index| all.iter().filter_map(|of_key| of_key.get(index)).flatten().collect()).collect()
    }
}

/// In bits a second, of those that succeeded.
pub(super) fn goodput(transfers: &[&Transfer]) -> Option<f64> {
    mean(transfers.iter().filter_map(|transfer| transfer.goodput))
}

/// In seconds.
pub(super) fn round_trip(transfers: &[&Transfer]) -> Option<f64> {
    mean(transfers.iter().filter_map(|transfer| transfer.round_trip))
}

/// The share of transfers that failed, in per cent.
pub(super) fn failed(transfers: &[&Transfer]) -> Option<f64> {
    mean(transfers.iter().map(|transfer| if transfer.succeeds() { 0.0 } else { 100.0 }))
}

/// The share of transfers that succeeded, in per cent.
pub(super) fn success(transfers: &[&Transfer]) -> Option<f64> {
    failed(transfers).map(|failed| 100.0 - failed)
}

/// The share of frames that the MAC gave up, in per cent.
pub(super) fn given_up(transfers: &[&Transfer]) -> Option<f64> {
    let sum = |count: fn(&Transfer) -> u64| transfers.iter().map(|transfer| count(transfer)).sum::<u64>() as f64;
    let all = sum(|transfer| transfer.handed_over);
    (all > 0.0).then(|| 100.0 * sum(|transfer| transfer.given_up) / all)
}

/// The mean length of routes that were found.
pub(super) fn route_hops(transfers: &[&Transfer]) -> Option<f64> {
    mean(lengths(transfers))
}

/// Its standard deviation.
pub(super) fn route_hops_sd(transfers: &[&Transfer]) -> Option<f64> {
    let mean = route_hops(transfers)?;
    let count = lengths(transfers).count();
    let squares = lengths(transfers).map(|hops| (hops - mean).powi(2)).sum::<f64>();
    (count > 1).then(|| (squares / (count - 1) as f64).sqrt())
}

fn lengths<'a>(transfers: &'a [&Transfer]) -> impl Iterator<Item = f64> + 'a {
    transfers.iter().flat_map(|transfer| &transfer.routes).map(|hops| f64::from(*hops))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

//! Randomness: one stream per seed, entity and purpose, started from a hash of the three.
//!
//! Draws of one stream do not change another's (common random numbers). The generator, PCG XSL
//! 128/64 (MCG), and the distributions are fixed: results must not change with a library.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{LinkId, NodeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance(u64);

/// The random streams of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

/// The owner of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entity {
    /// The run: a scenario's draws before the start.
    Run,
    /// A node.
    Node(NodeId),
    /// A link.
    Link(LinkId),
}

/// A stream's purpose, identified by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose(u64);

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Streams {
    /// Creates the streams of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the stream of `entity` for `purpose`, at its start.
    #[must_use]
    pub fn stream(&self, entity: Entity, purpose: Purpose) -> Stream {
        let (kind, index) = match entity {
            Entity::Run => (0, 0),
            Entity::Node(node) => (1, u64::from(node.0)),
            Entity::Link(link) => (2, u64::from(link.0)),
        };
        let key = [self.seed, kind, index, purpose.0].into_iter().fold(0, |hash, word| mix(hash ^ word));
        Stream(Pcg64Mcg::new(u128::from(mix(key)) << 64 | u128::from(mix(!key))))
    }

    /// Returns the stream's first 32 bytes, as another generator's seed.
    #[must_use]
    pub fn seed_bytes(&self, entity: Entity, purpose: Purpose) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.stream(entity, purpose).fill_bytes(&mut bytes);
        bytes
    }
}

impl Purpose {
    /// Creates a purpose from its name.
    #[must_use]
    pub const fn named(name: &str) -> Self {
        // FNV-1a; `Streams::stream` mixes further.
        let (bytes, mut hash, mut at) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        Self(hash)
    }
}

impl Chance {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float becomes the integer, and saturates"
    )]
    pub(crate) fn of(probability: f64) -> Self {
        Self(libm::ceil(probability * (1_u64 << 53) as f64) as u64)
    }
}

impl Stream {
    /// Returns a number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift; its bias is below bound/2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `low..=high`; `low` if `high` is less.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low);
        if span == u64::MAX { self.next_u64() } else { low + self.below(span + 1) }
    }

    /// Returns a multiple of 2⁻⁵³ in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns `true` with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Like [`Stream::chance`], without floating point.
    pub(crate) fn happens(&mut self, chance: Chance) -> bool {
        (self.next_u64() >> 11) < chance.0
    }

    /// Draws from the exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        // libm's logarithm is the same on every machine.
        -libm::log(1.0 - self.unit())
    }

    /// Draws from the standard normal distribution (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Shuffles the items uniformly (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1);
            items.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}

impl RngCore for Stream {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

impl SeedableRng for Stream {
    type Seed = <Pcg64Mcg as SeedableRng>::Seed;

    fn from_seed(seed: Self::Seed) -> Self {
        Self(Pcg64Mcg::from_seed(seed))
    }
}

/// SplitMix64's finalizer (Steele, Lea, Flood 2014).
const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSS: Purpose = Purpose::named("loss");

    fn first(seed: u64, entity: Entity, purpose: Purpose) -> u64 {
        Streams::new(seed).stream(entity, purpose).next_u64()
    }

    #[test]
    fn seed_entity_and_purpose_each_select_another_stream() {
        let node = Entity::Node(NodeId(1));
        let mut starts = vec![
            first(1, node, LOSS),
            first(2, node, LOSS),
            first(1, Entity::Link(LinkId(1)), LOSS),
            first(1, Entity::Node(NodeId(2)), LOSS),
            first(1, Entity::Run, LOSS),
            first(1, node, Purpose::named("jitter")),
        ];
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), 6);
        assert_eq!(first(1, node, LOSS), first(1, node, LOSS));
    }

    #[test]
    fn a_chance_is_its_probability_to_the_last_draw() {
        let tiny = 1.0 / (1_u64 << 53) as f64;
        for probability in [0.0, tiny / 3.0, tiny, 1e-6, 0.3, 0.5, 1.0 - tiny, 1.0, 2.0, -1.0, f64::NAN] {
            let Chance(draws) = Chance::of(probability);
            let unit = |draw: u64| draw as f64 * tiny;
            // All 2⁵³ draws hit at probability ≥ 1.
            let draws = draws.min(1 << 53);
            assert!(draws == 0 || unit(draws - 1) < probability, "{probability}");
            assert!(draws == 1 << 53 || probability.is_nan() || unit(draws) >= probability, "{probability}");
        }
        let (mut one, mut other) =
            (Streams::new(1).stream(Entity::Run, LOSS), Streams::new(1).stream(Entity::Run, LOSS));
        assert!((0..1000).all(|_| one.chance(0.3) == other.happens(Chance::of(0.3))));
    }

    #[test]
    fn every_order_of_three_is_equally_probable() {
        let mut stream = Streams::new(1).stream(Entity::Run, Purpose::named("order"));
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..60_000 {
            let mut items = [1, 2, 3];
            stream.shuffle(&mut items);
            *counts.entry(items).or_insert(0_u32) += 1;
        }
        // Binomial, σ = 91.
        assert!(counts.len() == 6 && counts.values().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
    }

    #[test]
    fn streams_stay_as_they_are_across_versions() {
        // Changing these numbers changes every published figure.
        assert_eq!(first(1, Entity::Run, LOSS), STREAM_OF_THE_RUN);
        assert_eq!(first(1, Entity::Link(LinkId(7)), LOSS), STREAM_OF_A_LINK);
    }
    const STREAM_OF_THE_RUN: u64 = 13_510_932_874_096_887_407;
    const STREAM_OF_A_LINK: u64 = 14_139_167_135_819_185_806;

    #[test]
    fn the_streams_of_neighbours_are_uncorrelated() {
        // Neighbouring streams agree in half of the bits: 64·63/2 pairs of 256 bits, σ = 359.
        let bytes: Vec<[u8; 32]> =
            (0..64).map(|node| Streams::new(9).seed_bytes(Entity::Node(NodeId(node)), LOSS)).collect();
        let differing: u32 = (0..64)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .map(|(a, b)| bytes[a].iter().zip(&bytes[b]).map(|(x, y)| (x ^ y).count_ones()).sum::<u32>())
            .sum();
        let expected = 64 * 63 / 2 * 128_u32;
        assert!(differing.abs_diff(expected) < 4 * 359, "{differing} of about {expected}");
    }

    #[test]
    fn distributions_have_their_means_and_bounds() {
        let mut stream = Streams::new(3).stream(Entity::Run, LOSS);
        let n = 200_000;
        let draws: Vec<u64> = (0..n).map(|_| stream.between(10, 19)).collect();
        assert_eq!((draws.iter().min(), draws.iter().max()), (Some(&10), Some(&19)));
        let mean = draws.iter().sum::<u64>() as f64 / f64::from(n);
        assert!((mean - 14.5).abs() < 4.0 * 2.87 / f64::from(n).sqrt(), "{mean}");
        let exponential = (0..n).map(|_| stream.exponential()).sum::<f64>() / f64::from(n);
        assert!((exponential - 1.0).abs() < 4.0 / f64::from(n).sqrt(), "{exponential}");
        let normals: Vec<f64> = (0..n).map(|_| stream.normal()).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(n);
        let square = normals.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 4.0 / f64::from(n).sqrt() && (square - 1.0).abs() < 0.013, "{mean}, {square}");
        let hits = (0..n).filter(|_| stream.chance(0.3)).count() as f64 / f64::from(n);
        assert!((hits - 0.3).abs() < 4.0 * 0.458 / f64::from(n).sqrt(), "{hits}");
        assert_eq!((stream.between(5, 5), stream.below(0), stream.between(7, 3)), (5, 0, 7));
    }
}

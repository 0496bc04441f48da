//! Signal-to-noise ratios between all motes that agree with what was measured.
//!
//! Of the links above a packet reception ratio of 0.9 the ratio is known; of all others it is known that they are below.
//! Both are drawn from one model of path loss with log-normal shadowing, under the condition that they agree with the
//! figure: the shadowing of a pair is drawn until both of its directions do.

use conche_netsim::radio::ReceptionCurve;
use conche_netsim::rng::Stream;

use super::measured::{POSITIONS_M, RATIOS_PERMILLE};

/// The motes.
pub(super) const MOTES: usize = POSITIONS_M.len();
/// Octets on the air of a 30-byte broadcast: with its FCS, SHR and PHR.
const BROADCAST_OCTETS: u32 = 30 + 2 + 6;
/// The figure draws links above this ratio.
const DRAWN: f64 = 0.9;
/// Ratios were measured with some hundred frames: the best links lose less than one in that many.
const PERFECT: f64 = 0.998;
/// How often the shadowing of a pair is drawn before it is taken at the edge of what was measured; what the figure shows
/// is far from impossible for any pair.
const DRAWS: u32 = 10_000;

/// Path loss between two motes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PathLoss {
    /// At this distance half of all pairs are connected (ratio above 0.9), in metres.
    pub(super) median_range_m: f64,
    /// How fast power falls with distance.
    pub(super) exponent: f64,
    /// Standard deviation of the shadowing that both directions share, in dB.
    pub(super) shadowing_db: f64,
    /// Standard deviation of what each direction has for itself, in dB.
    pub(super) asymmetry_db: f64,
}

/// The ratio from row to column, in dB; minus infinity on the diagonal.
pub(super) fn signal_to_noise_db(loss: PathLoss, curve: ReceptionCurve, stream: &mut Stream) -> Vec<Vec<f64>> {
    let mut snr = vec![vec![f64::NEG_INFINITY; MOTES]; MOTES];
    let measured = measured();
    let needed = |ratio: f64| inverse(curve, ratio);
    let (drawn_db, perfect_db) = (needed(DRAWN), needed(PERFECT));
    for (a, b) in (0..MOTES).flat_map(|a| (a + 1..MOTES).map(move |b| (a, b))) {
        let median = drawn_db + 10.0 * loss.exponent * libm::log10(loss.median_range_m / distance_m(a, b));
        let bounds = [(a, b), (b, a)].map(|(from, to)| match measured[from][to] {
            // A measured ratio fixes the signal, unless nothing was lost.
            Some(ratio) if ratio < PERFECT => (needed(ratio), needed(ratio)),
            Some(_) => (perfect_db, f64::INFINITY),
            None => (f64::NEG_INFINITY, drawn_db),
        });
        let [there, back] = draw(median, loss, bounds, stream);
        (snr[a][b], snr[b][a]) = (there, back);
    }
    snr
}

/// Both directions of a pair, each within its bounds.
fn draw(median: f64, loss: PathLoss, bounds: [(f64, f64); 2], stream: &mut Stream) -> [f64; 2] {
    let mut both = [median; 2];
    for _ in 0..DRAWS {
        let shared = median + loss.shadowing_db * stream.normal();
        both = bounds.map(|_| shared + loss.asymmetry_db * stream.normal());
        // Where a ratio is measured there is nothing to agree with.
        let agrees = |(snr, (low, high)): (&f64, &(f64, f64))| low >= high || (low..=high).contains(&snr);
        if both.iter().zip(&bounds).all(agrees) {
            break;
        }
    }
    let [first, second] = bounds;
    [both[0].clamp(first.0, first.1), both[1].clamp(second.0, second.1)]
}

fn measured() -> Vec<Vec<Option<f64>>> {
    let mut ratios = vec![vec![None; MOTES]; MOTES];
    for (from, to, permille) in RATIOS_PERMILLE {
        ratios[usize::from(from)][usize::from(to)] = Some(f64::from(permille) / 1000.0);
    }
    ratios
}

/// Between two motes.
pub(super) fn distance_m(a: usize, b: usize) -> f64 {
    let ((x, y), (u, v)) = (POSITIONS_M[a], POSITIONS_M[b]);
    libm::hypot(x - u, y - v)
}

/// The signal-to-noise ratio in dB at which this share of broadcasts is received, by bisection.
fn inverse(curve: ReceptionCurve, ratio: f64) -> f64 {
    let (mut low, mut high) = (-20.0_f64, 30.0_f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let received = curve.packet_reception_ratio(libm::exp10(middle / 10.0), BROADCAST_OCTETS);
        if received < ratio { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use conche_netsim::rng::{Entity, Purpose, Streams};

    use super::*;

    const LOSS: PathLoss = PathLoss { median_range_m: 18.8, exponent: 4.0, shadowing_db: 8.5, asymmetry_db: 1.0 };

    #[test]
    fn the_curve_is_inverted() {
        let at = inverse(ReceptionCurve::Cc2420, 0.9);
        assert!((5.0..6.0).contains(&at), "5 dB give 0.79 and 6 dB 0.99: {at}");
    }

    #[test]
    fn drawn_links_have_their_ratio_and_the_others_are_below() {
        let mut stream = Streams::new(1).stream(Entity::Run, Purpose::named("links"));
        let curve = ReceptionCurve::Cc2420;
        let snr = signal_to_noise_db(LOSS, curve, &mut stream);
        let (measured, mut apart) = (measured(), 0.0_f64);
        for (from, to) in (0..MOTES).flat_map(|from| (0..MOTES).map(move |to| (from, to))).filter(|(a, b)| a != b) {
            let ratio = curve.packet_reception_ratio(libm::exp10(snr[from][to] / 10.0), BROADCAST_OCTETS);
            match measured[from][to] {
                Some(seen) => assert!((ratio - seen).abs() < 0.003, "{from}-{to}: {ratio}, measured {seen}"),
                None => assert!(ratio <= DRAWN + 1e-6, "{from}-{to}: {ratio}, but it is not drawn"),
            }
            apart = apart.max((snr[from][to] - snr[to][from]).abs());
        }
        assert!(apart > 1.0, "directions differ");
    }
}

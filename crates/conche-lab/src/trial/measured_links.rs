//! Signal-to-noise ratios that agree with measured packet reception ratios.
//!
//! Unlisted links are below the list's threshold. A path loss with log-normal shadowing draws all:
//! a pair's shadowing is redrawn until both directions agree.

use conche_netsim::mac::Rdc;
use conche_netsim::radio::{MediumConfig, PathLoss, Position, ReceptionCurve, Sinr};
use conche_netsim::rng::Stream;
use conche_netsim::routing::LinkQuality;

use super::error::TrialError;
use crate::scenario::{Measured, Radio};

/// Then the pair takes the measured bounds.
const DRAWS: u32 = 10_000;

pub(super) fn medium(radio: &Radio, places: &[Position], stream: &mut Stream) -> Result<MediumConfig, TrialError> {
    let (Some(measured), MediumConfig::Sinr(sinr)) = (&radio.measured, &radio.medium) else {
        return Ok(radio.medium.clone());
    };
    let count = places.len();
    let is_station = |station: u16| usize::from(station) < count;
    if let Some((from, to, _)) = measured.ratios.iter().find(|(from, to, _)| !is_station(*from) || !is_station(*to)) {
        return Err(TrialError::UnknownStation { from: *from, to: *to, count });
    }
    let ratios = signal_to_noise_db(measured, places, sinr.curve, stream);
    // Only signal minus noise matters.
    let loss = |snr: f64| sinr.tx_power_dbm - (snr + sinr.noise_dbm);
    let losses = ratios.into_iter().map(|row| row.into_iter().map(loss).collect()).collect();
    Ok(MediumConfig::Sinr(Sinr { path_loss: PathLoss::Matrix(losses), ..sinr.clone() }))
}

/// Returns the links that wake their receivers: ContikiMAC's checks miss signals below the
/// threshold.
pub(super) fn waking(quality: LinkQuality, medium: &MediumConfig, rdc: Rdc) -> LinkQuality {
    let (
        MediumConfig::Sinr(Sinr { tx_power_dbm, cca_threshold_dbm, path_loss: PathLoss::Matrix(losses), .. }),
        Rdc::ContikiMac(_),
    ) = (medium, rdc)
    else {
        return quality;
    };
    let nodes = quality.nodes().to_vec();
    let ratio = |from: usize, to: usize| {
        let is_heard = tx_power_dbm - losses[from][to] >= *cca_threshold_dbm;
        if is_heard { quality.ratio(nodes[from], nodes[to]) } else { 0.0 }
    };
    let ratios = (0..nodes.len()).map(|from| (0..nodes.len()).map(|to| ratio(from, to)).collect()).collect();
    LinkQuality::new(nodes.clone(), ratios).unwrap_or(quality)
}

/// Returns dB from row to column; minus infinity on the diagonal.
fn signal_to_noise_db(
    measured: &Measured,
    places: &[Position],
    curve: ReceptionCurve,
    stream: &mut Stream,
) -> Vec<Vec<f64>> {
    let count = places.len();
    let mut ratios = vec![vec![None; count]; count];
    for (from, to, ratio) in measured.ratios.iter() {
        ratios[usize::from(*from)][usize::from(*to)] = Some(*ratio);
    }
    let needed = |ratio: f64| inverse(curve, ratio, measured.octets);
    let (listed_db, perfect_db) = (needed(measured.complete_above), needed(measured.perfect));
    let mut snr = vec![vec![f64::NEG_INFINITY; count]; count];
    for (a, b) in (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))) {
        let distance_m = libm::hypot(places[a].x_m - places[b].x_m, places[a].y_m - places[b].y_m);
        let loss = 10.0 * measured.path_loss_exponent * libm::log10(measured.median_range_m / distance_m);
        let bounds = [(a, b), (b, a)].map(|(from, to)| match ratios[from][to] {
            // A ratio below `perfect` fixes the signal.
            Some(ratio) if ratio < measured.perfect => (needed(ratio), needed(ratio)),
            Some(_) => (perfect_db, f64::INFINITY),
            None => (f64::NEG_INFINITY, listed_db),
        });
        let [there, back] = draw(listed_db + loss, measured, bounds, stream);
        (snr[a][b], snr[b][a]) = (there, back);
    }
    snr
}

fn draw(median: f64, measured: &Measured, bounds: [(f64, f64); 2], stream: &mut Stream) -> [f64; 2] {
    let mut both = [median; 2];
    for _ in 0..DRAWS {
        let shared = median + measured.shadowing_db * stream.normal();
        both = bounds.map(|_| shared + measured.asymmetry_db * stream.normal());
        let agrees = |(snr, (low, high)): (&f64, &(f64, f64))| low >= high || (low..=high).contains(&snr);
        if both.iter().zip(&bounds).all(agrees) {
            break;
        }
    }
    let [first, second] = bounds;
    [both[0].clamp(first.0, first.1), both[1].clamp(second.0, second.1)]
}

/// Bisects for the dB with this reception ratio.
fn inverse(curve: ReceptionCurve, ratio: f64, octets: u32) -> f64 {
    let (mut low, mut high) = (-20.0_f64, 30.0_f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let received = curve.packet_reception_ratio(libm::exp10(middle / 10.0), octets);
        if received < ratio { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use conche_netsim::rng::{Entity, Purpose, Streams};

    use super::*;
    use crate::campaign::Replication;
    use crate::scenario::{Controllers, Document};
    use crate::trial::network::Network;

    #[test]
    fn the_curve_is_inverted() {
        let at = inverse(ReceptionCurve::Cc2420, 0.9, 38);
        assert!((5.0..6.0).contains(&at), "5 dB give 0.79 and 6 dB 0.99: {at}");
    }

    #[test]
    fn listed_links_have_their_ratio_and_the_others_are_below() {
        let document = Document::read(crate::papers::ETFA14.scenario, &crate::papers::paper_file, &Controllers::new())
            .expect("valid");
        let radio = &document.scenario().radios[0];
        let measured = radio.measured.as_ref().expect("links of FlockLab");
        let Some(crate::scenario::Placement::At(places)) = &document.scenario().nodes[2].place else { panic!("motes") };
        let places: Vec<Position> = places.iter().map(|(x, y)| Position::metres(*x, *y)).collect();
        let mut stream = Streams::new(1).stream(Entity::Run, Purpose::named("links"));
        let curve = ReceptionCurve::Cc2420;
        let snr = signal_to_noise_db(measured, &places, curve, &mut stream);
        let ratio_of = |from: usize, to: usize| {
            let listed = measured.ratios.iter().find(|(a, b, _)| (usize::from(*a), usize::from(*b)) == (from, to));
            listed.map(|(_, _, ratio)| *ratio)
        };
        let (count, mut apart) = (places.len(), 0.0_f64);
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(a, b)| a != b) {
            let ratio = curve.packet_reception_ratio(libm::exp10(snr[from][to] / 10.0), measured.octets);
            match ratio_of(from, to) {
                Some(seen) => assert!((ratio - seen).abs() < 0.003, "{from}-{to}: {ratio}, measured {seen}"),
                None => assert!(ratio <= measured.complete_above + 1e-6, "{from}-{to}: {ratio}, but it is not listed"),
            }
            apart = apart.max((snr[from][to] - snr[to][from]).abs());
        }
        assert!(apart > 1.0, "directions differ");
    }

    #[test]
    fn a_ratio_of_a_station_that_there_is_not_is_refused() {
        let document = Document::read(crate::papers::ETFA14.scenario, &crate::papers::paper_file, &Controllers::new())
            .expect("valid");
        let mut stream = Streams::new(1).stream(Entity::Run, Purpose::named("links"));
        let error = medium(&document.scenario().radios[0], &[Position::metres(0.0, 0.0)], &mut stream);
        let error = error.expect_err("there is one station").to_string();
        assert_eq!(error, "measured.ratios: 0 to 1, but there are 1 stations, counted from 0");
    }

    /// The published links of FlockLab, and a tree over them.
    #[test]
    fn motes_are_as_many_hops_away_as_the_paper_s_network_has() {
        let document = Document::read(crate::papers::ETFA14.scenario, &crate::papers::paper_file, &Controllers::new())
            .expect("valid");
        let rows = ["coap/many/nullrdc", "coap/many/contikimac"];
        let cells = document.cells();
        for cell in cells.iter().filter(|cell| rows.contains(&cell.row(None, &cell.schemes[0]).as_str())) {
            let [one, other] = [1, 2].map(|seed| {
                let replication = Replication { index: 0, count: 1, seed };
                let network = Network::new(&cell.scenario, replication).expect("a network");
                network.nodes("mote").iter().map(|mote| network.hops[mote]).collect::<Vec<u16>>()
            });
            assert_eq!(one, other, "one testbed in all replications");
            let mean = f64::from(one.iter().sum::<u16>()) / 29.0;
            assert!((1.5..2.2).contains(&mean), "{mean} hops in the mean, {one:?}");
        }
    }
}

//! Metrics of requests at servers.

use std::time::Duration;

use conche_scenario::Received;

use super::Sample;
use crate::stats::jain_index;
use crate::trial::{Flow, Record, Selection};

pub(super) fn sample(received: Received, run: &Record, of: Selection) -> Sample {
    let flows: Vec<&Flow> = run.flows_of(of).collect();
    let seconds = run.elapsed.as_secs_f64();
    let number = |flow: &Flow| flow.arrivals.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    // Integers are summed before any division.
    let goodput =
        |flows: &mut dyn Iterator<Item = &&Flow>| flows.map(|flow| number(flow) * bits(flow)).sum::<f64>() / seconds;
    if flows.is_empty() || seconds <= 0.0 {
        return Sample::None;
    }
    match received {
        Received::Goodput => Sample::One(goodput(&mut flows.iter())),
        Received::GoodputOfFlow => Sample::One(goodput(&mut flows.iter()) / flows.len() as f64),
        Received::GoodputByHops => {
            let farthest = flows.iter().map(|flow| flow.hops).max().unwrap_or(0);
            let of_hops = |hops: u16| {
                let of = || flows.iter().filter(|flow| flow.hops == hops);
                let count = of().count();
                (count > 0).then(|| (hops.to_string(), goodput(&mut of()) / count as f64))
            };
            Sample::Labelled((0..=farthest).filter_map(of_hops).collect())
        }
        Received::GoodputOfEach => {
            // Whole thousandths of a bit per second: not negative, below 2^53 up to 9 Tbit/s.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let thousandths = |flow: &Flow| (1e3 * number(flow) * bits(flow) / seconds).round() as u64;
            Sample::Each(flows.iter().map(|flow| thousandths(flow)).collect(), 1e3)
        }
        Received::GoodputOverTime { window, hops } => {
            let Some(flow) = flows.iter().find(|flow| flow.hops == hops) else { return Sample::None };
            let end = |place: u32| format!("{}s", window.0.saturating_mul(place).as_secs_f64());
            let counts = windows(run, flow, window.0).into_iter();
            let goodput = |count: f64| count * bits(flow) / window.0.as_secs_f64();
            Sample::Labelled((1..).zip(counts).map(|(place, count)| (end(place), goodput(count))).collect())
        }
        Received::Jain { window: None } => some(jain_index(&flows.iter().map(|flow| number(flow)).collect::<Vec<_>>())),
        Received::Jain { window: Some(window) } => {
            let of_flows: Vec<Vec<f64>> = flows.iter().map(|flow| windows(run, flow, window.0)).collect();
            let places = 0..of_flows[0].len();
            let in_window = |place: usize| of_flows.iter().map(|of_flow| of_flow[place]).collect::<Vec<_>>();
            let indices: Vec<f64> = places.filter_map(|place| jain_index(&in_window(place))).collect();
            some((!indices.is_empty()).then(|| mean(&indices)))
        }
        Received::Starving { share } => {
            let all: f64 = flows.iter().map(|flow| number(flow)).sum();
            let enough = share * all / flows.len() as f64;
            Sample::One(flows.iter().filter(|flow| number(flow) < enough).count() as f64)
        }
        Received::Silent { window, hops } => {
            let counted = flows.iter().filter(|flow| hops.is_none_or(|hops| flow.hops == hops));
            let all: Vec<f64> = counted.flat_map(|flow| windows(run, flow, window.0)).collect();
            let silent = all.iter().filter(|count| **count == 0.0).count() as f64;
            some((!all.is_empty()).then(|| 100.0 * silent / all.len() as f64))
        }
        Received::Frames => {
            let frames: u64 = run.radios.iter().map(|radio| radio.frames).sum();
            let all: f64 = flows.iter().map(|flow| number(flow)).sum();
            some((all > 0.0).then(|| frames as f64 / all))
        }
    }
}

fn some(value: Option<f64>) -> Sample {
    value.map_or(Sample::None, Sample::One)
}

fn bits(flow: &Flow) -> f64 {
    8.0 * flow.request_bytes as f64
}

/// Counts arrivals per whole window, or the run if that is shorter.
fn windows(run: &Record, flow: &Flow, window: Duration) -> Vec<f64> {
    let nanos = window.min(run.elapsed).as_nanos().max(1);
    let mut counts = vec![0.0; usize::try_from(run.elapsed.as_nanos() / nanos).unwrap_or(0)];
    for at in &flow.arrivals {
        let place = usize::try_from((*at - run.began).as_nanos() / nanos).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(place) {
            *count += 1.0;
        }
    }
    counts
}

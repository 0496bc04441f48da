//! Links: rate, service, delay, queue and loss.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::{Key, OnlyKey, as_whole, fields, kinds, names};
use crate::units::{Probability, Size, Span, SpanRange};
use crate::wired::{
    Aqm, CoDel, Distribution, DropTail, InService, Jitter, Limit, LinkConfig, Loss, Order, Pie, Red, Service, Stalls,
    Wakes,
};

fields!(LinkConfig over LinkConfig::default();
    first {
        duplicate: Probability => |link, duplicate| link.duplicate = duplicate(None).0,
        duty_cycle: Probability => |link, share| link.duty_cycle = share(None).0,
    }
    then { rate, service, stalls, delay, jitter, queue, aqm, wakes, loss, header_bytes }
    hidden { duplicate, duty_cycle }
);
fields!(Stalls over Stalls::default();
    first { probability: Probability => |stalls, probability| stalls.probability = probability(None).0 }
    then { mean }
    hidden { probability }
);
kinds!(Aqm: "active queue management" { "red" => Red(Red), "codel" => CoDel(CoDel), "pie" => Pie(Pie) });
fields!(Red over Red::default();
    first { max_probability: Probability => |red, most| red.max_probability = most(None).0 }
    then { min_packets, max_packets, weight, mean_packet_bytes }
    hidden { max_probability }
);
fields!(CoDel { target, interval, mtu_bytes });
fields!(Pie { target, update, alpha, beta, max_burst, mean_packet_bytes });
names!(Service { "exact" => Exact, "rayleigh" => Rayleigh, "exponential" => Exponential });
names!(Order { "kept" => Kept, "free" => Free });
names!(InService { "excluded" => Excluded, "included" => Included });

struct Jittered(&'static [&'static str]);

const JITTER: &str = "{ uniform = [\"10ms\", \"20ms\"] } or { exponential = \"20ms\" }";

impl<'de> Visitor<'de> for Jittered {
    type Value = Jitter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"none\", {JITTER}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Jitter, E> {
        if text == "none" { Ok(Jitter::default()) } else { Err(E::invalid_value(de::Unexpected::Str(text), &self)) }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Jitter, A::Error> {
        let (mut drawn, mut order) = (None, Order::default());
        while let Some(key) = map.next_key_seed(Key(self.0))? {
            let distribution = match key {
                "uniform" => map
                    .next_value::<[Span; 2]>()
                    .map(|[low, high]| Distribution::Uniform { low: low.0, high: high.0 })?,
                "exponential" => Distribution::Exponential { mean: map.next_value::<Span>()?.0 },
                _ => {
                    order = map.next_value()?;
                    continue;
                }
            };
            if drawn.replace(distribution).is_some() {
                return Err(de::Error::custom("a span has one distribution, `uniform` or `exponential`"));
            }
        }
        let distribution = drawn.ok_or_else(|| de::Error::custom(format_args!("no distribution; write {JITTER}")))?;
        Ok(Jitter { distribution, order })
    }
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Jittered(&["uniform", "exponential", "order"]))
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Jittered(&["uniform", "exponential"])).map(|jitter| jitter.distribution)
    }
}

struct QueueVisitor(&'static [&'static str]);

impl QueueVisitor {
    fn bare<E: de::Error>(number: impl fmt::Display) -> E {
        E::custom(format_args!(
            "the bare number {number} has no unit; write \"{number}B\", or {{ packets = {number} }} for whole frames"
        ))
    }
}

impl<'de> Visitor<'de> for QueueVisitor {
    type Value = DropTail;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a queue as in \"2500B\", { packets = 16 } or \"unlimited\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<DropTail, E> {
        match text {
            "unlimited" => Ok(DropTail::default()),
            text => text.parse().map(|size: Size| DropTail::bytes(size.0)).map_err(E::custom),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<DropTail, E> {
        Err(Self::bare(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<DropTail, E> {
        Err(Self::bare(number))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DropTail, A::Error> {
        let (mut limit, mut in_service) = (None, InService::default());
        while let Some(key) = map.next_key_seed(Key(self.0))? {
            let of = match key {
                "bytes" => Limit::Bytes(map.next_value::<Size>()?.0),
                "packets" => Limit::Packets(map.next_value()?),
                _ => {
                    in_service = map.next_value()?;
                    continue;
                }
            };
            if limit.replace(of).is_some() {
                return Err(de::Error::custom("a queue is limited in `bytes` or in `packets`, not in both"));
            }
        }
        let missing = || de::Error::custom("no limit; write bytes = \"2500B\" or packets = 16");
        Ok(DropTail { limit: limit.ok_or_else(missing)?, in_service })
    }
}

impl<'de> Deserialize<'de> for DropTail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QueueVisitor(&["bytes", "packets", "in_service"]))
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QueueVisitor(&["bytes", "packets"])).map(|queue| queue.limit)
    }
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lossy)
    }
}

struct Lossy;

fn independent(Probability(probability): Probability) -> Loss {
    if probability == 0.0 { Loss::None } else { Loss::Bernoulli(probability) }
}

impl<'de> Visitor<'de> for Lossy {
    type Value = Loss;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a probability such as \"1%\", \"none\", or { gilbert-elliott = { .. } }")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Loss, E> {
        Probability::deserialize(number.into_deserializer()).map(independent)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Loss, E> {
        Probability::deserialize(number.into_deserializer()).map(independent)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Loss, E> {
        Probability::deserialize(number.into_deserializer()).map(independent)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Loss, E> {
        match text {
            "none" => Ok(Loss::None),
            text if text.contains(|c: char| c == '%' || c.is_ascii_digit()) => {
                text.parse().map(independent).map_err(E::custom)
            }
            text => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loss, A::Error> {
        let mut map = OnlyKey::of(map, &self, &["gilbert-elliott"])?;
        map.value(PhantomData::<GilbertElliott>).map(|GilbertElliott(loss)| loss)
    }
}

struct GilbertElliott(Loss);

impl<'de> Deserialize<'de> for GilbertElliott {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(States(&["to_bad", "to_good", "mean_good", "mean_bad", "loss_good", "loss_bad"]))
    }
}

struct States(&'static [&'static str]);

impl<'de> Visitor<'de> for States {
    type Value = GilbertElliott;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the states of a link, by frame: `to_bad` and `to_good`, or in time: `mean_good` and `mean_bad`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GilbertElliott, A::Error> {
        let (mut probabilities, mut means) = ([None::<Probability>; 4], [None::<Span>; 2]);
        while let Some(key) = map.next_key_seed(Key(self.0))? {
            match key {
                "to_bad" => probabilities[0] = Some(map.next_value()?),
                "to_good" => probabilities[1] = Some(map.next_value()?),
                "mean_good" => means[0] = Some(map.next_value()?),
                "mean_bad" => means[1] = Some(map.next_value()?),
                "loss_good" => probabilities[2] = Some(map.next_value()?),
                _ => probabilities[3] = Some(map.next_value()?),
            }
        }
        let [to_bad, to_good, loss_good, loss_bad] = probabilities;
        let missing = |key| move || de::Error::missing_field(key);
        let loss_good = loss_good.ok_or_else(missing("loss_good"))?.0;
        let loss_bad = loss_bad.ok_or_else(missing("loss_bad"))?.0;
        Ok(GilbertElliott(match (to_bad, to_good, means) {
            (Some(to_bad), Some(to_good), [None, None]) => {
                Loss::GilbertElliott { to_bad: to_bad.0, to_good: to_good.0, loss_good, loss_bad }
            }
            (None, None, [Some(mean_good), Some(mean_bad)]) => {
                Loss::TimedGilbertElliott { mean_good: mean_good.0, mean_bad: mean_bad.0, loss_good, loss_bad }
            }
            _ => {
                return Err(de::Error::custom(
                    "its states change by frame or in time: write either to_bad = \"2%\" and to_good = \"25%\", or \
                     mean_good = \"10s\" and mean_bad = \"500ms\"",
                ));
            }
        }))
    }
}

struct Waking(&'static [&'static str]);

impl<'de> Visitor<'de> for Waking {
    type Value = Wakes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("windows as in { every = \"10.24s\", for = \"100ms\" } or { after_uplink = \"0s..20s\" }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Wakes, A::Error> {
        let (mut wakes, mut lasting) = (Wakes::default(), None::<Span>);
        while let Some(key) = map.next_key_seed(Key(self.0))? {
            match key {
                "every" => wakes.every = Some(map.next_value::<Span>()?.0),
                "for" => lasting = Some(map.next_value()?),
                _ => wakes.after_uplink = map.next_value::<AfterUplink>()?.0,
            }
        }
        if lasting.is_some() && wakes.every.is_none() {
            return Err(de::Error::custom("`for` is the length of periodic windows; write also every = \"10.24s\""));
        }
        wakes.lasting = lasting.map_or(wakes.lasting, |span| span.0);
        Ok(wakes)
    }
}

impl<'de> Deserialize<'de> for Wakes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Waking(&["every", "for", "after_uplink"]))
    }
}

struct AfterUplink([Option<SpanRange>; 2]);

impl<'de> Deserialize<'de> for AfterUplink {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UplinkVisitor)
    }
}

struct UplinkVisitor;

impl<'de> Visitor<'de> for UplinkVisitor {
    type Value = AfterUplink;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("times after an uplink as in \"0s..20s\", or two of them as in [\"1s\", \"2s\"]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<AfterUplink, E> {
        text.parse().map(|range| AfterUplink([Some(range), None])).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut ranges: A) -> Result<AfterUplink, A::Error> {
        let windows = [ranges.next_element()?, ranges.next_element()?];
        match (windows[0], ranges.next_element::<SpanRange>()?) {
            (Some(_), None) => Ok(AfterUplink(windows)),
            _ => Err(de::Error::custom("an uplink opens one or two windows; write them as in [\"1s\", \"2s\"]")),
        }
    }
}

as_whole!(Jitter, DropTail, Loss, Wakes);

//! 6LoWPAN, RPL, AODV, and bulk transfers.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::{Name, OnlyKey, PatchSeed, all_of, as_whole, fields, names, required};
use crate::routing::aodv::{AodvConfig, LqiMap, Metric};
use crate::routing::{Objective, RplConfig};
use crate::sixlowpan::{Inline, MacAddresses, Sixlowpan, UdpHeader};
use crate::transport::tcp::{Acknowledgments, SenderConfig};

fields!(Sixlowpan {
    mac_addresses,
    mac_extra_octets,
    context_identifier,
    inline_hop_limit,
    source,
    destination,
    rpl_option,
    udp,
    max_psdu_octets,
});
names!(MacAddresses { "short" => Short, "extended" => Extended });
names!(Inline { "elided" => Elided, "short" => Short, "identifier" => Identifier, "full" => Full });

fields!(RplConfig { objective, min_ratio });
names!(Objective { "hop-count" => HopCount, "etx" => Etx });

required!(AodvConfig { metric, reply_wait, net_traversal_time, rreq_retries, forward_jitter, net_diameter });
required!(LqiMap { snr_db, lqi, delivery_ratio });

required!(SenderConfig { segments, segment_bytes, window_limit, min_rto, max_timeouts, acknowledgments });
names!(Acknowledgments { "cumulative" => Cumulative, "positive" => Positive });

impl<'de> Deserialize<'de> for UdpHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Udp)
    }
}

struct Udp;

impl<'de> Visitor<'de> for Udp {
    type Value = UdpHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"uncompressed\", or { compressed = { port_octets = 4 } }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<UdpHeader, E> {
        match Name(&["uncompressed", "compressed"]).visit_str(text)? {
            "uncompressed" => Ok(UdpHeader::Uncompressed),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UdpHeader, A::Error> {
        struct Compressed(UdpHeader);
        impl<'de> Deserialize<'de> for Compressed {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                all_of!(UdpHeader::Compressed as UdpHeader { port_octets } from deserializer).map(Self)
            }
        }
        as_whole!(Compressed);
        let mut map = OnlyKey::of(map, &self, &["compressed"])?;
        map.value(PatchSeed::<Compressed>::seed()).map(|patch| patch(None).0)
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MetricVisitor)
    }
}

struct MetricVisitor;

impl<'de> Visitor<'de> for MetricVisitor {
    type Value = Metric;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"hop-count\", or { path-dr = { snr_db = [..], lqi = [..], delivery_ratio = [[..], ..] } }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Metric, E> {
        match Name(&["hop-count", "path-dr"]).visit_str(text)? {
            "hop-count" => Ok(Metric::HopCount),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Metric, A::Error> {
        let mut map = OnlyKey::of(map, &self, &["path-dr"])?;
        map.value(PatchSeed::seed()).map(|patch| Metric::PathDr(patch(None)))
    }
}

as_whole!(UdpHeader, Metric);

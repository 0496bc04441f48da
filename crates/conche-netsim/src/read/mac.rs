//! Medium access: named presets and deviations from them.

use std::num::NonZeroU32;

use super::{Patch, fields, kinds, names, required};
use crate::mac::{
    AccessConfig, Acknowledgment, AttemptConfig, BinaryExponential, Contiki27, Contiki30, Contiki31, ContikiMac,
    ControlTraffic, Ieee802154, InterframeSpacing, MacConfig, QueueConfig, Rdc, TinyOs,
};

#[derive(Clone, Copy)]
enum Preset {
    Ieee802154,
    Contiki27,
    Contiki30,
    Contiki31,
    Contiki27ContikiMac,
    Contiki30ContikiMac,
    TinyOs,
    TinyOsBinaryExponential,
}

names!(Preset {
    "ieee802154" => Ieee802154,
    "contiki27" => Contiki27,
    "contiki30" => Contiki30,
    "contiki31" => Contiki31,
    "contiki27-contikimac" => Contiki27ContikiMac,
    "contiki30-contikimac" => Contiki30ContikiMac,
    "tinyos" => TinyOs,
    "tinyos-binary-exponential" => TinyOsBinaryExponential,
});

impl Preset {
    fn mac(self) -> MacConfig {
        match self {
            Self::Ieee802154 => MacConfig::ieee802154(),
            Self::Contiki27 => MacConfig::contiki27(),
            Self::Contiki30 => MacConfig::contiki30(),
            Self::Contiki31 => MacConfig::contiki31(),
            Self::Contiki27ContikiMac => MacConfig::contiki27_contikimac(),
            Self::Contiki30ContikiMac => MacConfig::contiki30_contikimac(),
            Self::TinyOs => MacConfig::tinyos(),
            Self::TinyOsBinaryExponential => MacConfig::tinyos_binary_exponential(),
        }
    }
}

fields!(MacConfig over MacConfig::ieee802154();
    first {
        preset: Preset => |mac, preset| *mac = preset(None).mac(),
        contikimac: ContikiMac => |mac, config| *mac = over_contikimac(*mac, config),
    }
    then { access, attempt, queue, overhead_octets, sixlowpan, control, load, unload }
    hidden { rdc }
);

fn over_contikimac(mac: MacConfig, config: Patch<ContikiMac>) -> MacConfig {
    let base = match (mac.rdc, mac.access) {
        (Rdc::ContikiMac(base), _) => base,
        (Rdc::AlwaysOn, AccessConfig::Contiki27(_)) => ContikiMac::contiki27(),
        (Rdc::AlwaysOn, _) => ContikiMac::contiki30(),
    };
    mac.contikimac(config(Some(base)))
}

fields!(ContikiMac over ContikiMac::contiki30();
    first {
        check_rate_hz: NonZeroU32 => |config, hertz| *config = config.channel_check_rate(hertz(None).get()),
    }
    then {
        cca_count_max,
        cca_count_max_tx,
        cca_check_time,
        cca_sleep_time,
        listen_time_after_packet_detected,
        max_nonactivity_periods,
        inter_packet_deadline,
        inter_packet_interval,
        after_ack_detected_wait_time,
        max_phase_strobe_time,
        with_phase_optimization,
        with_bursts,
        max_noacks,
        max_noacks_time,
        header_octets,
        shortest_packet_size,
        clock_drift_ppm,
    }
    hidden { cycle_time }
);

kinds!(AccessConfig: "channel access" {
    "ieee802154" => Ieee802154(Ieee802154),
    "contiki27" => Contiki27(Contiki27),
    "contiki30" => Contiki30(Contiki30),
    "contiki31" => Contiki31(Contiki31),
    "tinyos" => TinyOs(TinyOs),
    "binary-exponential" => BinaryExponential(BinaryExponential),
});
fields!(Ieee802154 { min_be, max_be, max_csma_backoffs, max_frame_retries });
fields!(Contiki27 { time_base, max_transmissions, tick });
fields!(Contiki30 { time_base, max_transmissions, max_doublings, tick });
fields!(Contiki31 { min_be, max_be, max_backoff, max_frame_retries, unit });
fields!(TinyOs { initial_jiffies, congestion_jiffies, retries });
fields!(BinaryExponential { window_symbols, max_doublings, max_busy, retries });

fields!(AttemptConfig { cca, preparation, tx_turnaround, rx_turnaround, acknowledgment, spacing });
fields!(Acknowledgment { turnaround, wait, another_ends_the_wait });
fields!(InterframeSpacing { short, long, max_short_octets });
fields!(QueueConfig { packets, neighbours });
required!(ControlTraffic { interval, psdu_octets });

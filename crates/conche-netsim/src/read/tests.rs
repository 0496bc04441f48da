//! The documentation's TOML examples parse to the documented values, and errors name their
//! position.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::BitRate;
use crate::mac::*;
use crate::radio::*;
use crate::routing::aodv::{AodvConfig, Metric};
use crate::routing::{Objective, RplConfig};
use crate::sixlowpan::{Inline, Sixlowpan, UdpHeader};
use crate::transport::tcp::{Acknowledgments, SenderConfig};
use crate::units::SpanRange;
use crate::wired::*;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn example_in(source: &str, item: &str) -> String {
    let (before, _) = source.split_once(&format!("{item} {{")).expect("the item is there");
    let (_, block) = before.rsplit_once("/// ```toml\n").expect("it has an example");
    let (block, _) = block.split_once("/// ```\n").expect("the example ends");
    block.lines().map(|line| line.trim_start_matches("/// ").to_owned() + "\n").collect()
}

macro_rules! table {
    ($type:ident in $file:literal) => {
        read::<$type>(&example_in(include_str!($file), concat!("pub struct ", stringify!($type))))
    };
}

macro_rules! values {
    ($kind:ident $type:ident in $file:literal) => {
        example_in(include_str!($file), concat!("pub ", stringify!($kind), " ", stringify!($type)))
            .lines()
            .map(value::<$type>)
            .collect::<Vec<_>>()
    };
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

fn value<T: DeserializeOwned>(line: &str) -> T {
    let (_, value) = line.split_once(" = ").expect("a line is a key with a value");
    toml::de::ValueDeserializer::parse(value).and_then(T::deserialize).unwrap_or_else(|error| panic!("{error}"))
}

fn mistake<T: DeserializeOwned>(text: &str) -> (String, &str) {
    let error = toml::from_str::<T>(text).err().expect("it is a mistake");
    (error.message().to_owned(), error.span().map_or("", |span| &text[span]))
}

const UNIFORM: Distribution = Distribution::Uniform { low: ms(10), high: ms(20) };

#[test]
fn links_read_as_documented() {
    let link = table!(LinkConfig in "../wired/link.rs");
    let expected = LinkConfig {
        rate: Some(BitRate::kbit(30)),
        delay: ms(200),
        jitter: Jitter { distribution: UNIFORM, order: Order::Free },
        queue: DropTail::bytes(2500),
        loss: Loss::Bernoulli(0.01),
        stalls: Stalls { probability: 0.002, mean: ms(1300) },
        ..LinkConfig::default()
    };
    assert_eq!(link, expected);
    assert_eq!(read::<LinkConfig>(""), LinkConfig::default());
    assert_eq!(read::<LinkConfig>("rate = 'none'\njitter = 'none'"), LinkConfig::default());
    assert_eq!(table!(Stalls in "../wired/service.rs"), expected.stalls);
    let range = |least, most| SpanRange::new(ms(least), ms(most));
    assert_eq!(
        values!(struct Wakes in "../wired/wakes.rs"),
        [
            Wakes { every: Some(ms(5000)), ..Wakes::default() },
            Wakes { every: Some(ms(10_240)), lasting: ms(100), after_uplink: [range(0, 20_000), None] },
            Wakes { after_uplink: [range(1000, 1000), range(2000, 2000)], ..Wakes::default() },
        ]
    );
    let share = read::<LinkConfig>("duty_cycle = '1%'\nwakes = 'none'");
    assert_eq!(share, LinkConfig { duty_cycle: 0.01, ..LinkConfig::default() });
    assert_eq!(values!(enum Service in "../wired/service.rs"), [Service::Rayleigh]);
}

#[test]
fn parts_of_links_read_as_documented() {
    let exponential = Distribution::Exponential { mean: ms(20) };
    assert_eq!(
        values!(struct Jitter in "../wired/delay.rs"),
        [
            Jitter { distribution: UNIFORM, order: Order::Free },
            Jitter { distribution: exponential, order: Order::Kept },
        ]
    );
    assert_eq!(values!(enum Distribution in "../wired/delay.rs"), [Distribution::Zero, UNIFORM, exponential]);
    assert_eq!(
        values!(struct DropTail in "../wired/queue.rs"),
        [
            DropTail::default(),
            DropTail::bytes(2500),
            DropTail { in_service: InService::Included, ..DropTail::bytes(2500) },
            DropTail::packets(16),
        ]
    );
    assert_eq!(
        values!(enum Loss in "../wired/loss.rs"),
        [
            Loss::None,
            Loss::Bernoulli(0.01),
            Loss::GilbertElliott { to_bad: 0.02, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 },
            Loss::TimedGilbertElliott { mean_good: ms(10_000), mean_bad: ms(500), loss_good: 0.001, loss_bad: 0.5 },
        ]
    );
}

#[test]
fn queues_and_losses_print_as_they_read() {
    for queue in ["unlimited", "2500B", "{ packets = 16 }", "{ bytes = \"3kB\", in_service = \"included\" }"] {
        let text = if queue.starts_with('{') { queue.to_owned() } else { format!("\"{queue}\"") };
        assert_eq!(value::<DropTail>(&format!("queue = {text}")).to_string(), queue);
    }
    for states in ["to_bad = \"2%\", to_good = \"25%\"", "mean_good = \"10s\", mean_bad = \"500ms\""] {
        let loss = format!("{{ gilbert-elliott = {{ {states}, loss_good = \"0.1%\", loss_bad = \"50%\" }} }}");
        assert_eq!(value::<Loss>(&format!("loss = {loss}")).to_string(), loss);
    }
    assert_eq!([Loss::None, Loss::Bernoulli(0.015)].map(|loss| loss.to_string()), ["0%", "1.5%"]);
}

#[test]
fn queue_managements_read_as_documented() {
    let managements =
        [Aqm::CoDel(CoDel::default()), Aqm::Pie(Pie { target: ms(20), ..Pie::default() }), Aqm::Red(Red::default())];
    assert_eq!(values!(enum Aqm in "../wired/aqm/mod.rs"), managements);
    assert_eq!(table!(CoDel in "../wired/aqm/codel.rs"), CoDel::default());
    assert_eq!(table!(Pie in "../wired/aqm/pie.rs"), Pie::default());
    assert_eq!(table!(Red in "../wired/aqm/red.rs"), Red::default());
    assert_eq!(read::<LinkConfig>("aqm = 'codel'").aqm, Some(Aqm::CoDel(CoDel::default())));
    assert_eq!(read::<LinkConfig>("aqm = 'none'").aqm, None);
}

#[test]
fn media_read_as_documented() {
    let log_distance = |exponent, shadowing_sigma_db| PathLoss::LogDistance {
        reference_loss_db: 40.0,
        exponent,
        shadowing_sigma_db,
        asymmetry_sigma_db: 0.0,
    };
    let udgm = Udgm { transmission_range_m: 10.0, interference_range_m: 20.0, ..Udgm::default() };
    assert_eq!(
        values!(enum MediumConfig in "../radio/medium.rs"),
        [
            MediumConfig::Mrm31(Mrm31::default()),
            MediumConfig::Udgm(udgm),
            MediumConfig::Sinr(Sinr { path_loss: log_distance(3.5, 0.0), ..Sinr::default() }),
        ]
    );
    assert_eq!(table!(Udgm in "../radio/udgm.rs"), udgm);
    assert_eq!(table!(Mrm31 in "../radio/mrm31.rs"), Mrm31 { sensitivity_dbm: -64.0, ..Mrm31::default() });
    let gilbert = Gilbert { mean_good: ms(9000), mean_bad: ms(1000), loss_bad: 0.9 };
    assert_eq!(table!(Gilbert in "../radio/fading.rs"), gilbert);
    assert_eq!(
        table!(Sinr in "../radio/sinr.rs"),
        Sinr {
            path_loss: log_distance(3.5, 4.0),
            capture_threshold_db: Some(3.0),
            curve: ReceptionCurve::Cc2420,
            fading: Some(gilbert),
            ..Sinr::default()
        }
    );
    let none = f64::INFINITY;
    assert_eq!(
        values!(enum PathLoss in "../radio/sinr.rs"),
        [log_distance(3.0, 0.0), PathLoss::Matrix(vec![vec![none, 70.0], vec![72.5, none]]),]
    );
    assert_eq!(
        values!(enum ReceptionCurve in "../radio/reception.rs"),
        [ReceptionCurve::Oqpsk, ReceptionCurve::Cc2420, ReceptionCurve::Transitional { middle_db: 4.6, width_db: 1.9 },]
    );
    assert_eq!(values!(struct Position in "../radio/stations.rs"), [Position::metres(3.0, 4.5)]);
}

#[test]
fn given_mac_settings_override_the_preset() {
    let mac = table!(MacConfig in "../mac/config.rs");
    let contikimac = ContikiMac { with_bursts: false, ..ContikiMac::contiki30().channel_check_rate(16) };
    let expected = MacConfig::contiki30().contikimac(contikimac);
    let queue = QueueConfig { packets: Some(4), neighbours: Some(2) };
    assert_eq!(mac, MacConfig { queue, unload: ms(2), ..expected });
    assert_eq!(table!(RadioConfig in "../mac/config.rs").mac, MacConfig::contiki31());
    assert_eq!(read::<MacConfig>(""), MacConfig::ieee802154());
}

#[test]
fn every_preset_has_a_name() {
    for (name, mac) in [
        ("ieee802154", MacConfig::ieee802154()),
        ("contiki27", MacConfig::contiki27()),
        ("contiki30", MacConfig::contiki30()),
        ("contiki31", MacConfig::contiki31()),
        ("contiki27-contikimac", MacConfig::contiki27_contikimac()),
        ("contiki30-contikimac", MacConfig::contiki30_contikimac()),
        ("tinyos", MacConfig::tinyos()),
        ("tinyos-binary-exponential", MacConfig::tinyos_binary_exponential()),
    ] {
        assert_eq!(read::<MacConfig>(&format!("preset = '{name}'")), mac, "{name}");
    }
    for version in ["contiki27", "contiki30"] {
        let by_key: MacConfig = read(&format!("contikimac = {{}}\npreset = '{version}'"));
        assert_eq!(by_key, read(&format!("preset = '{version}-contikimac'")));
    }
}

#[test]
fn single_values_within_a_preset_leave_the_others() {
    let mac: MacConfig = read("attempt = { acknowledgment = { wait = '3ms' } }\npreset = 'contiki31'");
    let expected = MacConfig::contiki31();
    let acknowledgment = expected.attempt.acknowledgment.map(|ack| Acknowledgment { wait: ms(3), ..ack });
    assert_eq!(mac.attempt, AttemptConfig { acknowledgment, ..expected.attempt });
    let mac: MacConfig = read("access = { contiki30 = { max_doublings = 2 } }\npreset = 'contiki30-contikimac'");
    assert_eq!(
        mac.access,
        AccessConfig::Contiki30(match MacConfig::contiki30_contikimac().access {
            AccessConfig::Contiki30(access) => Contiki30 { max_doublings: 2, ..access },
            other => panic!("{other:?}"),
        })
    );
    assert_eq!(
        read::<MacConfig>("preset = 'tinyos'\nattempt = { acknowledgment = 'none' }"),
        MacConfig::tinyos().unacknowledged()
    );
}

#[test]
fn parts_of_macs_read_as_documented() {
    let attempt = AttemptConfig { acknowledgment: None, ..AttemptConfig::default() };
    assert_eq!(table!(AttemptConfig in "../mac/config.rs"), attempt);
    let acknowledgment = Acknowledgment { turnaround: ms(1), wait: ms(2), another_ends_the_wait: false };
    assert_eq!(table!(Acknowledgment in "../mac/config.rs"), acknowledgment);
    assert_eq!(table!(InterframeSpacing in "../mac/config.rs"), InterframeSpacing::default());
    assert_eq!(table!(QueueConfig in "../mac/config.rs"), MacConfig::contiki30().queue);
    let control = ControlTraffic { interval: ms(60_000), psdu_octets: 90 };
    assert_eq!(table!(ControlTraffic in "../mac/control.rs"), control);
    let without = ContikiMac { with_phase_optimization: false, ..ContikiMac::contiki30().channel_check_rate(16) };
    assert_eq!(table!(ContikiMac in "../mac/rdc/contikimac/config.rs"), without);
    assert_eq!(
        values!(enum AccessConfig in "../mac/access.rs"),
        [
            AccessConfig::Ieee802154(Ieee802154::default()),
            AccessConfig::Contiki30(Contiki30 { max_doublings: 2, ..Contiki30::default() }),
        ]
    );
}

#[test]
fn documented_upper_layer_tables_are_read() {
    let udp = UdpHeader::Compressed { port_octets: 1 };
    let headers = Sixlowpan { context_identifier: true, destination: Inline::Identifier, udp, ..Sixlowpan::default() };
    assert_eq!(table!(Sixlowpan in "../sixlowpan.rs"), headers);
    let rpl = RplConfig { objective: Objective::HopCount, min_ratio: 0.9 };
    assert_eq!(table!(RplConfig in "../routing/rpl.rs"), rpl);
    let aodv = table!(AodvConfig in "../routing/aodv/node.rs");
    assert_eq!((aodv.metric, aodv.net_traversal_time, aodv.net_diameter), (Metric::HopCount, ms(2800), 35));
    let metrics = values!(enum Metric in "../routing/aodv/metric.rs");
    let Metric::PathDr(map) = &metrics[1] else { panic!("{metrics:?}") };
    assert!((map.delivery_ratio(10.0) - 0.5).abs() < 1e-9);
    let sender = table!(SenderConfig in "../transport/tcp/sender.rs");
    assert_eq!((sender.min_rto, sender.acknowledgments), (ms(1000), Acknowledgments::Positive));
}

#[test]
fn errors_point_to_their_place_with_a_remedy() {
    let (message, place) = mistake::<LinkConfig>("delay = '1s'\nqueue = 16");
    assert_eq!(message, "the bare number 16 has no unit; write \"16B\", or { packets = 16 } for whole frames");
    assert_eq!(place, "16");
    let (message, place) = mistake::<LinkConfig>("jitter = { uniform = [10, '20ms'] }");
    assert!(message.contains("the bare number 10 has no unit; write a time as in \"400ms\""), "{message}");
    assert_eq!(place, "10");
    for (number, percent) in [("0.05", "5%"), ("5", "5%"), ("0", "0%"), ("0.002", "0.2%")] {
        for key in ["loss", "duplicate"] {
            let text = format!("{key} = {number}");
            let (message, place) = mistake::<LinkConfig>(&text);
            assert_eq!(message, format!("the bare number {number} is no probability; write it as \"{percent}\""));
            assert_eq!(place, number);
        }
    }
    let (message, _) = mistake::<LinkConfig>("loss = '500%'");
    assert!(message.contains("it is above 100%"), "{message}");
    let (message, place) = mistake::<LinkConfig>("rate = '30kbps'");
    assert!(message.contains("unknown unit `kbps`, the units are bit/s, kbit/s"), "{message}");
    assert_eq!(place, "'30kbps'");
    let (message, place) = mistake::<MacConfig>("preset = 'contiki30'\n[attempt.acknowledgment]\nwhait = '1ms'");
    assert_eq!(message, "unknown field `whait`, expected one of `turnaround`, `wait`, `another_ends_the_wait`");
    assert_eq!(place, "whait");
    let (message, place) = mistake::<MacConfig>("preset = 'contiki40'");
    assert!(message.starts_with("unknown variant `contiki40`, expected one of `ieee802154`, "), "{message}");
    assert_eq!(place, "'contiki40'");
    let (message, _) = mistake::<MacConfig>("contikimac = { check_rate_hz = 0 }");
    assert!(message.contains("expected a nonzero u32"), "{message}");
}

#[test]
fn exclusive_and_missing_keys_are_refused() {
    let both = mistake::<LinkConfig>("queue = { bytes = '10B', packets = 1 }").0;
    assert_eq!(both, "a queue is limited in `bytes` or in `packets`, not in both");
    let both = mistake::<RadioConfig>("mac = {}\nmedium = { udgm = {}, mrm31 = {} }").0;
    assert!(both.contains("stands beside"), "{both}");
    assert_eq!(mistake::<LinkConfig>("queue = {}").0, "no limit; write bytes = \"2500B\" or packets = 16");
    assert!(mistake::<LinkConfig>("jitter = { order = 'free' }").0.starts_with("no distribution; write "));
    assert_eq!(mistake::<Gilbert>("mean_good = '1s'\nmean_bad = '1s'").0, "missing field `loss_bad`");
    let states = |keys: &str| {
        let text = format!("loss = {{ gilbert-elliott = {{ {keys}, loss_good = '0%', loss_bad = '50%' }} }}");
        mistake::<LinkConfig>(&text).0
    };
    for keys in ["to_bad = '2%'", "to_bad = '2%', to_good = '5%', mean_bad = '1s'", "mean_good = '1s'"] {
        assert!(states(keys).starts_with("its states change by frame or in time: write either to_bad"), "{keys}");
    }
    assert!(states("good = '1s'").contains("unknown field `good`, expected one of `to_bad`"));
    for (wakes, expected) in [
        ("{ for = '1s' }", "`for` is the length of periodic windows; write also every = \"10.24s\""),
        ("{ after_uplink = [] }", "an uplink opens one or two windows; write them as in [\"1s\", \"2s\"]"),
        ("{ after_uplink = ['1s', '2s', '3s'] }", "an uplink opens one or two windows"),
        ("{ after_uplink = '2s..1s' }", "it ends before it begins"),
        ("{ after_uplink = 1 }", "expected times after an uplink as in \"0s..20s\""),
        ("{ each = '1s' }", "unknown field `each`, expected one of `every`, `for`, `after_uplink`"),
        ("5", "expected windows as in { every = \"10.24s\""),
    ] {
        let message = mistake::<LinkConfig>(&format!("wakes = {wakes}")).0;
        assert!(message.contains(expected), "{message}");
    }
    let unlike = mistake::<LinkConfig>("loss = 'some'").0;
    assert!(unlike.contains("expected a probability such as \"1%\""), "{unlike}");
}

//! Configurations drawn from the bytes of a script, and some invalid ones.

use std::time::Duration;

use conche_proto::cc::any::{ALL, Named};
use conche_proto::cc::{AnyController, Controller};
use conche_proto::codec::{BlockSize, OptionNumber};
use conche_proto::config::RandomFactor;
use conche_proto::{
    Endpoint, EndpointConfig, Envelope, Instant, Limits, PathKey, QBlock, ResponseLimit, SourceValidation,
    TransmissionParameters,
};

use super::Address;
use super::focus::Focus;
use super::script::Bytes;

/// A peer table of this size has room for all peers of a script.
pub const ROOM: usize = 64;

pub struct Drawn {
    pub config: EndpointConfig,
    pub named: &'static Named,
    pub seed: u8,
    pub start: Instant,
    /// At which the endpoint receives requests; 0 if unknown.
    pub addresses: u8,
    pub streams: bool,
    /// Otherwise each source is its own group.
    grouped: bool,
    illegal: bool,
}

impl Drawn {
    /// Ten bytes determine what differs in most scripts. If the next one is 0, the other settings
    /// stay.
    pub fn from(focus: &Focus, bytes: &mut Bytes<'_>) -> Self {
        let named = &ALL[bytes.index(ALL.len())];
        let nstart = 1 + u16::from(bytes.next() % 4);
        let transmission = TransmissionParameters {
            nstart: if named.controller().measures_rtt() { nstart } else { 1 },
            max_retransmit: bytes.choose(&[4, 0, 1, 9, 255]),
            ..TransmissionParameters::default()
        };
        #[expect(clippy::needless_update, reason = "a limit added later keeps its default here")]
        let limits = Limits {
            peers: 4,
            queue_per_peer: 3,
            queue: 6,
            exchanges: 12,
            incoming: 8,
            deduplication_bytes: bytes.choose(&[64 << 20, 16 << 10, 0]),
            message_bytes: 200,
            body_bytes: 600,
            transfers_per_peer: 2,
            transfers: 5,
            assembly_bytes: 2_000,
            observers: 5,
            observers_per_host: 3,
            observers_per_peer: 2,
            topics: 3,
            state_bytes: 1_500,
            subscriptions: 3,
            outputs: 16,
            group_requests: 2,
            group_responses: 3,
            paths: 2,
            ..Limits::default()
        };
        let config = EndpointConfig {
            response_timeout: bytes.choose(&[None, Some(Duration::from_secs(9))]),
            envelope: bytes.choose(&[Envelope::default, || Envelope::open(Duration::from_secs(32))])(),
            token_length: bytes.choose(&[8, 4, 1, 0]),
            response_limit: bytes.choose(&[None, Some(ResponseLimit { per_second: 1, burst: 3 })]),
            transmission,
            limits,
            ..EndpointConfig::default()
        };
        let seed = bytes.next();
        let start = bytes.choose(&[Instant::ZERO, Instant::FAR_FUTURE - Duration::from_secs(1_000)]);
        let mut drawn =
            Self { config, named, seed, start, addresses: 0, streams: false, grouped: false, illegal: false };
        match bytes.next() {
            0 => {}
            what => {
                drawn.limits(bytes);
                drawn.times(bytes);
                drawn.rest(bytes);
                if what & 0x20 != 0 {
                    drawn.bodies(bytes);
                }
                // One of two extensions, or both.
                if what & 0xc0 == 0x40 {
                    drawn.bursts(bytes);
                }
                if what & 0x40 != 0 && what & 0x90 != 0 {
                    drawn.tokens(bytes);
                }
                drawn.streams = what & 0xc0 == 0x80;
                drawn.illegal = what % 16 == 15;
            }
        }
        if focus.has_room {
            drawn.config.limits.peers = drawn.config.limits.peers.max(ROOM);
        }
        if focus.in_parts {
            drawn.streams = true;
            drawn.config.block_size = bytes.choose(&[BlockSize::B16, BlockSize::B64]);
        }
        if focus.in_bursts && drawn.config.q_block.is_none() {
            drawn.bursts(bytes);
        }
        if drawn.illegal {
            drawn.spoil(bytes);
        }
        drawn
    }

    /// Returns `None` if the configuration was refused, as it must be if invalid.
    pub fn endpoint(&self) -> Option<Endpoint<Address, AnyController>> {
        // The model does not support pings.
        let config = EndpointConfig { source_validation: SourceValidation::Off, ..self.config.clone() };
        let made = Endpoint::new(config, self.named.controller(), [self.seed; 32]);
        if self.illegal {
            let error = made.err().map(|error| error.to_string()).expect("an illegal configuration is refused");
            assert!(!error.is_empty());
            return None;
        }
        let mut endpoint = made.expect("legal parameters");
        if self.grouped {
            endpoint.set_source_groups(Box::new(|&peer| u64::from(peer % 3)));
            // More paths than the limit, and peers without a path.
            let path = |peer: &Address| {
                (peer % 4 != 3).then(|| PathKey::new(u128::from(peer % 4) << 64, 64 + 64 * (*peer % 2) as u8))
            };
            endpoint.share_paths(Box::new(path));
        }
        Some(endpoint)
    }

    fn limits(&mut self, bytes: &mut Bytes<'_>) {
        let limits = &mut self.config.limits;
        limits.peers = bytes.choose(&[4, 1, 2, 64]);
        limits.queue_per_peer = bytes.choose(&[3, 1, 64]);
        limits.queue = bytes.choose(&[6, 1, 2, 64]);
        limits.exchanges = bytes.choose(&[12, 1, 2, 100]);
        limits.incoming = bytes.choose(&[8, 1, 2, 3, 100]);
        let many = bytes.choose(&[64 << 20, 16 << 10, 0, 1, 400, 1_000, 3_000]);
        limits.message_bytes = bytes.choose(&[200, 64, 65, 1_152, 65_535]);
        limits.deduplication_bytes = if many == 0 { 0 } else { many + least_table(limits) };
        limits.outputs = bytes.choose(&[16, 1, 2]);
    }

    fn times(&mut self, bytes: &mut Bytes<'_>) {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        let config = &mut self.config;
        config.queue_lifetime = bytes.choose(&[s(60), ms(1), s(1), s(3_600)]);
        config.longest_pause = bytes.choose(&[None, Some(ms(1)), Some(s(1)), Some(s(3_600))]);
        config.response_timeout = bytes.choose(&[None, Some(s(9)), Some(ms(1)), Some(s(3_600))]);
        config.separate_after = bytes.choose(&[ms(500), ms(0), ms(1), ms(999)]);
        config.retry_after = bytes.choose(&[s(2), s(0), s(u64::MAX)]);
        config.idle_lifetime = bytes.choose(&[s(255), s(0), s(1), s(3_600)]);
        let transmission = &mut config.transmission;
        transmission.max_latency = bytes.choose(&[s(100), s(0), s(3_600)]);
        transmission.processing_delay = bytes.choose(&[None, Some(s(0)), Some(s(100))]);
        transmission.ack_random_factor.permille = bytes.choose(&[1_500, 1_000, 60_000]);
    }

    fn rest(&mut self, bytes: &mut Bytes<'_>) {
        let config = &mut self.config;
        config.transmission.probing_rate = bytes.choose(&[1, 100, u32::MAX]);
        config.datagram_overhead = bytes.choose(&[28, 0, u32::MAX]);
        config.known_options.extend(bytes.choose(&[None, Some(OptionNumber(65_001))]));
        self.addresses = bytes.choose(&[0, 1, 3]);
        let switches = bytes.next();
        self.grouped = switches % 2 == 1;
    }

    fn bodies(&mut self, bytes: &mut Bytes<'_>) {
        let (config, sizes) = (&mut self.config, [BlockSize::B1024, BlockSize::B16, BlockSize::B64, BlockSize::B256]);
        config.block_size = bytes.choose(&sizes);
        config.transfer_lifetime = bytes.choose(&[3_600, 1, 300].map(Duration::from_secs));
        let limits = &mut config.limits;
        limits.body_bytes = bytes.choose(&[600, 0, 16, 17, 5_000]);
        limits.transfers_per_peer = bytes.choose(&[2, 0, 1, 64]);
        limits.transfers = bytes.choose(&[5, 0, 1, 64]);
        limits.assembly_bytes = bytes.choose(&[2_000, 0, 100, 64 << 10]);
        limits.observers = bytes.choose(&[5, 0, 1, 2, 64]);
        limits.observers_per_peer = bytes.choose(&[2, 0, 1, 64]);
        limits.subscriptions = bytes.choose(&[3, 0, 1, 64]);
    }

    fn tokens(&mut self, bytes: &mut Bytes<'_>) {
        let config = &mut self.config;
        config.longest_token = bytes.choose(&[40, 9, 13, 300, 65_804]);
        let most = config.longest_token.min(config.limits.message_bytes / 2);
        config.token_length = bytes.choose(&[config.token_length, 9, 13, 40, 300]).min(most);
    }

    fn bursts(&mut self, bytes: &mut Bytes<'_>) {
        let kinds = [(10, false), (1, false), (2, false), (3, false), (1_024, false), (10, true), (2, true)];
        let (max_payloads, confirmable) = bytes.choose(&kinds);
        self.config.q_block = Some(QBlock { max_payloads, confirmable, ..QBlock::default() });
        // Bodies are small, so blocks must be too, or none could be missing.
        self.config.block_size = bytes.choose(&[BlockSize::B16, BlockSize::B64]);
    }

    fn spoil(&mut self, bytes: &mut Bytes<'_>) {
        let config = &mut self.config;
        match bytes.next() % 15 {
            0 => config.limits.peers = 0,
            1 => config.limits.queue_per_peer = 0,
            2 => config.limits.queue = 0,
            3 => config.limits.exchanges = usize::MAX,
            4 => config.limits.incoming = 0,
            5 => config.limits.message_bytes = bytes.choose(&[0, 63, 65_536, usize::MAX]),
            6 => config.limits.outputs = 0,
            7 => config.token_length = config.longest_token + 1,
            8 => config.queue_lifetime = Duration::ZERO,
            9 => config.separate_after = Duration::from_secs(2),
            10 => config.envelope.timeout_cap = Duration::ZERO,
            11 => config.transmission.ack_random_factor = RandomFactor { permille: 999 },
            12 => config.transmission.nstart = 0,
            13 => config.limits.deduplication_bytes = least_table(&config.limits) - 1,
            _ => config.transmission.probing_rate = 0,
        }
    }
}

/// Room for four waiting requests.
fn least_table(limits: &Limits) -> usize {
    4 * (limits.message_bytes + 128)
}

//! The plan of a load test.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use conche_dtls::ClientCredentials;
use conche_proto::cc::AnyController;
use conche_proto::codec::BlockSize;
use conche_proto::{ConfigError, EndpointConfig, Envelope, QBlock};
use thiserror::Error;

use crate::Kind;

/// A few GiB of memory.
const MOST_IN_FLIGHT: u64 = 4_000_000;

const MOST_THREADS: u32 = 256;

/// One request in 11 days.
const LOWEST_RATE: f64 = 1e-6;

const HIGHEST_RATE: f64 = 1e8;

/// A load test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Server.
    pub target: SocketAddr,
    /// Kinds of requests.
    pub kinds: Vec<Kind>,
    /// When the next request is sent.
    pub load: Load,
    /// End of the test.
    pub until: Until,
    /// Load before the measurement.
    pub warm_up: Duration,
    /// CoAP endpoints, each with a source port.
    pub endpoints: u32,
    /// Concurrent exchanges per endpoint: NSTART.
    pub in_flight: u16,
    /// Threads sharing the endpoints.
    pub threads: u32,
    /// Endpoints' congestion control.
    pub controller: AnyController,
    /// A request's timeout with retransmissions; `None` for the protocol's.
    pub timeout: Option<Duration>,
    /// Maximum block size of bodies.
    pub block_size: BlockSize,
    /// Whether large bodies use Q-Block (RFC 9177), if supported.
    pub q_block: bool,
    /// Local address; `None` for the system's choice.
    pub local: Option<IpAddr>,
    /// Whether each request registers as an observer (RFC 7641), to count notifications.
    pub observe: bool,
    /// DTLS (`coaps`) credentials and trust, for a session per endpoint before the test; `None` for
    /// `coap`.
    pub credentials: Option<ClientCredentials>,
    /// Files of OSCORE credentials (RFC 8613) for [`Keeper::open`](conche::oscore::Keeper::open),
    /// one per endpoint.
    pub oscore: Vec<PathBuf>,
    /// Whether each request has its own handshake and session.
    pub handshakes: bool,
    /// Seed of random arrivals and kinds.
    pub seed: u64,
}

/// When the next request is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// When the previous one ends: as much as the server takes.
    Closed,
    /// When it is due, independent of earlier ones.
    Open {
        /// Requests per second of all endpoints.
        rate: f64,
        /// Distribution over time.
        arrivals: Arrivals,
    },
}

/// Distribution of an open loop's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Constant,
    /// A Poisson process, like many independent clients.
    Poisson,
}

/// The end of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After this many requests.
    Count(u64),
    /// After this time.
    Elapsed(Duration),
}

impl Plan {
    /// Ten seconds, one endpoint, one request at a time, closed loop.
    #[must_use]
    pub fn new(target: SocketAddr, kinds: Vec<Kind>) -> Self {
        Self {
            target,
            kinds,
            load: Load::Closed,
            until: Until::Elapsed(Duration::from_secs(10)),
            warm_up: Duration::ZERO,
            endpoints: 1,
            in_flight: 1,
            threads: 1,
            controller: conche_proto::cc::temper::Temper::default().into(),
            timeout: None,
            block_size: BlockSize::default(),
            q_block: false,
            local: None,
            observe: false,
            credentials: None,
            oscore: Vec::new(),
            handshakes: false,
            seed: 1,
        }
    }

    /// Checks the plan.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.kinds.iter().all(|kind| kind.weight == 0) {
            return Err(PlanError::NoRequests);
        }
        if self.endpoints == 0 || self.in_flight == 0 || self.threads == 0 {
            return Err(PlanError::ZeroCount);
        }
        if self.threads > self.endpoints {
            return Err(PlanError::IdleThreads { threads: self.threads, endpoints: self.endpoints });
        }
        if self.threads > MOST_THREADS {
            return Err(PlanError::TooManyThreads { threads: self.threads });
        }
        let in_flight = u64::from(self.endpoints) * u64::from(self.in_flight);
        if in_flight > MOST_IN_FLIGHT {
            return Err(PlanError::TooManyInFlight { in_flight });
        }
        if let Load::Open { rate, .. } = self.load
            && !(LOWEST_RATE..=HIGHEST_RATE).contains(&rate)
        {
            return Err(PlanError::Rate(rate));
        }
        if self.until == Until::Count(0) || self.until == Until::Elapsed(Duration::ZERO) {
            return Err(PlanError::NoTime);
        }
        let contexts = self.oscore.len();
        if contexts > 0 && contexts != self.endpoints as usize {
            return Err(PlanError::SharedContexts { contexts, endpoints: self.endpoints });
        }
        if self.handshakes {
            if self.credentials.is_none() {
                return Err(PlanError::NoHandshakes);
            }
            if self.observe || self.in_flight > 1 {
                return Err(PlanError::SharedSession);
            }
        }
        if self.observe {
            if matches!(self.until, Until::Count(_)) {
                return Err(PlanError::CountOfObservations);
            }
            if let Some(kind) = self.kinds.iter().find(|kind| !kind.code.is_safe()) {
                return Err(PlanError::NotObservable { name: kind.name.clone() });
            }
        }
        Ok(self.config().validate_with(&self.controller).map(drop)?)
    }

    pub(crate) fn config(&self) -> EndpointConfig {
        let mut config = EndpointConfig { block_size: self.block_size, ..EndpointConfig::default() };
        config.transmission.nstart = self.in_flight;
        config.envelope = Envelope::default();
        config.q_block = self.q_block.then(QBlock::default);
        let slots = usize::try_from(u64::from(self.endpoints) * u64::from(self.in_flight)).unwrap_or(usize::MAX);
        let limits = &mut config.limits;
        limits.queue_per_peer = limits.queue_per_peer.max(self.in_flight.into());
        limits.queue = limits.queue.max(slots);
        // Deregistrations are open beside registrations.
        limits.exchanges = limits.exchanges.max(slots.saturating_mul(2));
        limits.subscriptions = limits.subscriptions.max(slots);
        limits.transfers_per_peer = limits.transfers_per_peer.max(self.in_flight.into());
        limits.transfers = limits.transfers.max(slots);
        limits.body_bytes = LARGEST_BODY;
        limits.assembly_bytes = 1 << 30;
        config
    }
}

/// Maximum body in bytes.
pub const LARGEST_BODY: usize = 16 << 20;

/// Why a plan is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// `kinds` is empty, or all weights are 0.
    #[error("there is no request to send: at least one must have a weight above 0")]
    NoRequests,
    /// A count is 0.
    #[error("endpoints, requests in flight and threads must be 1 at least")]
    ZeroCount,
    /// More threads than endpoints.
    #[error("{threads} threads share {endpoints} endpoints: have as many endpoints as threads at least")]
    IdleThreads {
        /// Threads.
        threads: u32,
        /// Endpoints.
        endpoints: u32,
    },
    /// More than 256 threads.
    #[error("{threads} threads: {MOST_THREADS} are possible, and more than the machine has cores make nothing faster")]
    TooManyThreads {
        /// Threads.
        threads: u32,
    },
    /// Too many concurrent exchanges for the memory.
    #[error("{in_flight} requests in flight: {MOST_IN_FLIGHT} are possible")]
    TooManyInFlight {
        /// Sum over all endpoints.
        in_flight: u64,
    },
    /// The rate is not a number, or out of range.
    #[error("a rate of {0:?} requests a second: {LOWEST_RATE} to {HIGHEST_RATE} are possible")]
    Rate(f64),
    /// The test has no requests or no time.
    #[error("a test of no requests or no time")]
    NoTime,
    /// Registrations last until the end: their number cannot end the test.
    #[error("registrations last as long as the test: give a duration instead of a number of requests")]
    CountOfObservations,
    /// Only GET and FETCH can be observed (RFC 7641 §2, RFC 8132 §2.4).
    #[error("{name}: only GET and FETCH can be observed")]
    NotObservable {
        /// Kind of request.
        name: String,
    },
    /// Endpoints share an OSCORE context: the slower one's requests would be rejected as replays.
    #[error(
        "{endpoints} endpoints for {contexts} files of OSCORE: each needs one of its own, since a server refuses numbers that come later \
         than some others of the same client"
    )]
    SharedContexts {
        /// Files.
        contexts: usize,
        /// Endpoints.
        endpoints: u32,
    },
    /// Handshakes need DTLS.
    #[error("there are no handshakes over coap: use a coaps URI")]
    NoHandshakes,
    /// A session per request excludes concurrency and observations.
    #[error(
        "with a handshake for each request there is one request at a time for each endpoint, and nothing to observe: have more endpoints"
    )]
    SharedSession,
    /// The credentials cannot be used.
    #[error("there can be no sessions: {0}")]
    Sessions(#[from] conche_dtls::ConfigError),
    /// The endpoint configuration is invalid, such as NSTART above 1 without RTT measurement.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

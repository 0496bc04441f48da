//! What is asked of whom, how often and for how long.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use conche_dtls::ClientCredentials;
use conche_proto::cc::AnyController;
use conche_proto::codec::BlockSize;
use conche_proto::{ConfigError, EndpointConfig, Envelope, QBlock};
use thiserror::Error;

use crate::Kind;

/// The most exchanges at a time over all endpoints: what a few GiB hold.
const MOST_IN_FLIGHT: u64 = 4_000_000;

/// The most threads: more than cores of any machine that it runs on are of no use, and each has histograms of its own.
const MOST_THREADS: u32 = 256;

/// The lowest rate in requests a second: one in 11 days.
const LOWEST_RATE: f64 = 1e-6;

/// The highest rate in requests a second.
const HIGHEST_RATE: f64 = 1e8;

/// A load test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub target: SocketAddr,
    /// What is asked: one kind of request, or several by weight.
    pub kinds: Vec<Kind>,
    /// When the next request leaves.
    pub load: Load,
    /// When the test is over.
    pub until: Until,
    /// How long the server is loaded before anything counts.
    pub warm_up: Duration,
    /// CoAP endpoints, each with a source port of its own.
    pub endpoints: u32,
    /// Exchanges at a time of each endpoint, which is its NSTART.
    pub in_flight: u16,
    /// Threads that share the endpoints.
    pub threads: u32,
    /// The congestion control of each endpoint.
    pub controller: AnyController,
    /// How long a request may take, its retransmissions included; without it, as long as the protocol lets it.
    pub timeout: Option<Duration>,
    /// The largest blocks of bodies.
    pub block_size: BlockSize,
    /// Large bodies go in sets of Non-confirmable messages (RFC 9177), if the server knows how.
    pub q_block: bool,
    /// The address to send from; without it, one that the operating system chooses.
    pub local: Option<IpAddr>,
    /// Each request registers for notifications (RFC 7641), which are counted.
    pub observe: bool,
    /// Who we are to a server that is asked over DTLS (`coaps`), and whom we believe; each endpoint has a session of its own, which is open
    /// before the test begins. `None` for `coap`.
    pub credentials: Option<ClientCredentials>,
    /// Requests are protected from end to end (OSCORE, RFC 8613) with the credentials in these files, as
    /// [`Keeper::open`](conche::oscore::Keeper::open) reads them: one for each endpoint, as so many clients have.
    pub oscore: Vec<PathBuf>,
    /// Each request has a handshake and a session of its own, which is closed after its response.
    pub handshakes: bool,
    /// Where random choices come from: arrivals, and the order of several kinds.
    pub seed: u64,
}

/// When the next request leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// When the one before it is over: as much load as the server takes.
    Closed,
    /// When it is due, whatever became of those before it.
    Open {
        /// Requests a second, over all endpoints.
        rate: f64,
        /// How they are spread over time.
        arrivals: Arrivals,
    },
}

/// How requests of an open loop are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Constant,
    /// As a Poisson process, as those of many independent clients are.
    Poisson,
}

/// When a test is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After so many requests.
    Count(u64),
    /// After so long.
    Elapsed(Duration),
}

impl Plan {
    /// Ten seconds of one endpoint with one request at a time, in a closed loop.
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

    /// Checks that the test can be run as it is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.kinds.iter().all(|kind| kind.weight == 0) {
            return Err(PlanError::NothingToAsk);
        }
        if self.endpoints == 0 || self.in_flight == 0 || self.threads == 0 {
            return Err(PlanError::Nobody);
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

    /// How the endpoint of a thread is configured. To all its endpoints of this plan the server is a peer of its own.
    pub(crate) fn config(&self) -> EndpointConfig {
        let mut config = EndpointConfig { block_size: self.block_size, ..EndpointConfig::default() };
        config.transmission.nstart = self.in_flight;
        config.envelope = Envelope::default();
        config.q_block = self.q_block.then(QBlock::default);
        let slots = usize::try_from(u64::from(self.endpoints) * u64::from(self.in_flight)).unwrap_or(usize::MAX);
        let limits = &mut config.limits;
        limits.queue_per_peer = limits.queue_per_peer.max(self.in_flight.into());
        limits.queue = limits.queue.max(slots);
        // Those that end registrations are open beside these.
        limits.exchanges = limits.exchanges.max(slots.saturating_mul(2));
        limits.subscriptions = limits.subscriptions.max(slots);
        limits.transfers_per_peer = limits.transfers_per_peer.max(self.in_flight.into());
        limits.transfers = limits.transfers.max(slots);
        limits.body_bytes = LARGEST_BODY;
        limits.assembly_bytes = 1 << 30;
        config
    }
}

/// The largest body that is sent or taken.
pub const LARGEST_BODY: usize = 16 << 20;

/// Why a test cannot be run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no request, or all weights are 0.
    #[error("there is no request to send: at least one must have a weight above 0")]
    NothingToAsk,
    /// A number is 0 that cannot be.
    #[error("endpoints, requests in flight and threads must be 1 at least")]
    Nobody,
    /// There are more threads than endpoints.
    #[error("{threads} threads share {endpoints} endpoints: have as many endpoints as threads at least")]
    IdleThreads {
        /// Threads.
        threads: u32,
        /// Endpoints.
        endpoints: u32,
    },
    /// More threads than any machine has use for.
    #[error("{threads} threads: {MOST_THREADS} are possible, and more than the machine has cores make nothing faster")]
    TooManyThreads {
        /// Threads.
        threads: u32,
    },
    /// It would take too much memory.
    #[error("{in_flight} requests in flight: {MOST_IN_FLIGHT} are possible")]
    TooManyInFlight {
        /// Over all endpoints.
        in_flight: u64,
    },
    /// The rate is none, or too low or high.
    #[error("a rate of {0:?} requests a second: {LOWEST_RATE} to {HIGHEST_RATE} are possible")]
    Rate(f64),
    /// It would be over at once.
    #[error("a test of no requests or no time")]
    NoTime,
    /// Registrations last until the end.
    #[error("registrations last as long as the test: give a duration instead of a number of requests")]
    CountOfObservations,
    /// Only GET and FETCH can be observed (RFC 7641 §2, RFC 8132 §2.4).
    #[error("{name}: only GET and FETCH can be observed")]
    NotObservable {
        /// The kind of request.
        name: String,
    },
    /// Endpoints that share a context do not wait for each other, so that a server would take numbers of the slower one for replays.
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
    /// Without DTLS there are no handshakes.
    #[error("there are no handshakes over coap: ask a coaps URI")]
    NoHandshakes,
    /// A session for each request has no room for more.
    #[error(
        "with a handshake for each request there is one request at a time for each endpoint, and nothing to observe: have more endpoints"
    )]
    SharedSession,
    /// The credentials cannot be used.
    #[error("there can be no sessions: {0}")]
    Sessions(#[from] conche_dtls::ConfigError),
    /// The endpoints cannot be configured so, such as with more than one request in flight without a controller that measures.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

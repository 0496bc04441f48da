//! Clients, servers, times and sizes of requests.

use std::num::{NonZeroU8, NonZeroU16};
use std::time::Duration;

use conche_netsim::transport::tcp::Acknowledgments;
use conche_netsim::transport::tcp::segment::ENCODED_OCTETS;
use conche_proto::codec::{BlockSize, Code};
use serde::Deserialize;

use super::{AtLeastOne, ControllerName, Endpoint, Phase, Range, ScenarioError, Security, ensure};
use crate::units::{Size, Span};

/// Requests from nodes of one group to another group, with a flow per pair.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Name in results.
    pub name: String,
    /// Clients: a node, a group, or part of one (`client[0..10]`).
    pub from: String,
    /// Servers.
    pub to: String,
    /// Pairs of client and server.
    #[serde(default)]
    pub pairs: Pairs,
    /// Shuffles the pairs before `skip` and `take`, per replication, equally for traffic with the
    /// same name here.
    pub shuffle: Option<String>,
    /// All replications share the order.
    #[serde(default)]
    pub fixed: bool,
    /// Hops of a frozen route; each replication takes the next such pair.
    pub hops: Option<u8>,
    /// Number of pairs to skip.
    #[serde(default)]
    pub skip: u32,
    /// Number of pairs. Default: all.
    pub take: Option<u32>,
    /// Start time. Default: 0.
    pub start: Option<Span>,
    /// Time after which no exchange begins. Default: none.
    pub stop: Option<Span>,
    /// Trigger of exchanges. Default: the end of the previous one.
    #[serde(default)]
    pub pace: Pace,
    /// Maximum outstanding exchanges. Default: one.
    pub outstanding: Option<Outstanding>,
    /// Exchanges per flow. Default: no limit.
    pub exchanges: Option<AtLeastOne>,
    /// Share of exchanges whose success ends the run before its `duration`.
    pub ends_run: Option<f64>,
    /// Exchanges that count towards this number.
    #[serde(default)]
    pub count: Count,
    /// Successes after which the client resets the server's congestion state.
    pub batch: Option<Range>,
    /// Method of requests.
    #[serde(default)]
    pub method: Method,
    /// Path of requests, such as `sensors/1`, for a server that is a program. Default: none.
    pub path: Option<String>,
    /// Size of a request. Default: header and token only.
    pub request: Option<Size>,
    /// Size of a response.
    pub response: Option<Size>,
    /// Sends `request` and `response` as bodies in blocks of at most this size (RFC 7959).
    pub block: Option<Block>,
    /// Sends Confirmable requests. Default: yes.
    #[serde(default = "yes")]
    pub confirmable: bool,
    /// Sender of the requests.
    #[serde(default)]
    pub sender: Sender,
    /// Clients observe the servers (RFC 7641); `pace` is that of changes.
    pub observe: Option<Observe>,
    /// Controller of its clients under every scheme, for cross traffic.
    pub controller: Option<ControllerName>,
}

/// A block size of RFC 7959: 16 to 1024 B, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Size")]
pub struct Block(BlockSize);

impl Block {
    /// Returns the size.
    #[must_use]
    pub const fn size(self) -> BlockSize {
        self.0
    }
}

impl TryFrom<Size> for Block {
    type Error = String;

    fn try_from(size: Size) -> Result<Self, Self::Error> {
        let known = BlockSize::DESCENDING.into_iter().find(|known| known.bytes() as u64 == size.0);
        known.map(Self).ok_or_else(|| format!("{size} is no block size; the sizes are 16B, 32B, 64B, … 1024B"))
    }
}

/// Sender of a traffic's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// A CoAP endpoint, with congestion control.
    #[default]
    Endpoint,
    /// Sends Non-confirmable requests at its pace and ignores their outcome; no responses.
    Unaware,
    /// A bulk transfer over a simplified TCP, between motes with their own routing.
    Transfer(Transfer),
    /// A bulk transfer over TCP between wired nodes without endpoint.
    Tcp(Tcp),
}

/// Reliability of notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observe {
    /// All are Confirmable.
    Confirmable,
    /// The endpoint's default: Non-confirmable, except each fifth in a row (RFC 7641 §4.5) and
    /// states that persist.
    EachFifthConfirmable,
}

/// Maximum outstanding exchanges of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a number of exchanges, or \"nstart\" for as many as the scheme's NSTART")]
pub enum Outstanding {
    /// A number.
    Number(u16),
    /// NSTART of the scheme.
    Scheme(Nstart),
}

/// NSTART in place of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nstart {
    /// NSTART of the scheme.
    Nstart,
}

impl Default for Outstanding {
    fn default() -> Self {
        Self::Number(1)
    }
}

/// The pairs of client and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairs {
    /// Client i uses server i modulo their number; with more servers than clients, the reverse.
    #[default]
    Dealt,
    /// Each client uses each server but itself.
    All,
}

/// Trigger of a flow's exchanges.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pace {
    /// The end of the previous exchange: a closed loop.
    #[default]
    Closed,
    /// A fixed interval. A due exchange waits for outstanding ones.
    Every {
        /// The interval.
        interval: Span,
        /// Starts each flow at a random time within the interval. Default: yes.
        #[serde(default = "yes")]
        spread: bool,
    },
    /// Exponentially distributed pauses.
    Poisson {
        /// Mean pause.
        interval: Span,
    },
    /// Bursts at a fixed interval.
    Bursts {
        /// The interval between bursts.
        interval: Span,
        /// Exchanges per burst.
        exchanges: AtLeastOne,
    },
    /// Times since the start of the traffic.
    At(Vec<Span>),
    /// A fixed interval during on-periods, from a random time within it.
    OnOff {
        /// The interval.
        interval: Span,
        /// Duration of on-periods.
        on: Span,
        /// Duration of off-periods.
        off: Span,
    },
    /// Intervals per phase, each from a random time within it.
    Phases(Vec<Span>),
}

/// Exchanges that count towards a flow's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// All exchanges.
    #[default]
    Opened,
    /// Successful ones; a failed exchange is repeated.
    Succeeded,
}

/// A method of CoAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "RFC 7252 §5.8")]
pub enum Method {
    #[default]
    Get,
    Post,
    Put,
    Delete,
}

const fn yes() -> bool {
    true
}

/// Bytes of a change's time in a notification.
pub const STATE_BYTES: usize = 8;
/// Maximum size of a body in blocks.
const LONGEST_BODY: u64 = 16 << 20;
/// Options beside a block.
const BLOCK_OPTIONS: u64 = 32;
/// RFC 7252 §4.6.
const MOST_BYTES: u64 = 1152;

impl Method {
    /// Returns its code.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Get => Code::GET,
            Self::Post => Code::POST,
            Self::Put => Code::PUT,
            Self::Delete => Code::DELETE,
        }
    }

    /// Returns the code of its success.
    #[must_use]
    pub const fn success(self) -> Code {
        match self {
            Self::Get => Code::CONTENT,
            Self::Post | Self::Put => Code::CHANGED,
            Self::Delete => Code::DELETED,
        }
    }
}

impl Traffic {
    fn validate_sender(&self) -> Result<(), ScenarioError> {
        let is_paced = self.pace != Pace::Closed;
        let (exchanges, batch) = (self.exchanges.is_some(), self.batch.is_some());
        let (outstanding, ends_run) = (self.outstanding.is_some(), self.ends_run.is_some());
        let (begin, wrong) = match &self.sender {
            Sender::Endpoint => return Ok(()),
            Sender::Unaware => {
                let of_exchanges = vec![
                    ("controller", self.controller.is_some(), "no congestion, and has no control; leave it out"),
                    ("confirmable", self.confirmable, "no acknowledgement; write `confirmable = false`"),
                    ("pace", !is_paced, "no end of what it opened; give it a pace such as { every = .. }"),
                    ("outstanding", outstanding, "no end of what it opened; leave it out"),
                    ("ends_run", ends_run, "no success; leave it out"),
                    ("block", self.block.is_some(), "no block that arrived; leave it out"),
                    ("exchanges", exchanges, "no end of what it opened; leave it out, and say when to `stop`"),
                    ("batch", batch, "no success, and has no congestion state; leave it out"),
                ];
                ("an unaware sender hears of", of_exchanges)
            }
            Sender::Transfer(_) | Sender::Tcp(_) => {
                let place = |kind: &str| format!("traffic.{}.sender.{kind}", self.name);
                match &self.sender {
                    Sender::Transfer(transfer) => transfer.validate(&place("transfer"))?,
                    Sender::Tcp(tcp) => tcp.validate(&place("tcp"))?,
                    Sender::Endpoint | Sender::Unaware => {}
                }
                let counts = is_paced || outstanding || exchanges || ends_run || batch;
                let sizes = self.request.is_some() || self.response.is_some() || self.block.is_some();
                let times = self.start.is_some() || self.stop.is_some();
                let of_exchanges = vec![
                    ("pace", counts, "no exchanges; leave it out"),
                    ("request", sizes, "no messages; say how large its `payload` and `header` are"),
                    ("start", times, "no other time than the run's; leave it out"),
                ];
                ("a transfer has", of_exchanges)
            }
        };
        wrong.into_iter().try_for_each(|(key, is_wrong, problem)| {
            ensure(!is_wrong, format_args!("traffic.{}.{key}", self.name), format_args!("{begin} {problem}"))
        })
    }

    fn validate_observe(&self, header: u64) -> Result<(), ScenarioError> {
        if self.observe.is_none() {
            return Ok(());
        }
        let is_paced = matches!(self.pace, Pace::Every { .. } | Pace::Poisson { .. } | Pace::At(_));
        let counts = self.exchanges.is_some() || self.ends_run.is_some() || self.batch.is_some();
        let least = header + 1 + STATE_BYTES as u64;
        let small = format!("less than {least}B: a notification holds when the change was");
        let wrong = [
            ("sender", self.sender != Sender::Endpoint, "no endpoint observes nothing; leave it out"),
            ("pace", !is_paced, "what is observed changes by { every = .. }, { poisson = .. } or { at = [..] }"),
            ("exchanges", counts, "changes are not counted; leave it out, and say when they `stop`"),
            (
                "outstanding",
                self.outstanding.is_some(),
                "who observes is sent one notification at a time; leave it out",
            ),
            ("controller", self.controller.is_some(), "its servers send, under the scheme; leave it out"),
            ("block", self.block.is_some(), "a notification is a single message; leave it out"),
            ("method", self.method != Method::Get, "only what a GET asks for is observed here"),
            ("response", self.response.is_none_or(|size| size.0 < least), small.as_str()),
        ];
        wrong.into_iter().try_for_each(|(key, is_wrong, problem)| {
            ensure(!is_wrong, format_args!("traffic.{}.{key}", self.name), problem)
        })
    }

    /// Returns the largest body in blocks in bytes, or 0.
    #[must_use]
    pub fn largest_body(&self) -> usize {
        let sizes = self.block.and(self.request.max(self.response));
        sizes.map_or(0, |size| usize::try_from(size.0).unwrap_or(usize::MAX))
    }

    pub(super) fn validate_security(&self, security: Security) -> Result<(), ScenarioError> {
        let is_plain = self.observe.is_some() || self.sender == Sender::Unaware;
        let problem = format_args!(
            "what observes (`{}`), and senders that are unaware, have no sessions; write it as \"plain\"",
            self.name
        );
        ensure(!is_plain || security == Security::Plain, "endpoint.security", problem)
    }

    pub(super) fn is_planned(&self) -> bool {
        self.exchanges.is_some() || matches!(self.sender, Sender::Transfer(_) | Sender::Tcp(_))
    }

    /// Returns whether its flows end by themselves.
    pub(super) fn ends(&self) -> bool {
        self.is_planned() || self.stop.is_some() || matches!(self.pace, Pace::At(_))
    }

    /// Returns bytes of request and response, without network headers.
    pub(super) fn datagrams(&self, endpoint: &Endpoint) -> Vec<(&'static str, u64)> {
        let message = |size: Option<Size>| size.map_or(4 + u64::from(endpoint.token_length), |size| size.0);
        let bytes = |size: Option<Size>| message(size).saturating_add(endpoint.security.bytes());
        match &self.sender {
            Sender::Transfer(transfer) => vec![("sender.transfer.payload", transfer.datagram_octets())],
            Sender::Tcp(tcp) => vec![("sender.tcp.payload", tcp.payload.0.saturating_add(tcp.header.0))],
            _ => match self.block {
                None => {
                    let path = if self.request.is_none() { self.path_bytes() } else { 0 };
                    vec![("request", bytes(self.request) + path), ("response", bytes(self.response))]
                }
                Some(block) => {
                    let message = bytes(None) + BLOCK_OPTIONS + 1 + block.0.bytes() as u64;
                    vec![("block", message)]
                }
            },
        }
    }

    fn path_bytes(&self) -> u64 {
        let extended = |length: u64| u64::from(length > 12) + u64::from(length > 268);
        let segments = self.path.iter().flat_map(|path| path.split('/')).map(|segment| segment.len() as u64);
        segments.map(|length| 1 + extended(length) + length).sum()
    }

    fn validate_path(&self) -> Result<(), ScenarioError> {
        let Some(path) = &self.path else { return Ok(()) };
        let place = format!("traffic.{}.path", self.name);
        let are_segments = path.split('/').all(|segment| (1..=LONGEST_SEGMENT).contains(&segment.len()));
        let problem = format_args!(
            "`{path}` is no path of segments of 1 to {LONGEST_SEGMENT} bytes; write it as in \"sensors/1\""
        );
        ensure(are_segments, &place, problem)?;
        let problem = "only endpoints send requests with a path; leave it out, or the `sender` and `observe`";
        ensure(self.sender == Sender::Endpoint && self.observe.is_none(), &place, problem)
    }

    pub(super) fn validate(&self, token_length: u8, phases: &[Phase]) -> Result<(), ScenarioError> {
        let place = |of: &str| format!("traffic.{}.{of}", self.name);
        let header = 4 + u64::from(token_length);
        for (name, size) in [("request", self.request), ("response", self.response)] {
            let Some(size) = size else { continue };
            if let Some(block) = self.block {
                let problem = format_args!("{size} is no body between 1B and {LONGEST_BODY}B");
                ensure((1..=LONGEST_BODY).contains(&size.0), place(name), problem)?;
                // Only safe methods request a block size.
                let is_cut = name == "request" || self.method.code().is_safe() || size.0 <= block.0.bytes() as u64;
                let problem = "the response to this method is not cut to `block`; make it at most that size";
                ensure(is_cut, place(name), problem)?;
                continue;
            }
            let least = header + 2;
            let problem = format_args!(
                "{size} is not {header}B (header and token) or between {least}B and {MOST_BYTES}B; a larger body is sent in \
                 blocks, as with `block = \"1024B\"`"
            );
            ensure(size.0 == header || (least..=MOST_BYTES).contains(&size.0), place(name), problem)?;
        }
        self.validate_observe(header)?;
        self.validate_path()?;
        let interval = match &self.pace {
            Pace::Every { interval, .. } | Pace::Poisson { interval } | Pace::Bursts { interval, .. } => *interval,
            Pace::OnOff { interval, on, off } => {
                let turn = "a turn of 0s is none; write `on` and `off` as in \"360s\"";
                ensure(!on.0.is_zero() && !off.0.is_zero(), place("pace"), turn)?;
                let long = format_args!("an interval of {interval} is longer than the clock is on, {on}");
                ensure(interval.0 <= on.0, place("pace.interval"), long)?;
                *interval
            }
            Pace::Phases(intervals) => {
                let (paces, phases) = (intervals.len(), phases.len());
                let problem = format_args!("{paces} intervals for {phases} phases; write one for each");
                ensure(paces == phases, place("pace.phases"), problem)?;
                intervals.iter().copied().min().unwrap_or(Span(Duration::MAX))
            }
            Pace::Closed | Pace::At(_) => Span(Duration::MAX),
        };
        let endless = "0s would open exchanges without end; write it as in \"60s\"";
        ensure(!interval.0.is_zero(), place("pace.interval"), endless)?;
        self.validate_sender()?;
        if let Some(share) = self.ends_run {
            let no_share = format_args!("{share} is no share; it must be between 0 and 1");
            ensure((0.0..=1.0).contains(&share), place("ends_run"), no_share)?;
            let endless = "a share of exchanges without end; say how many `exchanges` a flow has";
            ensure(self.exchanges.is_some(), place("ends_run"), endless)?;
        }
        let is_none = self.outstanding == Some(Outstanding::Number(0));
        ensure(!is_none, place("outstanding"), "0 exchanges at a time are none; at least 1")
    }
}

/// A bulk transfer over a simplified TCP with the scheme's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Segments.
    pub segments: AtLeastOne,
    /// Bytes per segment.
    pub payload: Size,
    /// Bytes of headers per datagram.
    pub header: Size,
    /// Maximum congestion window, in segments.
    pub window: NonZeroU16,
    /// `"cumulative"` or `"positive"`.
    pub acknowledgments: Acknowledgments,
    /// Processing time of a received segment.
    pub processing: Span,
    /// Minimum timeout.
    pub min_rto: Span,
    /// Timeouts of a segment until the transfer fails.
    pub max_timeouts: NonZeroU8,
}

/// A bulk transfer over TCP with congestion control (RFC 5681, RFC 6582), with the timers of the
/// scheme or the traffic's own controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Segments.
    pub segments: AtLeastOne,
    /// Bytes per segment.
    pub payload: Size,
    /// Header bytes per datagram, besides those of links.
    pub header: Size,
    /// Maximum congestion window in segments: the receiver's window.
    pub window: NonZeroU16,
    /// Minimum timeout.
    pub min_rto: Span,
    /// Timeouts of a segment until the transfer fails.
    pub max_timeouts: NonZeroU8,
}

impl Tcp {
    fn validate(&self, place: &str) -> Result<(), ScenarioError> {
        let least =
            format_args!("{} does not hold the numbers of a segment; at least {ENCODED_OCTETS}B does", self.header);
        ensure(self.header.0 >= ENCODED_OCTETS as u64, format_args!("{place}.header"), least)?;
        let bytes = self.payload.0.saturating_add(self.header.0);
        let long = format_args!("{} with its header is longer than {LONGEST_DATAGRAM}B", self.payload);
        ensure(bytes <= LONGEST_DATAGRAM, format_args!("{place}.payload"), long)
    }
}

const LONGEST_DATAGRAM: u64 = 1500;
/// RFC 7252 §5.10.
const LONGEST_SEGMENT: usize = 255;
const LEAST_HEADER: u64 = 10;
/// aMaxPHYPacketSize of IEEE 802.15.4.
const LONGEST_FRAME: u64 = 127;

impl Transfer {
    /// Returns the octets of a data datagram.
    #[must_use]
    pub fn datagram_octets(&self) -> u64 {
        self.payload.0.saturating_add(self.header.0)
    }

    fn validate(&self, place: &str) -> Result<(), ScenarioError> {
        let least = format_args!("{} does not hold addresses and numbers; at least {LEAST_HEADER}B does", self.header);
        ensure(self.header.0 >= LEAST_HEADER, format_args!("{place}.header"), least)?;
        let long = format_args!("{} with its header does not fit into a frame of {LONGEST_FRAME}B", self.payload);
        ensure(self.datagram_octets() <= LONGEST_FRAME, format_args!("{place}.payload"), long)
    }
}

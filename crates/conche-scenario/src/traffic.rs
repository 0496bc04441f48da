//! Who asks whom, when, how often, how much.

use std::time::Duration;

use conche_proto::codec::Code;
use serde::Deserialize;

use super::{AtLeastOne, ControllerName, Endpoint, Phase, Range, ScenarioError, Tcp, Transfer, ensure};
use crate::units::{Size, Span};

/// Requests from the nodes of one group to those of another: a flow for each pair.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// What results call it.
    pub name: String,
    /// The clients: a node, a group, or a part of one such as `client[0..10]`.
    pub from: String,
    /// The servers.
    pub to: String,
    /// Which client asks which server.
    #[serde(default)]
    pub pairs: Pairs,
    /// Takes the pairs in a random order, another one for each replication, before `skip` and `take`. Traffic with one
    /// name here shares the order.
    pub shuffle: Option<String>,
    /// Whether that order is the same in all replications.
    #[serde(default)]
    pub fixed: bool,
    /// Over frozen routes: how many hops a route has. Each replication has the next one of the pairs with such a route.
    pub hops: Option<u8>,
    /// Leaves out so many pairs at the begin.
    #[serde(default)]
    pub skip: u32,
    /// And uses so many of the others; without, all.
    pub take: Option<u32>,
    /// When it begins. Default: at once.
    pub start: Option<Span>,
    /// From when on it opens no new exchange; without, never.
    pub stop: Option<Span>,
    /// What makes it open an exchange. Default: that the one before is over.
    #[serde(default)]
    pub pace: Pace,
    /// How many of its exchanges may go on at the same time. Default: one.
    pub outstanding: Option<Outstanding>,
    /// How many exchanges a flow has; without, no limit.
    pub exchanges: Option<AtLeastOne>,
    /// The run ends early, before its `duration`, when this share of all exchanges of this traffic has succeeded.
    pub ends_run: Option<f64>,
    /// Which exchanges count towards them.
    #[serde(default)]
    pub count: Count,
    /// After each batch of so many exchanges that succeeded the client forgets the congestion state of the server; without,
    /// never.
    pub batch: Option<Range>,
    /// The method of requests. Default: GET.
    #[serde(default)]
    pub method: Method,
    /// The size of a request as a CoAP message, header and token included. Default: nothing but these.
    pub request: Option<Size>,
    /// The same of a response.
    pub response: Option<Size>,
    /// Whether requests are Confirmable. Default: yes.
    #[serde(default = "yes")]
    pub confirmable: bool,
    /// What sends the requests. Default: an endpoint.
    #[serde(default)]
    pub sender: Sender,
    /// Its clients observe its servers, which notify them of each change (RFC 7641); when these come is the `pace`. Default: they ask.
    pub observe: Option<Observe>,
    /// The congestion control of its clients, under every scheme: neighbours of those that run the scheme. Default: the
    /// scheme's.
    pub controller: Option<ControllerName>,
}

/// What sends the requests of a traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// A CoAP endpoint, with congestion control.
    #[default]
    Endpoint,
    /// Something that knows of no congestion: it sends Non-confirmable requests at its pace whatever happens to them. No
    /// endpoint runs on its nodes; nothing is answered.
    Unaware,
    /// A bulk transfer over a simplified TCP, from motes that route by themselves.
    Transfer(Transfer),
    /// A bulk transfer over TCP between nodes on wires, which have no endpoint.
    Tcp(Tcp),
}

/// How notifications are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observe {
    /// Each is Confirmable.
    Confirmable,
    /// As the endpoint does by itself: Non-confirmable, but for each fifth in a row (RFC 7641 §4.5), and what stays.
    EachFifthConfirmable,
}

/// How many exchanges of a flow may go on at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a number of exchanges, or \"nstart\" for as many as the scheme's NSTART")]
pub enum Outstanding {
    /// So many.
    Number(u16),
    /// As many as the endpoint lets out under the scheme.
    Scheme(Nstart),
}

/// NSTART, where a number is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nstart {
    /// That of the scheme, or of all endpoints.
    Nstart,
}

impl Default for Outstanding {
    fn default() -> Self {
        Self::Number(1)
    }
}

/// Which client asks which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairs {
    /// Client i asks server i modulo their number, and where there are more servers than clients the other way round.
    #[default]
    Dealt,
    /// Each client asks each server but itself.
    All,
}

/// What makes a flow open an exchange.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pace {
    /// The end of the one before, good or bad: a closed loop.
    #[default]
    Closed,
    /// A clock. What is due while others go on waits.
    Every {
        /// From one to the next.
        interval: Span,
        /// Whether each flow begins at its own random time within the interval. Default: yes.
        #[serde(default = "yes")]
        spread: bool,
    },
    /// Chance: the pauses between them are exponentially distributed.
    Poisson {
        /// The mean of the pauses.
        interval: Span,
    },
    /// Several at a time, by a clock.
    Bursts {
        /// From one burst to the next.
        interval: Span,
        /// Exchanges of a burst.
        exchanges: AtLeastOne,
    },
    /// A list of times, since the traffic began.
    At(Vec<Span>),
    /// A clock in turns on and off. Each flow begins every turn at its own random time within the interval.
    OnOff {
        /// From one to the next.
        interval: Span,
        /// How long it is on.
        on: Span,
        /// And how long it is off, after that.
        off: Span,
    },
    /// A clock that goes at another rate in each of the scenario's phases: a list of intervals. Each flow begins every phase
    /// at its own random time within the interval; until then the clock of the phase before goes on.
    Phases(Vec<Span>),
}

/// Which exchanges count towards a flow's number of exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// All that it opened.
    #[default]
    Opened,
    /// Those that succeeded; for one that fails it opens another.
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

/// Of the time of a change in a notification.
pub const STATE_BYTES: usize = 8;
/// RFC 7252 §4.6.
const MOST_BYTES: u64 = 1152;

impl Method {
    /// Its code.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Get => Code::GET,
            Self::Post => Code::POST,
            Self::Put => Code::PUT,
            Self::Delete => Code::DELETE,
        }
    }

    /// The code of its success.
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
    /// A sender without an endpoint has no exchanges: nothing that counts them makes sense.
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
                let sizes = self.request.is_some() || self.response.is_some();
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

    /// What is observed is sent without being asked for, and its changes have no end.
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
            ("method", self.method != Method::Get, "only what a GET asks for is observed here"),
            ("response", self.response.is_none_or(|size| size.0 < least), small.as_str()),
        ];
        wrong.into_iter().try_for_each(|(key, is_wrong, problem)| {
            ensure(!is_wrong, format_args!("traffic.{}.{key}", self.name), problem)
        })
    }

    /// The bytes of what is sent either way, headers of the network apart; of a message without a size, its own header.
    pub(super) fn datagrams(&self, endpoint: &Endpoint) -> Vec<(&'static str, u64)> {
        let message = |size: Option<Size>| size.map_or(4 + u64::from(endpoint.token_length), |size| size.0);
        let bytes = |size: Option<Size>| message(size).saturating_add(endpoint.security.bytes());
        match &self.sender {
            Sender::Transfer(transfer) => vec![("sender.transfer.payload", transfer.datagram_octets())],
            Sender::Tcp(tcp) => vec![("sender.tcp.payload", tcp.payload.0.saturating_add(tcp.header.0))],
            _ => vec![("request", bytes(self.request)), ("response", bytes(self.response))],
        }
    }

    pub(super) fn validate(&self, token_length: u8, phases: &[Phase]) -> Result<(), ScenarioError> {
        let place = |of: &str| format!("traffic.{}.{of}", self.name);
        // Header and token; and with a payload its marker and one byte.
        let header = 4 + u64::from(token_length);
        for (name, size) in [("request", self.request), ("response", self.response)] {
            let Some(size) = size else { continue };
            let least = header + 2;
            let problem =
                format_args!("{size} is not {header}B (header and token) or between {least}B and {MOST_BYTES}B");
            ensure(size.0 == header || (least..=MOST_BYTES).contains(&size.0), place(name), problem)?;
        }
        self.validate_observe(header)?;
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

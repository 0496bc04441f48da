//! Why a cell cannot run.

use std::time::Duration;

use conche_netsim::sim::{ChangeError, NoSuchNode};
use conche_netsim::wired::TopologyError;
use conche_proto::ConfigError;

use crate::scenario::ScenarioError;

/// Why a cell cannot run, with the wrong part of the scenario.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrialError {
    /// A link is wrong.
    #[error("links.{name}: {problem}")]
    Link {
        /// The link's name.
        name: String,
        /// The problem.
        problem: Box<Self>,
    },
    /// A radio channel is wrong.
    #[error("radios.{name}: {problem}")]
    Radio {
        /// The channel's name.
        name: String,
        /// The problem.
        problem: Box<Self>,
    },
    /// A traffic is wrong.
    #[error("traffic.{name}: {problem}")]
    Traffic {
        /// The traffic's name.
        name: String,
        /// The problem.
        problem: Box<Self>,
    },
    /// The parameters of DTLS handshakes are wrong.
    #[error("endpoint.handshakes: {0}")]
    Handshakes(#[from] conche_dtls::ConfigError),
    /// Another value of the scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The simulator refuses the network.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The simulator refuses a change to a link.
    #[error(transparent)]
    LinkChange(#[from] ChangeError),
    /// The network has no such node.
    #[error(transparent)]
    Node(#[from] NoSuchNode),
    /// The endpoint refuses its configuration.
    #[error(transparent)]
    Endpoint(#[from] ConfigError),

    /// A link's ends are groups, and neither size is a multiple of the other.
    #[error("{from} nodes and {to} do not pair up; one number must be a multiple of the other")]
    Unpaired {
        /// Nodes at one end.
        from: usize,
        /// Nodes at the other end.
        to: usize,
    },

    /// A radio station has no place.
    #[error("`{0}` is no group with a place; give its [[nodes]] a `place`")]
    Unplaced(String),
    /// Stations are unreachable.
    #[error("{0} stations have no path to the root; give the medium more reach or lower tree.min_ratio")]
    Unreached(usize),
    /// A measured ratio names an unknown station.
    #[error("measured.ratios: {from} to {to}, but there are {count} stations, counted from 0")]
    UnknownStation {
        /// The sending station.
        from: u16,
        /// The receiving station.
        to: u16,
        /// The number of stations.
        count: usize,
    },
    /// Too few pairs have a route of this length.
    #[error("only {pairs} pairs have a route of {hops} hops; take fewer replications")]
    TooFewRoutes {
        /// Pairs with such a route.
        pairs: u32,
        /// The length of the route.
        hops: u8,
    },

    /// A node is its own server.
    #[error("a node would ask itself")]
    AsksItself,
    /// No links lead from one node to another.
    #[error(
        "no path leads from `{from}` to `{to}`; connect them by [[links]] (`between` has both directions), or by a radio"
    )]
    NoPath {
        /// Sending node.
        from: String,
        /// Receiving node.
        to: String,
    },
    /// A server is behind a NAT, and its client is not.
    #[error(
        "`{server}` is behind the NAT `{nat}`, which knows no address for first requests; exchange `from` and `to`"
    )]
    ServerBehindNat {
        /// The server.
        server: String,
        /// Its NAT.
        nat: String,
    },
    /// A path avoids the NAT of the client.
    #[error(
        "the path from `{from}` to `{to}` avoids the NAT `{nat}`; put the `at` of [[nats]] on all paths to outside"
    )]
    AvoidedNat {
        /// Sending node.
        from: String,
        /// Receiving node.
        to: String,
        /// The NAT.
        nat: String,
    },
    /// A client would send with and without an endpoint.
    #[error("its clients send other traffic with an endpoint, or without; give it clients of its own")]
    TwoSenders,
    /// A client would have two congestion controllers.
    #[error("its clients send other traffic under another controller, or notify; give it clients of its own")]
    TwoControllers,
    /// A request is too small for the path of a further resource of its server.
    #[error(
        "its server answers other traffic differently, so its requests have a Uri-Path; leave `request` out, \
         or make it at least 4 bytes longer than header and token"
    )]
    NoRoomForPath,
    /// A request is too small for its own path.
    #[error(
        "its `path` makes requests longer; leave `request` out, or make it 2 bytes longer than header, token and path"
    )]
    NoRoomForOwnPath,
    /// A traffic has a path, and its server numbers the resources.
    #[error("its server answers other traffic differently, by the path of requests; leave `path` out")]
    PathOfResource,
    /// A client would use two block sizes.
    #[error("its clients send other traffic with another `block`; give it clients of its own")]
    TwoBlockSizes,
    /// An observed server has no endpoint.
    #[error("its servers have no endpoint; give it servers of its own")]
    ServerWithoutEndpoint,
    /// An observed server is a client under another controller.
    #[error("its servers send other traffic under another controller; give it servers of its own")]
    ServerSends,
    /// A client would observe a server twice.
    #[error("its clients observe these servers in other traffic; give it servers of its own")]
    ObservedTwice,
    /// A sender without an endpoint would be a server.
    #[error("traffic: a sender that is unaware answers nothing; ask other nodes")]
    UnawareServer,
    /// Several transfers would run at once.
    #[error("traffic: a run ends with its transfer; run them `one_by_one`")]
    SeveralTransfers,
    /// A run beside radios has a TCP transfer but no duration.
    #[error(
        "traffic: beside radios a run with a time_limit ends with its exchanges, whatever a TCP transfer has done; say \
         its `duration`"
    )]
    TcpWithoutDuration,
    /// A node with a TCP transfer reboots.
    #[error("changes: a node that starts anew has no TCP transfer to go on with; reboot other nodes")]
    TcpReboot,
    /// A TCP transfer's end has other traffic.
    #[error("traffic: a node has one end of a TCP transfer, and nothing else; give it nodes of its own")]
    TcpBeside,
    /// A mote with its own routing has CoAP traffic.
    #[error("traffic: motes that route by themselves send transfers only, and have no CoAP")]
    CoapOnMote,
    /// Motes with their own routing have no transfer.
    #[error("radios: stations that route by themselves send transfers; there is none")]
    MotesWithoutTransfer,
    /// The time limit ended the run early.
    #[error(
        "after {limit:?} of virtual time client {client} has completed {completed} of {wanted} exchanges; give it more \
         time_limit or a network that lets it finish"
    )]
    Unfinished {
        /// The time limit.
        limit: Duration,
        /// Index of the client's flow.
        client: usize,
        /// Completed exchanges.
        completed: u64,
        /// Exchanges asked for.
        wanted: u64,
    },
}

impl From<TrialError> for ScenarioError {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Link { name, problem } => Self::new(format_args!("links.{name}"), problem),
            TrialError::Radio { name, problem } => Self::new(format_args!("radios.{name}"), problem),
            TrialError::Traffic { name, problem } if matches!(*problem, TrialError::NoPath { .. }) => {
                Self::new(format_args!("traffic.{name}.to"), problem)
            }
            TrialError::Traffic { name, problem } => Self::new(format_args!("traffic.{name}"), problem),
            TrialError::Scenario(error) => error,
            other => Self::of_whole(other),
        }
    }
}

impl TrialError {
    /// Returns whether another replication may have no such problem.
    pub(crate) fn is_random(&self) -> bool {
        match self {
            Self::Radio { problem, .. } | Self::Traffic { problem, .. } => problem.is_random(),
            Self::Unreached(_) | Self::TooFewRoutes { .. } => true,
            _ => false,
        }
    }

    pub(super) fn of_link(self, name: &str) -> Self {
        Self::Link { name: name.to_owned(), problem: Box::new(self) }
    }

    pub(super) fn of_radio(self, name: &str) -> Self {
        Self::Radio { name: name.to_owned(), problem: Box::new(self) }
    }

    pub(super) fn of_traffic(self, name: &str) -> Self {
        Self::Traffic { name: name.to_owned(), problem: Box::new(self) }
    }
}

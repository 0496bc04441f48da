//! [`Builder`]: the settings that clients and servers have in common.

use std::path::PathBuf;

use conche_proto::cc::AnyController;
use conche_proto::codec::BlockSize;
use conche_proto::{EndpointConfig, QBlock};
use ipnet::IpNet;

#[cfg(feature = "dtls")]
use conche_dtls::{ClientCredentials, CredentialsError, Secret};

use crate::controllers::{Controllers, Setup, SharedController};
use crate::driver::Waiting;
use crate::paths::PathStore;
use crate::settings::Settings;
use crate::watch::Watcher;

/// What makes a client or a server, with the settings that both have. What only one of them has stands with
/// [`ClientBuilder`](crate::client::ClientBuilder) and [`ServerBuilder`](crate::server::ServerBuilder).
///
/// ```
/// use conche::{AnyController, Client};
///
/// let client = Client::builder()
///     .controller(AnyController::by_name("cocoa-s")?)
///     .controller_for("2001:db8::/32".parse()?, AnyController::by_name("default")?)
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder<R, C = AnyController> {
    pub(crate) settings: Settings,
    controllers: Controllers<C>,
    pub(crate) role: R,
}

impl<R: Default> Default for Builder<R> {
    fn default() -> Self {
        Self { settings: Settings::default(), controllers: Controllers::default(), role: R::default() }
    }
}

impl<R, C: SharedController> Builder<R, C> {
    /// Opens DTLS sessions with the servers of these prefixes with a pre-shared key.
    #[cfg(feature = "dtls")]
    pub(crate) fn open_with_psk(
        mut self,
        prefixes: &[IpNet],
        identity: impl Into<Vec<u8>>,
        key: Secret,
    ) -> Result<Self, CredentialsError> {
        let credentials = ClientCredentials::psk(identity, key)?;
        for &prefix in prefixes {
            self.settings.security.psk.set(prefix, credentials.clone());
        }
        Ok(self)
    }

    /// Congestion control toward all destinations for which no other is set. That of a server governs separate responses
    /// and the requests of its [`client`](crate::Server::client).
    pub fn controller(mut self, controller: impl Into<C>) -> Self {
        self.controllers.controller = controller.into();
        self
    }

    /// Congestion control toward the destinations of a prefix. The longest prefix decides.
    pub fn controller_for(mut self, prefix: IpNet, controller: impl Into<C>) -> Self {
        self.controllers.set_for(prefix, controller.into());
        self
    }

    /// Congestion control of your own: any [`Controller`](crate::cc::Controller). From here on all controllers are of its
    /// type, and those that were set for prefixes are forgotten.
    ///
    /// ```
    /// use conche::Client;
    /// use conche::cc::cocoa::Cocoa;
    ///
    /// // Where a controller of this crate stands for one of your own.
    /// let client: Client = Client::builder().own_controller(Cocoa::draft03()).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn own_controller<D: SharedController>(self, controller: D) -> Builder<R, D> {
        Builder { settings: self.settings, controllers: Controllers::new(controller), role: self.role }
    }

    /// What the settings of both are for, and those of one.
    pub(crate) fn setup(self) -> (Setup, R) {
        (self.controllers.with(self.settings), self.role)
    }

    /// Whether a peer of which nothing is known starts from what others of its path have found out: how long a round trip takes, and how
    /// many copies an exchange needs (RFC 9040; RFC 3124). `true` by default. Otherwise each peer finds out everything by itself.
    ///
    /// Of one path are all ports of one IPv4 address, and all hosts of one IPv6 /64, which is what a site has;
    /// [`path_length_for`](Self::path_length_for) says otherwise for prefixes. A peer that returns, on another port or after it was
    /// forgotten, is such a one, and so is the next device behind a border router. Up to [`Limits::paths`](crate::Limits::paths) paths
    /// are remembered for a day, over a restart with a [`path_store`](Self::path_store).
    ///
    /// Measurements of other peers keep the first timeout of a peer between 1 s (RFC 8085 §3.1.1)
    /// and 6 s, twice RFC 7252's, and only until the peer has been measured itself. A device that
    /// acknowledges late, behind the same address or in the same network, costs no other device its
    /// retransmissions. A path with a single peer gives all of its state back to that peer, except
    /// after a restart.
    ///
    /// Requests and notifications to all peers of a path share one window, so that they do not
    /// reach one link or address in one instant. A Non-confirmable notification that does not fit
    /// into the window leaves later, as a Confirmable one.
    ///
    /// [`reset_path`](crate::Client::reset_path) has a path forgotten, as after a change of the network.
    pub fn share_paths(mut self, share: bool) -> Self {
        self.settings.sharing.on = share;
        self
    }

    /// How many bits peers of this prefix have in common if they are of one path, up to 32 for IPv4 and 128 for IPv6. The longest prefix
    /// decides. By default they are 32 and 64, which `0.0.0.0/0` and `::/0` change, and 128 where one /64 is many sites: in
    /// `64:ff9b::/96` and `64:ff9b:1::/48` (NAT64) and in `2001::/32` (Teredo). Link-local addresses are of one path only
    /// if they are of one interface.
    ///
    /// ```
    /// // A site's own network has a /48; its constrained devices share one uplink.
    /// let client = conche::Client::builder().path_length_for("2001:db8::/48".parse()?, 48).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn path_length_for(mut self, prefix: IpNet, length: u8) -> Self {
        self.settings.sharing.set_length(prefix, length);
        self
    }

    /// Keeps what is known of [shared](Self::share_paths) paths in a file, for the next start. It is read when the first socket opens, and
    /// written each minute in which something was learnt, when a server is [shut down](crate::Server::shutdown), when the last clone of a
    /// client is dropped and the runtime goes on, and when [`Client::keep_paths`](crate::Client::keep_paths) asks for it.
    /// What is up to a day old is used, by the clock of [`SystemTime`](std::time::SystemTime): after some minutes it counts as much
    /// as one measurement would.
    ///
    /// The file is text, a line for each path, and tells whom this program talks to. So on Unix only its owner may read it. It is replaced
    /// as a whole, through a file beside it whose name ends in `.tmp`; of several programs with one file the last that writes wins.
    /// Of it up to [`Limits::paths`](crate::Limits::paths) lines are read and written, the youngest, and 128 bytes for each.
    /// Link-local paths are not kept: the number of their interface names it until the next boot.
    ///
    /// Nothing that is wrong with it is an error. Lines that are not right, as those of the future, are left out. A file that is
    /// not ours, of a newer version, or unreadable is left as it is: then paths begin anew, nothing is written, and a warning says so.
    /// An empty file is as good as none.
    ///
    /// ```
    /// let client = conche::Client::builder().path_store("/var/lib/gateway/paths").build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn path_store(mut self, file: impl Into<PathBuf>) -> Self {
        self.settings.store = Some(PathStore::new(file.into()));
        self
    }

    /// Protects requests to the destinations of a prefix with these keys (OSCORE, RFC 8613), and takes no other response than a
    /// protected one. The longest prefix decides. A server's are for the requests of its [`client`](crate::Server::client).
    ///
    /// All destinations of the prefix have to be one server: each server needs keys of its own.
    #[cfg(feature = "oscore")]
    pub fn oscore_for(mut self, prefix: IpNet, keys: crate::oscore::Keys) -> Self {
        self.settings.oscore.toward.set(prefix, keys);
        self
    }

    /// Agrees on OSCORE keys (EDHOC, RFC 9528) with each destination of a prefix before the first request to it, and protects all with them.
    /// The longest prefix decides. A server's are for the requests of its [`client`](crate::Server::client). Where there are
    /// [keys](Self::oscore_for) as well, what was agreed on is used.
    #[cfg(feature = "edhoc")]
    pub fn edhoc_for(mut self, prefix: IpNet, party: crate::edhoc::Party) -> Self {
        self.settings.edhoc.toward.set(prefix, party);
        self
    }

    /// Keeps OSCORE keys that were agreed on ([EDHOC](Self::edhoc_for)) with so many destinations at a time, one at least; 1024 by default. The one that was used least
    /// lately makes room for another, and keys are agreed on anew before the next request to it. Those with requests or
    /// observations under way keep theirs: if that is all of them, a request to another fails with [`Error::Busy`](crate::Error::Busy).
    #[cfg(feature = "edhoc")]
    pub fn edhoc_destinations(mut self, most: usize) -> Self {
        self.settings.edhoc.most = most.max(1);
        self
    }

    /// Tells the secrets of DTLS sessions, so that captures of them can be read, as by Wireshark. For debugging alone.
    #[cfg(feature = "dtls")]
    pub fn key_log(mut self, log: crate::security::KeyLog) -> Self {
        self.settings.security.key_log = Some(log);
        self
    }

    /// Transmission parameters, limits and the safety envelope.
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.settings.config = config;
        self
    }

    /// The largest body, in bytes, that is sent and received; 64 KiB by default, 1 GiB at most. What does not fit into a message
    /// goes block by block (RFC 7959), which a program does not see. A request with a larger payload fails with
    /// [`Error::RequestTooLarge`](crate::Error::RequestTooLarge), one with a larger response with
    /// [`Error::ResponseTooLarge`](crate::Error::ResponseTooLarge); a server answers a larger payload with 4.13, and 5.00 in place
    /// of a larger response.
    ///
    /// It bounds memory that peers can fill. Bodies that are under way may take
    /// [`assembly_bytes`](crate::Limits::assembly_bytes), 16 MiB by default: as much for those of requests to a server, for
    /// those of responses that it keeps until all blocks were asked for, and for those of responses to a client. So that two of
    /// the largest fit even if they are all of one prefix, which gets no more than half, this raises `assembly_bytes` to four
    /// times `bytes` where it is less. A handler that waits for something holds the body of its request besides:
    /// [`concurrency`](crate::server::ServerBuilder::concurrency) bounds them in number.
    ///
    /// [`config`](Self::config) sets both anew, and so comes first.
    ///
    /// ```
    /// // Firmware images of up to 1 MiB, for which peers can fill 16 MiB, as by default.
    /// let client = conche::Client::builder().body_limit(1 << 20).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn body_limit(mut self, bytes: usize) -> Self {
        let limits = &mut self.settings.config.limits;
        limits.body_bytes = bytes;
        limits.assembly_bytes = limits.assembly_bytes.max(bytes.saturating_mul(4).min(MOST_ASSEMBLY));
        self
    }

    /// The size of the blocks that bodies are cut into, at most (RFC 7959 §2.2). With 1024 bytes, the default, only what does
    /// not fit into a message is cut. A smaller size keeps datagrams below what a network would fragment, such as that of
    /// 6LoWPAN: it applies to every body that is larger, and is asked for in advance. Peers may ask for smaller blocks still.
    ///
    /// [`config`](Self::config) sets it anew, and so comes first.
    pub fn block_size(mut self, size: BlockSize) -> Self {
        self.settings.config.block_size = size;
        self
    }

    /// Large bodies go in sets of Non-confirmable messages with one answer each (Q-Block, RFC
    /// 9177), which saves most round trips; programs do not see it. A client uses it for
    /// Confirmable requests and for observed states; a server serves requests of either kind. Both
    /// ends must have the same [`max_payloads`](QBlock::max_payloads).
    ///
    /// A server that refuses Q-Block (4.02 or 4.00 to a message of a body, or a success before all
    /// of the body was sent) gets the same request block by block, and so do further requests to it
    /// for 30 minutes; at most 64 such servers are remembered. A POST that succeeds before all of
    /// its body was sent fails instead, with
    /// [`Failure::UnacceptableResponse`](crate::Failure::UnacceptableResponse), since part of it
    /// has been executed.
    ///
    /// Non-confirmable requests never use Q-Block: a server without it refuses only Confirmable
    /// messages (RFC 9177 §4.1).
    ///
    /// [`config`](Self::config) sets it anew, and so comes first.
    ///
    /// ```
    /// let client = conche::Client::builder().q_block(conche::QBlock::default()).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn q_block(mut self, q_block: QBlock) -> Self {
        self.settings.config.q_block = Some(q_block);
        self
    }

    /// The longest token of peers that is accepted, in bytes: 8 by default, up to 65 804 (RFC 8974), but never more than half of a
    /// message. Clients that keep their state in tokens need more than 8. With 8 a message with a longer token is
    /// malformed, as RFC 7252 has it; with more, a request with too long a token is answered with 4.00.
    /// [`EndpointConfig::longest_token`] says what long ones cost.
    ///
    /// [`config`](Self::config) sets it anew, and so comes first.
    ///
    /// ```
    /// let server = conche::Server::builder().longest_token(64);
    /// ```
    pub fn longest_token(mut self, bytes: usize) -> Self {
        self.settings.config.longest_token = bytes;
        self
    }

    /// The length of the random tokens of requests, in bytes; 8 by default, and no less than 4 where others could guess them
    /// (RFC 7252 §5.3.1). Longer ones (RFC 8974) go to servers that understand them, which a Confirmable request finds out
    /// for each: [`EndpointConfig::token_length`] says how. Raises [`longest_token`](Self::longest_token) where that is less.
    ///
    /// [`config`](Self::config) sets it anew, and so comes first.
    ///
    /// ```
    /// let client = conche::Client::builder().token_length(16).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn token_length(mut self, bytes: usize) -> Self {
        let config = &mut self.settings.config;
        config.token_length = bytes;
        config.longest_token = config.longest_token.max(bytes);
        self
    }

    /// How many requests may wait for their turn. Those of a server are of its [`client`](crate::Server::client).
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.settings.waiting = waiting;
        self
    }

    /// Sends and receives only through this network interface, such as `"eth0"`. Only on Linux; elsewhere, and where the
    /// interface cannot be used, requests fail with [`Error::Socket`](crate::Error::Socket), and a server does not start.
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.settings.interface = Some(name.into());
        self
    }

    /// Tells this watcher what happens on the sockets. [`watch`](crate::watch) has some that write files. May be called several
    /// times, for several watchers.
    pub fn watch(mut self, watcher: impl Watcher) -> Self {
        self.settings.watchers.add(watcher);
        self
    }

    /// Whether Confirmable requests, and separate responses of a server, go on being retransmitted when an ICMP error says
    /// that nobody listens at the destination or that there is no way to it.
    ///
    /// By default such a request fails at once. RFC 7252 §4.2 allows both: ICMP errors "may, after appropriate vetting, be
    /// used to inform the application of a failure", which the endpoint does with those that quote a datagram of ours that
    /// is outstanding. A mistyped port, a server that is not running and a host's next address are found at once that way.
    /// What it costs: a server that reboots, and so is gone for seconds only, fails the requests that meet the pause, where
    /// retransmission would have ridden it out. Whoever talks to known devices for a long time wants `true`.
    pub fn retry_unreachable(mut self, retry: bool) -> Self {
        self.settings.retry_unreachable = retry;
        self
    }
}

/// What [`Limits::assembly_bytes`](crate::Limits::assembly_bytes) can be at most.
const MOST_ASSEMBLY: usize = u32::MAX as usize;

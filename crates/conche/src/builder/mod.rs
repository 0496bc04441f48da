//! [`Builder`]: settings common to clients and servers.

mod setup;

use std::path::PathBuf;

#[cfg(feature = "dtls")]
use conche_dtls::{ClientCredentials, CredentialsError, Secret};
use conche_proto::cc::AnyController;
use conche_proto::codec::BlockSize;
use conche_proto::{EndpointConfig, QBlock};
use ipnet::IpNet;

use crate::driver::{SharedController, Waiting};
use crate::paths::PathStore;
#[cfg(feature = "dtls")]
use crate::security::{SessionEvent, SessionObserver};
use crate::telemetry::watch::Watcher;
use setup::Controllers;
pub(crate) use setup::{Served, Settings, Setup, SharedSocket, Started};

/// Settings common to [`ClientBuilder`](crate::client::ClientBuilder) and
/// [`ServerBuilder`](crate::server::ServerBuilder).
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

    /// Sets the congestion controller. On a server it governs separate responses, notifications and
    /// requests of its [`client`](crate::Server::client).
    pub fn controller(mut self, controller: impl Into<C>) -> Self {
        self.controllers.controller = controller.into();
        self
    }

    /// Sets the congestion controller for destinations in a prefix. The longest matching prefix
    /// applies.
    pub fn controller_for(mut self, prefix: IpNet, controller: impl Into<C>) -> Self {
        self.controllers.set_for(prefix, controller.into());
        self
    }

    /// Sets a custom [`Controller`](crate::cc::Controller), and discards those for prefixes.
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

    pub(crate) fn setup(self) -> (Setup, R) {
        (self.controllers.with(self.settings), self.role)
    }

    /// Sets whether peers on the same path share RTT and retransmissions per exchange (RFC 9040;
    /// RFC 3124). `true` by default.
    ///
    /// All ports of one IPv4 address, and all hosts of one IPv6 /64, share a path unless
    /// [`path_length_for`](Self::path_length_for) changes this. Up to
    /// [`Limits::paths`](crate::Limits::paths) paths are remembered for a day, across restarts with
    /// a [`path_store`](Self::path_store).
    ///
    /// A new peer starts with its path's state. Until it has been measured itself, its first
    /// timeout stays between 1 s (RFC 8085 §3.1.1) and 6 s, twice RFC 7252's. A path with a single
    /// peer gives all of its state back to that peer, except after a restart.
    ///
    /// All peers on a path share one window. A Non-confirmable notification that does not fit is
    /// sent later, as a Confirmable one.
    ///
    /// [`reset_path`](crate::Client::reset_path) discards a path's state.
    pub fn share_paths(mut self, share: bool) -> Self {
        self.settings.sharing.on = share;
        self
    }

    /// Sets the number of leading bits that peers on the same path share, for peers in this prefix:
    /// up to 32 for IPv4 and 128 for IPv6. The longest matching prefix applies.
    ///
    /// Defaults: 32 for `0.0.0.0/0`, 64 for `::/0`, and 128 where one /64 spans many sites:
    /// `64:ff9b::/96` and `64:ff9b:1::/48` (NAT64), and `2001::/32` (Teredo). Link-local addresses
    /// share a path only on the same interface.
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

    /// Keeps the state of [shared](Self::share_paths) paths in a file across restarts.
    ///
    /// The file is read when the first socket opens, and written once a minute if anything was
    /// measured, on a server's [shutdown](crate::Server::shutdown), when the last clone of a client
    /// is dropped and the runtime continues, and by
    /// [`Client::keep_paths`](crate::Client::keep_paths). State is used for up to a day of
    /// [`SystemTime`](std::time::SystemTime); after some minutes it counts as one measurement.
    ///
    /// The file is text with a line per path, and is replaced atomically through a file named
    /// `*.tmp`. It reveals the program's peers, so on Unix only its owner may read it. The last
    /// program to write wins. The most recent paths are kept, at most
    /// [`Limits::paths`](crate::Limits::paths) lines of at most 128 bytes. Link-local paths are not
    /// kept: their interface index may change.
    ///
    /// Invalid lines are skipped. A file that is unreadable, of another format or newer is left
    /// untouched with a warning: paths begin without state.
    ///
    /// ```
    /// let client = conche::Client::builder().path_store("/var/lib/gateway/paths").build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn path_store(mut self, file: impl Into<PathBuf>) -> Self {
        self.settings.store = Some(PathStore::new(file.into()));
        self
    }

    /// Protects requests to the destinations in a prefix with these keys (OSCORE, RFC 8613), and
    /// accepts only protected responses.
    ///
    /// The longest matching prefix applies; on a server, to requests of its
    /// [`client`](crate::Server::client). A prefix must contain only one server: each needs its own
    /// keys.
    #[cfg(feature = "oscore")]
    pub fn oscore_for(mut self, prefix: IpNet, keys: crate::oscore::Keys) -> Self {
        self.settings.oscore.toward.set(prefix, keys);
        self
    }

    /// Runs an EDHOC key exchange (RFC 9528) before the first request to each destination in a
    /// prefix, and protects all requests with the keys.
    ///
    /// The longest matching prefix applies; on a server, to requests of its
    /// [`client`](crate::Server::client). EDHOC takes precedence over
    /// [`oscore_for`](Self::oscore_for).
    #[cfg(feature = "edhoc")]
    pub fn edhoc_for(mut self, prefix: IpNet, party: crate::edhoc::Party) -> Self {
        self.settings.edhoc.toward.set(prefix, party);
        self
    }

    /// Sets the maximum number of destinations with OSCORE keys from [EDHOC](Self::edhoc_for), at
    /// least one; 1024 by default.
    ///
    /// A new destination replaces the least recently used keys. Requests to it fail with
    /// [`Error::Busy`](crate::Error::Busy) if all keys have outstanding requests or observations.
    #[cfg(feature = "edhoc")]
    pub fn edhoc_destinations(mut self, most: usize) -> Self {
        self.settings.edhoc.most = most.max(1);
        self
    }

    /// Logs the secrets of DTLS sessions, to decrypt captures in Wireshark. Only for debugging.
    #[cfg(feature = "dtls")]
    pub fn key_log(mut self, log: crate::security::KeyLog) -> Self {
        self.settings.security.key_log = Some(log);
        self
    }

    /// Sets a function that receives an event for each DTLS session that opens or closes, and for
    /// each failed handshake of a peer.
    ///
    /// The function runs on the task that drives the socket, so it must be fast and must not block:
    /// to wait, it sends a clone of the event to a task, as below. A panic loses the event. With
    /// several [workers](crate::server::ServerBuilder::workers) it runs on several threads.
    ///
    /// The events of a session are in order. A session that replaces another of the same peer is
    /// reported as opened after the other's end. When a client or server stops, it reports the end
    /// of each open session, but not if its runtime is dropped first. An address that proves to
    /// receive can cause 16 failed handshakes per second and host.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use conche::security::{Secret, SessionEvent};
    /// use conche::{Client, Server};
    /// use tokio::sync::mpsc;
    ///
    /// let (sender, mut events) = mpsc::channel(1024);
    /// let server = Server::builder()
    ///     .psk(|identity: &[u8]| (identity == b"lamp-7").then(|| Secret::new(*b"sesame")))
    ///     // Drops events that the task does not read in time.
    ///     .on_session(move |event| {
    ///         let _ = sender.try_send(event.clone());
    ///     })
    ///     .bind("127.0.0.1:0")
    ///     .await?;
    ///
    /// let client = Client::builder().psk(*b"lamp-7", Secret::new(*b"sesame"))?.build()?;
    /// client.get(format!("coaps://{}/", server.local_addr())).await?;
    /// let Some(SessionEvent::Opened { session, .. }) = events.recv().await else { panic!("a session") };
    /// assert_eq!(session.identity.unwrap().to_string(), "lamp-7");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "dtls")]
    pub fn on_session(mut self, observe: impl Fn(&SessionEvent) + Send + Sync + 'static) -> Self {
        self.settings.security.observer = Some(SessionObserver::new(observe));
        self
    }

    /// Sets transmission parameters, limits and the safety envelope. Call it first: it overwrites
    /// [`body_limit`](Self::body_limit), [`block_size`](Self::block_size),
    /// [`q_block`](Self::q_block), [`longest_token`](Self::longest_token) and
    /// [`token_length`](Self::token_length).
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.settings.config = config;
        self
    }

    /// Sets the maximum body size sent and received, in bytes: 64 KiB by default, at most 1 GiB.
    ///
    /// Bodies larger than a message are transferred block-wise (RFC 7959). Beyond the limit a
    /// request fails with [`Error::RequestTooLarge`](crate::Error::RequestTooLarge) or
    /// [`Error::ResponseTooLarge`](crate::Error::ResponseTooLarge), and a server answers 4.13, or
    /// 5.00 in place of its response.
    ///
    /// Up to [`assembly_bytes`](crate::Limits::assembly_bytes), 16 MiB by default, hold bodies in
    /// transfer, each for: requests to a server, responses whose blocks are being requested, and
    /// responses to a client. One prefix may use at most half, so this raises `assembly_bytes` to
    /// at least four times `bytes`. In addition, each waiting handler holds its request's body.
    ///
    /// ```
    /// // Firmware images of up to 1 MiB, for which peers can fill 16 MiB, as by default.
    /// let client = conche::Client::builder().body_limit(1 << 20).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn body_limit(mut self, bytes: usize) -> Self {
        let limits = &mut self.settings.config.limits;
        limits.body_bytes = bytes;
        limits.assembly_bytes = limits.assembly_bytes.max(bytes.saturating_mul(4).min(MAX_ASSEMBLY));
        self
    }

    /// Sets the maximum block size of bodies (RFC 7959 §2.2).
    ///
    /// With 1024 bytes, the default, only bodies larger than a message are split. A smaller size
    /// avoids fragmentation in a network such as 6LoWPAN. Peers may request smaller blocks.
    ///
    /// It is a setting of the endpoint: request bodies with different block sizes need several
    /// clients. A single request can ask for a response in smaller blocks with its own Block2 option
    /// of number 0 (RFC 7959 §2.4):
    ///
    /// ```no_run
    /// # async fn example(client: conche::Client) -> Result<(), conche::Error> {
    /// use conche::OptionNumber;
    /// use conche::codec::{Block, BlockSize};
    ///
    /// let small = Block { num: 0, more: false, size: BlockSize::B64 }.encode();
    /// let log = client.get("coap://example.com/log").option(OptionNumber::BLOCK2, small.as_slice()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn block_size(mut self, size: BlockSize) -> Self {
        self.settings.config.block_size = size;
        self
    }

    /// Transfers large bodies in bursts of Non-confirmable messages with one response each
    /// (Q-Block, RFC 9177), which saves most round trips.
    ///
    /// A client uses it for Confirmable requests and for observed states; a server serves requests
    /// of either kind. Both ends must have the same [`max_payloads`](QBlock::max_payloads).
    ///
    /// If a server refuses Q-Block (4.02 or 4.00 to a message of a body, or a success before all of
    /// the body was sent), this request and those of the next 30 minutes are sent block by block;
    /// at most 64 such servers are remembered. A POST that succeeds early fails with
    /// [`Failure::UnacceptableResponse`](crate::Failure::UnacceptableResponse): part of it has been
    /// executed.
    ///
    /// Non-confirmable requests never use Q-Block: a server without it refuses only Confirmable
    /// messages (RFC 9177 §4.1).
    ///
    /// ```
    /// let client = conche::Client::builder().q_block(conche::QBlock::default()).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn q_block(mut self, q_block: QBlock) -> Self {
        self.settings.config.q_block = Some(q_block);
        self
    }

    /// Sets the maximum length of accepted tokens in bytes: 8 by default, up to 65 804 (RFC 8974),
    /// but at most half of a message.
    ///
    /// Clients that keep their state in tokens need more than 8. A longer token makes a message
    /// malformed with a limit of 8, as in RFC 7252, and is answered with 4.00 otherwise. See
    /// [`EndpointConfig::longest_token`] for the cost.
    ///
    /// ```
    /// let server = conche::Server::builder().longest_token(64);
    /// ```
    pub fn longest_token(mut self, bytes: usize) -> Self {
        self.settings.config.longest_token = bytes;
        self
    }

    /// Sets the length of the random tokens of requests, in bytes: 8 by default, and at least 4
    /// where others could guess them (RFC 7252 §5.3.1).
    ///
    /// Longer tokens (RFC 8974) are used only with servers that support them: see
    /// [`EndpointConfig::token_length`]. Raises [`longest_token`](Self::longest_token) to this
    /// length.
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

    /// Sets the limits of queued requests; on a server, those of its
    /// [`client`](crate::Server::client).
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.settings.waiting = waiting;
        self
    }

    /// Sends and receives only through this network interface, such as `"eth0"`. Linux only:
    /// elsewhere requests fail with [`Error::Socket`](crate::Error::Socket), and a server does not
    /// start.
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.settings.interface = Some(name.into());
        self
    }

    /// Adds a watcher of socket events. [`watch`](crate::watch) has watchers that write files.
    pub fn watch(mut self, watcher: impl Watcher) -> Self {
        self.settings.watchers.add(watcher);
        self
    }

    /// Sets whether Confirmable requests and separate responses are still retransmitted after an
    /// ICMP error reports the destination as unreachable. `false` by default: they fail at once.
    ///
    /// RFC 7252 §4.2 allows both; only ICMP errors that quote an outstanding datagram count.
    /// Failing at once detects a stopped server, and tries a host's next address sooner.
    /// Retransmitting survives a short reboot.
    pub fn retry_unreachable(mut self, retry: bool) -> Self {
        self.settings.retry_unreachable = retry;
        self
    }
}

const MAX_ASSEMBLY: usize = u32::MAX as usize;

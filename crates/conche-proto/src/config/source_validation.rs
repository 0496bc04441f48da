//! [`SourceValidation`]: the proof that a source address is not forged.

/// The proof that a source receives datagrams at its address, required before it is sent more than
/// three times its own bytes.
///
/// A small and prompt response needs no proof. A proof is needed for a larger response, for one
/// that must be retransmitted because it comes after
/// [`separate_after`](crate::EndpointConfig::separate_after), and before a request registers an
/// observer, uses Q-Block or starts a body that the application streams. A source then counts as
/// validated for 247 s. So does a source that acknowledges a Confirmable response or notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SourceValidation {
    /// No proof: for closed networks, where source addresses cannot be forged.
    Off,
    /// By an Echo value (RFC 9175): the request gets 4.01 with the value, and its sender repeats it
    /// with the value. A non-idempotent request, such as a POST, needs the proof before it reaches
    /// the application. Clients without RFC 9175 get only small and prompt responses.
    Echo,
    /// By the answer to a ping, an Empty Confirmable message with a random message ID, which every
    /// endpoint must answer (RFC 7252 §4.3). Request or response are held meanwhile, for at most 12
    /// s, and at most 16 messages per source and 1 MiB in total. If the ping is not answered, a
    /// first block of 16 bytes is sent if three times the source's bytes permit it, so that the
    /// client fetches the others. If not, or if there is no room to hold the message, an Echo value
    /// is requested. A request with an Echo value needs no ping.
    ///
    /// A host that runs CoAP at the forged address and port answers the ping although it requested
    /// nothing, and can be sent responses while it counts as validated. Only [`Echo`](Self::Echo)
    /// protects such hosts.
    #[default]
    Ping,
}

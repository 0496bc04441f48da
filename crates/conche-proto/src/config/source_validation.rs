//! [`SourceValidation`]: the proof that a source address is not forged.

/// The proof that a source receives datagrams at its address, before it is sent more than three
/// times its own bytes.
///
/// A small and quick response needs no proof. A proof is needed for a response that is larger, or
/// that must be retransmitted since it comes after
/// [`separate_after`](crate::EndpointConfig::separate_after), and before a request registers an
/// observer, uses Q-Block or begins a body that the application reads in parts. A source then
/// counts as validated for 247 s. It also does so when it acknowledges a Confirmable response or
/// notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SourceValidation {
    /// Sources need no proof: for closed networks, where no source address can be forged.
    Off,
    /// By an Echo value (RFC 9175): the request is answered with 4.01 and the value, and its sender
    /// repeats it with that. A request that is not idempotent, such as a POST, needs the proof
    /// before it reaches the application. Clients that do not know RFC 9175 get no more than small
    /// and quick responses.
    Echo,
    /// By the answer to a ping, an Empty Confirmable message with a random message ID, which every
    /// endpoint has to answer (RFC 7252 §4.3). Request or response are held meanwhile, at most
    /// 12 s, 16 messages for each source and 1 MiB in total. If the ping is not answered, the first
    /// block of 16 bytes leaves if three times what the source sent allows it, for the client to
    /// fetch the others. An Echo value is asked for if it does not, or if there is no room. A
    /// request with an Echo value needs no ping.
    ///
    /// A host that runs CoAP at the forged address and port answers the ping although it requested
    /// nothing, and can be sent responses for as long as it counts as validated. Only
    /// [`Echo`](Self::Echo) protects such hosts.
    #[default]
    Ping,
}

//! CoAP applications in a simulated network, which record each exchange.

mod application;
mod flow;
mod observe;
mod open_sender;
mod program;
mod requester;
mod responder;
mod secured;
mod timeouts;

pub use application::{AnyHost, Application, Timer, config, endpoint_seed};
pub use flow::{Flow, Limit, Pace, Segment, body_of, request_body};
pub use observe::{Publisher, ReceivedState, Subscriber, Topic};
pub use open_sender::OpenSender;
pub use program::{ArrivedAtProgram, Inbox, Program};
pub use requester::{Exchange, FlowState, Requester, Tally};
pub use responder::{Arrival, Responder, segment_of};
pub use secured::{HandshakeCounts, Log, Secured};
pub use timeouts::{Timeout, Timeouts};

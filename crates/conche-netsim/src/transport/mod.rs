//! Transport protocols for hosts that do not speak CoAP.

pub mod bulk;
pub mod tcp;

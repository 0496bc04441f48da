//! Metrics of DTLS handshakes.

use std::time::Duration;

use conche_scenario::Handshake;

use super::Sample;
use super::metric::{quotient, seconds, share};
use crate::trial::{Record, Selection};

pub(super) fn sample(handshake: Handshake, run: &Record, of: Selection) -> Sample {
    let each = || run.flows_of(of).map(|flow| &flow.handshakes);
    let done = each().map(|handshakes| handshakes.done.len()).sum::<usize>() as f64;
    let failed = each().map(|handshakes| handshakes.failed).sum::<u64>() as f64;
    match handshake {
        Handshake::Time => seconds(each().flat_map(|handshakes| &handshakes.done).map(Duration::as_nanos)),
        Handshake::Failed => share(failed, failed + done),
        Handshake::Datagrams => quotient(each().map(|handshakes| handshakes.datagrams).sum::<u64>() as f64, done),
        Handshake::Bytes => quotient(each().map(|handshakes| handshakes.bytes).sum::<u64>() as f64, done),
    }
}

//! Metrics of DTLS handshakes.

use std::time::Duration;

use conche_scenario::Handshake;

use super::Sample;
use super::metric::{quotient, seconds, share};
use crate::trial::{Record, Selection};

pub(super) fn sample(handshake: Handshake, run: &Record, of: Selection) -> Sample {
    let each = || run.flows_of(of).map(|flow| &flow.handshaken);
    let done = each().map(|handshaken| handshaken.done.len()).sum::<usize>() as f64;
    let failed = each().map(|handshaken| handshaken.failed).sum::<u64>() as f64;
    match handshake {
        Handshake::Time => seconds(each().flat_map(|handshaken| &handshaken.done).map(Duration::as_nanos)),
        Handshake::Failed => share(failed, failed + done),
        Handshake::Datagrams => quotient(each().map(|handshaken| handshaken.datagrams).sum::<u64>() as f64, done),
        Handshake::Bytes => quotient(each().map(|handshaken| handshaken.bytes).sum::<u64>() as f64, done),
    }
}

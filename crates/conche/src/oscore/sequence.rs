//! Format of `sequence.json`, as in aiocoap: the next number, and the received window.

use std::path::Path;

use serde_json::{Value, json};

use super::aiocoap::items;
use super::{OpenError, ReplayWindow, Start};

pub(super) const MAX_BYTES: usize = 4096;

pub(super) const UNUSED: &str = r#"{"next-to-send":0,"received":{"index":0,"bitfield":0}}"#;

pub(super) fn parse(file: &Path, text: &[u8]) -> Result<Start, OpenError> {
    let items = items(file, text)?;
    let next = items.get("next-to-send").and_then(Value::as_u64);
    let next = next.ok_or_else(|| OpenError::wrong(file, None, "\"next-to-send\" must be a number"))?;
    match items.get("received") {
        Some(Value::String(unknown)) if unknown == "unknown" => Ok(Start::Restarted { next }),
        Some(received) => {
            let window = window(received);
            let window = window.ok_or_else(|| OpenError::wrong(file, None, "\"received\" is no replay window"))?;
            Ok(if (next, window) == (0, ReplayWindow::EMPTY) { Start::First } else { Start::Resumed { next, window } })
        }
        None => Err(OpenError::wrong(file, None, "there is no \"received\"")),
    }
}

/// All numbers below `index` were received; then one bit for each.
fn window(received: &Value) -> Option<ReplayWindow> {
    let index = received.get("index")?.as_u64()?;
    let bits = received.get("bitfield")?.as_u64()?;
    let length = u64::from(u64::BITS - bits.leading_zeros());
    let end = index.checked_add(length)?;
    let seen = (0..ReplayWindow::SIZE).filter(|behind| match end.checked_sub(behind + 1) {
        Some(number) => number < index || bits >> (number - index) & 1 == 1,
        None => false,
    });
    Some(ReplayWindow::new(end, seen.fold(0, |seen, behind| seen | 1 << behind)))
}

/// Numbers below `next` may have been used, the window is unknown.
pub(super) fn in_use(next: u64) -> String {
    json!({ "next-to-send": next, "received": "unknown" }).to_string()
}

pub(super) fn at_rest(next: u64, window: Option<ReplayWindow>) -> String {
    let Some(window) = window else { return in_use(next) };
    let index = window.end().saturating_sub(ReplayWindow::SIZE);
    let seen = (index..window.end()).filter(|number| !window.is_new(*number));
    let bits = seen.fold(0_u64, |bits, number| bits | 1 << (number - index));
    json!({ "next-to-send": next, "received": { "index": index, "bitfield": bits } }).to_string()
}

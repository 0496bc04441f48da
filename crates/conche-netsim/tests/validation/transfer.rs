//! A body of 16 MiB over a link of 250 kbit/s with a round-trip time of 200 ms and 1 % loss in each
//! direction. The example `transfer` prints these values for more controllers and MAX_PAYLOADS.

use std::time::Duration;

use conche_proto::codec::Code;

use crate::scenario::Transfer;

const CAPACITY: f64 = 250_000.0 / 8.0;

fn transfer(code: Code, mebibytes: usize, max_payloads: Option<u16>) -> Transfer {
    let rtt = Duration::from_millis(200);
    let body_bytes = mebibytes << 20;
    Transfer { code, body_bytes, kbit: 250, rtt, loss: 0.01, controller: "default", max_payloads, seed: 1 }
}

/// With one exchange at a time, a block costs a round trip and two serialisations: 1024 bytes in a
/// frame of 1078 (28 of IP and UDP, header and token 12, ETag 9, Block2 4, payload marker 1), and a
/// request of 45. With loss p in each direction an attempt fails with q = 1 - (1 - p)², and then
/// costs an RTO of 2.5 s on average, doubled each time:
///
/// ```text
///   T = RTT + 8·(1078 + 45) / 250 000 + 2.5·q/(1 - 2q)
/// ```
#[test]
fn a_blockwise_transfer_has_the_closed_form_time_of_stop_and_wait() {
    let q: f64 = 1.0 - 0.99_f64.powi(2);
    let block_seconds = 0.2 + 8.0 * 1_123.0 / 250_000.0 + 2.5 * q / (1.0 - 2.0 * q);
    let bound = 1_024.0 / block_seconds;
    let went = transfer(Code::GET, 16, None).run().expect("nothing is given up");
    println!("{went}, of {bound:.0} B/s; {:.1} % of the capacity", went.goodput / CAPACITY * 100.0);
    assert!((went.goodput / bound - 1.0).abs() < 0.05, "{:.0} B/s instead of {bound:.0} B/s", went.goodput);
}

/// Each burst of 256 payloads costs a round trip, and, as some loss is likely, usually a second
/// one. 256 frames of 1082 bytes take 8.9 s, and bodies use at most 1024/1082 of the capacity.
#[test]
fn in_sets_a_body_takes_more_than_85_percent_of_the_capacity_in_either_direction() {
    for code in [Code::GET, Code::PUT] {
        let went = transfer(code, 16, Some(256)).run().expect("nothing is given up");
        let share = went.goodput / CAPACITY;
        println!("{code}: {went}; {:.1} % of the capacity", share * 100.0);
        assert!(share >= 0.85, "{code}: {share:.3}");
    }
}

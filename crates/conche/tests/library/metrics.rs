//! Metrics are OpenMetrics text with counters, gauges and the requested number of destinations.

#![cfg(feature = "metrics")]

use std::collections::BTreeSet;

use conche::server::get;
use conche::{Client, Server};
use tokio::net::UdpSocket;

fn sample(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.parse().expect("a number"))
}

/// Checks rules of OpenMetrics 1.0: each family is declared once and before its samples, whose
/// names end with type and unit; samples are unique.
fn check(text: &str) {
    let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
    let mut family = ("", "");
    let body = text.strip_suffix("# EOF\n").expect("the end is marked");
    for line in body.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "HELP", name, ..] => assert!(families.insert(name), "{name} is declared twice"),
            ["#", "TYPE", name, kind] => family = (name, kind),
            ["#", "UNIT", name, unit] => assert!(name.ends_with(&format!("_{unit}")), "{line}"),
            [sample, value] => {
                let name = sample.split('{').next().expect("a name");
                let suffix = if family.1 == "counter" { "_total" } else { "" };
                assert_eq!(name, format!("{}{suffix}", family.0));
                value.parse::<f64>().expect("a number");
                assert!(samples.insert(sample), "{sample} is told twice");
            }
            _ => panic!("{line}"),
        }
    }
}

#[tokio::test]
async fn an_exchange_is_counted_at_both_ends_and_its_path_is_listed() {
    let server = Server::builder().route("/hello", get(async || "world")).bind("127.0.0.1:0").await;
    let server = server.expect("loopback can be bound");
    let (client, there) = (Client::new(), server.local_addr());
    assert_eq!(client.metrics(9).await.lines().filter(|line| line.contains("destination=")).count(), 0);
    client.get(format!("coap://{there}/hello")).await.expect("an answer");

    let text = client.metrics(9).await;
    check(&text);
    let counter = |name: &str| sample(&text, &format!("conche_{name}_total")).expect("it is listed");
    let sent_once = counter("datagrams_sent") - counter("retransmissions");
    assert!((sent_once - 1.0).abs() < f64::EPSILON, "{sent_once} datagrams");
    assert!(counter("datagrams_received") >= 1.0);
    for (name, value) in [
        ("conche_exchanges_opened_total", 1.0),
        ("conche_datagrams_dropped_total{reason=\"malformed\"}", 0.0),
        ("conche_exchanges", 0.0),
        ("conche_peers", 1.0),
        (&format!("conche_path_exchanges_in_flight{{destination=\"{there}\"}}"), 0.0),
    ] {
        assert_eq!(sample(&text, name), Some(value), "{name} in {text}");
    }
    let snapshot = client.snapshot(there).await.expect("it was used").congestion;
    for (name, span) in [("rto", Some(snapshot.rto)), ("srtt", snapshot.srtt)] {
        let told = sample(&text, &format!("conche_path_{name}_seconds{{destination=\"{there}\"}}"));
        assert!(span.is_some() && told == span.map(|span| span.as_secs_f64()), "{name}: {told:?} is not {span:?}");
    }

    let text = server.metrics(0).await;
    check(&text);
    assert_eq!(sample(&text, "conche_requests_received_total"), Some(1.0));
    assert_eq!(sample(&text, "conche_received_bytes_total").map(|bytes| bytes > 8.0), Some(true));
}

#[tokio::test]
async fn metrics_list_at_most_the_requested_destinations_busiest_first() {
    let client = Client::new();
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let busy = silent.local_addr().expect("it is bound");
    let server = Server::builder().bind("127.0.0.1:0").await.expect("loopback can be bound");
    for host in ["127.0.0.1", "127.0.0.2"] {
        let uri = format!("coap://{host}:{}/", server.local_addr().port());
        let _ = client.get(uri).await;
    }
    let waits = tokio::spawn(client.get(format!("coap://{busy}/")).send());
    silent.recv(&mut [0; 64]).await.expect("the request");
    for (asked, told) in [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3)] {
        let text = client.metrics(asked).await;
        check(&text);
        let rtos: Vec<_> = text.lines().filter(|line| line.starts_with("conche_path_rto_seconds{")).collect();
        assert_eq!(rtos.len(), told, "{text}");
        assert!(rtos.is_empty() || rtos[0].contains(&busy.to_string()), "{text}");
    }
    waits.abort();
}

#[cfg(feature = "dtls")]
#[tokio::test]
async fn a_session_and_its_successor_are_listed_once_under_their_address() {
    use conche::security::Secret;
    use std::net::SocketAddr;
    use std::time::Duration;

    use crate::own_address::own_address;

    let at = async |address: SocketAddr| {
        let builder = Server::builder().psk(|_: &[u8]| Some(Secret::new(*b"sesame"))).route("/", get(async || "open"));
        builder.bind(address).await.expect("loopback can be bound")
    };
    let client = Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key").build().expect("valid");
    let there = own_address();
    for _ in 0..2 {
        let server = at(there).await;
        // The first attempt may detect the closed session.
        while client.get(format!("coaps://{there}/")).await.is_err() {}
        let text = client.metrics(9).await;
        check(&text);
        let told = text.lines().filter(|line| line.starts_with("conche_path_rto_seconds{")).count();
        assert_eq!(told, 1, "{text}");
        let rtt = format!("conche_path_srtt_seconds{{destination=\"{there}\"}}");
        assert!(sample(&text, &rtt).is_some_and(|rtt| rtt > 0.0), "{text}");
        server.shutdown(Duration::from_secs(1)).await;
    }
}

#[cfg(feature = "oscore")]
#[tokio::test]
async fn only_refused_protected_messages_are_counted_as_refused() {
    use conche::oscore::{Credentials, EndId, Keys};

    let [own, other] = [b"c", b"s"].map(|id| EndId::new(id).expect("short"));
    let keys =
        |secret: &[u8; 16], own, other| Keys::for_this_run(Credentials::new(*secret, own, other)).expect("legal");
    let server = Server::builder().oscore(keys(b"16 random bytes.", other, own)).route("/", get(async || "open"));
    let server = server.bind("127.0.0.1:0").await.expect("loopback can be bound");
    let uri = format!("coap://{}/", server.local_addr());
    for (secret, refused) in [(b"16 random bytes.", 0.0), (b"another 16 bytes", 1.0)] {
        let client = Client::builder().oscore(keys(secret, own, other)).build().expect("legal settings");
        assert_eq!(client.get(&uri).await.is_err(), refused > 0.0);
        let text = server.metrics(0).await;
        check(&text);
        assert_eq!(sample(&text, "conche_protection_refused_total"), Some(refused), "{text}");
    }
}

#[cfg(feature = "dtls")]
#[tokio::test]
async fn sessions_and_handshakes_are_counted_with_the_reasons_of_failures() {
    use conche::security::Secret;

    let keys = |_: &[u8]| Some(Secret::new(*b"sesame"));
    let server = Server::builder().psk(keys).route("/", get(async || "open")).bind("127.0.0.1:0").await;
    let server = server.expect("loopback can be bound");
    let uri = format!("coaps://{}/", server.local_addr());
    let client = |key: &[u8; 6]| {
        Client::builder().psk(*b"lamp", Secret::new(*key)).expect("a key").build().expect("legal settings")
    };
    let (lamp, foe) = (client(b"sesame"), client(b"guess!"));
    lamp.get(&uri).await.expect("an answer");
    foe.get(&uri).await.expect_err("another key");
    let closed = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound").local_addr().expect("bound");
    if cfg!(target_os = "linux") {
        foe.get(format!("coaps://{closed}/")).await.expect_err("no listener");
    }
    let failed = |reason: &str| format!("conche_dtls_handshakes_failed_total{{reason=\"{reason}\"}}");
    for (text, sessions, completed, key, alert, unreachable) in [
        (server.metrics(0).await, 1.0, 1.0, 1.0, 0.0, 0.0),
        (lamp.metrics(0).await, 1.0, 1.0, 0.0, 0.0, 0.0),
        (foe.metrics(0).await, 0.0, 0.0, 0.0, 1.0, if cfg!(target_os = "linux") { 1.0 } else { 0.0 }),
    ] {
        check(&text);
        for (name, value) in [
            ("conche_dtls_sessions".to_owned(), sessions),
            ("conche_dtls_handshakes".to_owned(), 0.0),
            ("conche_dtls_handshakes_completed_total".to_owned(), completed),
            (failed("key"), key),
            (failed("alert"), alert),
            (failed("unreachable"), unreachable),
        ] {
            assert_eq!(sample(&text, &name), Some(value), "{name} in {text}");
        }
    }
    assert!(!Client::new().metrics(0).await.contains("dtls"), "it has no credentials");
}

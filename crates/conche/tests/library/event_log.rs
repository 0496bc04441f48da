//! The event log is qlog in JSON text sequences with the expected events.

#![cfg(feature = "event-log")]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conche::server::{get, post};
use conche::watch::{EventLog, Recorder};
use conche::{AnyController, Client, ContentFormat, Server};
use serde_json::{Value, json};
use tokio::net::UdpSocket;

#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl io::Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics while writing").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl File {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("nobody panicked").clone()).expect("logs are text")
    }
}

/// The header and events of a finished log that lost none.
async fn finished(log: &Recorder, file: &File) -> (Value, Vec<Value>) {
    let recorded = log.finish().await.expect("memory can be written");
    assert_eq!(recorded.lost, 0);
    let text = file.text();
    // RFC 7464 §2: each text stands between RS and LF.
    let records = text.strip_prefix('\x1e').expect("a record separator").split('\x1e');
    let mut records = records
        .map(|record| serde_json::from_str(record.strip_suffix('\n').expect("a line feed")).expect("a JSON text"));
    (records.next().expect("a header"), records.collect())
}

fn of<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["name"] == name).map(|event| &event["data"]).collect()
}

#[tokio::test]
async fn both_ends_of_an_exchange_are_logged_with_their_messages_and_without_payloads() {
    let (at_client, at_server) = (File::default(), File::default());
    let client_log = EventLog::client().title("a greeting").write_to(at_client.clone()).expect("memory can be written");
    let server_log = EventLog::server().write_to(at_server.clone()).expect("memory can be written");
    let server = Server::builder().route("/greet", post(async || "secret answer")).watch(server_log.clone());
    let server = server.bind("127.0.0.1:0").await.expect("loopback can be bound");
    let client = Client::builder().watch(client_log.clone()).build().expect("defaults");
    let there = server.local_addr();
    let request = client.post(format!("coap://{there}/greet?name=you"));
    request.payload(ContentFormat::TEXT_PLAIN, "secret question").await.expect("an answer");

    let (header, events) = finished(&client_log, &at_client).await;
    assert_eq!(header["file_schema"], "urn:ietf:params:qlog:file:sequential");
    assert_eq!(
        (&header["serialization_format"], &header["title"]),
        (&json!("application/qlog+json-seq"), &json!("a greeting"))
    );
    assert_eq!(header["trace"]["vantage_point"]["type"], "client");
    assert_eq!(header["trace"]["common_fields"]["time_format"], "relative_to_epoch");
    assert_eq!(header["trace"]["common_fields"]["reference_time"]["epoch"], "unknown");

    let names: Vec<_> = events.iter().map(|event| event["name"].as_str().expect("a name")).collect();
    let (message, metrics) = (["coap:message_sent", "coap:message_received"], "recovery:metrics_updated");
    assert_eq!(names, [message[0], metrics, message[1], metrics, "coap:exchange_updated"]);
    assert!(events.windows(2).all(|pair| pair[0]["time"].as_f64() <= pair[1]["time"].as_f64()), "{events:?}");
    let sent = &events[0]["data"];
    assert_eq!((&sent["peer"], &sent["attempt"]), (&json!(there), &json!(0)));
    assert_eq!((&sent["message"]["type"], &sent["message"]["code"]), (&json!("CON"), &json!("0.02")));
    assert_eq!(
        sent["message"]["options"],
        json!([
            { "number": 11, "text": "Uri-Path=greet" },
            { "number": 12, "text": "Content-Format=0" },
            { "number": 15, "text": "Uri-Query=name=you" },
        ])
    );
    assert_eq!(sent["raw"]["payload_length"], "secret question".len());
    let received = &events[2]["data"];
    assert_eq!(received["message"]["token"], sent["message"]["token"]);
    assert_eq!(received["message"]["message_id"], sent["message"]["message_id"]);
    // RFC 7252 §4.2: the acknowledgement gives a sample, from which smoothing begins.
    let [first, second] = of(&events, metrics)[..] else { panic!("{events:?}") };
    assert_eq!((&first["exchanges_in_flight"], &second["exchanges_in_flight"]), (&json!(1), &json!(0)));
    assert!(first.get("smoothed_rtt").is_none() && second["smoothed_rtt"].is_number(), "{first} {second}");
    let over = &events[4]["data"];
    assert_eq!(
        (&over["state"], &over["code"], &over["transmissions"]),
        (&json!("responded"), &json!("2.04"), &json!(1))
    );
    assert_eq!(over["exchange"], sent["exchange"]);

    let (header, events) = finished(&server_log, &at_server).await;
    assert_eq!(header["trace"]["vantage_point"]["type"], "server");
    let (received, sent) = (of(&events, message[1]), of(&events, message[0]));
    assert_eq!((received.len(), sent.len()), (1, 1));
    assert_eq!(received[0]["message"]["code"], "0.02");
    assert_eq!(sent[0]["message"]["code"], "2.04");
    for text in [at_client.text(), at_server.text()] {
        let secret = format!("{:x}", bytes::Bytes::from("secret"));
        assert!(!text.contains("secret") && !text.contains(&secret), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn retransmissions_are_logged_at_their_times_with_the_timeout_and_the_failure() {
    let file = File::default();
    let log = EventLog::client().write_to(file.clone()).expect("memory can be written");
    let controller = AnyController::by_name("default").expect("a known name");
    let client = Client::builder().controller(controller).watch(log.clone()).build().expect("defaults");
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let uri = format!("coap://{}/", silent.local_addr().expect("it is bound"));
    client.get(uri).await.expect_err("nobody answers");

    let (_, events) = finished(&log, &file).await;
    let sent: Vec<_> = events.iter().filter(|event| event["name"] == "coap:message_sent").collect();
    let attempts: Vec<_> = sent.iter().map(|event| event["data"]["attempt"].as_u64().expect("a number")).collect();
    assert_eq!(attempts, [0, 1, 2, 3, 4]);
    // RFC 7252 §4.2: the timeouts double, from 2 to 3 s on.
    let times: Vec<_> = sent.iter().map(|event| event["time"].as_f64().expect("a time")).collect();
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((2000.0..3001.0).contains(&pauses[0]), "{pauses:?}");
    assert!(pauses.windows(2).all(|pair| (pair[1] / pair[0] - 2.0).abs() < 0.01), "{pauses:?}");
    assert_eq!(of(&events, "recovery:metrics_updated")[0]["rto"], 2000.0);
    let [over] = of(&events, "coap:exchange_updated")[..] else { panic!("{events:?}") };
    assert_eq!((&over["state"], &over["transmissions"]), (&json!("failed"), &json!(5)));
}

#[tokio::test]
async fn dropped_messages_are_logged_with_the_reason() {
    let file = File::default();
    let log = EventLog::server().payloads(true).write_to(file.clone()).expect("memory can be written");
    let server = Server::builder().watch(log.clone()).bind("127.0.0.1:0").await.expect("loopback can be bound");
    let peer = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    peer.connect(server.local_addr()).await.expect("it is a local address");
    // Two bytes, an unsolicited acknowledgement, and a duplicate request, answered twice.
    let (short, stray, request) = (&b"\x40\x01"[..], &b"\x60\0\x12\x34"[..], &b"\x40\x01\x12\x35"[..]);
    for datagram in [short, stray, request, request] {
        peer.send(datagram).await.expect("it can be sent");
        if datagram == request {
            let mut answer = [0; 64];
            let answer = tokio::time::timeout(Duration::from_secs(10), peer.recv(&mut answer));
            answer.await.expect("an answer").expect("it can be received");
        }
    }
    let (_, events) = finished(&log, &file).await;
    let dropped: Vec<_> =
        of(&events, "coap:message_dropped").iter().map(|data| (&data["trigger"], &data["raw"]["data"])).collect();
    let expected = [
        (json!("malformed"), json!("4001")),
        (json!("unmatched"), json!("60001234")),
        (json!("duplicate"), json!("40011235")),
    ];
    assert_eq!(dropped, expected.each_ref().map(|(trigger, data)| (trigger, data)));
    assert_eq!(of(&events, "coap:message_received").len(), 4, "what is dropped has been received");
}

#[cfg(feature = "dtls")]
#[tokio::test]
async fn dtls_messages_are_logged_like_plain_ones() {
    use conche::security::Secret;
    let (at_client, at_server) = (File::default(), File::default());
    let client_log = EventLog::client().write_to(at_client.clone()).expect("memory can be written");
    let server_log = EventLog::server().write_to(at_server.clone()).expect("memory can be written");
    let server = Server::builder().psk(|_: &[u8]| Some(Secret::new(*b"sesame"))).route("/greet", get(async || "hello"));
    let server = server.watch(server_log.clone()).bind("127.0.0.1:0").await.expect("loopback can be bound");
    let client = Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key").watch(client_log.clone());
    let (client, there) = (client.build().expect("valid"), server.local_addr());
    client.get(format!("coaps://{there}/greet")).await.expect("an answer");

    let names = |events: &[Value]| {
        let names = events.iter().map(|event| event["name"].as_str().expect("a name").to_owned());
        names.collect::<Vec<_>>()
    };
    let (_, events) = finished(&client_log, &at_client).await;
    let (message, metrics) = (["coap:message_sent", "coap:message_received"], "recovery:metrics_updated");
    assert_eq!(names(&events), [message[0], metrics, message[1], metrics, "coap:exchange_updated"]);
    assert!(events.iter().all(|event| event["data"]["peer"] == json!(there)), "{events:?}");
    assert!(of(&events, metrics)[1]["smoothed_rtt"].is_number(), "{events:?}");
    let (_, events) = finished(&server_log, &at_server).await;
    // A server that responds at once has no path state.
    assert_eq!(names(&events), [message[1], message[0]]);
}

#[cfg(feature = "dtls")]
#[tokio::test]
async fn dropped_messages_of_a_dtls_session_are_logged_with_the_reason() {
    use conche::security::Secret;
    let file = File::default();
    let log = EventLog::server().write_to(file.clone()).expect("memory can be written");
    let server = Server::builder().psk(|_: &[u8]| Some(Secret::new(*b"sesame"))).watch(log.clone());
    let server = server.bind("127.0.0.1:0").await.expect("loopback can be bound");
    let there = server.local_addr();
    let relay = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let between = relay.local_addr().expect("it is bound");
    // The server's first response after the handshake is lost.
    let passes = tokio::spawn(async move {
        let (mut buffer, mut client, mut application_data) = ([0; 2048], None, 0);
        loop {
            let (len, from) = relay.recv_from(&mut buffer).await.expect("it can be received");
            let to = if from == there { client } else { Some(there) };
            client = if from == there { client } else { Some(from) };
            // RFC 5246 §6.2.1: application_data.
            let is_answer = from == there && buffer[0] == 23;
            application_data += u32::from(is_answer);
            if !is_answer || application_data > 1 {
                relay.send_to(&buffer[..len], to.expect("the client speaks first")).await.expect("it can be sent");
            }
        }
    });
    let client = Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key").build().expect("valid");
    client.get(format!("coaps://{between}/")).await.expect("an answer");
    passes.abort();
    let (_, events) = finished(&log, &file).await;
    let dropped = of(&events, "coap:message_dropped");
    assert_eq!(dropped.len(), 1, "{events:?}");
    assert_eq!(dropped[0]["trigger"], json!("duplicate"));
}

#[test]
fn a_log_whose_beginning_cannot_be_written_is_refused() {
    struct Full;

    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let error = EventLog::client().write_to(Full).expect_err("the disk is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

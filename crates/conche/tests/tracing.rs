//! Log events of an exchange.

#![allow(missing_docs, reason = "a test")]

use std::io;
use std::sync::{Arc, Mutex};

use conche::cc::default::CoapDefault;
use conche::{Client, Error, Failure};
use tokio::net::UdpSocket;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics while logging").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start(level: Level) -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("nobody panics while logging").clone()).expect("logs are text")
    }
}

#[tokio::test(start_paused = true)]
async fn each_datagram_is_traced_with_its_bytes_and_decoded() {
    let (log, _guard) = Log::start(Level::TRACE);
    let server = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let there = server.local_addr().expect("it is bound");
    let answer = async {
        let mut request = [0; 64];
        let (_, from) = server.recv_from(&mut request).await.expect("a request");
        let response = [&[0x68, 0x45, request[2], request[3]], &request[4..12], b"\xffhello"].concat();
        server.send_to(&response, from).await.expect("it can be sent");
    };
    let client = Client::new();
    let (response, ()) = tokio::join!(client.get(format!("coap://{there}/test")).send(), answer);
    response.expect("an answer");

    let log = log.text();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("conche::message: ")).collect();
    let [sent, received] = told.as_slice() else { panic!("{log}") };
    for part in ["sent ", &format!("peer={there}"), "attempt=0", "decoded=CON GET [0x", " Uri-Path=test", "datagram=["]
    {
        assert!(sent.contains(part), "{part:?} in {sent}");
    }
    for part in ["received ", &format!("peer={there}"), "decoded=ACK 2.05 [0x", "\"hello\"", "datagram=["] {
        assert!(received.contains(part), "{part:?} in {received}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_transmission_is_logged_with_the_rto_in_the_span_of_its_exchange() {
    let (log, _guard) = Log::start(Level::DEBUG);
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let there = silent.local_addr().expect("it is bound");
    // All tasks wait for retransmission timers, so the paused clock jumps between them.
    let client = Client::builder().controller(CoapDefault::default()).build().expect("legal settings");
    let failed = client.get(format!("coap://{there}/")).await.expect_err("nobody answers");
    let Error::Failed { failure: Failure::TimedOut, course, .. } = failed else { panic!("{failed}") };
    assert_eq!(course.transmissions, 5);

    let log = log.text();
    let lines = |wanted: &str| log.lines().filter(|line| line.contains(wanted)).map(str::to_owned).collect::<Vec<_>>();
    let span = format!("exchange{{peer={there} code=GET id=");
    let (sent, again) = (lines(": sent "), lines(": retransmitted "));
    assert_eq!((sent.len(), again.len()), (1, 4), "{log}");
    assert!(sent.iter().chain(&again).all(|line| line.contains(&span) && line.contains("rto=")), "{log}");
    assert!(again[3].contains("attempt=4"), "{log}");
    assert!(lines(&span).iter().any(|line| line.contains("transmissions=5") && line.contains("queued=")), "{log}");
}

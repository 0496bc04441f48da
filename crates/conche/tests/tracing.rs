//! What the logs tell of an exchange, under tokio's paused clock.

#![allow(missing_docs, reason = "a test")]

use std::io;
use std::sync::{Arc, Mutex};

use conche::{Client, Error, Failure};
use tokio::net::UdpSocket;
use tracing::Level;

/// Keeps what is logged.
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

#[tokio::test(start_paused = true)]
async fn each_transmission_is_logged_with_the_rto_in_the_span_of_its_exchange() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let there = silent.local_addr().expect("it is bound");
    // Nothing else is to be done than to wait for the retransmission timers, so that the clock jumps from one to the next.
    let failed = Client::new().get(format!("coap://{there}/")).await.expect_err("nobody answers");
    let Error::Failed { failure: Failure::TimedOut, course, .. } = failed else { panic!("{failed}") };
    assert_eq!(course.transmissions, 5);

    let log = String::from_utf8(log.0.lock().expect("nobody panics while logging").clone()).expect("logs are text");
    let lines = |wanted: &str| log.lines().filter(|line| line.contains(wanted)).map(str::to_owned).collect::<Vec<_>>();
    let span = format!("exchange{{peer={there} code=0.01 GET id=");
    let (sent, again) = (lines(": sent "), lines(": retransmitted "));
    assert_eq!((sent.len(), again.len()), (1, 4), "{log}");
    assert!(sent.iter().chain(&again).all(|line| line.contains(&span) && line.contains("rto=")), "{log}");
    assert!(again[3].contains("attempt=4"), "{log}");
    assert!(lines(&span).iter().any(|line| line.contains("transmissions=5") && line.contains("queued=")), "{log}");
}

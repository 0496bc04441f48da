//! A relay in front of an echo server.

use super::*;
use conche_netsim::wired::Loss;

async fn echo() -> (SocketAddr, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let address = socket.local_addr().expect("it is bound");
    let task = tokio::spawn(async move {
        let mut buffer = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            socket.send_to(&buffer[..length], from).await.expect("loopback sends");
        }
    });
    (address, task)
}

async fn relay(impairment: Impairment, seed: u64) -> (Relay, JoinHandle<()>) {
    let (upstream, task) = echo().await;
    let listen = "127.0.0.1:0".parse().expect("an address");
    let config = RelayConfig { to_upstream: impairment, to_client: impairment, seed };
    (Relay::start(listen, upstream, config).await.expect("it starts"), task)
}

async fn client(relay: &Relay) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    socket.connect(relay.local_addr()).await.expect("loopback connects");
    socket
}

#[tokio::test]
async fn each_client_gets_its_own_replies() {
    let (relay, _echo) = relay(Impairment::default(), 1).await;
    let clients = [client(&relay).await, client(&relay).await];
    for (name, socket) in [b"a", b"b"].into_iter().zip(&clients) {
        socket.send(name).await.expect("loopback sends");
    }
    for (name, socket) in [b"a", b"b"].into_iter().zip(&clients) {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).await.expect("a reply");
        assert_eq!(&buffer[..length], name);
    }
    assert_eq!(relay.counts(), Counts { to_upstream: 2, to_client: 2, ..Counts::default() });
}

/// Sends 200 datagrams and returns the numbers of those that came back.
async fn survivors(seed: u64) -> Vec<u8> {
    let lossy = Impairment { loss: Loss::Bernoulli(0.3), ..Impairment::default() };
    let (relay, _echo) = relay(lossy, seed).await;
    let socket = client(&relay).await;
    let mut back = Vec::new();
    for number in 0..200 {
        socket.send(&[number]).await.expect("loopback sends");
        // The relay counts each datagram when it decides on its loss.
        loop {
            let Counts { lost_to_upstream, to_client, lost_to_client, .. } = relay.counts();
            if lost_to_upstream + lost_to_client + to_client > u64::from(number) {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let mut buffer = [0; 64];
    while back.len() < usize::try_from(relay.counts().to_client).expect("200 at most") {
        socket.recv(&mut buffer).await.expect("it is on its way");
        back.push(buffer[0]);
    }
    back
}

#[tokio::test]
async fn the_same_seed_loses_the_same_datagrams_and_another_others() {
    let [first, again, other] = [survivors(1).await, survivors(1).await, survivors(2).await];
    assert_eq!(first, again);
    assert_ne!(first, other);
    // Of 200 round trips 98 survive on average, σ = 7.1.
    assert!((70..=126).contains(&first.len()), "{}", first.len());
}

#[tokio::test(start_paused = true)]
async fn a_delay_passes_on_each_way() {
    let delay = std::time::Duration::from_secs(3);
    let (relay, _echo) = relay(Impairment { delay, ..Impairment::default() }, 1).await;
    let socket = client(&relay).await;
    let start = Instant::now();
    socket.send(b"a").await.expect("loopback sends");
    socket.recv(&mut [0; 64]).await.expect("a reply");
    assert!(start.elapsed() >= 2 * delay, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_relay_watcher_sees_received_and_forwarded_datagrams_not_lost_ones() {
    let (upstream, _echo) = echo().await;
    let listen = "127.0.0.1:0".parse().expect("an address");
    for (loss, expected) in [(0.0, 4), (1.0, 1)] {
        let lossy = Impairment { loss: Loss::Bernoulli(loss), ..Impairment::default() };
        let config = RelayConfig { to_upstream: lossy, ..RelayConfig::default() };
        let (told, mut passages) = tokio::sync::mpsc::unbounded_channel();
        let tell = move |passage: &RelayedDatagram<'_>| {
            told.send((passage.peer, passage.received, passage.datagram.to_vec())).expect("somebody listens");
        };
        let relay = Relay::start_watched(listen, upstream, config, Box::new(tell)).await.expect("it starts");
        let socket = client(&relay).await;
        socket.send(b"a").await.expect("loopback sends");
        let from = socket.local_addr().expect("it is bound");
        let all = [(from, true), (upstream, false), (upstream, true), (from, false)];
        for (peer, received) in all.into_iter().take(expected) {
            assert_eq!(passages.recv().await, Some((peer, received, b"a".to_vec())));
        }
        drop(relay);
        assert_eq!(passages.recv().await, None);
    }
}

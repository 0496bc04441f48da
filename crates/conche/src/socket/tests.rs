//! Sockets on the loopback interface.

use super::*;

fn outbox(datagrams: &[(&[u8], SocketAddr)], ecn: Ecn) -> Outbox {
    let longest = datagrams.iter().map(|(datagram, _)| datagram.len()).max().unwrap_or_default();
    let mut outbox = Outbox::new(datagrams.len(), longest);
    for (datagram, to) in datagrams {
        outbox.room()[..datagram.len()].copy_from_slice(datagram);
        let mut transmit = Transmit::new(Address::from(*to), datagram.len());
        transmit.ecn = ecn;
        outbox.push(conche_proto::Instant::ZERO, transmit);
    }
    outbox
}

fn open(address: &str) -> Socket {
    let address = address.parse().expect("an address");
    Socket::open(&Binding::Address(address), None, Role::Server).expect("the loopback can be bound")
}

async fn received(socket: &mut Socket, count: usize) -> Vec<Vec<u8>> {
    let (mut buffer, mut received) = (buffer(Role::Server), Vec::new());
    while received.len() < count {
        socket.ready(&mut buffer, None).await.expect("the socket works");
        while let Received::Datagram(arrival) = socket.receive(&mut buffer).expect("the socket works") {
            received.push(arrival.datagram(&buffer).bytes.to_vec());
        }
    }
    received
}

#[tokio::test]
async fn datagrams_of_any_size_that_come_in_a_hurry_arrive_as_they_were_sent() {
    let (mut sender, mut receiver) = (open("127.0.0.1:0"), open("127.0.0.1:0"));
    let sizes = [0, 1, 7, 65_507, 100, 4096, 30_000, 2];
    let datagrams: Vec<Vec<u8>> = (0..40).map(|n: u8| vec![n; sizes[usize::from(n) % sizes.len()]]).collect();
    for _ in 0..3 {
        let to: Vec<_> = datagrams.iter().map(|datagram| (datagram.as_slice(), receiver.local())).collect();
        for some in to.chunks(10) {
            assert_eq!(sender.send(&outbox(some, Ecn::NotCapable), 0).await.expect("they are sent"), some.len());
        }
        assert!(received(&mut receiver, datagrams.len()).await == datagrams);
    }
}

async fn exchanged(sender: &mut Socket, receivers: &mut [Socket], datagrams: &[(Vec<u8>, SocketAddr)]) {
    let batch: Vec<_> = datagrams.iter().map(|(bytes, to)| (bytes.as_slice(), *to)).collect();
    let (outbox, mut sent) = (outbox(&batch, Ecn::Capable0), 0);
    while sent < batch.len() {
        sent += sender.send(&outbox, sent).await.expect("they are sent");
    }
    for receiver in receivers {
        let port = receiver.local().port();
        let expected: Vec<_> = datagrams.iter().filter(|(_, to)| to.port() == port).collect();
        let (mut buffer, mut count) = (buffer(Role::Server), 0);
        while count < expected.len() {
            receiver.ready(&mut buffer, None).await.expect("the socket works");
            while let Received::Datagram(arrival) = receiver.receive(&mut buffer).expect("the socket works") {
                let datagram = arrival.datagram(&buffer);
                assert_eq!(datagram.bytes, expected[count].0, "number {count}");
                assert_eq!(datagram.from.canonical().port(), sender.local().port());
                assert_eq!(datagram.ecn, Ecn::Capable0);
                count += 1;
            }
        }
    }
}

fn runs(peers: &[SocketAddr]) -> Vec<(Vec<u8>, SocketAddr)> {
    let sizes = [73, 73, 73, 4, 73, 1232, 1232, 100, 1233, 1233, 0, 1, 30_000, 9, 9, 0, 9];
    let of_round = |round: usize| {
        let run = 1 + round % 5;
        (0..run).map(move |number| {
            let size = sizes[if round.is_multiple_of(3) { round } else { round + number } % sizes.len()];
            let byte = u8::try_from((7 * round + number) % 251).unwrap_or_default();
            (vec![byte; size], peers[round % peers.len()])
        })
    };
    (0..60).flat_map(of_round).collect()
}

#[tokio::test]
async fn a_segmented_message_arrives_as_separate_datagrams() {
    for (host, reached) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "::ffff:127.0.0.1")] {
        let (mut sender, mut receivers) = (open(host), [open(host), open(host), open(host)]);
        let peer = |socket: &Socket| SocketAddr::new(reached.parse().expect("an address"), socket.local().port());
        let peers = receivers.each_ref().map(peer);
        assert!(sender.sender.segments, "Linux has it since 4.18");
        for round in 0..5 {
            // The first rounds are received one by one.
            for batch in runs(&peers[..1 + round % 3]).chunks(29) {
                exchanged(&mut sender, &mut receivers, batch).await;
            }
        }
        assert!(sender.sender.segments, "nobody has refused it");
    }
}

#[tokio::test]
async fn refused_segmentation_loses_no_datagram_and_is_disabled() {
    // UDP-Lite always causes the kernel's error for a device without segmentation.
    let lite = || {
        let socket = socket2::Socket::new(Domain::IPV4, socket2::Type::DGRAM, Some(Protocol::UDPLITE)).ok()?;
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("the loopback can be bound");
        let binding = Binding::Socket(Arc::new(socket.into()));
        Some(Socket::open(&binding, None, Role::Server).expect("it is a socket"))
    };
    // Kernels may be built without it.
    let (Some(mut sender), Some(receiver)) = (lite(), lite()) else { return };
    let peers = [receiver.local()];
    let mut receivers = [receiver];
    sender.sender.segments = true;
    exchanged(&mut sender, &mut receivers, &runs(&peers)).await;
    assert!(!sender.sender.segments);
    exchanged(&mut sender, &mut receivers, &runs(&peers)).await;
}

#[tokio::test]
async fn a_peer_that_cannot_be_sent_to_does_not_end_it_for_others() {
    let (mut sender, mut receivers) = (open("127.0.0.1:0"), [open("127.0.0.1:0")]);
    let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
    let error = sender.send(&outbox(&[(b"datagram", nobody), (b"datagram", nobody)], Ecn::NotCapable), 0).await;
    assert_eq!(error.expect_err("there is no port 0").raw_os_error(), Some(nix::libc::EINVAL));
    assert!(sender.sender.segments);
    let peers = [receivers[0].local()];
    exchanged(&mut sender, &mut receivers, &runs(&peers)).await;
}

#[tokio::test]
async fn an_unsendable_datagram_is_reported_and_does_not_block_others() {
    let (mut sender, mut receiver) = (open("127.0.0.1:0"), open("127.0.0.1:0"));
    let (to, too_long) = (receiver.local(), [0; 65_535]);
    let all = [(&b"first"[..], to), (b"second", to), (&too_long, to), (b"third", to)];
    let outbox = outbox(&all, Ecn::NotCapable);
    assert_eq!(sender.send(&outbox, 0).await.expect("what goes before leaves"), 2);
    assert_eq!(sender.send(&outbox, 2).await.expect_err("it is too long").raw_os_error(), Some(nix::libc::EMSGSIZE));
    assert_eq!(sender.send(&outbox, 3).await.expect("what comes after leaves"), 1);
    assert_eq!(received(&mut receiver, 3).await, [&b"first"[..], b"second", b"third"]);
}

#[tokio::test]
async fn datagrams_of_several_addresses_and_codepoints_leave_from_theirs_and_with_theirs() {
    for host in ["127.0.0.1", "::ffff:127.0.0.1"] {
        let mut sender = open(if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" });
        let (mut receiver, mut outbox) = (open("127.0.0.1:0"), Outbox::new(8, 8));
        let to = SocketAddr::new(host.parse().expect("an address"), receiver.local().port());
        let locals = ["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"].map(|local| {
            let local: std::net::Ipv4Addr = local.parse().expect("an address");
            if to.is_ipv6() { IpAddr::from(local.to_ipv6_mapped()) } else { local.into() }
        });
        for (local, ecn) in locals.into_iter().zip([Ecn::NotCapable, Ecn::NotCapable, Ecn::Capable0, Ecn::Capable0]) {
            let mut transmit = Transmit::new(Address::from(to), 1);
            (transmit.local, transmit.ecn) = (Some(local), ecn);
            outbox.push(conche_proto::Instant::ZERO, transmit);
        }
        let mut sent = 0;
        while sent < outbox.len() {
            assert_eq!(outbox.alike(sent), 2);
            sent += sender.send(&outbox, sent).await.expect("they are sent");
        }
        let (mut buffer, mut heard) = (buffer(Role::Server), Vec::new());
        while heard.len() < outbox.len() {
            receiver.ready(&mut buffer, None).await.expect("the socket works");
            while let Received::Datagram(arrival) = receiver.receive(&mut buffer).expect("the socket works") {
                heard.push((arrival.from.canonical().ip(), arrival.ecn));
            }
        }
        let expected = locals.map(|local| local.to_canonical());
        let expected: Vec<_> =
            expected.into_iter().zip([Ecn::NotCapable, Ecn::NotCapable, Ecn::Capable0, Ecn::Capable0]).collect();
        assert_eq!(heard, expected);
    }
}

async fn arrival(from: &str, to: &str, host: &str, ecn: Ecn) -> Arrival {
    let (mut sender, mut receiver) = (open(from), open(to));
    let to = SocketAddr::new(host.parse().expect("an address"), receiver.local().port());
    assert_eq!(sender.send(&outbox(&[(b"datagram", to)], ecn), 0).await.expect("it is sent"), 1);
    let mut buffer = [0; 64];
    loop {
        receiver.ready(&mut buffer, None).await.expect("the socket works");
        if let Received::Datagram(arrival) = receiver.receive(&mut buffer).expect("the socket works") {
            assert_eq!(arrival.datagram(&buffer).bytes, b"datagram");
            return arrival;
        }
    }
}

#[tokio::test]
async fn the_codepoint_that_a_datagram_leaves_with_is_the_one_that_it_arrives_with() {
    for ecn in [Ecn::NotCapable, Ecn::Capable0, Ecn::Capable1, Ecn::CongestionExperienced] {
        let paths = [
            ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "[::1]:0", "::1"),
            ("127.0.0.1:0", "[::]:0", "127.0.0.1"),
            ("[::]:0", "[::]:0", "::ffff:127.0.0.1"),
        ];
        for (from, to, host) in paths {
            assert_eq!(arrival(from, to, host, ecn).await.ecn, ecn, "from {from} to {to}");
        }
    }
}

#[tokio::test]
async fn a_wildcard_socket_reports_the_destination_address_of_a_datagram() {
    let local = async |to, host| arrival("127.0.0.1:0", to, host, Ecn::NotCapable).await.local;
    assert_eq!(local("0.0.0.0:0", "127.1.2.3").await, "127.1.2.3".parse().ok());
    assert_eq!(local("[::]:0", "127.1.2.3").await, "::ffff:127.1.2.3".parse().ok());
    assert_eq!(local("127.0.0.1:0", "127.0.0.1").await, None, "it has only one");
}

#[tokio::test]
async fn datagrams_at_a_socket_bound_to_a_group_are_multicast() {
    let (group, loopback) = ([224, 0, 1, 187].into(), [127, 0, 0, 1].into());
    let member = std::net::UdpSocket::bind((group, 0)).expect("a group can be bound");
    member.join_multicast_v4(&group, &loopback).expect("the loopback is an interface");
    let mut member = Socket::open(&Binding::Socket(Arc::new(member)), None, Role::Server).expect("it works");
    let sender = socket2::Socket::new(Domain::IPV4, socket2::Type::DGRAM, None).expect("there are sockets");
    sender.set_multicast_if_v4(&loopback).expect("the loopback is an interface");
    sender.send_to(b"datagram", &member.local().into()).expect("it is sent");
    let mut buffer = [0; 64];
    let arrival = loop {
        member.ready(&mut buffer, None).await.expect("the socket works");
        if let Received::Datagram(arrival) = member.receive(&mut buffer).expect("the socket works") {
            break arrival;
        }
    };
    assert!(arrival.multicast);
}

async fn heard_by(socket: std::net::UdpSocket) -> Arrival {
    let to = socket.local_addr().expect("it is bound");
    let mut socket = Socket::open(&Binding::Socket(Arc::new(socket)), None, Role::Server).expect("it works");
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("the loopback can be bound");
    sender.set_broadcast(true).expect("it is a socket");
    sender.send_to(b"datagram", to).expect("it is sent");
    let mut buffer = [0; 64];
    loop {
        socket.ready(&mut buffer, None).await.expect("the socket works");
        if let Received::Datagram(arrival) = socket.receive(&mut buffer).expect("the socket works") {
            return arrival;
        }
    }
}

#[tokio::test]
async fn datagrams_at_a_socket_bound_to_a_broadcast_address_are_multicast() {
    for (bound, many) in [("127.255.255.255:0", true), ("127.1.2.3:0", false)] {
        let socket = std::net::UdpSocket::bind(bound).expect("the loopback can be bound");
        assert_eq!(heard_by(socket).await.multicast, many, "{bound}");
    }
}

#[tokio::test]
async fn control_messages_enabled_by_the_user_lose_no_datagram() {
    use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("the loopback can be bound");
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    setsockopt(&socket, sockopt::Timestamping, &stamps).expect("Linux has it");
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).expect("Linux has it");
    setsockopt(&socket, sockopt::Ipv4OrigDstAddr, &true).expect("Linux has it");
    setsockopt(&socket, sockopt::Ipv4PacketInfo, &true).expect("Linux has it");
    setsockopt(&socket, sockopt::Ipv4RecvTtl, &true).expect("Linux has it");
    assert_eq!(heard_by(socket).await.ecn, Ecn::NotCapable);
}

#[test]
fn whatever_an_icmp_error_becomes_is_no_error_of_the_next_datagram() {
    use nix::errno::Errno;
    let of_icmp = [
        // ICMP Destination Unreachable by code (`icmp_err_convert`), and Parameter Problem.
        Errno::ENETUNREACH,
        Errno::EHOSTUNREACH,
        Errno::ENOPROTOOPT,
        Errno::ECONNREFUSED,
        Errno::EMSGSIZE,
        Errno::EOPNOTSUPP,
        Errno::EHOSTDOWN,
        Errno::ENONET,
        Errno::EPROTO,
        // ICMPv6 Destination Unreachable, "policy fail" (`icmpv6_err_convert`).
        Errno::EACCES,
    ];
    for errno in of_icmp {
        assert!(is_about_a_peer(&io::Error::from(errno)), "{errno}");
    }
    assert!(!is_about_a_peer(&io::Error::from(Errno::EINVAL)));
}

// RFC 7252 §8.1 (Q84)
#[tokio::test]
async fn a_datagram_to_a_group_is_marked_multicast() {
    let (group, loopback) = ([224, 0, 1, 187].into(), [127, 0, 0, 1].into());
    let member = std::net::UdpSocket::bind("0.0.0.0:0").expect("the loopback can be bound");
    member.join_multicast_v4(&group, &loopback).expect("the loopback is an interface");
    let mut member = Socket::open(&Binding::Socket(Arc::new(member)), None, Role::Server).expect("it works");
    let sender = socket2::Socket::new(Domain::IPV4, socket2::Type::DGRAM, None).expect("there are sockets");
    sender.set_multicast_if_v4(&loopback).expect("the loopback is an interface");
    for (to, multicast) in [(group, true), (loopback, false)] {
        sender.send_to(b"datagram", &SocketAddr::from((to, member.local().port())).into()).expect("it is sent");
        let mut buffer = [0; 64];
        let arrival = loop {
            member.ready(&mut buffer, None).await.expect("the socket works");
            if let Received::Datagram(arrival) = member.receive(&mut buffer).expect("the socket works") {
                break arrival;
            }
        };
        assert_eq!((arrival.multicast, arrival.local), (multicast, (!multicast).then(|| loopback.into())));
    }
}

#[tokio::test]
async fn busy_polling_finds_a_datagram_before_readiness_is_reported() {
    let (mut sender, mut receiver, mut buffer) = (open("127.0.0.1:0"), open("127.0.0.1:0"), buffer(Role::Server));
    let to = receiver.local();
    // Until here, tokio has not polled for readiness.
    assert_eq!(sender.send(&outbox(&[(b"datagram", to)], Ecn::NotCapable), 0).await.expect("it is sent"), 1);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(3600);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(pin!(receiver.ready(&mut buffer, None)).poll(&mut context).is_pending());
    assert!(pin!(receiver.ready(&mut buffer, Some(until))).poll(&mut context).is_ready());
    let Ok(Received::Datagram(arrival)) = receiver.receive(&mut buffer) else { panic!("it has come") };
    assert_eq!(arrival.datagram(&buffer).bytes, b"datagram");
    assert!(matches!(receiver.receive(&mut buffer), Ok(Received::Nothing)));
}

#[tokio::test]
async fn a_socket_without_room_to_send_waits_until_there_is_some() {
    let socket = open("127.0.0.1:0");
    // The socket is writable, and the kernel reports it on request.
    socket.io.writable().await.expect("it works");
}

//! Owned messages and bodies share memory, and sharing does not mix messages up.

use alloc::vec;
use alloc::vec::Vec;

use super::super::*;
use super::datagram;

/// Returns datagrams of many lengths relative to a chunk, each with distinct bytes.
fn datagrams() -> impl Iterator<Item = Vec<u8>> {
    (1_u8..=255).map(|fill| datagram(Code::POST, &[], &vec![fill; usize::from(fill) * 7 % 1500 + 1]))
}

fn pooled(datagram: &[u8], pool: &mut MessagePool) -> OwnedMessage {
    OwnedMessage::pooled(Message::decode(datagram).expect("well-formed"), pool)
}

#[test]
fn a_payload_is_a_slice_of_its_message() {
    let bytes = Bytes::from(datagram(Code::POST, &[], b"payload"));
    let message = OwnedMessage::from_bytes(bytes.clone()).expect("well-formed");
    assert_eq!(message.view().as_bytes().as_ptr(), bytes.as_ptr());
    assert_eq!(message.payload_bytes().as_ptr(), message.payload().as_ptr());
    assert_eq!(message.payload_bytes(), &b"payload"[..]);
}

#[test]
fn a_message_without_payload_has_the_empty_slice() {
    let message = OwnedMessage::decode(datagram(Code::GET, &[], b"")).expect("well-formed");
    assert!(message.payload_bytes().is_empty());
}

#[test]
fn a_payload_outlives_its_message_and_its_pool() {
    let mut pool = MessagePool::new();
    let payload = pooled(&datagram(Code::POST, &[], b"payload"), &mut pool).payload_bytes();
    drop(pool);
    assert_eq!(payload, &b"payload"[..]);
}

#[test]
fn clones_of_a_body_share_its_bytes() {
    let body = Body::builder().path("/a").payload(vec![7; 100]).build().expect("legal");
    assert_eq!(body.clone().as_bytes().as_ptr(), body.as_bytes().as_ptr());
}

#[test]
fn a_body_takes_a_payload_in_all_that_becomes_bytes() {
    let text = Body::builder().payload("21.5").build();
    assert_eq!(Body::builder().payload(vec![b'2', b'1', b'.', b'5']).build(), text);
    assert_eq!(Body::builder().payload(alloc::string::String::from("21.5")).build(), text);
    assert_eq!(Body::builder().payload(&b"21.5"[..]).build(), text);
    assert_eq!(Body::builder().payload(Bytes::from_static(b"21.5")).build(), text);
}

#[test]
fn messages_that_are_kept_stay_as_they_were_while_others_come_and_go() {
    let mut pool = MessagePool::new();
    let mut kept = Vec::new();
    for (index, datagram) in datagrams().enumerate() {
        let message = pooled(&datagram, &mut pool);
        assert_eq!(message.view().as_bytes(), datagram);
        if index % 5 == 0 {
            kept.push((message, datagram));
        }
    }
    for (message, datagram) in kept {
        assert_eq!(message.view().as_bytes(), datagram);
    }
}

#[test]
fn messages_of_a_pool_lie_side_by_side() {
    let mut pool = MessagePool::new();
    let datagram = datagram(Code::GET, &[], b"");
    let [first, second] = [(); 2].map(|()| pooled(&datagram, &mut pool));
    assert_eq!(first.view().as_bytes().as_ptr_range().end, second.view().as_bytes().as_ptr());
}

#[test]
fn a_message_longer_than_a_chunk_is_pooled_as_well() {
    let mut pool = MessagePool::new();
    let long = datagram_of(MessagePool::CHUNK + 1);
    let exact = datagram_of(MessagePool::CHUNK);
    for datagram in [&long, &exact, &long] {
        assert_eq!(pooled(datagram, &mut pool).view().as_bytes(), &datagram[..]);
    }
}

/// Returns a datagram of exactly `length` bytes.
fn datagram_of(length: usize) -> Vec<u8> {
    let mut datagram = vec![b'x'; length];
    datagram[..5].copy_from_slice(b"\x40\x02\x00\x01\xff");
    datagram
}

//! Unprotecting messages reuses its buffers.

use allocation_counter::measure;
use conche_proto::codec::{Body, Code};

use super::support::pair;

#[test]
fn unprotecting_allocates_far_less_often_than_messages_come() {
    let [mut client, mut server] = pair();
    let body = Body::builder().path("/a/b").payload("what is it like today?").build().expect("legal");
    let requests: Vec<_> = (0..100).map(|_| client.request(Code::FETCH, &body)).collect();
    server.receive(&requests[0].0).expect("authentic");
    let unprotecting = measure(|| {
        for (request, _) in &requests[1..] {
            server.receive(request).expect("authentic");
        }
    });
    // Only chunks of the pool: all other memory was reused.
    assert!(unprotecting.count_total <= 3, "{unprotecting:?}");
    let asked = requests.into_iter().map(|(_, binding)| binding);
    assert_eq!(asked.map(|binding| binding.number()).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    let protecting = measure(|| {
        client.contexts.protect_request(client.id, Code::FETCH, &body).expect("a number");
    });
    // The outer body: its bytes and its reference count.
    assert!(protecting.count_total <= 2, "{protecting:?}");
}

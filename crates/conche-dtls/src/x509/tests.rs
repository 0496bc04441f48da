//! Peers that present a certificate without its key.

use super::*;
use crate::{BUFFER, ClientCredentials, Config, Ended, Output, ServerCertificate, ServerCredentials, Sessions};

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/data/", $name)).as_slice()
    };
}

fn shown(certificate: &[u8], key: &[u8]) -> OwnCertificate {
    OwnCertificate { certificate: certificate.to_vec(), key: Secret::new(key) }
}

fn handshake(server: OwnCertificate, client: OwnCertificate) -> (Option<Ended>, u64) {
    let trust = || Trust::new([data!("root.der")], Duration::from_secs(60 * 365 * 24 * 60 * 60)).expect("readable");
    let certificate = Some(ServerCertificate { own: server, clients: Some(trust()) });
    let server = Some(ServerCredentials { certificate, ..Default::default() });
    let mut now = Instant::from_millis(0);
    let mut ends = [Config { server, ..Config::default() }, Config::default()]
        .map(|config| Sessions::new(now, config, [7; 32]).expect("legal settings"));
    let asked = ClientCredentials::certificate(Some(client), trust(), "coap.example").expect("a name");
    ends[1].connect(now, 0, &asked, None).expect("the first one");
    let (mut buffer, mut failed) = (vec![0; BUFFER], None);
    for _ in 0..10 {
        for end in [1, 0] {
            loop {
                match ends[end].poll(now, &mut buffer) {
                    Output::Transmit { len, .. } => ends[1 - end].handle(now, end, &buffer[..len]),
                    Output::Closed { why, .. } if end == 1 => failed = Some(why),
                    Output::Wait(_) => break,
                    _ => {}
                }
            }
        }
        now += Duration::from_secs(10);
    }
    (failed, ends[0].stats().established)
}

#[test]
fn a_certificate_without_its_private_key_is_not_trusted() {
    let (server, client) = ((data!("server.der"), data!("server.key")), (data!("client.der"), data!("client.key")));
    assert_eq!(handshake(shown(server.0, server.1), shown(client.0, client.1)), (None, 1));
    for (servers, clients) in [(client.1, client.1), (server.1, server.1)] {
        let (failed, established) = handshake(shown(server.0, servers), shown(client.0, clients));
        assert!(matches!(failed, Some(Ended::Failed(_))) && established == 0, "{failed:?}");
    }
}

#[test]
fn a_certificate_has_a_subject_and_alternative_names() {
    let pem = include_bytes!("../../../../tools/interop/credentials/client.pem");
    let der = CertificateDer::from_pem_slice(pem).unwrap();
    let names = CertificateNames::of(&der).unwrap();
    assert_eq!(names.subject.as_deref(), Some("CN=client"));
    assert_eq!(names.common_name.as_deref(), Some("client"));
    assert_eq!(names.alternative, ["lamp-7.example"]);
    assert_eq!(CertificateNames::of(&der[1..]), None);
}

//! `Debug` output contains no secrets.

use conche_dtls::{ClientCredentials, Config, OwnCertificate, Secret, ServerCertificate, Trust};

use crate::wire::{Faults, Wire, client, key, known, psk_server};

#[test]
fn debug_output_of_credentials_and_sessions_shows_no_key() {
    let (certificate, private) = (include_bytes!("../data/client.der"), include_bytes!("../data/client.key"));
    let own = OwnCertificate::new(*certificate, Secret::new(*private)).unwrap();
    let trust = Trust::new([&include_bytes!("../data/root.der")[..]], std::time::Duration::ZERO).unwrap();
    let named = ClientCredentials::certificate(Some(own.clone()), trust.clone(), "lamp.example").unwrap();
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    assert!(wire.handshake(&known()));
    let config = Config::default();
    let served = ServerCertificate { own: own.clone(), clients: Some(trust) };
    let sessions = wire.ends.iter().map(|end| format!("{:?}", end.sessions)).collect::<String>();
    let shown = format!("{own:?} {named:?} {served:?} {config:?} {:?} {sessions} {:?}", known(), key());
    // The scalar's OCTET STRING of 32 bytes in SEC1.
    assert_eq!(private[5..7], [4, 32]);
    let private = &private[7..39];
    for secret in [key().expose(), private] {
        let numbers = format!("{:?}", &secret[..8]);
        let digits: String = secret.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        assert!(!shown.contains(numbers.trim_matches(['[', ']'])) && !shown.contains(&digits), "{shown}");
    }
    assert!(!shown.contains("0123456789"), "{shown}");
}

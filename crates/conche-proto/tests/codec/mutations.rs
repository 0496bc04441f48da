//! Mutated messages, too many for regular runs: `cargo test --release -p conche-proto --test codec
//! -- --ignored mutations`.

use conche_proto::codec::Message;

const MUTATIONS: u64 = 1_000_000_000;

/// Every form of option header, empty and long tokens, and payloads.
const MESSAGES: [&[u8]; 6] = [
    b"\x48\x01\x00\x01\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xbb.well-known\x04core\x4ert=temperature",
    b"\x68\x45\x00\x01\x07\x07\x07\x07\x07\x07\x07\x07\x48\xe7\xe7\xe7\xe7\xe7\xe7\xe7\xe7\x81\x32\x21\x1e\xff{\"unit\":\"Cel\"}",
    b"\x42\x03\x01\x02\xaa\xbb\xb1a\x10\xd2\x23\x04\x00\xffhi",
    b"\x40\x01\x00\x02\xb4test\xe0\xfe\xe7",
    b"\x51\x45\x00\x03\x11\xe1\xfc\xdcx\x0d\x03aaaaaaaaaaaaaaaa\xffhello",
    b"\x40\x00\x20\x18",
];

#[test]
#[ignore = "takes minutes, and hours without --release"]
fn mutations_of_messages_never_panic_and_options_stay_inside_their_datagram() {
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let mut buffer = [0; 64];
    let mut well_formed = 0_u64;
    for _ in 0..MUTATIONS {
        let choice = random.next();
        let original = MESSAGES[usize::from(choice[0]) % MESSAGES.len()];
        let datagram = &mut buffer[..original.len()];
        datagram.copy_from_slice(original);
        for change in choice[2..].chunks(2).take(usize::from(choice[1] % 4)) {
            datagram[usize::from(change[0]) % original.len()] = change[1];
        }
        let kept = original.len() - usize::from(choice[1] >> 6) * usize::from(choice[0] >> 5) % original.len();
        let Ok(message) = Message::decode(&datagram[..kept]) else { continue };
        let values: usize = message.options().map(|option| 1 + option.value.len()).sum();
        assert!(4 + message.token().len() + values + message.payload().len() <= kept);
        well_formed += 1;
    }
    println!("{MUTATIONS} mutations, {well_formed} of them well-formed");
    assert!(well_formed > MUTATIONS / 10 && well_formed < MUTATIONS / 10 * 9, "{well_formed}");
}

/// Fast and of low quality (Marsaglia 2003).
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> [u8; 8] {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.to_le_bytes()
    }
}

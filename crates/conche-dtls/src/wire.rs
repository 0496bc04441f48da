//! Parsing before authentication: records (RFC 6347 §4.1) and handshake headers (§4.2.2).

pub(crate) const RECORD_HEADER: usize = 13;
pub(crate) const HANDSHAKE_HEADER: usize = 12;
/// 2^14 bytes of plaintext and 2048 of protection (RFC 5246 §6.2.3).
const LARGEST_FRAGMENT: usize = (1 << 14) + 2048;

/// As in HelloVerifyRequest (RFC 6347 §4.2.1).
pub(crate) const DTLS_1_0: [u8; 2] = [254, 255];
pub(crate) const DTLS_1_2: [u8; 2] = [254, 253];

/// RFC 5246 §6.2.1.
pub(crate) mod content {
    pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const APPLICATION_DATA: u8 = 23;
}

/// RFC 5246 §7.4, RFC 6347 §4.3.2.
pub(crate) mod message {
    pub(crate) const CLIENT_HELLO: u8 = 1;
    pub(crate) const SERVER_HELLO: u8 = 2;
    pub(crate) const HELLO_VERIFY_REQUEST: u8 = 3;
    pub(crate) const CERTIFICATE: u8 = 11;
    pub(crate) const SERVER_KEY_EXCHANGE: u8 = 12;
    pub(crate) const CERTIFICATE_REQUEST: u8 = 13;
    pub(crate) const SERVER_HELLO_DONE: u8 = 14;
    pub(crate) const CERTIFICATE_VERIFY: u8 = 15;
    pub(crate) const CLIENT_KEY_EXCHANGE: u8 = 16;
}

/// RFC 5246 §7.2.
pub(crate) mod alert {
    pub(crate) const HANDSHAKE_FAILURE: u8 = 40;
    pub(crate) const BAD_CERTIFICATE: u8 = 42;
    pub(crate) const DECRYPT_ERROR: u8 = 51;
    pub(crate) const PROTOCOL_VERSION: u8 = 70;
    pub(crate) const INTERNAL_ERROR: u8 = 80;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) content: u8,
    pub(crate) epoch: u16,
    /// 48 bits, within an epoch.
    pub(crate) sequence: u64,
    /// With its header.
    pub(crate) bytes: &'a [u8],
    pub(crate) fragment: &'a [u8],
}

/// Up to the first invalid one.
pub(crate) fn records(mut datagram: &[u8]) -> impl Iterator<Item = Record<'_>> {
    core::iter::from_fn(move || {
        let (record, rest) = record(datagram)?;
        datagram = rest;
        Some(record)
    })
}

fn record(datagram: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let header: &[u8; RECORD_HEADER] = datagram.first_chunk()?;
    let [content, major, minor, e0, e1, s0, s1, s2, s3, s4, s5, l0, l1] = *header;
    let length = usize::from(u16::from_be_bytes([l0, l1]));
    if length > LARGEST_FRAGMENT || ![DTLS_1_0, DTLS_1_2].contains(&[major, minor]) {
        return None;
    }
    let (bytes, rest) = datagram.split_at_checked(RECORD_HEADER + length)?;
    let record = Record {
        content,
        epoch: u16::from_be_bytes([e0, e1]),
        sequence: u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]),
        bytes,
        fragment: &bytes[RECORD_HEADER..],
    };
    Some((record, rest))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake<'a> {
    pub(crate) message: u8,
    pub(crate) length: usize,
    /// Number among its sender's messages.
    pub(crate) number: u16,
    pub(crate) offset: usize,
    pub(crate) body: &'a [u8],
}

/// Up to the first invalid one.
pub(crate) fn handshakes(mut fragment: &[u8]) -> impl Iterator<Item = Handshake<'_>> {
    core::iter::from_fn(move || {
        let header: &[u8; HANDSHAKE_HEADER] = fragment.first_chunk()?;
        let [message, a, b, c, n0, n1, d, e, f, g, h, i] = *header;
        let uint24 = |bytes: [u8; 3]| bytes.into_iter().fold(0, |number, byte| number << 8 | usize::from(byte));
        let end = HANDSHAKE_HEADER + uint24([g, h, i]);
        let body = fragment.get(HANDSHAKE_HEADER..end)?;
        fragment = &fragment[end..];
        let number = u16::from_be_bytes([n0, n1]);
        Some(Handshake { message, length: uint24([a, b, c]), number, offset: uint24([d, e, f]), body })
    })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    /// A vector with a one-byte length.
    pub(crate) fn short(&mut self) -> Option<&'a [u8]> {
        let [length] = *self.array()?;
        self.take(usize::from(length))
    }

    /// A vector with a two-byte length.
    pub(crate) fn long(&mut self) -> Option<&'a [u8]> {
        let length = u16::from_be_bytes(*self.array()?);
        self.take(usize::from(length))
    }
}

/// Writes in epoch 0; returns the length, or 0 if it does not fit.
pub(crate) fn write_record(into: &mut [u8], content: u8, version: [u8; 2], sequence: u64, fragment: &[u8]) -> usize {
    let Ok(length) = u16::try_from(fragment.len()) else { return 0 };
    let Some(whole) = into.get_mut(..RECORD_HEADER + fragment.len()) else { return 0 };
    let [_, _, sequence @ ..] = sequence.to_be_bytes();
    let parts: [&[u8]; 6] = [&[content], &version, &[0, 0], &sequence, &length.to_be_bytes(), fragment];
    let mut at = 0;
    for part in parts {
        whole[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    at
}

pub(crate) fn handshake_header(message: u8, number: u16, length: usize) -> [u8; HANDSHAKE_HEADER] {
    let [n0, n1] = number.to_be_bytes();
    let [.., a, b, c] = length.to_be_bytes();
    [message, a, b, c, n0, n1, 0, 0, 0, a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_records_are_read_back() {
        let mut bytes = [0; 64];
        let mut fragment = handshake_header(message::CLIENT_HELLO, 3, 2).to_vec();
        fragment.extend([7, 8]);
        let len = write_record(&mut bytes, content::HANDSHAKE, DTLS_1_2, 0x0102_0304_0506, &fragment);
        let record = records(&bytes[..len]).next().unwrap();
        assert_eq!((record.content, record.epoch, record.sequence), (content::HANDSHAKE, 0, 0x0102_0304_0506));
        let message = handshakes(record.fragment).next().unwrap();
        assert_eq!((message.message, message.number, message.length, message.offset), (1, 3, 2, 0));
        assert_eq!(message.body, [7, 8]);
    }

    #[test]
    fn a_truncated_record_ends_the_iteration() {
        let mut bytes = [0; 64];
        let first = write_record(&mut bytes, content::ALERT, DTLS_1_2, 1, &[1, 0]);
        let second = first + write_record(&mut bytes[first..], content::ALERT, DTLS_1_2, 2, &[1, 0]);
        assert_eq!(records(&bytes[..second]).count(), 2);
        for cut in 0..second {
            assert_eq!(records(&bytes[..cut]).count(), usize::from(cut >= first));
        }
    }

    #[test]
    fn records_of_another_version_or_an_excessive_length_are_skipped() {
        let mut bytes = [0; 64];
        let len = write_record(&mut bytes, content::ALERT, [3, 3], 1, &[1, 0]);
        assert_eq!(records(&bytes[..len]).count(), 0);
        let mut large = vec![0; 20_000];
        let len = write_record(&mut large, content::ALERT, DTLS_1_2, 1, &[0; LARGEST_FRAGMENT + 1]);
        assert_eq!(records(&large[..len]).count(), 0);
    }
}

//! A second decoder, written after RFC 7252 §3 and RFC 8974 §2.1 for readability.

#[derive(Debug, PartialEq, Eq)]
pub struct Fields {
    pub ty: u8,
    pub code: u8,
    pub id: u16,
    pub token: Vec<u8>,
    pub options: Vec<(u16, Vec<u8>)>,
    pub payload: Vec<u8>,
}

/// `None` if the message is malformed.
pub fn decode(datagram: &[u8], longest: u64) -> Option<Fields> {
    let mut input = datagram.iter().copied();
    let first = input.next()?;
    let (version, ty, token_length) = (first / 64, first / 16 % 4, first % 16);
    let code = input.next()?;
    let id = number(&mut input, 2)?;
    if version != 1 || longest == 8 && token_length > 8 {
        return None;
    }
    let token_length = extended(token_length, &mut input)?;
    let token = take(&mut input, token_length)?;
    let (mut options, mut payload, mut last) = (Vec::new(), Vec::new(), 0);
    while let Some(byte) = input.next() {
        if byte == 0xff {
            payload.extend(input);
            if payload.is_empty() {
                return None;
            }
            break;
        }
        last += extended(byte / 16, &mut input)?;
        let length = extended(byte % 16, &mut input)?;
        options.push((u16::try_from(last).ok()?, take(&mut input, length)?));
    }
    if code == 0 && datagram.len() > 4 {
        return None;
    }
    Some(Fields { ty, code, id: u16::try_from(id).ok()?, token, options, payload })
}

fn extended(nibble: u8, input: &mut impl Iterator<Item = u8>) -> Option<u64> {
    match nibble {
        15 => None,
        14 => Some(269 + number(input, 2)?),
        13 => Some(13 + number(input, 1)?),
        literal => Some(literal.into()),
    }
}

fn number(input: &mut impl Iterator<Item = u8>, bytes: u64) -> Option<u64> {
    Some(take(input, bytes)?.into_iter().fold(0, |number, byte| number * 256 + u64::from(byte)))
}

fn take(input: &mut impl Iterator<Item = u8>, count: u64) -> Option<Vec<u8>> {
    (0..count).map(|_| input.next()).collect()
}

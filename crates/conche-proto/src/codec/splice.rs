//! An option put into a [`Body`] that is encoded already.

use alloc::vec::Vec;

use super::wire::OptionHeader;
use super::{Body, Code, Content, OptionNumber, RawOption, encode_uint};

impl Body {
    /// The same with this option of format uint, in place of what there is of its number. One allocation and one copy;
    /// clones of the answer share it.
    #[must_use]
    pub fn with_uint(&self, number: OptionNumber, value: u32) -> Self {
        let bytes = self.as_bytes();
        // What a builder wrote is well-formed.
        let Ok(content) = Content::decode(Code::CONTENT, 0, bytes) else { return self.clone() };
        let value = encode_uint(value);
        let new = RawOption { number, value: value.as_slice() };
        let mut spliced = Vec::with_capacity(bytes.len() + value.as_slice().len() + 3);
        let mut previous = 0;
        let before = content.options().take_while(|option| option.number < number);
        let behind = content.options().skip_while(|option| option.number <= number);
        for RawOption { number: OptionNumber(number), value } in before.chain([new]).chain(behind) {
            let Some(header) = OptionHeader::new(number - previous, value.len()) else { return self.clone() };
            spliced.extend(header.bytes());
            spliced.extend_from_slice(value);
            previous = number;
        }
        spliced.extend_from_slice(content.behind_options());
        spliced.shrink_to_fit();
        Self::encoded(spliced.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::ContentFormat;

    #[test]
    fn an_option_put_in_stands_where_a_builder_would_have_put_it() {
        let with = |etag: &[u8], observe: Option<u32>, payload: &'static str| {
            let mut body = Body::builder().option(OptionNumber::ETAG, etag).content_format(ContentFormat::JSON);
            if let Some(value) = observe {
                body = body.uint(OptionNumber::OBSERVE, value);
            }
            body.option(OptionNumber(2_000), b"far").payload(payload).build().expect("legal options")
        };
        for payload in ["", "21.5"] {
            for value in [0, 1, 0x1234, 0xff_ffff] {
                let wanted = with(b"tag", Some(value), payload);
                assert_eq!(with(b"tag", None, payload).with_uint(OptionNumber::OBSERVE, value), wanted);
                assert_eq!(with(b"tag", Some(77), payload).with_uint(OptionNumber::OBSERVE, value), wanted);
            }
        }
        assert_eq!(Body::EMPTY.with_uint(OptionNumber::OBSERVE, 7).as_bytes(), b"\x61\x07");
    }
}

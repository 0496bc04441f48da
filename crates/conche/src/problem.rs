//! [`Problem`]: concise problem details for machines and humans (RFC 9290).

use std::convert::Infallible;
use std::fmt;

use conche_proto::codec::Code;
use minicbor::data::{Tag, Type};
use minicbor::decode::Error as DecodeError;
use minicbor::encode::Error as EncodeError;
use minicbor::{Decoder, Encoder};

/// Concise problem details of a response (RFC 9290), with
/// [`ContentFormat::PROBLEM_DETAILS`](crate::ContentFormat::PROBLEM_DETAILS). All standard entries
/// are kept except the base direction.
///
/// Servers return it like any other result; [`Error::Response`](crate::Error::Response) displays
/// it:
///
/// ```
/// use conche::{Code, Problem};
/// use conche::server::{Router, post};
///
/// async fn reserve() -> Result<(), Problem> {
///     Err(Problem::new(Code::CONFLICT, "the room is taken").with_detail("it is free again from 14:00"))
/// }
///
/// let router: Router = Router::new().route("/rooms/5", post(reserve));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Short summary of the kind of problem, equal for each occurrence.
    pub title: Option<String>,
    /// Explanation of this occurrence.
    pub detail: Option<String>,
    /// URI reference that identifies this occurrence.
    pub instance: Option<String>,
    /// Code of the original response, which may have passed proxies.
    pub response_code: Option<Code>,
    /// Base URI of `instance`.
    pub base_uri: Option<String>,
    /// Language of `title` and `detail`, such as `en-GB`.
    pub base_language: Option<String>,
}

const TITLE: i8 = -1;
const DETAIL: i8 = -2;
const INSTANCE: i8 = -3;
const RESPONSE_CODE: i8 = -4;
const BASE_URI: i8 = -5;
const BASE_LANGUAGE: i8 = -6;

const LANGUAGE_TAGGED: Tag = Tag::new(38);

impl Problem {
    /// Returns a problem with this title, for a response with this code.
    #[must_use]
    pub fn new(code: Code, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), response_code: Some(code), ..Self::default() }
    }

    /// Sets the detail.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// Decodes a response's payload. `None` if it is not a CBOR map, or a standard entry has the
    /// wrong type.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        read(&mut Decoder::new(payload)).ok()
    }

    /// Encodes it as a response's payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let _ = self.write(&mut Encoder::new(&mut payload));
        payload
    }

    fn write(&self, encoder: &mut Encoder<&mut Vec<u8>>) -> Result<(), EncodeError<Infallible>> {
        let texts = [
            (TITLE, &self.title),
            (DETAIL, &self.detail),
            (INSTANCE, &self.instance),
            (BASE_URI, &self.base_uri),
            (BASE_LANGUAGE, &self.base_language),
        ];
        let texts = || texts.iter().filter_map(|(key, text)| Some((*key, text.as_deref()?)));
        encoder.map(texts().count() as u64 + u64::from(self.response_code.is_some()))?;
        for (key, text) in texts() {
            encoder.i8(key)?.str(text)?;
        }
        if let Some(code) = self.response_code {
            encoder.i8(RESPONSE_CODE)?.u8(code.0)?;
        }
        Ok(())
    }
}

fn read(decoder: &mut Decoder<'_>) -> Result<Problem, DecodeError> {
    let mut problem = Problem::default();
    let mut entries = decoder.map()?;
    while has_more(decoder, &mut entries)? {
        let key = match decoder.datatype()? {
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => i8::try_from(decoder.i64()?).ok(),
            _ => decoder.skip().map(|()| None)?,
        };
        let entry = match key {
            Some(TITLE) => &mut problem.title,
            Some(DETAIL) => &mut problem.detail,
            Some(INSTANCE) => &mut problem.instance,
            Some(BASE_URI) => &mut problem.base_uri,
            Some(BASE_LANGUAGE) => &mut problem.base_language,
            Some(RESPONSE_CODE) => {
                problem.response_code = Some(Code(decoder.u8()?));
                continue;
            }
            _ => {
                decoder.skip()?;
                continue;
            }
        };
        *entry = Some(text(decoder)?);
    }
    Ok(problem)
}

fn text(decoder: &mut Decoder<'_>) -> Result<String, DecodeError> {
    if decoder.datatype()? != Type::Tag {
        return Ok(decoder.str()?.to_owned());
    }
    if decoder.tag()? != LANGUAGE_TAGGED {
        return Err(DecodeError::message("a text was expected"));
    }
    let mut parts = decoder.array()?;
    let (mut count, mut text) = (0, String::new());
    while has_more(decoder, &mut parts)? {
        match count {
            1 => text = decoder.str()?.to_owned(),
            _ => decoder.skip()?,
        }
        count += 1;
    }
    Ok(text)
}

fn has_more(decoder: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, DecodeError> {
    match left {
        Some(0) => Ok(false),
        Some(left) => {
            *left -= 1;
            Ok(true)
        }
        None if decoder.datatype()? == Type::Break => decoder.skip().map(|()| false),
        None => Ok(true),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.title, &self.detail) {
            (Some(title), Some(detail)) => write!(f, "{title}: {detail}"),
            (Some(text), None) | (None, Some(text)) => f.write_str(text),
            (None, None) => f.write_str("the problem is not described"),
        }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &[u8] = b"\xa3\x20\x6atitle here\x21\x6bdetail here\x22\x6ccoaps://a/b/";

    // RFC 9290 §2 (Q210)
    #[test]
    fn title_detail_and_instance_are_read() {
        let problem = Problem::decode(&EXAMPLE[..EXAMPLE.len() - 1]);
        assert_eq!(problem, None, "truncated");
        let problem = Problem::decode(EXAMPLE).expect("a map of problem details");
        assert_eq!(problem.to_string(), "title here: detail here");
        assert_eq!(problem.instance.as_deref(), Some("coaps://a/b/"));
    }

    // RFC 9290 §2 (Q210)
    #[test]
    fn encoding_and_decoding_round_trip() {
        let full = Problem {
            title: Some("t".into()),
            detail: Some("ü".repeat(300)),
            instance: Some("/x".into()),
            response_code: Some(Code::NOT_FOUND),
            base_uri: Some("coap://h/".into()),
            base_language: Some("de".into()),
        };
        for problem in [full, Problem::default(), Problem::new(Code::CONFLICT, "taken").with_detail("until 14:00")] {
            assert_eq!(Problem::decode(&problem.encode()), Some(problem));
        }
    }

    // RFC 9290 §2 (Q211)
    #[test]
    fn entries_of_others_and_languages_are_passed_over() {
        // {"custom": [1, {2: 3}], -1: 38(["en", "title"]), 1234: {}, -99: 0, -4: 132}, of
        // indefinite length
        let bytes =
            b"\xbf\x66custom\x82\x01\xa1\x02\x03\x20\xd8\x26\x82\x62en\x65title\x19\x04\xd2\xa0\x38\x62\x00\x23\x18\x84\xff";
        let problem = Problem::decode(bytes).expect("a map of problem details");
        assert_eq!((problem.title.as_deref(), problem.response_code), (Some("title"), Some(Code::NOT_FOUND)));
    }

    #[test]
    fn a_malformed_problem_decodes_to_none() {
        for bytes in [&b""[..], b"\x00", b"\x65title", b"\xa1\x20\x01", b"\xa1\x23\x19\x01\x00", b"\xa1\x20\xc1\x01"] {
            assert_eq!(Problem::decode(bytes), None, "{bytes:x?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_payload_makes_the_decoder_panic(payload in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)) {
            let _ = Problem::decode(&payload);
            let _ = Problem::decode(&[&[0xbf], &payload[..]].concat());
        }
    }
}

//! Decodes every datagram of the corpus and compares fields or error with the corpus.

use conche_proto::codec::{DecodeErrorKind, Header, Message, OwnedMessage};
use serde_json::Value;

struct Entry {
    id: String,
    datagram: Vec<u8>,
    decode: Value,
}

// RFC 7252 §3, §4.1 (Q01)
#[test]
fn every_datagram_gets_its_verdict() {
    let entries = entries();
    assert!(entries.len() >= 80, "only {} datagrams found", entries.len());
    for Entry { id, datagram, decode } in entries {
        let message = Message::decode(&datagram);
        let verdict = decode["verdict"].as_str().or(decode.as_str()).expect("a verdict");
        match (verdict, message) {
            ("ok", Ok(message)) => {
                check_header(&id, message.header(), &decode);
                check_content(&id, &message, &decode);
                assert_eq!(OwnedMessage::from(message).view(), message, "{id}");
            }
            ("too_short" | "bad_version", Err(error)) => {
                assert_eq!(error.kind, kind(&decode), "{id}");
                assert_eq!(error.header, None, "{id}: nothing may be answered");
            }
            ("format_error", Err(error)) => {
                assert_eq!(error.kind, kind(&decode), "{id}");
                let header = error.header.expect("a malformed message of version 1 has a header to reject it by");
                check_header(&id, header, &decode);
            }
            (_, outcome) => panic!("{id}: {outcome:?}, but the verdict is {verdict}"),
        }
    }
}

fn check_header(id: &str, header: Header, decode: &Value) {
    let Some(ty) = decode["type"].as_str() else { return };
    assert_eq!(header.ty.to_string(), ty, "{id}");
    assert_eq!(format!("{:?}", header.code), decode["code"], "{id}");
    assert_eq!(format!("{:04x}", header.id.0), decode["mid"], "{id}");
}

fn check_content(id: &str, message: &Message<'_>, decode: &Value) {
    if decode["token"].is_string() {
        assert_eq!(message.token().as_slice(), bytes(&decode["token"]), "{id}");
        assert_eq!(Some(message.token().len() as u64), decode["tkl"].as_u64(), "{id}");
    }
    match &decode["options"] {
        Value::Array(options) => {
            let expected = options.iter().map(|option| (option[0].as_u64(), bytes(&option[1])));
            let found = message.options().map(|option| (Some(option.number.0.into()), option.value.to_vec()));
            assert!(found.eq(expected), "{id}: {message}");
        }
        Value::String(summary) => {
            assert_eq!(format!("({} options)", message.options().count()), *summary, "{id}");
        }
        _ => {}
    }
    match decode["payload"].as_str() {
        Some(summary) if summary.starts_with('(') => {
            assert_eq!(format!("({} bytes)", message.payload().len()), summary, "{id}");
        }
        Some(_) => assert_eq!(message.payload(), bytes(&decode["payload"]), "{id}"),
        None => {}
    }
}

fn kind(decode: &Value) -> DecodeErrorKind {
    match decode["why"].as_str().expect("a reason") {
        "shorter than the 4-byte header" => DecodeErrorKind::TooShort,
        "version != 1" => DecodeErrorKind::Version,
        "Empty message with token or bytes after the MID" => DecodeErrorKind::EmptyWithContent,
        "delta nibble 15" => DecodeErrorKind::OptionDelta,
        "length nibble 15" => DecodeErrorKind::OptionLength,
        "option value truncated" => DecodeErrorKind::OptionTruncated,
        "option number > 65535" => DecodeErrorKind::OptionNumberOverflow,
        "payload marker without payload" => DecodeErrorKind::PayloadMarker,
        why if why.starts_with("TKL ") => DecodeErrorKind::TokenLength,
        why => panic!("unknown reason: {why}"),
    }
}

fn entries() -> Vec<Entry> {
    let corpus = include_str!("../data/malformed-datagrams.json");
    let corpus: Value = serde_json::from_str(corpus).expect("the corpus is JSON");
    let mut entries = Vec::new();
    for entry in corpus["entries"].as_array().expect("the corpus has entries") {
        let id = entry["id"].as_str().expect("an entry has an id");
        let steps = entry["steps"].as_array().into_iter().flatten();
        for datagram in std::iter::once(entry).chain(steps).filter(|datagram| !datagram["decode"].is_null()) {
            let bytes = if datagram["gen"].is_null() { bytes(&datagram["hex"]) } else { generate(&datagram["gen"]) };
            entries.push(Entry { id: id.to_owned(), datagram: bytes, decode: datagram["decode"].clone() });
        }
    }
    entries
}

fn generate(recipe: &Value) -> Vec<u8> {
    let count = recipe["count"].as_u64().and_then(|count| usize::try_from(count).ok()).expect("a count");
    let suffix = if recipe["suffix"].is_null() { Vec::new() } else { bytes(&recipe["suffix"]) };
    [bytes(&recipe["prefix"]), bytes(&recipe["repeat"]).repeat(count), suffix].concat()
}

fn bytes(hexadecimal: &Value) -> Vec<u8> {
    let digits = hexadecimal.as_str().expect("hexadecimal digits").as_bytes();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect()
}

//! CBOR in diagnostic notation (RFC 8949 §8).

use std::fmt::{self, Write};

use ciborium::Value;
use conche::codec::Hexadecimal;

use super::DEEPEST;

/// Maximum columns of an item on one line.
const LINE: usize = 72;

/// Formats one item or a CBOR sequence (RFC 8742). `None` if the bytes are not CBOR or nest too
/// deeply.
pub fn pretty(mut bytes: &[u8]) -> Option<String> {
    let mut out = String::new();
    while !bytes.is_empty() {
        let item = ciborium::de::from_reader_with_recursion_limit(&mut bytes, DEEPEST).ok()?;
        if !out.is_empty() {
            out.push('\n');
        }
        lines(&item, 0, &mut out).ok()?;
    }
    Some(out)
}

fn lines(value: &Value, depth: usize, out: &mut String) -> fmt::Result {
    let mut short = LineWriter { text: String::new(), room: LINE.saturating_sub(2 * depth) };
    if flat(value, &mut short).is_ok() {
        return out.write_str(&short.text);
    }
    let (open, close) = match value {
        Value::Array(_) => ('[', ']'),
        Value::Map(_) => ('{', '}'),
        Value::Tag(tag, value) => {
            write!(out, "{tag}(")?;
            lines(value, depth, out)?;
            return out.write_char(')');
        }
        _ => return flat(value, out),
    };
    let indent = |out: &mut String, depth| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    out.push(open);
    for (at, (key, member)) in members(value).enumerate() {
        if at > 0 {
            out.push(',');
        }
        indent(out, depth + 1);
        if let Some(key) = key {
            flat(key, out)?;
            out.push_str(": ");
        }
        lines(member, depth + 1, out)?;
    }
    indent(out, depth);
    out.write_char(close)
}

fn members(value: &Value) -> impl Iterator<Item = (Option<&Value>, &Value)> {
    let items = value.as_array().into_iter().flatten().map(|item| (None, item));
    items.chain(value.as_map().into_iter().flatten().map(|(key, value)| (Some(key), value)))
}

/// Fails when the line is full, so that formatting stops early.
struct LineWriter {
    text: String,
    room: usize,
}

impl Write for LineWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.room = self.room.checked_sub(text.len()).ok_or(fmt::Error)?;
        self.text.write_str(text)
    }
}

fn flat(value: &Value, out: &mut impl Write) -> fmt::Result {
    match value {
        Value::Integer(number) => write!(out, "{}", i128::from(*number)),
        Value::Bytes(bytes) => write!(out, "h'{}'", Hexadecimal(bytes)),
        Value::Float(number) if number.is_nan() => out.write_str("NaN"),
        Value::Float(number) if number.is_infinite() => {
            out.write_str(if number.is_sign_negative() { "-Infinity" } else { "Infinity" })
        }
        Value::Float(number) => write!(out, "{number:?}"),
        Value::Text(text) => write!(out, "{text:?}"),
        Value::Bool(truth) => write!(out, "{truth}"),
        Value::Null => out.write_str("null"),
        Value::Tag(tag, value) => {
            write!(out, "{tag}(")?;
            flat(value, out)?;
            out.write_char(')')
        }
        Value::Array(_) | Value::Map(_) => {
            let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
            out.write_char(open)?;
            for (at, (key, member)) in members(value).enumerate() {
                if at > 0 {
                    out.write_str(", ")?;
                }
                if let Some(key) = key {
                    flat(key, out)?;
                    out.write_str(": ")?;
                }
                flat(member, out)?;
            }
            out.write_char(close)
        }
        _ => out.write_str("undefined"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_written_as_in_rfc_8949_appendix_a() {
        for (bytes, expected) in [
            (&b"\x18\x64"[..], "100"),
            (b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff", "-18446744073709551616"),
            (b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a", "1.1"),
            (b"\xf9\xfc\x00", "-Infinity"),
            (b"\xf6", "null"),
            (b"\x44\x01\x02\x03\x04", "h'01020304'"),
            (b"\x62\x22\x5c", r#""\"\\""#),
            (b"\xc1\x1a\x51\x4b\x67\xb0", "1(1363896240)"),
            (b"\xa2\x61\x61\x01\x61\x62\x82\x02\x03", r#"{"a": 1, "b": [2, 3]}"#),
            (b"\x9f\x01\x82\x02\x03\xff", "[1, [2, 3]]"),
            (b"\x01\x02", "1\n2"),
        ] {
            assert_eq!(pretty(bytes).as_deref(), Some(expected), "{bytes:02x?}");
        }
    }

    #[test]
    fn long_cbor_gets_a_line_per_member() {
        let mut bytes = Vec::new();
        let long = "x".repeat(70);
        ciborium::into_writer(&vec![("key", vec![&*long, "y"])], &mut bytes).expect("it can be written");
        let expected = format!("[\n  [\n    \"key\",\n    [\n      \"{long}\",\n      \"y\"\n    ]\n  ]\n]");
        assert_eq!(pretty(&bytes), Some(expected));
    }

    #[test]
    fn malformed_cbor_is_not_formatted() {
        for bytes in [&b"\x82\x01"[..], b"\xff", b"\x01\xff"] {
            assert_eq!(pretty(bytes), None, "{bytes:02x?}");
        }
    }

    #[test]
    fn too_deep_input_is_not_formatted() {
        let nested = |depth| [vec![0x81; depth], vec![1]].concat();
        let deepest = (1..).take_while(|depth| pretty(&nested(*depth)).is_some()).last();
        assert!(deepest.is_some_and(|depth| depth.abs_diff(DEEPEST) <= 1), "{deepest:?}");
        assert_eq!(pretty(&nested(100_000)), None);
    }

    #[test]
    fn trying_a_line_ends_where_it_is_full() {
        let mut short = LineWriter { text: String::new(), room: LINE };
        let long = Value::Array(vec![Value::Bytes(vec![0; 1 << 20])]);
        assert!(flat(&long, &mut short).is_err());
        assert!(short.text.len() <= LINE && short.text.starts_with("[h'0000"), "{}", short.text);
    }
}

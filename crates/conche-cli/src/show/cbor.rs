//! CBOR in diagnostic notation (RFC 8949 §8).

use ciborium::Value;

/// What fits into so many columns stays in one line.
const LINE: usize = 72;

/// One item or, as CBOR sequences have them (RFC 8742), several, each from a new line on. `None` if it is no CBOR.
pub fn pretty(mut bytes: &[u8]) -> Option<String> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        let item: Value = ciborium::from_reader(&mut bytes).ok()?;
        items.push(lines(&item, 0));
    }
    Some(items.join("\n"))
}

/// In one line if that is short enough, and otherwise a line for each member.
fn lines(value: &Value, depth: usize) -> String {
    let short = flat(value);
    if short.len() + 2 * depth <= LINE {
        return short;
    }
    let members: Vec<String> = match value {
        Value::Array(items) => items.iter().map(|item| lines(item, depth + 1)).collect(),
        Value::Map(pairs) => {
            pairs.iter().map(|(key, value)| format!("{}: {}", flat(key), lines(value, depth + 1))).collect()
        }
        Value::Tag(tag, value) => return format!("{tag}({})", lines(value, depth)),
        _ => return short,
    };
    let (open, close) = if matches!(value, Value::Array(_)) { ('[', ']') } else { ('{', '}') };
    let indent = "  ".repeat(depth);
    let members: Vec<String> = members.iter().map(|member| format!("{indent}  {member}")).collect();
    format!("{open}\n{}\n{indent}{close}", members.join(",\n"))
}

fn flat(value: &Value) -> String {
    match value {
        Value::Integer(number) => i128::from(*number).to_string(),
        Value::Bytes(bytes) => format!("h'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        Value::Float(number) if number.is_nan() => "NaN".to_owned(),
        Value::Float(number) if number.is_infinite() => {
            if number.is_sign_negative() { "-Infinity" } else { "Infinity" }.to_owned()
        }
        Value::Float(number) => format!("{number:?}"),
        Value::Text(text) => format!("{text:?}"),
        Value::Bool(truth) => truth.to_string(),
        Value::Null => "null".to_owned(),
        Value::Tag(tag, value) => format!("{tag}({})", flat(value)),
        Value::Array(items) => format!("[{}]", items.iter().map(flat).collect::<Vec<_>>().join(", ")),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}: {}", flat(key), flat(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        _ => "undefined".to_owned(),
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
    fn what_is_long_gets_a_line_for_each_member() {
        let mut bytes = Vec::new();
        let long = "x".repeat(70);
        ciborium::into_writer(&vec![("key", vec![&*long, "y"])], &mut bytes).expect("it can be written");
        let expected = format!("[\n  [\n    \"key\",\n    [\n      \"{long}\",\n      \"y\"\n    ]\n  ]\n]");
        assert_eq!(pretty(&bytes), Some(expected));
    }

    #[test]
    fn what_is_no_cbor_is_left_to_others() {
        for bytes in [&b"\x82\x01"[..], b"\xff", b"\x01\xff"] {
            assert_eq!(pretty(bytes), None, "{bytes:02x?}");
        }
        assert_eq!(pretty(&[0x81; 100_000]), None, "too deep");
    }
}

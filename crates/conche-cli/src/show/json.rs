//! Pretty-prints JSON by indenting the original text, so that order, numbers and escapes stay
//! unchanged.

use serde::de::IgnoredAny;

use super::DEEPEST;

/// Returns a line per member. `None` if the text is not JSON or nests too deeply to indent.
pub fn pretty(text: &str) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut out = Indented::default();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                out.text.push('"');
                out.copy_string(&mut characters);
            }
            '{' | '[' => {
                out.text.push(character);
                while characters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.text.push(end),
                    None if out.depth == DEEPEST => return None,
                    None => out.open(),
                }
            }
            '}' | ']' => out.close(character),
            ',' => {
                out.text.push(',');
                out.line();
            }
            ':' => out.text.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => out.text.push(other),
        }
    }
    Some(out.text)
}

#[derive(Default)]
struct Indented {
    text: String,
    depth: usize,
}

impl Indented {
    fn open(&mut self) {
        self.depth += 1;
        self.line();
    }

    fn close(&mut self, end: char) {
        self.depth = self.depth.saturating_sub(1);
        self.line();
        self.text.push(end);
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }

    /// Copies the rest of a string, closing quotation mark included.
    fn copy_string(&mut self, characters: &mut impl Iterator<Item = char>) {
        while let Some(character) = characters.next() {
            self.text.push(character);
            match character {
                '\\' => self.text.extend(characters.next()),
                '"' => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_lines_and_keep_order_numbers_and_strings() {
        let text = r#" {"z":1.0e3,"a":[1,{"b\"}":"x, \\"}], "e":{} ,"f":[ ]}"#;
        let expected = r#"{
  "z": 1.0e3,
  "a": [
    1,
    {
      "b\"}": "x, \\"
    }
  ],
  "e": {},
  "f": []
}"#;
        assert_eq!(pretty(text).as_deref(), Some(expected));
    }

    #[test]
    fn malformed_json_is_not_formatted() {
        for text in ["", "{", "hello", "[1,]", "{} {}"] {
            assert_eq!(pretty(text), None, "{text}");
        }
    }

    #[test]
    fn too_deep_input_is_not_formatted() {
        let nested = |depth| "[".repeat(depth) + "1" + &"]".repeat(depth);
        assert_eq!(pretty(&nested(DEEPEST)).map(|text| text.lines().count()), Some(2 * DEEPEST + 1));
        assert_eq!(pretty(&nested(DEEPEST + 1)), None);
        assert_eq!(pretty(&nested(100_000)), None);
    }
}

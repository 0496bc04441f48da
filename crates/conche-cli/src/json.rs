//! Prints JSON on standard output: one object per line.

use std::io::{self, Write};

use serde::Serialize;

/// Prints an object and flushes, for scripts that wait for it.
pub fn print(object: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write(object, &mut out)?;
    out.flush()
}

/// Writes an object as a line. Also escapes the control characters that JSON permits (DEL and C1),
/// so that a peer cannot send control sequences to the terminal.
pub fn write(object: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    let json = serde_json::to_string(object)?;
    for part in json.split_inclusive(char::is_control) {
        let control = part.chars().next_back().filter(|last| last.is_control());
        match control.and_then(|control| Some((part.strip_suffix(control)?, control))) {
            Some((text, control)) => write!(out, "{text}\\u{:04x}", u32::from(control))?,
            None => out.write_all(part.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_of_a_peer_is_in_the_json() {
        let mut json = Vec::new();
        write(&["\x1b \x7f \u{9b} \u{fc}", "\u{9b}"], &mut json).expect("it can be written");
        assert_eq!(json, "[\"\\u001b \\u007f \\u009b \u{fc}\",\"\\u009b\"]\n".as_bytes());
    }
}

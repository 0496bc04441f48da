//! Command lines of programs for `conche emulate`.

/// Quotes an argument for a shell, with doubled braces for `conche emulate`.
#[must_use]
pub fn quoted(argument: &str) -> String {
    format!("'{}'", argument.replace('\'', r"'\''").replace('{', "{{").replace('}', "}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_and_the_emulator_leave_an_argument_as_it_is() {
        assert_eq!(quoted("/a b/*"), "'/a b/*'");
        assert_eq!(quoted("it's {x}"), r"'it'\''s {{x}}'");
    }
}

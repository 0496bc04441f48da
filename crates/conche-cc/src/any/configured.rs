//! Algorithms configured by name, such as `cocoa:weak_k=4`, and the errors of such a text.

use core::fmt;

use super::named::Source;
use super::{AnyController, Controllers, Named, UnknownController};
use crate::parameters::{Description, Parameters, SettingError, Value, nearest};

impl AnyController {
    /// Iterates over the parameters and their values.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static Description, Value)> + '_ {
        (0..).map_while(|index| self.parameter(index))
    }
}

impl Named {
    /// Returns the algorithm with production defaults and these settings, such as
    /// `weak_k=1,max_rto=30s`.
    ///
    /// # Errors
    ///
    /// If a setting has no `=`, an unknown name, or an invalid value. The text lists all
    /// parameters.
    pub fn configured(&self, settings: &str) -> Result<AnyController, ParameterError> {
        let mut controller = self.controller();
        for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            self.set(&mut controller, name.trim(), value)?;
        }
        Ok(controller)
    }

    /// Sets a parameter of `controller`.
    ///
    /// # Errors
    ///
    /// As [`Self::configured`].
    pub fn set(&self, controller: &mut AnyController, name: &str, value: &str) -> Result<(), ParameterError> {
        controller.set(name, value).map_err(|problem| {
            let mut asked = Short::default();
            asked.push(name);
            if matches!(problem, SettingError::Invalid(_)) {
                asked.push(" = ");
                asked.push(value.trim());
            }
            ParameterError { source: self.source.clone(), asked, problem }
        })
    }
}

impl Controllers {
    /// Returns the controller that `text` names and configures: `cocoa`, or
    /// `cocoa:weak_k=1,max_rto=30s`.
    ///
    /// ```
    /// use conche_cc::AnyController;
    /// use conche_cc::any::Controllers;
    /// use conche_cc::cocoa::Cocoa;
    ///
    /// let (_, controller) = Controllers::default().configured("cocoa:weak_k=4")?;
    /// assert_eq!(controller, AnyController::from(Cocoa { weak_k: 4, ..Cocoa::default() }));
    /// # Ok::<(), conche_cc::any::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the name, a parameter or a value is unknown.
    pub fn configured(&self, text: &str) -> Result<(&Named, AnyController), ConfigurationError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let named = self.by_name(name.trim())?;
        Ok((named, named.configured(settings)?))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Short {
    bytes: [u8; 48],
    len: usize,
}

impl Default for Short {
    fn default() -> Self {
        Self { bytes: [0; 48], len: 0 }
    }
}

impl Short {
    fn push(&mut self, text: &str) {
        let room = self.bytes.len() - self.len;
        let len = (0..=room.min(text.len())).rev().find(|len| text.is_char_boundary(*len)).unwrap_or(0);
        self.bytes[self.len..self.len + len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
    }

    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

/// An unknown parameter, or an invalid value.
#[derive(Clone, Debug)]
pub struct ParameterError {
    source: Source,
    asked: Short,
    problem: SettingError,
}

impl PartialEq for ParameterError {
    fn eq(&self, other: &Self) -> bool {
        (self.source.name(), self.asked, self.problem) == (other.source.name(), other.asked, other.problem)
    }
}

impl Eq for ParameterError {}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, asked) = (self.source.name(), self.asked.as_str());
        let controller = self.source.controller();
        match self.problem {
            SettingError::Unknown => {
                write!(f, "{name} has no parameter `{asked}`")?;
                let known = controller.parameters().map(|(known, _)| known.name);
                if let Some(nearest) = nearest(asked, known) {
                    write!(f, "; did you mean {nearest}?")?;
                } else {
                    f.write_str(".")?;
                }
            }
            SettingError::Invalid(Description { range, .. }) => {
                write!(f, "{name}: `{asked}` is invalid; valid is {range}.")?;
            }
        }
        let mut all = controller.parameters().peekable();
        f.write_str(if all.peek().is_some() { " Its parameters: " } else { " It has no parameters" })?;
        all.enumerate().try_for_each(|(n, (Description { name, range, .. }, value))| {
            if n > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{name} ({range}; default {value})")
        })
    }
}

impl core::error::Error for ParameterError {}

/// Reasons against the text of a configured controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// The name is unknown.
    Controller(UnknownController),
    /// A parameter is unknown, or its value invalid.
    Parameter(ParameterError),
}

impl From<UnknownController> for ConfigurationError {
    fn from(error: UnknownController) -> Self {
        Self::Controller(error)
    }
}

impl From<ParameterError> for ConfigurationError {
    fn from(error: ParameterError) -> Self {
        Self::Parameter(error)
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller(error) => error.fmt(f),
            Self::Parameter(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConfigurationError {}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};

    use super::*;
    use crate::temper::Temper;
    use crate::units::Factor;

    fn configured(text: &str) -> Result<AnyController, String> {
        Controllers::default().configured(text).map(|(_, controller)| controller).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_follow_the_name() {
        let expected = Temper { grace: 0, usual_losses: Factor::HALF, ..Temper::default() };
        assert_eq!(configured("temper: grace=0, usual-losses=0.5"), Ok(expected.into()));
        assert_eq!(configured("temper"), Ok(Temper::default().into()));
    }

    #[test]
    fn an_unknown_parameter_is_answered_with_all_of_them() {
        let error = configured("basic:max_rtos=1s").expect_err("no such parameter");
        let expected = "basic has no parameter `max_rtos`; did you mean max_rto? Its parameters: \
                        ack_timeout (1ms to 60s; default 2s), ack_random_factor (1 to 10; default 1.5), \
                        max_rto (1s to 65s; default 60s)";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_value_out_of_range_is_answered_with_the_range() {
        let error = configured("cocoa:weak_k=65").expect_err("too large");
        assert!(error.starts_with("cocoa: `weak_k = 65` is invalid; valid is 0 to 64. Its parameters: "), "{error}");
        let error = configured("cocoa:weak_k").expect_err("no value");
        assert!(error.starts_with("cocoa: `weak_k = ` is invalid"), "{error}");
        assert!(configured("tamper:grace=1").expect_err("no such name").contains("did you mean temper?"));
    }
}

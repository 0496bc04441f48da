//! [`Given`]: an argument, and whether somebody has typed it.

use std::ffi::OsStr;

use clap::builder::{PathBufValueParser, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, Command};

/// A value that was typed, or else comes from the environment.
#[derive(Clone, Debug)]
pub struct Given<T> {
    pub value: T,
    pub is_typed: bool,
}

/// Reads a value as another parser does, and keeps where it comes from.
#[derive(Clone, Debug)]
pub struct Source<P>(P);

/// A text.
pub fn text() -> Source<StringValueParser> {
    Source(StringValueParser::new())
}

/// The path of a file.
pub fn path() -> Source<PathBufValueParser> {
    Source(PathBufValueParser::new())
}

impl<P> TypedValueParser for Source<P>
where
    P: TypedValueParser,
    P::Value: Send + Sync + Clone,
{
    type Value = Given<P::Value>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<Self::Value, Error> {
        let value = self.0.parse_ref(command, arg, value)?;
        Ok(Given { value, is_typed: source == ValueSource::CommandLine })
    }
}

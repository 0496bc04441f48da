//! [`TypedArg`]: the value of an argument, and whether it was typed.

use std::ffi::OsStr;

use clap::builder::{PathBufValueParser, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, Command};

/// A value from the command line or from the environment.
#[derive(Clone, Debug)]
pub struct TypedArg<T> {
    pub value: T,
    pub is_typed: bool,
}

/// A parser that also records the source of the value.
#[derive(Clone, Debug)]
pub struct Source<P>(P);

/// A parser of text.
pub fn text() -> Source<StringValueParser> {
    Source(StringValueParser::new())
}

/// A parser of file paths.
pub fn path() -> Source<PathBufValueParser> {
    Source(PathBufValueParser::new())
}

impl<P> TypedValueParser for Source<P>
where
    P: TypedValueParser,
    P::Value: Send + Sync + Clone,
{
    type Value = TypedArg<P::Value>;

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
        Ok(TypedArg { value, is_typed: source == ValueSource::CommandLine })
    }
}

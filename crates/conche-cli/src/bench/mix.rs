//! Reads a file of weighted requests; its keys are named like the arguments.

use std::path::{Path, PathBuf};

use conche::codec::BodyBuilder;
use conche::{OptionNumber, Uri};
use conche_bench::Kind;
use conche_lab::units::Size;
use serde::Deserialize;

use super::{filling, options, parse_method};
use crate::error::{UsageError, unreadable};
use crate::formats;
use crate::option;
use crate::request::Message;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mix {
    request: Vec<Request>,
}

/// One `[[request]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default = "one")]
    weight: u32,
    #[serde(default = "get")]
    method: String,
    /// Path and query, from the root of the server.
    path: String,
    payload: Option<String>,
    payload_file: Option<PathBuf>,
    payload_size: Option<Size>,
    content_format: Option<Format>,
    accept: Option<Format>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default, rename = "type")]
    kind: Type,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Format {
    Number(u16),
    Name(String),
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Type {
    #[default]
    Con,
    Non,
}

fn one() -> u32 {
    1
}

fn get() -> String {
    "get".to_owned()
}

/// Reads the requests of a file. The arguments in `all` also apply to each of them.
pub(super) fn read(file: &Path, uri: &Uri, all: &Message) -> anyhow::Result<Vec<Kind>> {
    let text = std::fs::read_to_string(file).map_err(unreadable(file))?;
    let wrong = |error: String| UsageError(format!("{}: {}", file.display(), error.trim_end()));
    let mix: Mix = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let kinds = mix.request.into_iter().map(|request| {
        let path = request.path.clone();
        request.kind(uri, directory, all).map_err(|error| wrong(format!("the request of {path}: {error:#}")).into())
    });
    kinds.collect()
}

impl Request {
    fn kind(self, server: &Uri, directory: &Path, all: &Message) -> anyhow::Result<Kind> {
        let method = parse_method(&self.method).map_err(UsageError::of)?;
        if !self.path.starts_with('/') {
            return Err(UsageError("a path begins with /".to_owned()).into());
        }
        let uri: Uri = format!("{}{}", authority(server.as_str()), self.path).parse()?;
        let format = |format: Format| match format {
            Format::Number(number) => Ok(number),
            Format::Name(name) => formats::parse(&name).map(|format| format.0).map_err(UsageError::of),
        };
        let mut builder: BodyBuilder = options(all);
        if let Some(accept) = self.accept {
            builder = builder.uint(OptionNumber::ACCEPT, format(accept)?.into());
        }
        if let Some(content) = self.content_format {
            builder = builder.uint(OptionNumber::CONTENT_FORMAT, format(content)?.into());
        }
        for text in &self.options {
            let option = option::parse(text).map_err(UsageError::of)?;
            builder = builder.option(option.number, &option.value);
        }
        let payload = match (self.payload, self.payload_file, self.payload_size) {
            (None, None, None) => Vec::new(),
            (Some(text), None, None) => text.into_bytes(),
            (None, Some(file), None) => {
                let file = directory.join(file);
                std::fs::read(&file).map_err(unreadable(&file))?
            }
            (None, None, Some(size)) => filling(size)?,
            _ => {
                let problem = "only one of payload, payload_file and payload_size can be given";
                return Err(UsageError(problem.to_owned()).into());
            }
        };
        let non = all.properties.non || matches!(self.kind, Type::Non);
        let kind = Kind::new(method, &uri, builder.payload(payload))?.with(non);
        Ok(Kind { weight: self.weight, ..kind })
    }
}

fn authority(uri: &str) -> &str {
    let start = uri.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = uri[start..].find(['/', '?']).map_or(uri.len(), |length| start + length);
    &uri[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_ends_before_path_and_query() {
        for uri in ["coap://[::1]:5683", "coap://[::1]:5683/", "coap://[::1]:5683/a/b", "coap://[::1]:5683?x"] {
            assert_eq!(authority(uri), "coap://[::1]:5683");
        }
    }
}

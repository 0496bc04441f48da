//! Names of content formats.

use conche::ContentFormat;

use crate::error::ArgumentError;

/// Number, registered media type, and short name.
const FORMATS: &[(u16, &str, &str)] = &[
    (0, "text/plain; charset=utf-8", "text"),
    (40, "application/link-format", "link-format"),
    (41, "application/xml", "xml"),
    (42, "application/octet-stream", "octet-stream"),
    (47, "application/exi", "exi"),
    (50, "application/json", "json"),
    (51, "application/json-patch+json", "json-patch"),
    (52, "application/merge-patch+json", "merge-patch"),
    (60, "application/cbor", "cbor"),
    (63, "application/cbor-seq", "cbor-seq"),
    (110, "application/senml+json", "senml+json"),
    (112, "application/senml+cbor", "senml+cbor"),
    (257, "application/concise-problem-details+cbor", "problem"),
    (11542, "application/vnd.oma.lwm2m+tlv", "lwm2m+tlv"),
    (11543, "application/vnd.oma.lwm2m+json", "lwm2m+json"),
    (11544, "application/vnd.oma.lwm2m+cbor", "lwm2m+cbor"),
];

/// Parses a number, a media type or a short name.
pub fn parse(text: &str) -> Result<ContentFormat, ArgumentError> {
    if let Ok(number) = text.parse() {
        return Ok(ContentFormat(number));
    }
    let found = FORMATS.iter().find(|(_, media, short)| {
        let media_without_parameters = media.split(';').next().unwrap_or(media);
        [media, media_without_parameters, short].into_iter().any(|name| name.eq_ignore_ascii_case(text))
    });
    found
        .map(|(number, ..)| ContentFormat(*number))
        .ok_or_else(|| ArgumentError::ContentFormat(FORMATS.iter().map(|(_, _, short)| *short).collect()))
}

/// Returns the media type of a format.
pub fn name(format: u32) -> Option<&'static str> {
    FORMATS.iter().find(|(number, ..)| u32::from(*number) == format).map(|(_, media, _)| *media)
}

pub fn short_name(format: u32) -> Option<&'static str> {
    FORMATS.iter().find(|(number, ..)| u32::from(*number) == format).map(|(.., short)| *short)
}

/// Syntax that can be pretty-printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Json,
    Cbor,
    Links,
    Other,
}

pub fn syntax(format: ContentFormat) -> Syntax {
    match name(format.0.into()) {
        Some(name) if name.contains("json") => Syntax::Json,
        Some(name) if name.contains("cbor") => Syntax::Cbor,
        Some(_) if format == ContentFormat::LINK_FORMAT => Syntax::Links,
        _ => Syntax::Other,
    }
}

pub fn of_extension(extension: &str) -> Option<ContentFormat> {
    let number = match extension.to_ascii_lowercase().as_str() {
        "txt" | "md" | "csv" | "log" => 0,
        "wlnk" => 40,
        "xml" => 41,
        "bin" => 42,
        "exi" => 47,
        "json" => 50,
        "cbor" => 60,
        "senml" => 110,
        "senmlc" => 112,
        _ => return None,
    };
    Some(ContentFormat(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_number_media_type_and_short_name() {
        for text in ["50", "application/json", "JSON"] {
            assert_eq!(parse(text), Ok(ContentFormat::JSON), "{text}");
        }
        assert_eq!(parse("text/plain"), Ok(ContentFormat::TEXT_PLAIN));
        assert_eq!(parse("65535"), Ok(ContentFormat(65535)));
        assert!(parse("65536").is_err_and(|error| error.to_string().contains("0 to 65535")));
        assert!(parse("jsn").is_err());
    }
}

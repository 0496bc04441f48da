//! Names of content formats.

use conche::ContentFormat;

use crate::error::ArgumentError;

/// Short names of frequent formats. Those of others are their media types without `application/`
/// and parameters.
const SHORT_NAMES: &[(ContentFormat, &str)] = &[
    (ContentFormat::TEXT_PLAIN, "text"),
    (ContentFormat::JSON_PATCH, "json-patch"),
    (ContentFormat::MERGE_PATCH, "merge-patch"),
    (ContentFormat::PROBLEM_DETAILS, "problem"),
    (ContentFormat::LWM2M_TLV, "lwm2m+tlv"),
    (ContentFormat::LWM2M_JSON, "lwm2m+json"),
    (ContentFormat::LWM2M_CBOR, "lwm2m+cbor"),
];

/// Names that the error for an unknown one proposes.
const PROPOSED: &[ContentFormat] = &[
    ContentFormat::TEXT_PLAIN,
    ContentFormat::LINK_FORMAT,
    ContentFormat::XML,
    ContentFormat::OCTET_STREAM,
    ContentFormat::JSON,
    ContentFormat::CBOR,
    ContentFormat::SENML_JSON,
    ContentFormat::SENML_CBOR,
    ContentFormat::LWM2M_TLV,
    ContentFormat::LWM2M_JSON,
    ContentFormat::PROBLEM_DETAILS,
];

/// Parses a number, a media type or a short name.
pub fn parse(text: &str) -> Result<ContentFormat, ArgumentError> {
    if let Ok(number) = text.parse() {
        return Ok(ContentFormat(number));
    }
    let short = SHORT_NAMES.iter().find(|(_, short)| short.eq_ignore_ascii_case(text)).map(|(format, _)| *format);
    short
        .or_else(|| ContentFormat::by_media_type(text))
        .or_else(|| ContentFormat::by_media_type(&format!("application/{text}")))
        .ok_or_else(|| {
            let number = |format: &ContentFormat| u32::from(format.0);
            ArgumentError::ContentFormat(PROPOSED.iter().filter_map(|format| short_name(number(format))).collect())
        })
}

/// Returns the media type of a format.
pub fn name(format: u32) -> Option<&'static str> {
    ContentFormat(u16::try_from(format).ok()?).media_type()
}

pub fn short_name(format: u32) -> Option<&'static str> {
    let format = ContentFormat(u16::try_from(format).ok()?);
    if let Some((_, short)) = SHORT_NAMES.iter().find(|(named, _)| *named == format) {
        return Some(short);
    }
    let media_type = format.media_type()?;
    let short = media_type.strip_prefix("application/").unwrap_or(media_type);
    let is_unique = ContentFormat::by_media_type(media_type) == Some(format) && !short.contains(';');
    Some(if is_unique { short } else { media_type })
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
        assert_eq!(parse("lwm2m+tlv"), Ok(ContentFormat::LWM2M_TLV));
        assert_eq!(parse("application/vnd.oma.lwm2m+json"), Ok(ContentFormat::LWM2M_JSON));
        assert_eq!(parse("senml-etch+cbor"), Ok(ContentFormat::SENML_ETCH_CBOR));
        assert_eq!(parse("image/png"), Ok(ContentFormat::PNG));
        assert!(parse("65536").is_err_and(|error| error.to_string().contains("0 to 65535")));
        assert!(parse("jsn").is_err_and(|error| error.to_string().contains("lwm2m+json")));
    }

    #[test]
    fn the_short_name_of_a_format_without_coding_selects_it() {
        for format in ContentFormat::REGISTERED.iter().filter(|format| format.content_coding().is_none()) {
            let short = short_name(format.0.into()).expect("it is registered");
            assert_eq!(parse(short), Ok(*format), "{short}");
        }
    }
}

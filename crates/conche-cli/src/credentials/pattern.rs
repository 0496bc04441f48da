//! [`Pattern`]: URIs that an entry of `conche.toml` applies to.

use std::cmp::Ordering;

use conche::Uri;
use conche::uri::{Host, UriError};

/// A URI in which `*` matches the host or its leading labels, the port, or the rest of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    secured: bool,
    hosts: Hosts,
    port: Option<u16>,
    path: Path,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    One(Host),
    Below(String),
    Any,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Path {
    One(Vec<String>),
    Below(Vec<String>),
}

/// Why a pattern is refused.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error(transparent)]
    Uri(#[from] UriError),
    #[error("credentials are for a path and not for a query: leave away what begins with ?")]
    Query,
    #[error("in a host a * stands for all of it, or for what is before a dot, as in *.example.org")]
    Host,
    #[error("in a path a * stands for all that follows, as in /lamps/*")]
    Path,
}

impl Pattern {
    pub fn read(text: &str) -> Result<Self, PatternError> {
        let (uri, any_port) = without_port(text);
        let uri: Uri = uri.parse()?;
        if !uri.queries().is_empty() {
            return Err(PatternError::Query);
        }
        let hosts = match uri.host() {
            Host::Name(name) if name == "*" => Hosts::Any,
            Host::Name(name) => match name.strip_prefix('*') {
                Some(end) if end.starts_with('.') && !end.contains('*') && end.len() > 1 => {
                    Hosts::Below(without_root(end).to_owned())
                }
                None if !name.contains('*') => Hosts::One(canonical(uri.host())),
                _ => return Err(PatternError::Host),
            },
            host => Hosts::One(canonical(host)),
        };
        let path = match uri.segments() {
            // An empty path equals /.
            [] => Path::Below(Vec::new()),
            [above @ .., last] if last == "*" => Path::Below(above.to_vec()),
            all => Path::One(all.to_vec()),
        };
        let (Path::One(segments) | Path::Below(segments)) = &path;
        if segments.iter().any(|segment| segment.contains('*')) {
            return Err(PatternError::Path);
        }
        Ok(Self { secured: uri.is_secured(), hosts, port: (!any_port).then_some(uri.port()), path })
    }

    pub fn is_secured(&self) -> bool {
        self.secured
    }

    pub fn matches(&self, uri: &Uri) -> bool {
        let host = match (&self.hosts, canonical(uri.host())) {
            (Hosts::Any, _) => true,
            // An address without a zone matches it in any zone.
            (Hosts::One(Host::Address(one)), Host::Scoped { address, .. }) => *one == address,
            (Hosts::One(one), host) => *one == host,
            (Hosts::Below(end), Host::Name(name)) => name.len() > end.len() && name.ends_with(end.as_str()),
            (Hosts::Below(_), _) => false,
        };
        let path = match &self.path {
            Path::One(segments) => segments == uri.segments(),
            Path::Below(above) => uri.segments().starts_with(above),
        };
        let port = self.port.is_none_or(|port| port == uri.port());
        host && port && path && self.secured == uri.is_secured()
    }

    /// Compares the specificity of two patterns that match the same URI: host, then port, then
    /// path.
    pub fn cmp_specificity(&self, other: &Self) -> Ordering {
        self.specificity().cmp(&other.specificity())
    }

    fn specificity(&self) -> (usize, bool, usize) {
        let host = match &self.hosts {
            Hosts::One(Host::Scoped { .. }) => usize::MAX,
            Hosts::One(_) => usize::MAX - 1,
            Hosts::Below(end) => end.len(),
            Hosts::Any => 0,
        };
        let path = match &self.path {
            Path::One(_) => usize::MAX,
            Path::Below(above) => above.len(),
        };
        (host, self.port.is_some(), path)
    }
}

/// Maps IPv4-mapped IPv6 to IPv4, and removes a final dot.
fn canonical(host: &Host) -> Host {
    match host {
        Host::Address(address) => Host::Address(address.to_canonical()),
        Host::Name(name) => Host::Name(without_root(name).to_owned()),
        other => other.clone(),
    }
}

fn without_root(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn without_port(text: &str) -> (String, bool) {
    let start = text.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = text[start..].find('/').map_or(text.len(), |length| start + length);
    match text[start..end].strip_suffix(":*") {
        Some(host) => (format!("{}{host}{}", &text[..start], &text[end..]), true),
        None => (text.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::read(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_star_stands_for_hosts_ports_and_the_rest_of_a_path_and_for_nothing_else() {
        for (text, all, none) in [
            (
                "coaps://*/*",
                &["coaps://a.b/c", "coaps://[::1]/", "coaps://10.0.0.1"][..],
                &["coap://a", "coaps://a:7"][..],
            ),
            ("coaps://*:*", &["coaps://a.b:7/c", "coaps://a"], &["coap://a"]),
            ("coap://127.0.0.1", &["coap://[::ffff:127.0.0.1]/"], &["coap://[::1]/"]),
            ("coap://[::ffff:127.0.0.1]", &["coap://127.0.0.1/"], &["coap://[::1]/"]),
            (
                "coaps://*.example.org/*",
                &["coaps://a.example.org", "coaps://A.B.Example.ORG/c"],
                &[
                    "coaps://example.org",
                    "coaps://.example.org",
                    "coaps://badexample.org",
                    "coaps://a.example.org.evil",
                ],
            ),
            (
                "coaps://a",
                &["coaps://a", "coaps://a:5684/x", "coaps://a./"],
                &["coaps://a:5683", "coaps://b", "coaps://a.b"],
            ),
            ("coap://[fe80::1]", &["coap://[fe80::1%25eth0]", "coap://[fe80::1]"], &["coap://[fe80::2%25eth0]"]),
            ("coap://[fe80::1%25eth0]", &["coap://[fe80::1%25eth0]"], &["coap://[fe80::1]", "coap://[fe80::1%25eth1]"]),
            ("coaps://a.b.", &["coaps://a.b", "coaps://A.B."], &["coaps://b", "coaps://a.b.."]),
            ("coaps://*.b.", &["coaps://a.b", "coaps://a.b."], &["coaps://b."]),
            ("coap://a:5683/", &["coap://a/x/y"], &["coaps://a:5683/x"]),
            ("coap://a/x/*", &["coap://a/x", "coap://a/x/y/z", "coap://a/x/"], &["coap://a/xy", "coap://a/"]),
            ("coap://a/x", &["coap://a/x", "coap://a/%78?q"], &["coap://a/x/", "coap://a/x/y"]),
            ("coaps://[2001:DB8::1]", &["coaps://[2001:db8:0::1]/"], &["coaps://[2001:db8::2]"]),
        ] {
            for (uris, expected) in [(all, true), (none, false)] {
                for uri in uris {
                    let parsed: Uri = uri.parse().unwrap_or_else(|error| panic!("{uri}: {error}"));
                    assert_eq!(pattern(text).matches(&parsed), expected, "{text} {uri}");
                }
            }
        }
    }

    #[test]
    fn ambiguous_uri_patterns_are_refused() {
        for text in [
            "example.org",
            "http://a",
            "coaps://a*",
            "coaps://*a",
            "coaps://*.",
            "coaps://a.*",
            "coaps://*.*.org",
            "coaps://a/*/b",
            "coaps://a/b*",
            "coaps://a/b?c",
            "coaps://a:0",
            "coaps://:*",
            "coaps://127.1",
            "coaps://0x7f000001:*",
            "coaps://*.1",
            "",
        ] {
            assert!(Pattern::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn specificity_compares_host_before_port_before_path() {
        let in_order = [
            "coaps://*:*/*",
            "coaps://*:*/a/*",
            "coaps://*",
            "coaps://*/a",
            "coaps://*.org:*",
            "coaps://*.example.org:*",
            "coaps://a.example.org:*/a",
            "coaps://a.example.org",
            "coaps://a.example.org/a/*",
            "coaps://a.example.org/a",
        ];
        for pair in in_order.windows(2) {
            assert_eq!(pattern(pair[0]).cmp_specificity(&pattern(pair[1])), Ordering::Less, "{pair:?}");
        }
        assert_eq!(pattern("coaps://A/"), pattern("coaps://a:5684/*"));
    }
}

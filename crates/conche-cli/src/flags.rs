//! Arguments with one meaning in all subcommands, listed in the README.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use conche::client::ClientRole;
use conche::uri::Host;
use conche::{Builder, ContentFormat, Error, Uri};
use conche_lab::units::Span;

use crate::error::{ArgumentError, UsageError};
use crate::formats;
use crate::option::{self, RawOption};

/// How long to wait for a response.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Timeout {
    /// Give up after this time, retransmissions included
    #[arg(short = 'B', long, value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
}

/// How many to wait for.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Count {
    /// Stop after this many
    #[arg(short = 'n', long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..), help_heading = None::<&str>)]
    pub count: Option<u64>,
}

/// The client's own address, and its reaction to ICMP errors.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Endpoint {
    /// Send from this address, and port if given
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_local)]
    bind: Option<SocketAddr>,
    /// Keep retransmitting to an unreachable peer
    ///
    /// Without it, a request fails at the first ICMP error, for example while a server restarts.
    #[arg(long)]
    retry_unreachable: bool,
}

/// Properties of a request.
#[derive(Debug, clap::Args)]
pub struct Properties {
    /// Send Non-confirmable messages: once, unacknowledged
    #[arg(short = 'N', long)]
    pub non: bool,
    /// Content format to request: number, media type or short name
    #[arg(short = 'A', long, value_name = "FORMAT", value_parser = formats::parse)]
    pub accept: Option<ContentFormat>,
    /// Content format of the payload
    #[arg(short = 't', long, value_name = "FORMAT", value_parser = formats::parse)]
    pub content_format: Option<ContentFormat>,
    /// Add an option by number; 0x begins hexadecimal; repeatable
    #[arg(short = 'O', long = "option", value_name = "NUM,VALUE", value_parser = option::parse)]
    pub options: Vec<RawOption>,
}

impl Endpoint {
    /// Configures a client.
    pub fn of(&self, builder: Builder<ClientRole>) -> Builder<ClientRole> {
        let builder = builder.retry_unreachable(self.retry_unreachable);
        match self.bind {
            Some(local) => builder.bind(local),
            None => builder,
        }
    }

    /// Refuses the unspecified address, and a link-local one without an interface.
    pub fn check_destination(&self, uri: &str) -> anyhow::Result<()> {
        let uri: Uri = uri.parse().map_err(Error::from)?;
        let problem = match uri.host() {
            Host::Address(IpAddr::V4(address)) if address.is_unspecified() => {
                "0.0.0.0 is no destination; try 127.0.0.1".to_owned()
            }
            Host::Address(IpAddr::V6(address)) if address.is_unspecified() => {
                "[::] is no destination; try [::1]".to_owned()
            }
            // A socket that is bound to a link-local address has its interface.
            Host::Address(IpAddr::V6(address)) if address.is_unicast_link_local() && self.bind.is_none() => {
                let scheme = if uri.is_secured() { "coaps" } else { "coap" };
                format!("a link-local address needs an interface, as in {scheme}://[{address}%eth0]/")
            }
            _ => return Ok(()),
        };
        Err(UsageError(problem).into())
    }
}

/// Parses a time above 0: seconds, as for libcoap and ping, or a number with a unit.
pub fn parse_time(text: &str) -> Result<Duration, ArgumentError> {
    parse_time_or_0(text).and_then(|span| if span.is_zero() { Err(ArgumentError::Seconds) } else { Ok(span) })
}

pub fn parse_time_or_0(text: &str) -> Result<Duration, ArgumentError> {
    let span = match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => Span::from_str(text).ok().map(|Span(span)| span),
    };
    span.ok_or(ArgumentError::Seconds)
}

/// A missing port is 0.
pub fn parse_local(text: &str) -> Result<SocketAddr, ArgumentError> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = || inner.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    text.parse().or_else(|_| address()).map_err(|_| ArgumentError::LocalAddress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_need_no_unit_and_may_have_one() {
        for (text, span) in [("5", 5_000), ("0.5", 500), ("500ms", 500), ("2min", 120_000)] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(span)), "{text}");
        }
        for wrong in ["0", "-1", "0s", "1e30", "NaN", "5 apples", ""] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_destination_is_an_address_of_a_host_on_a_known_interface() {
        let refusal = |uri, bind: Option<&str>| {
            let bind = bind.map(|bind| parse_local(bind).expect("an address"));
            let endpoint = Endpoint { bind, retry_unreachable: false };
            endpoint.check_destination(uri).err().map(|error| error.to_string())
        };
        for (uri, text) in [
            ("coap://0.0.0.0/", "0.0.0.0 is no destination; try 127.0.0.1"),
            ("coap://[::]/", "[::] is no destination; try [::1]"),
            ("coap://[fe80::1]/", "a link-local address needs an interface, as in coap://[fe80::1%eth0]/"),
        ] {
            assert_eq!(refusal(uri, None).as_deref(), Some(text), "{uri}");
        }
        for uri in ["coap://127.0.0.1/", "coap://[::1]/", "coap://[fe80::1%lo]/", "coap://localhost/"] {
            assert_eq!(refusal(uri, None), None, "{uri}");
        }
        assert_eq!(refusal("coap://[fe80::1]/", Some("[fe80::2%1]:0")), None);
    }

    #[test]
    fn a_local_address_may_have_a_port() {
        for (text, address) in [("127.0.0.1:7", "127.0.0.1:7"), ("::1", "[::1]:0"), ("[::1]", "[::1]:0")] {
            assert_eq!(parse_local(text), Ok(address.parse().expect("an address")), "{text}");
        }
        for wrong in ["localhost", "[::1", "::1]"] {
            assert!(parse_local(wrong).is_err(), "{wrong}");
        }
    }
}

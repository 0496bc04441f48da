//! The programs on nodes, as the scenario and `--node` name them, and their commands' placeholders.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::error::{ArgumentError, UsageError};

/// Nodes, and the program on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// A reference such as `client` or `client[0..3]`.
    pub nodes: String,
    pub program: Program,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// Started for each node, by a shell.
    Command(String),
    /// A client that runs already.
    External,
    /// A server that runs already, at this address.
    Listening(SocketAddr),
}

impl Program {
    /// Returns whether it is a server: one that runs already, or a command with a `{bind}`.
    pub fn is_server(&self) -> bool {
        match self {
            Self::Command(command) => {
                parts(command).any(|part| matches!(part, Part::Name(name) if name.split('.').next() == Some("bind")))
            }
            Self::External => false,
            Self::Listening(_) => true,
        }
    }
}

impl FromStr for Program {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.parse() {
            Ok(address) => Self::Listening(address),
            Err(_) if text == "external" => Self::External,
            Err(_) => Self::Command(text.to_owned()),
        })
    }
}

/// Returns whether a text is rather an address than a command: a single word `HOST:PORT` or an IP
/// address.
fn resembles_address(text: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = |host: &str| !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
    text.parse::<IpAddr>().is_ok() || text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port))
}

impl FromStr for Assignment {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        let example = "client=coap-client -m get coap://{server}/";
        let (nodes, program) = text.split_once('=').ok_or(ArgumentError::Assignment(example))?;
        let (nodes, program) = (nodes.trim(), program.trim());
        if nodes.is_empty() || program.is_empty() {
            return Err(ArgumentError::Assignment(example));
        }
        match program.parse().unwrap_or(Program::External) {
            Program::Command(text) if resembles_address(&text) => Err(ArgumentError::ProgramAddress),
            program => Ok(Self { nodes: nodes.to_owned(), program }),
        }
    }
}

enum Part<'a> {
    Text(&'a str),
    /// The inner text of braces.
    Name(&'a str),
}

/// Splits a command at placeholders. `${` of the shell is text, and `{{` an opening brace.
fn parts(command: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = command;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if rest.starts_with("{{") || rest.starts_with("}}") {
            let (brace, behind) = (&rest[..1], &rest[2..]);
            rest = behind;
            return Some(Part::Text(brace));
        }
        if let Some((name, behind)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            rest = behind;
            return Some(Part::Name(name));
        }
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let end = if rest.starts_with("${") { 2 } else { first };
        let next = rest[end..].find(['{', '}', '$']).map_or(rest.len(), |next| next + end);
        let (text, behind) = rest.split_at(next);
        rest = behind;
        Some(Part::Text(text))
    })
}

/// Replaces the placeholders `{index}`, `{bind}` and names of nodes such as `{server}`; `.host` and
/// `.port` select a part of an address.
///
/// # Errors
/// If `address` has none for a name: its error.
pub fn expanded(
    command: &str,
    index: usize,
    mut address: impl FnMut(&str) -> Result<SocketAddr, UsageError>,
) -> Result<String, UsageError> {
    let mut text = String::new();
    for part in parts(command) {
        let name = match part {
            Part::Text(part) => {
                text += part;
                continue;
            }
            Part::Name("index") => {
                text += &index.to_string();
                continue;
            }
            Part::Name(name) => name,
        };
        text += &match name.rsplit_once('.') {
            Some((nodes, "host")) => address(nodes)?.ip().to_string(),
            Some((nodes, "port")) => address(nodes)?.port().to_string(),
            _ => address(name)?.to_string(),
        };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(name: &str) -> Result<SocketAddr, UsageError> {
        match name {
            "server" => Ok(SocketAddr::from(([127, 9, 0, 4], 5683))),
            "server[2]" => Ok(SocketAddr::from(([127, 9, 0, 6], 5700))),
            "bind" => Ok(SocketAddr::from(([127, 9, 0, 1], 7000))),
            _ => Err(UsageError(format!("unknown {name}"))),
        }
    }

    #[test]
    fn placeholders_are_replaced_and_braces_of_the_shell_stay() {
        let expand = |command: &str| expanded(command, 7, address).map_err(|error| error.to_string());
        assert_eq!(expand("get coap://{server}/{index}").as_deref(), Ok("get coap://127.9.0.4:5683/7"));
        assert_eq!(expand("-A {bind.host} -p {bind.port}").as_deref(), Ok("-A 127.9.0.1 -p 7000"));
        assert_eq!(expand("{server[2]} {server[2].port}").as_deref(), Ok("127.9.0.6:5700 5700"));
        assert_eq!(expand("echo ${HOME} $X awk '{{print}}' ü {").as_deref(), Ok("echo ${HOME} $X awk '{print}' ü {"));
        assert_eq!(expand("{sever}").map_err(|error| error.clone()), Err("unknown sever".to_owned()));
    }

    #[test]
    fn an_assignment_names_nodes_and_a_command_an_address_or_an_external_program() {
        let read = |text: &str| text.parse::<Assignment>().map(|assignment| (assignment.nodes, assignment.program));
        let command = Program::Command("curl 'a=b'".to_owned());
        assert_eq!(read("client[0..3]=curl 'a=b'"), Ok(("client[0..3]".to_owned(), command)));
        assert_eq!(read("client = external"), Ok(("client".to_owned(), Program::External)));
        let address = SocketAddr::from(([127, 0, 0, 1], 5683));
        assert_eq!(read("server=127.0.0.1:5683"), Ok(("server".to_owned(), Program::Listening(address))));
        assert!(read("client").is_err() && read("=x").is_err() && read("client=").is_err());
        for address in ["localhost:5683", "127.0.0.1:99999", "127.0.0.1", "::1"] {
            assert_eq!(read(&format!("server={address}")), Err(ArgumentError::ProgramAddress), "{address}");
        }
        assert!(read("server=./a:1").is_ok() && read("server=run a:1").is_ok());
    }

    #[test]
    fn a_program_with_a_place_to_bind_is_a_server() {
        let is_server = |text: &str| text.parse::<Program>().is_ok_and(|program| program.is_server());
        assert!(is_server("serve --bind {bind}") && is_server("serve -p {bind.port}") && is_server("127.0.0.1:1"));
        assert!(!is_server("get {server}") && !is_server("external") && !is_server("{{bind}}"));
    }
}

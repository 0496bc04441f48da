//! `conche playground [DIR]`: serves the lab as a web page on this machine.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::error::UsageError;
use crate::http::{self, Response};
use crate::runtime;
use crate::serve::parse_bind;

/// File that only a playground has.
const PROGRAM: &str = "conche-playground.wasm";

const TYPES: [(&str, &str); 4] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("wasm", "application/wasm"),
];

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory that `cargo xtask playground` has written.
    ///
    /// Any web server can serve its files.
    #[arg(value_name = "DIR", default_value = "target/playground")]
    directory: PathBuf,
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = parse_bind)]
    bind: String,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let Args { directory, bind } = args;
    if !directory.join(PROGRAM).is_file() {
        let problem = format!(
            "{} has no {PROGRAM}: `cargo xtask playground` writes it, in a checkout of conche; or name its directory",
            directory.display()
        );
        return Err(UsageError(problem).into());
    }
    runtime::run(&runtime::start()?, async {
        let listener = http::listen(&bind).await?;
        let address = listener.local_addr().context("the socket has no address")?;
        writeln!(io::stdout().lock(), "the playground is at http://{address}/")?;
        let answer = move |line: String| {
            let response = response(&directory, &line);
            async move { response }
        };
        match http::serve(&listener, answer).await {}
    })
}

/// Returns a file of the directory, never of another.
fn response(directory: &Path, request: &str) -> Response {
    let missing = || Response {
        status: "404 Not Found",
        content_type: "text/plain; charset=utf-8",
        body: b"the playground has no such file\n".to_vec(),
    };
    let Some(target) = request.strip_prefix("GET /").and_then(|rest| rest.split([' ', '?']).next()) else {
        return missing();
    };
    let name = if target.is_empty() { "index.html" } else { target };
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let content_type = TYPES.iter().find(|(of, _)| is_plain && Some(*of) == extension).map(|(_, name)| *name);
    let body = content_type.and_then(|of| Some((of, std::fs::read(directory.join(name)).ok()?)));
    body.map_or_else(missing, |(content_type, body)| Response::ok(content_type, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_directory_are_served() {
        let directory = tempfile::tempdir().expect("a directory");
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).expect("a directory");
        std::fs::write(directory.path().join("secret.html"), "secret").expect("written");
        std::fs::write(inner.join("index.html"), "page").expect("written");
        let of = |line: &str| response(&inner, line);
        for line in ["GET / HTTP/1.1", "GET /index.html HTTP/1.1", "GET /?a#b HTTP/1.1"] {
            let Response { status, content_type, body } = of(line);
            assert_eq!(
                (status, content_type, &body[..]),
                ("200 OK", "text/html; charset=utf-8", &b"page"[..]),
                "{line}"
            );
        }
        for line in ["GET /../secret.html HTTP/1.1", "GET /x.js HTTP/1.1", "POST / HTTP/1.1", "GET //etc/x.html", ""] {
            assert_eq!(of(line).status, "404 Not Found", "{line}");
        }
    }
}

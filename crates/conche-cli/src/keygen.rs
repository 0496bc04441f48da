//! `conche keygen`: random keys, for `coaps` and for OSCORE.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::Global;
use crate::exit::UsageError;
use crate::json;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write the key to this file, which only its owner may read, instead of standard output. A file that is there stays as it is.
    #[arg(short, long, value_name = "FILE", conflicts_with = "oscore")]
    output: Option<PathBuf>,
    /// Write credentials for OSCORE, as libcoap reads them, too: NAME-client.conf for the client, NAME-server.conf for the server.
    #[arg(long, value_name = "NAME")]
    oscore: Option<PathBuf>,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Made {
        schema: u32,
        key: String,
    }
    let secret = random::<16>()?;
    if let Some(name) = &args.oscore {
        return pair(name, &secret, global);
    }
    let key = format!("0x{secret}");
    match &args.output {
        Some(file) => write_new(file, &format!("{key}\n")),
        None if global.json => Ok(json::print(&Made { schema: 1, key })?),
        None => Ok(writeln!(io::stdout(), "{key}")?),
    }
}

/// Writes the credentials of both ends.
fn pair(name: &Path, secret: &str, global: &Global) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Made {
        schema: u32,
        client: PathBuf,
        server: PathBuf,
    }
    // A server tells its many clients apart by their IDs, and a client its servers by theirs.
    let ids = (random::<4>()?, random::<4>()?);
    let [client, server] = ["client", "server"].map(|end| {
        let mut file = name.as_os_str().to_owned();
        file.push(format!("-{end}.conf"));
        PathBuf::from(file)
    });
    let credentials = |sender: &str, recipient: &str| {
        let [secret, sender, recipient] =
            [("master_secret", secret), ("sender_id", sender), ("recipient_id", recipient)]
                .map(|(keyword, digits)| format!("{keyword},hex,\"{digits}\"\n"));
        secret + &sender + &recipient
    };
    write_new(&client, &credentials(&ids.0, &ids.1))?;
    if let Err(error) = write_new(&server, &credentials(&ids.1, &ids.0)) {
        // One is good for nothing.
        let _ = fs::remove_file(&client);
        return Err(error);
    }
    if global.json {
        return Ok(json::print(&Made { schema: 1, client, server })?);
    }
    Ok(writeln!(io::stdout(), "{}\n{}", client.display(), server.display())?)
}

/// So many random bytes, as hexadecimal digits.
fn random<const BYTES: usize>() -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other).context("the operating system has no random numbers")?;
    Ok(bytes.iter().fold(String::new(), |mut digits, byte| {
        // Text takes what is written.
        let _ = write!(digits, "{byte:02x}");
        digits
    }))
}

/// Writes a secret to a file that is not there yet and that nobody else may read.
fn write_new(file: &Path, secret: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(file).and_then(|mut opened| opened.write_all(secret.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            UsageError(format!("{} is there already, and may be in use: name another file", file.display())).into()
        }
        _ => anyhow::Error::new(error).context(format!("{} cannot be written", file.display())),
    })
}

//! `conche keygen`: random keys for `coaps`, OSCORE and EDHOC.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use conche::codec::Hexadecimal;
use conche::edhoc::{Credential, OwnCredential, generate};
use serde::Serialize;

use crate::Global;
use crate::error::UsageError;
use crate::json;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write the key to this new file.
    ///
    /// Readable by its owner only. An existing file is an error.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["oscore", "edhoc"])]
    output: Option<PathBuf>,
    /// Write OSCORE credentials for client and server.
    ///
    /// NAME-client.conf and NAME-server.conf, in libcoap's format.
    #[arg(long, value_name = "NAME", conflicts_with = "edhoc")]
    oscore: Option<PathBuf>,
    /// Write EDHOC credentials for client and server.
    ///
    /// NAME-client.toml and NAME-server.toml. EDHOC derives OSCORE keys.
    #[arg(long, value_name = "NAME")]
    edhoc: Option<PathBuf>,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Made {
        schema: u32,
        key: String,
    }
    if let Some(name) = &args.edhoc {
        return parties(name, global);
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

fn parties(name: &Path, global: &Global) -> anyhow::Result<()> {
    let subject = name.file_name().unwrap_or_default().to_string_lossy();
    let [client, server] = ["client", "server"].map(|end| -> anyhow::Result<OwnCredential> {
        let key = generate()?;
        // Key IDs of one byte would probably collide among some twenty.
        let mut kid = [0; 4];
        getrandom::fill(&mut kid).map_err(io::Error::other).context("the operating system has no random numbers")?;
        let credential = Credential::of(&key, &kid, &format!("{subject}-{end}"));
        let credential =
            credential.map_err(|error| UsageError(format!("{}: {error}: name it shorter", name.display())))?;
        Ok(OwnCredential::new(key, credential)?)
    });
    let (client, server) = (client?, server?);
    let contents = |own: &OwnCredential, other: &OwnCredential| {
        format!(
            "# Keys of EDHOC (RFC 9528): who has private_key is {:?}.\nprivate_key = \"{}\"\ncredential = \"{}\"\npeers = [\"{}\"]\n",
            own.credential().subject().unwrap_or_default(),
            Hexadecimal(&*own.key().to_bytes()),
            Hexadecimal(own.credential().as_slice()),
            Hexadecimal(other.credential().as_slice()),
        )
    };
    both(name, "toml", [&contents(&client, &server), &contents(&server, &client)], global)
}

fn pair(name: &Path, secret: &str, global: &Global) -> anyhow::Result<()> {
    // A server distinguishes its clients by them, and a client its servers.
    let ids = (random::<4>()?, random::<4>()?);
    let credentials = |sender: &str, recipient: &str| {
        let [secret, sender, recipient] =
            [("master_secret", secret), ("sender_id", sender), ("recipient_id", recipient)]
                .map(|(keyword, digits)| format!("{keyword},hex,\"{digits}\"\n"));
        secret + &sender + &recipient
    };
    both(name, "conf", [&credentials(&ids.0, &ids.1), &credentials(&ids.1, &ids.0)], global)
}

fn both(name: &Path, extension: &str, contents: [&str; 2], global: &Global) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Made {
        schema: u32,
        client: PathBuf,
        server: PathBuf,
    }
    let [client, server] = ["client", "server"].map(|end| {
        let mut file = name.as_os_str().to_owned();
        file.push(format!("-{end}.{extension}"));
        PathBuf::from(file)
    });
    write_new(&client, contents[0])?;
    if let Err(error) = write_new(&server, contents[1]) {
        // One file without the other is useless.
        let _ = fs::remove_file(&client);
        return Err(error);
    }
    if global.json {
        return Ok(json::print(&Made { schema: 1, client, server })?);
    }
    Ok(writeln!(io::stdout(), "{}\n{}", client.display(), server.display())?)
}

fn random<const BYTES: usize>() -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other).context("the operating system has no random numbers")?;
    Ok(Hexadecimal(&bytes).to_string())
}

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

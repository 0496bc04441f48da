//! The conche client of `cargo xtask interop`: executes commands from standard input
//! (tools/interop/README.md).

use std::error::Error;
use std::future::pending;
use std::io::stdin;
use std::path::Path;

use conche::client::{Observation, RequestBuilder, Response};
use conche::codec::BlockSize;
use conche::oscore::Keys;
use conche::security::{OwnCertificate, Roots, Secret};
use conche::{Client, Code, OptionNumber, Token};
use tokio::sync::mpsc::unbounded_channel;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const BODY_LIMIT: usize = 1 << 20;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let client = match &arguments[..] {
        [] => Client::builder().body_limit(BODY_LIMIT).block_size(block_size()?).build()?,
        [mode, directory] => secured(mode, Path::new(directory))?,
        _ => return Err("either no argument was expected, or MODE and DIRECTORY".into()),
    };
    let (sender, mut lines) = unbounded_channel();
    // A read of standard input cannot be cancelled, so its thread ends with the process.
    std::thread::spawn(move || {
        stdin().lines().map_while(std::result::Result::ok).try_for_each(|line| sender.send(line))
    });
    let mut observation = None;
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { return Ok(()) };
                if let Err(error) = obey(&client, &line, &mut observation).await {
                    println!("failed {error}");
                }
            }
            state = next(&mut observation) => match state {
                Some(Ok(state)) => tell("notified", &state),
                Some(Err(error)) => println!("failed {error}"),
                None => observation = None,
            }
        }
    }
}

/// The value of `BLOCK_SIZE`, by default 1024.
fn block_size() -> Result<BlockSize> {
    let Ok(bytes) = std::env::var("BLOCK_SIZE") else { return Ok(BlockSize::default()) };
    let bytes: usize = bytes.parse()?;
    Ok(BlockSize::fitting(bytes).ok_or("a block has 16 bytes or more")?)
}

fn secured(mode: &str, directory: &Path) -> Result<Client> {
    let builder = Client::builder().body_limit(BODY_LIMIT);
    let read = |name: &str| std::fs::read(directory.join(name));
    let builder = match mode {
        "psk" => {
            let line = String::from_utf8(read("psk")?)?;
            let (identity, key) =
                line.trim_end().split_once(':').ok_or("IDENTITY:KEY was expected")?;
            builder.psk(identity, Secret::new(key))?
        }
        "certificate" => builder.roots(Roots::from_pem(&read("ca.pem")?)?),
        "mutual" => {
            let own = OwnCertificate::from_pem(&read("client.pem")?, &read("client.key")?)?;
            builder.roots(Roots::from_pem(&read("ca.pem")?)?).certificate(own)
        }
        "oscore" => builder.oscore(Keys::open(directory.join("oscore-client"))?),
        _ => return Err(format!("there is no mode {mode}").into()),
    };
    Ok(builder.build()?)
}

async fn obey(client: &Client, line: &str, observation: &mut Option<Observation>) -> Result<()> {
    let words: Vec<_> = line.split(' ').collect();
    match words[..] {
        ["ping", uri] => {
            client.ping(uri).await?;
            println!("response pong");
        }
        ["stop", "get"] => observation.take().ok_or("nothing is observed")?.cancel().await?,
        ["stop", "reset"] => observation.take().ok_or("nothing is observed")?.forget(),
        [reliability, method, uri, ref rest @ ..] => {
            let (request, observes) = request(client, method, uri, rest)?;
            let request = if reliability == "NON" { request.non() } else { request };
            if observes {
                let first = observation.insert(request.observe()).next().await.ok_or("no state")?;
                tell("response", &first?);
            } else {
                tell("response", &request.await?);
            }
        }
        _ => return Err(format!("{line:?} is nothing to do").into()),
    }
    Ok(())
}

fn request(
    client: &Client,
    method: &str,
    uri: &str,
    words: &[&str],
) -> Result<(RequestBuilder, bool)> {
    const METHODS: [Code; 7] =
        [Code::GET, Code::POST, Code::PUT, Code::DELETE, Code::FETCH, Code::PATCH, Code::IPATCH];
    let method = METHODS
        .into_iter()
        .find(|code| code.description() == Some(method))
        .ok_or("there is no such method")?;
    let (mut request, mut observes) = (client.request(method, uri), false);
    for word in words {
        request = match word.split_once('=').ok_or("NAME=VALUE was expected")? {
            ("payload", digits) => request.bytes(bytes(digits)?),
            ("token", digits) => {
                request.token(Token::new(&bytes(digits)?).ok_or("a token has at most 8 bytes")?)
            }
            ("option", option) => {
                let (number, digits) = option.split_once(':').ok_or("NUMBER:VALUE was expected")?;
                let (number, value) = (OptionNumber(number.parse()?), bytes(digits)?);
                if number == OptionNumber::OBSERVE && value.is_empty() {
                    observes = true;
                    continue;
                }
                request.option(number, &value)
            }
            (name, _) => return Err(format!("there is no {name}").into()),
        };
    }
    Ok((request, observes))
}

async fn next(
    observation: &mut Option<Observation>,
) -> Option<std::result::Result<Response, conche::Error>> {
    match observation {
        Some(observation) => observation.next().await,
        None => pending().await,
    }
}

fn tell(what: &str, response: &Response) {
    let payload: String = response.payload().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{what} {:?} {payload}", response.code());
}

fn bytes(digits: &str) -> Result<Vec<u8>> {
    let pairs = (0..digits.len())
        .step_by(2)
        .map(|at| digits.get(at..at + 2).ok_or("pairs of digits were expected"));
    pairs.map(|pair| Ok(u8::from_str_radix(pair?, 16)?)).collect()
}

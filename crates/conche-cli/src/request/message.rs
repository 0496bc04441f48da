//! Arguments shared by all commands that send requests.

use clap::Args;
use conche::ContentFormat;
use conche::codec::BlockSize;

use super::option::{self, RawOption};
use super::payload;
use crate::formats;

#[derive(Debug, Args)]
// Payload and blocks have groups of their own.
#[group(skip)]
pub struct Message {
    /// Send as Non-confirmable: once, without an acknowledgement.
    #[arg(short = 'N', long)]
    pub non: bool,
    /// The content format that the response shall have: number, media type or short name.
    #[arg(short = 'A', long, value_name = "FORMAT", value_parser = formats::parse)]
    pub accept: Option<ContentFormat>,
    /// The payload's content format: number, media type or short name.
    #[arg(short = 't', long, value_name = "FORMAT", value_parser = formats::parse)]
    pub content_format: Option<ContentFormat>,
    #[command(flatten)]
    pub payload: payload::Args,
    /// Send and ask for a body in blocks of so many bytes: 16, 32, 64, 128, 256, 512 or 1024. By default only what does not
    /// fit into a message goes in blocks, of 1024 bytes. Bodies may have 16 MiB, those from and to files more.
    #[arg(short, long = "block", value_name = "SIZE", value_parser = option::parse_block)]
    pub block: Option<BlockSize>,
    /// Send and fetch large bodies in bursts of Non-confirmable messages (Q-Block, RFC 9177), or in
    /// blocks if the server refuses that. Cannot be combined with -N: a server without Q-Block
    /// refuses only Confirmable messages.
    #[arg(long, conflicts_with = "non")]
    pub q_block: bool,
    /// Add an option by number; the value is text, or bytes if it begins with 0x. May be repeated.
    #[arg(short = 'O', long = "option", value_name = "NUM,VALUE", value_parser = option::parse)]
    pub options: Vec<RawOption>,
}

//! Evaluates the options of a request in one pass: whether the request is acceptable, its block
//! options, and unwanted responses.

use alloc::format;
use alloc::string::String;

use crate::PeerKey;
use crate::blockwise::Asked;
use crate::codec::{Block, Code, Message, NoResponse, OptionNumber, RawOption};
use crate::incoming::Keeping;
use crate::layers::Layers;
use crate::security::Security;
use crate::server::Server;
use conche_cc::Controller;

/// The error and diagnostic for a refused request.
type Refusal = (Code, &'static str);

/// The evaluated options of an acceptable request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOptions {
    pub(crate) asked: Asked,
    pub(crate) unwanted: NoResponse,
    pub(crate) keeping: Keeping,
}

/// The results of a pass over the options.
#[derive(Default)]
struct OptionsPass {
    /// The endpoint handles Q-Block options.
    in_sets: bool,
    plain: bool,
    asked: Asked,
    /// The request has options that do not identify the body.
    apart: bool,
    no_response: bool,
    refusal: Option<Refusal>,
}

impl OptionsPass {
    #[inline]
    fn pass(&mut self, option: RawOption<'_>) {
        self.apart |= is_apart(option.number);
        match option.number {
            OptionNumber::PROXY_URI | OptionNumber::PROXY_SCHEME => {
                self.refusal = self.refusal.or(Some((Code::PROXYING_NOT_SUPPORTED, "this is no proxy")));
            }
            number @ (OptionNumber::BLOCK1 | OptionNumber::BLOCK2) => self.pass_block(number, option.value),
            OptionNumber::Q_BLOCK1 | OptionNumber::Q_BLOCK2 if !self.plain => {
                self.refusal = self.refusal.or(Some((Code::BAD_OPTION, "Q-Block does not go with OSCORE here")));
            }
            number @ (OptionNumber::Q_BLOCK1 | OptionNumber::Q_BLOCK2) if self.in_sets => {
                self.pass_block(number, option.value);
            }
            OptionNumber::NO_RESPONSE => self.no_response = true,
            _ => {}
        }
    }

    /// Handles a block option; of several Q-Block2 options, only the first is used here.
    fn pass_block(&mut self, number: OptionNumber, value: &[u8]) {
        // RFC 7959 §2.2: the reserved size "MUST lead to a 4.00".
        const RESERVED: Refusal = (Code::BAD_REQUEST, "the size exponent 7 of blocks is reserved");
        const MIXED: Refusal = (Code::BAD_OPTION, "Block and Q-Block options do not go together");
        match Block::decode(value) {
            Err(_) => self.refusal = self.refusal.or(Some(RESERVED)),
            Ok(_) if self.asked.would_mix(number) => self.refusal = self.refusal.or(Some(MIXED)),
            Ok(_) if number == OptionNumber::Q_BLOCK2 && self.asked.q_block2().is_some() => {}
            Ok(block) => self.asked.set(number, block),
        }
    }
}

/// Returns `true` for options that do not identify the requested body: block options, options that
/// are not part of the cache key (RFC 7252 §5.4.2), and Observe, because the blocks of an observed
/// state are requested without it (RFC 7959 §2.6).
const fn is_apart(number: OptionNumber) -> bool {
    use OptionNumber as N;
    matches!(number, N::BLOCK1 | N::BLOCK2 | N::Q_BLOCK1 | N::Q_BLOCK2 | N::OBSERVE) || number.is_no_cache_key()
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Returns the evaluated options of a request for the application, or the error to respond
    /// with.
    #[inline]
    pub(super) fn acceptable(
        &self,
        layers: &Layers<P, C>,
        message: &Message<'_>,
        security: &Security,
    ) -> Result<RequestOptions, (Code, String)> {
        if message.as_bytes().len() > layers.transport.config.limits.message_bytes {
            let limit = layers.transport.config.limits.message_bytes;
            return Err((Code::REQUEST_ENTITY_TOO_LARGE, format!("messages of up to {limit} bytes are accepted")));
        }
        let longest = layers.transport.config.longest_accepted_token();
        if message.token_bytes().len() > longest {
            return Err((Code::BAD_REQUEST, format!("tokens of up to {longest} bytes are accepted")));
        }
        let mut found =
            OptionsPass { in_sets: self.q_block.is_some(), plain: security.is_plain(), ..OptionsPass::default() };
        let passed = message.pass_acceptable(&layers.transport.config.known_options, |option| found.pass(option));
        if let Err(option) = passed {
            return Err((Code::BAD_OPTION, format!("critical option {} is unknown or malformed", option.0)));
        }
        if let Some((code, why)) = found.refusal {
            return Err((code, why.into()));
        }
        let unwanted = if found.no_response { NoResponse::of(message) } else { NoResponse::NOTHING };
        let mut asked = found.asked;
        asked.what = self.what(layers, message, found.apart) ^ self.secured(layers, security);
        if message.code() == Code::FETCH {
            let payload = Some(message.payload()).filter(|payload| !payload.is_empty());
            asked.fetches(payload.map(|payload| layers.transport.hash.digest(Code::FETCH.0, payload)));
        }
        let keeping = if message.code().is_safe() { Keeping::IfRoom } else { Keeping::Once };
        Ok(RequestOptions { asked, unwanted, keeping })
    }

    /// Hashes the security context of a request: bodies of one context are separate from those of
    /// others and of unprotected requests.
    #[inline]
    fn secured(&self, layers: &Layers<P, C>, security: &Security) -> u64 {
        security.context().map_or(0, |context| layers.transport.hash.hash(&context))
    }

    /// Hashes code and options, without those that are [apart](OptionsPass::apart): equal for requests
    /// for blocks of the same body. Most requests have none of these, and their encoded options are
    /// hashed directly.
    #[inline]
    pub(crate) fn what(&self, layers: &Layers<P, C>, message: &Message<'_>, has_apart: bool) -> u64 {
        match has_apart {
            false => layers.transport.hash.digest(message.code().0, message.encoded_options()),
            true => layers.transport.hash.digest(message.code().0, &message.options_without(is_apart)),
        }
    }
}

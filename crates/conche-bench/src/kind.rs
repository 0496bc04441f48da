//! Kinds of requests, and their random selection.

use conche::Uri;
use conche_proto::Reliability;
use conche_proto::codec::{Body, BodyBuilder, BuildError, Code};
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

/// A kind of request and its weight.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Name in reports, such as `GET /temperature`.
    pub name: String,
    /// Method.
    pub code: Code,
    /// Options and payload.
    pub body: Body,
    /// Confirmable or Non-confirmable.
    pub reliability: Reliability,
    /// Share of all requests, over the sum of weights.
    pub weight: u32,
}

impl Kind {
    /// A Confirmable GET.
    ///
    /// # Errors
    /// If the URI's options cannot be encoded.
    pub fn get(uri: &Uri) -> Result<Self, BuildError> {
        Self::new(Code::GET, uri, BodyBuilder::new())
    }

    /// A Confirmable request with the URI's and these options and payload.
    ///
    /// # Errors
    /// If an option or payload cannot be encoded.
    pub fn new(code: Code, uri: &Uri, rest: BodyBuilder) -> Result<Self, BuildError> {
        let body = uri.options(rest).build()?;
        let segments = uri.segments().iter().map(String::as_bytes);
        let path = conche_proto::codec::encode_path(segments);
        let name = format!("{code} {path}");
        Ok(Self { name, code, body, reliability: Reliability::Confirmable, weight: 1 })
    }

    /// Returns the request as Non-confirmable or Confirmable.
    #[must_use]
    pub fn with(self, non_confirmable: bool) -> Self {
        let reliability = if non_confirmable { Reliability::NonConfirmable } else { Reliability::Confirmable };
        Self { reliability, ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Draw {
    sums: Vec<u64>,
    random: Pcg64Mcg,
}

impl Draw {
    pub(crate) fn new(kinds: &[Kind], random: Pcg64Mcg) -> Self {
        let mut sum = 0;
        let sums = kinds.iter().map(|kind| {
            sum += u64::from(kind.weight);
            sum
        });
        Self { sums: sums.collect(), random }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> usize {
        if self.sums.len() < 2 {
            return 0;
        }
        let all = self.sums.last().copied().unwrap_or(1);
        // The bias is negligible: 2⁻⁶⁴ × the sum.
        let drawn = u64::try_from((u128::from(self.random.next_u64()) * u128::from(all)) >> 64).unwrap_or_default();
        self.sums.partition_point(|sum| *sum <= drawn).min(self.sums.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_drawn_by_their_weights() {
        let uri: Uri = "coap://localhost/".parse().expect("a URI");
        let kinds = [3, 0, 1].map(|weight| Kind { weight, ..Kind::get(&uri).expect("it can be built") });
        let mut draw = Draw::new(&kinds, Pcg64Mcg::new(0xcafe_f00d_d15e_a5e5));
        let mut drawn = [0; 3];
        (0..40_000).for_each(|_| drawn[draw.next()] += 1);
        assert_eq!(drawn[1], 0, "what has no weight is never sent");
        assert!((29_000..31_000).contains(&drawn[0]), "{drawn:?}");
    }
}

//! Finds options that count as unrecognised (RFC 7252 §5.4).

use super::{Content, OptionNumber, RawOption};

impl<'a> Content<'a> {
    /// Returns the first unrecognised critical option, for which a recipient must reject the
    /// message or respond with 4.02 (RFC 7252 §5.4.1). Unrecognised elective options are ignored.
    /// An option is unrecognised if
    ///
    /// - it is neither in RFC 7252, RFC 7641 or RFC 7959 nor in `also_known`,
    /// - it is not defined for a message of this code (§5.4),
    /// - its value has a length out of range (§5.4.3),
    /// - it is repeated but not repeatable (§5.4.5).
    #[must_use]
    pub fn unacceptable_option(&self, also_known: &[OptionNumber]) -> Option<OptionNumber> {
        self.pass_acceptable(also_known, |_| ()).err()
    }

    /// Checks like [`unacceptable_option`](Self::unacceptable_option), and calls `pass` for each
    /// option up to the one in error.
    #[inline]
    pub(crate) fn pass_acceptable(
        &self,
        also_known: &[OptionNumber],
        mut pass: impl FnMut(RawOption<'a>),
    ) -> Result<(), OptionNumber> {
        let mut previous = OptionNumber(0);
        for (position, option) in self.options().enumerate() {
            let repeated = core::mem::replace(&mut previous, option.number) == option.number && position > 0;
            pass(option);
            if option.number.is_critical() && !self.recognised(option, repeated, also_known) {
                return Err(option.number);
            }
        }
        Ok(())
    }

    #[inline]
    fn recognised(&self, option: RawOption<'_>, repeated: bool, also_known: &[OptionNumber]) -> bool {
        let Some(spec) = option.number.spec() else { return also_known.contains(&option.number) };
        (matches!(spec.rfc, 7252 | 7641 | 7959) || also_known.contains(&option.number))
            && spec.used_in.includes(self.code())
            && spec.allows_length(option.value.len())
            && (spec.repeatable || !repeated)
    }
}

//! Which options must be treated as unrecognised (RFC 7252 §5.4).

use super::{Content, OptionNumber, RawOption};

impl<'a> Content<'a> {
    /// The first critical option that a recipient must treat as unrecognised, so that it has to reject the message or
    /// answer 4.02 (RFC 7252 §5.4.1); elective ones are merely ignored. Unrecognised is an option
    ///
    /// - that is neither in RFC 7252, RFC 7641 or RFC 7959 nor in `also_known`,
    /// - that is not defined for a message of this code (§5.4),
    /// - whose value has a length out of range (§5.4.3),
    /// - that occurs once more than it may (§5.4.5).
    #[must_use]
    pub fn unacceptable_option(&self, also_known: &[OptionNumber]) -> Option<OptionNumber> {
        self.unacceptable_among(self.options(), also_known)
    }

    /// The same for who looks at the [options](Self::options) while they pass.
    pub(crate) fn unacceptable_among(
        &self,
        mut options: impl Iterator<Item = RawOption<'a>>,
        also_known: &[OptionNumber],
    ) -> Option<OptionNumber> {
        let mut previous = None;
        options.find_map(|option| {
            let repeated = previous.replace(option.number) == Some(option.number);
            let rejected = option.number.is_critical() && !self.recognised(option, repeated, also_known);
            rejected.then_some(option.number)
        })
    }

    fn recognised(&self, option: RawOption<'_>, repeated: bool, also_known: &[OptionNumber]) -> bool {
        let Some(spec) = option.number.spec() else { return also_known.contains(&option.number) };
        (matches!(spec.rfc, 7252 | 7641 | 7959) || also_known.contains(&option.number))
            && spec.used_in.includes(self.code())
            && spec.allows_length(option.value.len())
            && (spec.repeatable || !repeated)
    }
}

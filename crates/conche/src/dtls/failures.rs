//! [`FailedHandshakes`]: counts failed handshakes by reason, for metrics.

use conche_dtls::Failure;

/// Why a handshake failed, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureReason {
    Alert,
    Certificate,
    Evicted,
    Key,
    LookupTimeout,
    NotSupported,
    Timeout,
    Unreachable,
    Other,
}

const REASONS: usize = FailureReason::Other as usize + 1;

#[cfg(feature = "metrics")]
impl FailureReason {
    const ALL: [Self; REASONS] = [
        Self::Alert,
        Self::Certificate,
        Self::Evicted,
        Self::Key,
        Self::LookupTimeout,
        Self::NotSupported,
        Self::Timeout,
        Self::Unreachable,
        Self::Other,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Certificate => "certificate",
            Self::Evicted => "evicted",
            Self::Key => "key",
            Self::LookupTimeout => "lookup_timeout",
            Self::NotSupported => "not_supported",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Other => "other",
        }
    }
}

impl From<&Failure> for FailureReason {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Silence => Self::Timeout,
            Failure::Alert(_) => Self::Alert,
            Failure::Suite | Failure::Version => Self::NotSupported,
            Failure::Credentials => Self::Key,
            Failure::Lookup => Self::LookupTimeout,
            Failure::Certificate(_) | Failure::NoCertificate => Self::Certificate,
            Failure::Displaced => Self::Evicted,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FailedHandshakes([u64; REASONS]);

impl FailedHandshakes {
    pub(super) fn count(&mut self, reason: FailureReason) {
        self.0[reason as usize] += 1;
    }

    /// Returns a row for each reason.
    #[cfg(feature = "metrics")]
    pub(super) fn rows(&self) -> Vec<(&'static str, u64)> {
        FailureReason::ALL.iter().map(|reason| (reason.name(), self.0[*reason as usize])).collect()
    }
}

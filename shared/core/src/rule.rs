//! I am the closed list of rules that refuse a receiver before a byte is sent: what its address may not be, and what its
//! certificate must be. The word of a rule stands in the row, in the answer of its attempt.

use std::fmt;
use std::str::FromStr;

use crate::reason::Reason;

macro_rules! rules {
    ($($reason:ident { $($(#[doc = $doc:literal])* $name:ident = $code:literal,)* })*) => {
        /// Why a receiver was refused, as one stable word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($($(#[doc = $doc])* $name,)*)* }

        impl Rule {
            /// Every rule there is.
            pub const ALL: &[Rule] = &[$($(Rule::$name,)*)*];

            /// The stable word: lower-case letters, digits and hyphens.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $($(Rule::$name => $code,)*)* }
            }

            /// What the rule refuses, in one sentence for a person.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $($(Rule::$name => concat!($($doc,)*).trim_ascii(),)*)* }
            }

            /// The reason code of an attempt that it refused.
            #[must_use]
            pub fn reason(self) -> Reason {
                match self { $($(Rule::$name)|* => Reason::$reason,)* }
            }
        }
    };
}

rules! {
    AddressRefused {
        /// The URL cannot be read.
        InvalidUrl = "invalid-url",
        /// The URL is not https.
        NotHttps = "not-https",
        /// The URL has a user name or a password.
        CredentialsInUrl = "credentials-in-url",
        /// An address of "this" network, 0.0.0.0/8.
        ThisNetwork = "this-network",
        /// An address of a private network.
        Private = "private",
        /// An address behind a carrier's translation, 100.64.0.0/10.
        CarrierGradeNat = "carrier-grade-nat",
        /// An address of this very machine.
        Loopback = "loopback",
        /// An address of the local link, where a cloud keeps its metadata.
        LinkLocalOrMetadata = "link-local-or-metadata",
        /// An address reserved for protocols.
        ProtocolAssignments = "protocol-assignments",
        /// An address reserved for protocols, or a Teredo tunnel.
        ProtocolAssignmentsOrTeredo = "protocol-assignments-or-teredo",
        /// An address for documentation.
        Documentation = "documentation",
        /// An address of the AS112 project.
        As112 = "as112",
        /// A relay of 6to4 tunnels.
        SixToFourRelay = "6to4-relay",
        /// A 6to4 tunnel: it embeds an IPv4 address.
        SixToFour = "6to4",
        /// An address for benchmarks.
        Benchmarking = "benchmarking",
        /// A multicast address.
        Multicast = "multicast",
        /// A reserved address, or the broadcast address.
        ReservedOrBroadcast = "reserved-or-broadcast",
        /// An IPv4 address written as an IPv6 address.
        Ipv4Mapped = "ipv4-mapped",
        /// The unspecified address, or an IPv4 address in the old compatible form.
        UnspecifiedOrIpv4Compatible = "unspecified-or-ipv4-compatible",
        /// An IPv4 address behind a NAT64 translation.
        Nat64 = "nat64",
        /// An IPv6 address that is not global unicast.
        NotGlobalUnicast = "not-global-unicast",
    }
    CertificateRefused {
        /// The certificate is for another name.
        CertificateName = "certificate-name",
        /// The certificate is no longer valid.
        CertificateExpired = "certificate-expired",
        /// The certificate is not yet valid.
        CertificateNotYetValid = "certificate-not-yet-valid",
        /// The certificate does not lead to a trusted authority.
        CertificateIssuer = "certificate-issuer",
        /// The certificate was revoked.
        CertificateRevoked = "certificate-revoked",
        /// The certificate is malformed, or wrong in another way.
        CertificateInvalid = "certificate-invalid",
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The text is no rule's word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown rule")]
pub struct UnknownRule;

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|rule| rule.code() == text).ok_or(UnknownRule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_words_and_round_trip() {
        let mut seen = std::collections::BTreeSet::new();
        for rule in Rule::ALL {
            assert!(seen.insert(rule.code()), "{rule} twice");
            assert!(rule.code().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{rule}");
            assert_eq!(rule.code().parse(), Ok(*rule));
            assert!(rule.meaning().ends_with('.'), "{rule}: {}", rule.meaning());
            let of_certificate = rule.code().starts_with("certificate-");
            assert_eq!(rule.reason(), if of_certificate { Reason::CertificateRefused } else { Reason::AddressRefused });
        }
    }
}

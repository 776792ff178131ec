//! I say which addresses a webhook connection must not use, whatever the name was.
//!
//! I judge one address at a time, as the connector is about to use it; every form that embeds an IPv4 address is
//! judged by that address as well. I do not resolve names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::rule::Rule;

/// The rule that refuses this address; none if it may be used.
#[must_use]
pub fn refused(address: IpAddr) -> Option<Rule> {
    match address {
        IpAddr::V4(v4) => refused_v4(v4),
        IpAddr::V6(v6) => refused_v6(v6),
    }
}

/// IPv4 ranges that are not the public internet (IANA special-purpose registry), with the name of their rule.
const REFUSED_V4: [(Ipv4Addr, u32, Rule); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, Rule::ThisNetwork),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Rule::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Rule::CarrierGradeNat),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Rule::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Rule::LinkLocalOrMetadata),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Rule::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Rule::ProtocolAssignments),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Rule::Documentation),
    (Ipv4Addr::new(192, 31, 196, 0), 24, Rule::As112),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Rule::SixToFourRelay),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Rule::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Rule::Benchmarking),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Rule::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Rule::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Rule::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Rule::ReservedOrBroadcast),
];

fn refused_v4(address: Ipv4Addr) -> Option<Rule> {
    let bits = u32::from(address);
    REFUSED_V4.iter().find(|(net, prefix, _)| (bits ^ u32::from(*net)) >> (32 - prefix) == 0).map(|(_, _, rule)| *rule)
}

/// IPv6 is refused unless it is global unicast (2000::/3), and there these ranges are refused as well.
const REFUSED_V6: [(Ipv6Addr, u32, Rule); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, Rule::ProtocolAssignmentsOrTeredo),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, Rule::Documentation),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, Rule::SixToFour),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, Rule::As112),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, Rule::Documentation),
];

fn refused_v6(address: Ipv6Addr) -> Option<Rule> {
    let bits = u128::from(address);
    let within = |net: Ipv6Addr, prefix: u32| (bits ^ u128::from(net)) >> (128 - prefix) == 0;
    if address.is_loopback() {
        return Some(Rule::Loopback);
    }
    if address.to_ipv4_mapped().is_some() {
        return Some(Rule::Ipv4Mapped);
    }
    if within(Ipv6Addr::UNSPECIFIED, 96) {
        return Some(Rule::UnspecifiedOrIpv4Compatible);
    }
    if within(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 32) {
        return Some(Rule::Nat64);
    }
    if within(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10) {
        return Some(Rule::LinkLocalOrMetadata);
    }
    if within(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7) {
        return Some(Rule::Private);
    }
    if within(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8) {
        return Some(Rule::Multicast);
    }
    if !within(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3) {
        return Some(Rule::NotGlobalUnicast);
    }
    REFUSED_V6.iter().find(|(net, prefix, _)| within(*net, *prefix)).map(|(_, _, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Option<Rule> {
        refused(text.parse().expect("an address"))
    }

    #[test]
    fn edges_of_each_range() {
        for (text, expected) in [
            ("127.0.0.1", Some(Rule::Loopback)),
            ("126.255.255.255", None),
            ("169.254.169.254", Some(Rule::LinkLocalOrMetadata)),
            ("100.63.255.255", None),
            ("100.64.0.0", Some(Rule::CarrierGradeNat)),
            ("172.15.255.255", None),
            ("172.16.0.0", Some(Rule::Private)),
            ("223.255.255.255", None),
            ("224.0.0.0", Some(Rule::Multicast)),
            ("::1", Some(Rule::Loopback)),
            ("::ffff:8.8.8.8", Some(Rule::Ipv4Mapped)),
            ("64:ff9b:1::1", Some(Rule::Nat64)),
            ("fd00:ec2::254", Some(Rule::Private)),
            ("fec0::1", Some(Rule::NotGlobalUnicast)),
            ("4000::1", Some(Rule::NotGlobalUnicast)),
            ("2001::1", Some(Rule::ProtocolAssignmentsOrTeredo)),
            ("2001:200::1", None),
            ("2606:4700::1111", None),
        ] {
            assert_eq!(rule(text), expected, "{text}");
        }
    }
}

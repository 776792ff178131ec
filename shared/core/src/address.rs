//! I say which addresses a webhook connection must not use, whatever the name was.
//!
//! I judge one address at a time, as the connector is about to use it; every form that embeds an IPv4 address is
//! judged by that address as well. I do not resolve names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The rule that refuses this address; none if it may be used.
#[must_use]
pub fn refused(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => refused_v4(v4),
        IpAddr::V6(v6) => refused_v6(v6),
    }
}

/// IPv4 ranges that are not the public internet (IANA special-purpose registry), with the name of their rule.
const REFUSED_V4: [(Ipv4Addr, u32, &str); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this-network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "carrier-grade-nat"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local-or-metadata"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol-assignments"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation"),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "as112"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4-relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved-or-broadcast"),
];

fn refused_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    REFUSED_V4.iter().find(|(net, prefix, _)| (bits ^ u32::from(*net)) >> (32 - prefix) == 0).map(|(_, _, rule)| *rule)
}

/// IPv6 is refused unless it is global unicast (2000::/3), and there these ranges are refused as well.
const REFUSED_V6: [(Ipv6Addr, u32, &str); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "protocol-assignments-or-teredo"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, "as112"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
];

fn refused_v6(address: Ipv6Addr) -> Option<&'static str> {
    let bits = u128::from(address);
    let within = |net: Ipv6Addr, prefix: u32| (bits ^ u128::from(net)) >> (128 - prefix) == 0;
    if address.is_loopback() {
        return Some("loopback");
    }
    if address.to_ipv4_mapped().is_some() {
        return Some("ipv4-mapped");
    }
    if within(Ipv6Addr::UNSPECIFIED, 96) {
        return Some("unspecified-or-ipv4-compatible");
    }
    if within(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 32) {
        return Some("nat64");
    }
    if within(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10) {
        return Some("link-local-or-metadata");
    }
    if within(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7) {
        return Some("private");
    }
    if within(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8) {
        return Some("multicast");
    }
    if !within(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3) {
        return Some("not-global-unicast");
    }
    REFUSED_V6.iter().find(|(net, prefix, _)| within(*net, *prefix)).map(|(_, _, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Option<&'static str> {
        refused(text.parse().expect("an address"))
    }

    #[test]
    fn edges_of_each_range() {
        for (text, expected) in [
            ("127.0.0.1", Some("loopback")),
            ("126.255.255.255", None),
            ("169.254.169.254", Some("link-local-or-metadata")),
            ("100.63.255.255", None),
            ("100.64.0.0", Some("carrier-grade-nat")),
            ("172.15.255.255", None),
            ("172.16.0.0", Some("private")),
            ("223.255.255.255", None),
            ("224.0.0.0", Some("multicast")),
            ("::1", Some("loopback")),
            ("::ffff:8.8.8.8", Some("ipv4-mapped")),
            ("64:ff9b:1::1", Some("nat64")),
            ("fd00:ec2::254", Some("private")),
            ("fec0::1", Some("not-global-unicast")),
            ("4000::1", Some("not-global-unicast")),
            ("2001::1", Some("protocol-assignments-or-teredo")),
            ("2001:200::1", None),
            ("2606:4700::1111", None),
        ] {
            assert_eq!(rule(text), expected, "{text}");
        }
    }
}

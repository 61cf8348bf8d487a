//! Which addresses a tier's name may resolve to. The address that was checked is the one that is dialled: the caller
//! hands the connector the address, never the name again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use terrace_contract::trust::Boundary;

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    base: IpAddr,
    bits: u8,
}

/// Text that is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a range of addresses: write it like 10.0.0.0/8 or fd00::/8")]
pub struct InvalidCidr(String);

impl std::str::FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let invalid = || InvalidCidr(text.to_owned());
        let (base, bits) = text.split_once('/').ok_or_else(invalid)?;
        let base: IpAddr = base.parse().map_err(|_| invalid())?;
        let bits: u8 = bits.parse().map_err(|_| invalid())?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        if bits <= most { Ok(Self { base, bits }) } else { Err(invalid()) }
    }
}

impl Cidr {
    /// Whether an address is inside.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, ip) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(base) & mask == u32::from(ip) & mask
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(base) & mask == u128::from(ip) & mask
            }
            _ => false,
        }
    }
}

/// What an organisation's own network is when a tier does not say: RFC 1918, unique local addresses, and the shared
/// space of RFC 6598.
const PRIVATE: [Cidr; 5] = [
    Cidr { base: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), bits: 8 },
    Cidr { base: IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), bits: 12 },
    Cidr { base: IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), bits: 16 },
    Cidr { base: IpAddr::V4(Ipv4Addr::new(100, 64, 0, 0)), bits: 10 },
    Cidr { base: IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), bits: 7 },
];

/// What is asked of an address.
#[derive(Debug, Clone, Copy)]
pub struct AddressRules<'a> {
    /// Boundary of the tier.
    pub boundary: Boundary,
    /// The tier's `allowedCIDRs`; empty: the private ranges.
    pub allowed: &'a [Cidr],
    /// Whether everything runs on one machine (`terrace up`).
    pub allow_loopback: bool,
    /// Never dialled: the API server and the router's own Service.
    pub own: &'a [IpAddr],
}

/// Why an address is not dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressDenied {
    /// It is this machine.
    #[error("{0} is a loopback address: an endpoint must be another machine")]
    Loopback(IpAddr),
    /// It reaches only the link, where cloud metadata services live.
    #[error("{0} is a link-local address")]
    LinkLocal(IpAddr),
    /// It is no machine.
    #[error("{0} is not the address of one machine")]
    NoUnicast(IpAddr),
    /// It is the API server or the router itself.
    #[error("{0} is the cluster's API server or this router")]
    Own(IpAddr),
    /// It is outside what the tier allows.
    #[error("{0} is outside the ranges that this tier allows (allowedCIDRs)")]
    Outside(IpAddr),
}

/// Whether a tier's traffic may go to an address.
///
/// # Errors
/// Why not.
pub fn permitted(rules: &AddressRules<'_>, ip: IpAddr) -> Result<(), AddressDenied> {
    let ip = canonical(ip);
    if rules.own.iter().any(|own| canonical(*own) == ip) {
        return Err(AddressDenied::Own(ip));
    }
    if ip.is_loopback() {
        return if rules.allow_loopback { Ok(()) } else { Err(AddressDenied::Loopback(ip)) };
    }
    let (link_local, no_unicast) = match ip {
        // 0.0.0.0/8 reaches this machine, 240.0.0.0/4 and broadcast nobody.
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[0] == 0 || v4.octets()[0] >= 224),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.is_unspecified() || v6.is_multicast()),
    };
    if link_local {
        return Err(AddressDenied::LinkLocal(ip));
    }
    if no_unicast {
        return Err(AddressDenied::NoUnicast(ip));
    }
    let allowed: &[Cidr] = if rules.allowed.is_empty() { &PRIVATE } else { rules.allowed };
    if rules.boundary < Boundary::Public && !allowed.iter().any(|c| c.contains(ip)) {
        return Err(AddressDenied::Outside(ip));
    }
    Ok(())
}

/// IPv4 in an IPv6 coat (mapped, compatible, NAT64, 6to4) is that IPv4 address.
fn canonical(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    let v4 = |at: usize| {
        let o = v6.octets();
        IpAddr::V4(Ipv4Addr::new(o[at], o[at + 1], o[at + 2], o[at + 3]))
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => v4(12),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => v4(12),
        [0x2002, ..] => v4(2),
        _ => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(boundary: Boundary) -> AddressRules<'static> {
        AddressRules { boundary, allowed: &[], allow_loopback: false, own: &[] }
    }

    fn check(rules: &AddressRules<'_>, ip: &str) -> Result<(), AddressDenied> {
        permitted(rules, ip.parse().unwrap())
    }

    #[test]
    fn a_private_tier_reaches_private_ranges_only() {
        let private = rules(Boundary::Private);
        for ip in ["10.1.2.3", "172.31.0.1", "192.168.0.9", "100.64.0.1", "fd00::1", "::ffff:10.0.0.1"] {
            assert_eq!(check(&private, ip), Ok(()), "{ip}");
        }
        for ip in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "2002:808:808::1"] {
            assert!(matches!(check(&private, ip), Err(AddressDenied::Outside(_))), "{ip}");
        }
    }

    #[test]
    fn what_a_tier_allows_replaces_the_default() {
        let allowed = ["203.0.113.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        let private = AddressRules { allowed: &allowed, ..rules(Boundary::Private) };
        assert_eq!(check(&private, "203.0.113.7"), Ok(()));
        assert_eq!(check(&private, "2001:db8::7"), Ok(()));
        assert!(check(&private, "10.0.0.1").is_err());
    }

    #[test]
    fn no_tier_reaches_this_machine_the_link_or_nobody() {
        for boundary in [Boundary::Private, Boundary::Public] {
            let any: [Cidr; 2] = ["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
            let rules = AddressRules { allowed: &any, ..rules(boundary) };
            for ip in [
                "127.0.0.1",
                "127.8.9.1",
                "::1",
                "::ffff:127.0.0.1",
                "::127.0.0.1",
                "64:ff9b::7f00:1",
                "169.254.169.254",
                "fe80::1",
                "0.0.0.0",
                "0.1.2.3",
                "::",
                "224.0.0.1",
                "255.255.255.255",
                "ff02::1",
                "2002:7f00:1::1",
            ] {
                assert!(check(&rules, ip).is_err(), "{ip}");
            }
        }
    }

    #[test]
    fn loopback_is_for_one_machine_only_and_own_addresses_for_nobody() {
        let own = ["10.96.0.1".parse().unwrap()];
        let up = AddressRules { allow_loopback: true, own: &own, ..rules(Boundary::Private) };
        assert_eq!(check(&up, "127.0.0.1"), Ok(()));
        assert_eq!(check(&up, "::ffff:10.96.0.1"), Err(AddressDenied::Own(own[0])));
    }

    #[test]
    fn a_public_tier_may_be_anywhere_else() {
        assert_eq!(check(&rules(Boundary::Public), "8.8.8.8"), Ok(()));
    }

    #[test]
    fn what_is_no_range_is_refused_by_name() {
        for text in ["10.0.0.0", "10.0.0.0/33", "fd00::/129", "x/8", ""] {
            assert_eq!(text.parse::<Cidr>(), Err(InvalidCidr(text.to_owned())));
        }
        assert!("0.0.0.0/0".parse::<Cidr>().unwrap().contains("1.2.3.4".parse().unwrap()));
    }
}

//! Address ranges, with the messages of kube-apiserver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    bits: u128,
    prefix: u32,
    is_v4: bool,
}

/// Returns the range that a text spells, if it can be read, and what is wrong with it.
pub(super) fn parse(text: &str) -> (Option<Cidr>, Option<&'static str>) {
    const INVALID: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let Some((cidr, fault)) = read(text) else { return (None, Some(INVALID)) };
    let masked = cidr.bits & cidr.mask() == cidr.bits;
    (Some(cidr), fault.or((!masked).then_some("must not have bits set beyond the prefix length")))
}

fn read(text: &str) -> Option<(Cidr, Option<&'static str>)> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let prefix: u32 = length.parse().ok()?;
    let (parsed, zeros) = read_address(address)?;
    let zeros = zeros || (length.len() > 1 && length.starts_with('0'));
    let mapped = matches!(parsed, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let cidr = match parsed {
        IpAddr::V4(v4) => Cidr { bits: u128::from(u32::from(v4)), prefix, is_v4: true },
        IpAddr::V6(v6) => Cidr { bits: u128::from(v6), prefix, is_v4: false },
    };
    if prefix > cidr.length() {
        return None;
    }
    let fault = match (zeros, mapped) {
        (true, _) => Some("must not have leading 0s in IP or prefix length"),
        (_, true) => Some("must not have an IPv4-mapped IPv6 address"),
        _ => None,
    };
    Some((cidr, fault))
}

/// Reads an address; IPv4 may have leading zeros, which is returned.
fn read_address(text: &str) -> Option<(IpAddr, bool)> {
    if let Ok(v6) = text.parse::<Ipv6Addr>() {
        return Some((v6.into(), false));
    }
    let parts: Vec<&str> = text.split('.').collect();
    let [a, b, c, d] = parts.as_slice() else { return None };
    let octet = |part: &str| -> Option<u8> {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    };
    let zeros = parts.iter().any(|part| part.len() > 1 && part.starts_with('0'));
    Some((Ipv4Addr::new(octet(a)?, octet(b)?, octet(c)?, octet(d)?).into(), zeros))
}

/// Returns whether a text is an address.
pub(super) fn is_address(text: &str) -> bool {
    read_address(text).is_some()
}

impl Cidr {
    fn length(self) -> u32 {
        if self.is_v4 { 32 } else { 128 }
    }

    fn mask(self) -> u128 {
        let all = if self.is_v4 { u128::from(u32::MAX) } else { u128::MAX };
        let host = self.length() - self.prefix;
        all.checked_shl(host).unwrap_or(0) & all
    }

    /// Returns whether the other range lies within this one and is smaller.
    pub(super) fn strictly_contains(self, other: Cidr) -> bool {
        self.is_v4 == other.is_v4 && self.prefix < other.prefix && other.bits & self.mask() == self.bits & self.mask()
    }
}

//! IP addresses and ranges of them.

use std::net::IpAddr;

use super::opaque::Opaque;
use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    since: 30,
    rows: &[
        ("ip", ip, &[("string_to_ip", "(string) -> ip"), ("cidr_ip", "cidr.() -> ip")]),
        ("isIP", is_ip, &[("is_ip", "(string) -> bool")]),
        ("ip.isCanonical", is_canonical, &[("ip_is_canonical", "(string) -> bool")]),
        ("family", family, &[("ip_family", "ip.() -> int")]),
        ("isUnspecified", is_unspecified, &[("ip_is_unspecified", "ip.() -> bool")]),
        ("isLoopback", is_loopback, &[("ip_is_loopback", "ip.() -> bool")]),
        ("isLinkLocalMulticast", is_link_local_multicast, &[("ip_is_link_local_multicast", "ip.() -> bool")]),
        ("isLinkLocalUnicast", is_link_local_unicast, &[("ip_is_link_local_unicast", "ip.() -> bool")]),
        ("isGlobalUnicast", is_global_unicast, &[("ip_is_global_unicast", "ip.() -> bool")]),
        ("cidr", cidr, &[("string_to_cidr", "(string) -> cidr")]),
        ("isCIDR", is_cidr, &[("is_cidr", "(string) -> bool")]),
        (
            "containsIP",
            contains_ip,
            &[("cidr_contains_ip_string", "cidr.(string) -> bool"), ("cidr_contains_ip_ip", "cidr.(ip) -> bool")],
        ),
        (
            "containsCIDR",
            contains_cidr,
            &[("cidr_contains_cidr_string", "cidr.(string) -> bool"), ("cidr_contains_cidr", "cidr.(cidr) -> bool")],
        ),
        ("prefixLength", prefix_length, &[("cidr_prefix_length", "cidr.() -> int")]),
        ("masked", masked, &[("cidr_masked", "cidr.() -> cidr")]),
    ],
};

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip(IpAddr);

/// A range of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    length: u8,
}

/// Returns the size that costs count.
pub(crate) fn size_of(value: &Opaque<'_>) -> Option<u64> {
    let bits = |address: &IpAddr| if address.is_ipv4() { 4 } else { 16 };
    match value {
        Opaque::Ip(ip) => Some(bits(&ip.0)),
        Opaque::Cidr(cidr) => Some(u64::from(cidr.length).div_ceil(8)),
        _ => None,
    }
}

/// Returns the text of an address or range.
pub(super) fn text_of(value: &Opaque<'_>) -> Option<String> {
    match value {
        Opaque::Ip(ip) => Some(ip.0.to_string()),
        Opaque::Cidr(cidr) => Some(format!("{}/{}", cidr.address, cidr.length)),
        _ => None,
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    let fault = |detail: &str| {
        EvalError::failed(format!("IP Address {text:?} parse error during conversion from string: {detail}"))
    };
    let address: IpAddr = text.parse().map_err(|_| fault(&format!("ParseAddr({text:?}): unable to parse IP")))?;
    if text.contains('%') {
        return Err(EvalError::failed(format!("IP address {text:?} with zone value is not allowed")));
    }
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            Err(EvalError::failed(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        other => Ok(other),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, EvalError> {
    let fault = |detail: &str| {
        EvalError::failed(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {detail}"
        ))
    };
    let (address, length) = text.rsplit_once('/').ok_or_else(|| fault("no '/'"))?;
    let address: IpAddr = address.parse().map_err(|_| fault("unable to parse IP"))?;
    if let IpAddr::V6(inner) = address
        && inner.to_ipv4_mapped().is_some()
    {
        return Err(EvalError::failed(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    let valid = !length.is_empty()
        && length.bytes().all(|byte| byte.is_ascii_digit())
        && (length == "0" || !length.starts_with('0'));
    let length: u8 = length.parse().ok().filter(|_| valid).ok_or_else(|| fault("bad bits after slash"))?;
    if length > if address.is_ipv4() { 32 } else { 128 } {
        return Err(fault("prefix length out of range"));
    }
    Ok(Cidr { address, length })
}

impl Cidr {
    fn masked(self) -> Cidr {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V4((u32::from(address) & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V6((u128::from(address) & mask).into())
            }
        };
        Cidr { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && Cidr { address, length: self.length }.masked() == self.masked()
    }
}

fn of_ip(value: IpAddr) -> Value<'static> {
    Value::opaque(Opaque::Ip(Ip(value)))
}

fn ip<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => parse_ip(text).map(of_ip),
        [Value::Opaque(value)] => match &**value {
            Opaque::Cidr(cidr) => Ok(of_ip(cidr.address)),
            _ => Err(no_overload("ip", args)),
        },
        _ => Err(no_overload("ip", args)),
    }
}

fn is_ip<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_ok())),
        _ => Err(no_overload("isIP", args)),
    }
}

fn is_canonical<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text)?.to_string() == **text)),
        _ => Err(no_overload("ip.isCanonical", args)),
    }
}

fn address(function: &str, args: &[Value<'_>]) -> Result<IpAddr, EvalError> {
    if let [Value::Opaque(value)] = args
        && let Opaque::Ip(ip) = &**value
    {
        return Ok(ip.0);
    }
    Err(no_overload(function, args))
}

fn family<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(if address("family", args)?.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(address("isUnspecified", args)?.is_unspecified()))
}

fn is_loopback<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(address("isLoopback", args)?.is_loopback()))
}

fn link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments().first().is_some_and(|first| first & 0xffc0 == 0xfe80),
    }
}

fn is_link_local_multicast<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(link_local_multicast(address("isLinkLocalMulticast", args)?)))
}

fn is_link_local_unicast<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(link_local_unicast(address("isLinkLocalUnicast", args)?)))
}

fn is_global_unicast<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let address = address("isGlobalUnicast", args)?;
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    Ok(Value::Bool(
        !(broadcast
            || address.is_unspecified()
            || address.is_loopback()
            || address.is_multicast()
            || link_local_unicast(address)),
    ))
}

fn cidr<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => parse_cidr(text).map(|cidr| Value::opaque(Opaque::Cidr(cidr))),
        _ => Err(no_overload("cidr", args)),
    }
}

fn is_cidr<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => Err(no_overload("isCIDR", args)),
    }
}

fn range(function: &str, args: &[Value<'_>]) -> Result<Cidr, EvalError> {
    if let Some(Value::Opaque(value)) = args.first()
        && let Opaque::Cidr(cidr) = &**value
    {
        return Ok(*cidr);
    }
    Err(no_overload(function, args))
}

fn contains_ip<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let range = range("containsIP", args)?;
    let other = match args.get(1) {
        Some(Value::String(text)) => parse_ip(text)?,
        Some(Value::Opaque(value)) => match &**value {
            Opaque::Ip(ip) => ip.0,
            _ => return Err(no_overload("containsIP", args)),
        },
        _ => return Err(no_overload("containsIP", args)),
    };
    Ok(Value::Bool(range.contains(other)))
}

fn contains_cidr<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let range = range("containsCIDR", args)?;
    let other = match args.get(1) {
        Some(Value::String(text)) => parse_cidr(text)?,
        Some(Value::Opaque(value)) => match &**value {
            Opaque::Cidr(cidr) => *cidr,
            _ => return Err(no_overload("containsCIDR", args)),
        },
        _ => return Err(no_overload("containsCIDR", args)),
    };
    Ok(Value::Bool(range.length <= other.length && range.contains(other.address)))
}

fn prefix_length<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(range("prefixLength", args)?.length.into()))
}

fn masked<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::opaque(Opaque::Cidr(range("masked", args)?.masked())))
}

//! Values whose types only libraries know.

use super::authorizer::Check;
use super::formats::NamedFormat;
use super::net::{Cidr, Ip};
use super::quantity::Quantity;
use super::semver::Semver;
use super::url::Url;

pub(crate) const URL: &str = "kubernetes.URL";
pub(crate) const QUANTITY: &str = "kubernetes.Quantity";
pub(crate) const IP: &str = "net.IP";
pub(crate) const CIDR: &str = "net.CIDR";
pub(crate) const FORMAT: &str = "kubernetes.NamedFormat";
pub(crate) const SEMVER: &str = "kubernetes.Semver";
pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// A value of a library.
#[derive(Clone, Debug, PartialEq)]
#[allow(private_interfaces, reason = "what a value of a library contains is known to libraries only")]
#[non_exhaustive]
pub enum Opaque<'a> {
    /// A URL.
    Url(Url),
    /// A quantity.
    Quantity(Quantity),
    /// An IP address.
    Ip(Ip),
    /// A range of IP addresses.
    Cidr(Cidr),
    /// A named format.
    Format(NamedFormat),
    /// A semantic version.
    Semver(Semver),
    /// The authorizer, or a question to it that is being built.
    Check(Check<'a>),
    /// The answer of the authorizer.
    Decision(super::authorizer::Decision),
}

impl Opaque<'_> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Opaque::Url(_) => URL,
            Opaque::Quantity(_) => QUANTITY,
            Opaque::Ip(_) => IP,
            Opaque::Cidr(_) => CIDR,
            Opaque::Format(_) => FORMAT,
            Opaque::Semver(_) => SEMVER,
            Opaque::Check(check) => check.type_name(),
            Opaque::Decision(_) => DECISION,
        }
    }
}

//! Impersonation: the headers that name another user, and the permissions that they need (AUT-6, RBA-014, RBA-015).
//!
//! Since 1.36 a user may be allowed to impersonate for certain verbs and resources only. There are several modes of that,
//! each for a sort of user. The classic mode, with the verb `impersonate`, is tried last.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::Status;
use http::{HeaderMap, HeaderName};

use super::auth::{ANONYMOUS, UNAUTHENTICATED, authenticated};
use super::request_info::RequestInfo;
use crate::authorization::{
    AccessAttributes, AccessDecision, AccessTarget, GoQuoted, RequestAttributes, ResourceAttributes,
};
use crate::http_types::User;
use crate::listener::auth::MASTERS;
use crate::meta;
use crate::query::percent_decode;
use crate::version::ServerVersion;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA: &str = "impersonate-extra-";

/// The API group of the permissions of all modes but the classic one.
const AUTHENTICATION: &str = "authentication.k8s.io";
/// The attribute of a service account's token that names the node of its pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// From this many groups or attributes on, a permission for all of them is tried first.
const MANY: usize = 4;

/// Decides whether a user may do something.
pub(crate) type Authorize<'a> = &'a dyn Fn(&AccessAttributes<'_>) -> AccessDecision;

/// A request that may impersonate.
pub(crate) struct ImpersonatingRequest<'a> {
    pub(crate) info: &'a RequestInfo<'a>,
    pub(crate) query: Option<&'a str>,
    pub(crate) version: ServerVersion,
}

impl ImpersonatingRequest<'_> {
    /// Returns the effective user: the user that the headers name, else the authenticated one. Removes the headers.
    pub(crate) fn effective_user(
        &self,
        user: User,
        headers: &mut HeaderMap,
        authorize: Authorize<'_>,
    ) -> Result<EffectiveUser, Box<Status>> {
        if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(EffectiveUser { user, constraint: None });
        }
        let Some(wanted) = take_headers(headers) else { return Ok(EffectiveUser { user, constraint: None }) };
        let is_constrained = self.version >= ServerVersion::V1_36;
        if wanted.name.is_empty() {
            let what = if is_constrained { "a user name" } else { "a user" };
            let why = format!("requested {} without impersonating {what}", GoUser(&wanted));
            return Err(Box::new(Status::bad_request(why)));
        }
        let attributes = RequestAttributes::new(self.info, self.query);
        let modes = if is_constrained { &Mode::ALL[..] } else { &[Mode::Classic] };
        let mut first = None;
        for mode in modes.iter().filter(|mode| mode.applies(&wanted, &user)) {
            let attempt = Attempt { mode: *mode, requester: &user, wanted: &wanted, authorize };
            match attempt.check(&attributes, self.info.verb) {
                Ok(user) => return Ok(EffectiveUser { user, constraint: mode.constraint() }),
                Err(status) => first = first.or(Some(status)),
            }
        }
        // The classic mode applies to every user.
        Err(first.unwrap_or_else(|| Box::new(Status::internal("all impersonation modes failed"))))
    }
}

/// The user that a request acts as.
#[derive(Debug)]
pub(crate) struct EffectiveUser {
    pub(crate) user: User,
    /// The verb that allowed the impersonation, unless it is the classic one. The audit log shows it.
    pub(crate) constraint: Option<String>,
}

/// Removes the headers, and returns the user that they name; `None` if they name nothing.
fn take_headers(headers: &mut HeaderMap) -> Option<User> {
    let mut wanted = User::default();
    for (name, value) in &*headers {
        let Ok(text) = value.to_str().map(str::to_owned) else { continue };
        if name == USER {
            // The first header counts.
            if wanted.name.is_empty() {
                wanted.name = text;
            }
        } else if name == UID {
            if wanted.uid.is_empty() {
                wanted.uid = text;
            }
        } else if name == GROUP {
            wanted.groups.push(text);
        } else if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = percent_decode(key, false).unwrap_or_else(|| key.to_owned());
            wanted.extra.entry(key).or_default().push(text);
        }
    }
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    (wanted != User::default()).then_some(wanted)
}

/// A mode of impersonation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The node of the pod whose service account sends the request.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Users that are neither nodes nor service accounts.
    UserInfo,
    /// Every user, for every request.
    Classic,
}

impl Mode {
    /// In the order in which they are tried.
    const ALL: [Mode; 5] =
        [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Classic];

    fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Classic => "",
        }
    }

    /// Returns the verb that permits the impersonation of a user, except in the classic mode.
    fn constraint(self) -> Option<String> {
        (self != Mode::Classic).then(|| format!("impersonate:{}", self.name()))
    }

    fn applies(self, wanted: &User, requester: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_name(&wanted.name), account_name(&wanted.name));
        match self {
            Mode::AssociatedNode => {
                let own = requester.extra.get(NODE_NAME).map(Vec::as_slice);
                let is_own = matches!((node, own), (Some(node), Some([own])) if node == own);
                only_name && is_own && account_name(&requester.name).is_some()
            }
            Mode::ArbitraryNode => only_name && node.is_some(),
            Mode::ServiceAccount => only_name && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Classic => true,
        }
    }
}

/// An attempt to impersonate in one mode.
struct Attempt<'a> {
    mode: Mode,
    requester: &'a User,
    wanted: &'a User,
    authorize: Authorize<'a>,
}

impl Attempt<'_> {
    /// Returns the user that the request acts as.
    fn check(&self, request: &RequestAttributes<'_>, verb: &str) -> Result<User, Box<Status>> {
        let constraint = self.mode.constraint();
        if constraint.is_some() {
            let on = format!("impersonate-on:{}:{verb}", self.mode.name());
            self.allow(&request.access(self.requester, &on))?;
        }
        let impersonates = constraint.as_deref().unwrap_or("impersonate");
        let mut user = self.wanted.clone();
        self.check_name(impersonates, &mut user)?;
        if !self.wanted.uid.is_empty() {
            let uid = ResourceAttributes { resource: "uids", name: &self.wanted.uid, ..Default::default() };
            self.allow_resource(impersonates, AUTHENTICATION, uid)?;
        }
        self.check_groups(impersonates)?;
        self.check_extra(impersonates)?;
        Ok(with_implicit_group(user))
    }

    fn allow(&self, access: &AccessAttributes<'_>) -> Result<(), Box<Status>> {
        (self.authorize)(access).check(access)
    }

    fn access<'a>(&'a self, verb: &'a str, group: &'a str, target: ResourceAttributes<'a>) -> AccessAttributes<'a> {
        let target = AccessTarget::Resource(ResourceAttributes { group, ..target });
        AccessAttributes { user: self.requester, verb, target }
    }

    fn allow_resource(&self, verb: &str, group: &str, target: ResourceAttributes<'_>) -> Result<(), Box<Status>> {
        self.allow(&self.access(verb, group, target))
    }

    /// The API group of the permissions for names and groups.
    fn group(&self) -> &'static str {
        if self.mode == Mode::Classic { "" } else { AUTHENTICATION }
    }

    /// Checks the permission for the name, and sets the groups that belong to it.
    fn check_name(&self, verb: &str, user: &mut User) -> Result<(), Box<Status>> {
        let wanted = self.wanted.name.as_str();
        let mut target = ResourceAttributes { resource: "users", name: wanted, ..Default::default() };
        if let (Some(node), false) = (node_name(wanted), self.mode == Mode::Classic) {
            // A permission for one's own node is one for all nodes by name.
            let name = if self.mode == Mode::AssociatedNode { "*" } else { node };
            target = ResourceAttributes { resource: "nodes", name, ..Default::default() };
            user.groups = vec!["system:nodes".to_owned()];
        } else if let Some((namespace, name)) = account_name(wanted) {
            target = ResourceAttributes { resource: "serviceaccounts", namespace, name, ..Default::default() };
            if self.wanted.groups.is_empty() {
                user.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
            }
        }
        self.allow_resource(verb, self.group(), target)
    }

    fn check_groups(&self, verb: &str) -> Result<(), Box<Status>> {
        let groups = &self.wanted.groups;
        let target = |name| ResourceAttributes { resource: "groups", name, ..Default::default() };
        if self.mode != Mode::Classic {
            let refuse = |name, why| Err(Box::new(self.access(verb, self.group(), target(name)).forbidden(why)));
            if groups.iter().any(String::is_empty) {
                return refuse("", "impersonating the empty string group is not allowed");
            }
            if groups.iter().any(|group| group == MASTERS) {
                return refuse(MASTERS, "impersonating the system:masters group is not allowed");
            }
            if groups.len() >= MANY && self.allow_resource(verb, self.group(), target("*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.allow_resource(verb, self.group(), target(group)))
    }

    fn check_extra(&self, verb: &str) -> Result<(), Box<Status>> {
        let extra = &self.wanted.extra;
        let target =
            |subresource, name| ResourceAttributes { resource: "userextras", subresource, name, ..Default::default() };
        if self.mode != Mode::Classic {
            if let Some(why) = extra_fault(extra) {
                return Err(Box::new(self.access(verb, AUTHENTICATION, target("", "")).forbidden(&why)));
            }
            let values: usize = extra.values().map(Vec::len).sum();
            let is_large = extra.len() >= MANY || values >= MANY;
            if is_large && self.allow_resource(verb, AUTHENTICATION, target("*", "*")).is_ok() {
                return Ok(());
            }
        }
        let mut pairs = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        pairs.try_for_each(|(key, value)| self.allow_resource(verb, AUTHENTICATION, target(key, value)))
    }
}

/// Returns what is wrong with attributes in other modes than the classic one.
fn extra_fault(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    extra.iter().find_map(|(key, values)| match key {
        key if key.is_empty() => Some("impersonating the empty string key in extra is not allowed".to_owned()),
        key if !is_domain_prefixed(key) => {
            let fault = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            Some(format!(
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {}: {fault}",
                GoQuoted(key)
            ))
        }
        key if key.chars().any(char::is_uppercase) => {
            Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", GoQuoted(key)))
        }
        _ if values.iter().any(String::is_empty) => {
            Some("impersonating the empty string value in extra is not allowed".to_owned())
        }
        _ => None,
    })
}

fn is_domain_prefixed(key: &str) -> bool {
    key.split_once('/').is_some_and(|(domain, path)| meta::dns_subdomain(domain).is_empty() && !path.is_empty())
}

/// Returns the name of the node that a user is.
fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| meta::dns_subdomain(name).is_empty())
}

/// Returns the namespace and name of the service account that a user is.
fn account_name(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_valid = meta::dns_label(namespace).is_empty() && meta::dns_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// Adds the group of all authenticated users, or that of all others.
fn with_implicit_group(mut user: User) -> User {
    if user.groups.iter().any(|group| group == UNAUTHENTICATED) {
        return user;
    }
    if user.name == ANONYMOUS {
        user.groups.push(UNAUTHENTICATED.into());
        return user;
    }
    authenticated(user)
}

/// A user as Go prints its struct.
struct GoUser<'a>(&'a User);

impl fmt::Display for GoUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let User { name, uid, groups, extra } = self.0;
        let list = |texts: &[String]| {
            let quoted: Vec<String> = texts.iter().map(|text| GoQuoted(text).to_string()).collect();
            format!("{{{}}}", quoted.join(", "))
        };
        let groups = if groups.is_empty() { "(nil)".to_owned() } else { list(groups) };
        let pairs: Vec<String> =
            extra.iter().map(|(key, values)| format!("{}:[]string{}", GoQuoted(key), list(values))).collect();
        let extra = if pairs.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", pairs.join(", ")) };
        let (name, uid) = (GoQuoted(name), GoQuoted(uid));
        write!(
            f,
            "&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:[]string{groups}, Extra:map[string][]string{extra}}}"
        )
    }
}

#[cfg(test)]
mod tests;

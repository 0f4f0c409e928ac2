//! [`AccessLog`]: the set of all uses.

use std::collections::BTreeSet;

use super::request::{Access, AccessTarget};
use super::rules::RbacRules;
use crate::rest::Query;

/// The number of different uses that are kept.
const CAPACITY: usize = 65_536;
/// The number of names that are kept of one verb on one resource in one namespace.
const MAX_NAMES: usize = 64;

/// Different uses of the API, in a fixed order.
///
/// At most 64 names are kept of one verb on one resource in one namespace: beyond that, the use counts for all names. At most
/// 65,536 uses are kept; [`is_complete`](Self::is_complete) tells whether there were more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessLog {
    accesses: BTreeSet<Access>,
    is_full: bool,
}

impl AccessLog {
    /// Adds a use.
    pub fn add(&mut self, mut access: Access) {
        if self.accesses.contains(&access) {
            return;
        }
        if let AccessTarget::Resource { name, .. } = &mut access.target
            && !name.is_empty()
        {
            let taken = std::mem::take(name);
            // The uses that differ in their names alone follow the one without a name.
            let same = self.accesses.range(access.clone()..).take_while(|other| has_same_place(other, &access));
            if same.take(MAX_NAMES).count() < MAX_NAMES
                && let AccessTarget::Resource { name, .. } = &mut access.target
            {
                *name = taken;
            }
        }
        if self.accesses.len() >= CAPACITY {
            self.is_full |= !self.accesses.contains(&access);
        } else {
            self.accesses.insert(access);
        }
    }

    /// Adds a request that a server received: its method, its path with the query, and the code of its response, if it got one.
    /// A request that created its object, by an update or an apply, adds that use as well.
    pub fn add_request(&mut self, method: &http::Method, uri: &str, code: Option<u16>) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let mut parameters = Query::new();
        parameters.add_encoded(query);
        let watches = parameters.get("watch").is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0");
        let access = Access::of_request(method, path, &parameters, watches);
        self.extend(access.also_needs());
        if code == Some(201) {
            self.extend(access.if_created());
        }
        self.add(access);
    }

    /// Returns the uses, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = &Access> {
        self.accesses.iter()
    }

    /// Returns whether this was used.
    pub fn contains(&self, access: &Access) -> bool {
        self.accesses.contains(access)
    }

    /// Returns whether nothing was used.
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }

    /// Returns whether all uses were kept.
    pub fn is_complete(&self) -> bool {
        !self.is_full
    }

    /// Returns the log of a program that does in all namespaces what this one did in some, but for those that are kept: its
    /// own, for example.
    ///
    /// A test that runs a program in one namespace then gives the rules of a program that serves all of them.
    #[must_use]
    pub fn in_all_namespaces(&self, kept: &[&str]) -> AccessLog {
        let mut wider = AccessLog { accesses: BTreeSet::new(), is_full: self.is_full };
        for access in &self.accesses {
            let mut access = access.clone();
            if let AccessTarget::Resource { namespace, .. } = &mut access.target
                && !kept.contains(&namespace.as_str())
            {
                namespace.clear();
            }
            wider.add(access);
        }
        wider
    }

    /// Returns the minimal rules that allow everything in the log, for objects of any name.
    ///
    /// Paths that every authenticated user may read are left out: discovery, the version and health.
    pub fn rules(&self) -> RbacRules {
        RbacRules::allowing(self, &[])
    }

    /// Returns the minimal rules, which name the objects of these resources, such as `secrets` or `leases.coordination.k8s.io`.
    /// Uses without a name, such as a create or a list of all, are granted for all names.
    pub fn rules_by_name(&self, resources: &[&str]) -> RbacRules {
        RbacRules::allowing(self, resources)
    }
}

fn has_same_place(one: &Access, other: &Access) -> bool {
    let (
        AccessTarget::Resource { group: g1, resource: r1, subresource: s1, namespace: n1, .. },
        AccessTarget::Resource { group: g2, resource: r2, subresource: s2, namespace: n2, .. },
    ) = (&one.target, &other.target)
    else {
        return false;
    };
    one.verb == other.verb && (g1, r1, s1, n1) == (g2, r2, s2, n2)
}

impl Extend<Access> for AccessLog {
    fn extend<I: IntoIterator<Item = Access>>(&mut self, accesses: I) {
        accesses.into_iter().for_each(|access| self.add(access));
    }
}

//! [`ResourceQuery`]: the name of a resource, as users write it.

use std::fmt;

/// A resource name: a plural, a singular or a short name, with an optional group and version.
///
/// ```
/// use evenkeel_client::discovery::ResourceQuery;
///
/// let query = ResourceQuery::new("deploy").group("apps");
/// assert_eq!(query.to_string(), "deploy.apps");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ResourceQuery {
    /// The group, or a prefix of it; empty for any.
    pub group: String,
    /// The version; empty for any.
    pub version: String,
    /// The name, in upper or lower case.
    pub resource: String,
}

impl ResourceQuery {
    /// Creates a query in any group and version.
    pub fn new(resource: impl Into<String>) -> Self {
        ResourceQuery { resource: resource.into(), ..ResourceQuery::default() }
    }

    /// Parses a command line argument without a version.
    pub(super) fn of_argument(argument: &str) -> Self {
        let Argument { name, group, .. } = Argument::parse(argument);
        ResourceQuery::new(name).group(group)
    }

    /// Sets the group, or a prefix of it.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// Sets the version.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }
}

impl From<&str> for ResourceQuery {
    fn from(resource: &str) -> Self {
        ResourceQuery::new(resource)
    }
}

impl fmt::Display for ResourceQuery {
    /// Formats as kubectl does: `deployments.v1.apps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        for part in [&self.version, &self.group] {
            if !part.is_empty() {
                write!(f, ".{part}")?;
            }
        }
        Ok(())
    }
}

/// The interpretations of an argument like `deployments.v1.apps`, in the order in which they are tried.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Argument<'a> {
    /// Name, version and group, if there are at least two dots.
    pub(super) full: Option<(&'a str, &'a str, &'a str)>,
    /// Name and group, which is everything after the first dot.
    pub(super) name: &'a str,
    pub(super) group: &'a str,
}

impl<'a> Argument<'a> {
    pub(super) fn parse(argument: &'a str) -> Self {
        let (name, group) = argument.split_once('.').unwrap_or((argument, ""));
        let full = group.split_once('.').map(|(version, group)| (name, version, group));
        Argument { full, name, group }
    }
}

#[cfg(test)]
mod tests;

//! [`ResourceQuery`]: a resource as people name it.

use std::fmt;

/// A resource as people name it: a plural, a singular or a short name, perhaps with a group or a version. What is empty
/// is left open.
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
    /// The group, or the beginning of its name; empty for any.
    pub group: String,
    /// The version; empty for any.
    pub version: String,
    /// The name, in any case.
    pub resource: String,
}

impl ResourceQuery {
    /// The resource of this name in any group and version.
    pub fn new(resource: impl Into<String>) -> Self {
        ResourceQuery { resource: resource.into(), ..ResourceQuery::default() }
    }

    /// The resource that an argument of a command line names, read without a version.
    pub(super) fn of_argument(argument: &str) -> Self {
        let Argument { name, group, .. } = Argument::parse(argument);
        ResourceQuery::new(name).group(group)
    }

    /// In this group, or in one whose name begins like this.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// In this version.
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
    /// As kubectl writes it: `deployments.v1.apps`.
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

/// What an argument like `deployments.v1.apps` may mean, in the order in which it is tried.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Argument<'a> {
    /// Name, version and group, if there are at least two dots.
    pub(super) full: Option<(&'a str, &'a str, &'a str)>,
    /// Name and group, which is all behind the first dot.
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

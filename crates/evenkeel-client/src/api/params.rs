//! Options of lists and watches.

use std::borrow::Cow;
use std::time::Duration;

use evenkeel_core::shard::ShardSelector;

use crate::rest::{Query, Request, RequestError};

/// Options of a list.
///
/// ```
/// use evenkeel_client::ListParams;
///
/// let ours = ListParams::default().labels("app=web,tier!=cache").fields("spec.nodeName=n1").limit(500);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListParams {
    /// Label selector, such as `app=web,tier!=cache`; empty for all objects.
    pub label_selector: String,
    /// Field selector, such as `spec.nodeName=n1`; empty for all objects.
    pub field_selector: String,
    /// The places of the objects; `None` for all objects. See [`shards`](Self::shards).
    pub shard_selector: Option<ShardSelector>,
    /// The maximal number of objects; the list then has a continue token. 0 for no limit.
    pub limit: u32,
    /// The continue token of the previous page.
    pub continue_token: String,
    /// The resource version to list; empty for the newest.
    pub resource_version: String,
    /// How [`resource_version`](Self::resource_version) is matched.
    pub version_match: Option<VersionMatch>,
    /// The timeout on the server.
    pub timeout: Option<Duration>,
    /// Options without a field here; see [`query`](Self::query).
    pub query: Query,
}

/// How the resource version of a list is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// That version, or a newer one.
    NotOlderThan,
    /// Exactly that version.
    Exact,
}

impl VersionMatch {
    fn as_str(self) -> &'static str {
        match self {
            VersionMatch::NotOlderThan => "NotOlderThan",
            VersionMatch::Exact => "Exact",
        }
    }
}

impl ListParams {
    /// Sets the label selector: a text such as `app=web`, or a [`LabelSelector`](evenkeel_core::LabelSelector), which
    /// escapes values from untrusted input.
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.label_selector = selector.to_string();
        self
    }

    /// Sets the field selector: a text such as `spec.nodeName=n1`, or a
    /// [`FieldSelector`](evenkeel_core::FieldSelector).
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.field_selector = selector.to_string();
        self
    }

    /// Selects objects by the hash of their uid or namespace: a sharded list.
    ///
    /// Servers without sharded lists ignore it, and a selector of more than 64 ranges is sent as a wider one:
    /// [`ShardSelector::matches`] tells which of the returned objects are selected. A deletion of a collection with a shard selector
    /// is an error: a server that ignores it would delete everything.
    ///
    /// ```
    /// use evenkeel_client::ListParams;
    /// use evenkeel_core::shard::{ShardField, ShardRange, ShardSelector};
    ///
    /// let half = ShardRange::new(0, 1 << 63)?;
    /// let params = ListParams::default().shards(ShardSelector::new(ShardField::Uid, half));
    /// # Ok::<(), evenkeel_core::shard::ShardSelectorError>(())
    /// ```
    pub fn shards(mut self, selector: ShardSelector) -> Self {
        self.shard_selector = Some(selector);
        self
    }

    /// Sets the maximal number of objects.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Continues after the page with this token.
    pub fn continue_from(mut self, token: impl Into<String>) -> Self {
        self.continue_token = token.into();
        self
    }

    /// Lists this version, or a newer one. `0` lists any version from the server's cache.
    pub fn not_older_than(mut self, version: impl Into<String>) -> Self {
        self.resource_version = version.into();
        self.version_match = Some(VersionMatch::NotOlderThan);
        self
    }

    /// Lists exactly this version.
    pub fn exactly_at(mut self, version: impl Into<String>) -> Self {
        self.resource_version = version.into();
        self.version_match = Some(VersionMatch::Exact);
        self
    }

    /// Sets the timeout on the server.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Adds an option of newer servers as a query parameter. An option that has a field here is an error when the request is sent: use
    /// the field.
    ///
    /// Servers ignore options that they do not know, so the list may contain more than was selected.
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.query.add(name, value.into());
        self
    }

    pub(crate) fn add_to(&self, request: Request) -> Request {
        let request = other_options(request, &self.query);
        let request = select(request, &self.label_selector, &self.field_selector, self.shard_selector.as_ref());
        let request = if self.limit == 0 { request } else { request.query("limit", self.limit.to_string()) };
        let request = text(request, "continue", &self.continue_token);
        let request = text(request, "resourceVersion", &self.resource_version);
        let request = text(request, "resourceVersionMatch", self.version_match.map_or("", VersionMatch::as_str));
        seconds(request, self.timeout)
    }
}

/// Options of a watch.
///
/// ```
/// use evenkeel_client::WatchParams;
///
/// let ours = WatchParams::from_version("1234").labels("app=web");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchParams {
    /// Label selector; empty for all objects.
    pub label_selector: String,
    /// Field selector; empty for all objects.
    pub field_selector: String,
    /// The places of the objects; `None` for all objects. See [`ListParams::shards`].
    pub shard_selector: Option<ShardSelector>,
    /// The resource version after which events start. Empty starts with an added event for every existing object; `0`
    /// does so from the server's cache.
    pub resource_version: String,
    /// When the server ends the watch; `None` for the server's default.
    pub timeout: Option<Duration>,
    /// Whether the server sends bookmarks, which advance the resource version from which a new watch can start.
    pub bookmarks: bool,
    /// Whether the watch starts with all existing objects, followed by a bookmark that marks the end of the initial
    /// list (WatchList).
    pub initial_events: bool,
    /// Options without a field here; see [`query`](Self::query).
    pub query: Query,
}

impl Default for WatchParams {
    fn default() -> Self {
        WatchParams {
            label_selector: String::new(),
            field_selector: String::new(),
            shard_selector: None,
            resource_version: String::new(),
            timeout: None,
            bookmarks: true,
            initial_events: false,
            query: Query::new(),
        }
    }
}

impl WatchParams {
    /// Watches events after this version.
    pub fn from_version(version: impl Into<String>) -> Self {
        WatchParams { resource_version: version.into(), ..WatchParams::default() }
    }

    /// Sets the label selector; see [`ListParams::labels`].
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.label_selector = selector.to_string();
        self
    }

    /// Sets the field selector; see [`ListParams::fields`].
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.field_selector = selector.to_string();
        self
    }

    /// Selects objects by the hash of their uid or namespace; see [`ListParams::shards`].
    pub fn shards(mut self, selector: ShardSelector) -> Self {
        self.shard_selector = Some(selector);
        self
    }

    /// Sets when the server ends the watch.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Disables bookmarks.
    pub fn without_bookmarks(mut self) -> Self {
        self.bookmarks = false;
        self
    }

    /// Starts with all existing objects, followed by a bookmark, then sends events (WatchList).
    pub fn initial_events(mut self) -> Self {
        self.initial_events = true;
        self
    }

    /// Adds an option of newer servers as a query parameter; see [`ListParams::query`].
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.query.add(name, value.into());
        self
    }

    pub(crate) fn add_to(&self, request: Request) -> Request {
        let request = other_options(request, &self.query).query("watch", "true");
        let request = select(request, &self.label_selector, &self.field_selector, self.shard_selector.as_ref());
        let request = text(request, "resourceVersion", &self.resource_version);
        let request = if self.bookmarks { request.query("allowWatchBookmarks", "true") } else { request };
        let request = if self.initial_events {
            request
                .query("sendInitialEvents", "true")
                .query("resourceVersionMatch", VersionMatch::NotOlderThan.as_str())
        } else {
            request
        };
        seconds(request, self.timeout)
    }
}

/// The options that have a field or a method of their own, of lists and of watches.
const OWN_OPTIONS: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];

/// Adds options without a field.
fn other_options(request: Request, query: &Query) -> Request {
    let names = query.names();
    match names.iter().find(|name| OWN_OPTIONS.contains(name)) {
        None if names.is_empty() => request,
        None => request.params(query.clone()),
        Some(name) => {
            let problem = format!("the option {name:?} of a list or watch has a field of its own: set that instead");
            request.invalid(RequestError::Invalid { problem })
        }
    }
}

fn select(request: Request, labels: &str, fields: &str, shards: Option<&ShardSelector>) -> Request {
    let request = text(text(request, "labelSelector", labels), "fieldSelector", fields);
    match shards.and_then(ShardSelector::requested) {
        Some(shards) => request.query("shardSelector", shards.to_string()),
        None => request,
    }
}

fn text(request: Request, name: &'static str, value: &str) -> Request {
    if value.is_empty() { request } else { request.query(name, value) }
}

fn seconds(request: Request, timeout: Option<Duration>) -> Request {
    request.query("timeoutSeconds", timeout.map(whole_seconds))
}

/// Rounds up to the whole seconds of the API. The maximum is `i32::MAX` seconds: servers count nanoseconds in 64 bits
/// and would overflow.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    const LIFETIME: u64 = i32::MAX as u64;
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).min(LIFETIME)
}

#[cfg(test)]
mod tests;

//! What lists and watches may be asked for.

use std::time::Duration;

use crate::rest::Request;

/// Which objects a list shows, and how.
///
/// ```
/// use evenkeel_client::ListParams;
///
/// let ours = ListParams::default().labels("app=web,tier!=cache").fields("spec.nodeName=n1").limit(500);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListParams {
    /// Only objects whose labels match, such as `app=web,tier!=cache`; empty for all.
    pub label_selector: String,
    /// Only objects whose fields match, such as `spec.nodeName=n1`; empty for all.
    pub field_selector: String,
    /// At most this many; the list then says where the next page begins. 0 for all.
    pub limit: u32,
    /// Where the page begins: what the page before it said.
    pub continue_token: String,
    /// The version to show; empty for the newest.
    pub resource_version: String,
    /// How [`resource_version`](Self::resource_version) is meant.
    pub version_match: Option<VersionMatch>,
    /// How long the server may take.
    pub timeout: Option<Duration>,
}

/// How the resource version of a list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// This version, or any newer one.
    NotOlderThan,
    /// This version and no other.
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
    /// Only objects whose labels match: a text such as `app=web`, or a [`LabelSelector`](evenkeel_core::LabelSelector),
    /// which is the way to go for values that come from elsewhere.
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.label_selector = selector.to_string();
        self
    }

    /// Only objects whose fields match: a text such as `spec.nodeName=n1`, or a
    /// [`FieldSelector`](evenkeel_core::FieldSelector).
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.field_selector = selector.to_string();
        self
    }

    /// At most this many.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// The page that begins where the one before said.
    pub fn continue_from(mut self, token: impl Into<String>) -> Self {
        self.continue_token = token.into();
        self
    }

    /// This version, or any newer one. `0` takes whatever the server has at hand.
    pub fn not_older_than(mut self, version: impl Into<String>) -> Self {
        self.resource_version = version.into();
        self.version_match = Some(VersionMatch::NotOlderThan);
        self
    }

    /// This version and no other.
    pub fn exactly_at(mut self, version: impl Into<String>) -> Self {
        self.resource_version = version.into();
        self.version_match = Some(VersionMatch::Exact);
        self
    }

    /// The server gives up after this time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn add_to(&self, request: Request) -> Request {
        let request = select(request, &self.label_selector, &self.field_selector);
        let request = if self.limit == 0 { request } else { request.query("limit", self.limit.to_string()) };
        let request = text(request, "continue", &self.continue_token);
        let request = text(request, "resourceVersion", &self.resource_version);
        let request = text(request, "resourceVersionMatch", self.version_match.map_or("", VersionMatch::as_str));
        seconds(request, self.timeout)
    }
}

/// Which events a watch shows, and from where.
///
/// ```
/// use evenkeel_client::WatchParams;
///
/// let ours = WatchParams::from_version("1234").labels("app=web");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchParams {
    /// Only objects whose labels match; empty for all.
    pub label_selector: String,
    /// Only objects whose fields match; empty for all.
    pub field_selector: String,
    /// Events after this version. Empty begins with the present objects as if they had just come; `0` likewise, from
    /// whatever the server has at hand.
    pub resource_version: String,
    /// When the server ends the watch by itself; it chooses if this is `None`.
    pub timeout: Option<Duration>,
    /// Whether the server tells every now and then how far it has come, so that a new watch can begin there.
    pub bookmarks: bool,
    /// Begin with all present objects, then a bookmark that says so, then go on (WatchList).
    pub initial_events: bool,
}

impl Default for WatchParams {
    fn default() -> Self {
        WatchParams {
            label_selector: String::new(),
            field_selector: String::new(),
            resource_version: String::new(),
            timeout: None,
            bookmarks: true,
            initial_events: false,
        }
    }
}

impl WatchParams {
    /// Events after this version.
    pub fn from_version(version: impl Into<String>) -> Self {
        WatchParams { resource_version: version.into(), ..WatchParams::default() }
    }

    /// Only objects whose labels match; see [`ListParams::labels`].
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.label_selector = selector.to_string();
        self
    }

    /// Only objects whose fields match; see [`ListParams::fields`].
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.field_selector = selector.to_string();
        self
    }

    /// The server ends the watch after this time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// No bookmarks.
    pub fn without_bookmarks(mut self) -> Self {
        self.bookmarks = false;
        self
    }

    /// All present objects first, then a bookmark that says so, then what happens.
    pub fn initial_events(mut self) -> Self {
        self.initial_events = true;
        self
    }

    pub(crate) fn add_to(&self, request: Request) -> Request {
        let request = request.query("watch", "true");
        let request = select(request, &self.label_selector, &self.field_selector);
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

fn select(request: Request, labels: &str, fields: &str) -> Request {
    text(text(request, "labelSelector", labels), "fieldSelector", fields)
}

fn text(request: Request, name: &'static str, value: &str) -> Request {
    if value.is_empty() { request } else { request.query(name, value) }
}

fn seconds(request: Request, timeout: Option<Duration>) -> Request {
    request.query("timeoutSeconds", timeout.map(whole_seconds))
}

/// The API counts in whole seconds; a part of one is one. What is beyond a lifetime would be too much for servers, whose
/// clocks count nanoseconds in 64 bits, and is a lifetime.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    const LIFETIME: u64 = i32::MAX as u64;
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).min(LIFETIME)
}

#[cfg(test)]
mod tests;

//! [`Verdict`]: what a hook decides. [`HookError`]: why it refuses or fails.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;

use evenkeel_core::{Reason, Status};

/// The longest warning, in characters. API servers cut longer ones.
const WARNING_LENGTH: usize = 256;

/// What a hook decides: whether the request is allowed, warnings for the client, and annotations for the audit log.
///
/// ```
/// use evenkeel_webhook::Verdict;
///
/// let verdict = Verdict::allow().warn("spec.size is deprecated; use spec.replicas").annotate("defaulted", "replicas");
/// let refusal = Verdict::deny("spec.replicas must not be negative");
/// assert!(verdict.is_allowed() && !refusal.is_allowed());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a verdict has an effect only if the hook returns it"]
pub struct Verdict {
    refusal: Option<Box<Status>>,
    warnings: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl Verdict {
    /// Allows the request.
    pub fn allow() -> Self {
        Verdict::default()
    }

    /// Refuses the request with code 403 and reason `Forbidden`. The client sees the message.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::refuse(Status::failure(403, Reason::FORBIDDEN, message))
    }

    /// Refuses the request with this status. The API server raises codes below 400 to 400; a code of 0 is sent as 200.
    pub fn refuse(mut status: Status) -> Self {
        if status.code == 0 {
            status.code = 200;
        }
        Verdict { refusal: Some(Box::new(status)), ..Verdict::default() }
    }

    /// Adds a warning that the API server sends to the client, as `kubectl` prints it.
    ///
    /// Control characters are removed, because API servers drop warnings that contain them. It is cut at 256 characters; an
    /// empty or repeated one is ignored.
    pub fn warn(mut self, warning: impl AsRef<str>) -> Self {
        self.add_warning(warning.as_ref());
        self
    }

    /// Adds an annotation to the event in the audit log. The API server prefixes the key with the name of the webhook.
    pub fn annotate(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Returns whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        self.refusal.is_none()
    }

    /// Returns the status of a refusal.
    pub fn refusal(&self) -> Option<&Status> {
        self.refusal.as_deref()
    }

    /// Returns the warnings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the annotations for the audit log.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    fn add_warning(&mut self, warning: &str) {
        let text: String = warning.chars().filter(|c| !c.is_control()).take(WARNING_LENGTH).collect();
        if !text.is_empty() && !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Adds the verdict of the next hook on the same path. Of several refusals the first has code and reason; the messages are
    /// joined, one line each.
    pub(crate) fn join(&mut self, next: Verdict) {
        for warning in &next.warnings {
            self.add_warning(warning);
        }
        self.annotations.extend(next.annotations);
        match (&mut self.refusal, next.refusal) {
            (Some(first), Some(next)) => {
                first.message.push('\n');
                first.message.push_str(&next.message);
            }
            (first @ None, next) => *first = next,
            (Some(_), None) => {}
        }
    }
}

/// `()` allows the request, so that a hook can end with `Ok(())`.
impl From<()> for Verdict {
    fn from((): ()) -> Self {
        Verdict::allow()
    }
}

/// Why a hook does not allow a request.
///
/// Every error and every text converts to one, and refuses the request: with the status of the API server if it is one, else
/// with code 403 and the error's text. So `?` and `Err("…".into())` refuse.
///
/// [`fault`](Self::fault) is for a hook that cannot decide. It is not a refusal: the API server applies the `failurePolicy` of
/// the webhook (unless the server has [`Fault::Deny`](crate::Fault::Deny)).
#[derive(Debug)]
pub struct HookError(pub(crate) HookErrorKind);

#[derive(Debug)]
pub(crate) enum HookErrorKind {
    Refusal(Verdict),
    Fault(Box<dyn StdError + Send + Sync>),
}

impl HookError {
    /// Returns the error of a hook that cannot decide.
    pub fn fault(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        HookError(HookErrorKind::Fault(error.into()))
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for HookError {
    fn from(error: E) -> Self {
        let error = error.into();
        let status = match error.downcast_ref::<evenkeel_client::Error>() {
            Some(evenkeel_client::Error::Api { status, .. }) => Some(&**status),
            _ => error.downcast_ref::<Status>(),
        };
        let refusal = match status {
            Some(status) => Verdict::refuse(status.clone()),
            None => Verdict::deny(error.to_string()),
        };
        HookError(HookErrorKind::Refusal(refusal))
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HookErrorKind::Refusal(verdict) => f.write_str(verdict.refusal().map_or("", |status| &status.message)),
            HookErrorKind::Fault(error) => write!(f, "{error}"),
        }
    }
}

//! The parser of fault specifications, as given on a command line.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use evenkeel_core::Reason;

use super::failure;
use super::rule::{Action, ExpireForm, Rule, WatchAction};

/// Why a fault specification is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultSpecError {
    /// The action does not exist.
    #[error("unknown fault {0:?}; there are {actions}", actions = ACTIONS.join(", "))]
    UnknownAction(String),
    /// A part after the colon is not `key=value`.
    #[error("{0:?} is not of the form key=value")]
    NotAPair(String),
    /// The action does not have this key.
    #[error("the fault {action:?} has no parameter {key:?}")]
    UnknownKey {
        /// The action.
        action: String,
        /// The key.
        key: String,
    },
    /// The key occurs twice.
    #[error("{0:?} is given twice")]
    Twice(String),
    /// The action requires this key.
    #[error("the fault {action:?} needs {key}=…")]
    Missing {
        /// The action.
        action: String,
        /// The key.
        key: &'static str,
    },
    /// The value is invalid for its key.
    #[error("{key}={value}: {problem}")]
    BadValue {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Why it is invalid.
        problem: &'static str,
    },
}

/// Every action, by name.
pub(super) const ACTIONS: &[&str] = &[
    "status",
    "delay",
    "drop",
    "hang",
    "refuse",
    "reset",
    "commit-then-drop",
    "drop-before-commit",
    "compact",
    "lag-replica",
    "reset-history",
    "omit-item",
    "drop-watch",
    "drop-watch-bytes",
    "cut-frame",
    "truncate-frame",
    "corrupt-frame",
    "split-frames",
    "coalesce-frames",
    "duplicate-event",
    "skip-event",
    "reorder-events",
    "expire",
    "bookmarks-only",
    "no-bookmarks",
    "early-initial-end",
    "stall",
    "error-event",
    "unknown-event",
    "wrong-kind",
];

/// The limit of pieces in `sizes`.
const MAX_SIZES: usize = 64;
/// The limit of frames held in memory to be reordered or sent together.
const MAX_HELD: u64 = 10_000;

pub(super) fn parse(spec: &str) -> Result<Rule, FaultSpecError> {
    let (action, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let mut pairs = Pairs::read(action.trim(), rest)?;
    let action = action_of(&mut pairs)?;
    let mut rule = Rule::new(action);
    rule.verb = pairs.text("verb");
    rule.group = pairs.text("group");
    rule.resource = pairs.text("resource");
    rule.namespace = pairs.text("namespace");
    rule.name = pairs.text("name");
    rule.user = pairs.text("user");
    rule.user_agent = pairs.text("user-agent");
    rule.watches = pairs.value("watches", "neither true nor false")?;
    rule.skip = pairs.number("skip")?.unwrap_or(0);
    rule.times = pairs.number("times")?;
    if let Some(probability) = pairs.value::<f64>("probability", "not a number")? {
        if !(0.0..=1.0).contains(&probability) {
            return Err(FaultSpecError::BadValue {
                key: "probability".into(),
                value: probability.to_string(),
                problem: "not between 0 and 1",
            });
        }
        rule.probability = probability;
    }
    let (from, until) = (pairs.number("from-ms")?, pairs.number("until-ms")?);
    if from.is_some() || until.is_some() {
        let window = Duration::from_millis(from.unwrap_or(0))..until.map_or(Duration::MAX, Duration::from_millis);
        if window.is_empty() {
            return Err(bad("until-ms", &window.end.as_millis().to_string(), "not after from-ms"));
        }
        rule.window = Some(window);
    }
    pairs.finish()?;
    Ok(rule)
}

fn action_of(pairs: &mut Pairs<'_>) -> Result<Action, FaultSpecError> {
    Ok(match pairs.action {
        "status" => Action::Status(pairs.status()?),
        "delay" => Action::Delay(Duration::from_millis(pairs.needed("ms")?)),
        "drop" => Action::Drop,
        "hang" => Action::Hang,
        "refuse" => Action::Refuse,
        "commit-then-drop" => Action::CommitThenDrop,
        "drop-before-commit" => Action::DropBeforeCommit,
        "reset" => Action::Reset { after_bytes: pairs.needed("bytes")? },
        "compact" => Action::Compact,
        "lag-replica" => Action::LagReplica { revisions: pairs.needed("revisions")? },
        "reset-history" => Action::ResetHistory,
        "omit-item" => Action::OmitItem { item: pairs.number("item")?.unwrap_or(0) },
        _ => Action::Watch(watch_action_of(pairs)?),
    })
}

fn watch_action_of(pairs: &mut Pairs<'_>) -> Result<WatchAction, FaultSpecError> {
    Ok(match pairs.action {
        "drop-watch" => WatchAction::CloseAfterEvents(pairs.needed("events")?),
        "drop-watch-bytes" => WatchAction::CloseAfterBytes(pairs.needed("bytes")?),
        "cut-frame" => WatchAction::CloseMidFrame { event: pairs.event()?, byte: pairs.byte()? },
        "truncate-frame" => WatchAction::TruncateFrame { event: pairs.event()?, byte: pairs.byte()? },
        "corrupt-frame" => WatchAction::CorruptFrame { event: pairs.event()?, byte: pairs.byte()? },
        "split-frames" => WatchAction::SplitFrame { sizes: pairs.sizes()? },
        "coalesce-frames" => WatchAction::CoalesceFrames {
            events: pairs.held("events", 2)? as usize,
            wait: Duration::from_millis(pairs.number("ms")?.unwrap_or(100)),
        },
        "duplicate-event" => WatchAction::DuplicateEvent { event: pairs.event()? },
        "skip-event" => WatchAction::SkipEvent { event: pairs.event()? },
        "reorder-events" => {
            let (first, second) = (pairs.number("first")?.unwrap_or(0), pairs.held("second", 1)?);
            if second <= first {
                return Err(bad("second", &second.to_string(), "not after the first"));
            }
            WatchAction::Reorder { first, second }
        }
        "expire" => WatchAction::Expire {
            event: pairs.event()?,
            form: match pairs.text("as").as_deref() {
                None | Some("event") => ExpireForm::Event,
                Some("http") => ExpireForm::Http,
                Some(other) => return Err(bad("as", other, "neither event nor http")),
            },
        },
        "bookmarks-only" => WatchAction::BookmarkOnly,
        "no-bookmarks" => WatchAction::NoBookmarks,
        "early-initial-end" => WatchAction::EarlyInitialEnd,
        "stall" => {
            WatchAction::StallFor { event: pairs.event()?, duration: Duration::from_millis(pairs.needed("ms")?) }
        }
        "error-event" => WatchAction::ErrorEvent { event: pairs.event()?, status: pairs.status()? },
        "unknown-event" => WatchAction::UnknownEventType { event: pairs.event()? },
        "wrong-kind" => WatchAction::WrongKindObject { event: pairs.event()? },
        other => return Err(FaultSpecError::UnknownAction(other.to_owned())),
    })
}

fn bad(key: &str, value: &str, problem: &'static str) -> FaultSpecError {
    FaultSpecError::BadValue { key: key.to_owned(), value: value.to_owned(), problem }
}

/// The `key=value` pairs that are not parsed yet.
struct Pairs<'a> {
    action: &'a str,
    left: BTreeMap<&'a str, &'a str>,
}

impl<'a> Pairs<'a> {
    fn read(action: &'a str, text: &'a str) -> Result<Self, FaultSpecError> {
        let mut left = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| FaultSpecError::NotAPair(part.to_owned()))?;
            if left.insert(key, value).is_some() {
                return Err(FaultSpecError::Twice(key.to_owned()));
            }
        }
        Ok(Pairs { action, left })
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.left.remove(key).map(str::to_owned)
    }

    fn value<T: FromStr>(&mut self, key: &str, problem: &'static str) -> Result<Option<T>, FaultSpecError> {
        match self.left.remove(key) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| bad(key, text, problem)),
        }
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, FaultSpecError> {
        self.value(key, "not a whole number")
    }

    fn needed(&mut self, key: &'static str) -> Result<u64, FaultSpecError> {
        self.number(key)?.ok_or_else(|| FaultSpecError::Missing { action: self.action.to_owned(), key })
    }

    fn event(&mut self) -> Result<u64, FaultSpecError> {
        Ok(self.number("event")?.unwrap_or(0))
    }

    fn byte(&mut self) -> Result<usize, FaultSpecError> {
        Ok(self.value("byte", "not a whole number")?.unwrap_or(10))
    }

    fn held(&mut self, key: &'static str, default: u64) -> Result<u64, FaultSpecError> {
        let number = self.number(key)?.unwrap_or(default);
        if number > MAX_HELD {
            return Err(bad(key, &number.to_string(), "more than 10000"));
        }
        Ok(number)
    }

    fn sizes(&mut self) -> Result<Vec<usize>, FaultSpecError> {
        let Some(text) = self.left.remove("sizes") else {
            return Ok(Vec::new());
        };
        let sizes: Option<Vec<usize>> = text.split('/').map(|size| size.parse().ok()).collect();
        match sizes {
            Some(sizes) if sizes.len() <= MAX_SIZES => Ok(sizes),
            Some(_) => Err(bad("sizes", text, "more than 64 sizes")),
            None => Err(bad("sizes", text, "not whole numbers with / between them")),
        }
    }

    fn status(&mut self) -> Result<Box<evenkeel_core::Status>, FaultSpecError> {
        let code = self.needed("code")?;
        let code = u16::try_from(code)
            .ok()
            .filter(|code| (400..600).contains(code))
            .ok_or_else(|| bad("code", &code.to_string(), "not an HTTP error code, 400 to 599"))?;
        let retry_after = self.value("retry-after", "not a whole number of seconds")?;
        let mut status = failure(code, retry_after);
        if let Some(reason) = self.text("reason") {
            status.reason = Reason::from(reason);
        }
        if let Some(message) = self.text("message") {
            status.message = message;
        }
        Ok(Box::new(status))
    }

    fn finish(self) -> Result<(), FaultSpecError> {
        match self.left.into_keys().next() {
            None => Ok(()),
            Some(key) => Err(FaultSpecError::UnknownKey { action: self.action.to_owned(), key: key.to_owned() }),
        }
    }
}

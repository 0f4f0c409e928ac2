//! [`FaultRules`]: the faults of a run as rules of the API server.
//!
//! A tape names choices by their number, and another request more in the code under test changes what they mean. A rule names the
//! request: "the second create of a Secret by the controller". It holds when the code changes, so regression tests use it.

use std::collections::BTreeMap;

use evenkeel_apiserver::{Action, ExpireForm, WatchAction};

use crate::fault::RequestFault;
use crate::network::Subject;

/// How long a connection without a response lasts, in milliseconds.
const HANG: u64 = 60_000;

/// The requests of a recorded run, and the rules that make the same ones fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultRules {
    /// How many requests of each kind the server would have handled or failed by a rule of another kind.
    seen: BTreeMap<String, u64>,
    rules: Vec<String>,
    /// A fault has no rule.
    is_incomplete: bool,
}

impl FaultRules {
    /// Adds a request of a process.
    pub(crate) fn add(&mut self, process: &str, subject: &Subject, fault: Option<&RequestFault>) {
        let conditions = conditions(process, subject);
        let seen = self.seen.entry(conditions.clone()).or_default();
        let Some(fault) = fault else {
            *seen += 1;
            return;
        };
        let Some(actions) = actions(fault) else {
            self.is_incomplete = true;
            return;
        };
        let skip = if *seen == 0 { String::new() } else { format!(",skip={seen}") };
        for action in &actions.texts {
            let separator = if action.contains(':') { ',' } else { ':' };
            self.rules.push(format!("{action}{separator}{conditions}{skip},times=1"));
        }
        // A rule that decides a request ends the search: later rules do not count that request.
        *seen += u64::from(!actions.decide);
    }

    /// Returns the rules, if all faults of requests have one.
    pub(crate) fn complete(&self) -> Option<&[String]> {
        (!self.is_incomplete && !self.rules.is_empty()).then_some(&*self.rules)
    }
}

/// The requests that a rule concerns.
fn conditions(process: &str, subject: &Subject) -> String {
    let verb = if subject.verb == "delete all" { "deletecollection" } else { subject.verb };
    let mut text = format!("user={process},verb={verb},resource={}", subject.resource);
    for (name, value) in [("namespace", &subject.namespace), ("name", &subject.name)] {
        if let Some(value) = value {
            text.push_str(&format!(",{name}={value}"));
        }
    }
    text
}

/// The actions of a fault, as texts of rules.
struct RuleActions {
    texts: Vec<String>,
    /// One of them decides what becomes of the request.
    decide: bool,
}

fn actions(fault: &RequestFault) -> Option<RuleActions> {
    let (texts, decide) = match fault {
        RequestFault::Refuse => (vec!["drop".to_owned()], true),
        RequestFault::Hang => (vec![format!("delay:ms={HANG}"), "drop".to_owned()], true),
        RequestFault::Delay(delay) => (vec![format!("delay:ms={}", delay.as_millis())], false),
        // Rules change no objects.
        RequestFault::Rival => return None,
        RequestFault::Inject(Action::CommitThenDrop) => (vec!["commit-then-drop".to_owned()], true),
        RequestFault::Inject(Action::DropBeforeCommit) => (vec!["drop-before-commit".to_owned()], true),
        RequestFault::Inject(Action::Status(status)) => {
            let wait = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            let wait = if wait > 0 { format!(",retry-after={wait}") } else { String::new() };
            (vec![format!("status:code={},reason={}{wait}", status.code, status.reason)], true)
        }
        RequestFault::Inject(Action::Watch(action)) => {
            let is_http = matches!(action, WatchAction::Expire { form: ExpireForm::Http, .. });
            (vec![watch_action(action)?], is_http)
        }
        // Rules have no late responses, and know no versions, tokens or initial events.
        RequestFault::Inject(_)
        | RequestFault::DelayResponse(_)
        | RequestFault::ExpirePage { .. }
        | RequestFault::RefuseVersion
        | RequestFault::BeforeInitialEnd(_) => return None,
    };
    Some(RuleActions { texts, decide })
}

fn watch_action(action: &WatchAction) -> Option<String> {
    Some(match action {
        WatchAction::CloseAfterEvents(events) => format!("drop-watch:events={events}"),
        WatchAction::CloseMidFrame { event, byte } => format!("cut-frame:event={event},byte={byte}"),
        WatchAction::TruncateFrame { event, byte } => format!("truncate-frame:event={event},byte={byte}"),
        WatchAction::CorruptFrame { event, byte } => format!("corrupt-frame:event={event},byte={byte}"),
        WatchAction::SplitFrame { sizes } => {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            if sizes.is_empty() { "split-frames".to_owned() } else { format!("split-frames:sizes={}", sizes.join("/")) }
        }
        WatchAction::CoalesceFrames { events, wait } => {
            format!("coalesce-frames:events={events},ms={}", wait.as_millis())
        }
        WatchAction::DuplicateEvent { event } => format!("duplicate-event:event={event}"),
        WatchAction::Expire { event, form: ExpireForm::Event } => format!("expire:event={event},as=event"),
        WatchAction::Expire { event, form: ExpireForm::Http } => format!("expire:event={event},as=http"),
        WatchAction::NoBookmarks => "no-bookmarks".to_owned(),
        WatchAction::StallFor { event, duration } => format!("stall:event={event},ms={}", duration.as_millis()),
        WatchAction::UnknownEventType { event } => format!("unknown-event:event={event}"),
        WatchAction::WrongKindObject { event } => format!("wrong-kind:event={event}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evenkeel_apiserver::{Action, Faults, Rule};

    use super::*;
    use crate::decisions::{ChoiceSource, Decisions};
    use crate::fault::{Fault, request_fault};

    /// What rules cannot express: other writers, late responses, versions, tokens, initial events.
    const WITHOUT_RULE: [Fault; 6] = [
        Fault::Rival,
        Fault::Slow,
        Fault::PageExpires,
        Fault::VersionTooLarge,
        Fault::BookmarksOnly,
        Fault::InitialEndMissing,
    ];

    /// Every other fault of a request has a rule, which the server reads as the same action.
    #[test]
    fn rpl_4_the_rule_of_a_fault_is_that_fault() {
        for fault in Fault::ALL {
            for seed in 0..50 {
                let mut decisions = Decisions::new(ChoiceSource::Seed(seed));
                let (planned, words) = request_fault(fault, &mut decisions);
                let Some(RuleActions { texts, .. }) = actions(&planned) else {
                    assert!(WITHOUT_RULE.contains(&fault), "{words}");
                    continue;
                };
                let parsed: Vec<Rule> = texts.iter().map(|text| Faults::parse(text).unwrap()).collect();
                match planned {
                    // The message differs.
                    RequestFault::Inject(Action::Status(_)) => assert!(texts[0].starts_with("status:"), "{words}"),
                    RequestFault::Inject(action) => assert_eq!(parsed, [Rule::new(action)], "{words}"),
                    RequestFault::Delay(delay) => {
                        assert_eq!(parsed, [Rule::new(Action::Delay(Duration::from_millis(delay.as_millis() as u64)))]);
                    }
                    _ => assert_eq!(parsed.last(), Some(&Rule::new(Action::Drop))),
                }
            }
        }
    }
}

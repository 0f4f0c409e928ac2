//! `evenkeel wait`: waits for objects, with the forms of `kubectl wait`.

mod condition;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use evenkeel_client::api::scope::Any;
use evenkeel_client::wait::{ConditionState, WaitError, wait_until};
use evenkeel_client::watch::Selection;
use evenkeel_client::{Api, ListParams, Unstructured, Wire, wait_for};
use evenkeel_core::{FieldSelector, LabelSelector, Obj, ResourceInfo, duration};
use tokio::time::{Instant, timeout_at};

use self::condition::Condition;
use crate::connect::{Cluster, Connection};
use crate::resolve::resolve;
use crate::selection::ObjectSelection;
use crate::{Failure, Outcome};

/// The limit of a wait with a negative timeout.
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const MORE: &str = "\
Conditions: --for CONDITION, repeatable. Several are met one after the other, create first; with --any one of them is enough.
  create                          the object exists
  delete                          the object does not exist, or was replaced
  condition=TYPE[=STATUS]         status.conditions has it, for the current generation; STATUS is true by default
  jsonpath=PATH[=VALUE]           the path has this value, or any

Exit codes: 0 met, 1 not met in time or an error, 3 the condition can no longer be met: a failed job never completes, a
finished pod is never ready.

Examples:
  evenkeel wait --for condition=Ready pod/web-0 pod/web-1
  evenkeel wait --for condition=Available deployments -l app=web --timeout 2m
  evenkeel wait --for condition=Complete --for condition=Failed --any job/migration
  evenkeel wait --for jsonpath='{.status.phase}'=Bound pvc/data
  evenkeel wait --for create --for condition=Ready foos.example.com/a";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Arguments {
    /// RESOURCE/NAME, repeatable; or RESOURCE and names; or RESOURCE with --selector, --field-selector or --all
    #[arg(value_name = "RESOURCE", required = true, value_parser = NonEmptyStringValueParser::new())]
    targets: Vec<String>,
    /// Condition to wait for. Repeatable
    #[arg(long = "for", value_name = "CONDITION", required = true, value_parser = condition::parse)]
    conditions: Vec<Condition>,
    /// One of the conditions is enough
    #[arg(long)]
    any: bool,
    /// Time limit for all objects together, such as 90s; 0 looks once, a negative one is a week
    #[arg(long, value_name = "TIME", default_value = "30s", allow_hyphen_values = true, value_parser = limit)]
    timeout: Duration,
    #[command(flatten)]
    selection: ObjectSelection,
    /// All objects
    #[arg(long, conflicts_with_all = ["selector", "field_selector"])]
    all: bool,
    #[command(flatten)]
    connection: Connection,
}

/// A condition that can no longer be met, which has an exit code of its own.
#[derive(Debug)]
pub(crate) struct NeverMet(String);

impl fmt::Display for NeverMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NeverMet {}

fn limit(text: &str) -> Result<Duration, duration::DurationError> {
    match duration::parse(text) {
        Err(duration::DurationError::Negative) => Ok(WEEK),
        parsed => parsed,
    }
}

/// What to wait for, from the arguments.
#[derive(Debug, PartialEq, Eq)]
enum Targets<'a> {
    /// Resources and names.
    Named(Vec<(&'a str, &'a str)>),
    /// What the selectors select.
    Selected(&'a str),
}

impl<'a> Targets<'a> {
    fn new(arguments: &'a [String], is_selection: bool) -> Result<Self, Failure> {
        let is_pair = |argument: &String| argument.contains('/');
        let targets = match arguments {
            [resource] if !is_pair(resource) && is_selection => return Ok(Targets::Selected(resource)),
            [resource] if !is_pair(resource) => {
                return Err(format!("which {resource}? Pass names, --selector, --field-selector or --all").into());
            }
            pairs if pairs.iter().all(is_pair) => pairs.iter().filter_map(|pair| pair.split_once('/')).collect(),
            [resource, names @ ..] if !arguments.iter().any(is_pair) => {
                names.iter().map(|name| (resource.as_str(), name.as_str())).collect::<Vec<_>>()
            }
            _ => return Err("RESOURCE/NAME and names without a resource cannot be mixed".into()),
        };
        if is_selection {
            return Err("names and selectors cannot be mixed".into());
        }
        if targets.iter().any(|(resource, name)| resource.is_empty() || name.is_empty() || name.contains('/')) {
            return Err("an object is RESOURCE/NAME, such as pod/web-0 or foos.example.com/a".into());
        }
        Ok(Targets::Named(targets))
    }
}

/// An object to wait for.
struct Target {
    api: Api<Unstructured, Any>,
    name: String,
    /// The resource and the name, for messages.
    text: String,
}

pub(crate) async fn run(mut arguments: Arguments) -> Outcome {
    let selection = arguments.selection;
    let is_selection = selection.selector.is_some() || selection.field_selector.is_some() || arguments.all;
    let chosen = Targets::new(&arguments.targets, is_selection)?;
    // Protobuf drops fields that this version does not know, which a path may name.
    arguments.connection.prefer(Wire::Json);
    let cluster = arguments.connection.cluster(selection.namespace)?;
    // Creation first: the others wait for objects that exist.
    arguments.conditions.sort_by_key(|condition| *condition != Condition::Create);
    let wait = Wait {
        cluster: &cluster,
        conditions: &arguments.conditions,
        is_any: arguments.any,
        timeout: arguments.timeout,
        deadline: Instant::now() + arguments.timeout,
    };
    let targets = match chosen {
        Targets::Named(named) => wait.named(&named).await?,
        Targets::Selected(resource) => {
            let labels = selection.selector.unwrap_or_default();
            let fields = selection.field_selector.unwrap_or_default();
            wait.selected(resource, selection.all_namespaces, &labels, &fields).await?
        }
    };
    let mut failures: Vec<Failure> = Vec::new();
    for target in &targets {
        match wait.for_target(target).await {
            Ok(()) => writeln!(io::stdout(), "{} {}", target.text, wait.success())?,
            Err(failure) => failures.push(failure),
        }
    }
    let is_never = failures.iter().any(|failure| failure.is::<NeverMet>());
    let texts: Vec<String> = failures.iter().map(|failure| crate::chain(failure.as_ref())).collect();
    match (texts.is_empty(), is_never) {
        (true, _) => Ok(()),
        (false, true) => Err(NeverMet(texts.join("; ")).into()),
        (false, false) => Err(texts.join("; ").into()),
    }
}

/// The settings of one command.
struct Wait<'a> {
    cluster: &'a Cluster,
    conditions: &'a [Condition],
    is_any: bool,
    timeout: Duration,
    deadline: Instant,
}

impl Wait<'_> {
    async fn named(&self, named: &[(&str, &str)]) -> Result<Vec<Target>, Failure> {
        let mut targets = Vec::new();
        let mut known: Vec<(&str, Arc<ResourceInfo>)> = Vec::new();
        for &(resource, name) in named {
            let info = match known.iter().find(|(known, _)| *known == resource) {
                Some((_, info)) => Arc::clone(info),
                None => resolve(self.cluster, resource).await?,
            };
            targets.push(target(self.api(&info, false), &info, name));
            known.push((resource, info));
        }
        Ok(targets)
    }

    /// Returns the objects that the selectors select. If one is to be created, waits for the first.
    async fn selected(
        &self,
        resource: &str,
        is_everywhere: bool,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Vec<Target>, Failure> {
        let info = resolve(self.cluster, resource).await?;
        let api = self.api(&info, is_everywhere);
        let nothing = || Failure::from("no matching resources found");
        if self.conditions.contains(&Condition::Create) && !self.timeout.is_zero() {
            let any = Selection::of(&api).labels(labels).fields(fields);
            let exists = wait_until(any, |object: Option<&Obj<Unstructured>>| object.is_some());
            timeout_at(self.deadline, exists).await.map_err(|_| nothing())??;
        }
        let params = ListParams::default().labels(labels).fields(fields);
        let doing = format!("list {}", info.plural());
        let list = api.list(&params).await.map_err(|error| self.cluster.explain(&error, &doing))?;
        let found: Vec<Target> = list
            .into_iter()
            .map(|object| {
                let api = match object.key().namespace() {
                    Some(namespace) => api.namespace(namespace),
                    None => api.clone(),
                };
                target(api, &info, object.key().name())
            })
            .collect();
        if found.is_empty() { Err(nothing()) } else { Ok(found) }
    }

    fn api(&self, info: &Arc<ResourceInfo>, is_everywhere: bool) -> Api<Unstructured, Any> {
        let client = self.cluster.client();
        let api = client.dynamic(info);
        if info.namespaced() && !is_everywhere { api.namespace(&client.config().namespace) } else { api }
    }

    async fn for_target(&self, target: &Target) -> Outcome {
        let mut object = self.read(target).await?;
        let waits_for_absent = |condition: &Condition| matches!(condition, Condition::Create | Condition::Delete);
        if object.is_none() && !self.conditions.iter().any(waits_for_absent) {
            return Err(format!("{} not found", target.text).into());
        }
        let uid = object.as_ref().map(|object| object.uid().to_owned());
        if self.is_any {
            return self.until(target, object, uid.as_deref(), self.conditions).await.map(drop);
        }
        for condition in self.conditions {
            object = self.until(target, object, uid.as_deref(), std::slice::from_ref(condition)).await?;
        }
        Ok(())
    }

    /// Waits until one of the conditions is met. Returns the object as it then is.
    async fn until(
        &self,
        target: &Target,
        object: Option<Obj<Unstructured>>,
        uid: Option<&str>,
        conditions: &[Condition],
    ) -> Result<Option<Obj<Unstructured>>, Failure> {
        // An input that fits no object ends the wait, and is no condition that is never met.
        let mut problem = None;
        let mut state_of = |object: Option<&Obj<Unstructured>>| {
            let states = conditions.iter().map(|condition| condition.state(object, uid));
            condition::one_of(
                states
                    .collect::<Result<Vec<_>, _>>()
                    .unwrap_or_else(|error| vec![ConditionState::Never(problem.insert(error).clone())]),
            )
        };
        match state_of(object.as_ref()) {
            ConditionState::Met => return Ok(object),
            ConditionState::Never(reason) => return Err(never(target, problem, &reason)),
            ConditionState::Pending if self.timeout.is_zero() => {
                return Err(format!("condition not met for {}", target.text).into());
            }
            ConditionState::Pending => {}
        }
        match timeout_at(self.deadline, wait_for(&target.api, &target.name, state_of)).await {
            Err(_) => Err(format!("timed out waiting for the condition on {}", target.text).into()),
            Ok(Ok(object)) => Ok(object),
            Ok(Err(WaitError::Never { reason, .. })) => Err(never(target, problem, &reason)),
            Ok(Err(WaitError::Request(error))) => {
                Err(self.cluster.explain(&error, &format!("watch {}", target.text)).into())
            }
            Ok(Err(error)) => Err(error.into()),
        }
    }

    async fn read(&self, target: &Target) -> Result<Option<Obj<Unstructured>>, Failure> {
        match target.api.get(&target.name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(self.cluster.explain(&error, &format!("get {}", target.text)).into()),
        }
    }

    fn success(&self) -> &'static str {
        if self.conditions == [Condition::Delete] { "deleted" } else { "condition met" }
    }
}

fn target(api: Api<Unstructured, Any>, info: &ResourceInfo, name: &str) -> Target {
    Target { api, name: name.to_owned(), text: format!("{}/{name}", info.plural()) }
}

fn never(target: &Target, problem: Option<String>, reason: &str) -> Failure {
    match problem {
        Some(problem) => format!("{}: {problem}", target.text).into(),
        None => NeverMet(format!("the condition on {} can no longer be met: {reason}", target.text)).into(),
    }
}

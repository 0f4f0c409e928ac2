//! `evenkeel rbac`: the roles of a program, from an audit log of what it used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use evenkeel_client::access::{Access, AccessError, AccessLog, RbacRules, read_audit_log};
use evenkeel_client::manifest;

use crate::{Failure, Outcome};

/// The largest manifest to check.
const MAX_MANIFEST: u64 = 16 << 20;

const MORE: &str = "\
FILE has an event of audit.k8s.io/v1 per line: what `evenkeel apiserver --audit-log FILE` and kube-apiserver write, and what an
AccessRecorder of a test writes. `-` is the standard input. Each user has roles of its own. Discovery, /version and health are
left out, because every user may read them.

An operator that serves all namespaces is usually tested in one of them: --all-namespaces makes a ClusterRole of what it used
there, except for its own namespace: --keep-namespace.

Examples:
  evenkeel apiserver --token-file tokens.csv --audit-log audit.log ...   run the program as a user of its own
  evenkeel rbac audit.log --user shop --name shop-operator > role.yaml
  evenkeel rbac audit.log --user shop --all-namespaces --keep-namespace shop-system
  evenkeel rbac audit.log --user shop --check role.yaml                  exit 1 if something is not granted";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Arguments {
    /// Audit log, or - for the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only what this user used
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Name of the roles [default: that of the user]; with several users, the user is appended
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Count what was used in a namespace as used in all namespaces
    #[arg(long)]
    all_namespaces: bool,
    /// Except for this namespace. Repeatable
    #[arg(long, value_name = "NS", requires = "all_namespaces")]
    keep_namespace: Vec<String>,
    /// Grant this resource by the names of the objects that were used, such as secrets or leases.coordination.k8s.io. Repeatable
    #[arg(long, value_name = "RESOURCE", conflicts_with = "check")]
    by_name: Vec<String>,
    /// Check the roles of this manifest instead: fails with what was used and is not granted, and lists what is granted and
    /// was not used
    #[arg(long, value_name = "MANIFEST", conflicts_with = "name")]
    check: Option<PathBuf>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    tokio::task::spawn_blocking(move || compute(&arguments)).await?
}

fn compute(arguments: &Arguments) -> Outcome {
    let users = chosen(arguments, read(&arguments.file)?)?;
    match &arguments.check {
        Some(manifest) => check(&users, manifest),
        None => print(arguments, &users),
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, AccessLog>, Failure> {
    let input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Box::new(BufReader::new(file))
    };
    read_audit_log(input).map_err(|error| format!("{}: {}", path.display(), crate::chain(&error)).into())
}

/// Returns what the chosen users used, in the chosen namespaces.
fn chosen(
    arguments: &Arguments,
    mut users: BTreeMap<String, AccessLog>,
) -> Result<BTreeMap<String, AccessLog>, Failure> {
    let file = arguments.file.display();
    if users.is_empty() {
        return Err(format!("{file} has no requests of authenticated users").into());
    }
    if let Some(user) = &arguments.user {
        let known: Vec<String> = users.keys().cloned().collect();
        users.retain(|name, _| name == user);
        if users.is_empty() {
            return Err(format!("{file} has no requests of the user {user:?}; it has {}", known.join(", ")).into());
        }
    }
    if arguments.all_namespaces {
        let kept: Vec<&str> = arguments.keep_namespace.iter().map(String::as_str).collect();
        users.values_mut().for_each(|log| *log = log.in_all_namespaces(&kept));
    }
    Ok(users)
}

fn print(arguments: &Arguments, users: &BTreeMap<String, AccessLog>) -> Outcome {
    let by_name: Vec<&str> = arguments.by_name.iter().map(String::as_str).collect();
    let mut out = io::stdout().lock();
    for (index, (user, log)) in users.iter().enumerate() {
        if !log.is_complete() {
            return Err(Failure::from(AccessError::Incomplete));
        }
        let name = match &arguments.name {
            Some(name) if users.len() == 1 => name.clone(),
            Some(name) => format!("{name}-{}", object_name(user)),
            None => object_name(user),
        };
        let roles = log.rules_by_name(&by_name).roles(&name)?;
        if index > 0 {
            writeln!(out, "---")?;
        }
        writeln!(out, "# What {} used.", crate::terminal::sanitize(user))?;
        match roles.is_empty() {
            true => writeln!(out, "# Every authenticated user may do that.")?,
            false => write!(out, "{}", manifest::to_yaml(&roles)?)?,
        }
    }
    Ok(())
}

/// Returns a user as the name of an object: `system:serviceaccount:web:shop` is `system-serviceaccount-web-shop`.
fn object_name(user: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let name: String = user.chars().map(plain).take(200).collect();
    let name = name.trim_matches(|c| c == '-' || c == '.');
    if name.is_empty() { "user".to_owned() } else { name.to_owned() }
}

fn check(users: &BTreeMap<String, AccessLog>, path: &Path) -> Outcome {
    let mut users = users.iter();
    let (Some((user, log)), None) = (users.next(), users.next()) else {
        return Err("the log has requests of several users: choose the one of the roles with --user USER".into());
    };
    let failed = |problem: &dyn std::fmt::Display| format!("cannot use the roles in {}: {problem}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(MAX_MANIFEST + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    let granted = RbacRules::parse(&text).map_err(|error| failed(&error))?;
    if granted == RbacRules::default() {
        return Err(failed(&"there are no rules in it").into());
    }
    match granted.check(log) {
        Ok(unused) => {
            list_unused(&unused)?;
            writeln!(io::stdout(), "everything that {} used is granted", crate::terminal::sanitize(user))?;
            Ok(())
        }
        Err(AccessError::Missing { missing, unused }) => {
            list_unused(&unused)?;
            Err(AccessError::Missing { missing, unused }.into())
        }
        Err(other) => Err(other.into()),
    }
}

fn list_unused(unused: &[Access]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    unused.iter().try_for_each(|access| writeln!(out, "granted and not used: {access}"))
}

//! `evenkeel ring`: the state of a ring of replicas, and the owner of a key. Reads Leases, and writes nothing.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use evenkeel::ring::{MemberStatus, RingStatus, RingTable, ShardBy};
use evenkeel_client::Client;
use evenkeel_core::ObjectKey;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::connect::Connection;
use crate::terminal::sanitize;
use crate::{Failure, Outcome};

/// Time limit of the request.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// Print the members of a ring, their shares, moves under way, and what has no owner
    Status(Status),
    /// Print the place of a key, its slice, owner and epoch
    Where(Where),
}

#[derive(Debug, clap::Args)]
struct Status {
    #[command(flatten)]
    ring: RingArguments,
}

#[derive(Debug, clap::Args)]
struct Where {
    #[command(flatten)]
    ring: RingArguments,
    /// Key of an object: namespace/name
    #[arg(value_name = "KEY", value_parser = key)]
    key: ObjectKey,
}

#[derive(Debug, clap::Args)]
struct RingArguments {
    /// Name of the ring
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// Namespace of the ring's Leases [default: that of the context]
    #[arg(short, long, value_name = "NS", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Parses `namespace/name`, or the name of an object without a namespace.
fn key(text: &str) -> Result<ObjectKey, &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ObjectKey::namespaced(namespace, name))
        }
        None if !text.is_empty() => Ok(ObjectKey::cluster(text)),
        _ => Err("not a key such as namespace/name"),
    }
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let (ring, key) = match arguments.which {
        Which::Status(Status { ring }) => (ring, None),
        Which::Where(Where { ring, key }) => (ring, Some(key)),
    };
    let output = ring.output;
    let client: Client = ring.connection.client(ring.namespace)?;
    let reading = RingStatus::read(&client, &client.config().namespace, &ring.name);
    let status = timeout(PATIENCE, reading).await.map_err(|_| format!("no response within {PATIENCE:?}"))??;
    let text = match (key, output) {
        (None, Format::Text) => overview(&status, time_of_day()),
        (None, Format::Json) => vec![report(&status).to_string()],
        (Some(key), _) => location(&status, &key, output)?,
    };
    let mut out = io::stdout().lock();
    for line in text {
        writeln!(out, "{}", sanitize(&line))?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the clock that the members' times are shown against")]
fn time_of_day() -> SystemTime {
    SystemTime::now()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns the state as text: members, moves under way, and the unowned share.
fn overview(status: &RingStatus, now: SystemTime) -> Vec<String> {
    let Some(table) = &status.table else {
        return vec![format!("ring {}: no table yet; {} members have a Lease", status.ring, status.members.len())];
    };
    let by = status.shard_by.map_or_else(|| "an unknown field".to_owned(), |by| by.to_string());
    let lease = status.lease_duration.unwrap_or_default();
    let mut lines = vec![
        format!("ring {}: by {by}, lease duration {lease:?}, table {}", status.ring, table.revision),
        String::new(),
        member_row(["MEMBER", "STATE", "RENEWED", "CAPACITY", "BUILD", "SLICES", "SHARE"]),
    ];
    lines.extend(names(status, table).into_iter().map(|name| {
        let member = status.members.iter().find(|member| member.name == name);
        let (slices, share) = part(table, name);
        let renewed = member.and_then(|member| member.renewed);
        // The clock of the member may be ahead.
        let age = renewed.map(|renewed| now.duration_since(renewed).unwrap_or_default());
        let age = age.map_or_else(|| "-".to_owned(), |age| format!("{:.1} s ago", age.as_secs_f64()));
        let capacity = member.map_or_else(|| "-".to_owned(), |member| member.capacity.to_string());
        let build = member.map(|member| member.build.as_str()).filter(|build| !build.is_empty()).unwrap_or("-");
        member_row([name, state(member, table, name), &age, &capacity, build, &slices.to_string(), &percent(share)])
    }));
    lines.push(String::new());
    let moving: Vec<_> = table.slices.iter().filter(|slice| slice.is_moving()).collect();
    lines.push(format!(
        "{} slices, {} moving, {} unowned",
        table.slices.len(),
        moving.len(),
        percent(table.unowned_share())
    ));
    lines.extend(moving.into_iter().map(|slice| {
        let (owner, target) = (slice.owner.as_deref().unwrap_or("-"), slice.target.as_deref().unwrap_or("-"));
        format!("  {} from {owner} to {target}: {}", slice.range, slice.stage)
    }));
    lines.push("renewed: by the clock of the member, which nothing relies on".to_owned());
    lines
}

fn member_row([name, state, renewed, capacity, build, slices, share]: [&str; 7]) -> String {
    format!("{name:<40} {state:<9} {renewed:>12} {capacity:>8} {build:>8} {slices:>6} {share:>8}")
}

/// Returns the names of all members: those of the table, the oldest first, then those that only have a Lease.
fn names<'s>(status: &'s RingStatus, table: &'s RingTable) -> Vec<&'s str> {
    let mut names: Vec<&str> = table.members.iter().map(|member| member.name.as_str()).collect();
    for member in &status.members {
        if !names.contains(&member.name.as_str()) {
            names.push(&member.name);
        }
    }
    names
}

/// Returns the slices and the share of a member.
fn part(table: &RingTable, name: &str) -> (usize, f64) {
    let slices = table.slices.iter().filter(|slice| slice.owner.as_deref() == Some(name)).count();
    let share = table.members.iter().find(|member| member.name == name).map_or(0.0, |member| member.share());
    (slices, share)
}

fn state(member: Option<&MemberStatus>, table: &RingTable, name: &str) -> &'static str {
    match member {
        None => "no lease",
        Some(member) => match member.fenced {
            Some(cause) => cause,
            None if member.is_leaving => "leaving",
            None if table.members.iter().any(|member| member.name == name) => "active",
            None => "joining",
        },
    }
}

/// Returns the state as JSON.
fn report(status: &RingStatus) -> Value {
    let Some(table) = &status.table else { return json!({"ring": status.ring, "members": [], "slices": []}) };
    let member = |name: &str| {
        let member = status.members.iter().find(|member| member.name == name);
        let renewed = member.and_then(|member| member.renewed?.duration_since(SystemTime::UNIX_EPOCH).ok());
        let (slices, share) = part(table, name);
        json!({
            "name": name, "state": state(member, table, name), "slices": slices, "share": share,
            "capacity": member.map(|member| member.capacity), "build": member.map(|member| &member.build),
            "renewedMicros": renewed.map(|renewed| u64::try_from(renewed.as_micros()).unwrap_or(u64::MAX)),
        })
    };
    let slices = table.slices.iter().map(|slice| {
        json!({
            "start": format!("{:#018x}", slice.range.start()), "end": format!("{:#018x}", slice.range.end()),
            "stage": slice.stage.as_str(), "owner": slice.owner, "target": slice.target, "epoch": slice.epoch,
        })
    });
    json!({
        "ring": status.ring,
        "shardBy": status.shard_by.map(|by| by.to_string()),
        "leaseDurationSeconds": status.lease_duration.map(|duration| duration.as_secs()),
        "revision": table.revision,
        "unownedShare": table.unowned_share(),
        "members": names(status, table).into_iter().map(member).collect::<Vec<_>>(),
        "slices": slices.collect::<Vec<_>>(),
    })
}

/// Returns where a key is.
fn location(status: &RingStatus, key: &ObjectKey, output: Format) -> Result<Vec<String>, Failure> {
    let ring = &status.ring;
    let Some(table) = &status.table else {
        return Err(format!("ring {ring} has no table yet: wait until its members have joined").into());
    };
    let place = match (status.place_of(key), status.shard_by) {
        (Some(place), _) => place,
        (None, Some(ShardBy::Uid)) => {
            return Err(format!("ring {ring} is divided by uid, which a key does not tell").into());
        }
        (None, _) => return Err(format!("ring {ring} is divided by a field that this version does not know").into()),
    };
    let slice = table.slice_of(place).ok_or("the table has no slice of that place")?;
    if output == Format::Json {
        let text = json!({
            "key": key.to_string(), "place": format!("{place:#018x}"),
            "start": format!("{:#018x}", slice.range.start()), "end": format!("{:#018x}", slice.range.end()),
            "stage": slice.stage.as_str(), "owner": slice.owner, "target": slice.target, "epoch": slice.epoch,
        });
        return Ok(vec![text.to_string()]);
    }
    let mut lines = vec![
        format!("key    {key}"),
        format!("place  {place:#018x}"),
        format!("slice  {} ({})", slice.range, slice.stage),
        format!("owner  {}", slice.owner.as_deref().unwrap_or("none")),
    ];
    lines.extend(slice.target.as_ref().map(|target| format!("target {target}")));
    lines.extend(slice.epoch.map(|epoch| format!("epoch  {epoch}")));
    Ok(lines)
}

#[cfg(test)]
mod tests;

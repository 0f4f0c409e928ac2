//! Resolves the resource argument, and suggests similar names.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::discovery::{Discovered, DiscoveryError, GroupVersion, ResourceQuery, RestMapper};
use evenkeel_core::ResourceInfo;
use tokio::time::timeout;

use crate::Failure;
use crate::connect::Cluster;
use crate::terminal::sanitize;

/// Time limit of discovery.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of suggestions.
const SUGGESTIONS: usize = 3;

/// Returns the resource, which supports list and watch.
pub(crate) async fn resolve(cluster: &Cluster, resource: &str) -> Result<Arc<ResourceInfo>, Failure> {
    let warn = |warning: &str| eprintln!("evenkeel: {}", sanitize(warning));
    let mapper = RestMapper::with_warnings(cluster.client().discovery().cached(), warn);
    let query = ask(&mapper, resource);
    let Ok(answer) = timeout(PATIENCE, query).await else {
        return Err(cluster.silent(PATIENCE).into());
    };
    match answer {
        Ok(info) => {
            check(&mapper, &info).await?;
            Ok(info)
        }
        Err(DiscoveryError::Api(error)) => Err(cluster.explain(&error, "discover its resources").into()),
        Err(error @ DiscoveryError::NoResource { .. }) => {
            // Cached by the request before.
            let known = mapper.discovery().groups_and_resources().await?;
            let near = near(&known, resource);
            let hint = match near.as_slice() {
                [] => String::new(),
                [names @ .., last] if !names.is_empty() => format!("; did you mean {} or {last}?", names.join(", ")),
                [name, ..] => format!("; did you mean {name}?"),
            };
            Err(format!("{error}{hint}").into())
        }
        Err(error) => Err(error.into()),
    }
}

async fn ask(mapper: &RestMapper, resource: &str) -> Result<Arc<ResourceInfo>, DiscoveryError> {
    match resource.split_once('/') {
        None => mapper.resolve(resource).await,
        Some((name, version)) => {
            let (name, group) = name.split_once('.').unwrap_or((name, ""));
            mapper.resource_for(ResourceQuery::new(name).group(group).version(version)).await
        }
    }
}

/// Checks that the resource can be listed and watched. Reviews, for example, can only be created.
async fn check(mapper: &RestMapper, info: &ResourceInfo) -> Result<(), Failure> {
    let known = mapper.discovery().groups_and_resources().await?;
    let list = known.list(&GroupVersion::gv(info.group(), info.version()));
    let Some(served) = list.and_then(|list| list.resource(info.plural())) else { return Ok(()) };
    // A server that lists no verbs at all omits them.
    if served.verbs.is_empty() || (served.has_verb("list") && served.has_verb("watch")) {
        return Ok(());
    }
    let verbs = served.verbs.join(", ");
    Err(format!("{} cannot be watched: it has no list and watch, only {verbs}", info.plural()).into())
}

/// Returns the names of similar resources, the nearest first.
fn near(known: &Discovered, resource: &str) -> Vec<String> {
    let meant = resource.to_lowercase();
    let name = meant.split(['.', '/']).next().unwrap_or_default();
    // Short names tolerate fewer typos.
    let far = name.chars().count() / 3 + 1;
    let mut found: Vec<(usize, String)> = Vec::new();
    for served in known.resources.iter().flat_map(|list| &list.resources) {
        let plural = served.info.plural();
        let names = [plural, &served.singular].into_iter().chain(served.short_names.iter().map(String::as_str));
        let names = names.filter(|name| !name.is_empty());
        let Some(distance) = names.map(|known| distance(name, known)).min() else { continue };
        // With the right resource, group or version are wrong.
        let text = match distance {
            0 if served.info.group().is_empty() => format!("{plural}/{}", served.info.version()),
            0 => format!("{plural}.{}.{}", served.info.version(), served.info.group()),
            _ => plural.to_owned(),
        };
        if distance < far && !found.iter().any(|(_, known)| *known == text) {
            found.push((distance, text));
        }
    }
    found.sort();
    let nearest = found.first().map_or(0, |(distance, _)| *distance);
    found.into_iter().filter(|(distance, _)| *distance <= nearest + 1).take(SUGGESTIONS).map(|(_, name)| name).collect()
}

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours between two words.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > one.len() {
        return usize::MAX;
    }
    // The last three rows of the Damerau–Levenshtein table.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&last, j) + usize::from(a != b);
            let mut best = replaced.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let is_swap = i > 0 && j > 0 && one.get(i - 1) == Some(b) && other.get(j - 1) == Some(a);
            if is_swap {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;

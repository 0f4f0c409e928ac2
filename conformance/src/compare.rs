//! Compares transcripts.

use std::collections::BTreeSet;

use crate::scenario::Scenario;
use crate::transcript::Transcript;

/// Returns the mismatches of two transcripts of a scenario: unlisted differences, and listed differences that do not
/// occur as listed.
pub(crate) fn compare(scenario: &Scenario, client_go: &Transcript, evenkeel: &Transcript) -> Vec<String> {
    let mut mismatches = Vec::new();
    for difference in &scenario.differences {
        let (section, line) = (&difference.section, &difference.line);
        if difference.client_go == difference.evenkeel {
            mismatches.push(format!("{section}: the listed difference {line} does not occur"));
        }
        for (client, expected, found) in [
            ("client-go", &difference.client_go, client_go.section(section)),
            ("evenkeel", &difference.evenkeel, evenkeel.section(section)),
        ] {
            if expected != found {
                let (expected, found) = (push(expected), push(found));
                mismatches
                    .push(format!("{section}: {client} differs from {line}\n  listed: {expected}\n  found:  {found}"));
            }
        }
    }
    let sections: BTreeSet<&str> = client_go.sections().chain(evenkeel.sections()).collect();
    for section in sections {
        let (theirs, ours) = (client_go.section(section), evenkeel.section(section));
        let listed = scenario.differences.iter().any(|difference| difference.section == section);
        if theirs != ours && !listed {
            mismatches.push(format!("{section}\n  client-go: {}\n  evenkeel:  {}", push(theirs), push(ours)));
        }
    }
    mismatches
}

/// Returns where the recording differs from client-go now.
pub(crate) fn stale(recorded: &Transcript, live: &Transcript) -> Vec<String> {
    let sections: BTreeSet<&str> = recorded.sections().chain(live.sections()).collect();
    let differing = sections.into_iter().filter(|section| recorded.section(section) != live.section(section));
    differing
        .map(|section| {
            let (recorded, live) = (push(recorded.section(section)), push(live.section(section)));
            format!("{section}: differs from the recording\n  recorded:  {recorded}\n  client-go: {live}")
        })
        .collect()
}

fn push(lines: &[String]) -> String {
    if lines.is_empty() { "nothing".into() } else { lines.join("; ") }
}

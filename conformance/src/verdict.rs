//! Whether two transcripts agree, as far as they have to.

use std::collections::BTreeSet;

use crate::scenario::Scenario;
use crate::transcript::Transcript;

/// What is wrong with these transcripts of a scenario: where they differ although no difference is listed, and where a
/// listed difference is not as listed.
pub(crate) fn compare(scenario: &Scenario, client_go: &Transcript, evenkeel: &Transcript) -> Vec<String> {
    let mut complaints = Vec::new();
    for difference in &scenario.differences {
        let (section, line) = (&difference.section, &difference.line);
        if difference.client_go == difference.evenkeel {
            complaints.push(format!("{section}: the difference {line} is none"));
        }
        for (who, expected, found) in [
            ("client-go", &difference.client_go, client_go.section(section)),
            ("evenkeel", &difference.evenkeel, evenkeel.section(section)),
        ] {
            if expected != found {
                let (expected, found) = (say(expected), say(found));
                complaints
                    .push(format!("{section}: not as {line} has it of {who}\n  listed: {expected}\n  said:   {found}"));
            }
        }
    }
    let sections: BTreeSet<&str> = client_go.sections().chain(evenkeel.sections()).collect();
    for section in sections {
        let (theirs, ours) = (client_go.section(section), evenkeel.section(section));
        let listed = scenario.differences.iter().any(|difference| difference.section == section);
        if theirs != ours && !listed {
            complaints.push(format!("{section}\n  client-go: {}\n  evenkeel:  {}", say(theirs), say(ours)));
        }
    }
    complaints
}

/// In what the recording is not what client-go says now.
pub(crate) fn stale(recorded: &Transcript, live: &Transcript) -> Vec<String> {
    let sections: BTreeSet<&str> = recorded.sections().chain(live.sections()).collect();
    let differing = sections.into_iter().filter(|section| recorded.section(section) != live.section(section));
    differing
        .map(|section| {
            let (recorded, live) = (say(recorded.section(section)), say(live.section(section)));
            format!("{section}: not as recorded\n  recorded:  {recorded}\n  client-go: {live}")
        })
        .collect()
}

fn say(lines: &[String]) -> String {
    if lines.is_empty() { "nothing".into() } else { lines.join("; ") }
}

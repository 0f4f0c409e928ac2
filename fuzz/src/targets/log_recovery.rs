//! The recovery of a durable server from its log (FUZ-25).
//!
//! The first byte selects what happens to the log, two more ones where. The rest are writes, four bytes each.

use std::collections::BTreeMap;

use evenkeel_apiserver::internals::{LogEntry, RecoveredContent, StoredObject, log_file, log_frame, recover};
use serde_json::json;

use crate::budget::{TREE, within};
use crate::input::Input;

const LOG: &str = "log-0000000001";
const TABLES: [&str; 2] = ["configmaps", "pods"];
const KEYS: [&str; 4] = ["default/a", "default/b", "other/a", "é"];

/// What happens to the log before it is recovered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    /// Nothing.
    None,
    /// The end is missing.
    Cut,
    /// A bit is another one.
    Flip,
    /// Entries that no server writes, with checksums.
    Wild,
    /// The file is what the input says.
    Any,
}

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let damage = input.choice(&[Damage::None, Damage::Cut, Damage::Flip, Damage::Wild, Damage::Any]);
    let place = usize::from(u16::from_le_bytes([input.byte(), input.byte()]));
    match damage {
        Damage::Any => check_any(input.0),
        Damage::Wild => check_any(&log_file(&[log_frame(&wild_entries(&mut input), input.0)])),
        _ => check_log(damage, place, &mut input),
    }
}

/// Recovery gives the content after one of the frames, and the same if it is repeated.
fn check_log(damage: Damage, place: usize, input: &mut Input<'_>) {
    let mut frames = Vec::new();
    let mut states = vec![State::default()];
    while !input.0.is_empty() {
        let mut state = states.last().cloned().unwrap_or_default();
        let mut entries = Vec::new();
        for _ in 0..=input.byte() % 4 {
            entries.extend(state.write(input));
        }
        if !entries.is_empty() {
            frames.push(log_frame(&entries, &[]));
            states.push(state);
        }
    }
    let mut file = log_file(&frames);
    let length = file.len();
    match damage {
        Damage::Cut => file.truncate(place % (length + 1)),
        Damage::Flip => file[place % length] ^= 1 << (place / length % 8),
        _ => {}
    }
    let mut files = BTreeMap::from([(LOG.to_owned(), file.clone())]);
    let recovered = recover(&mut files, false);
    if damage != Damage::Flip {
        let content = recovered.as_ref().expect("a log that was cut is torn, not damaged");
        let whole = whole_frames(&frames, files[LOG].len());
        assert_eq!(State::of(content), states[whole], "the content after {whole} frames");
        assert!(damage != Damage::None || whole == frames.len(), "frames are missing");
    } else if let Ok(content) = &recovered {
        assert!(states.contains(&State::of(content)), "the content is that after a frame");
    }
    if let Ok(content) = recovered {
        assert_eq!(recover(&mut files, false).ok(), Some(content), "recovered again");
    }
    let mut files = BTreeMap::from([(LOG.to_owned(), file)]);
    if let Ok(content) = recover(&mut files, true) {
        assert!(states.contains(&State::of(&content)), "the salvaged content is that after a frame");
    }
}

/// Returns how many frames a file of this length has.
fn whole_frames(frames: &[Vec<u8>], length: usize) -> usize {
    let mut end = log_file(&[]).len();
    frames
        .iter()
        .take_while(|frame| {
            end += frame.len();
            end <= length
        })
        .count()
}

/// Recovery of any file ends, and gives the same if it is repeated.
fn check_any(file: &[u8]) {
    for salvage in [false, true] {
        let mut files = BTreeMap::from([(LOG.to_owned(), file.to_vec())]);
        // Reading a file takes a buffer of 1 MiB.
        let recovered = within(TREE, file.len() + (1 << 15), || recover(&mut files, salvage));
        let Ok(content) = recovered else { continue };
        assert_eq!(content.live, content.objects.len(), "the count of the objects");
        if !salvage {
            assert_eq!(recover(&mut files, false).ok(), Some(content), "recovered again");
        }
    }
}

/// What a server with a log contains.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    revision: u64,
    objects: BTreeMap<(String, String), (u64, serde_json::Value)>,
}

impl State {
    fn of(content: &RecoveredContent) -> Self {
        assert_eq!(content.live, content.objects.len(), "the count of the objects");
        let object = |object: &StoredObject| {
            ((object.table.clone(), object.key.clone()), (object.revision, object.object.clone()))
        };
        State { revision: content.revision, objects: content.objects.iter().map(object).collect() }
    }

    /// Makes a change that a server could make.
    fn write(&mut self, input: &mut Input<'_>) -> Option<LogEntry> {
        let (choice, value) = (input.byte(), input.byte());
        let (table, key) =
            (TABLES[usize::from(choice >> 4) % 2].to_owned(), KEYS[usize::from(choice >> 5) % 4].to_owned());
        let revision = self.revision + 1 + u64::from(value % 8);
        match choice % 8 {
            0..4 => {
                let object = put(table, key, revision, value);
                self.revision = revision;
                let place = (object.table.clone(), object.key.clone());
                self.objects.insert(place, (revision, object.object.clone()));
                Some(LogEntry::Put(object))
            }
            4 | 5 => {
                self.objects.remove(&(table.clone(), key.clone()))?;
                self.revision = revision;
                Some(LogEntry::Delete { table, key, revision })
            }
            6 => Some(LogEntry::Compact { revision: self.revision }),
            _ => Some(LogEntry::Reserve { bound: revision + 1000 }),
        }
    }
}

fn put(table: String, key: String, revision: u64, value: u8) -> StoredObject {
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"value": value},
                        "metadata": {"name": key, "resourceVersion": revision.to_string()}});
    StoredObject { table, key, revision, object }
}

/// Returns entries of any order and any revisions. Their tail is the rest of the input.
fn wild_entries(input: &mut Input<'_>) -> Vec<LogEntry> {
    let mut entries = Vec::new();
    for _ in 0..input.byte() % 32 {
        let (choice, value) = (input.byte(), input.byte());
        let (table, key) =
            (TABLES[usize::from(choice >> 4) % 2].to_owned(), KEYS[usize::from(choice >> 5) % 4].to_owned());
        let revision = if value == 255 { u64::MAX } else { u64::from(value) };
        let other = u64::from(input.byte());
        entries.push(match choice % 9 {
            0 => LogEntry::Reset { revision, compacted: other },
            1 => LogEntry::Table { table, floor: revision, evicted: other },
            2 => LogEntry::Object(put(table, key, revision, value)),
            3 => LogEntry::Put(put(table, key, revision, value)),
            4 => LogEntry::Delete { table, key, revision },
            5 => LogEntry::Compact { revision },
            6 => LogEntry::Lost { after: revision, before: other },
            7 => LogEntry::Reserve { bound: revision },
            _ => LogEntry::Clean { revision },
        });
    }
    entries
}

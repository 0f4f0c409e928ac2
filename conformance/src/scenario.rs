//! [`Scenario`]: a script and its listed differences.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::Failure;
use crate::command::Options;
use crate::script::{self, Step};

/// A scenario. `README.md` describes the format.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Its unique name.
    pub(crate) name: String,
    /// Whether it is random, and so not recorded.
    #[serde(skip)]
    pub(crate) is_made_up: bool,
    /// Summary, for readers.
    #[serde(rename = "about")]
    _about: String,
    /// The contract lines that it covers. For readers.
    #[serde(default, rename = "lines")]
    _lines: Vec<String>,
    /// Settings of the informer.
    #[serde(default)]
    pub(crate) informer: Options,
    /// Modes of the initial list: the scenario runs once for each.
    #[serde(default = "both")]
    modes: Vec<Mode>,
    /// Number of changes in the server's history.
    #[serde(default)]
    pub(crate) history: Option<usize>,
    /// The object that barriers write. The informer must select it.
    #[serde(default)]
    pub(crate) marker: Marker,
    /// Additional sections of the transcript besides notifications, the final cache and queries.
    #[serde(default)]
    pub(crate) compare: Compare,
    /// The steps.
    #[serde(deserialize_with = "steps", rename = "script")]
    pub(crate) steps: Vec<Step>,
    /// Known differences between client-go and evenkeel.
    #[serde(default)]
    pub(crate) differences: Vec<Difference>,
}

/// Mode of the initial list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// WatchList.
    WatchList,
    /// List and watch.
    List,
}

fn both() -> Vec<Mode> {
    vec![Mode::WatchList, Mode::List]
}

/// The object that barriers write.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Marker {
    /// No marker: the scenario waits in other ways.
    pub(crate) none: bool,
    /// Its namespace; the default one if empty.
    pub(crate) namespace: String,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// The node of a pod.
    pub(crate) node: String,
}

/// Additional sections of the transcript besides notifications, the final cache and queries.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Compare {
    /// The order of a handler's notifications across objects; else only the order for each object.
    pub(crate) total_order: bool,
    /// The lists and watches that the client requested.
    pub(crate) requests: bool,
    /// The errors that the watch error handler received.
    pub(crate) errors: bool,
}

/// A section of the transcripts in which the two differ.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    /// The mode; all if `None`.
    #[serde(default)]
    mode: Option<Mode>,
    /// The section.
    pub(crate) section: String,
    /// The contract line that explains it.
    pub(crate) line: String,
    /// Why. For readers.
    #[serde(rename = "why")]
    _why: String,
    /// client-go's lines.
    pub(crate) client_go: Vec<String>,
    /// evenkeel's lines.
    pub(crate) evenkeel: Vec<String>,
}

impl Scenario {
    /// Returns a random scenario without listed differences.
    pub(crate) fn random(name: &str, watch_list: bool, script: &str) -> Result<Self, String> {
        let scenario = Scenario {
            name: name.into(),
            is_made_up: true,
            _about: String::new(),
            _lines: Vec::new(),
            informer: Options::default(),
            modes: Vec::new(),
            history: None,
            marker: Marker::default(),
            compare: Compare::default(),
            steps: script::parse(script)?,
            differences: Vec::new(),
        };
        Ok(scenario.in_mode(if watch_list { Mode::WatchList } else { Mode::List }))
    }

    /// Returns the scenario in one of its modes.
    fn in_mode(&self, mode: Mode) -> Self {
        let mut scenario = self.clone();
        scenario.informer.watch_list = mode == Mode::WatchList;
        scenario.differences.retain(|difference| difference.mode.is_none_or(|only| only == mode));
        let mode = if mode == Mode::List { "list" } else { "watch-list" };
        scenario.name = format!("{} ({mode})", self.name);
        scenario
    }
}

/// Reads the scenarios of all files in a folder, in the order of their names, each in all its modes.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Scenario>, Failure> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut scenarios: Vec<Scenario> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let read: Vec<Scenario> =
            serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        for scenario in read.iter().flat_map(|scenario| scenario.modes.iter().map(|mode| scenario.in_mode(*mode))) {
            if scenarios.iter().any(|other| other.name == scenario.name) {
                return Err(format!("{}: there are two scenarios {:?}", file.display(), scenario.name).into());
            }
            scenarios.push(scenario);
        }
    }
    Ok(scenarios)
}

fn steps<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let text = String::deserialize(deserializer)?;
    script::parse(&text).map_err(serde::de::Error::custom)
}

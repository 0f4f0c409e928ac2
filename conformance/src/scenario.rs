//! [`Scenario`]: what is played, and what may differ.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::Failure;
use crate::command::Options;
use crate::script::{self, Step};

/// Something to play. `README.md` says how one is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Its name, of which there is only one.
    pub(crate) name: String,
    /// Whether nobody wrote it, so that it is not recorded.
    #[serde(skip)]
    pub(crate) is_made_up: bool,
    /// What it shows. For readers.
    #[serde(rename = "about")]
    _about: String,
    /// The lines of the contract that it is about. For readers.
    #[serde(default, rename = "lines")]
    _lines: Vec<String>,
    /// What the informer is about.
    #[serde(default)]
    pub(crate) informer: Options,
    /// How the informer learns what is there: the scenario is played once for each.
    #[serde(default = "both")]
    modes: Vec<Mode>,
    /// How many changes the server remembers.
    #[serde(default)]
    pub(crate) history: Option<usize>,
    /// The object that barriers write, which must be one that the informer sees.
    #[serde(default)]
    pub(crate) marker: Marker,
    /// What goes into the transcript besides notifications, the final cache, and answers to queries.
    #[serde(default)]
    pub(crate) compare: Compare,
    /// What happens.
    #[serde(deserialize_with = "steps", rename = "script")]
    pub(crate) steps: Vec<Step>,
    /// Where client-go and evenkeel are known to differ.
    #[serde(default)]
    pub(crate) differences: Vec<Difference>,
}

/// How an informer learns what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// From the beginning of a watch.
    WatchList,
    /// From a list.
    List,
}

fn both() -> Vec<Mode> {
    vec![Mode::WatchList, Mode::List]
}

/// The object that barriers write.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Marker {
    /// There is none: the scenario waits in other ways.
    pub(crate) none: bool,
    /// Where it lives; in the default namespace if empty.
    pub(crate) namespace: String,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// The node of a pod.
    pub(crate) node: String,
}

/// What goes into the transcript besides notifications, the final cache, and answers to queries.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Compare {
    /// The order of a handler's notifications across objects; else only the order for each object.
    pub(crate) total_order: bool,
    /// The lists and watches that the client asked for.
    pub(crate) requests: bool,
    /// What the watch error handler was told.
    pub(crate) errors: bool,
}

/// A part of the transcripts in which the two differ, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    /// In which mode; in all if `None`.
    #[serde(default)]
    mode: Option<Mode>,
    /// Which part.
    pub(crate) section: String,
    /// The line of the contract that says so.
    pub(crate) line: String,
    /// Why. For readers.
    #[serde(rename = "why")]
    _why: String,
    /// What client-go says.
    pub(crate) client_go: Vec<String>,
    /// What evenkeel says.
    pub(crate) evenkeel: Vec<String>,
}

impl Scenario {
    /// A scenario that was made up, in which nothing may differ.
    pub(crate) fn made_up(name: &str, watch_list: bool, script: &str) -> Result<Self, String> {
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

    /// The scenario in one of its modes.
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

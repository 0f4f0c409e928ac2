//! [`Policy`]: the levels that the labels of a namespace ask for.

use std::fmt;

use serde_json::Value;

use crate::field::FieldError;

/// A level of the Pod Security Standards, from the most permissive to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// The minor version whose checks apply; `None` for the latest.
pub(super) type PolicyVersion = Option<u32>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: PolicyVersion,
}

impl LevelVersion {
    const PRIVILEGED: LevelVersion = LevelVersion { level: Level::Privileged, version: None };

    /// Returns the minor version whose checks apply. A version after the latest has the checks of the latest.
    pub(super) fn minor(self, latest: u32) -> u32 {
        self.version.map_or(latest, |minor| minor.min(latest))
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Some(minor) => write!(f, "{level}:v1.{minor}"),
            None => write!(f, "{level}:latest"),
        }
    }
}

/// The labels of a namespace for the level of a mode, and for its version.
const ENFORCE: [&str; 2] = ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"];
const AUDIT: [&str; 2] = ["pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/audit-version"];
const WARN: [&str; 2] = ["pod-security.kubernetes.io/warn", "pod-security.kubernetes.io/warn-version"];

/// The levels of a namespace, and the faults of its labels.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) audit: LevelVersion,
    pub(super) warn: LevelVersion,
    pub(super) faults: Vec<FieldError>,
}

impl Policy {
    /// Reads the labels of a namespace. A fault makes `enforce` restricted, and `audit` and `warn` privileged.
    pub(super) fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Self {
        let mut faults = Vec::new();
        let mut read = |[key, version_key]: [&str; 2], on_fault: Level| {
            let mut found = LevelVersion::PRIVILEGED;
            let (mut has_level, mut has_version) = (false, false);
            let mut is_valid = true;
            if let Some(text) = label(key) {
                has_level = true;
                found.level = parse_level(text).unwrap_or_else(|| {
                    is_valid = false;
                    faults.push(fault(key, text, "must be one of privileged, baseline, restricted"));
                    on_fault
                });
            }
            if let Some(text) = label(version_key) {
                has_version = true;
                found.version = parse_version(text).unwrap_or_else(|| {
                    faults.push(fault(version_key, text, "must be \"latest\" or \"v1.x\""));
                    None
                });
            }
            (found, has_level, has_version, is_valid)
        };
        let (enforce, enforces, _, is_valid) = read(ENFORCE, Level::Restricted);
        let (audit, ..) = read(AUDIT, Level::Privileged);
        let (mut warn, warns, warns_version, _) = read(WARN, Level::Privileged);
        // What is enforced is also warned about, in templates as well, unless the labels say otherwise.
        if enforces && is_valid && !warns && enforce.level > warn.level {
            warn.level = enforce.level;
            if !warns_version {
                warn.version = enforce.version;
            }
        }
        Policy { enforce, audit, warn, faults }
    }

    pub(super) fn checks_nothing(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|level| level.level == Level::Privileged)
            && self.faults.is_empty()
    }

    /// Returns the faults of the labels as one text.
    pub(super) fn faults_text(&self) -> Option<String> {
        let texts: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        match texts.as_slice() {
            [] => None,
            [text] => Some(text.clone()),
            texts => Some(format!("[{}]", texts.join(", "))),
        }
    }
}

fn parse_level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

fn parse_version(text: &str) -> Option<PolicyVersion> {
    if text == "latest" {
        return Some(None);
    }
    let digits = text.strip_prefix("v1.")?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    // A version beyond all numbers is after the latest one.
    (is_number && !digits.is_empty()).then(|| Some(digits.parse().unwrap_or(u32::MAX)))
}

fn fault(key: &str, value: &str, detail: &str) -> FieldError {
    FieldError::invalid(format!("metadata.labels[{key}]"), &Value::from(value), detail)
}

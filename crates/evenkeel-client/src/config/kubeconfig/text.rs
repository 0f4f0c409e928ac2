//! Parses a [`Kubeconfig`] from text, and writes it.

use std::path::Path;
use std::str::FromStr;

use serde::de::DeserializeSeed as _;
use serde_json::Value;
use serde_saphyr::Error as YamlError;
use serde_saphyr::options::NonFiniteFloatPolicy;

use super::Kubeconfig;
use super::fields::{Field, OURS, Opaque, Seed};
use crate::config::ConfigError;
use crate::secret::Secret;
use crate::yaml;

/// The maximal size of a kubeconfig.
pub(super) const MAX_BYTES: usize = 8 << 20;

/// The name, in errors, of a text that is not from a file.
const NO_FILE: &str = "the kubeconfig";

impl Kubeconfig {
    /// Parses a kubeconfig in YAML or JSON. Empty text is an empty kubeconfig.
    ///
    /// Rejects more than 8 MiB, nesting deeper than 64 levels, excessive alias expansion, and duplicate keys or names.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        parse(text, NO_FILE)
    }

    /// Returns the kubeconfig as YAML, including all secrets, sorted by name.
    pub fn to_yaml(&self) -> Result<Secret, ConfigError> {
        self.check_paths_are_text()?;
        let mut value = self.write().unwrap_or_default();
        if value.is_null() {
            value = Value::Object(serde_json::Map::new());
        }
        if let Value::Object(map) = &mut value {
            map.insert("apiVersion".into(), "v1".into());
            map.insert("kind".into(), "Config".into());
            for list in ["clusters", "contexts", "users"] {
                map.entry(list).or_insert_with(|| Value::Array(Vec::new()));
            }
        }
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        match serde_saphyr::to_string_with_options(&value, options) {
            Ok(text) => Ok(Secret::new(text)),
            Err(_) => Err(ConfigError::invalid("the kubeconfig holds a value that YAML has no form for")),
        }
    }
}

impl FromStr for Kubeconfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Kubeconfig::parse(text)
    }
}

/// Parses the bytes of a file.
pub(super) fn parse_bytes(bytes: &[u8], path: &Path) -> Result<Kubeconfig, ConfigError> {
    let origin = format!("the kubeconfig {}", path.display());
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text, &origin),
        Err(_) => Err(refuse(&origin, "it is not UTF-8")),
    }
}

fn parse(text: &str, origin: &str) -> Result<Kubeconfig, ConfigError> {
    if text.len() > MAX_BYTES {
        return Err(refuse(origin, "it is larger than 8 MiB"));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Kubeconfig::default());
    }
    let mut options = yaml::options(MAX_BYTES);
    options.ignore_binary_tag_for_string = true;
    options.non_finite_float_policy = NonFiniteFloatPolicy::AsString;
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        Seed::<Kubeconfig>::new().deserialize(deserializer)
    });
    let mut config = read.map_err(|error| explain(&error, origin))?;
    for (key, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
        match config.rest.remove(key) {
            None | Some(Opaque(Value::Null)) => {}
            Some(Opaque(Value::String(found))) if found == expected || found.is_empty() => {}
            Some(_) => return Err(refuse(origin, &format!("it is no kubeconfig: {key} is not {expected:?}"))),
        }
    }
    // Most kubeconfigs contain an empty `preferences`.
    config.rest.retain(|key, value| key != "preferences" || value.0.as_object().is_some_and(|it| !it.is_empty()));
    Ok(config)
}

fn refuse(origin: &str, problem: &str) -> ConfigError {
    ConfigError::Parse { origin: origin.to_owned(), line: None, column: None, problem: problem.to_owned() }
}

/// Reports the position and kind of the error without quoting the file, which may contain a misplaced secret.
fn explain(error: &YamlError, origin: &str) -> ConfigError {
    let location = error.location().filter(|location| location.line() > 0);
    ConfigError::Parse {
        origin: origin.to_owned(),
        line: location.map(|location| location.line()),
        column: location.map(|location| location.column()),
        problem: problem(error),
    }
}

fn problem(error: &YamlError) -> String {
    match error {
        YamlError::Message { msg, .. } if msg.starts_with(OURS) => msg.trim_start_matches(OURS).to_owned(),
        YamlError::DuplicateMappingKey { .. } => "a key is there twice".into(),
        YamlError::MultipleDocuments { .. } => "there is more than one document".into(),
        YamlError::SerdeInvalidType { expected, .. } | YamlError::SerdeInvalidValue { expected, .. } => {
            format!("there should be {expected}")
        }
        YamlError::Unexpected { expected: "sequence start", .. } => "there should be a list".into(),
        YamlError::Unexpected { expected: "mapping start", .. } => "there should be a mapping".into(),
        YamlError::Unexpected { expected, .. } => format!("there should be {expected}"),
        YamlError::InvalidScalar { ty, .. } => format!("this is no {ty}"),
        YamlError::UnknownAnchor { .. } => "an alias has no anchor".into(),
        YamlError::Budget { .. }
        | YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasExpansionLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. } => "it is nested too deep, or grows too large".into(),
        YamlError::AliasError { error, .. } | YamlError::WithSnippet { error, .. } => problem(error),
        _ => "this is not proper YAML".into(),
    }
}

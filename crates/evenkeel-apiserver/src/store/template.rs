//! [`Template`]: an object that differs from server to server only in its uid, its times and its resource version.

use serde_json::Value;

use super::record::{Draft, Facts, Layout};

/// The `metadata.uid` of a template. An instance has its own, of the same length.
pub(crate) const TEMPLATE_UID: &str = "00000000-0000-4000-8000-000000000000";
/// The time in a template that becomes the time of the instance, wherever it stands.
pub(crate) const TEMPLATE_TIME: &str = "0001-01-01T00:00:00Z";

/// A rendered object whose uid and times are overwritten in each instance. What an instance costs is a copy.
///
/// As text it is one line, so that objects can be rendered ahead of time: the offsets of its parts, the labels, the
/// selectable fields and the JSON, separated by tabs. Every label and field ends with a semicolon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    layout: Layout,
    facts: Facts,
    /// Where the uid is.
    uid: Option<usize>,
    /// Where the times are.
    times: Vec<usize>,
}

impl Template {
    /// Renders an object with [`TEMPLATE_UID`] and [`TEMPLATE_TIME`]; `managed` are its managedFields as JSON.
    pub(crate) fn new(object: &Value, managed: Option<&[u8]>, facts: Facts, expected: u64) -> Self {
        let Draft { bytes, layout, facts } = Draft::with_managed_fields(object, managed, facts, expected);
        // A draft is JSON text.
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let (uid, times) = places(text);
        Template { uid, times, bytes, layout, facts }
    }

    /// Reads the line of a template. Returns `None` if it is not one.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let mut parts = line.splitn(4, '\t');
        let mut offsets = parts.next()?.split(',').map(str::parse);
        let mut offset = || offsets.next()?.ok();
        let layout = Layout { body: offset()?, metadata: (offset()?, offset()?), version: (offset()?, offset()?) };
        let (labels, fields, json) = (parts.next()?, parts.next()?, parts.next()?);
        let labels = labels.split_terminator(';').map(|label| label.split_once('='));
        let labels: Option<_> = labels.map(|label| label.map(|(key, value)| (key.into(), value.into()))).collect();
        let facts = Facts {
            uid: TEMPLATE_UID.into(),
            labels: labels?,
            fields: fields.split_terminator(';').map(Into::into).collect(),
            ..Facts::default()
        };
        let (uid, times) = places(json);
        Some(Template { bytes: json.as_bytes().to_vec(), layout, facts, uid, times })
    }

    /// Returns the line of a template.
    #[cfg(test)]
    pub(crate) fn to_line(&self) -> String {
        let Layout { body, metadata, version } = self.layout;
        let labels: Vec<_> = self.facts.labels.iter().map(|(key, value)| format!("{key}={value};")).collect();
        let fields: Vec<_> = self.facts.fields.iter().map(|field| format!("{field};")).collect();
        let json = std::str::from_utf8(&self.bytes).unwrap();
        let (start, end) = metadata;
        format!("{body},{start},{end},{},{}\t{}\t{}\t{json}", version.0, version.1, labels.concat(), fields.concat())
    }

    /// Returns an instance with this uid and time, which must have the lengths of those of the template.
    pub(crate) fn instance(&self, uid: &str, time: &str) -> Draft {
        let mut bytes = self.bytes.clone();
        let mut overwrite = |at: usize, text: &str| {
            if let Some(slot) = bytes.get_mut(at..at + text.len()) {
                slot.copy_from_slice(text.as_bytes());
            }
        };
        debug_assert_eq!((uid.len(), time.len()), (TEMPLATE_UID.len(), TEMPLATE_TIME.len()));
        self.uid.iter().for_each(|at| overwrite(*at, uid));
        self.times.iter().for_each(|at| overwrite(*at, time));
        let facts = Facts { uid: uid.into(), ..self.facts.clone() };
        Draft { bytes, layout: self.layout, facts }
    }
}

/// Returns where the uid and the times are.
fn places(text: &str) -> (Option<usize>, Vec<usize>) {
    (text.find(TEMPLATE_UID), text.match_indices(TEMPLATE_TIME).map(|(index, _)| index).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_instance_is_the_draft_of_the_same_object() {
        let object = |uid: &str, time: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"since": time},
                   "metadata": {"name": "a", "namespace": "b", "uid": uid, "creationTimestamp": time}})
        };
        let managed = br#"[{"manager":"m","time":"0001-01-01T00:00:00Z"}]"#;
        let template = Template::new(&object(TEMPLATE_UID, TEMPLATE_TIME), Some(managed), Facts::default(), 1);
        let (uid, time) = ("6f1c1f0e-5f6b-4a51-9f0c-8c7f2f9b1a11", "2030-01-01T00:00:00Z");
        let record = template.instance(uid, time).commit(12_345);
        let managed = br#"[{"manager":"m","time":"2030-01-01T00:00:00Z"}]"#;
        let facts = Facts { uid: uid.into(), ..Facts::default() };
        let expected = Draft::with_managed_fields(&object(uid, time), Some(managed), facts, 1).commit(12_345);
        assert_eq!(record.json(), expected.json());
        assert_eq!(record.metadata(), expected.metadata());
        assert_eq!(record.facts, expected.facts);
    }
}

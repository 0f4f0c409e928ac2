//! [`ChangedMembers`]: the part of an object that a hook has changed. Sans-IO.
//!
//! A hook changes a label of an object of many kilobytes. Trees of JSON are built for the member that changed, not for the
//! object: both encodings are compared as text first, member by member.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The members of an object that a hook has changed: in the object of the API server, and in the typed object before and after.
///
/// Members of objects are left out of all three where the typed object is the same before and after. Lists are whole. So a
/// patch that is computed from the parts is the patch of the whole objects.
#[derive(Debug, PartialEq)]
pub(crate) struct ChangedMembers {
    pub(crate) raw: Value,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

/// The members of one object, as text.
type Members<'a> = BTreeMap<Name<'a>, &'a RawValue>;

/// The name of a member. Most have no escapes, and are slices.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl ChangedMembers {
    /// Finds the members that differ between two values of a type, and the same members of the JSON that it was decoded from.
    pub(crate) fn find<K: Serialize>(raw: &[u8], before: &K, after: &K) -> Result<Self, serde_json::Error> {
        let raw = std::str::from_utf8(raw).map_err(serde::de::Error::custom)?;
        let (before, after) = (serde_json::to_string(before)?, serde_json::to_string(after)?);
        Self::within(raw.trim(), &before, &after)
    }

    fn within(raw: &str, before: &str, after: &str) -> Result<Self, serde_json::Error> {
        if ![raw, before, after].iter().all(|text| text.starts_with('{')) {
            let parse = serde_json::from_str::<Value>;
            return Ok(ChangedMembers { raw: parse(raw)?, before: parse(before)?, after: parse(after)? });
        }
        let split = serde_json::from_str::<Members<'_>>;
        let (members, before, after) = (split(raw)?, split(before)?, split(after)?);
        let (mut of_raw, mut of_before, mut of_after) = (Map::new(), Map::new(), Map::new());
        let added = after.keys().filter(|name| !before.contains_key(name));
        for name in before.keys().chain(added) {
            let (old, new) = (text(&before, name), text(&after, name));
            if old == new {
                continue;
            }
            let (raw, old, new) = match (text(&members, name), old, new) {
                (Some(raw), Some(old), Some(new)) => {
                    let Self { raw, before, after } = Self::within(raw, old, new)?;
                    (Some(raw), Some(before), Some(after))
                }
                (raw, old, new) => (parsed(raw)?, parsed(old)?, parsed(new)?),
            };
            for (members, value) in [(&mut of_raw, raw), (&mut of_before, old), (&mut of_after, new)] {
                if let Some(value) = value {
                    members.insert(name.0.to_string(), value);
                }
            }
        }
        Ok(ChangedMembers { raw: of_raw.into(), before: of_before.into(), after: of_after.into() })
    }
}

fn text<'a>(members: &Members<'a>, name: &Name<'a>) -> Option<&'a str> {
    members.get(name).map(|value| value.get())
}

fn parsed(text: Option<&str>) -> Result<Option<Value>, serde_json::Error> {
    text.map(serde_json::from_str).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(raw: &Value, before: &Value, after: &Value) -> ChangedMembers {
        ChangedMembers::find(raw.to_string().as_bytes(), before, after).unwrap()
    }

    #[test]
    fn equal_members_are_left_out_and_lists_are_whole() {
        let raw = json!({"a": {"x": 1, "unknown": 2}, "b": {"c": {"d": [1, {"u": 2}], "e": 3}, "f": 4}, "g": 5});
        let before = json!({"a": {"x": 1}, "b": {"c": {"d": [1, {}], "e": 3}, "f": 4}, "gone": 6});
        let after = json!({"a": {"x": 1}, "b": {"c": {"d": [1, {}, 7], "e": 3}, "f": 4}, "new": 8});
        let parts = find(&raw, &before, &after);
        assert_eq!(parts.raw, json!({"b": {"c": {"d": [1, {"u": 2}]}}}));
        assert_eq!(parts.before, json!({"b": {"c": {"d": [1, {}]}}, "gone": 6}));
        assert_eq!(parts.after, json!({"b": {"c": {"d": [1, {}, 7]}}, "new": 8}));
    }

    #[test]
    fn a_member_that_the_api_server_wrote_otherwise_is_taken_as_it_is() {
        // A number with an exponent, an escape in a name, a member twice: the last one counts.
        let raw = br#" {"n": 1e2, "\u0061": {"k": 0}, "a": {"k": 1, "l": 2}} "#;
        let (before, after) = (json!({"n": 100, "a": {"k": 1}}), json!({"n": 100, "a": {"k": 3}}));
        let parts = ChangedMembers::find(raw, &before, &after).unwrap();
        assert_eq!(parts.raw, json!({"a": {"k": 1}}));
        assert_eq!((parts.before, parts.after), (json!({"a": {"k": 1}}), json!({"a": {"k": 3}})));
    }

    #[test]
    fn what_is_no_object_on_one_side_is_whole() {
        let parts = find(&json!({"a": null}), &json!({"a": {"b": 1, "c": 2}}), &json!({"a": {"b": 1, "c": 3}}));
        assert_eq!(parts.raw, json!({"a": null}));
        assert_eq!(parts.before, json!({"a": {"b": 1, "c": 2}}));
        assert_eq!(find(&json!([1]), &json!([1]), &json!([2])).after, json!([2]));
        assert_eq!(find(&json!({}), &json!({}), &json!({})).raw, json!({}));
    }
}

//! How the fields of built-in kinds merge, in server-side apply and in strategic merge patches.
//!
//! `data/merge-rules.txt` contains the exceptions, and describes its own format. The types of fields are those of the
//! [protobuf table](crate::protobuf).

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::protobuf::{Cardinality, FieldKind, Message};

const TEXT: &str = include_str!("../data/merge-rules.txt");

static RULES: LazyLock<Rules> = LazyLock::new(|| Rules::read(TEXT));

/// How the items of a list are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOwnership {
    /// The list is one value.
    Atomic,
    /// Items are scalars, identified by their values.
    Set,
    /// Items are objects, identified by these keys.
    Map(&'static [&'static str]),
}

/// What a strategic merge patch does with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchRule {
    /// Merges objects, replaces everything else.
    Default,
    /// Merges the list: objects by this key, scalars by their value.
    Merge(Option<&'static str>),
    /// Replaces the value, even if it is an object.
    Replace,
}

/// The type of a value of a built-in kind, with the rules by which it merges.
#[derive(Clone, Copy, Debug)]
pub struct MergeType {
    /// The type of the value, of its items, or of its entries; `None` for scalars and JSON.
    message: Option<&'static Message>,
    cardinality: Cardinality,
    rule: Rule,
}

impl MergeType {
    /// Returns the type of a kind. Returns `None` for custom resources, and for API versions that the rules do not cover.
    pub fn of_kind(api_version: &str, kind: &str) -> Option<Self> {
        let message = Message::of_kind(api_version, kind)?;
        let covered = RULES.packages.contains(&message.package());
        covered.then_some(MergeType { message: Some(message), cardinality: Cardinality::One, rule: Rule::DEFAULT })
    }

    /// Returns the type of a field of an object, or of the values of a map.
    pub fn field(self, name: &str) -> Option<Self> {
        match self.cardinality {
            Cardinality::Map => Some(MergeType { cardinality: Cardinality::One, rule: Rule::DEFAULT, ..self }),
            Cardinality::List => None,
            Cardinality::One => {
                let owner = self.message?;
                let named = owner.named(name)?;
                let message = (named.field.of.kind == FieldKind::Message).then(|| named.field.of.message());
                let rule = RULES.field(owner, name);
                Some(MergeType { message, cardinality: named.field.cardinality, rule })
            }
        }
    }

    /// Returns whether the value is an object with declared fields, rather than a map with any keys.
    pub fn has_fields(self) -> bool {
        self.cardinality == Cardinality::One && self.message.is_some()
    }

    /// Returns the type of the items of a list.
    pub fn items(self) -> Option<Self> {
        let is_list = self.cardinality == Cardinality::List;
        is_list.then_some(MergeType { cardinality: Cardinality::One, rule: Rule::DEFAULT, ..self })
    }

    /// Returns how the items of a list are identified.
    pub fn list_ownership(self) -> ListOwnership {
        self.rule.list
    }

    /// Returns whether an object or a map is owned as a whole.
    pub fn is_atomic(self) -> bool {
        match self.rule.map {
            MapRule::Atomic => true,
            MapRule::Granular => false,
            MapRule::OfType => {
                let is_object = self.cardinality == Cardinality::One;
                is_object && self.message.is_some_and(|message| RULES.is_atomic(message))
            }
        }
    }

    /// Returns what a strategic merge patch does with the value.
    pub fn patch_rule(self) -> PatchRule {
        self.rule.patch
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    list: ListOwnership,
    map: MapRule,
    patch: PatchRule,
}

impl Rule {
    const DEFAULT: Rule = Rule { list: ListOwnership::Atomic, map: MapRule::OfType, patch: PatchRule::Default };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MapRule {
    OfType,
    Atomic,
    Granular,
}

/// Package and name of a type.
type TypeName = (&'static str, &'static str);

struct Rules {
    packages: Vec<&'static str>,
    atomic: Vec<TypeName>,
    fields: HashMap<(TypeName, &'static str), Rule>,
}

impl Rules {
    /// Parses the rules. They are part of the crate; tests check that there are no malformed lines.
    fn read(text: &'static str) -> Rules {
        let mut rules = Rules { packages: Vec::new(), atomic: Vec::new(), fields: HashMap::new() };
        let mut package = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('/') {
                package = name;
                rules.packages.push(package);
                continue;
            }
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let name = match name.strip_suffix('!') {
                Some(name) => {
                    rules.atomic.push((package, name));
                    name
                }
                None => name,
            };
            for word in words {
                let (field, rule) = read_rule(word);
                rules.fields.insert(((package, name), field), rule);
            }
        }
        rules.atomic.sort_unstable();
        rules
    }

    fn field(&self, owner: &Message, field: &str) -> Rule {
        let key = ((owner.package(), owner.name()), field);
        self.fields.get(&key).copied().unwrap_or(Rule::DEFAULT)
    }

    fn is_atomic(&self, message: &Message) -> bool {
        self.atomic.binary_search(&(message.package(), message.name())).is_ok()
    }
}

/// Parses `NAME RULE` without a space.
fn read_rule(word: &'static str) -> (&'static str, Rule) {
    let mut rule = Rule::DEFAULT;
    let mut word = word;
    if let Some(rest) = word.strip_suffix('~') {
        rule.patch = PatchRule::Replace;
        word = rest;
    } else if let Some((rest, key)) = word.split_once('+') {
        rule.patch = PatchRule::Merge(Some(key).filter(|key| !key.is_empty()));
        word = rest;
    }
    if let Some(rest) = word.strip_suffix('!') {
        rule.map = MapRule::Atomic;
        word = rest;
    } else if let Some(rest) = word.strip_suffix('?') {
        rule.map = MapRule::Granular;
        word = rest;
    } else if let Some(rest) = word.strip_suffix('*') {
        rule.list = ListOwnership::Set;
        word = rest;
    } else if let Some((rest, keys)) = word.split_once('=') {
        // Once per process, and as long as the table.
        rule.list = ListOwnership::Map(Vec::leak(keys.split(',').collect()));
        word = rest;
    }
    (word, rule)
}

#[cfg(test)]
mod tests;

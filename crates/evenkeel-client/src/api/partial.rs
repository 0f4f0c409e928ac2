//! [`Partial`]: some fields of a type, and [`apply!`](crate::apply!), which builds one and checks it at compile time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::object::Object;
use field_names::FieldNames;

mod field_names;

/// Some fields of a `T`: what server-side apply sends. Built by [`apply!`](crate::apply!), accepted by
/// [`Api::apply`](super::Api::apply).
///
/// A full type cannot express that a program has no opinion on a required field: `maxReplicas: 0` would be sent and owned. A
/// `Partial` contains exactly the fields that were given, and never `null`.
#[derive(Clone, PartialEq)]
pub struct Partial<T> {
    value: Value,
    /// The first mistake.
    fault: Option<String>,
    of: PhantomData<fn() -> T>,
}

impl<T> Partial<T> {
    /// Returns the fields of a JSON object, without the checks of [`apply!`](crate::apply!).
    pub(crate) fn of_value(value: Value) -> Self {
        Partial { value, fault: None, of: PhantomData }
    }

    /// Returns these fields together with others, which take precedence. Objects and maps are merged; lists are replaced as a
    /// whole.
    pub fn with(mut self, other: Partial<T>) -> Self {
        merge(&mut self.value, other.value);
        self.fault = self.fault.or(other.fault);
        self
    }

    /// Returns the fields as JSON.
    pub fn as_json(&self) -> &Value {
        &self.value
    }

    fn metadata(&self, member: &str) -> Option<Cow<'_, str>> {
        let text = self.value.get("metadata")?.get(member)?.as_str()?;
        Some(text).filter(|text| !text.is_empty()).map(Cow::Borrowed)
    }
}

fn merge(value: &mut Value, other: Value) {
    match (value, other) {
        (Value::Object(members), Value::Object(other)) => {
            for (name, value) in other {
                merge(members.entry(name).or_insert(Value::Null), value);
            }
        }
        (value, other) => *value = other,
    }
}

impl<T> Object for Partial<T> {
    fn name(&self) -> Option<Cow<'_, str>> {
        self.metadata("name")
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        self.metadata("namespace")
    }

    fn has_managed_fields(&self) -> bool {
        self.value.get("metadata").is_some_and(|metadata| metadata.get("managedFields").is_some())
    }
}

/// Fails if a field has no JSON name; see [`apply!`](crate::apply!).
impl<T> Serialize for Partial<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.fault {
            None => self.value.serialize(serializer),
            Some(fault) => Err(S::Error::custom(fault)),
        }
    }
}

/// Shows the name of the object and none of its content.
impl<T> fmt::Debug for Partial<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
        f.debug_struct("Partial").field("of", &short).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// A field of type `Self` accepts a value of type `V` in [`apply!`](crate::apply!).
///
/// A type accepts itself, a [`Partial`] of it, and an `Option` of it, of which `None` is an absent field. `String` and
/// `Quantity` accept text, `IntOrString` text and numbers, and a list a `Vec` of partial items.
#[diagnostic::on_unimplemented(
    message = "the field is a `{Self}`, which cannot be set to a `{V}`",
    label = "not a value of the field"
)]
pub trait Accepts<V> {}

impl<T> Accepts<T> for T {}
impl<T> Accepts<Option<T>> for T {}
impl<T> Accepts<Partial<T>> for T {}
impl<T> Accepts<Vec<Partial<T>>> for Vec<T> {}
impl Accepts<&str> for String {}
impl Accepts<&String> for String {}
impl Accepts<Cow<'_, str>> for String {}
impl Accepts<&str> for Quantity {}
impl Accepts<String> for Quantity {}
impl Accepts<&str> for IntOrString {}
impl Accepts<String> for IntOrString {}
impl Accepts<i32> for IntOrString {}

/// A list of items, for `[…]` in [`apply!`](crate::apply!).
#[diagnostic::on_unimplemented(message = "the field is a `{Self}`, which is no list")]
pub trait ListField {
    /// The type of the items.
    type Item;
}

impl<T> ListField for Vec<T> {
    type Item = T;
}

impl<T> ListField for BTreeSet<T> {
    type Item = T;
}

/// A map from strings, for `{"key": …}` in [`apply!`](crate::apply!).
#[diagnostic::on_unimplemented(
    message = "the field is a `{Self}`, which is no map: its fields have names without quotes"
)]
pub trait MapField {
    /// The type of the values.
    type Value;
}

impl<T> MapField for BTreeMap<String, T> {
    type Value = T;
}

impl<T, S> MapField for HashMap<String, T, S> {
    type Value = T;
}

/// What [`apply!`](crate::apply!) expands to. Not for direct use.
#[doc(hidden)]
pub mod expansion {
    use super::*;

    /// The type of a field, without a value.
    pub struct Place<T>(PhantomData<fn() -> T>);

    impl<T> Clone for Place<T> {
        fn clone(&self) -> Self {
            *self
        }
    }

    impl<T> Copy for Place<T> {}

    impl<T> Place<T> {
        pub fn new() -> Self {
            Place(PhantomData)
        }

        /// The function is never called: it names a field, which must exist.
        pub fn field<F>(self, _: fn(&T) -> &F) -> Place<F> {
            Place::new()
        }
    }

    impl<T> Default for Place<T> {
        fn default() -> Self {
            Place::new()
        }
    }

    /// The type inside an `Option`. Takes precedence over [`Plain`], whose receiver has one more reference.
    pub trait Optional {
        type Inner;
        fn inner(&self) -> Place<Self::Inner>;
    }

    impl<T> Optional for Place<Option<T>> {
        type Inner = T;
        fn inner(&self) -> Place<T> {
            Place::new()
        }
    }

    /// Any other type.
    pub trait Plain {
        type Inner;
        fn inner(&self) -> Place<Self::Inner>;
    }

    impl<T> Plain for &Place<T> {
        type Inner = T;
        fn inner(&self) -> Place<T> {
            Place::new()
        }
    }

    /// The kind of a resource. Takes precedence over [`NotResource`].
    pub trait IsResource {
        fn type_meta(&self, node: &mut Node);
    }

    impl<K: kube_core::Resource> IsResource for Place<K>
    where
        K::DynamicType: Default,
    {
        fn type_meta(&self, node: &mut Node) {
            let dynamic = K::DynamicType::default();
            if let Node::Value(Value::Object(members)) = node {
                members.insert("apiVersion".to_owned(), K::api_version(&dynamic).into());
                members.insert("kind".to_owned(), K::kind(&dynamic).into());
            }
        }
    }

    /// Any other type.
    pub trait NotResource {
        fn type_meta(&self, node: &mut Node);
    }

    impl<T> NotResource for &Place<T> {
        fn type_meta(&self, _: &mut Node) {}
    }

    /// A value that was given, or that there is none.
    pub enum Node {
        Value(Value),
        Absent,
        Fault(String),
    }

    pub fn finish<T>(_: Place<T>, node: Node) -> Partial<T> {
        match node {
            Node::Value(value) => Partial { value, fault: None, of: PhantomData },
            Node::Absent => Partial { value: Map::new().into(), fault: None, of: PhantomData },
            Node::Fault(fault) => Partial { value: Map::new().into(), fault: Some(fault), of: PhantomData },
        }
    }

    pub fn empty() -> Node {
        Node::Value(Map::new().into())
    }

    pub fn items<L: ListField>(_: Place<L>) -> Place<L::Item> {
        Place::new()
    }

    pub fn values<M: MapField>(_: Place<M>) -> Place<M::Value> {
        Place::new()
    }

    pub fn leaf<T: Accepts<V>, V: Serialize>(_: Place<T>, value: V) -> Node {
        match serde_json::to_value(value) {
            Ok(Value::Null) => Node::Absent,
            Ok(mut value) => {
                remove_nulls(&mut value);
                Node::Value(value)
            }
            Err(error) => Node::Fault(error.to_string()),
        }
    }

    /// The members of an object with declared fields.
    pub struct Fields<T> {
        members: Map<String, Value>,
        names: FieldNames,
        fault: Option<String>,
        of: PhantomData<fn() -> T>,
    }

    impl<T: DeserializeOwned> Fields<T> {
        pub fn new(_: Place<T>) -> Self {
            Fields { members: Map::new(), names: FieldNames::of::<T>(), fault: None, of: PhantomData }
        }

        pub fn set(&mut self, field: &str, json_name: Option<&str>, node: Node) {
            let field = field.trim_start_matches("r#");
            match json_name.map(Cow::Borrowed).or_else(|| self.names.json_name(field).map(Cow::Borrowed)) {
                Some(name) => {
                    let name = name.into_owned();
                    self.insert(&name, node);
                }
                None => {
                    self.fault.get_or_insert_with(|| {
                        let of = std::any::type_name::<T>();
                        format!(
                            "the JSON name of the field `{field}` of {of} is unknown: write `{field} as \"name\": …`"
                        )
                    });
                }
            }
        }

        fn insert(&mut self, name: &str, node: Node) {
            match node {
                Node::Absent => {}
                Node::Value(value) => _ = self.members.insert(name.to_owned(), value),
                Node::Fault(fault) => _ = self.fault.get_or_insert(fault),
            }
        }

        pub fn build(self) -> Node {
            self.fault.map_or(Node::Value(self.members.into()), Node::Fault)
        }
    }

    /// The entries of a map.
    #[derive(Default)]
    pub struct Entries {
        members: Map<String, Value>,
        fault: Option<String>,
    }

    impl Entries {
        pub fn set(&mut self, key: impl Into<String>, node: Node) {
            match node {
                Node::Absent => {}
                Node::Value(value) => _ = self.members.insert(key.into(), value),
                Node::Fault(fault) => _ = self.fault.get_or_insert(fault),
            }
        }

        pub fn build(self) -> Node {
            self.fault.map_or(Node::Value(self.members.into()), Node::Fault)
        }
    }

    /// The items of a list.
    #[derive(Default)]
    pub struct Items {
        items: Vec<Value>,
        fault: Option<String>,
    }

    impl Items {
        pub fn push(&mut self, node: Node) {
            match node {
                Node::Absent => {}
                Node::Value(value) => self.items.push(value),
                Node::Fault(fault) => _ = self.fault.get_or_insert(fault),
            }
        }

        pub fn build(self) -> Node {
            self.fault.map_or(Node::Value(self.items.into()), Node::Fault)
        }
    }

    /// Removes members that are null: a type may write them for absent fields.
    fn remove_nulls(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|_, value| !value.is_null());
                members.values_mut().for_each(remove_nulls);
            }
            Value::Array(items) => items.iter_mut().for_each(remove_nulls),
            _ => {}
        }
    }
}

/// Builds a [`Partial`] for server-side apply: an object with exactly the fields that are written.
///
/// Fields have the names of the Rust type, and are checked at compile time: an unknown field, or a value of another type, does
/// not compile. No field is required, absent fields are absent, and `null` is never written. The kind and API version of a
/// resource are added.
///
/// | syntax | for |
/// |---|---|
/// | `field: expression` | a value; see [`Accepts`](crate::api::Accepts). `None` is an absent field |
/// | `field` | `field: field`, as in a struct expression |
/// | `field: { … }` | the fields of a nested type, optional or not |
/// | `field: { "key": …, (expression): … }` | the entries of a map |
/// | `field: [ … ]` | the items of a list: expressions, `{ … }` or `[ … ]` |
/// | `field as "name": …` | a field whose JSON name is not that of the Rust field in other letters |
///
/// ```
/// use evenkeel_client::apply;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use serde_json::json;
///
/// let (image, replicas) = ("web:2".to_owned(), None);
/// let web = apply!(Deployment {
///     metadata: { name: "web", labels: { "app": "web" } },
///     spec: {
///         replicas: replicas, // no opinion
///         template: {
///             spec: {
///                 containers: [
///                     { name: "web", image: image, ports: [{ container_port: 8080 }] },
///                 ],
///             },
///         },
///     },
/// });
/// let container = json!({"name": "web", "image": "web:2", "ports": [{"containerPort": 8080}]});
/// assert_eq!(
///     *web.as_json(),
///     json!({
///         "apiVersion": "apps/v1",
///         "kind": "Deployment",
///         "metadata": {"name": "web", "labels": {"app": "web"}},
///         "spec": {"template": {"spec": {"containers": [container]}}},
///     })
/// );
/// # async fn send(
/// #     client: evenkeel_client::Client,
/// #     web: evenkeel_client::Partial<Deployment>,
/// # ) -> Result<(), evenkeel_client::Error> {
/// client.apps_v1().deployments("default").apply("web", "my-operator", &web).await?;
/// # Ok(())
/// # }
/// ```
///
/// Parts can be built separately, because a field accepts a `Partial` of its type:
///
/// ```
/// use evenkeel_client::{Partial, apply};
/// use k8s_openapi::api::core::v1::{Container, Pod};
///
/// fn sidecar(image: &str) -> Partial<Container> {
///     apply!(Container { name: "sidecar", image: image })
/// }
///
/// let pod = apply!(Pod { metadata: { name: "web-0" }, spec: { containers: [sidecar("proxy:1")] } });
/// assert_eq!(pod.as_json()["spec"]["containers"][0]["name"], "sidecar");
/// ```
///
/// Unknown fields do not compile:
///
/// ```compile_fail,E0609
/// use evenkeel_client::apply;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// apply!(Deployment { spec: { replica: 3 } });
/// ```
///
/// nor do values of another type:
///
/// ```compile_fail,E0277
/// use evenkeel_client::apply;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// apply!(Deployment { spec: { replicas: "three" } });
/// ```
///
/// nor fields where a list is needed:
///
/// ```compile_fail,E0609
/// use evenkeel_client::apply;
/// use k8s_openapi::api::core::v1::Pod;
///
/// apply!(Pod { spec: { containers: { name: "web" } } });
/// ```
///
/// # Errors
/// The JSON names are those that the type reads. If none of them is the name of the Rust field in other letters, sending the
/// object is an error, which says to write `field as "name"`; so it is for all fields of a type with `#[serde(flatten)]`.
#[macro_export]
macro_rules! apply {
    // Each rule takes one member, and leaves the rest to the next.
    (@fields $place:ident $fields:ident;) => {};
    (@fields $place:ident $fields:ident; $name:ident : $($rest:tt)*) => {
        $crate::apply!(@value ($place.field(|of| &of.$name)) [$fields (stringify!($name), None)] [@fields $place $fields;] $($rest)*)
    };
    (@fields $place:ident $fields:ident; $name:ident as $json:literal : $($rest:tt)*) => {
        $crate::apply!(@value ($place.field(|of| &of.$name)) [$fields (stringify!($name), Some($json))] [@fields $place $fields;] $($rest)*)
    };
    (@fields $place:ident $fields:ident; $name:ident $(, $($rest:tt)*)?) => {
        $crate::apply!(@fields $place $fields; $name : $name $(, $($rest)*)?)
    };
    (@entries $place:ident $entries:ident;) => {};
    (@entries $place:ident $entries:ident; $key:literal : $($rest:tt)*) => {
        $crate::apply!(@value ($place) [$entries ($key)] [@entries $place $entries;] $($rest)*)
    };
    (@entries $place:ident $entries:ident; ($key:expr) : $($rest:tt)*) => {
        $crate::apply!(@value ($place) [$entries ($key)] [@entries $place $entries;] $($rest)*)
    };
    (@items $place:ident $items:ident;) => {};
    (@items $place:ident $items:ident; $($rest:tt)+) => {
        $crate::apply!(@value ($place) [$items] [@items $place $items;] $($rest)+)
    };
    // The value of a member, then the next members.
    (@value $place:tt $sink:tt [$($next:tt)*] { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $crate::apply!(@put $sink $crate::apply!(@object $place $($inner)*));
        $crate::apply!($($next)* $($($rest)*)?);
    };
    (@value $place:tt $sink:tt [$($next:tt)*] [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::apply!(@put $sink $crate::apply!(@list $place $($inner)*));
        $crate::apply!($($next)* $($($rest)*)?);
    };
    (@value $place:tt $sink:tt [$($next:tt)*] $value:expr $(, $($rest:tt)*)?) => {
        $crate::apply!(@put $sink $crate::api::expansion::leaf((&$place).inner(), $value));
        $crate::apply!($($next)* $($($rest)*)?);
    };
    (@put [$sink:ident ($name:expr, $json:expr)] $node:expr) => { $sink.set($name, $json, $node); };
    (@put [$sink:ident ($key:expr)] $node:expr) => { $sink.set($key, $node); };
    (@put [$sink:ident] $node:expr) => { $sink.push($node); };
    (@object $place:tt) => { $crate::api::expansion::empty() };
    (@object $place:tt $name:ident $($rest:tt)*) => {{
        let place = (&$place).inner();
        let mut fields = $crate::api::expansion::Fields::new(place);
        $crate::apply!(@fields place fields; $name $($rest)*);
        fields.build()
    }};
    (@object $place:tt $($rest:tt)*) => {{
        let place = $crate::api::expansion::values((&$place).inner());
        let mut entries = $crate::api::expansion::Entries::default();
        $crate::apply!(@entries place entries; $($rest)*);
        entries.build()
    }};
    (@list $place:tt $($rest:tt)*) => {{
        #[allow(unused_variables)]
        let place = $crate::api::expansion::items((&$place).inner());
        #[allow(unused_mut)]
        let mut items = $crate::api::expansion::Items::default();
        $crate::apply!(@items place items; $($rest)*);
        items.build()
    }};
    ($($kind:ident)::+ { $($fields:tt)* }) => {{
        #[allow(unused_imports)]
        use $crate::api::expansion::{IsResource as _, NotResource as _, Optional as _, Plain as _};
        let place = $crate::api::expansion::Place::<$($kind)::+>::new();
        #[allow(unused_mut)]
        let mut node = $crate::apply!(@object (place) $($fields)*);
        (&place).type_meta(&mut node);
        $crate::api::expansion::finish(place, node)
    }};
}

#[cfg(test)]
mod tests;

//! [`Selection`]: the objects of an [`Api`] that match selectors, to list and to watch.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use evenkeel_core::shard::ShardSelector;
use evenkeel_core::{FieldOperator, FieldTerm, ResourceVersion};

use super::retry_watcher::WatchSource;
use crate::api::scope::{Addressable, Scope};
use crate::api::{Api, ListParams, WatchParams};
use crate::error::Error;
use crate::rest::{List, Query, RequestError, WatchStream};
use crate::wait::ListSource;

/// The objects of an [`Api`]: all of them, or those that match selectors. The source of a
/// [`RetryWatcher`](super::RetryWatcher).
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
/// use evenkeel_client::watch::Selection;
/// use evenkeel_client::{ListParams, RetryWatcher};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = client.api::<Pod>().namespace("default");
/// let list = pods.list(&ListParams::default().labels("app=web")).await?;
/// let mut changes = RetryWatcher::new(&list.meta.resource_version, Selection::of(&pods).labels("app=web"))?;
/// while let Some(event) = changes.next().await {
///     println!("{event:?}");
/// }
/// # Ok(())
/// # }
/// ```
pub struct Selection<K, S> {
    api: Api<K, S>,
    labels: String,
    fields: String,
    shards: Option<ShardSelector>,
    query: Query,
}

impl<K, S: Scope> Selection<K, S> {
    /// Selects all objects of an API.
    pub fn of(api: &Api<K, S>) -> Self {
        Selection { api: api.clone(), labels: String::new(), fields: String::new(), shards: None, query: Query::new() }
    }

    /// Sets the label selector; see [`ListParams::labels`].
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// Sets the field selector; see [`ListParams::fields`].
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.fields = selector.to_string();
        self
    }

    /// Selects objects by the hash of their uid or namespace; see [`ListParams::shards`].
    pub fn shards(mut self, selector: ShardSelector) -> Self {
        self.shards = Some(selector);
        self
    }

    /// Adds an option of newer servers to lists and watches; see [`ListParams::query`].
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.query.add(name, value.into());
        self
    }
}

impl<K, S: Addressable> Selection<K, S> {
    /// Selects the object of this name.
    pub fn named(api: &Api<K, S>, name: &str) -> Result<Self, Error> {
        api.address()?;
        if name.is_empty() {
            let problem = "it is empty".to_owned();
            return Err(RequestError::Segment { part: "name", value: String::new(), problem }.into());
        }
        let term = FieldTerm { field: "metadata.name".into(), operator: FieldOperator::Equals, value: name.to_owned() };
        Ok(Selection::of(api).fields(term))
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

impl<K: 'static, S: Scope> WatchSource<K> for Selection<K, S> {
    type Events = WatchStream<K>;
    type Watching = Boxed<WatchStream<K>>;

    fn watch(&self, from: &ResourceVersion) -> Self::Watching {
        let mut params = WatchParams::from_version(from.as_str()).labels(&self.labels).fields(&self.fields);
        params.shard_selector = self.shards.clone();
        params.query = self.query.clone();
        let api = self.api.clone();
        Box::pin(async move { api.watch(&params).await })
    }
}

impl<K: 'static, S: Scope> ListSource<K> for Selection<K, S> {
    type Listing = Boxed<List<K>>;

    fn list(&self) -> Self::Listing {
        let mut params = ListParams::default().labels(&self.labels).fields(&self.fields);
        params.shard_selector = self.shards.clone();
        params.query = self.query.clone();
        let api = self.api.clone();
        Box::pin(async move { api.list(&params).await })
    }
}

impl<K, S: Scope> Clone for Selection<K, S> {
    fn clone(&self) -> Self {
        let Selection { api, labels, fields, shards, query } = self;
        Selection {
            api: api.clone(),
            labels: labels.clone(),
            fields: fields.clone(),
            shards: shards.clone(),
            query: query.clone(),
        }
    }
}

impl<K, S: Scope> fmt::Debug for Selection<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selection")
            .field("api", &self.api)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("shards", &self.shards)
            .field("query", &self.query)
            .finish()
    }
}

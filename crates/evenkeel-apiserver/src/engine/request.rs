//! A request to a resource, with its route, its query and the form of its response.

use std::sync::Arc;

use evenkeel_core::Status;

use super::ApiEngine;
use super::filter::ObjectFilter;
use super::options::WriteOptions;
use super::shard_filter::ShardFilter;
use super::target::{Target, WriteScope};
use super::view::{IncludeObject, View};
use crate::field_ownership;
use crate::http_types::ApiRequest;
use crate::negotiate::{self, Endpoint, Representation, Transform};
use crate::protobuf_response;
use crate::query::Query;
use crate::registry::Resource;
use crate::route::ResourceRoute;

/// A request to a resource.
pub(crate) struct ResourceRequest<'a> {
    pub(crate) http: &'a Arc<ApiRequest>,
    pub(crate) query: &'a Query,
    pub(crate) route: &'a ResourceRoute,
    /// Whether the request has already waited for a revision that did not arrive.
    pub(crate) waited: bool,
}

impl ResourceRequest<'_> {
    pub(crate) fn resource(&self) -> &Arc<Resource> {
        &self.route.resource
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.route.namespace.as_deref()
    }

    pub(crate) fn name(&self) -> &str {
        self.route.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn target<'a>(&'a self, scope: WriteScope<'a>) -> Target<'a> {
        Target { resource: self.resource(), namespace: self.namespace(), name: self.name(), scope }
    }

    /// Returns the name that field ownership is recorded under (SSA-3).
    pub(crate) fn manager(&self, options: &WriteOptions) -> String {
        let agent = self.http.headers.get(http::header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        field_ownership::manager_name(options.field_manager.as_deref(), agent)
    }

    /// Negotiates the form of the response.
    pub(crate) fn representation(&self, endpoint: Endpoint) -> Result<Representation, Status> {
        let resource = self.resource();
        let protobuf =
            || resource.custom.is_none() && protobuf_response::has_form(&resource.api_version(), &resource.kind);
        negotiate::negotiate(&self.http.headers, self.query, endpoint, protobuf)
    }

    /// Returns the form of a Status.
    pub(crate) fn status_representation(&self) -> Representation {
        negotiate::negotiate_status(&self.http.headers, self.query)
    }
}

impl ApiEngine {
    /// Returns the objects that the path and the selectors of a request for a collection select.
    pub(crate) fn filter(&self, request: &ResourceRequest<'_>) -> Result<ObjectFilter, Status> {
        let name = request.route.name.as_deref();
        let filter = ObjectFilter::new(request.resource(), request.namespace(), name, request.query)?;
        let shards = request.query.non_empty("shardSelector").filter(|_| self.settings.sharded_lists);
        Ok(filter.with_shards(shards.map(ShardFilter::parse).transpose()?))
    }

    /// Returns the view in which the request wants to see objects.
    pub(crate) fn view(&self, request: &ResourceRequest<'_>, endpoint: Endpoint) -> Result<View, Status> {
        let representation = request.representation(endpoint)?;
        let include = match representation.transform {
            Transform::Table(_) => IncludeObject::parse(request.query.get("includeObject"))?,
            _ => IncludeObject::Metadata,
        };
        Ok(View::new(
            Arc::clone(request.resource()),
            representation,
            include,
            self.env.wall(),
            Arc::clone(&self.settings.memory),
        ))
    }
}

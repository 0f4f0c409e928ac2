//! Authorization (AUT-13). Every authenticated user has all permissions. Requests without credentials have those of
//! kube-apiserver's role `system:public-info-viewer`: the health of the server and its version.

use evenkeel_core::{Reason, Status};
use serde_json::Value;

use crate::http_types::{ApiRequest, User};
use crate::listener::auth::{MASTERS, UNAUTHENTICATED};
use crate::route::{ResourceRoute, Route};

/// Returns whether a user has permissions that only authenticated users have.
pub(crate) fn is_authorized(user: &User) -> bool {
    may_do_anything(&user.groups)
}

/// Returns whether the groups of a user have all permissions.
pub(super) fn may_do_anything<S: AsRef<str>>(groups: &[S]) -> bool {
    let has = |wanted: &str| groups.iter().any(|group| group.as_ref() == wanted);
    has(MASTERS) || !has(UNAUTHENTICATED)
}

/// Refuses what the user of a request may not do. The route is `None` if the path is not served: a refusal does not show
/// which paths exist.
pub(super) fn authorize(request: &ApiRequest, route: Option<&Route>) -> Result<(), Status> {
    match route {
        _ if is_authorized(&request.user) => Ok(()),
        Some(Route::Health(_) | Route::Version) if request.method.is_safe() => Ok(()),
        Some(Route::Resource(route)) => Err(forbidden_resource(&request.user, route)),
        _ => Err(forbidden_path(request)),
    }
}

/// The text is that of kube-apiserver.
fn forbidden_resource(user: &User, route: &ResourceRoute) -> Status {
    let resource = &route.resource;
    let subresource = route.subresource.as_deref().map(|name| format!("/{name}")).unwrap_or_default();
    let scope = match route.namespace.as_deref() {
        Some(namespace) => format!("in the namespace {}", Value::from(namespace)),
        None => "at the cluster scope".to_owned(),
    };
    let why = format!(
        "User {} cannot {} resource \"{}{subresource}\" in API group \"{}\" {scope}",
        Value::from(user.name.as_str()),
        route.verb.as_str(),
        resource.plural,
        resource.group,
    );
    Status::forbidden(&resource.group, &resource.plural, route.name.as_deref().unwrap_or_default(), why)
}

fn forbidden_path(request: &ApiRequest) -> Status {
    let (user, path) = (Value::from(request.user.name.as_str()), Value::from(request.uri.path()));
    let verb = request.method.as_str().to_ascii_lowercase();
    Status::failure(403, Reason::FORBIDDEN, format!("forbidden: User {user} cannot {verb} path {path}"))
}

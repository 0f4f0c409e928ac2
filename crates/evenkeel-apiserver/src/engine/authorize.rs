//! Authorization: RBAC, or the policy of a server without it (AUT-13).
//!
//! Without RBAC every authenticated user has all permissions. Requests without credentials have those of kube-apiserver's role
//! `system:public-info-viewer`: the health of the server and its version.

use evenkeel_core::Status;

use super::ApiEngine;
use super::request::ResourceRequest;
use crate::authorization::{
    AccessAttributes, AccessDecision, AccessTarget, Forbidden, RequestAttributes, ResourceAttributes,
};
use crate::http_types::{ApiRequest, User};
use crate::listener::auth::{ANONYMOUS, MASTERS, UNAUTHENTICATED};
use crate::listener::request_info::RequestInfo;

/// The paths that every request may use, as kube-apiserver's `--authorization-always-allow-paths` has them by default.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

/// Returns whether a user may do everything under every policy.
pub(crate) fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

/// Returns whether a user has presented credentials.
pub(crate) fn is_authenticated(user: &User) -> bool {
    is_master(user) || (user.name != ANONYMOUS && !user.groups.iter().any(|group| group == UNAUTHENTICATED))
}

impl ApiEngine {
    /// Decides whether a user may do something.
    pub(crate) fn authorize(&self, access: &AccessAttributes<'_>) -> AccessDecision {
        let path = match access.target {
            AccessTarget::Path(path) => path,
            AccessTarget::Resource(_) => "",
        };
        if is_master(access.user) || ALWAYS_ALLOWED.contains(&path) {
            return AccessDecision::UNLIMITED;
        }
        if self.settings.rbac {
            return self.read_rbac(|index| index.decide(access));
        }
        let is_public = || {
            let root = path.strip_prefix('/').and_then(|path| path.split('/').next()).unwrap_or_default();
            matches!(access.verb, "get" | "head") && matches!(root, "healthz" | "livez" | "readyz" | "version")
        };
        match is_authenticated(access.user) || is_public() {
            true => AccessDecision::UNLIMITED,
            false => AccessDecision::UNKNOWN,
        }
    }

    /// Returns whether a user may act for a signer of certificates, or for all signers of its domain: `verb` is `approve`,
    /// `sign` or `attest`.
    pub(super) fn is_authorized_for_signer(&self, user: &User, verb: &str, signer: &str) -> bool {
        let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
        [signer, &domain].into_iter().any(|name| {
            let signers =
                ResourceAttributes { group: "certificates.k8s.io", resource: "signers", name, ..Default::default() };
            self.authorize(&AccessAttributes { user, verb, target: AccessTarget::Resource(signers) }).is_allowed()
        })
    }

    /// Decides whether a user may send a request. Returns the reason.
    pub(crate) fn authorize_request(
        &self,
        user: &User,
        info: &RequestInfo<'_>,
        query: Option<&str>,
    ) -> Result<String, Forbidden> {
        if is_master(user) || (!self.settings.rbac && is_authenticated(user)) {
            return Ok(String::new());
        }
        let attributes = RequestAttributes::new(info, query);
        let access = attributes.access_of(user);
        match self.authorize(&access) {
            AccessDecision::Allowed { reason } => Ok(reason),
            AccessDecision::Denied { reason } => Err(Forbidden { status: Box::new(access.forbidden(&reason)), reason }),
        }
    }

    /// Refuses what a request does beyond its own verb: an update or an apply that creates its object (AUT-11), or a session
    /// that is opened with a GET.
    pub(super) fn check_also_creates(&self, request: &ApiRequest) -> Result<(), Status> {
        let (query, headers) = (request.uri.query(), &request.headers);
        let info = RequestInfo::of(&request.method, &request.uri, headers);
        if info.verb == "create" {
            return Ok(());
        }
        let attributes = RequestAttributes::new(&info, query);
        let access = attributes.access(&request.user, "create");
        self.authorize(&access).check(&access).map_err(|status| *status)
    }

    /// Refuses a session on a GET to a user that may not create one: 1.35 and later.
    pub(super) fn check_opens_session(&self, request: &ResourceRequest<'_>) -> Result<(), Status> {
        if self.settings.version.minor() < 35 {
            return Ok(());
        }
        let http = request.http;
        let info = RequestInfo::of(&http.method, &http.uri, &http.headers);
        let attributes = RequestAttributes::new(&info, http.uri.query());
        match self.authorize(&attributes.access(&http.user, "create")) {
            AccessDecision::Allowed { .. } => Ok(()),
            // kube-apiserver gives the reason of its authorizer alone, which is often empty.
            AccessDecision::Denied { reason } => {
                let resource = request.resource();
                Err(Status::forbidden(&resource.group, &resource.plural, request.name(), reason))
            }
        }
    }
}

use std::error::Error as _;

use evenkeel_core::{Obj, ResourceInfo};
use k8s_openapi::api::apps::v1::Deployment;

use super::*;
use crate::discovery::ResourceQuery;

fn replicas(json: &str) -> Result<Option<i32>, Error> {
    let info = Arc::new(ResourceInfo::of::<Deployment>());
    let object = Obj::<Deployment>::from_json(&info, json.to_owned())?;
    Ok(object.typed()?.spec.replicas)
}

#[test]
fn an_object_that_does_not_fit_its_type_is_an_error_like_any_other() {
    let misfit = r#"{"metadata":{"namespace":"ns","name":"web"},"spec":{"replicas":"three"}}"#;
    let error = replicas(misfit).unwrap_err();
    assert!(matches!(error, Error::Typed(_)));
    assert!(error.to_string().contains("ns/web"), "{error}");
    assert!(error.to_string().contains("spec.replicas"), "{error}");
    assert!(error.status().is_none());
}

#[test]
fn a_discovery_error_has_the_same_predicates() {
    let unknown = DiscoveryError::NoResource { query: ResourceQuery::new("foos") };
    let error = Error::from(unknown);
    assert_eq!(error.to_string(), "the server has no resource \"foos\"");
    assert!(error.source().is_none());

    let request = RequestName::new(&Method::GET, "/apis");
    let refused =
        Error::Api { request, status: Box::new(Status::failure(403, evenkeel_core::Reason::FORBIDDEN, "no")) };
    let text = refused.to_string();
    let error = Error::from(DiscoveryError::from(refused));
    assert!(error.is_forbidden(), "what the server said can still be asked for");
    assert_eq!(error.to_string(), text);
}

#[test]
fn errors_are_small_enough_to_be_returned() {
    assert!(size_of::<Error>() <= 120, "{}", size_of::<Error>());
}

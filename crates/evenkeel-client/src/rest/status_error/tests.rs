//! Errors of every kind, as servers and proxies send them.

use http::header::RETRY_AFTER;

use super::super::testing::{ReaderFixture, response, with_header};
use super::*;
use crate::transport::Body;

async fn refused(method: Method, response: http::Response<Body>) -> Error {
    ReaderFixture::new(method).reader().whole(response).await.unwrap_err()
}

fn status(error: &Error) -> &Status {
    error.status().unwrap_or_else(|| panic!("{error}"))
}

const NOT_FOUND: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
    "message":"deployments.apps \"web\" not found","reason":"NotFound","details":{"name":"web"},"code":404}"#;

#[tokio::test]
async fn res_001_every_2xx_is_a_success_and_nothing_else_is() {
    // Better than client-go, where 207 is an error of a request and a success of a stream, and 201 an error of a watch.
    for code in [200, 201, 202, 204, 206, 207, 226, 299] {
        let fixture = ReaderFixture::new(Method::GET);
        let received = fixture.reader().whole(response(code, "application/json", "{}")).await.unwrap();
        assert_eq!(received.status(), code);
        fixture.reader().stream(response(code, "text/plain", "")).await.unwrap();
    }
    for code in [300, 304, 399, 400, 404, 500, 599] {
        let error = refused(Method::GET, response(code, "", "")).await;
        assert_eq!(status(&error).code, code);
        assert!(!status(&error).is_success());
    }
}

#[tokio::test]
async fn res_002_text_is_the_message_and_anything_else_is_unknown() {
    for (content_type, said) in [
        ("", "no way"),
        ("text/plain", "no way"),
        ("text/html; charset=utf-8", "no way"),
        ("application/json", "unknown"),
        ("application/xml", "unknown"),
    ] {
        let error = refused(Method::GET, response(502, content_type, " no way\n")).await;
        let details = status(&error).details.as_ref().unwrap();
        assert_eq!(details.causes[0].message, said, "{content_type}");
        assert!(status(&error).message.contains(&format!("(\"{said}\")")), "{}", status(&error).message);
    }
}

#[tokio::test]
async fn res_003_an_error_without_a_status_names_the_request_and_its_object() {
    let received = with_header(response(503, "text/plain", "busy"), RETRY_AFTER, "7");
    let mut fixture = ReaderFixture::new(Method::PUT);
    let error = fixture.reader().whole(received).await.unwrap_err();
    let found = status(&error);
    assert_eq!((found.status.as_str(), found.code, &found.reason), ("Failure", 503, &Reason::SERVICE_UNAVAILABLE));
    assert!(found.message.ends_with(" (put deployments.apps web)"), "{}", found.message);
    let details = found.details.as_ref().unwrap();
    assert_eq!((&*details.group, &*details.kind, &*details.name), ("apps", "deployments", "web"));
    assert_eq!(details.retry_after_seconds, 7);
    assert_eq!((&*details.causes[0].reason, &*details.causes[0].message), ("UnexpectedServerResponse", "busy"));
    assert!(error.is_unexpected_server_error());
    assert!(error.to_string().starts_with("PUT /apis/apps/v1/namespaces/default/deployments/web: "), "{error}");

    fixture.target.name = "".into();
    let error = fixture.reader().whole(response(503, "", "")).await.unwrap_err();
    assert!(status(&error).message.ends_with(" (put deployments.apps)"));
    fixture.target = RequestTarget::default();
    let error = fixture.reader().whole(response(503, "", "")).await.unwrap_err();
    assert!(!status(&error).message.contains('('), "no resource, no suffix");
}

#[tokio::test]
async fn res_004_the_code_and_the_verb_give_the_reason() {
    for (method, code, reason) in [
        (Method::GET, 400, "BadRequest"),
        (Method::GET, 401, "Unauthorized"),
        (Method::GET, 403, "Forbidden"),
        (Method::GET, 404, "NotFound"),
        (Method::GET, 405, "MethodNotAllowed"),
        (Method::GET, 406, "NotAcceptable"),
        (Method::POST, 409, "AlreadyExists"),
        (Method::PUT, 409, "Conflict"),
        (Method::GET, 410, ""),
        (Method::POST, 413, ""),
        (Method::POST, 415, "UnsupportedMediaType"),
        (Method::POST, 422, "Invalid"),
        (Method::GET, 429, "TooManyRequests"),
        (Method::GET, 500, "InternalError"),
        (Method::GET, 502, "InternalError"),
        (Method::GET, 503, "ServiceUnavailable"),
        (Method::GET, 504, "Timeout"),
        (Method::GET, 418, ""),
    ] {
        let error = refused(method.clone(), response(code, "text/plain", "they say so")).await;
        assert_eq!(status(&error).reason.as_str(), reason, "{method} {code}");
        let quotes_them = matches!(code, 403 | 406 | 415 | 500 | 502);
        assert_eq!(status(&error).message.contains("they say so"), quotes_them, "{code}: {error}");
        let silent = refused(method, response(code, "", "")).await;
        assert!(status(&silent).message.len() > 20, "{code}: there is always a sentence: {silent}");
    }
}

#[tokio::test]
async fn res_005_a_failure_status_overrides_the_code() {
    let error = refused(Method::GET, response(404, "application/json", NOT_FOUND)).await;
    assert_eq!(status(&error).message, "deployments.apps \"web\" not found");
    assert!(error.is_not_found() && !error.is_unexpected_server_error());
    assert_eq!(
        error.to_string(),
        "GET /apis/apps/v1/namespaces/default/deployments/web: deployments.apps \"web\" not found"
    );
    for body in ["{}", "", "{", "[]", "<html>", r#"{"kind":"Status","apiVersion":"v1"}"#] {
        let error = refused(Method::GET, response(404, "application/json", body)).await;
        assert!(error.is_not_found() && error.is_unexpected_server_error(), "{body}: {error}");
    }
    let error =
        refused(Method::GET, response(418, "application/json", r#"{"kind":"Status","status":"Failure"}"#)).await;
    assert_eq!(status(&error).code, 418, "the code of the response, if the Status has none");
}

#[tokio::test]
async fn chc_09_only_a_status_of_failure_counts() {
    let success = r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#;
    let error = refused(Method::GET, response(400, "application/json", success)).await;
    assert!(error.is_bad_request() && status(&error).status == "Failure");
    let no_kind = r#"{"status":"Failure","code":404}"#;
    let error = refused(Method::GET, response(400, "application/json", no_kind)).await;
    assert!(error.is_bad_request() && !error.is_not_found());
    let no_version = r#"{"kind":"Status","status":"Failure","code":404}"#;
    let error = refused(Method::GET, response(400, "application/json", no_version)).await;
    assert!(error.is_not_found() && !error.is_bad_request());
}

#[tokio::test]
async fn res_006_the_status_is_always_read() {
    // Better than client-go, whose raw requests return "unknown" for a `Status` in JSON.
    let fixture = ReaderFixture::new(Method::GET);
    let json = || response(404, "application/json", NOT_FOUND);
    let info = std::sync::Arc::new(evenkeel_core::ResourceInfo::new("apps", "v1", "Deployment", "deployments", true));
    let errors = [
        fixture.reader().whole(json()).await.unwrap_err(),
        fixture.reader().stream(json()).await.unwrap_err(),
        fixture.reader().list::<()>(&info, json()).await.unwrap_err(),
        fixture.reader().watch::<()>(&info, json()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(status(&error).message, "deployments.apps \"web\" not found");
    }
}

#[tokio::test]
async fn chc_02_a_retry_after_date_is_ignored() {
    let received = with_header(response(503, "", ""), RETRY_AFTER, "Wed, 21 Oct 2015 07:28:00 GMT");
    let error = refused(Method::GET, received).await;
    assert!(error.is_service_unavailable() && error.suggests_delay().is_none());
    assert_eq!(status(&error).details.as_ref().unwrap().retry_after_seconds, 0);
}

#[tokio::test]
async fn chc_07_ctn_005_a_malformed_content_type_is_an_internal_error_whatever_the_code() {
    for code in [200, 404] {
        let error = refused(Method::GET, response(code, "application/,x", NOT_FOUND)).await;
        assert!(error.is_internal_error() && !error.is_not_found(), "{error}");
        assert_eq!(status(&error).code, 500);
        assert!(error.to_string().contains("application/,x"), "{error}");
    }
}

#[tokio::test]
async fn chc_08_sec_6_a_page_of_a_proxy_is_truncated_and_sanitised() {
    let page = format!("\n<html>\u{1b}[2J{}</html>", "é".repeat(1500));
    let error = refused(Method::GET, response(502, "text/html", page.clone())).await;
    assert!(error.is_internal_error());
    let said = &status(&error).details.as_ref().unwrap().causes[0].message;
    assert!(said.starts_with(r"<html>\u{1b}[2Jé") && said.ends_with('é'), "{said}");
    assert!(said.len() < 2048 + 10 && said.len() > 2000, "{}", said.len());
    assert!(!error.to_string().contains(|char: char| char.is_control()), "{error}");
    let error = refused(Method::GET, response(502, "application/json", page)).await;
    assert_eq!(status(&error).details.as_ref().unwrap().causes[0].message, "unknown");
}

#[tokio::test]
async fn an_error_that_is_too_large_to_be_read_is_still_that_error() {
    let mut fixture = ReaderFixture::new(Method::GET);
    fixture.limits.error = 1000;
    let error = fixture.reader().whole(response(404, "text/plain", "a".repeat(5000))).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[test]
fn res_008_and_res_009_predicates_use_the_reason_and_ignore_wrapped_errors() {
    let request = || RequestName::new(&Method::GET, "/");
    let api =
        |code, reason: Reason| Error::Api { request: request(), status: Box::new(Status::failure(code, reason, "")) };
    type Predicate = fn(&Error) -> bool;
    let predicates: &[(Predicate, Reason, u16)] = &[
        (Error::is_not_found, Reason::NOT_FOUND, 404),
        (Error::is_conflict, Reason::CONFLICT, 409),
        (Error::is_invalid, Reason::INVALID, 422),
        (Error::is_bad_request, Reason::BAD_REQUEST, 400),
        (Error::is_unauthorized, Reason::UNAUTHORIZED, 401),
        (Error::is_forbidden, Reason::FORBIDDEN, 403),
        (Error::is_gone, Reason::GONE, 410),
        (Error::is_timeout, Reason::TIMEOUT, 504),
        (Error::is_service_unavailable, Reason::SERVICE_UNAVAILABLE, 503),
        (Error::is_internal_error, Reason::INTERNAL_ERROR, 500),
        (Error::is_method_not_supported, Reason::METHOD_NOT_ALLOWED, 405),
        (Error::is_not_acceptable, Reason::NOT_ACCEPTABLE, 406),
        (Error::is_unsupported_media_type, Reason::UNSUPPORTED_MEDIA_TYPE, 415),
    ];
    for (predicate, reason, code) in predicates {
        assert!(predicate(&api(0, reason.clone())), "{reason}");
        assert!(predicate(&api(*code, Reason::default())), "{reason} by its code alone");
        assert!(predicate(&api(*code, Reason::from("Odd"))), "{reason} with an unknown reason");
        assert!(!predicate(&api(*code, Reason::ALREADY_EXISTS)), "{reason}: a known reason decides");
        let too_large = Error::TooLarge { request: request(), limit: 1 };
        assert!(!predicate(&too_large));
    }
    assert!(api(409, Reason::ALREADY_EXISTS).is_already_exists() && !api(409, Reason::default()).is_already_exists());
    assert!(api(410, Reason::EXPIRED).is_expired() && api(410, Reason::default()).is_expired());
    assert!(api(429, Reason::INVALID).is_too_many_requests(), "here the code is enough");
    assert!(api(413, Reason::INVALID).is_request_entity_too_large());
    assert!(api(500, Reason::SERVER_TIMEOUT).is_server_timeout());

    let delayed = |reason: Reason, seconds| {
        let details = StatusDetails { retry_after_seconds: seconds, ..StatusDetails::default() };
        let status = Status::failure(500, reason, "").with_details(details);
        Error::Api { request: request(), status: Box::new(status) }.suggests_delay()
    };
    let seconds = std::time::Duration::from_secs;
    assert_eq!(delayed(Reason::SERVER_TIMEOUT, 0), Some(seconds(0)));
    assert_eq!(delayed(Reason::SERVER_TIMEOUT, 2), Some(seconds(2)));
    assert_eq!(delayed(Reason::TOO_MANY_REQUESTS, 3), Some(seconds(3)));
    assert_eq!(delayed(Reason::TOO_MANY_REQUESTS, 0), None);
}

//! [`Conversions`]: answers the requests of `/convert`.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use evenkeel_runtime::internals::catch_panic;
use http::{HeaderValue, Response, StatusCode, header};
use metrics::counter;

use super::kind::{Conversion, ConversionError, Converters};
use super::review::{ConversionReview, Failures, convert};

const PANICS: &str = "controller_runtime_conversion_webhook_panics_total";
/// Other tasks may run after this many objects.
const OBJECTS_PER_TURN: usize = 64;

/// The conversions of a server.
pub(crate) struct Conversions(RwLock<Arc<Converters>>);

impl Conversions {
    pub(crate) fn new() -> Self {
        Conversions(RwLock::default())
    }

    /// Adds the conversions of a kind.
    pub(crate) fn register<H: 'static>(&self, conversion: Conversion<H>) -> Result<(), ConversionError> {
        use super::kind::KindConverter;

        conversion.check()?;
        metrics::describe_counter!(PANICS, "Panics of converters");
        counter!(PANICS).increment(0);
        let (key, kind) = (conversion.group_and_kind(), conversion.name());
        let mut converters = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if converters.contains_key(&key) {
            return Err(ConversionError::Duplicate { kind });
        }
        Arc::make_mut(&mut converters).insert(key, Arc::new(conversion));
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns whether a kind, given by its group and its name, has conversions.
    pub(crate) fn contains(&self, kind: &(String, String)) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(kind)
    }

    /// Answers a review.
    pub(crate) async fn respond(&self, body: &Bytes) -> Response<Bytes> {
        let Some(review) = ConversionReview::parse(body) else { return status(StatusCode::BAD_REQUEST) };
        let converters = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let converted = catch_panic(Box::pin(convert_all(&converters, &review))).await.unwrap_or_else(|_| {
            counter!(PANICS).increment(1);
            Err("internal error occurred during conversion".to_owned())
        });
        if let Err(message) = &converted {
            let (uid, desired) = (&*review.request.uid, &*review.request.desired_api_version);
            tracing::warn!(uid, desired, error = message, "conversion failed");
        }
        match review.answer(converted.as_deref().map_err(String::as_str)) {
            Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
            Ok(answer) => {
                let mut response = Response::new(Bytes::from(answer));
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
        }
    }
}

/// Converts all objects, in their order; or returns which ones cannot be converted.
async fn convert_all(converters: &Converters, review: &ConversionReview<'_>) -> Result<Vec<serde_json::Value>, String> {
    let request = &review.request;
    let mut converted = Vec::with_capacity(request.objects.len());
    let mut failures = Failures::default();
    for (index, object) in request.objects.iter().enumerate() {
        if index % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
        match convert(converters, object, &request.desired_api_version) {
            Ok(object) => converted.push(object),
            Err(failure) => failures.add(&failure),
        }
    }
    match failures.message() {
        None => Ok(converted),
        Some(message) => Err(message),
    }
}

/// Returns a response without a body.
fn status(code: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = code;
    response
}

impl fmt::Debug for Conversions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let converters = self.0.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(converters.keys()).finish()
    }
}

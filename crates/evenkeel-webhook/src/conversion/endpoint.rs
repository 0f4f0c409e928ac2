//! [`Conversions`]: answers the requests of `/convert`.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use evenkeel_runtime::internals::catch_panic;
use http::{HeaderValue, Response, StatusCode, header};
use metrics::counter;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::kind::{Conversion, ConversionError, Converters};
use super::review::{ConversionReview, Failures, convert};

const PANICS: &str = "controller_runtime_conversion_webhook_panics_total";
/// The number of objects that a task converts before others may run.
const BATCH: usize = 64;

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

    /// Returns the conversions that are registered now.
    pub(super) fn converters(&self) -> Arc<Converters> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the names of the definitions of all kinds with conversions.
    #[cfg(feature = "certificates")]
    pub(crate) fn definitions(&self) -> Vec<String> {
        let converters = self.0.read().unwrap_or_else(PoisonError::into_inner);
        converters.values().map(|converter| converter.definition()).collect()
    }

    /// Answers a review.
    pub(crate) async fn respond(&self, body: &Bytes) -> Response<Bytes> {
        let Some(review) = ConversionReview::parse(body) else { return status(StatusCode::BAD_REQUEST) };
        let work = ConversionWork {
            converters: self.converters(),
            desired: review.request.desired_api_version.clone().into_owned(),
            objects: review.request.objects.iter().map(|raw| body.slice_ref(raw.get().as_bytes())).collect(),
        };
        let converted = catch_panic(Box::pin(work.convert())).await.unwrap_or_else(|_| {
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

/// The objects of a request, and what they are to become.
struct ConversionWork {
    converters: Arc<Converters>,
    desired: String,
    objects: Vec<Bytes>,
}

impl ConversionWork {
    /// Converts all objects, in their order; or returns which ones cannot be converted.
    ///
    /// Batches are converted by as many tasks as the runtime has threads. Dropping the future ends them after their batch.
    async fn convert(self) -> Result<Vec<Value>, String> {
        let batches = self.objects.len().div_ceil(BATCH);
        let tasks = batches.min(Handle::current().metrics().num_workers());
        let mut converted = if tasks < 2 {
            self.convert_from(&AtomicUsize::new(0)).await
        } else {
            let (work, next) = (Arc::new(self), Arc::new(AtomicUsize::new(0)));
            let mut running = JoinSet::new();
            for _ in 0..tasks {
                let (work, next) = (Arc::clone(&work), Arc::clone(&next));
                running.spawn(async move { work.convert_from(&next).await });
            }
            let mut converted = Vec::with_capacity(batches);
            while let Some(ended) = running.join_next().await {
                match ended {
                    Ok(batches) => converted.extend(batches),
                    // The runtime shuts down, if it is none.
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(_) => return Err("the webhook server stops".to_owned()),
                    },
                }
            }
            converted
        };
        converted.sort_unstable_by_key(|(batch, _)| *batch);
        let mut failures = Failures::default();
        let mut objects = Vec::new();
        for object in converted.into_iter().flat_map(|(_, batch)| batch) {
            match object {
                Ok(object) => objects.push(object),
                Err(failure) => failures.add(&failure),
            }
        }
        match failures.message() {
            None => Ok(objects),
            Some(message) => Err(message),
        }
    }

    /// Converts batches, each with its number, until no other is left.
    async fn convert_from(&self, next: &AtomicUsize) -> Vec<(usize, Vec<Result<Value, String>>)> {
        let mut converted = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.objects.chunks(BATCH).nth(number) else { return converted };
            let results = batch.iter().map(|object| convert(&self.converters, object, &self.desired));
            converted.push((number, results.collect()));
            tokio::task::yield_now().await;
        }
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

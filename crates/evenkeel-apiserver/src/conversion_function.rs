//! Functions of the program that convert custom resources, as the receivers of ConversionReviews.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::outbound::{CallError, CallFunction};

/// Returns the function of a ConversionReview that converts objects by `convert`.
pub(crate) fn conversion_function<F, Fut>(convert: F) -> CallFunction
where
    F: Fn(Vec<Value>, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<Value>, String>> + Send + 'static,
{
    let convert = Arc::new(convert);
    Arc::new(move |body: Bytes| {
        let convert = Arc::clone(&convert);
        Box::pin(async move {
            let mut review: Value = serde_json::from_slice(&body).map_err(|error| CallError(error.to_string()))?;
            let text = |key: &str| review["request"][key].as_str().unwrap_or_default().to_owned();
            let (uid, version) = (text("uid"), text("desiredAPIVersion"));
            let objects = match review["request"]["objects"].take() {
                Value::Array(objects) => objects,
                _ => Vec::new(),
            };
            let (converted, result) = match convert(objects, version).await {
                Ok(converted) => (converted, json!({"status": "Success"})),
                Err(message) => (Vec::new(), json!({"status": "Failed", "message": message})),
            };
            let response = json!({"uid": uid, "convertedObjects": converted, "result": result});
            Ok(json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response})
                .to_string()
                .into())
        })
    })
}

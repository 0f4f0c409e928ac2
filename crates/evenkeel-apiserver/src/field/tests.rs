use super::*;

#[test]
fn err_6_one_error_and_several() {
    let one = [FieldError::required("metadata.name", "name or generateName is required")];
    assert_eq!(
        invalid("", "ConfigMap", "", &one).message,
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    let two = [
        FieldError::invalid("spec.replicas", &Value::from(-1), "must be positive"),
        FieldError::not_supported("spec.type", &Value::from("x"), &["A", "B"]),
    ];
    let status = invalid("apps", "Deployment", "web", &two);
    assert_eq!(
        status.message,
        "Deployment.apps \"web\" is invalid: [spec.replicas: Invalid value: -1: must be positive, \
         spec.type: Unsupported value: \"x\": supported values: \"A\", \"B\"]"
    );
    let causes = status.details.unwrap().causes;
    assert_eq!(causes[0].reason, "FieldValueInvalid");
    assert_eq!(causes[1].field, "spec.type");
}

#[test]
fn bud_5_errors_values_and_choices_are_capped() {
    let errors: Vec<FieldError> =
        (0..1_000).map(|index| FieldError::required(format!("spec.list[{index}]"), "")).collect();
    let status = invalid("", "Pod", "p", &errors);
    assert!(status.message.ends_with(", spec.list[99]: Required value, further errors are omitted]"));
    assert_eq!(status.details.unwrap().causes.len(), MAX_ERRORS);
    let long = FieldError::invalid("spec", &Value::from("ä".repeat(1 << 20)), "must be short");
    assert!(long.value.is_some_and(|value| value.len() <= MAX_SHOWN + 3 && value.ends_with("...")));
    let choices = vec!["choice"; 10_000];
    let error = FieldError::not_supported("spec", &Value::from("x"), &choices);
    assert_eq!(error.detail.matches("choice").count(), MAX_SUPPORTED);
    assert!(error.detail.ends_with(", ..."));
}

#[test]
fn err_6_equal_errors_are_reported_once() {
    let errors = vec![FieldError::required("spec", ""); 50];
    assert_eq!(invalid("", "Pod", "p", &errors).message, "Pod \"p\" is invalid: spec: Required value");
}

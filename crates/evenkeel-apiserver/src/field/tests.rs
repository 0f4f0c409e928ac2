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

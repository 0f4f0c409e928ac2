//! Costs: what a rule may cost by its estimate, and what evaluations cost.

use serde_json::{Value, json};

use super::{definition_errors, errors, serving, spec};

fn list(max_items: Value) -> Value {
    json!({"type": "array", "maxItems": max_items, "items": {"type": "string", "maxLength": 10}})
}

#[tokio::test]
async fn cel_018_one_evaluation_has_a_limit() {
    let properties = json!({"list": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}});
    let rules = json!([{"rule": "self.list.all(a, self.list.exists(b, a == b) || a < 0)", "message": "quadratic"}, {"rule": "false"}]);
    let api = serving(spec(properties, rules)).await;
    let items: Vec<i64> = (0..1000).collect();
    assert_eq!(
        errors(&api, json!({"list": items})).await,
        "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run \
         due to call cost exceeds limit for rule: quadratic"
    );
}

#[tokio::test]
async fn cel_019_a_write_has_a_budget() {
    let item = json!({"type": "array", "maxItems": 300, "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a + b >= 0))"}, {"rule": "self.all(a, self.all(b, b + a >= 0))"}]});
    let properties = json!({"lists": {"type": "array", "maxItems": 15, "items": item}});
    let api = serving(spec(properties, json!([]))).await;
    let inner: Vec<i64> = (0..300).collect();
    let lists: Vec<Value> = (0..15).map(|_| json!(inner)).collect();
    let found = errors(&api, json!({"lists": lists})).await;
    let text = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert!(found.ends_with(text), "{found}");
    assert_eq!(found.matches("spec.lists").count(), 1, "{found}");
}

#[tokio::test]
async fn cel_033_a_rule_that_may_cost_too_much_is_refused() {
    let rules = || json!([{"rule": "self.list.all(a, self.list.all(b, a != b))"}]);
    assert_eq!(
        definition_errors(spec(json!({"list": {"type": "array", "items": {"type": "string"}}}), rules())).await,
        "[$.properties[spec].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x \
         (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared), \
         $.properties[spec].x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for \
         entire OpenAPIv3 schema, $: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds \
         budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, \
         and strings are declared)]"
    );
    let found = definition_errors(spec(json!({"list": list(json!(1500))}), rules())).await;
    assert!(found.contains("exceeds budget by factor of 2.0x"), "{found}");
    serving(spec(json!({"list": list(json!(100))}), rules())).await;
}

#[tokio::test]
async fn cel_034_all_rules_of_a_schema_have_a_limit() {
    let rules: Vec<Value> = (0..20).map(|_| json!({"rule": "self.list.all(a, self.list.all(b, a != b))"})).collect();
    let found = definition_errors(spec(json!({"list": list(json!(900))}), json!(rules))).await;
    let named = "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
    assert_eq!(found.matches(named).count(), 4, "{found}");
    assert!(found.contains("$: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of 1."), "{found}");
}

#[tokio::test]
async fn cel_035_limits_of_the_schema_bound_the_estimate() {
    let item = |rule: &str| json!({"type": "string", "maxLength": 1000, "x-kubernetes-validations": [{"rule": rule}]});
    let below =
        |max: Value| json!({"list": {"type": "array", "maxItems": max, "items": item("self.matches('^[a-z]*$')")}});
    serving(spec(below(json!(100)), json!([]))).await;
    let found = definition_errors(spec(below(json!(100_000)), json!([]))).await;
    assert!(found.contains("estimated rule cost exceeds budget by factor of"), "{found}");
    let chosen = json!({"a": {"type": "string", "enum": ["x", "yy"]}});
    serving(spec(chosen, json!([{"rule": "self.a.replace('x', 'y').matches('^[a-z]*$')"}]))).await;
}

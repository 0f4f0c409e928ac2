use std::sync::Arc;

use crate::{CostEstimate, DeclKind, DeclType, Environment, ListIdentity, Type, Value};

fn environment(items: u64, length: u64) -> Environment {
    let item = DeclType::new(DeclKind::String, Some(length), 2);
    let list = DeclType::new(DeclKind::List(Arc::new(item), ListIdentity::Atomic), Some(items), 2);
    Environment::new().with_json("self", list)
}

fn estimate(text: &str, items: u64, length: u64) -> CostEstimate {
    let environment = environment(items, length);
    environment.compile(text).unwrap().estimate(&environment)
}

#[test]
fn estimates_from_declared_sizes() {
    assert_eq!(estimate("true", 1, 1), CostEstimate { min: 0, max: 0 });
    assert_eq!(estimate("self.size() == 1", 10, 10).max, 3);
    // Per item: the condition (2), the accumulator (1), the item (1) and the comparison of ten characters (1).
    assert_eq!(estimate("self.all(x, x == 'abcdefghij')", 10, 10).max, 2 + 10 * 5);
    assert_eq!(estimate("self.exists(x, self.exists(y, x == y))", 100, 10).max, 2 + 100 * (3 + 1 + 2 + 100 * 7));
}

#[test]
fn counts_at_run_time() {
    let environment = Environment::new().with_variable("self", Type::Dyn);
    let cost = |text: &str| {
        let object = serde_json::json!({"a": {"b": "0123456789"}});
        let variables = [("self", Value::from_any_json(&object))];
        environment.compile(text).unwrap().into_program().evaluate(&variables[..], u64::MAX).cost
    };
    assert_eq!(cost("self.a.b"), 3);
    assert_eq!(cost("self.a.b == '0123456789'"), 4);
    assert_eq!(cost("[1, 2].all(x, x > 0)"), 10 + 2 * (2 + 1 + 1 + 1) + 1);
    assert_eq!(cost("{'a': 1}.size()"), 31);
    assert_eq!(cost("self.a.b.matches('^[0-9]*$')"), 3 + 2 * 2);
}

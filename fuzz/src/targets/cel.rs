//! CEL expressions (FUZ-23). The first byte selects the environment, the line after it is the expression; the object follows.

use evenkeel_cel::{Environment, EvalError, Type, Value};
use serde_json::Value as Json;

use crate::budget::{TREE, within};
use crate::input::Input;

/// The limit of the cost of an evaluation.
const COST_LIMIT: u64 = 100_000;

/// The memory that an evaluation may use, as a multiple of its cost: an element of a list costs at least one.
const BYTES_PER_COST: usize = 16;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let environment = Environment::new().with_variable("self", Type::Dyn);
    let environment = match input.choice(&[0, 1, 2]) {
        0 => environment,
        1 => environment.with_patch_types(),
        _ => environment.with_authorizer().for_new_expressions(),
    };
    let text = input.text_line();
    let object = input.json();
    // A node of the tree has an id, a place and a type.
    let Ok(compiled) = within(10 * TREE, text.len(), || environment.compile(&text)) else { return };
    let estimate = compiled.estimate(&environment);
    assert!(estimate.min <= estimate.max, "{estimate:?}");
    let program = compiled.into_program();
    let (first, cost) =
        within(TREE, object.to_string().len() + COST_LIMIT as usize * BYTES_PER_COST, || evaluate(&program, &object));
    assert_eq!(evaluate(&program, &object), (first.clone(), cost), "evaluated again");
    if first == Err(EvalError::CostLimit.to_string()) {
        assert!(cost >= COST_LIMIT || estimate.max >= COST_LIMIT, "the limit was not reached: {cost}");
    }
}

fn evaluate(program: &evenkeel_cel::Program, object: &Json) -> (Result<Option<Json>, String>, u64) {
    let variables = [("self", Value::from_any_json(object))];
    let evaluation = program.evaluate(&variables[..], COST_LIMIT);
    let result = evaluation.result.map_err(|error| error.to_string());
    // Values share their parts, so the JSON of a value may be larger than any memory.
    let result = result.map(|value| value.is_bounded(10_000, 64).then(|| value.to_json()).flatten());
    (result, evaluation.cost)
}

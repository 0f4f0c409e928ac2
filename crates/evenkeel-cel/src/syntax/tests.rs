use super::{Macros, parse};
use crate::source::{CompileError, Source};

fn error(text: &str) -> String {
    let source = Source::new(text);
    match parse(&source, Macros::Expanded) {
        Ok(parsed) => panic!("parsed: {parsed:?}"),
        Err(issues) => CompileError::new(&source, issues).to_string(),
    }
}

#[test]
fn accepts_the_grammar() {
    for text in [
        "a.b.c[0] == 'x' && !has(a.b) || -1 < 2u ? [1, 2,] : {'a': 1.5e3,}",
        "a.?b[?0].orValue(r'\\d') // comment",
        "x.all(k, v, k != v)",
        "Object{spec: Object.spec{?replicas: optional.of(1)}}",
        "self.`a-b`",
        "b'\\xff' + b\"\"\"\n\"\"\"",
        "- -1 == 1",
    ] {
        let source = Source::new(text);
        assert!(parse(&source, Macros::Expanded).is_ok(), "{text}: {:?}", parse(&source, Macros::Expanded));
    }
}

#[test]
fn points_at_the_place_of_a_syntax_error() {
    assert_eq!(
        error("self.a >"),
        "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', \
         'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.a >\n | ........^"
    );
    assert!(error("a\nb").contains("<input>:2:1: Syntax error: extraneous input 'b' expecting <EOF>"));
    assert!(error("a & b").contains("token recognition error at: '& '"));
    assert!(error("has(a)").contains("invalid argument to has() macro"));
    assert!(error("a.all(b.c, true)").contains("argument must be a simple name"));
    assert!(error("if == 1").contains("reserved identifier: if"));
}

#[test]
fn limits_nesting() {
    let deep = "(".repeat(300) + "1" + &")".repeat(300);
    assert!(error(&deep).contains("expression recursion limit exceeded: 250"));
    let long = "a".to_owned() + &".b".repeat(5000);
    assert!(error(&long).contains("expression recursion limit exceeded: 250"));
    let nested = "x.all(x, ".repeat(80) + "true" + &")".repeat(80);
    let environment = crate::Environment::new().with_variable("x", crate::Type::Dyn);
    let program = environment.compile(&nested).unwrap().into_program();
    let object = serde_json::json!([[[]]]);
    let variables = [("x", crate::Value::from_any_json(&object))];
    assert!(program.evaluate(&variables[..], 1_000_000).result.is_ok());
    let chain = "1".to_owned() + &" + 1".repeat(240);
    let program = environment.compile(&chain).unwrap().into_program();
    assert!(matches!(program.evaluate(&variables[..], 1_000_000).result, Ok(crate::Value::Int(241))));
    let nested = "[".repeat(240) + &"]".repeat(240);
    let program = environment.compile(&nested).unwrap().into_program();
    assert!(program.evaluate(&variables[..], 1_000_000).result.is_ok());
    let source = Source::new(&("true".to_owned() + &" && true".repeat(5000)));
    assert!(parse(&source, Macros::Expanded).is_ok());
}

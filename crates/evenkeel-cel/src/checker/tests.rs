use std::sync::Arc;

use crate::{DeclKind, DeclType, Environment, ListIdentity, ObjectDecl, Type};

fn scalar(kind: DeclKind) -> DeclType {
    DeclType::new(kind, None, 1)
}

fn environment() -> Environment {
    let list = DeclType::new(DeclKind::List(Arc::new(scalar(DeclKind::String)), ListIdentity::Atomic), Some(10), 2);
    let object = ObjectDecl::new(
        "selfType",
        [
            ("name".to_owned(), scalar(DeclKind::String)),
            ("count".to_owned(), scalar(DeclKind::Int)),
            ("tags".to_owned(), list),
            ("x-y".to_owned(), scalar(DeclKind::Bool)),
            ("any".to_owned(), scalar(DeclKind::Dyn)),
        ],
    );
    Environment::new().with_json("self", DeclType::new(DeclKind::Object(Arc::new(object)), None, 2))
}

fn error(text: &str) -> String {
    environment().compile(text).unwrap_err().to_string()
}

#[test]
fn infers_types() {
    let of = |text: &str| environment().compile(text).unwrap().result_type().to_string();
    assert_eq!(of("self.name"), "string");
    assert_eq!(of("self.tags.map(t, t.size())"), "list(int)");
    assert_eq!(of("self.any == 1"), "bool");
    assert_eq!(of("{'a': [1]}"), "map(string, list(int))");
    assert_eq!(of("self.?name"), "optional_type(string)");
    assert_eq!(of("self.x__dash__y ? [] : ['a']"), "list(string)");
    assert_eq!(of("self"), "selfType");
    assert!(matches!(environment().compile("self.any").unwrap().result_type(), Type::Dyn));
}

#[test]
fn words_errors_like_cel_go() {
    assert_eq!(error("self.nam == 'a'"), "ERROR: <input>:1:5: undefined field 'nam'\n | self.nam == 'a'\n | ....^");
    assert_eq!(
        error("self.count == 'a'"),
        "ERROR: <input>:1:12: found no matching overload for '_==_' applied to '(int, string)'\n | self.count == 'a'\n \
         | ...........^"
    );
    assert_eq!(
        error("foo(1)"),
        "ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')\n | foo(1)\n | ...^"
    );
    assert!(error("other").contains("undeclared reference to 'other' (in container '')"));
    assert!(error("self.count.size()").contains("found no matching overload for 'size' applied to 'int.()'"));
    assert!(error("[1, 'a']").contains("expected type 'int' but found 'string'"));
    assert!(error("self.count && true").contains("expected type 'bool' but found 'int'"));
    assert!(error("self.name.name").contains("type 'string' does not support field selection"));
    assert!(error("self.count.all(x, true)").contains("expression of type 'int' cannot be range of a comprehension"));
    assert!(error("self.name.matches('(')").contains("invalid matches argument"));
    assert!(error("duration('x') == duration('1s')").contains("invalid duration argument"));
}

#[test]
fn new_expressions_do_not_use_the_newest_functions() {
    assert!(environment().compile("self.tags.includes('a')").is_ok());
    let new = environment().for_new_expressions();
    assert!(new.compile("self.tags.includes('a')").is_err());
    assert!(new.compile("self.tags.first().hasValue()").is_ok());
}

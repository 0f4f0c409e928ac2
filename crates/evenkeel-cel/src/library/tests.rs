use serde_json::json;

use crate::{Environment, Type, Value};

#[track_caller]
fn holds(text: &str) {
    let environment = Environment::new().with_variable("self", Type::Dyn);
    let program = environment.compile(text).unwrap_or_else(|error| panic!("{error}")).into_program();
    let object = json!({});
    let variables = [("self", Value::from_any_json(&object))];
    let result = program.evaluate(&variables[..], 1_000_000).result;
    assert!(matches!(result, Ok(Value::Bool(true))), "{text}: {result:?}");
}

#[test]
fn strings() {
    for text in [
        "'tacocat'.charAt(3) == 'o' && 'a'.charAt(1) == ''",
        "'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.indexOf('ello', 2) == 7 && 'x'.indexOf('y') == -1",
        "'hello mellow'.lastIndexOf('ello') == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1",
        "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'ä a'.upperAscii() == 'ä A'",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "'  a\\n'.trim() == 'a'",
        "'%s has %d, %.2f, %x, %b'.format([dyn('a'), 3, 1.5, 255, 5]) == 'a has 3, 1.50, ff, 101'",
        "'%s'.format([[dyn(1), 'a', {'k': true}]]) == '[1, a, {k: true}]'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.matches('^a.c$')",
        "'abc 123'.find('[0-9]+') == '123' && '1 2 3'.findAll('[0-9]') == ['1', '2', '3'] && '1 2'.findAll('[0-9]', 1) == ['1']",
    ] {
        holds(text);
    }
}

#[test]
fn lists_and_sets() {
    for text in [
        "[1, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2].sum() == 3 && [1.5, 2.5].sum() == 4.0",
        "[3, 1].min() == 1 && ['a', 'b'].max() == 'b'",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2",
        "[1, 2].includes(2)",
        "[1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2]].flatten() == [1, 2]",
        "[1, 1, 2].distinct() == [1, 2] && [2, 1].sort() == [1, 2] && [1, 2].reverse() == [2, 1]",
        "lists.range(3) == [0, 1, 2] && [1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2])",
    ] {
        holds(text);
    }
}

#[test]
fn kubernetes_types() {
    for text in [
        "isURL('https://a.example:80/b?c=d') && !isURL('../a')",
        "url('https://a.example:80/b%20c?d=e&d=f').getHost() == 'a.example:80'",
        "url('https://a.example:80/').getHostname() == 'a.example' && url('https://a.example:80/').getPort() == '80'",
        "url('https://a/b c').getEscapedPath() == '/b%20c' && url('https://a/?d=e&d=f').getQuery() == {'d': ['e', 'f']}",
        "quantity('1Ki') == quantity('1024') && quantity('1.5').isGreaterThan(quantity('1'))",
        "quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('50k').asInteger() == 50000",
        "quantity('1').add(2).sub(quantity('1')).asInteger() == 2 && !isQuantity('1x') && quantity('-1').sign() == -1",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && isIP('10.0.0.1') && !isIP('10.0.0')",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && string(ip('::1')) == '::1'",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('A').hasValue()",
        "format.named('uuid').hasValue() && !format.named('other').hasValue()",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1', true).major() == 1 && !isSemver('v1')",
        "semver('1.0.0-alpha').isLessThan(semver('1.0.0'))",
    ] {
        holds(text);
    }
}

#[test]
fn times() {
    for text in [
        "timestamp('2023-01-02T03:04:05.006Z').getFullYear() == 2023",
        "timestamp('2023-01-02T03:04:05Z').getMonth() == 0 && timestamp('2023-01-02T03:04:05Z').getDate() == 2",
        "timestamp('2023-01-02T03:04:05Z').getHours('+02:00') == 5",
        "duration('90m').getHours() == 1 && duration('1h30m') == duration('90m') && string(duration('1.5s')) == '1.5s'",
        "timestamp('2023-01-02T00:00:00Z') - timestamp('2023-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2023-01-01T00:00:00Z') + duration('1h') > timestamp('2023-01-01T00:00:00Z')",
    ] {
        holds(text);
    }
}

//! Types, names and functions in rules.

use serde_json::json;

use super::{SAMPLES, definition_errors, errors, sample, serving, spec, with_spec};

#[tokio::test]
async fn cel_004_types_follow_the_schema() {
    let properties = json!({
        "bytes": {"type": "string", "format": "byte"}, "date": {"type": "string", "format": "date"},
        "time": {"type": "string", "format": "date-time"}, "duration": {"type": "string", "format": "duration"},
        "number": {"type": "number"}, "either": {"x-kubernetes-int-or-string": true},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}}, "list": {"type": "array", "items": {"type": "boolean"}}});
    let rules = json!([
        {"rule": "self.bytes == b'abc'"}, {"rule": "self.date.getFullYear() == 2024"}, {"rule": "self.time.getHours() == 5"},
        {"rule": "self.duration > duration('1m')"}, {"rule": "type(self.number) == double"},
        {"rule": "type(self.either) == int ? self.either == 1 : self.either == 'x'"},
        {"rule": "self.map.all(k, self.map[k] > 0)"}, {"rule": "self.list.exists(b, b)"}]);
    let api = serving(spec(properties, rules)).await;
    let object = json!({"bytes": "YWJj", "date": "2024-02-03", "time": "2024-02-03T05:06:07Z", "duration": "2m", "number": 1, "either": "x",
                        "map": {"a": 1}, "list": [false, true]});
    api.post(SAMPLES, &sample(object)).await.expect(201);
}

#[tokio::test]
async fn cel_005_names_are_escaped() {
    let string = json!({"type": "string"});
    let properties = json!({"a-b": string, "c.d": string, "e/f": string, "g__h": string, "namespace": string, "in": string, "1st": string});
    let rule = "self.a__dash__b == '1' && self.c__dot__d == '2' && self.e__slash__f == '3' && self.g__underscores__h == '4' && \
                self.__namespace__ == '5' && self.__in__ == '6'";
    let api = serving(spec(properties, json!([{"rule": rule, "message": "names"}]))).await;
    let mut object = json!({"a-b": "1", "c.d": "2", "e/f": "3", "g__h": "4", "namespace": "5", "in": "6"});
    api.post(SAMPLES, &sample(object.clone())).await.expect(201);
    object["in"] = json!("7");
    assert_eq!(errors(&api, object).await, "spec: Invalid value: names");
}

#[tokio::test]
async fn cel_005_a_reserved_word_after_a_dot_needs_no_escape() {
    let properties = json!({"namespace": {"type": "string", "maxLength": 9}, "function": {"type": "integer"}});
    let rule = "has(self.namespace) && self.namespace == 'a' && self.namespace == self.__namespace__ && self.function == 1 \
                && size(self.namespace) == 1";
    let api = serving(spec(properties.clone(), json!([{"rule": rule, "message": "words"}]))).await;
    api.post(SAMPLES, &sample(json!({"namespace": "a", "function": 1}))).await.expect(201);
    assert_eq!(errors(&api, json!({"namespace": "b", "function": 1})).await, "spec: Invalid value: words");
    assert_eq!(errors(&api, json!({"function": 1})).await, "spec: Invalid value: words");

    // The size is known only by the escaped name.
    let schema = |rule: &str| spec(properties.clone(), json!([{"rule": rule}]));
    let refused = definition_errors(schema("self.namespace.contains('b')")).await;
    assert!(refused.contains("estimated rule cost exceeds budget"), "{refused}");
    serving(schema("self.__namespace__.contains('b')")).await;
}

/// Rules over constants, all of which hold.
async fn all_hold(rules: &[&str]) {
    let rules: Vec<_> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    let schema = with_spec(
        json!({"type": "object", "properties": {"list": {"type": "array", "maxItems": 9, "items": {"type": "integer"}},
            "texts": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9}}},
                                  "x-kubernetes-validations": rules}),
    );
    let api = serving(schema).await;
    api.post(SAMPLES, &sample(json!({"list": [1, 2, 3], "texts": ["a", "b"]}))).await.expect(201);
}

#[tokio::test]
async fn cel_037_the_language() {
    all_hold(&[
        "has(self.list) && self.list.all(x, x > 0) && self.list.exists(x, x == 2) && self.list.exists_one(x, x == 2)",
        "self.list.map(x, x + 1) == [2, 3, 4] && self.list.filter(x, x > 1) == [2, 3] && 2 in self.list && self.list[0] == 1",
        "1 < 1.5 && 2u > 1 && (self.list.size() > 2 ? true : false)",
        "self.?list[?5].orValue(7) == 7 && self.?list.hasValue()",
        "self.list.all(i, x, x == i + 1) && self.list.transformList(i, x, i) == [0, 1, 2]",
    ])
    .await;
}

#[tokio::test]
async fn cel_038_strings_and_sets() {
    all_hold(&[
        "'abc'.charAt(1) == 'b' && 'abc'.indexOf('c') == 2 && 'abca'.lastIndexOf('a') == 3 && self.texts.join('-') == 'a-b'",
        "'Ab'.lowerAscii() == 'ab' && 'Ab'.upperAscii() == 'AB' && 'ab'.replace('a', 'c') == 'cb' && 'a,b'.split(',') == ['a', 'b']",
        "'abc'.substring(1) == 'bc' && ' a '.trim() == 'a' && '%s %d'.format([dyn('a'), 1]) == 'a 1' && strings.quote('a') == '\"a\"'",
        "sets.contains(self.list, [1]) && sets.equivalent(self.list, [3, 2, 1]) && sets.intersects(self.list, [3, 4])",
    ])
    .await;
}

#[tokio::test]
async fn cel_039_lists_patterns_and_urls() {
    all_hold(&[
        "self.list.isSorted() && self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3 && self.list.indexOf(2) == 1",
        "self.list.slice(0, 2) == [1, 2] && [self.list].flatten() == self.list && [1, 1].distinct() == [1] && [2, 1].sort() == [1, 2]",
        "self.list.sortBy(x, -x) == [3, 2, 1] && lists.range(2) == [0, 1] && self.list.reverse().first().value() == 3",
        "'a1b2'.find('[0-9]') == '1' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "isURL('https://a:1/b?c=d') && url('https://a:1/b?c=d').getScheme() == 'https' && url('https://a:1/b').getPort() == '1'",
        "url('https://a:1/b').getHost() == 'a:1' && url('https://a:1/b').getHostname() == 'a' && url('https://a/b').getEscapedPath() == '/b'",
        "url('https://a/?c=d').getQuery()['c'] == ['d']",
    ])
    .await;
}

#[tokio::test]
async fn cel_040_quantities_and_addresses() {
    all_hold(&[
        "isQuantity('1Ki') && quantity('1Ki').isGreaterThan(quantity('1k')) && quantity('1').isLessThan(quantity('2'))",
        "quantity('2k').asInteger() == 2000 && quantity('1').add(1).sub(quantity('1')).compareTo(quantity('1')) == 0 && quantity('-1').sign() == -1",
        "quantity('1500m').asApproximateFloat() == 1.5 && !quantity('1500m').isInteger()",
        "isIP('10.0.0.1') && ip('::1').isLoopback() && ip('10.0.0.1').family() == 4 && ip('0.0.0.0').isUnspecified()",
        "ip.isCanonical('127.0.0.1') && ip('8.8.8.8').isGlobalUnicast() && isCIDR('10.0.0.0/8') && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')) && cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
    ])
    .await;
}

#[tokio::test]
async fn cel_041_formats_and_versions() {
    all_hold(&[
        "!format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A').value()[0].startsWith('a lowercase RFC 1123 label')",
        "format.named('labelValue').hasValue() && !format.named('nothing').hasValue() && format.uuid().validate('x').hasValue()",
        "semver('1.2.3').major() == 1 && semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('1.0.0-rc.1') && !isSemver('v1.0')",
    ])
    .await;
}

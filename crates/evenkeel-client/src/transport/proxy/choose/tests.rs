use super::*;

fn environment(pairs: &[(&str, &str)]) -> ProxyEnvironment {
    ProxyEnvironment::new(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

fn chosen(proxy: &Proxy, server: &str, pairs: &[(&str, &str)]) -> Option<String> {
    choose(proxy, &ServerUrl::parse(server).unwrap(), &environment(pairs)).unwrap().map(|url| url.host)
}

#[test]
fn trn_020_sec_52_the_configuration_has_priority_over_the_environment() {
    let pairs = [("HTTPS_PROXY", "http://env:1"), ("NO_PROXY", "")];
    let explicit = Proxy::Url(ProxyUrl::parse("http://explicit:1").unwrap());
    assert_eq!(chosen(&explicit, "https://kube", &pairs).as_deref(), Some("explicit"));
    let excepted = [("NO_PROXY", "*")];
    assert_eq!(
        chosen(&explicit, "https://kube", &excepted).as_deref(),
        Some("explicit"),
        "NO_PROXY is the environment's"
    );
    assert_eq!(chosen(&Proxy::Direct, "https://kube", &pairs), None);
    assert_eq!(chosen(&Proxy::Environment, "https://kube", &pairs).as_deref(), Some("env"));
    assert_eq!(chosen(&Proxy::Environment, "https://kube", &[]), None);
}

#[test]
fn trn_020_each_scheme_has_its_variable() {
    let of = |server, pairs: &[_]| chosen(&Proxy::Environment, server, pairs);
    let both = [("HTTPS_PROXY", "http://secure:1"), ("HTTP_PROXY", "http://plain:1")];
    assert_eq!(of("https://kube", &both).as_deref(), Some("secure"));
    assert_eq!(of("http://kube", &both).as_deref(), Some("plain"));
    assert_eq!(of("http://kube", &both[..1]), None);
    let lower = [("https_proxy", "lower:3128"), ("http_proxy", "low")];
    assert_eq!(of("https://kube", &lower).as_deref(), Some("lower"), "a scheme may be left out");
    assert_eq!(of("http://kube", &lower).as_deref(), Some("low"));
    let upper = [("HTTPS_PROXY", "up"), ("https_proxy", "low")];
    assert_eq!(of("https://kube", &upper).as_deref(), Some("up"));
    let blank = [("HTTPS_PROXY", ""), ("https_proxy", "low")];
    assert_eq!(of("https://kube", &blank).as_deref(), Some("low"));
    let cgi = [("HTTP_PROXY", "evil"), ("HTTPS_PROXY", "fine"), ("REQUEST_METHOD", "GET")];
    assert_eq!(of("http://kube", &cgi), None, "inside CGI it comes from the caller");
    assert_eq!(of("https://kube", &cgi).as_deref(), Some("fine"));
}

#[test]
fn trn_020_loopback_never_uses_a_proxy() {
    let pairs = [("HTTPS_PROXY", "http://env:1")];
    for server in
        ["https://localhost", "https://LOCALHOST:6443", "https://127.0.0.1:6443", "https://127.9.9.9", "https://[::1]"]
    {
        assert_eq!(chosen(&Proxy::Environment, server, &pairs), None, "{server}");
    }
    assert!(chosen(&Proxy::Environment, "https://localhost.example.com", &pairs).is_some());
}

#[test]
fn trn_020_no_proxy_is_parsed() {
    for (list, host, port, excepted) in [
        ("*", "a.b", 443, true),
        ("", "a.b", 443, false),
        (",,", "a.b", 443, false),
        ("example.com", "example.com", 443, true),
        ("example.com", "kube.example.com", 443, true),
        ("example.com", "badexample.com", 443, false),
        ("other , Example.COM ", "kube.example.com", 443, true),
        (".example.com", "kube.example.com", 443, true),
        (".example.com", "example.com", 443, false),
        ("*.example.com", "kube.example.com", 443, true),
        ("*.example.com", "example.com", 443, false),
        ("*example.com", "kubeexample.com", 443, false),
        ("example.com:6443", "example.com", 6443, true),
        ("example.com:6443", "example.com", 443, false),
        ("example.com:x", "example.com", 443, false),
        (":443", "example.com", 443, false),
        (".", "example.com", 443, false),
        ("10.0.0.1", "10.0.0.1", 443, true),
        ("10.0.0.1", "10.0.0.11", 443, false),
        ("10.0.0.1:6443", "10.0.0.1", 443, false),
        ("10.0.0.0/8", "10.200.3.4", 443, true),
        ("10.0.0.0/8", "11.0.0.1", 443, false),
        ("10.0.0.0/8", "name.that.resolves.there", 443, false),
        ("0.0.0.0/0", "8.8.8.8", 443, true),
        ("10.0.0.1/32", "10.0.0.1", 443, true),
        ("10.0.0.0/33", "10.0.0.1", 443, false),
        ("10.0.0.0/", "10.0.0.1", 443, false),
        ("fd00::/8", "fd12::1", 443, true),
        ("fd00::/8", "fe80::1", 443, false),
        ("::/0", "fe80::1", 443, true),
        ("::/0", "10.0.0.1", 443, false),
        ("fd00::1", "fd00::1", 443, true),
        ("[fd00::1]:6443", "fd00::1", 6443, true),
        ("[fd00::1]:6443", "fd00::1", 443, false),
        ("[fd00::1]", "fd00::1", 443, true),
        ("[fd00::1", "fd00::1", 443, false),
        ("10.0.0.1", "::ffff:10.0.0.1", 443, true),
    ] {
        assert_eq!(is_excepted(list, host, port), excepted, "{list:?} {host}:{port}");
    }
    assert_eq!(
        chosen(&Proxy::Environment, "https://KUBE.example.com.", &[("HTTPS_PROXY", "p"), ("NO_PROXY", "example.com")]),
        None,
        "case and the dot of the root do not matter"
    );
}

#[test]
fn sec_52_credentials_in_the_environment_are_not_shown() {
    let pairs = [("HTTPS_PROXY", "http://user:canary@/"), ("HTTP_PROXY", "ftp://user:canary@p")];
    let environment = environment(&pairs);
    for server in ["https://kube", "http://kube"] {
        let error = choose(&Proxy::Environment, &ServerUrl::parse(server).unwrap(), &environment).unwrap_err();
        let shown = format!("{error} {error:?} {environment:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}

use super::*;

#[test]
fn kcf_026_proxies_use_http_https_or_socks5() {
    let proxy = |url| ProxyUrl::parse(url).map(|proxy| (proxy.scheme, proxy.host, proxy.port)).ok();
    assert_eq!(proxy("http://p:3128"), Some((ProxyScheme::Http, "p".into(), 3128)));
    assert_eq!(proxy("HTTPS://p/"), Some((ProxyScheme::Https, "p".into(), 443)));
    assert_eq!(proxy("http://p"), Some((ProxyScheme::Http, "p".into(), 80)));
    assert_eq!(proxy("socks5://[::1]"), Some((ProxyScheme::Socks5, "::1".into(), 1080)));
    assert_eq!(proxy("socks5h://p:9"), Some((ProxyScheme::Socks5, "p".into(), 9)));
    for odd in
        ["ftp://p", "p:3128", "http://", "http://p:0", "http://p:99999", "http://p/x", "http://p?x", "http://:1", ""]
    {
        assert_eq!(proxy(odd), None, "{odd}");
    }
}

#[test]
fn kcf_026_credentials_are_decoded_and_never_shown() {
    let proxy = ProxyUrl::parse("http://us%40er:p%3Ass:w@p:1").unwrap();
    let (name, password) = proxy.credentials.clone().unwrap();
    assert_eq!((name.as_str(), password.expose()), ("us@er", "p:ss:w"));
    let shown = format!("{proxy} {proxy:?} {proxy:#?}");
    assert!(!shown.contains("er") && !shown.contains("ss:w"), "{shown}");
    assert_eq!(proxy.to_string(), "http://[redacted]@p:1");
    for odd in ["http://u:canary@", "ftp://u:canary@h", "http://u:canary@h/x", "http://u:can%0aary@h"] {
        let error = ProxyUrl::parse(odd).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("canary") && !shown.contains("ary@"), "{shown}");
    }
}

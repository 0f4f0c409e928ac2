use super::*;

fn shown(host: &str, tls: bool) -> String {
    ServerUrl::guess(host, tls).unwrap().to_string()
}

#[test]
fn cfg_001_the_scheme_is_derived_from_tls_settings() {
    assert_eq!(shown("10.0.0.1", false), "http://10.0.0.1");
    assert_eq!(shown("10.0.0.1:6443", true), "https://10.0.0.1:6443");
    assert_eq!(shown("http://h", true), "http://h", "a scheme that is there stays");
    assert_eq!(shown("HTTPS://h", false), "https://h");
    assert_eq!(shown("[::1]:6443", true), "https://[::1]:6443");
    let url = ServerUrl::guess("[fd00::1]", true).unwrap();
    assert_eq!((url.host(), url.port()), ("fd00::1", 443));
}

#[test]
fn cfg_002_a_bare_host_has_no_path_and_an_empty_one_is_localhost() {
    assert!(ServerUrl::guess("host/server", false).is_err());
    assert_eq!(shown("host/", false), "http://host");
    assert_eq!(shown("", false), "http://localhost");
    for odd in ["///:://localhost", "http://", "https://:443", "ftp://h", "http://h:70000", "http://h:", "http://[::1"]
    {
        assert!(ServerUrl::guess(odd, true).is_err(), "{odd}");
    }
}

#[test]
fn cfg_003_the_path_is_a_prefix_and_query_and_fragment_are_dropped() {
    let url = ServerUrl::parse("https://h:1/a/b/?x=1#y").unwrap();
    assert_eq!((url.base_path(), url.to_string().as_str()), ("/a/b", "https://h:1/a/b"));
    assert_eq!(ServerUrl::parse("https://h/").unwrap().base_path(), "");
}

#[test]
fn cfg_001_credentials_in_the_url_are_refused_and_never_shown() {
    for url in
        ["https://u:canary@h/", "u:canary@h", "https://u:can@ary@h?canary", "https://canary@[::1", "x@canary://h"]
    {
        let error = ServerUrl::guess(url, true).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("canary") && !shown.contains("u:can"), "{shown}");
    }
}

#[test]
fn sec_15_loopback_names_and_addresses_are_recognised() {
    for (host, local) in [
        ("localhost", true),
        ("LOCALHOST.", true),
        ("a.localhost", true),
        ("127.8.8.8", true),
        ("[::1]", true),
        ("[::ffff:127.0.0.1]", true),
        ("localhost.example.com", false),
        ("10.0.0.1", false),
        ("0.0.0.0", false),
    ] {
        assert_eq!(ServerUrl::guess(host, false).unwrap().is_loopback(), local, "{host}");
    }
}

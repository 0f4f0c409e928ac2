use super::*;

const MANY: &str = "
mine: kept
clusters: [{name: a, cluster: {server: https://a}}, {name: b}]
users: [{name: a, user: {token: t}}, {name: b}]
contexts: [{name: a, context: {cluster: a, user: a}}, {name: b, context: {cluster: b, user: gone}}]
current-context: a
";

#[test]
fn kcf_056_minify_keeps_the_current_context() {
    let mut config = Kubeconfig::parse(MANY).unwrap();
    let small = config.minify().unwrap();
    assert_eq!(small.clusters.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(small.users.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(small.contexts.keys().collect::<Vec<_>>(), ["a"]);
    assert!(small.rest.contains_key("mine"));
    for wrong in [None, Some("none"), Some("b")] {
        config.current_context = wrong.map(str::to_owned);
        assert!(config.minify().is_err(), "{wrong:?}");
    }
}

#[test]
fn kcf_056_flatten_inlines_files() {
    let folder = Folder::new();
    let [ca, cert, key] = ["ca", "cert", "key"].map(|name| folder.put(name, name).display().to_string());
    let cluster = format!("certificate-authority: {ca}");
    let user = format!("client-certificate: {cert}\nclient-key: {key}\ntokenFile: /t");
    let mut config = Kubeconfig::parse(&one(&cluster, &user)).unwrap();
    config.flatten().unwrap();
    let (cluster, user) = (&config.clusters["it"], &config.users["it"]);
    assert_eq!(cluster.certificate_authority_data.as_ref().unwrap().expose(), b"ca");
    assert_eq!(user.client_certificate_data.as_ref().unwrap().expose(), b"cert");
    assert_eq!(user.client_key_data.as_ref().unwrap().expose(), b"key");
    assert_eq!((&cluster.certificate_authority, &user.client_certificate, &user.client_key), (&None, &None, &None));
    assert_eq!(user.token_file, Some("/t".into()));
    for wrong in ["certificate-authority: /none", "certificate-authority: /x\ncertificate-authority-data: Y2E="] {
        let mut config = Kubeconfig::parse(&one(wrong, "{}")).unwrap();
        let before = config.clone();
        assert!(config.flatten().is_err(), "{wrong}");
        assert_eq!(config, before);
    }
}

#[test]
fn kcf_056_flatten_is_atomic() {
    let folder = Folder::new();
    let ca = folder.put("ca", &"x".repeat((8 << 20) + 1));
    let mut config = Kubeconfig::parse(&one(&format!("certificate-authority: {}", ca.display()), "{}")).unwrap();
    let error = config.flatten().unwrap_err();
    assert!(matches!(&error, ConfigError::Read { path, .. } if *path == ca), "{error}");
}

#[test]
fn kcf_056_shorten_leaves_no_secret() {
    let text = "
mine: canary
extensions: [{name: e, extension: {k: canary}}]
clusters:
- name: c
  mine: canary
  cluster:
    server: 'https://u:canary@h'
    proxy-url: 'http://u:canary@p'
    certificate-authority-data: Y2FuYXJ5
    mine: [canary]
    extensions: [{name: e, extension: canary}]
contexts: [{name: x, mine: canary, context: {cluster: c, mine: canary, extensions: [{name: e, extension: canary}]}}]
users:
- name: u
  mine: canary
  user:
    token: canary
    username: shown
    password: canary
    client-key-data: Y2FuYXJ5
    client-certificate-data: Y2FuYXJ5
    mine: canary
    extensions: [{name: e, extension: canary}]
    exec: {command: shown, args: [canary], env: [{name: n, value: canary, mine: canary}], mine: canary}
    auth-provider: {name: n, config: {k: canary}, mine: canary}
";
    let mut config = Kubeconfig::parse(text).unwrap();
    config.shorten();
    let short = config.to_yaml().unwrap();
    let short = short.expose();
    assert!(!short.contains("canary") && !short.contains("Y2FuYXJ5"), "{short}");
    assert_eq!(short.matches("DATA+OMITTED").count(), 3, "{short}");
    assert_eq!(short.matches("REDACTED").count(), text.matches("canary").count(), "{short}");
    assert_eq!(short.matches("shown").count(), 2, "{short}");
}

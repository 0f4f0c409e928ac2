use super::*;

#[test]
fn arc_4_kubeconfig_is_yaml_that_names_server_and_credentials() {
    let text =
        Kubeconfig { server: "https://127.0.0.1:6443", ca_pem: Some("PEM"), credential: Credential::Token("a\"b: #c") }
            .render();
    let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(value["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
    assert_eq!(value["clusters"][0]["cluster"]["certificate-authority-data"], "UEVN");
    assert_eq!(value["users"][0]["user"]["token"], "a\"b: #c");
    assert_eq!(value["current-context"], "evenkeel");
}

#[cfg(unix)]
#[test]
fn sec_8_kubeconfig_is_private_and_replaced_whole() {
    use std::os::unix::fs::PermissionsExt;
    let directory = std::env::temp_dir().join(format!("evenkeel-kubeconfig-{}", std::process::id()));
    let path = directory.join("sub").join("config");
    write_private(&path, "one").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    write_private(&path, "two").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    std::fs::remove_dir_all(&directory).unwrap();
}

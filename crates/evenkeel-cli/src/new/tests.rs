use super::*;

fn names(name: &str, group: &str, kind: Option<&str>) -> Result<Names, String> {
    Names::new(name.to_owned(), group.to_owned(), kind.map(str::to_owned)).map_err(|error| error.to_string())
}

fn rendered(dependency: &Dependency) -> Vec<(&'static str, String)> {
    templates::render(&names("shop-operator", "example.com", None).unwrap(), dependency)
}

#[test]
fn scf_001_a_project_has_ten_files() {
    let files = rendered(&Dependency::Git("https://example.com/evenkeel".to_owned()));
    assert!(files.len() <= 10, "{}", files.len());
    for (path, text) in &files {
        assert!(!text.contains("{{") && !text.contains("}}"), "{path} has a placeholder");
        assert!(text.ends_with('\n'), "{path}");
    }
    let text = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_str()).unwrap();
    assert!(text("src/kind.rs").contains("pub struct ShopSpec"));
    assert!(text("Cargo.toml").contains("evenkeel = { git = \"https://example.com/evenkeel\", features = ["));
    assert!(!text("Dockerfile").contains("make it a git dependency"));
}

#[test]
fn scf_008_the_image_is_static_without_a_shell_and_with_a_plain_user() {
    let files = rendered(&Dependency::Path("/src/even\"keel".into()));
    let text = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_str()).unwrap();
    let stages: Vec<&str> = text("Dockerfile").lines().filter(|line| line.starts_with("FROM ")).collect();
    assert!(stages.len() == 2 && stages[0].contains("-alpine ") && stages[1] == "FROM scratch", "{stages:?}");
    assert!(text("Dockerfile").contains("\nUSER 65532:65532\n"));
    assert!(text("Dockerfile").contains("make it a git dependency"), "a path is not in the context of a build");
    assert!(text("Cargo.toml").contains(r#"evenkeel = { path = "/src/even\"keel/crates/evenkeel""#));
}

#[test]
fn scf_001_the_kind_comes_from_the_name() {
    let kind = |name: &str| names(name, "example.com", None).map(|names| names.kind);
    assert_eq!(kind("shop-operator").unwrap(), "Shop");
    assert_eq!(kind("web-site-controller").unwrap(), "WebSite");
    assert_eq!(kind("shop").unwrap(), "Shop");
    let taken = kind("client-operator").unwrap_err();
    assert_eq!(taken, "the name gives the kind \"Client\": the code of the project uses this name; pass --kind KIND");
    assert_eq!(names("client-operator", "example.com", Some("Customer")).unwrap().kind, "Customer");
}

#[test]
fn scf_001_bad_names_say_what_is_allowed() {
    for (name, group, kind, problem) in [
        ("", "example.com", None, "other characters"),
        ("Shop", "example.com", None, "lower case letters"),
        ("../x", "example.com", None, "other characters"),
        ("1shop", "example.com", None, "does not start with a letter"),
        ("shop-", "example.com", None, "ends with a dash"),
        ("evenkeel", "example.com", None, "cargo or Rust use it"),
        ("match", "example.com", None, "cargo or Rust use it"),
        ("shop", "example", None, "such as shop.example.com"),
        ("shop", "Example.com", None, "such as shop.example.com"),
        ("shop", "apps.k8s.io", None, "belongs to Kubernetes"),
        ("shop", "example.com", Some("shop"), "upper camel case"),
        ("shop", "example.com", Some("Shop-1"), "upper camel case"),
        ("shop", "example.com", Some("ShopList"), "lists of others"),
        ("shop", "example.com", Some("Option"), "uses this name"),
    ] {
        let error = names(name, group, kind).unwrap_err();
        assert!(error.contains(problem), "{name} {group} {kind:?}: {error}");
    }
    let long = "a".repeat(41);
    assert!(names(&long, "example.com", None).unwrap_err().contains("longer than 40"));
}

use std::error::Error;

use super::*;

fn parsed(text: &str) -> Result<Vec<(String, User)>, String> {
    parse(text.as_bytes(), Path::new("tokens.csv")).map_err(|error| error.to_string())
}

fn user(name: &str, uid: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.into(), uid: uid.into(), groups, ..User::default() }
}

#[test]
fn aut_14_columns_are_token_user_uid_and_groups() {
    let text = "t1,alice,1\nt2,bob,2,\"devs,ops\"\r\n\nt3,\"carol \"\"c\"\"\",,admins,ignored\n";
    let expected = vec![
        ("t1".to_owned(), user("alice", "1", &[])),
        ("t2".to_owned(), user("bob", "2", &["devs", "ops"])),
        ("t3".to_owned(), user("carol \"c\"", "", &["admins"])),
    ];
    assert_eq!(parsed(text), Ok(expected));
    assert_eq!(parsed(""), Ok(Vec::new()));
}

#[test]
fn aut_14_an_error_names_the_line_and_shows_no_token() {
    for (text, error) in [
        (
            "t1,alice,1\nsecret,bob\n",
            "line 2 of the token file tokens.csv must have at least 3 columns (token, user name, user uid), found 2",
        ),
        (",alice,1\n", "line 1 of the token file tokens.csv has no token"),
        ("t1,alice,1\n\nsecret,,1\n", "line 3 of the token file tokens.csv has no user name"),
    ] {
        assert_eq!(parsed(text), Err(error.to_owned()));
    }
    let invalid = parse(b"secret,alice,\xff\n", Path::new("tokens.csv")).unwrap_err();
    assert_eq!(invalid.to_string(), "line 1 of the token file tokens.csv is not comma-separated UTF-8 text");
    assert!(invalid.source().is_none() && !format!("{invalid:?}").contains("secret"));
}

#[test]
fn aut_14_only_a_regular_file_of_limited_size_is_read() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read(folder.path()), Err(TokenFileError::NotAFile { .. })));
    assert!(matches!(read(Path::new("/dev/zero")), Err(TokenFileError::NotAFile { .. })));
    assert!(matches!(read(&folder.path().join("none")), Err(TokenFileError::Read { .. })));
    let path = folder.path().join("tokens.csv");
    std::fs::write(&path, "t1,alice,1\n".repeat(100_000)).unwrap();
    assert!(matches!(read(&path), Err(TokenFileError::TooLarge { .. })));
    std::fs::write(&path, "t1,alice,1\n").unwrap();
    assert_eq!(read(&path).unwrap(), [("t1".to_owned(), user("alice", "1", &[]))]);
}
